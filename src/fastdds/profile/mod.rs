//! Gives Fast DDS a profile with a shared-memory segment that holds this process's messages.
//!
//! Fast DDS's default segment has half a megabyte, and most messages as large as an image or a
//! tensor are lost. The segment of the *publisher* counts: for the tensors it is that of this node.
//!
//! Fast DDS reads the profile from a file that the environment names, when the first node of the
//! process begins. A process with threads cannot safely change its environment, and ROS's tracing
//! starts threads before `main`. So [`ensure`] replaces the process by the same program, with the
//! name of a file that does not exist yet. [`write`] makes the file as soon as the size of the
//! messages is known. Its drop removes the file, when the node has begun.

mod choice;

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use super::shared_memory::{FOLDER, free_bytes, segments};
use choice::{Choice, Surroundings, VARIABLES};
use robocache_core::config::describe::shared_memory::{least_segment, segment_bytes};
use robocache_rcl::Middleware;

use crate::middleware::files;

/// robocache's profile as it is installed, for the drivers of cameras and lidars.
const PROFILE: &str = include_str!("../../../config/fastdds.xml");
/// Tags around the size of the segment in a profile.
const SEGMENT_TAGS: [&str; 2] = ["<segment_size>", "</segment_size>"];
/// Shared memory that a profile leaves for Fast DDS's ports and default segment \[bytes\].
const LEFT_FREE: u64 = 2 << 20;
/// A message up to this size is sent in one piece, also without shared memory \[bytes\].
const ONE_DATAGRAM: usize = 65_000;

/// Prepares a profile of this process's own, unless the user has chosen a profile or another
/// middleware.
///
/// It replaces the process by the same program with other variables. The program must call it
/// first. If that fails, the process goes on, and [`warning`] warns the user.
pub fn ensure() {
    if own_path().is_some() || choice().is_some() || !is_fast_dds() {
        return;
    }
    let Ok(program) = std::env::current_exe() else { return };
    let path = format!("{}{}.xml", own_prefix(), nanoseconds());
    let variables = VARIABLES.map(|name| (name, path.as_str()));
    // `exec` returns only if it fails.
    let _ = Command::new(program).args(std::env::args_os().skip(1)).envs(variables).exec();
}

/// The file of this process's own profile. A drop removes it.
#[must_use]
pub(super) struct WrittenProfile(Option<PathBuf>);

impl Drop for WrittenProfile {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // If it is gone already, nothing is left to do.
            let _ = fs::remove_file(path);
        }
    }
}

/// Writes this process's own profile for messages of `message_bytes` in all: those that it may
/// publish at the same time. Writes nothing if the user has chosen another profile. The caller keeps the
/// result until its node has begun.
///
/// # Errors
/// The file cannot be written.
pub(super) fn write(message_bytes: usize) -> io::Result<WrittenProfile> {
    let Some(path) = own_path() else { return Ok(WrittenProfile(None)) };
    let segment = bounded(segment_bytes(message_bytes) as u64, free_bytes());
    // No other process can put a file or a link in its place: it must be new.
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    let written = WrittenProfile(Some(path));
    file.write_all(with_segment(segment).as_bytes())?;
    Ok(written)
}

/// Warns if messages of `message_bytes` in all do not fit this process's shared memory, whichever
/// profile is in use. `what` names the messages. Call it after the process's node has begun.
pub fn warning(what: &str, message_bytes: usize) -> Option<String> {
    if message_bytes <= ONE_DATAGRAM || !is_fast_dds() {
        return None;
    }
    let segment = segments().into_values().max();
    let least = least_segment(message_bytes) as u64;
    if segment.is_some_and(|bytes| bytes >= least) {
        return None;
    }
    let found = segment.map_or_else(|| "none".to_owned(), |bytes| format!("{bytes} bytes"));
    Some(format!(
        "{what}: {message_bytes} bytes; expected a shared-memory segment of Fast DDS of at least \
         {least} bytes in this process, found {found}: messages will be lost or late; {}",
        remedy(least)
    ))
}

fn is_fast_dds() -> bool {
    Middleware::in_use().is_fast_dds()
}

/// Advice to the user if the segment is too small: it must have at least `least` bytes.
fn remedy(least: u64) -> String {
    let larger = format!("with a segment_size of at least {least}");
    match choice() {
        _ if own_path().is_some() && free_bytes().is_some_and(|free| free > 2 * least) => {
            "start the process with this configuration, because Fast DDS takes its segment then"
                .to_owned()
        }
        _ if own_path().is_some() => format!(
            "make {FOLDER} larger, it has {} bytes free (docker run --shm-size=1g, or \
             --ipc=host)",
            free_bytes().map_or_else(|| "unknown".to_owned(), |bytes| bytes.to_string())
        ),
        Some(Choice::Variable(name)) => {
            format!("unset {name}, or let it name a profile {larger}")
        }
        Some(Choice::LocalFile(file)) => {
            format!("remove {file} from the working folder, or give it a transport {larger}")
        }
        Some(Choice::Middleware) | None => {
            format!(
                "set {} (Fast DDS 3: {}) to a profile {larger}, such as a copy of {}/fastdds.xml",
                VARIABLES[0],
                VARIABLES[1],
                files()
            )
        }
    }
}

/// The user's choice in this process.
fn choice() -> Option<Choice> {
    Surroundings {
        variable: &|name| std::env::var_os(name),
        exists: &|file| Path::new(file).exists(),
        is_ours: &|path: &OsString| fs::read_to_string(path).is_ok_and(|text| text == PROFILE),
    }
    .choice()
}

/// The file of this process's own profile, as [`ensure`] has named it. It keeps the process's id.
fn own_path() -> Option<PathBuf> {
    let path = std::env::var_os(VARIABLES[0])?.into_string().ok()?;
    path.starts_with(&own_prefix()).then(|| PathBuf::from(path))
}

/// The files of profiles are in shared memory too: if that cannot be written, a profile would be for nothing.
fn own_prefix() -> String {
    format!("{FOLDER}/robocache_profile_{}_", std::process::id())
}

/// Differs between containers, which may share memory and process ids.
fn nanoseconds() -> u128 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos()
}

/// Returns robocache's profile with another segment \[bytes\].
fn with_segment(segment: u64) -> String {
    let [open, close] = SEGMENT_TAGS;
    let (before, rest) = PROFILE.split_once(open).unwrap_or((PROFILE, ""));
    let after = rest.split_once(close).map_or("", |(_, after)| after);
    format!("{before}{open}{segment}{close}{after}")
}

/// Limits a segment to what is free: Fast DDS takes all of it at once, and if that fails, it uses no
/// shared memory at all.
fn bounded(wanted: u64, free: Option<u64>) -> u64 {
    let most = free.map_or(u64::MAX, |bytes| bytes.saturating_sub(LEFT_FREE));
    // `segment_size` has 32 bits.
    wanted.min(most).min(u64::from(u32::MAX)).max(1)
}

#[cfg(test)]
mod tests;
