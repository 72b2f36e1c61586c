//! Reads the rows of stores: those of `robocache replay --format rows`, and those of `--format zarr --rows STREAM`.

use std::fs::{self, File, Metadata};
use std::io::Write;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use super::mapped::Mapped;
use super::tasks::tasks_of;
use super::{
    About, Column, EpisodeError, Episodes, Owned, Packed, RawEpisodes, RawRing, RawStream,
    RowColumn, RowMeaning, available,
};
use crate::store::read::{self, Array};
use robocache_ops::time::TickGrid;
use serde_json::Value;

/// Selection of what is read of a store.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reading<'a> {
    /// The names of the streams; all of them if `None`.
    pub streams: Option<&'a [String]>,
    /// The numbers of the episodes, increasing; all of them if `None`.
    pub episodes: Option<&'a [usize]>,
    /// How many episodes the store had when these were chosen; `None` if that does not matter.
    pub of: Option<usize>,
    /// How many threads read at once.
    pub threads: usize,
    /// True if large rows (images, grids) stay compressed in the files of the store.
    pub packed: bool,
}

/// A column that was written to a file: stream, ring, name of the column, file, and its checksum.
pub(super) type Written = (String, usize, &'static str, String, u32);

/// Bytes that are read at once of a column that goes to a file.
const BLOCK: usize = 1 << 26;

impl Episodes {
    /// The names of the episodes of a store.
    ///
    /// # Errors
    /// It is no such store.
    pub fn names_of_store(store: &Path) -> Result<Vec<String>, EpisodeError> {
        let wrong = |error: String| EpisodeError::Store(format!("{}: {error}", store.display()));
        let mut about = read::about_rows(store).map_err(wrong)?;
        let all: Vec<About> = serde_json::from_value(about["episodes"].take())
            .map_err(|error| wrong(format!("a store without a list of episodes: {error}")))?;
        Ok(all.into_iter().map(|about| about.name).collect())
    }

    /// Reads a store. Only the rows of the episodes that are asked for are read.
    ///
    /// # Errors
    /// It is no such store, of another format, or damaged; it lacks a stream or an episode that is asked for; or
    /// another store took its place meanwhile.
    pub fn of_store(store: &Path, reading: Reading<'_>) -> Result<Self, EpisodeError> {
        Ok(Self::read_store(store, reading, None)?.0)
    }

    /// Reads a store. If there is a folder, rows and coordinates go to files of it, block by block, and are mapped.
    pub(super) fn read_store(
        store: &Path,
        reading: Reading<'_>,
        folder: Option<&Path>,
    ) -> Result<(Self, Vec<Written>), EpisodeError> {
        let wrong = |error: &dyn std::fmt::Display| {
            EpisodeError::Store(format!("{}: {error}", store.display()))
        };
        // While it is open, no other folder has its number.
        let held = File::open(store).map_err(|error| wrong(&error))?;
        let read = Self::read_files(store, reading, folder);
        let number = |about: std::io::Result<Metadata>| about.ok().map(|it| (it.dev(), it.ino()));
        if number(held.metadata()) != number(fs::metadata(store)) {
            // What was read may be of both, and so may an error.
            return Err(wrong(
                &"expected one store, found that a replay replaced it; load it again",
            ));
        }
        read
    }

    fn read_files(
        store: &Path,
        reading: Reading<'_>,
        folder: Option<&Path>,
    ) -> Result<(Self, Vec<Written>), EpisodeError> {
        let wrong = |error: String| EpisodeError::Store(format!("{}: {error}", store.display()));
        let mut about = read::about_rows(store).map_err(wrong)?;
        let all: Vec<About> = serde_json::from_value(about["episodes"].take())
            .map_err(|error| wrong(format!("a store without a list of episodes: {error}")))?;
        let numbers = chosen(reading.episodes, reading.of, all.len())?;
        let known = read::members(&store.join("streams")).map_err(wrong)?;
        let names = match reading.streams {
            None => known,
            Some(names) => {
                if let Some(name) = names.iter().find(|name| !known.contains(name)) {
                    return Err(EpisodeError::of(
                        "stream",
                        format!("one of {}", known.join(", ")),
                        name,
                    ));
                }
                names.to_vec()
            }
        };
        let mut written = Vec::new();
        let mut streams = Vec::with_capacity(names.len());
        let reader = |number: usize| StreamReader {
            name: &names[number],
            number,
            episodes: all.len(),
            numbers: &numbers,
            threads: reading.threads.max(1),
            packed: reading.packed,
            folder,
        };
        let folder_of = |name: &str| store.join("streams").join(name);
        let sizes = names.iter().enumerate();
        let sizes = sizes.map(|(at, name)| reader(at).held_bytes(&folder_of(name)));
        let held = sizes.sum::<Result<u64, _>>().map_err(EpisodeError::Store)?;
        check_room(held, available::bytes_left() as u64, reading.packed)?;
        for (number, name) in names.iter().enumerate() {
            let read = reader(number).read(&folder_of(name), &mut written);
            streams.push(read.map_err(EpisodeError::Store)?);
        }
        let configuration = about["configuration"].as_str().unwrap_or_default().to_owned();
        let episodes = numbers.iter().map(|number| all[*number].clone()).collect();
        let contract = Some(about["contract"].take()).filter(|contract| !contract.is_null());
        let period_ns = contract.as_ref().and_then(period_of);
        let raw = RawEpisodes { configuration, period_ns, episodes, streams };
        let mut made = Episodes::new(raw)?;
        made.tasks = tasks_of(&all);
        made.contract = contract;
        Ok((made, written))
    }
}

/// From a tick to the next \[ns\], as a contract says.
pub(super) fn period_of(contract: &Value) -> Option<i64> {
    contract["rate_hz"].as_f64().and_then(TickGrid::from_rate_hz).map(TickGrid::period_ns)
}

/// The numbers of the episodes that are asked for.
pub(super) fn chosen(
    asked: Option<&[usize]>,
    of: Option<usize>,
    count: usize,
) -> Result<Vec<usize>, EpisodeError> {
    if let Some(of) = of.filter(|of| *of != count) {
        let expected = format!("{of}, as when they were chosen");
        return Err(EpisodeError::of("episodes", expected, format!("{count}; load them again")));
    }
    let Some(asked) = asked else { return Ok((0..count).collect()) };
    let mut pairs = asked.iter().zip(asked.iter().skip(1));
    if let Some((before, number)) = pairs.find(|(before, number)| before >= number) {
        let found = format!("{number} after {before}");
        return Err(EpisodeError::of("episodes", "numbers that increase", found));
    }
    if let Some(number) = asked.last().filter(|number| **number >= count) {
        let expected = format!("numbers from 0 to {}", count.saturating_sub(1));
        return Err(EpisodeError::of("episodes", expected, number));
    }
    Ok(asked.to_vec())
}

/// Reads a stream.
struct StreamReader<'a> {
    name: &'a str,
    number: usize,
    /// Of the store, and the numbers of those that are read.
    episodes: usize,
    numbers: &'a [usize],
    threads: usize,
    packed: bool,
    folder: Option<&'a Path>,
}

impl StreamReader<'_> {
    /// Bytes of the rows that will be in memory.
    fn held_bytes(&self, folder: &Path) -> Result<u64, String> {
        let mut bytes = 0u64;
        for group in groups(folder)? {
            let folder = folder.join(group.to_string());
            let rows = Array::of(&folder.join("rows"))?;
            if self.folder.is_some() || self.stays_packed(&folder, &rows) {
                continue;
            }
            let (ranges, _) = self.ranges(&folder, &rows)?;
            let count: u64 = ranges.iter().map(|range| range.end - range.start).sum();
            let places = folder.join("coordinates");
            let places = if places.exists() { Array::of(&places)?.row_bytes } else { 0 };
            let row_bytes = (rows.row_bytes as u64).saturating_add(places as u64);
            bytes = bytes.saturating_add(count.saturating_mul(row_bytes));
        }
        Ok(bytes)
    }

    /// True if the rows of a group stay compressed.
    fn stays_packed(&self, folder: &Path, rows: &Array) -> bool {
        // A row of a vector is one-dimensional.
        let is_large = rows.shape.len() > 2 && rows.has_row_chunks();
        self.packed && is_large && !folder.join("coordinates").exists()
    }

    fn read(&self, folder: &Path, written: &mut Vec<Written>) -> Result<RawStream, String> {
        let wrong = |error: String| format!("{}: {error}", folder.display());
        let groups = groups(folder)?;
        let mut abouts = Vec::new();
        let mut stored = Vec::new();
        let mut rings = Vec::new();
        let mut plans = false;
        let mut coordinates_shape = None;
        for (at, group) in groups.into_iter().enumerate() {
            let folder = folder.join(group.to_string());
            let rows = Array::of(&folder.join("rows"))?;
            stored.push(rows.dtype().ok_or_else(|| rows.wrong("elements that no row has"))?);
            abouts.push(rows.attributes["ring"].clone());
            let places = folder.join("coordinates");
            if places.exists() {
                coordinates_shape = Array::of(&places)?.shape.get(1..).map(<[usize]>::to_vec);
            }
            let ring = self.ring(&folder, at, &rows, written)?;
            plans |= ring.until_next.is_some();
            rings.push(ring);
        }
        let means =
            RowMeaning::of_store(&abouts, &stored, plans, coordinates_shape).map_err(wrong)?;
        Ok(RawStream { means, rings })
    }

    fn ring(
        &self,
        folder: &Path,
        number: usize,
        rows: &Array,
        written: &mut Vec<Written>,
    ) -> Result<RawRing, String> {
        let (ranges, ends) = self.ranges(folder, rows)?;
        let threads = self.threads;
        let all = |name: &str| read(&Array::of(&folder.join(name))?, &ranges, threads);
        let some = |name: &str| -> Result<Option<Column>, String> {
            folder.join(name).exists().then(|| all(name)).transpose()
        };
        let places = folder.join("coordinates");
        let coordinates = match places.exists() {
            true => {
                let places = Array::of(&places)?;
                Some(self.large(&places, &ranges, number, "coordinates", written)?)
            }
            false => None,
        };
        let rows = match rows.dtype().filter(|_| self.stays_packed(folder, rows)) {
            Some(dtype) => RowColumn::Packed(Arc::new(Packed::new(rows, dtype, &ranges)?)),
            None => self.large(rows, &ranges, number, "rows", written)?.into(),
        };
        Ok(RawRing {
            rows,
            stamp_ns: all("stamp_ns")?,
            received_ns: all("received_ns")?,
            left_ns: all("left_ns")?,
            replaced: all("replaced")?,
            epoch: Some(all("epoch")?),
            until_next: some("until_next")?,
            until_ns: some("until_ns")?,
            count: some("count")?,
            coordinates,
            ends,
        })
    }

    /// The rows of each episode that is read, and where they end when they follow each other.
    fn ranges(&self, folder: &Path, rows: &Array) -> Result<(Vec<Range<u64>>, Vec<u64>), String> {
        let spans = read::spans(folder, rows.rows())?;
        if spans.len() != self.episodes {
            let expected = self.episodes;
            let found = spans.len();
            return Err(rows.wrong(&format!("expected {expected} episodes, found {found}")));
        }
        let ranges: Vec<Range<u64>> =
            self.numbers.iter().map(|episode| spans[*episode].clone()).collect();
        let mut end = 0;
        let ends = ranges.iter().map(|range| {
            end += range.end - range.start;
            end
        });
        let ends = ends.collect();
        Ok((ranges, ends))
    }

    /// A column that may be larger than memory.
    fn large(
        &self,
        array: &Array,
        ranges: &[Range<u64>],
        ring: usize,
        name: &'static str,
        written: &mut Vec<Written>,
    ) -> Result<Column, String> {
        let Some(folder) = self.folder else { return read(array, ranges, self.threads) };
        let file_name = format!("{}.{ring}.{name}", self.number);
        let path = folder.join(&file_name);
        let wrong = |error: std::io::Error| format!("{}: {error}", path.display());
        let mut file = File::create(&path).map_err(wrong)?;
        let each = (BLOCK / array.row_bytes.max(1)).max(1) as u64;
        let mut crc32c = 0;
        for block in blocks(ranges, each) {
            let column = read(array, &block, self.threads)?;
            crc32c = crc32c::crc32c_append(crc32c, column.bytes());
            file.write_all(column.bytes()).map_err(wrong)?;
        }
        file.sync_all().map_err(wrong)?;
        written.push((self.name.to_owned(), ring, name, file_name, crc32c));
        Ok(Arc::new(Mapped::open(&path).map_err(wrong)?))
    }
}

/// The numbers of the groups of a stream, in their order.
fn groups(folder: &Path) -> Result<Vec<usize>, String> {
    let number = |group: String| {
        let wrong = |_| format!("{}: a group named {group}", folder.display());
        group.parse::<usize>().map_err(wrong)
    };
    let mut groups: Vec<usize> =
        read::members(folder)?.into_iter().map(number).collect::<Result<_, _>>()?;
    // By number: 10 is after 9.
    groups.sort_unstable();
    Ok(groups)
}

/// Checks that rows find room in memory, before any is read: the system would end the process. `available` is all that is
/// left, as ranks may load one after the other; 0 if the system does not say.
fn check_room(held: u64, available: u64, packed: bool) -> Result<(), EpisodeError> {
    if available == 0 || held <= available {
        return Ok(());
    }
    let text = |bytes: u64| match bytes as f64 {
        few if few < 1e9 => format!("{:.1} MB", few / 1e6),
        many => format!("{:.1} GB", many / 1e9),
    };
    let remedy = match packed {
        true => "give fewer streams or episodes",
        false => "give compressed=True, or fewer streams or episodes",
    };
    let expected = format!("at most the {} of memory that are left", text(available));
    Err(EpisodeError::of("rows", expected, format!("{}: {remedy}", text(held))))
}

/// Divides the ranges into blocks of at most `each` rows.
fn blocks(ranges: &[Range<u64>], each: u64) -> Vec<Vec<Range<u64>>> {
    let (mut blocks, mut room): (Vec<Vec<Range<u64>>>, u64) = (Vec::new(), 0);
    for range in ranges {
        let mut at = range.start;
        while at < range.end {
            if room == 0 {
                blocks.push(Vec::new());
                room = each;
            }
            let end = range.end.min(at + room);
            room -= end - at;
            if let Some(block) = blocks.last_mut() {
                block.push(at..end);
            }
            at = end;
        }
    }
    blocks
}

/// The rows of ranges of an array, one range after the other.
fn read(array: &Array, ranges: &[Range<u64>], threads: usize) -> Result<Column, String> {
    let rows: u64 = ranges.iter().map(|range| range.end.saturating_sub(range.start)).sum();
    let len = usize::try_from(rows).ok().and_then(|rows| rows.checked_mul(array.row_bytes));
    let owned = len.and_then(Owned::of_len);
    let mut owned = owned.ok_or_else(|| array.wrong("more bytes than there is memory"))?;
    array.read_ranges(ranges, owned.bytes_mut(), threads)?;
    Ok(Arc::new(owned))
}

#[cfg(test)]
mod tests;
