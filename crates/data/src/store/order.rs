//! The order of rows that did not come in it.
//!
//! Most rows come in the order of their keys. The others are aside: their keys are in memory, and at the end they
//! are merged with the rest, whose keys are read again. So memory grows with what is aside alone.

use std::io;

use super::stream::{Data, Stream, StreamReader, StreamWriter};

/// Sorting key of a row. Of rows with the same key, the one that came first is less.
type Key = [i64; 3];

/// Which rows are aside.
#[derive(Default)]
pub(super) struct Order {
    /// The greatest key of a row that is not aside.
    newest: Option<Key>,
    /// Keys and numbers of the others, in the order in which they came.
    aside: Vec<(Key, u64)>,
}

impl Order {
    /// Notes a row. `aside`: it came before rows that are less.
    pub(super) fn note(&mut self, number: u64, key: Key, aside: bool) {
        if aside || self.newest.is_some_and(|newest| key < newest) {
            self.aside.push((key, number));
        } else {
            self.newest = Some(key);
        }
    }

    /// Writes the numbers of all rows in their order. `keys` are the streams of the keys. Returns `None` if the rows
    /// came in their order.
    pub(super) fn write(
        &self,
        rows: u64,
        keys: [&Stream; 3],
        data: &Data,
    ) -> io::Result<Option<Stream>> {
        if self.aside.is_empty() {
            return Ok(None);
        }
        let mut readers = keys.map(|stream| StreamReader::new(stream, data.file()));
        let mut sorted = self.aside.clone();
        sorted.sort_unstable();
        let mut sorted = sorted.into_iter().peekable();
        let mut aside = self.aside.iter().map(|(_, number)| *number).peekable();
        let mut order = StreamWriter::new(8);
        for number in 0..rows {
            if aside.next_if_eq(&number).is_some() {
                continue;
            }
            let mut key = [0; 3];
            for (key, reader) in key.iter_mut().zip(&mut readers) {
                reader.read(number..number + 1, |bytes| -> io::Result<()> {
                    *key = i64::from_le_bytes(*bytes.first_chunk().unwrap_or(&[0; 8]));
                    Ok(())
                })?;
            }
            while let Some((_, before)) = sorted.next_if(|before| *before < (key, number)) {
                order.push(&before.to_le_bytes(), data)?;
            }
            order.push(&number.to_le_bytes(), data)?;
        }
        for (_, number) in sorted {
            order.push(&number.to_le_bytes(), data)?;
        }
        order.flush(data)?;
        Ok(Some(order.stream().clone()))
    }
}
