//! The numbers in the points of a cloud.

use robocache_ops::voxelize::FieldType;

/// All types of a field, in the order of their codes in `sensor_msgs/PointField`, which start at 1.
pub(crate) const KINDS: [FieldType; 8] = [
    FieldType::Int8,
    FieldType::Uint8,
    FieldType::Int16,
    FieldType::Uint16,
    FieldType::Int32,
    FieldType::Uint32,
    FieldType::Float32,
    FieldType::Float64,
];

/// `value` as a field of `kind`: little-endian bytes, and the number that these encode.
pub(crate) fn typed(value: f64, kind: FieldType) -> (Vec<u8>, f64) {
    macro_rules! as_type {
        ($type:ty) => {
            ((value as $type).to_le_bytes().to_vec(), (value as $type) as f64)
        };
    }
    match kind {
        FieldType::Int8 => as_type!(i8),
        FieldType::Uint8 => as_type!(u8),
        FieldType::Int16 => as_type!(i16),
        FieldType::Uint16 => as_type!(u16),
        FieldType::Int32 => as_type!(i32),
        FieldType::Uint32 => as_type!(u32),
        FieldType::Float32 => as_type!(f32),
        FieldType::Float64 => as_type!(f64),
    }
}
