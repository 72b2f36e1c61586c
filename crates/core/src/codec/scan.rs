//! The compressed data of JPEG files, for a GPU that makes the pixels.
//!
//! Only files without any surprise are read: baseline, all components in one scan, 8 bits, gray or YCbCr with chroma
//! of full or half size. [`super::decode`] takes all others, and says what is wrong with a damaged one. Whether the
//! compressed data are whole, the GPU finds.

use robocache_ops::image::jpeg::{BLOCK, JpegTable, Scan};

/// Reads files one after the other; its memory is used again.
#[derive(Default)]
pub struct ScanReader {
    scan: Scan,
    /// Ends of the parts between restarts in the compressed data.
    ends: Vec<usize>,
    /// Of first coefficients, and of others.
    tables: Box<[[Option<JpegTable>; 4]; 2]>,
}

/// A component as the headers describe it.
#[derive(Clone, Copy, Default)]
struct Component {
    id: u8,
    sampling: [usize; 2],
    quantiser: usize,
    /// Numbers of the tables: of the first coefficient, and of the others.
    tables: [usize; 2],
}

/// Contents of the headers.
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

impl ScanReader {
    /// Reads a file; `None` if [`super::decode`] must take it. `largest` is the greatest width and height \[px\].
    pub fn read(&mut self, file: &[u8], largest: [usize; 2]) -> Option<&Scan> {
        let mut headers = Headers::default();
        self.tables.iter_mut().flatten().for_each(|table| *table = None);
        let data = self.headers(file, &mut headers)?;
        let [width, height] = headers.size?;
        if !(1..=largest[0]).contains(&width) || !(1..=largest[1]).contains(&height) {
            return None;
        }
        self.layout([width, height], &headers)?;
        self.codes(&headers)?;
        self.unstuff(data)?;
        let units = self.scan.units().iter().product::<usize>();
        self.scan.part_units = if headers.interval == 0 { units } else { headers.interval };
        if self.ends.len() != units.div_ceil(self.scan.part_units) {
            return None;
        }
        self.scan.divide(&self.ends)?;
        Some(&self.scan)
    }

    /// Notes the codes of luma, and of chroma. `None` unless both chroma components have the same ones, which are others
    /// than those of luma: else threads would not notice that they mistake one component for another.
    fn codes(&mut self, headers: &Headers) -> Option<()> {
        let [luma, blue, red] = headers.components.map(|component| component.tables);
        if headers.count == 3 && (blue != red || blue == luma) {
            return None;
        }
        let pairs = if headers.count == 3 { vec![luma, blue] } else { vec![luma] };
        let places = pairs.into_iter().flat_map(|pair| [(0, pair[0]), (1, pair[1])]);
        self.scan.tables.clear();
        for (class, place) in places {
            self.scan.tables.push((*self.tables[class].get(place)?)?);
        }
        Some(())
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
            let (symbols, rest) = rest.split_at_checked(total)?;
            let class = usize::from(place >> 4);
            let table = self.tables.get_mut(class)?.get_mut(usize::from(place & 15))?;
            // libjpeg refuses more symbols than bytes have values.
            *table = Some(JpegTable::new(counts, symbols, class == 0)?);
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
        let to = &mut self.scan;
        (to.width, to.height, to.components, to.sampling) = (width, height, *count, sampling);
        for (component, to) in components[..*count].iter().zip(&mut to.quantisers) {
            *to = (*headers.quantisers.get(component.quantiser)?)?;
        }
        Some(())
    }

    /// Removes stuffed bytes and restarts; `None` unless the data end with the end of the image.
    fn unstuff(&mut self, mut data: &[u8]) -> Option<()> {
        let bytes = &mut self.scan.bytes;
        bytes.clear();
        self.ends.clear();
        loop {
            let at = memchr::memchr(0xFF, data)?;
            bytes.extend_from_slice(&data[..at]);
            match data.get(at + 1)? {
                0 => bytes.push(0xFF),
                restart @ 0xD0..=0xD7 if usize::from(restart & 7) == self.ends.len() % 8 => {
                    self.ends.push(bytes.len());
                }
                0xD9 => break,
                _ => return None,
            }
            data = &data[at + 2..];
        }
        self.ends.push(bytes.len());
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
