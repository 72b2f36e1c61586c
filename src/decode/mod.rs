//! Serialized messages to borrowed views.
//!
//! Live subscriptions and bags hand over the same thing, a message's CDR bytes, so this one
//! decoder serves both. Views borrow from those bytes and have been checked against them: a
//! backend can index a view without looking at the message again.

pub mod cloud;
pub mod image;
pub mod vector;

use crate::stats::DropReason;
use crate::time::Stamp;

/// The `std_msgs/Header` of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header<'a> {
    /// `None` where the stamp is zero ("not set").
    pub stamp: Option<Stamp>,
    /// Frame of the data.
    pub frame_id: &'a str,
}

/// Why a message could not become a row. The message is dropped and counted under
/// [`DecodeError::reason`].
#[derive(Debug, thiserror::Error, PartialEq)]
#[error("{detail}")]
pub struct DecodeError {
    /// What it is counted as.
    pub reason: DropReason,
    /// Expected and found, for the log.
    pub detail: String,
}

impl DecodeError {
    /// An error counted as `reason`.
    pub fn new(reason: DropReason, detail: impl Into<String>) -> Self {
        DecodeError { reason, detail: detail.into() }
    }
}
