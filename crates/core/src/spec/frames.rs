//! In which frame samples are wanted, and what is known of the tree of frames.

use crate::tf::FramedPart;
use crate::tf::Limits;

/// How transforms are kept and waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TfSpec {
    /// How long a message waits for its transform \[ns\], on the node's clock.
    pub wait_ns: i64,
    /// How much is kept.
    pub limits: Limits,
}

/// The frame that the samples of an input are taken to, by the tree of frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InFrame {
    /// Its name.
    pub frame: String,
    /// Parts of a vector that it changes. A cloud is moved as a whole.
    pub parts: Vec<FramedPart>,
}

/// When the points of a cloud were measured, and what moved meanwhile.
#[derive(Clone, Debug, PartialEq)]
pub struct DeskewSpec {
    /// A frame that does not move while a cloud is measured, such as `odom`.
    pub fixed_frame: String,
    /// The topic of the gyro that places `fixed_frame`; `None` if the tree of frames does.
    pub gyro: Option<String>,
    /// The field with the time of a point.
    pub time_field: String,
    /// Nanoseconds in a unit of that field.
    pub unit_ns: f64,
    /// True if times count from 1970 (or the clock's zero), rather than from the header's stamp.
    pub absolute: bool,
    /// The first and the last time of a point, from the header's stamp \[ns\]. A point outside is
    /// dropped and counted.
    pub span_ns: [i64; 2],
}

/// The frame that the gyro of a topic places: it does not turn, and moves with the gyro's origin.
pub fn still_frame(topic: &str) -> String {
    // No driver calls a frame so: names have no spaces.
    format!("gyro {topic}")
}
