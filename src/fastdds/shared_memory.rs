//! Shared memory that Fast DDS has made for this process, as Linux shows it.
//!
//! Fast DDS has a file in /dev/shm for each *segment*, which holds what the process publishes, and for each *port*,
//! through which it receives. The owner keeps a locked file open beside each: its name and `_el`.
//!
//! A publisher that takes a port's owner for dead removes the name of the port, and makes a new port of this name. If the
//! owner opens that one, and another publisher removes it at the same moment, then the owner listens on a port that nobody
//! finds by its name. Linux shows such a mapping as `(deleted)`. While the owner opens its port again, which takes a third
//! of a second, it looks the same.
//!
//! There is one more port, for multicast, which all participants of a domain read together. Beside it is a file whose name
//! ends with `_sl`. Its loss is no evidence: Fast DDS sends only announcements there (`SharedMemTransport::select_locators`
//! takes no multicast locator), and it sends them by UDP too. All that cuts a process off goes through ports of its own.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use robocache_link::LostPort;

/// Folder of shared memory in Linux.
pub(super) const FOLDER: &str = "/dev/shm";
/// At the end of what /proc shows for a file without a name.
const DELETED: &str = " (deleted)";

/// Free shared memory \[bytes\]; `None` if unknown.
pub(super) fn free_bytes() -> Option<u64> {
    let found = rustix::fs::statvfs(FOLDER).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

/// The sizes of this process's segments \[bytes\], by their names.
pub(super) fn segments() -> BTreeMap<String, u64> {
    let owned = owned().unwrap_or_default();
    let segments = owned.into_iter().filter(|name| !is_port(name));
    let sized = |name: String| {
        let bytes = fs::metadata(Path::new(FOLDER).join(&name)).ok()?.len();
        Some((name, bytes))
    };
    segments.filter_map(sized).collect()
}

/// Says what a new connection lacks, if Fast DDS had no room for another segment as large as that of the one before.
/// `before` and `now` are the segments of the process. Fast DDS then uses no shared memory for the new connection.
pub(super) fn lacking_since(
    before: &BTreeMap<String, u64>,
    now: &BTreeMap<String, u64>,
) -> Option<String> {
    let expected = before.values().max()?;
    let new = now.iter().filter(|(name, _)| !before.contains_key(*name));
    if new.map(|(_, bytes)| bytes).max() >= Some(expected) {
        return None;
    }
    let free = free_bytes().map_or_else(|| "unknown".to_owned(), |bytes| bytes.to_string());
    Some(format!(
        "the new connection to the middleware has no shared memory: expected {expected} bytes free in {FOLDER} for a \
         second segment, found {free}; from now on all messages of this node go by UDP, which costs time and may lose \
         large ones; make {FOLDER} larger and start the node again"
    ))
}

/// Lists the ports of this process that no publisher finds.
///
/// # Errors
/// /proc cannot be read, or somebody has removed segments too: then a new connection finds no publisher either.
pub(crate) fn lost_ports() -> io::Result<Vec<LostPort>> {
    let owned = owned()?;
    if !owned.iter().any(|name| is_port(name)) {
        return Ok(Vec::new());
    }
    let maps = fs::read("/proc/self/maps")?;
    let inode_of = |path: &Path| fs::metadata(path).ok().map(|found| found.ino());
    lost(&owned, &String::from_utf8_lossy(&maps), inode_of)
}

/// True for the name of a port, false for that of a segment.
fn is_port(name: &str) -> bool {
    name.contains("_port")
}

/// Names of the segments and ports that this process owns.
fn owned() -> io::Result<Vec<String>> {
    let open_files = fs::read_dir("/proc/self/fd")?;
    let targets = open_files.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    Ok(targets.filter_map(owned_by).collect())
}

/// The name of the segment or port to which an open file belongs.
fn owned_by(open_file: PathBuf) -> Option<String> {
    let path = open_file.to_str()?;
    let path = path.strip_suffix(DELETED).unwrap_or(path);
    let name = Path::new(path).strip_prefix(FOLDER).ok()?.to_str()?.strip_suffix("_el")?;
    // Fast DDS 2: fastrtps_; 3: fastdds_.
    name.starts_with("fast").then(|| name.to_owned())
}

/// Lists the `owned` ports whose name leads to none of their files in `maps`. `inode_of` says where a path leads.
///
/// # Errors
/// A segment is lost too. Publishers remove only ports.
fn lost(
    owned: &[String],
    maps: &str,
    inode_of: impl Fn(&Path) -> Option<u64>,
) -> io::Result<Vec<LostPort>> {
    let mapped = |line| {
        let (name, inode) = mapped_by(line)?;
        owned.iter().any(|owned| owned == name).then_some((name, inode))
    };
    // A port to which this process also sends may be mapped several times, and one of them may be that of an owner before.
    let mut files: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for (name, inode) in maps.lines().filter_map(mapped) {
        files.entry(name).or_default().push(inode);
    }
    files.retain(|name, inodes| {
        let named = inode_of(&Path::new(FOLDER).join(name));
        named.is_none_or(|named| !inodes.contains(&named))
    });
    if let Some(segment) = files.keys().find(|name| !is_port(name)) {
        return Err(io::Error::other(format!(
            "somebody has removed the file {segment} of this process from {FOLDER} (as RemoveIPC=yes of systemd does); \
             start the publishers again, then this node"
        )));
    }
    let mut lost: Vec<u64> = files.into_values().flatten().collect();
    lost.sort_unstable();
    lost.dedup();
    Ok(lost.into_iter().map(LostPort).collect())
}

/// The name and the inode of a file in shared memory, by its line in /proc/self/maps.
fn mapped_by(line: &str) -> Option<(&str, u64)> {
    // Addresses, permissions, offset, device, inode, path.
    let inode = line.split_whitespace().nth(4)?;
    let path = &line[line.find(FOLDER)?..];
    let path = path.strip_suffix(DELETED).unwrap_or(path);
    Some((Path::new(path).file_name()?.to_str()?, inode.parse().ok()?))
}

#[cfg(test)]
mod tests;
