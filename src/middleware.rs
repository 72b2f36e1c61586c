//! Names and messages of the node about the middleware in use.

use std::path::{Path, PathBuf};

use robocache_link::Middleware;
use robocache_runtime::health::{self, Names};

/// Folder of robocache's files for a middleware inside an install prefix.
const INSTALLED: &str = "share/robocache_ros/config";

/// Names that the monitor needs. `topics` are the full names of the inputs' topics.
pub(crate) fn names(middleware: &Middleware, topics: Vec<String>) -> Names {
    let middleware = middleware.name.clone();
    let remedy = health::remedy(&middleware, &files());
    Names { topics, middleware, remedy }
}

/// Says that nobody counts lost messages, if the middleware in use does not number them.
pub(crate) fn say_what_it_lacks(middleware: &Middleware) {
    if !middleware.numbers_messages {
        tracing::info!(
            "{} does not count lost messages: `missing` in the diagnostics is a guess by the stamps",
            middleware.name
        );
    }
}

/// Returns the folder of robocache's files for a middleware, for messages to the user.
pub(crate) fn files() -> String {
    installed()
        .map_or_else(|| "<robocache_ros>/config".to_owned(), |folder| folder.display().to_string())
}

/// Returns the installed folder: of the sourced workspace, else of the program's own prefix.
fn installed() -> Option<PathBuf> {
    let sourced = std::env::var_os("AMENT_PREFIX_PATH").unwrap_or_default();
    let sourced: Vec<PathBuf> = std::env::split_paths(&sourced).collect();
    let program = std::env::current_exe().ok();
    let around = program.iter().flat_map(|program| program.ancestors().skip(1).take(3));
    let mut prefixes = sourced.iter().map(PathBuf::as_path).chain(around);
    prefixes.find_map(|prefix: &Path| Some(prefix.join(INSTALLED)).filter(|folder| folder.is_dir()))
}
