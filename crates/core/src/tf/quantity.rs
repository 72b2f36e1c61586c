//! Numbers that mean something in a frame.

/// Numbers of a vector that mean something in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FramedPart {
    /// Position of the first number in the sample.
    pub at: usize,
    /// Quantity of the numbers.
    pub quantity: Quantity,
    /// True if they are in the message's `child_frame_id`, and not in `header.frame_id`.
    pub of_child: bool,
}

/// How another frame has the same thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// x, y, z of a point \[m\]: turned and moved.
    Point,
    /// x, y, z of a direction, such as a velocity or a force: turned.
    Direction,
    /// x, y, z, w of an orientation: turned.
    Orientation,
}

impl Quantity {
    /// How many numbers it is.
    pub const fn numbers(self) -> usize {
        match self {
            Quantity::Point | Quantity::Direction => 3,
            Quantity::Orientation => 4,
        }
    }
}
