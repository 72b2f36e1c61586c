//! Writing CDR, little-endian.

use super::ENCAPSULATION_LEN;

/// Serializes a message, field by field in the order of its definition.
#[derive(Clone, Debug)]
pub struct Writer {
    buffer: Vec<u8>,
}

impl Default for Writer {
    fn default() -> Self {
        Self::new()
    }
}

/// Methods that write a number, named by its type.
macro_rules! primitives {
    ($($type:ident)*) => { $(
        #[doc = concat!("Writes a number of the type `", stringify!($type), "`. `byte`, `char` and `bool` are `u8`.")]
        pub fn $type(&mut self, value: $type) {
            self.align(size_of::<$type>());
            self.buffer.extend_from_slice(&value.to_le_bytes());
        }
    )* };
}

macro_rules! sequences {
    ($($(#[$doc:meta])* $name:ident: $type:ident;)*) => { $(
        $(#[$doc])*
        pub fn $name(&mut self, values: impl ExactSizeIterator<Item = $type>) {
            self.u32(values.len() as u32);
            values.for_each(|value| self.$type(value));
        }
    )* };
}

impl Writer {
    /// Starts with the encapsulation header of little-endian PLAIN_CDR.
    pub fn new() -> Self {
        Self::reusing(Vec::new())
    }

    /// As [`Writer::new`], in the memory of `buffer`, whose content is discarded.
    pub fn reusing(mut buffer: Vec<u8>) -> Self {
        buffer.clear();
        buffer.extend_from_slice(&[0, 1, 0, 0]);
        Writer { buffer }
    }

    fn align(&mut self, size: usize) {
        let past = (self.buffer.len() - ENCAPSULATION_LEN) % size;
        if past != 0 {
            self.buffer.resize(self.buffer.len() + size - past, 0);
        }
    }

    primitives! { u8 u16 u32 i32 u64 i64 f32 f64 }

    /// A string, with the terminating zero that CDR requires.
    pub fn string(&mut self, value: &str) {
        self.u32(value.len() as u32 + 1);
        self.buffer.extend_from_slice(value.as_bytes());
        self.buffer.push(0);
    }

    /// A sequence of `uint8`.
    pub fn bytes(&mut self, values: &[u8]) {
        self.u32(values.len() as u32);
        self.buffer.extend_from_slice(values);
    }

    /// A sequence of `uint8` made in place: the bytes that `build` appends to the message. This
    /// saves a copy of every image and cloud.
    pub fn bytes_with(&mut self, build: impl FnOnce(&mut Vec<u8>)) {
        self.u32(0);
        let start = self.buffer.len();
        build(&mut self.buffer);
        let len = (self.buffer.len() - start) as u32;
        self.buffer[start - 4..start].copy_from_slice(&len.to_le_bytes());
    }

    sequences! {
        /// A sequence of `int64`.
        i64_sequence: i64;
        /// A sequence of `uint64`.
        u64_sequence: u64;
        /// A sequence of `uint32`.
        u32_sequence: u32;
        /// A sequence of `float32`.
        f32_sequence: f32;
    }

    /// A sequence of strings.
    pub fn string_sequence<'a>(&mut self, values: impl ExactSizeIterator<Item = &'a str>) {
        self.u32(values.len() as u32);
        values.for_each(|value| self.string(value));
    }

    /// A sequence of `float64`.
    pub fn f64_sequence(&mut self, values: &[f64]) {
        self.u32(values.len() as u32);
        for value in values {
            self.f64(*value);
        }
    }

    /// A fixed-size array of `float64`, which has no length in front.
    pub fn f64_array(&mut self, values: &[f64]) {
        for value in values {
            self.f64(*value);
        }
    }

    /// A `std_msgs/Header`.
    pub fn header(&mut self, stamp: robocache_ops::time::Stamp, frame_id: &str) {
        self.stamp(stamp);
        self.string(frame_id);
    }

    /// A `builtin_interfaces/Time`.
    pub fn stamp(&mut self, stamp: robocache_ops::time::Stamp) {
        let (sec, nanosec) = stamp.to_sec_nanosec();
        self.i32(sec);
        self.u32(nanosec);
    }

    /// Bytes written so far: where the next unaligned byte goes.
    pub fn position(&self) -> usize {
        self.buffer.len()
    }

    /// The serialized message.
    pub fn finish(self) -> Vec<u8> {
        self.buffer
    }
}
