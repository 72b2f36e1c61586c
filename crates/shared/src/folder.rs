//! The folder of the engine, and who may write what it leads to.
//!
//! The engine finds services by files in a folder, and maps memory that these files name. It follows offsets in this memory,
//! so whoever can write it can write into this process. The engine asks nobody for the owner. So each process asks before it
//! joins: folder and memory must belong to one user, and nobody else may write them.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;

use iceoryx2::prelude::{Config, FileName, SemanticString};

use super::SharedError;
use super::room;

/// The bits of a mode that let the group or others write.
const OTHERS_WRITE: u32 = 0o022;
/// End of the name of the engine's count of its nodes. Others may write it, but it is a number, without offsets.
const NUMBER: &str = ".global_mgmt";
/// The user id of root.
const ROOT: u32 = 0;

/// The engine's configuration for this process. The folder and the memory were looked at.
///
/// # Errors
/// [`SharedError::Folder`] or [`SharedError::Memory`]
pub(crate) fn config() -> Result<Config, SharedError> {
    // Not the configuration of a file in a working folder: both sides must have the same.
    let mut config = Config::default();
    let folder = config.global.root_path().to_string();
    let user = nix::unistd::geteuid().as_raw();
    check(Path::new(&folder), user)?;
    // A name of its own for each user: a file of another user with this name is no accident.
    let prefix = prefix_of(user);
    check_memory(Path::new(room::FOLDER), &prefix, user)?;
    config.global.prefix = FileName::new(prefix.as_bytes()).unwrap_or(config.global.prefix);
    Ok(config)
}

/// Begin of the names of a user's files in shared memory.
fn prefix_of(user: u32) -> String {
    format!("iox2_{user}_")
}

/// Makes the folder, or looks at the one that is there. `user` is the effective user, who must own it. That holds for root,
/// too: the engine gives what root makes to root alone, so the node of another user could not serve a reader that is root.
fn check(folder: &Path, user: u32) -> Result<(), SharedError> {
    // With a slash behind it, a link would be followed.
    let folder = folder.components().as_path();
    let refused =
        |found: String| SharedError::Folder { folder: folder.display().to_string(), found };
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(why) if why.kind() != io::ErrorKind::AlreadyExists => {
            return Err(refused(format!("that it cannot be made ({why})")));
        }
        _ => {}
    }
    // Not through a link: its target may change between this look and the engine's.
    let found = fs::symlink_metadata(folder).map_err(|why| refused(why.to_string()))?;
    let owner = found.uid();
    let mode = found.mode() & 0o7777;
    if !found.is_dir() {
        let what = if found.file_type().is_symlink() { "a link" } else { "no folder" };
        return Err(refused(what.to_owned()));
    }
    if owner != user {
        return Err(refused(format!("one of user {owner} while this process is of user {user}")));
    }
    if mode & OTHERS_WRITE != 0 {
        return Err(refused(format!("one that others may write (mode {mode:o})")));
    }
    Ok(())
}

/// Looks for files in shared memory that have the names of this user's files, but are of somebody else than this user or root.
fn check_memory(folder: &Path, prefix: &str, user: u32) -> Result<(), SharedError> {
    let failed =
        |why: io::Error| SharedError::failed("shared memory", "look into its folder")(&why);
    for file in fs::read_dir(folder).map_err(failed)? {
        let file = file.map_err(failed)?;
        if !file.file_name().as_bytes().starts_with(prefix.as_bytes()) {
            continue;
        }
        let found = match fs::symlink_metadata(file.path()) {
            Ok(found) => found,
            // Its process has just ended.
            Err(why) if why.kind() == io::ErrorKind::NotFound => continue,
            Err(why) => return Err(failed(why)),
        };
        let is_of_others = ![user, ROOT].contains(&found.uid()) || found.file_type().is_symlink();
        let is_number = file.file_name().as_bytes().ends_with(NUMBER.as_bytes());
        if is_of_others || (found.mode() & OTHERS_WRITE != 0 && !is_number) {
            let file = file.path().display().to_string();
            let by = found.uid();
            return Err(SharedError::Memory { file, by, mode: found.mode() & 0o7777, user });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
