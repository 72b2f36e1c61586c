//! Reads a serialized `FusedTensor`.

use crate::cdr::{CdrError, Reader};
use crate::time::Stamp;

/// The parts of a tensor message that are shown.
#[derive(Clone, Debug)]
pub struct TensorSeen<'a> {
    segments: Vec<SegmentSeen<'a>>,
}

/// The newest history step of a segment.
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

/// A segment while its data is not known.
struct Head<'a> {
    name: &'a [u8],
    valid: bool,
    target: Stamp,
    count: u32,
    at: usize,
    len: usize,
}

impl<'a> TensorSeen<'a> {
    /// Reads the bytes of a `robocache_ros/msg/FusedTensor`. A segment whose steps or whose place in
    /// the data are inconsistent is left out.
    ///
    /// # Errors
    /// The message is shorter than it says.
    pub fn read(message: &'a [u8]) -> Result<Self, CdrError> {
        let mut reader = Reader::new(message)?;
        reader.skip(4, 8)?; // the header's stamp
        reader.string_bytes()?;
        reader.u64()?; // the tick
        reader.u64()?; // the digest
        let count = reader.u32()?;
        let mut heads = Vec::new();
        for _ in 0..count {
            heads.extend(Head::read(&mut reader)?);
        }
        let data = reader.bytes()?;
        let seen = |head: Head<'a>| {
            let bytes = data.get(head.at..head.at.checked_add(head.len)?)?;
            let Head { name, valid, target, count, .. } = head;
            Some(SegmentSeen { name, valid, target, count, bytes })
        };
        Ok(TensorSeen { segments: heads.into_iter().filter_map(seen).collect() })
    }

    /// The segment of this name.
    pub fn segment(&self, name: &str) -> Option<&SegmentSeen<'a>> {
        self.segments.iter().find(|segment| segment.name == name.as_bytes())
    }
}

impl<'a> Head<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Option<Self>, CdrError> {
        let name = reader.string_bytes()?;
        let _code = reader.u8()?;
        let bits = reader.u8()?;
        reader.u16()?;
        let shape = numbers(reader, Reader::i64)?;
        let at = reader.u64()?;
        let valid = reader.bytes()?.last().copied();
        let target = numbers(reader, Reader::i64)?.last().copied();
        let _age = numbers(reader, Reader::i64)?;
        let count = numbers(reader, Reader::u32)?.last().copied();
        let _inputs = numbers(reader, Reader::u32)?;
        let size = |dims: &[i64]| {
            let mut dims = dims.iter().map(|dim| usize::try_from(*dim).ok());
            dims.try_fold(usize::from(bits / 8), |len, dim| len.checked_mul(dim?))
        };
        let head = || {
            let (steps, row) = shape.split_first()?;
            let len = size(row)?;
            let before = usize::try_from(steps.checked_sub(1)?).ok()?.checked_mul(len)?;
            let at = usize::try_from(at).ok()?.checked_add(before)?;
            Some(Head {
                name,
                valid: valid? != 0,
                target: Stamp::from_nanos(target?),
                count: count?,
                at,
                len,
            })
        };
        Ok(head())
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
