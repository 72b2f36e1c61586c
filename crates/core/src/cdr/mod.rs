//! CDR, the wire encoding of ROS 2 messages.
//!
//! OMG DDS-XTypes 1.3, section 7.4.1 (PLAIN_CDR, version 1): a four-byte encapsulation header, then
//! primitives. Each is aligned to its own size (8 at most), counted from the end of that header.
//! [`Reader`] borrows from the bytes and never copies a sequence. [`Writer`] is its inverse, and
//! [`messages`] writes whole standard messages with it.

pub mod messages;
mod reader;
mod writer;

pub use reader::{CdrError, F32Sequence, F64Sequence, Reader};
pub use writer::Writer;

/// Length of the encapsulation header in front of every serialized message \[bytes\].
pub const ENCAPSULATION_LEN: usize = 4;

#[cfg(test)]
mod tests;
