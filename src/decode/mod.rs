//! Serialized messages to borrowed views.
//!
//! Live subscriptions and bags hand over the same thing, a message's CDR bytes, so this one
//! decoder serves both. Views borrow from those bytes and have been checked against them: a
//! backend can index a view without looking at the message again.

pub mod cloud;
pub mod image;
pub mod vector;

use crate::cdr::{CdrError, Reader};
use crate::stats::DropReason;
use crate::time::Stamp;

/// Names of a message that an error lists: a message may declare thousands.
const NAMES_LOGGED: usize = 32;
/// Bytes of such a name that an error shows.
const NAME_LOGGED: usize = 64;

/// The `std_msgs/Header` of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header<'a> {
    /// When the sensor measured, or why that is not known. Not an error of the message: under
    /// `timeline: receive` nobody asks.
    pub stamp: Result<Stamp, StampError>,
    /// Frame of the data.
    pub frame_id: &'a str,
}

/// Why a header's stamp is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StampError {
    /// "Not set".
    #[error("header.stamp: expected the time of measurement, found zero")]
    Zero,
    /// The nanosecond part is a second or more.
    #[error("header.stamp.nanosec: expected under 1000000000, found {0}")]
    Nanosec(u32),
}

impl From<StampError> for DecodeError {
    fn from(error: StampError) -> Self {
        let reason = match error {
            StampError::Zero => DropReason::ZeroStamp,
            StampError::Nanosec(_) => DropReason::BadStamp,
        };
        DecodeError::new(reason, error.to_string())
    }
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

impl From<CdrError> for DecodeError {
    fn from(error: CdrError) -> Self {
        DecodeError::new(DropReason::Malformed, error.to_string())
    }
}

/// Reads the `std_msgs/Header` in front of a message.
///
/// # Errors
/// `Malformed` for a `frame_id` that is not UTF-8 or a message that ends before it.
pub fn header<'a>(reader: &mut Reader<'a>) -> Result<Header<'a>, DecodeError> {
    let (sec, nanosec) = (reader.i32()?, reader.u32()?);
    let stamp = match Stamp::from_sec_nanosec(sec, nanosec) {
        Some(Stamp::ZERO) => Err(StampError::Zero),
        Some(stamp) => Ok(stamp),
        None => Err(StampError::Nanosec(nanosec)),
    };
    let frame_id = std::str::from_utf8(reader.string_bytes()?).map_err(|error| {
        let detail = format!("header.frame_id: expected UTF-8, found {error}");
        DecodeError::new(DropReason::Malformed, detail)
    })?;
    Ok(Header { stamp, frame_id })
}
