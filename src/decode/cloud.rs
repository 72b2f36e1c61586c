//! `sensor_msgs/PointCloud2` as a borrowed view.

/// Type of a point field: the constants of `sensor_msgs/msg/PointField`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names are the message's own
pub enum FieldType {
    Int8,
    Uint8,
    Int16,
    Uint16,
    Int32,
    Uint32,
    Float32,
    Float64,
}

/// Where a field stands inside a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldAt {
    /// Bytes from the start of the point.
    pub offset: usize,
    /// How the bytes are read.
    pub kind: FieldType,
}

/// A cloud whose declared size has been checked against its data, with the fields that the
/// configuration asks for.
#[derive(Clone, Copy, Debug)]
pub struct CloudView<'a> {
    /// Points per row of the cloud.
    pub width: usize,
    /// Rows of the cloud; 1 if unorganised.
    pub height: usize,
    /// Bytes from one point to the next.
    pub point_step: usize,
    /// Bytes from one row to the next.
    pub row_step: usize,
    /// Whether numbers stand most significant byte first.
    pub big_endian: bool,
    /// `x`, `y`, `z`, then the extra fields of the configuration in
    /// [`CloudSpec`](crate::config::CloudSpec) order, without repeats.
    pub fields: &'a [FieldAt],
    /// The points.
    pub data: &'a [u8],
}
