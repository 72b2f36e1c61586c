//! The coefficients of JPEG files, for a GPU that makes the pixels.
//!
//! Only files without any surprise are read: baseline, all components in one scan, 8 bits, gray or YCbCr with chroma
//! of full or half size. [`super::decode`] takes all others, and says what is wrong with a damaged one. So a file
//! that is read here is one that libjpeg takes.
//!
//! Speed comes from three things. Stuffed bytes are removed first, so that a refill of the bits has no branch. One
//! look-up gives two symbols together with their values, if all are short. Zeros that a file leaves out are never
//! written.

mod huffman;
#[cfg(test)]
mod tests;

use self::huffman::{Bits, Coefficient, END, PER_REFILL, Place, Table};
use robocache_ops::image::jpeg::{BLOCK, Coefficients, MOST_VALUE, Magnitudes, VALUE_BITS, ZIGZAG};

/// A power of two above the entries of a block: each of 63 coefficients takes at most three, if it has 10 bits.
const MOST_ENTRIES: usize = 256;
/// Entries that are reserved at once, besides those of a unit.
const RESERVED: usize = 1 << 14;
/// Zeros behind the compressed data, which a refill may read.
const PADDING: usize = 16;

/// Reads files one after the other; its memory is used again.
#[derive(Default)]
pub struct CoefficientReader {
    coefficients: Coefficients,
    /// The compressed data without stuffed bytes, then [`PADDING`].
    bytes: Vec<u8>,
    /// Where the parts between restarts end there.
    ends: Vec<usize>,
    /// Of first coefficients, and of others.
    tables: Box<[[KnownTable; 4]; 2]>,
}

/// A camera sends the same codes with each file.
#[derive(Default)]
struct KnownTable {
    /// Of the last file that gave one.
    table: Option<Table>,
    /// This file gives it.
    is_given: bool,
}

/// What the headers say of a component.
#[derive(Clone, Copy, Default)]
struct Component {
    id: u8,
    sampling: [usize; 2],
    quantiser: usize,
    /// Of the first coefficient, and of the others.
    tables: [usize; 2],
    /// The first coefficient of its last block.
    last: i32,
}

/// What the headers say.
#[derive(Default)]
struct Headers {
    quantisers: [Option<[u8; BLOCK]>; 4],
    /// `None` before the frame.
    size: Option<[usize; 2]>,
    components: [Component; 3],
    count: usize,
    /// Units between restarts; 0 for none.
    interval: usize,
    jfif: bool,
    adobe: Option<u8>,
}

impl CoefficientReader {
    /// Reads a file; `None` if [`super::decode`] must take it. `largest` is the greatest width and height \[px\].
    pub fn read(&mut self, file: &[u8], largest: [usize; 2]) -> Option<&Coefficients> {
        let mut headers = Headers::default();
        self.tables.iter_mut().flatten().for_each(|known| known.is_given = false);
        let data = self.headers(file, &mut headers)?;
        let [width, height] = headers.size?;
        if !(1..=largest[0]).contains(&width) || !(1..=largest[1]).contains(&height) {
            return None;
        }
        self.layout([width, height], &headers)?;
        self.unstuff(data)?;
        self.scan(&mut headers)?;
        Some(&self.coefficients)
    }

    /// Reads all headers; returns what follows the last.
    fn headers<'a>(&mut self, file: &'a [u8], headers: &mut Headers) -> Option<&'a [u8]> {
        let mut rest = file.strip_prefix(&[0xFF, 0xD8])?;
        loop {
            let [0xFF, marker, high, low, ..] = *rest else { return None };
            let length = usize::from(u16::from_be_bytes([high, low]));
            let body = rest.get(4..2 + length)?;
            rest = &rest[2 + length..];
            match marker {
                0xE0 => headers.jfif |= body.len() >= 14 && body.starts_with(b"JFIF\0"),
                0xEE if body.len() >= 12 && body.starts_with(b"Adobe") => {
                    headers.adobe = Some(body[11]);
                }
                0xE1..=0xEF | 0xFE => {}
                0xDB => headers.quantisers(body)?,
                0xC4 => self.huffman(body)?,
                0xC0 if headers.size.is_none() => headers.frame(body)?,
                0xDD => {
                    headers.interval = u16::from_be_bytes(body.try_into().ok()?).into();
                }
                0xDA => {
                    headers.scan(body)?;
                    return Some(rest);
                }
                _ => return None,
            }
        }
    }

    fn huffman(&mut self, mut body: &[u8]) -> Option<()> {
        while let [place, rest @ ..] = body {
            let (counts, rest) = rest.split_first_chunk::<16>()?;
            let total: usize = counts.iter().map(|count| usize::from(*count)).sum();
            // libjpeg refuses more.
            if total > 256 {
                return None;
            }
            let (symbols, rest) = rest.split_at_checked(total)?;
            let class = usize::from(place >> 4);
            let KnownTable { table, is_given } =
                self.tables.get_mut(class)?.get_mut(usize::from(place & 15))?;
            if !table.as_ref().is_some_and(|table| table.is_of(counts, symbols)) {
                *table = Some(Table::new(counts, symbols, class == 0)?);
            }
            *is_given = true;
            body = rest;
        }
        Some(())
    }

    /// Notes what the image is. `None` if its chroma is of another kind.
    fn layout(&mut self, [width, height]: [usize; 2], headers: &Headers) -> Option<()> {
        let Headers { components, count, .. } = headers;
        let [luma, chroma @ ..] = components;
        let is_ycc = match (headers.jfif, headers.adobe) {
            (true, _) | (false, Some(1)) => true,
            (false, Some(_)) => false,
            (false, None) => components.map(|component| component.id) == [1, 2, 3],
        };
        let [across, down] = luma.sampling;
        let sampling = match count {
            // The blocks of a single component follow each other one by one, whatever its sampling.
            1 => [1, 1],
            3 if is_ycc && across.max(down) <= 2 => luma.sampling,
            _ => return None,
        };
        if *count == 3 && chroma.iter().any(|component| component.sampling != [1, 1]) {
            return None;
        }
        let to = &mut self.coefficients;
        (to.width, to.height, to.components, to.sampling) = (width, height, *count, sampling);
        for (component, to) in components[..*count].iter().zip(&mut to.quantisers) {
            *to = (*headers.quantisers.get(component.quantiser)?)?;
        }
        Some(())
    }

    /// Removes stuffed bytes and restarts; `None` unless the data end with the end of the image.
    fn unstuff(&mut self, mut data: &[u8]) -> Option<()> {
        self.bytes.clear();
        self.ends.clear();
        loop {
            let at = memchr::memchr(0xFF, data)?;
            self.bytes.extend_from_slice(&data[..at]);
            match data.get(at + 1)? {
                0 => self.bytes.push(0xFF),
                restart @ 0xD0..=0xD7 if usize::from(restart & 7) == self.ends.len() % 8 => {
                    self.ends.push(self.bytes.len());
                }
                0xD9 => break,
                _ => return None,
            }
            data = &data[at + 2..];
        }
        self.ends.push(self.bytes.len());
        self.bytes.resize(self.bytes.len() + PADDING, 0);
        Some(())
    }

    /// Reads all blocks.
    fn scan(&mut self, headers: &mut Headers) -> Option<()> {
        let CoefficientReader { coefficients, bytes, ends, tables } = self;
        let units = coefficients.units().iter().product::<usize>();
        let per_part = if headers.interval == 0 { units } else { headers.interval };
        if ends.len() != units.div_ceil(per_part) {
            return None;
        }
        let components = &mut headers.components[..coefficients.components];
        let table = |class: usize, place: usize| {
            let known = tables[class].get(place)?;
            known.table.as_ref().filter(|_| known.is_given)
        };
        let coder = |component: &Component| {
            Some((table(0, component.tables[0])?, table(1, component.tables[1])?))
        };
        let coders = components.iter().map(coder).collect::<Option<Vec<_>>>()?;
        let luma_blocks = coefficients.sampling.iter().product();
        let unit_blocks = coefficients.unit_blocks();
        let unit_entries = unit_blocks * MOST_ENTRIES;
        let Coefficients { blocks, entries, quantisers, .. } = coefficients;
        blocks.resize(units * unit_blocks + 1, 0);
        let mut starts = blocks.iter_mut();
        let (mut used, mut start, mut left) = (0, 0, units);
        for end in ends.iter().copied() {
            let mut bits = Bits::new(&bytes[start..]);
            let behind = bytes.len() - end;
            components.iter_mut().for_each(|component| component.last = 0);
            let part = per_part.min(left);
            for _ in 0..part {
                if entries.len() < used + unit_entries {
                    entries.resize(used + unit_entries + RESERVED, 0);
                }
                for (at, component) in components.iter_mut().enumerate() {
                    for _ in 0..if at == 0 { luma_blocks } else { 1 } {
                        *starts.next()? = used as u32;
                        let out = entries[used..].first_chunk_mut()?;
                        let (quantiser, last) = (&quantisers[at], &mut component.last);
                        let (more, sums) = block(&mut bits, coders[at], quantiser, last, out)?;
                        if !sums.are_safe(|| dequantised(&out[..more], quantiser)) {
                            return None;
                        }
                        used += more;
                    }
                }
                if bits.left() < behind {
                    return None;
                }
            }
            left -= part;
            // All but the padding of the last byte was read.
            if bits.left() != behind {
                return None;
            }
            start = end;
        }
        *starts.next()? = used as u32;
        Some(())
    }
}

impl Headers {
    fn quantisers(&mut self, body: &[u8]) -> Option<()> {
        let (tables, rest) = body.as_chunks::<{ 1 + BLOCK }>();
        for [place, table @ ..] in tables {
            // A place above 3 has steps of 16 bits.
            *self.quantisers.get_mut(usize::from(*place))? = Some(*table);
        }
        rest.is_empty().then_some(())
    }

    fn frame(&mut self, body: &[u8]) -> Option<()> {
        let [8, a, b, c, d, count, components @ ..] = body else { return None };
        let (components, rest) = components.as_chunks::<3>();
        if !rest.is_empty() || components.len() != usize::from(*count) || !matches!(count, 1 | 3) {
            return None;
        }
        for (to, [id, sampling, quantiser]) in self.components.iter_mut().zip(components) {
            to.id = *id;
            to.sampling = [sampling >> 4, sampling & 15].map(usize::from);
            to.quantiser = usize::from(*quantiser);
            if to.sampling.iter().any(|samples| !(1..=4).contains(samples)) {
                return None;
            }
        }
        self.count = components.len();
        self.size = Some([[*c, *d], [*a, *b]].map(|side| u16::from_be_bytes(side).into()));
        Some(())
    }

    /// The header of the only scan, of all components in the order of the frame.
    fn scan(&mut self, body: &[u8]) -> Option<()> {
        let (count, rest) = body.split_first()?;
        let (components, rest) = rest.as_chunks::<2>();
        // The last chunk and the rest say that it has all coefficients with all of their bits.
        let ([0, 63], [0]) = (components.last()?, rest) else { return None };
        if usize::from(*count) != self.count || components.len() != self.count + 1 {
            return None;
        }
        let ids = self.components.map(|component| component.id);
        if self.count == 3 && (ids[0] == ids[1] || ids[0] == ids[2] || ids[1] == ids[2]) {
            return None;
        }
        for (component, [id, tables]) in self.components.iter_mut().zip(&components[..self.count]) {
            if component.id != *id {
                return None;
            }
            component.tables = [tables >> 4, tables & 15].map(usize::from);
        }
        Some(())
    }
}

/// Reads a block into `out`; returns how many entries it takes, and its magnitudes. `last` is the first coefficient of
/// the block before.
#[inline(always)]
fn block(
    from: &mut Bits<'_>,
    (first, others): (&Table, &Table),
    quantiser: &[u8; BLOCK],
    last: &mut i32,
    out: &mut [u16; MOST_ENTRIES],
) -> Option<(usize, Magnitudes)> {
    let mut bits = *from;
    bits.refill()?;
    let found = first.find(&bits);
    if found.is_long() {
        let (after, (_, difference)) = first.long(found, bits)?;
        bits = after;
        *last += difference;
    } else {
        bits.take(found);
        *last += found.first();
    }
    out[0] = i16::try_from(*last).ok()? as u16;
    let sums = Magnitudes { first: last.unsigned_abs() * u32::from(quantiser[0]), others: 0 };
    let mut block =
        Block { bits, table: others, quantiser, last: Place::new(0), used: 1, sums, out };
    const { assert!(PER_REFILL == 5) };
    if !(block.step()? || block.step()? || block.step()? || block.step()?) {
        // Written one by one, as the compiler repeats no step of a loop that is this long.
        loop {
            block.bits.refill()?;
            if block.step()? || block.step()? || block.step()? || block.step()? || block.step()? {
                break;
            }
        }
    }
    *from = block.bits;
    Some((block.used, block.sums))
}

/// A block that is being read, behind its first coefficient.
struct Block<'a, 'bytes> {
    bits: Bits<'bytes>,
    table: &'a Table,
    quantiser: &'a [u8; BLOCK],
    /// Of the last coefficient.
    last: Place,
    /// Entries of `out`.
    used: usize,
    sums: Magnitudes,
    out: &'a mut [u16; MOST_ENTRIES],
}

impl Block<'_, '_> {
    /// Takes what a look-up finds. Says whether the block ends.
    #[inline(always)]
    fn step(&mut self) -> Option<bool> {
        let found = self.table.find(&self.bits);
        let values = found.behind(self.last);
        if values.are_within() {
            self.bits.take(found);
            self.put(0, values.first());
            self.put(1, values.second());
            self.used += 1 + values.pairs();
            self.last = values.last();
            return Some(false);
        }
        if values.end() {
            self.bits.take(found);
            self.put(0, values.first());
            // The symbol that ends the block has no value.
            self.used += values.pairs();
            return Some(true);
        }
        let last = self.last.index();
        if last == BLOCK - 1 {
            // What was found is of the next block.
            return Some(true);
        }
        if !found.is_long() {
            self.bits.take_first(found);
            self.put(0, values.first());
            self.used += 1;
            // The second value is of the next block; else a place is beyond the last.
            return values.first_is_last().then_some(true);
        }
        let (bits, (run, value)) = self.table.long(found, self.bits)?;
        self.bits = bits;
        let place = last + 1 + run;
        if place >= BLOCK {
            return (run == END).then_some(true);
        }
        self.sums.others += value.unsigned_abs() * u32::from(self.quantiser[place]);
        let (parts, rest) = split(place, value, &mut self.out[self.used..]);
        self.used += parts;
        self.out[self.used % MOST_ENTRIES] = entry(place, rest);
        self.used += 1;
        self.last = Place::new(place);
        Some(false)
    }

    /// Writes an entry behind those that are used, without using it.
    #[inline(always)]
    fn put(&mut self, more: usize, Coefficient { place, magnitude, entry }: Coefficient) {
        self.sums.others += magnitude * u32::from(self.quantiser[place]);
        self.out[(self.used + more) % MOST_ENTRIES] = entry;
    }
}

/// Writes what of a coefficient does not fit into one entry; returns how many entries that takes, and the rest.
fn split(place: usize, mut value: i32, out: &mut [u16]) -> (usize, i32) {
    let mut parts = 0;
    while value.abs() > MOST_VALUE {
        let part = MOST_VALUE * value.signum();
        out[parts] = entry(place, part);
        (parts, value) = (parts + 1, value - part);
    }
    (parts, value)
}

const fn entry(place: usize, value: i32) -> u16 {
    (place << VALUE_BITS) as u16 | value as u16 & ((1 << VALUE_BITS) - 1)
}

/// The coefficients of a block, row by row.
fn dequantised(entries: &[u16], quantiser: &[u8; BLOCK]) -> [i32; BLOCK] {
    let mut block = [0; BLOCK];
    block[0] = i32::from(entries[0] as i16) * i32::from(quantiser[0]);
    for entry in &entries[1..] {
        let place = usize::from(entry >> VALUE_BITS);
        let value = i32::from((entry << (16 - VALUE_BITS)) as i16 >> (16 - VALUE_BITS));
        block[usize::from(ZIGZAG[place])] += value * i32::from(quantiser[place]);
    }
    block
}
