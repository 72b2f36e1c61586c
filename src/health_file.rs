//! A file with the newest report, for a supervisor that must not join ROS to learn whether the node is well: the health
//! check of a container reads it in 6 ms of a processor. A client of `/diagnostics` in rclpy takes 470 ms, and every
//! process of the robot meets it as a new participant.
//!
//! `ROBOCACHE_HEALTH_FILE` names the file. It is part of the environment, not a parameter, because the image sets it for
//! every command that is run in it.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use robocache_runtime::health::{Level, Report};

/// The environment variable that names the file.
const VARIABLE: &str = "ROBOCACHE_HEALTH_FILE";

/// The file. Its age says whether the node still reports.
pub(crate) struct HealthFile {
    path: PathBuf,
    /// True if the newest attempt failed: a full disk is logged once, not each second.
    is_broken: bool,
}

impl HealthFile {
    /// Returns the file that the environment names; `None` if it names none.
    pub(crate) fn of_environment() -> Option<Self> {
        let path = env::var_os(VARIABLE).filter(|path| !path.is_empty())?;
        Some(HealthFile { path: path.into(), is_broken: false })
    }

    /// Replaces the file.
    pub(crate) fn write(&mut self, text: &str) {
        let outcome = replace(&self.path, text);
        if let (Err(error), false) = (&outcome, self.is_broken) {
            tracing::warn!("{VARIABLE}={}: {error}", self.path.display());
        }
        self.is_broken = outcome.is_err();
    }
}

/// Writes the text beside the file, and renames it: a reader sees the old text or the new one.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    fs::write(&new, text)?;
    fs::rename(&new, path)
}

/// The report as text: its level, then a line for each part that is not at OK.
///
/// A part at STALE counts as WARN: nothing comes from its sensor, and the node is well. If a tensor needs that sensor,
/// the part is at ERROR.
pub(crate) fn text(report: &Report) -> String {
    let worst = report.parts.iter().map(|part| judged(part.level)).max();
    let mut text = format!("{}\n", name(worst.unwrap_or(Level::Ok)));
    for part in report.parts.iter().filter(|part| part.level != Level::Ok) {
        // Writing into a string does not fail.
        let _ = writeln!(text, "{} {}: {}", name(part.level), part.part, part.message);
    }
    text
}

fn judged(level: Level) -> Level {
    if level == Level::Stale { Level::Warn } else { level }
}

const fn name(level: Level) -> &'static str {
    match level {
        Level::Ok => "OK",
        Level::Warn => "WARN",
        Level::Error => "ERROR",
        Level::Stale => "STALE",
    }
}

#[cfg(test)]
mod tests;
