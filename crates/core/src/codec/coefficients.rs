//! The coefficients of JPEG files, for a GPU that makes the pixels.
//!
//! Only files without any surprise are read: baseline, all components in one scan, 8 bits, gray or YCbCr with chroma
//! of full or half size. [`super::decode`] takes all others, and says what is wrong with a damaged one. So a file
//! that is read here is one that libjpeg takes.
//!
//! Speed comes from three things. Stuffed bytes are removed first, so that a refill of the bits has no branch. One
//! look-up gives a symbol together with its value, if both are short. What is zero is never written.

mod huffman;

use self::huffman::{Bits, END, SHORT_PER_REFILL, Table};
use robocache_ops::image::jpeg::{BLOCK, Coefficients, MOST_VALUE, Magnitudes, VALUE_BITS, ZIGZAG};

/// Most entries of a block: a coefficient of 10 bits takes three.
const MOST_ENTRIES: usize = 256;
/// Entries that are reserved at once.
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
    tables: Box<[[Option<Table>; 4]; 2]>,
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
        self.tables.iter_mut().flatten().for_each(|table| *table = None);
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
            let total = counts.iter().map(|count| usize::from(*count)).sum();
            let (symbols, rest) = rest.split_at_checked(total)?;
            let class = usize::from(place >> 4);
            let table = Table::new(counts, symbols, class == 0)?;
            *self.tables.get_mut(class)?.get_mut(usize::from(place & 15))? = Some(table);
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
        let [first, others] = &**tables;
        let coder = |component: &Component| {
            let [a, b] = component.tables;
            Some((first.get(a)?.as_ref()?, others.get(b)?.as_ref()?))
        };
        let coders = components.iter().map(coder).collect::<Option<Vec<_>>>()?;
        let luma_blocks = coefficients.sampling.iter().product();
        let Coefficients { blocks, entries, quantisers, .. } = coefficients;
        blocks.clear();
        entries.clear();
        let (mut used, mut start, mut left) = (0, 0, units);
        for end in ends.iter().copied() {
            let mut bits = Bits::new(bytes, start);
            components.iter_mut().for_each(|component| component.last = 0);
            let part = per_part.min(left);
            for _ in 0..part {
                for (at, component) in components.iter_mut().enumerate() {
                    for _ in 0..if at == 0 { luma_blocks } else { 1 } {
                        if entries.len() < used + MOST_ENTRIES {
                            entries.resize(used + RESERVED, 0);
                        }
                        blocks.push(used as u32);
                        let out = entries[used..].first_chunk_mut()?;
                        used += block(
                            &mut bits,
                            coders[at],
                            &quantisers[at],
                            &mut component.last,
                            out,
                        )?;
                    }
                }
                if bits.end() > end {
                    return None;
                }
            }
            left -= part;
            // All but the padding of the last byte was read.
            if bits.end() != end {
                return None;
            }
            start = end;
        }
        entries.truncate(used);
        blocks.push(used as u32);
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

/// Reads a block into `out`; returns how many entries it takes. `last` is the first coefficient of the block before.
#[inline(always)]
fn block(
    from: &mut Bits<'_>,
    (first, others): (&Table, &Table),
    quantiser: &[u8; BLOCK],
    last: &mut i32,
    out: &mut [u16; MOST_ENTRIES],
) -> Option<usize> {
    let mut bits = *from;
    bits.refill()?;
    let difference = match first.short(&mut bits) {
        Some((_, difference)) => difference,
        None => {
            let (after, (_, difference)) = first.long(bits)?;
            bits = after;
            difference
        }
    };
    *last += difference;
    out[0] = i16::try_from(*last).ok()? as u16;
    let mut sums = Magnitudes { first: last.unsigned_abs() * u32::from(quantiser[0]), others: 0 };
    let (mut used, mut place) = (1, 1);
    'block: while place < BLOCK {
        bits.refill()?;
        for _ in 0..SHORT_PER_REFILL {
            let (run, value) = match others.short(&mut bits) {
                Some(found) => found,
                None => {
                    let (after, (run, value)) = others.long(bits)?;
                    bits = after;
                    let step = u32::from(quantiser[(place + run) % BLOCK]);
                    let (parts, rest) = split(place + run, value, &mut out[used..]);
                    sums.others += value.abs_diff(rest) * step;
                    used += parts;
                    (run, rest)
                }
            };
            place += run;
            if place >= BLOCK {
                match run {
                    END => break 'block,
                    _ => return None,
                }
            }
            sums.others += value.unsigned_abs() * u32::from(quantiser[place]);
            out[used % MOST_ENTRIES] = entry(place, value);
            (used, place) = (used + 1, place + 1);
            if place == BLOCK {
                break 'block;
            }
        }
    }
    *from = bits;
    sums.are_safe(|| dequantised(&out[..used], quantiser)).then_some(used)
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
