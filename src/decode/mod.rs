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
    fn from(error: Truncated) -> Self {
        DecodeError::new(DropReason::Malformed, error.to_string())
    }
}

/// Reads the `std_msgs/Header` in front of a message.
///
/// # Errors
/// `BadStamp` for a nanosecond part of a second or more, `Malformed` for a `frame_id` that is not
/// UTF-8 or a message that ends before it.
pub fn header<'a>(reader: &mut Reader<'a>) -> Result<Header<'a>, DecodeError> {
    let (sec, nanosec) = (reader.i32()?, reader.u32()?);
    let stamp = Stamp::from_sec_nanosec(sec, nanosec).ok_or_else(|| {
        let detail = format!("header.stamp.nanosec: expected under 1000000000, found {nanosec}");
        DecodeError::new(DropReason::BadStamp, detail)
    })?;
    let frame_id = std::str::from_utf8(reader.string_bytes()?).map_err(|error| {
        let detail = format!("header.frame_id: expected UTF-8, found {error}");
        DecodeError::new(DropReason::Malformed, detail)
    })?;
    Ok(Header { stamp: (stamp != Stamp::ZERO).then_some(stamp), frame_id })
}
