//! Windows: the tensors of a tick at any instants of any episodes, as training reads them.
//!
//! The input is the rows of all episodes at their own stamps. An item is an episode and an instant. For each
//! item, every stream is resampled around the instant, by the rules of a tick. All items go to one packed buffer.

pub mod cpu;
#[cfg(feature = "cuda")]
#[allow(unsafe_code)] // launches; every block says why it is sound
pub mod cuda;
mod find;
mod rows;
mod spec;
#[cfg(test)]
mod tests;

pub use find::{RingRows, SpanRows, bounds_of_times};
pub use rows::{PackedRows, Rows};
pub use spec::{
    BufferPart, Items, PartKind, Visibility, WindowError, WindowLayout, WindowPlan, WindowRing,
    WindowStream,
};
