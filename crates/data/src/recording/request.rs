//! Requests to a recorder: begin an episode, end it, note something.

use std::path::PathBuf;
use std::sync::mpsc::SyncSender;

use robocache_ops::time::{Epoch, Stamp};

/// An episode that a user asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EpisodeRequest {
    /// Its name, which its folder gets; empty for the time of its begin.
    pub name: String,
    /// Task of the robot, in words; empty if nobody says so.
    pub task: String,
    /// When it was asked for, on the node's clock, and in which epoch; `None` before the clock runs.
    pub at: Option<(Epoch, Stamp)>,
}

/// A mark that a user asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MarkRequest {
    /// Subject of the mark, such as `success`.
    pub name: String,
    /// Its value, in words.
    pub value: String,
    /// When it was asked for, on the node's clock; `None` before it runs.
    pub at: Option<Stamp>,
}

/// Why a request is not fulfilled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotRecorded {
    /// The recorder records the whole run.
    #[error("the whole run is recorded (record_to): expected the parameter episodes_to")]
    WholeRun,
    /// An episode is under way.
    #[error("an episode is being recorded: {}", .0.display())]
    Recording(PathBuf),
    /// No episode is under way.
    #[error("no episode is being recorded")]
    Idle,
    /// The name of an episode or of a mark cannot be used.
    #[error("name: expected {0}, found '{1}'")]
    Name(&'static str, String),
    /// The folder or a file cannot be written.
    #[error("{0}")]
    Disk(String),
    /// The recorder has ended, or does not answer.
    #[error("the recorder does not answer: the disk is too slow, or the recorder has ended")]
    Silent,
}

/// A request, with the way back for its answer.
pub(super) enum Request {
    Begin(EpisodeRequest, Answer),
    End(Answer),
    Mark(MarkRequest, Answer),
}

/// Takes the folder of the episode, or why there is none.
pub(super) type Answer = SyncSender<Result<PathBuf, NotRecorded>>;

impl EpisodeRequest {
    /// Checks its name.
    ///
    /// # Errors
    /// [`NotRecorded::Name`]
    pub(super) fn check(&self) -> Result<(), NotRecorded> {
        const MOST: usize = 120;
        let is_known = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        if self.name.len() <= MOST && self.name.bytes().all(is_known) {
            return Ok(());
        }
        let expected = "at most 120 letters, digits, '-' and '_'";
        Err(NotRecorded::Name(expected, self.name.clone()))
    }
}

impl MarkRequest {
    /// Checks its name: it becomes that of a column.
    ///
    /// # Errors
    /// [`NotRecorded::Name`]
    pub(super) fn check(&self) -> Result<(), NotRecorded> {
        const MOST: usize = 64;
        let is_known = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if (1..=MOST).contains(&self.name.len()) && self.name.bytes().all(is_known) {
            return Ok(());
        }
        let expected = "1 to 64 letters, digits and '_'";
        Err(NotRecorded::Name(expected, self.name.clone()))
    }
}
