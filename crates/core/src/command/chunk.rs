//! `robocache_ros/msg/ActionChunk`.

use super::refused::Refusal;
use crate::cdr::{CdrError, F32Sequence, Reader, Writer};
use robocache_ops::time::Stamp;

/// Most rows of a chunk.
pub const MOST_ROWS: usize = 1024;
/// Bytes of a chunk without its names and its numbers, and more.
const FIXED_BYTES: usize = 96;
/// Bytes of a name without its letters, and more.
const NAME_BYTES: usize = 8;

/// A chunk of actions as a message has it. It borrows from the bytes of the message.
#[derive(Clone, Debug)]
pub struct ActionChunk<'a> {
    /// Run of the answered tensor.
    pub run: u64,
    /// Number of the epoch of the answered tensor.
    pub epoch: u64,
    /// Instant of the tick of the answered tensor.
    pub stamp: Stamp,
    /// Number of that tick.
    pub tick: i64,
    /// Number of the chunk among those of its writer. It rises.
    pub sequence: u64,
    /// Name of the group. CDR does not promise UTF-8.
    pub group: &'a [u8],
    /// Number of rows.
    pub rows: usize,
    /// Rows times names, row by row.
    pub values: F32Sequence<'a>,
    /// The value of each name in the answered tensor, for relative channels; empty without them.
    pub reference: F32Sequence<'a>,
    /// At the names.
    names: Reader<'a>,
}

/// A chunk of actions to write.
#[derive(Clone, Copy, Debug)]
pub struct SentChunk<'a> {
    /// Run of the answered tensor.
    pub run: u64,
    /// Number of the epoch of the answered tensor.
    pub epoch: u64,
    /// Instant of the tick of the answered tensor.
    pub stamp: Stamp,
    /// Number of that tick.
    pub tick: i64,
    /// Number of the chunk among those of its writer.
    pub sequence: u64,
    /// Name of the group.
    pub group: &'a str,
    /// The joints of a row.
    pub names: &'a [String],
    /// Rows times names, row by row.
    pub values: &'a [f32],
    /// The value of each name in the answered tensor; empty without relative channels.
    pub reference: &'a [f32],
}

impl<'a> ActionChunk<'a> {
    /// Reads a serialized message.
    ///
    /// # Errors
    /// [`Refusal::Malformed`]
    pub fn read(message: &'a [u8]) -> Result<Self, Refusal> {
        Self::of(message).ok().flatten().ok_or(Refusal::Malformed)
    }

    /// Reads a message; `None` if the stamp is none.
    fn of(message: &'a [u8]) -> Result<Option<Self>, CdrError> {
        let mut reader = Reader::new(message)?;
        let run = reader.u64()?;
        let epoch = reader.u64()?;
        let stamp = Stamp::from_sec_nanosec(reader.i32()?, reader.u32()?);
        // Only a simulator's clock may be before zero. The number of the tick wraps there, as in tensors.
        let tick = reader.u64()? as i64;
        let sequence = reader.u64()?;
        let group = reader.string_bytes()?;
        let names = reader.clone();
        for _ in 0..reader.u32()? {
            reader.string_bytes()?;
        }
        let rows = reader.u32()? as usize;
        let values = reader.f32_sequence()?;
        let reference = reader.f32_sequence()?;
        Ok(stamp.map(|stamp| ActionChunk {
            run,
            epoch,
            stamp,
            tick,
            sequence,
            group,
            rows,
            values,
            reference,
            names,
        }))
    }

    /// True if the names are these, in this order.
    pub fn has_names<'n>(&self, names: impl ExactSizeIterator<Item = &'n str>) -> bool {
        let mut reader = self.names.clone();
        reader.u32().is_ok_and(|len| len as usize == names.len())
            && names.into_iter().all(|name| reader.string_bytes() == Ok(name.as_bytes()))
    }
}

impl SentChunk<'_> {
    /// The serialized message, in the memory of `buffer`.
    pub fn to_cdr(&self, buffer: Vec<u8>) -> Vec<u8> {
        let mut writer = Writer::reusing(buffer);
        writer.u64(self.run);
        writer.u64(self.epoch);
        writer.stamp(self.stamp);
        writer.u64(self.tick as u64);
        writer.u64(self.sequence);
        writer.string(self.group);
        writer.string_sequence(self.names.iter().map(String::as_str));
        let rows = self.values.len().checked_div(self.names.len()).unwrap_or(0);
        writer.u32(rows as u32);
        writer.f32_sequence(self.values.iter().copied());
        writer.f32_sequence(self.reference.iter().copied());
        writer.finish()
    }

    /// Bytes that no chunk of these joints exceeds, if it has at most [`MOST_ROWS`] rows.
    pub fn most_bytes(group: &str, names: &[String]) -> usize {
        let letters: usize = names.iter().map(|name| name.len() + NAME_BYTES).sum();
        // One row more: the reference.
        FIXED_BYTES + group.len() + letters + (MOST_ROWS + 1) * names.len() * size_of::<f32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Vec<String> {
        ["a", "bcd"].map(str::to_owned).to_vec()
    }

    fn sent(names: &[String]) -> SentChunk<'_> {
        SentChunk {
            run: 7,
            epoch: 2,
            stamp: Stamp::from_nanos(1_020_000_000),
            tick: 51,
            sequence: 3,
            group: "arm",
            names,
            values: &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
            reference: &[0.5, 0.25],
        }
    }

    #[test]
    fn a_chunk_is_read_as_it_was_written() {
        let names = names();
        let message = sent(&names).to_cdr(Vec::new());
        let read = ActionChunk::read(&message).unwrap();
        assert_eq!((read.run, read.epoch, read.tick, read.sequence), (7, 2, 51, 3));
        assert_eq!((read.stamp.nanos(), read.group, read.rows), (1_020_000_000, &b"arm"[..], 3));
        assert_eq!(read.values.iter().collect::<Vec<_>>(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        assert_eq!(read.reference.iter().collect::<Vec<_>>(), [0.5, 0.25]);
        assert!(read.has_names(["a", "bcd"].into_iter()));
        for other in [&["bcd", "a"][..], &["a"], &["a", "bcd", "e"], &["a", "bc"]] {
            assert!(!read.has_names(other.iter().copied()), "{other:?}");
        }
    }

    #[test]
    fn no_chunk_has_more_bytes_than_the_most() {
        for len in 0..9 {
            let names = ["j".repeat(len), "j".repeat(8 - len)];
            let values = vec![1.0; MOST_ROWS * 2];
            let reference = [0.5; 2];
            let chunk = SentChunk { values: &values, reference: &reference, ..sent(&names) };
            let bytes = chunk.to_cdr(Vec::new()).len();
            let most = SentChunk::most_bytes(chunk.group, &names);
            assert!((bytes..bytes + 64).contains(&most), "{most} of {bytes}");
        }
    }

    #[test]
    fn a_message_that_was_cut_is_malformed() {
        let names = names();
        let message = sent(&names).to_cdr(Vec::new());
        for len in 0..message.len() {
            assert_eq!(ActionChunk::read(&message[..len]).err(), Some(Refusal::Malformed), "{len}");
        }
    }

    #[test]
    fn a_stamp_with_too_many_nanoseconds_is_malformed() {
        let names = names();
        let mut message = sent(&names).to_cdr(Vec::new());
        message[4 + 16 + 4..4 + 16 + 8].copy_from_slice(&2_000_000_000u32.to_le_bytes());
        assert_eq!(ActionChunk::read(&message).err(), Some(Refusal::Malformed));
    }
}
