//! Reading CDR without copying.

use std::ops::Range;

use super::ENCAPSULATION_LEN;

/// The bytes are not a serialized message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CdrError {
    /// The message ends before what it declares.
    #[error("expected {wanted} more bytes at byte {at}, found {left}")]
    Truncated {
        /// Position in the message, the encapsulation header included.
        at: usize,
        /// Bytes that were wanted.
        wanted: usize,
        /// Bytes that are left.
        left: usize,
    },
    /// Another encoding. Its alignment differs: numbers would be read from wrong places.
    #[error("expected a PLAIN_CDR message (0x0000 or 0x0001), found encapsulation {found:#06x}")]
    Encapsulation {
        /// The first two bytes, as a big-endian number.
        found: u16,
    },
}

/// A cursor over a serialized message.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    /// The whole message; `position` counts from its start.
    message: &'a [u8],
    position: usize,
    big_endian: bool,
    /// See [`Reader::most_padding`].
    reserved: usize,
}

/// Methods that read a number, named by its type.
macro_rules! primitives {
    ($($type:ident)*) => { $(
        #[doc = concat!("Reads a number of the type `", stringify!($type), "`. `byte`, `char` and `bool` are `u8`.")]
        pub fn $type(&mut self) -> Result<$type, CdrError> {
            const SIZE: usize = size_of::<$type>();
            self.align(SIZE);
            let mut bytes = [0u8; SIZE];
            bytes.copy_from_slice(self.take(SIZE)?);
            Ok(if self.big_endian { $type::from_be_bytes(bytes) } else { $type::from_le_bytes(bytes) })
        }
    )* };
}

impl<'a> Reader<'a> {
    /// Starts after the encapsulation header. The second byte of the header gives the byte order
    /// (0 big-endian, 1 little-endian).
    pub fn new(message: &'a [u8]) -> Result<Self, CdrError> {
        let Some(&[high, low, _, _]) = message.first_chunk::<ENCAPSULATION_LEN>() else {
            let wanted = ENCAPSULATION_LEN;
            let left = message.len();
            return Err(CdrError::Truncated { at: 0, wanted, left });
        };
        match u16::from_be_bytes([high, low]) {
            order @ (0 | 1) => {
                let big_endian = order == 0;
                Ok(Reader { message, position: ENCAPSULATION_LEN, big_endian, reserved: 0 })
            }
            found => Err(CdrError::Encapsulation { found }),
        }
    }

    /// Position of the next value, without its alignment: bytes from the start of the message.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Bytes that are left.
    pub fn left(&self) -> usize {
        self.message.len().saturating_sub(self.position)
    }

    /// True if the numbers of this message have their most significant byte first.
    pub fn is_big_endian(&self) -> bool {
        self.big_endian
    }

    /// Notes that a sequence of numbers of this size \[bytes\] was empty.
    pub(crate) fn note_empty(&mut self, size: usize) {
        self.reserved += if size == 8 { 8 } else { 0 };
    }

    /// Most bytes that may follow the message's last value. A middleware rounds the length up, by less than 8. Fast CDR
    /// also reserves the alignment of an empty sequence of 8-byte numbers, 4 bytes, and does not write it. Then the next
    /// such number may be aligned otherwise than reserved: 4 bytes more. The functions `serialize_message` of rclpy and
    /// rclcpp leave those bytes behind the message.
    pub(crate) fn most_padding(&self) -> usize {
        7 + self.reserved
    }

    fn align(&mut self, size: usize) {
        let past = (self.position - ENCAPSULATION_LEN) % size;
        if past != 0 {
            self.position = self.position.saturating_add(size - past);
        }
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], CdrError> {
        let left = self.message.len().saturating_sub(self.position);
        if len > left {
            return Err(CdrError::Truncated { at: self.position, wanted: len, left });
        }
        let bytes = &self.message[self.position..self.position + len];
        self.position += len;
        Ok(bytes)
    }

    primitives! { u8 u16 u32 i32 u64 i64 f32 f64 }

    /// The bytes of a string without its terminating zero. CDR does not promise UTF-8.
    pub fn string_bytes(&mut self) -> Result<&'a [u8], CdrError> {
        let len = self.u32()? as usize;
        let bytes = self.take(len)?;
        Ok(bytes.strip_suffix(&[0]).unwrap_or(bytes))
    }

    /// A sequence of `uint8`.
    pub fn bytes(&mut self) -> Result<&'a [u8], CdrError> {
        let len = self.u32()? as usize;
        self.take(len)
    }

    /// Range of the elements of a sequence of numbers of `size` bytes in the message. Reads past them.
    pub fn sequence(&mut self, size: usize) -> Result<Range<usize>, CdrError> {
        let len = self.u32()? as usize;
        // No padding follows the length of an empty sequence.
        if len > 0 {
            self.align(size);
        }
        let len = self.take(len.saturating_mul(size))?.len();
        Ok(self.position - len..self.position)
    }

    /// A sequence of `int64`.
    pub fn i64_sequence(&mut self) -> Result<Vec<i64>, CdrError> {
        let bytes = &self.message[self.sequence(8)?];
        let number = if self.big_endian { i64::from_be_bytes } else { i64::from_le_bytes };
        Ok(bytes.as_chunks().0.iter().map(|bytes| number(*bytes)).collect())
    }

    /// A sequence of `float64`, as the cursor over its elements.
    pub fn f64_sequence(&mut self) -> Result<F64Sequence<'a>, CdrError> {
        let bytes = &self.message[self.sequence(8)?];
        Ok(F64Sequence { bytes, big_endian: self.big_endian })
    }

    /// A sequence of `float32`, as the cursor over its elements.
    pub fn f32_sequence(&mut self) -> Result<F32Sequence<'a>, CdrError> {
        let bytes = &self.message[self.sequence(4)?];
        Ok(F32Sequence { bytes, big_endian: self.big_endian })
    }

    /// Skips `len` bytes that are aligned to `align`.
    pub fn skip(&mut self, align: usize, len: usize) -> Result<(), CdrError> {
        self.align(align);
        self.take(len).map(|_| ())
    }
}

/// A sequence of `float32` inside a message.
#[derive(Clone, Copy, Debug)]
pub struct F32Sequence<'a> {
    bytes: &'a [u8],
    big_endian: bool,
}

impl F32Sequence<'_> {
    /// Number of elements.
    pub fn len(&self) -> usize {
        self.bytes.len() / 4
    }

    /// True if the sequence is empty.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Element `i`, or `None` past the end.
    pub fn get(&self, i: usize) -> Option<f32> {
        self.bytes.as_chunks().0.get(i).map(|bytes| self.number(*bytes))
    }

    /// The elements.
    pub fn iter(&self) -> impl Iterator<Item = f32> {
        self.bytes.as_chunks().0.iter().map(|bytes| self.number(*bytes))
    }

    fn number(&self, bytes: [u8; 4]) -> f32 {
        if self.big_endian { f32::from_be_bytes(bytes) } else { f32::from_le_bytes(bytes) }
    }
}

/// A sequence of `float64` inside a message.
#[derive(Clone, Copy, Debug)]
pub struct F64Sequence<'a> {
    bytes: &'a [u8],
    big_endian: bool,
}

impl<'a> F64Sequence<'a> {
    /// The numbers of an array, little-endian.
    pub fn of_le_bytes(bytes: &'a [u8]) -> Self {
        F64Sequence { bytes, big_endian: false }
    }
}

impl F64Sequence<'_> {
    /// Number of elements.
    pub fn len(&self) -> usize {
        self.bytes.len() / 8
    }

    /// True if the sequence is empty.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Element `i`, or `None` past the end.
    pub fn get(&self, i: usize) -> Option<f64> {
        let bytes = self.bytes.get(i.checked_mul(8)?..)?.first_chunk::<8>()?;
        Some(if self.big_endian { f64::from_be_bytes(*bytes) } else { f64::from_le_bytes(*bytes) })
    }
}
