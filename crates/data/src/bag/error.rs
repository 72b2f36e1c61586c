//! Errors of a bag.

use std::fmt;
use std::path::{Path, PathBuf};

/// Why a bag or one of its files cannot be read at all.
#[derive(Debug, thiserror::Error)]
pub enum BagError {
    /// The operating system says no.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// There is no bag.
    #[error("{}: expected a bag of rosbag2 (a folder, a .mcap or a .db3 file), found {found}", path.display())]
    NoBag {
        /// The file or folder.
        path: PathBuf,
        /// Description of what is there instead.
        found: String,
    },
    /// The file is not what its name says.
    #[error("{}: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Expected and found.
        what: String,
    },
}

impl BagError {
    pub(super) fn io(path: &Path) -> impl FnOnce(std::io::Error) -> BagError {
        let path = path.to_owned();
        move |source| BagError::Io { path, source }
    }

    pub(super) fn damaged(path: &Path, what: impl Into<String>) -> BagError {
        BagError::Damaged { path: path.to_owned(), what: what.into() }
    }
}

/// Something of a bag that could not be read. The rest was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file.
    pub path: PathBuf,
    /// Loss and its cause, in words.
    pub what: String,
    /// True if the system could not read the file, rather than that the file is damaged. It may be whole, so what was
    /// read of it must not pass for all.
    pub unreadable: bool,
}

impl Problem {
    /// Damage of a file.
    pub fn damage(path: &Path, what: impl Into<String>) -> Problem {
        Problem { path: path.to_owned(), what: what.into(), unreadable: false }
    }
}

/// The problems of a bag that is read. Only the first are kept, because damaged messages may be many.
#[derive(Clone, Debug, Default)]
pub struct Problems {
    /// The first.
    pub first: Vec<Problem>,
    /// How many more there were.
    pub more: u64,
    /// True if at least one problem is [`Problem::unreadable`].
    pub unreadable: bool,
}

impl Problems {
    /// Problems that are kept.
    const KEPT: usize = 32;

    /// Adds one.
    pub fn push(&mut self, problem: Problem) {
        let says_why = problem.unreadable && !self.unreadable;
        self.unreadable |= problem.unreadable;
        // What ends the reading is always told.
        match self.first.len() < Self::KEPT || says_why {
            true => self.first.push(problem),
            false => self.more += 1,
        }
    }

    /// Adds those of another reading of the same bag, but not those that are known.
    pub fn join(&mut self, others: Problems) {
        self.more += others.more;
        let unreadable = others.unreadable;
        for problem in others.first {
            if !self.first.contains(&problem) {
                self.push(problem);
            }
        }
        self.unreadable |= unreadable;
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.what)
    }
}

impl From<BagError> for Problem {
    fn from(error: BagError) -> Self {
        match error {
            BagError::Damaged { path, what } => Problem { path, what, unreadable: false },
            BagError::Io { path, source } => {
                Problem { path, what: source.to_string(), unreadable: true }
            }
            BagError::NoBag { path, found } => Problem { path, what: found, unreadable: false },
        }
    }
}

#[cfg(test)]
mod tests;
