//! Serialized messages to borrowed views.
//!
//! Live subscriptions and bags hand over the same thing, a message's CDR bytes, so this one
//! decoder serves both. Views borrow from those bytes and have been checked against them: a
//! backend can index a view without looking at the message again.

pub mod cloud;
pub mod image;
pub mod vector;

use crate::cdr::{Reader, Truncated};
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

impl From<Truncated> for DecodeError {
    fn from(truncated: Truncated) -> Self {
        DecodeError::new(DropReason::Malformed, truncated.to_string())
    }
}

/// Reads a `std_msgs/Header`. A zero stamp is no stamp; a stamp whose nanoseconds make a second or
/// more, and a `frame_id` that is not UTF-8, are errors.
pub fn header<'a>(reader: &mut Reader<'a>) -> Result<Header<'a>, DecodeError> {
    let (sec, nanosec) = (reader.i32()?, reader.u32()?);
    let stamp = Stamp::from_sec_nanosec(sec, nanosec).ok_or_else(|| {
        DecodeError::new(
            DropReason::BadStamp,
            format!("header.stamp.nanosec: expected less than 1000000000, found {nanosec}"),
        )
    })?;
    let frame_id = std::str::from_utf8(reader.string_bytes()?).map_err(|error| {
        DecodeError::new(
            DropReason::Malformed,
            format!("header.frame_id: expected UTF-8, found {error}"),
        )
    })?;
    Ok(Header { stamp: (stamp != Stamp::ZERO).then_some(stamp), frame_id })
}
