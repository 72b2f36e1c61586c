//! The marks of an episode: what a person or a program noted while it was recorded.

use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// The file of a recording's marks. The recording has them as events, too.
const FILE: &str = "marks.json";
/// The mark of an episode that is not wanted.
pub const DISCARD: &str = "discard";

/// A note in a recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// When, on the node's clock \[ns\]; `None` before it runs.
    pub at_ns: Option<i64>,
    /// Subject of the mark, such as `success`.
    pub name: String,
    /// Its value, in words.
    pub value: String,
}

impl Mark {
    /// Reads the marks of a recording, whose folder this is. A bag without any has none.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(recording: &Path) -> io::Result<Vec<Mark>> {
        match fs::read(recording.join(FILE)) {
            Ok(text) => Ok(serde_json::from_slice(&text)?),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                Ok(Vec::new())
            }
            Err(error) => Err(error),
        }
    }

    /// True if the marks say that the episode is not wanted. A later mark may take that back.
    pub fn discard(marks: &[Mark]) -> bool {
        let newest = marks.iter().rev().find(|mark| mark.name == DISCARD);
        newest.is_some_and(|mark| !["false", "0", "no"].contains(&mark.value.as_str()))
    }

    /// Writes the marks of a recording. A program that ends meanwhile leaves the ones before.
    pub(super) fn write(marks: &[Mark], recording: &Path) -> io::Result<()> {
        let partial = recording.join(format!("{FILE}.partial"));
        fs::write(&partial, serde_json::to_vec_pretty(marks)?)?;
        fs::rename(partial, recording.join(FILE))
    }
}
