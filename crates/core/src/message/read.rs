//! Reads tensor messages from elsewhere, and checks all that they say.
//!
//! `python/robocache/message/parts.py` finds the same places and gives the same errors, where this part is missing.

use std::collections::HashSet;
use std::ops::Range;

use super::places::STEP_FIELDS;
use super::{Places, SegmentPlaces};
use crate::cdr::{CdrError, Reader};
use robocache_ops::dtype::DType;
use robocache_ops::packing::ALIGNMENT;
use robocache_ops::time::Stamp;

/// The bytes are no tensor message, or no description of one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// They are no CDR, or too few.
    #[error(transparent)]
    Cdr(#[from] CdrError),
    /// A string is not UTF-8.
    #[error("expected UTF-8 in the string at byte {at}, found {}", hex(.found))]
    Text {
        /// Position in the message, the encapsulation header included.
        at: usize,
        /// Its bytes.
        found: Vec<u8>,
    },
    /// The stamp is impossible.
    #[error("expected a nanosecond part below 1000000000, found {found}")]
    Nanoseconds {
        /// The nanosecond part.
        found: u32,
    },
    /// A segment is impossible.
    #[error("segment '{name}': expected {expected}, found {found}")]
    Segment {
        /// The segment's name.
        name: String,
        /// Words for what would be possible.
        expected: String,
        /// Words for what the message says.
        found: String,
    },
    /// Two segments have one name.
    #[error("expected distinct segment names, found '{name}' twice")]
    Twice {
        /// The name.
        name: String,
    },
}

/// A tensor message, with all steps.
#[derive(Clone, Debug)]
pub struct TensorRead<'a> {
    /// The tick's instant.
    pub stamp: Stamp,
    /// The tick's number.
    pub tick: u64,
    /// In the order of the message.
    pub segments: Vec<SegmentRead<'a>>,
    /// Bytes of the packed segments.
    pub len: usize,
}

/// A segment of a tensor message. Lists have an entry per step.
#[derive(Clone, Debug)]
pub struct SegmentRead<'a> {
    /// Its name.
    pub name: String,
    /// The type of its elements.
    pub dtype: DType,
    /// Steps, then the dimensions of a row.
    pub shape: Vec<usize>,
    /// Offset of the segment in the packed segments \[bytes\].
    pub byte_offset: usize,
    /// Validity of each step: not 0 if it may be acted on.
    pub valid: &'a [u8],
    /// The target times.
    pub targets: Vec<Stamp>,
    /// The ages \[ns\].
    pub ages_ns: Vec<i64>,
    /// Entries in use along the second dimension.
    pub counts: Vec<u32>,
    /// The elements of all steps.
    pub bytes: &'a [u8],
}

/// A step of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepRead<'a> {
    /// True if the step may be acted on.
    pub valid: bool,
    /// The step's target time.
    pub target: Stamp,
    /// Entries in use along the second dimension.
    pub count: u32,
    /// The elements of the step.
    pub bytes: &'a [u8],
}

impl<'a> TensorRead<'a> {
    /// Reads the bytes of a `robocache_ros/msg/FusedTensor`.
    ///
    /// # Errors
    /// As for [`Places::read`].
    pub fn read(message: &'a [u8]) -> Result<Self, MessageError> {
        let places = Places::read(message)?;
        let segments = places.segments.iter();
        Ok(TensorRead {
            stamp: places.stamp(message),
            tick: places.tick(message),
            segments: segments.map(|segment| SegmentRead::at(&places, segment, message)).collect(),
            len: places.data.len(),
        })
    }

    /// The segment of this name.
    pub fn segment(&self, name: &str) -> Option<&SegmentRead<'a>> {
        self.segments.iter().find(|segment| segment.name == name)
    }
}

impl<'a> SegmentRead<'a> {
    /// The segment at its places.
    fn at(places: &Places, segment: &SegmentPlaces, message: &'a [u8]) -> Self {
        let [valid, target, age, count, _] = segment.step_ranges();
        let i64s = |range| places.numbers(message, range).map(i64::from_le_bytes);
        SegmentRead {
            name: segment.name.clone(),
            dtype: segment.dtype,
            shape: segment.shape.clone(),
            byte_offset: segment.data.start - places.data.start,
            valid: &message[valid],
            targets: i64s(target).map(Stamp::from_nanos).collect(),
            ages_ns: i64s(age).collect(),
            counts: places.numbers(message, count).map(u32::from_le_bytes).collect(),
            bytes: &message[segment.data.clone()],
        }
    }

    /// A step; `None` if the number is too large.
    pub fn step(&self, at: usize) -> Option<StepRead<'a>> {
        let len = self.bytes.len() / self.valid.len().max(1);
        Some(StepRead {
            valid: *self.valid.get(at)? != 0,
            target: self.targets[at],
            count: self.counts[at],
            bytes: &self.bytes[at * len..][..len],
        })
    }

    /// The newest step; `None` if there are no steps.
    pub fn newest(&self) -> Option<StepRead<'a>> {
        self.step(self.valid.len().checked_sub(1)?)
    }
}

impl Places {
    /// Finds the parts of a `robocache_ros/msg/FusedTensor`, in either byte order.
    ///
    /// # Errors
    /// The message is shorter than it says, or a segment's type, shape, steps, counts or place in the data
    /// are impossible, or two segments have one name.
    pub fn read(message: &[u8]) -> Result<Self, MessageError> {
        let mut reader = Reader::new(message)?;
        let stamp_at = reader.position();
        let sec = reader.i32()?;
        let nanosec = reader.u32()?;
        Stamp::from_sec_nanosec(sec, nanosec)
            .ok_or(MessageError::Nanoseconds { found: nanosec })?;
        let frame_id = text(&mut reader)?.to_owned();
        reader.u64()?;
        let run_at = Some(reader.position() - 8);
        // The epoch, and the tick.
        reader.u64()?;
        reader.u64()?;
        let tick_at = reader.position() - 8;
        reader.u64()?;
        let digest_at = reader.position() - 8;
        let count = reader.u32()?;
        // No more memory is reserved than the message has bytes.
        let heads: Vec<_> =
            (0..count).map(|_| Head::read(&mut reader)).collect::<Result<_, _>>()?;
        let data = reader.sequence(1)?;
        let big_endian = reader.is_big_endian();
        let segments = Vec::with_capacity(heads.len());
        let mut places =
            Places { frame_id, big_endian, stamp_at, run_at, tick_at, digest_at, segments, data };
        let mut names = HashSet::with_capacity(heads.len());
        for head in heads {
            let segment = head.check(&places, message)?;
            if !names.insert(head.name) {
                return Err(MessageError::Twice { name: segment.name });
            }
            places.segments.push(segment);
        }
        Ok(places)
    }
}

/// A segment as the message says it.
struct Head<'a> {
    name: &'a str,
    code: u8,
    bits: u8,
    lanes: u16,
    shape: Vec<i64>,
    byte_offset: u64,
    steps: [Range<usize>; STEP_FIELDS.len()],
}

impl<'a> Head<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, MessageError> {
        let name = text(reader)?;
        let code = reader.u8()?;
        let bits = reader.u8()?;
        let lanes = reader.u16()?;
        let shape = reader.i64_sequence()?;
        let byte_offset = reader.u64()?;
        let mut steps = [const { 0..0 }; STEP_FIELDS.len()];
        for (range, (_, size)) in steps.iter_mut().zip(STEP_FIELDS) {
            *range = reader.sequence(size)?;
        }
        Ok(Head { name, code, bits, lanes, shape, byte_offset, steps })
    }

    /// The segment's places, if they are possible.
    fn check(&self, places: &Places, message: &[u8]) -> Result<SegmentPlaces, MessageError> {
        let dtype = self.dtype()?;
        let shape = self.shape()?;
        for (range, (field, size)) in self.steps.iter().zip(STEP_FIELDS) {
            let expected = shape[0];
            let found = range.len() / size;
            if found != expected {
                return Err(self.wrong(format!("{expected} steps in {field}"), found));
            }
        }
        let entries = shape.get(1).copied().unwrap_or(1);
        let counts = places.numbers(message, self.steps[3].clone()).map(u32::from_le_bytes);
        if let Some(most) = counts.max()
            && most as usize > entries
        {
            return Err(self.wrong(format!("at most {entries} entries in count"), most));
        }
        Ok(SegmentPlaces {
            name: self.name.to_owned(),
            dtype,
            data: self.data(dtype, &shape, &places.data)?,
            shape,
            steps_at: self.steps.clone().map(|range| range.start),
        })
    }

    fn dtype(&self) -> Result<DType, MessageError> {
        let code = self.code;
        let bits = self.bits;
        let lanes = self.lanes;
        let is_it = |dtype: &DType| (dtype.dlpack_code(), dtype.bits(), 1) == (code, bits, lanes);
        DType::ALL.into_iter().find(is_it).ok_or_else(|| {
            let known =
                DType::ALL.map(|dtype| format!("{:?}", (dtype.dlpack_code(), dtype.bits())));
            let expected = format!("DLPack type {} with 1 lane", known.join(", "));
            self.wrong(expected, format!("({code}, {bits}) with {lanes}"))
        })
    }

    /// The shape, with at least one dimension.
    fn shape(&self) -> Result<Vec<usize>, MessageError> {
        let dims = self.shape.iter().map(|dim| usize::try_from(*dim).ok());
        dims.collect::<Option<Vec<_>>>()
            .filter(|shape| !shape.is_empty())
            .ok_or_else(|| self.wrong("a shape of sizes >= 0".into(), format!("{:?}", self.shape)))
    }

    /// Range of the elements in the message.
    fn data(
        &self,
        dtype: DType,
        shape: &[usize],
        data: &Range<usize>,
    ) -> Result<Range<usize>, MessageError> {
        let offset = self.byte_offset;
        if !offset.is_multiple_of(ALIGNMENT as u64) {
            return Err(self.wrong(format!("an offset that is a multiple of {ALIGNMENT}"), offset));
        }
        let len = match shape.contains(&0) {
            true => Some(0),
            false => shape.iter().try_fold(dtype.size(), |len, dim| len.checked_mul(*dim)),
        };
        let at = usize::try_from(offset).ok();
        let range = at.zip(len).and_then(|(at, len)| Some(at..at.checked_add(len)?));
        match range.filter(|range| range.end <= data.len()) {
            Some(range) => Ok(data.start + range.start..data.start + range.end),
            None => {
                let elements = format!("{}{shape:?}", dtype.name());
                let expected = format!("{elements} at byte {offset} to lie inside the data");
                Err(self.wrong(expected, format!("{} bytes of data", data.len())))
            }
        }
    }

    fn wrong(&self, expected: String, found: impl ToString) -> MessageError {
        MessageError::Segment { name: self.name.to_owned(), expected, found: found.to_string() }
    }
}

/// Reads a string.
pub(super) fn text<'a>(reader: &mut Reader<'a>) -> Result<&'a str, MessageError> {
    let at = reader.position();
    let bytes = reader.string_bytes()?;
    std::str::from_utf8(bytes).map_err(|_| MessageError::Text { at, found: bytes.to_vec() })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
