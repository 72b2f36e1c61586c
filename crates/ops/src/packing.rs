//! Rules of a packed tensor for operations: its alignment, and runs of elements.

/// Segments start at multiples of this many bytes: a cache line, and what DLPack asks of data.
pub const ALIGNMENT: usize = 64;

/// Elements that are next to each other in a ring's part and in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// First element in the ring's part.
    pub row_at: usize,
    /// First element in the step.
    pub step_at: usize,
    /// Number of elements.
    pub len: usize,
}
