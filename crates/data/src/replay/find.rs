//! Finds bags in folders.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::bag::Bag;
use crate::file::OutputError;
use crate::recording::Manifest;
use robocache_ops::time::{NANOS_PER_S, Stamp};

/// Finds the bags at these paths. A path is a bag, or a folder in which bags are at any depth. Links to
/// folders are not followed, and results in `out` are no bags.
///
/// A folder with `metadata.yaml` is one bag. Without it, files `NAME_0`, `NAME_1` and so on are the parts of
/// one bag if each begins within a second where the one before ends; any other file is a bag of its own. The folder of a
/// node that was killed is one bag.
///
/// # Errors
/// A path does not exist, or there is no bag at it.
pub fn find_bags(paths: &[PathBuf], out: &Path) -> Result<Vec<PathBuf>, OutputError> {
    let mut bags = Vec::new();
    // In the first run, this folder is missing.
    let out = out.canonicalize().ok();
    for path in paths {
        let before = bags.len();
        // The name of a result is that of its bag, also if the path is `.` or a link.
        let found = path.canonicalize().map_err(OutputError::of(path))?;
        find(&found, out.as_deref(), &mut bags).map_err(OutputError::of(path))?;
        if bags.len() == before {
            let none = std::io::Error::other(
                "expected a bag of rosbag2 (a folder, a .mcap or a .db3 file) or a folder of bags, found none",
            );
            return Err(OutputError { path: path.clone(), source: none });
        }
    }
    // A bag that is named twice, or is in a folder that is named too, is one episode.
    let mut known = HashSet::new();
    bags.retain(|bag| known.insert(bag.clone()));
    Ok(bags)
}

fn find(path: &Path, out: Option<&Path>, bags: &mut Vec<PathBuf>) -> std::io::Result<()> {
    if path.metadata()?.is_file() {
        let is_metadata = path.file_name().is_some_and(|name| name == "metadata.yaml");
        bags.push(path.parent().filter(|_| is_metadata).unwrap_or(path).to_owned());
        return Ok(());
    }
    if out == Some(path) {
        return Ok(());
    }
    let mut entries: Vec<PathBuf> =
        fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    if entries.iter().any(|entry| entry.file_name().is_some_and(|name| name == "metadata.yaml")) {
        bags.push(path.to_owned());
        return Ok(());
    }
    entries.sort_by_key(|entry| numbered(entry));
    let files: Vec<&PathBuf> = entries.iter().filter(|entry| is_storage(entry)).collect();
    match are_parts(&files) {
        _ if is_recording(path, &files) => bags.push(path.to_owned()),
        Parted::One => {
            tracing::warn!(
                "{}: its {} files are the parts of one bag",
                path.display(),
                files.len()
            );
            bags.push(path.to_owned());
        }
        parted => {
            if let Parted::Many(why) = parted {
                tracing::warn!("{}: each file is a bag of its own: {why}", path.display());
            }
            bags.extend(files.into_iter().cloned());
        }
    }
    for folder in entries.iter().filter(|entry| entry.is_dir() && !entry.is_symlink()) {
        find(folder, out, bags)?;
    }
    Ok(())
}

/// True if these are the files of a node's recording, which has no `metadata.yaml` if the node was killed. Its marks are beside
/// them.
fn is_recording(folder: &Path, files: &[&PathBuf]) -> bool {
    let name = folder.file_name().map(|name| name.to_string_lossy().into_owned());
    let is_named = |file: &&PathBuf| {
        let (stem, number) = numbered(file);
        number.is_some() && Some(stem) == name
    };
    files.iter().all(is_named) && Manifest::read(folder).is_ok()
}

/// Relation of the files of a folder without `metadata.yaml`.
enum Parted {
    /// Bags, by their names.
    Apart,
    /// The parts of one bag.
    One,
    /// Bags, although their names have numbers, for this reason.
    Many(String),
}

/// Longest time between the last message of a part and the first one of the next. `rosbag2` splits a bag
/// between two messages; between two episodes is more time.
const BETWEEN_PARTS_NS: i64 = NANOS_PER_S;

/// Finds out if files are the parts of one bag: their names say so, and each continues the one before.
fn are_parts(files: &[&PathBuf]) -> Parted {
    let stem = |file: &Path| numbered(file).1.map(|_| numbered(file).0);
    let Some(first) = files.first().and_then(|file| stem(file)) else { return Parted::Apart };
    if files.len() < 2 || !files.iter().all(|file| stem(file).as_ref() == Some(&first)) {
        return Parted::Apart;
    }
    let mut end: Option<Stamp> = None;
    for (at, file) in files.iter().enumerate() {
        let name = file.file_name().unwrap_or_default().display();
        if numbered(file).1 != Some(at as u64) {
            return Parted::Many(format!("expected number {at}, found {name}"));
        }
        let span = match Bag::open(file) {
            Ok(bag) => bag.span(),
            Err(error) => return Parted::Many(error.to_string()),
        };
        let Some((from, to)) = span else { continue };
        if let Some(end) = end
            && from.since(end).abs() > BETWEEN_PARTS_NS
        {
            let seconds = from.since(end) as f64 / 1e9;
            return Parted::Many(format!(
                "{name} begins {seconds:.1} s after the end of the one before"
            ));
        }
        end = Some(to);
    }
    Parted::One
}

/// True if the name of a file is that of messages.
pub(super) fn is_storage(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = name.strip_suffix(".zstd").or(name.strip_suffix(".zst")).unwrap_or(&name);
    let is_known = [".mcap", ".db3"].iter().any(|known| name.strip_suffix(known).is_some());
    path.is_file() && is_known
}

/// `NAME_12.mcap` as `NAME` and 12; a file without a number comes first.
fn numbered(path: &Path) -> (String, Option<u64>) {
    let name = stem(path);
    match name.rsplit_once('_').map(|(stem, number)| (stem, number.parse())) {
        Some((stem, Ok(number))) => (stem.to_owned(), Some(number)),
        _ => (name, None),
    }
}

/// The name of a bag without what its storage adds.
pub(super) fn stem(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let name = name.strip_suffix(".zstd").or(name.strip_suffix(".zst")).unwrap_or(&name);
    let name = name.strip_suffix(".mcap").or_else(|| name.strip_suffix(".db3")).unwrap_or(name);
    name.to_owned()
}
