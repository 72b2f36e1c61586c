//! Resampling: rows at their stamps to values at target times.
//!
//! [`align`](crate::align) says which rows give a value; this operation computes it.

pub mod batch;
pub mod cpu;
#[cfg(feature = "cuda")]
#[allow(unsafe_code)] // launches; every block says why it is sound
pub mod cuda;
pub mod gradient;
mod rows;
mod spec;
mod times;

pub use spec::{BatchInput, BatchOutput, BatchOutputMut, BatchSpec, BatchStream, Division, Lane};
pub use times::{Times, nanos};
