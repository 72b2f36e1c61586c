//! A file or a folder under another name until it is complete.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::OutputError;

/// A file that gets its name when it is complete. If it is dropped before, it is removed.
#[derive(Debug)]
pub struct Partial {
    path: PathBuf,
    partial: PathBuf,
    done: bool,
}

impl Partial {
    /// Creates the file. One that an interrupted run left is replaced.
    ///
    /// # Errors
    /// It cannot be created.
    pub fn create(path: &Path) -> Result<(Partial, File), OutputError> {
        let partial = with(path, ".partial");
        let file = File::create(&partial).map_err(OutputError::of(&partial))?;
        Ok((Partial { path: path.to_owned(), partial, done: false }, file))
    }

    /// The final name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives a complete file its name. The bytes are on the disk before the name is, so that a crash of the
    /// machine leaves no half file under it.
    ///
    /// # Errors
    /// It cannot be written or renamed.
    pub fn complete(mut self, file: &File) -> Result<(), OutputError> {
        file.sync_all().map_err(OutputError::of(&self.partial))?;
        fs::rename(&self.partial, &self.path).map_err(OutputError::of(&self.path))?;
        self.done = true;
        Ok(())
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.done {
            // It may be gone already. The caller reports why it was not completed.
            let _ = fs::remove_file(&self.partial);
        }
    }
}

/// A folder that gets its name when it is complete. If it is dropped before, it is removed.
#[derive(Debug)]
pub struct PartialFolder {
    path: PathBuf,
    partial: PathBuf,
    done: bool,
}

impl PartialFolder {
    /// Creates the folder. One that an interrupted run left is replaced.
    ///
    /// # Errors
    /// It cannot be created.
    pub fn create(path: &Path) -> Result<Self, OutputError> {
        PartialFolder::restore(path)?;
        let partial = with(path, ".partial");
        remove(&partial)?;
        fs::create_dir_all(&partial).map_err(OutputError::of(&partial))?;
        Ok(PartialFolder { path: path.to_owned(), partial, done: false })
    }

    /// Gives the older folder its name back if the program ended between the two renames of
    /// [`PartialFolder::complete`]. Removes it if there is a newer one.
    ///
    /// # Errors
    /// It cannot be renamed or removed.
    pub fn restore(path: &Path) -> Result<(), OutputError> {
        let old = with(path, ".old");
        if old.exists() && !path.exists() {
            fs::rename(&old, path).map_err(OutputError::of(&old))?;
        }
        remove(&old)
    }

    /// The folder, until it is complete.
    pub fn partial(&self) -> &Path {
        &self.partial
    }

    /// Gives a complete folder, whose files are on the disk, its name. One that has it is removed.
    ///
    /// # Errors
    /// It cannot be renamed.
    pub fn complete(mut self) -> Result<(), OutputError> {
        let old = with(&self.path, ".old");
        // No half of a folder may have the name, so the older one loses it at once.
        if self.path.exists() {
            fs::rename(&self.path, &old).map_err(OutputError::of(&self.path))?;
        }
        fs::rename(&self.partial, &self.path).map_err(OutputError::of(&self.path))?;
        self.done = true;
        if let Some(parent) = self.path.parent() {
            let synced = File::open(parent).and_then(|parent| parent.sync_all());
            synced.map_err(OutputError::of(parent))?;
        }
        remove(&old)
    }
}

impl Drop for PartialFolder {
    fn drop(&mut self) {
        if !self.done {
            // As for a file.
            let _ = fs::remove_dir_all(&self.partial);
        }
    }
}

/// A path with an ending.
fn with(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// Removes a folder if it is there.
pub fn remove(folder: &Path) -> Result<(), OutputError> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(OutputError::of(folder)(error))
        }
        _ => Ok(()),
    }
}
