//! One place for how a tensor message is laid out, written, read and described.
//!
//! No other module computes an offset of a message.
//!
//! - [`Envelope`]: what the messages of a form begin with, and the [`Places`] of their parts.
//!   `robocache_ros/msg/FusedTensor` is a form, the `TensorList` of Isaac ROS is another.
//! - [`TensorMessage`]: memory of one message, which ticks write.
//! - [`Places::read`]: finds and checks the parts of a message from elsewhere. [`TensorRead`] has their values.
//! - [`TensorInfo`]: what the tensors mean, beside them, as `robocache_ros/msg/FusedTensorInfo`.

mod envelope;
mod info;
mod places;
mod read;
mod segment_info;
mod tensor_list;
mod writer;

pub use envelope::Envelope;
pub use info::{Publication, TensorInfo};
pub use places::{Places, SegmentPlaces, StepState};
pub use read::{MessageError, SegmentRead, StepRead, TensorRead};
pub use segment_info::SegmentInfo;
pub use tensor_list::LacksElement;
pub use writer::TensorMessage;

#[cfg(test)]
mod tests;
