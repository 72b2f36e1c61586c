//! Reads a serialized `FusedTensor`.

use crate::cdr::{CdrError, Reader};
use robocache_ops::dtype::DType;
use robocache_ops::time::Stamp;

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
    /// Its name, as bytes.
    pub name: &'a [u8],
    /// The type of its elements.
    pub dtype: DType,
    /// Steps, then the dimensions of a row.
    pub shape: Vec<usize>,
    /// Where it begins in the packed segments.
    pub byte_offset: usize,
    /// Whether the step may be acted on: not 0.
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

/// The parts of a tensor message that are shown.
#[derive(Clone, Debug)]
pub struct TensorSeen<'a> {
    segments: Vec<SegmentSeen<'a>>,
}

/// A step of a segment; in [`TensorSeen`] the newest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentSeen<'a> {
    /// Its name, as bytes.
    pub name: &'a [u8],
    /// Whether the step may be acted on.
    pub valid: bool,
    /// The step's target time.
    pub target: Stamp,
    /// Entries in use along the second dimension.
    pub count: u32,
    /// The elements of the step.
    pub bytes: &'a [u8],
}

impl<'a> TensorRead<'a> {
    /// Reads the bytes of a `robocache_ros/msg/FusedTensor`. A segment whose type, steps or place in the data
    /// are inconsistent is left out.
    ///
    /// # Errors
    /// The message is shorter than it says.
    pub fn read(message: &'a [u8]) -> Result<Self, CdrError> {
        let mut reader = Reader::new(message)?;
        let (sec, nanosec) = (reader.i32()?, reader.u32()?);
        reader.string_bytes()?;
        let tick = reader.u64()?;
        reader.u64()?; // the digest
        let count = reader.u32()?;
        let mut heads = Vec::new();
        for _ in 0..count {
            heads.extend(Head::read(&mut reader)?);
        }
        let data = reader.bytes()?;
        Ok(TensorRead {
            stamp: Stamp::from_sec_nanosec(sec, nanosec).unwrap_or(Stamp::ZERO),
            tick,
            segments: heads.into_iter().filter_map(|head| head.in_data(data)).collect(),
            len: data.len(),
        })
    }
}

impl<'a> TensorSeen<'a> {
    /// Reads the newest steps of a `robocache_ros/msg/FusedTensor`, as [`TensorRead::read`].
    ///
    /// # Errors
    /// The message is shorter than it says.
    pub fn read(message: &'a [u8]) -> Result<Self, CdrError> {
        let tensor = TensorRead::read(message)?;
        let newest = |segment: &SegmentRead<'a>| segment.step(segment.valid.len().checked_sub(1)?);
        Ok(TensorSeen { segments: tensor.segments.iter().filter_map(newest).collect() })
    }

    /// The segment of this name.
    pub fn segment(&self, name: &str) -> Option<&SegmentSeen<'a>> {
        self.segments.iter().find(|segment| segment.name == name.as_bytes())
    }
}

impl<'a> SegmentRead<'a> {
    /// A step; `None` if there is none of this number.
    pub fn step(&self, at: usize) -> Option<SegmentSeen<'a>> {
        let len = self.bytes.len() / self.valid.len().max(1);
        Some(SegmentSeen {
            name: self.name,
            valid: *self.valid.get(at)? != 0,
            target: self.targets[at],
            count: self.counts[at],
            bytes: &self.bytes[at * len..][..len],
        })
    }
}

/// A segment while its data is not known.
struct Head<'a> {
    segment: SegmentRead<'a>,
    len: usize,
}

impl<'a> Head<'a> {
    /// Reads one; `None` if it is inconsistent.
    fn read(reader: &mut Reader<'a>) -> Result<Option<Self>, CdrError> {
        let name = reader.string_bytes()?;
        let kind = (reader.u8()?, reader.u8()?);
        reader.u16()?; // lanes
        let shape = numbers(reader, Reader::i64)?;
        let at = reader.u64()?;
        let valid = reader.bytes()?;
        let targets = numbers(reader, Reader::i64)?;
        let ages_ns = numbers(reader, Reader::i64)?;
        let counts = numbers(reader, Reader::u32)?;
        let _inputs = numbers(reader, Reader::u32)?;
        let head = || {
            let dtype = |dtype: &&DType| (dtype.dlpack_code(), dtype.bits()) == kind;
            let dtype = *DType::ALL.iter().find(dtype)?;
            let dims = shape.into_iter().map(|dim| usize::try_from(dim).ok());
            let shape = dims.collect::<Option<Vec<usize>>>()?;
            let steps = *shape.first()?;
            let lens = [valid.len(), targets.len(), ages_ns.len(), counts.len()];
            if lens != [steps; 4] {
                return None;
            }
            let len = shape.iter().try_fold(dtype.size(), |len, dim| len.checked_mul(*dim))?;
            let segment = SegmentRead {
                name,
                dtype,
                shape,
                byte_offset: usize::try_from(at).ok()?,
                valid,
                targets: targets.into_iter().map(Stamp::from_nanos).collect(),
                ages_ns,
                counts,
                bytes: &[],
            };
            Some(Head { segment, len })
        };
        Ok(head())
    }

    /// The segment in its place; `None` if that is not in the data.
    fn in_data(mut self, data: &'a [u8]) -> Option<SegmentRead<'a>> {
        let at = self.segment.byte_offset;
        self.segment.bytes = data.get(at..at.checked_add(self.len)?)?;
        Some(self.segment)
    }
}

/// Reads a sequence. No more memory is reserved than the message has bytes.
fn numbers<'a, T>(
    reader: &mut Reader<'a>,
    read: fn(&mut Reader<'a>) -> Result<T, CdrError>,
) -> Result<Vec<T>, CdrError> {
    let count = reader.u32()?;
    (0..count).map(|_| read(reader)).collect()
}
