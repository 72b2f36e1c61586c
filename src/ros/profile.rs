//! Gives Fast DDS a profile with a larger shared-memory segment.
//!
//! The default segment has half a megabyte, and most messages as large as an image or a tensor are
//! lost. The segment of the *publisher* counts: for the tensors it is that of this node.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The environment variable that this repository sets, and Fast DDS's newer name for it.
const VARIABLES: [&str; 2] = ["FASTRTPS_DEFAULT_PROFILES_FILE", "FASTDDS_DEFAULT_PROFILES_FILE"];
/// Files that Fast DDS reads by itself, if they are in the working folder.
const LOCAL_FILES: [&str; 2] = ["DEFAULT_FASTRTPS_PROFILES.xml", "DEFAULT_FASTDDS_PROFILES.xml"];
/// Path of the profile inside an install prefix.
const INSTALLED: &str = "share/robocache_ros/config/fastdds.xml";
/// Size of Fast DDS's default segment \[bytes\].
const DEFAULT_SEGMENT: usize = 512 << 10;

/// Gives this process robocache's profile, unless the user has chosen a profile or another
/// middleware.
///
/// The middleware reads the environment, which a running process cannot safely change. So this
/// function replaces the process by the same program with the variable set. The program must call
/// it first.
pub fn ensure() {
    if chosen() {
        return;
    }
    let (Some(profile), Ok(program)) = (installed(), std::env::current_exe()) else { return };
    // `exec` returns only if it fails. Then the node goes on, and `warn_of` warns the user.
    let _ =
        Command::new(program).args(std::env::args_os().skip(1)).env(VARIABLES[0], profile).exec();
}

/// Warns if tensors of this size \[bytes\] are too large for Fast DDS's default segment.
pub fn warn_of(tensor_bytes: usize) {
    if tensor_bytes * 2 > DEFAULT_SEGMENT && !chosen() {
        tracing::warn!(
            "a tensor has {tensor_bytes} bytes, but Fast DDS's default shared memory has only \
             {DEFAULT_SEGMENT}: most tensors will be lost; set {}={}",
            VARIABLES[0],
            hint(),
        );
    }
}

/// Returns the profile's path, for messages to the user.
pub fn hint() -> String {
    installed().map_or_else(
        || "<robocache_ros>/config/fastdds.xml".to_owned(),
        |path| path.display().to_string(),
    )
}

/// Whether the user has chosen a profile, or another middleware.
fn chosen() -> bool {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let other_middleware = std::env::var("RMW_IMPLEMENTATION")
        .is_ok_and(|name| !name.is_empty() && !name.starts_with("rmw_fastrtps"));
    other_middleware
        || VARIABLES.iter().any(|name| set(name))
        || LOCAL_FILES.iter().any(|file| Path::new(file).exists())
}

/// Returns the installed profile: from the sourced workspace, else from the program's own prefix.
fn installed() -> Option<PathBuf> {
    let sourced = std::env::var_os("AMENT_PREFIX_PATH").unwrap_or_default();
    let sourced: Vec<PathBuf> = std::env::split_paths(&sourced).collect();
    let program = std::env::current_exe().ok();
    let around = program.iter().flat_map(|program| program.ancestors().skip(1).take(3));
    let mut prefixes = sourced.iter().map(PathBuf::as_path).chain(around);
    prefixes.find_map(|prefix| Some(prefix.join(INSTALLED)).filter(|file| file.is_file()))
}
