//! A JPEG image between its file and its pixels: the compressed data and its codes, for a GPU that makes the pixels
//! (`kernels/image/jpeg_scan.cu`, `jpeg.cu`).
//!
//! The pixels are libjpeg's: its `islow` transform, its triangle filter for chroma and its colours. All are
//! integers, so that they are the same on every processor, unless coefficients are so large that they leave the
//! integers of libjpeg's vector code. The kernels refuse these files, and those that are damaged. A core decodes them,
//! or says what is wrong.

pub use crate::device::shared::image::JpegTable;
use crate::device::shared::image::{self as shared, END, FIRST, LOOK_UP, MOST_CODE};

/// Coefficients of a block.
pub const BLOCK: usize = 64;
/// Bits of a piece, which one thread reads. A thread that begins at a wrong place usually reads the right codewords
/// after a few hundred bits.
pub const PIECE_BITS: usize = shared::PIECE_BITS as usize;
/// The last piece of a part is longer than the others by less than this. So it has more than the rest of a byte.
const SHORTEST_PIECE: usize = 32;
/// Zeros behind the compressed data, which the kernels may read.
const PADDING: usize = 16;

/// An image of 8 bits: luma, or luma and two chroma components.
#[derive(Clone, Debug)]
pub struct Scan {
    /// Width \[px\].
    pub width: usize,
    /// Height \[px\].
    pub height: usize,
    /// 1 or 3.
    pub components: usize,
    /// Samples of luma per sample of chroma, across and down: 1 or 2.
    pub sampling: [usize; 2],
    /// The quantiser of each component, in the order of the file.
    pub quantisers: [[u8; BLOCK]; 3],
    /// The codes of first coefficients and of others: of luma, then of chroma.
    pub tables: Vec<JpegTable>,
    /// Units between restarts. Without restarts: all.
    pub part_units: usize,
    /// The compressed data without stuffed bytes and restarts, then zeros.
    pub bytes: Vec<u8>,
    /// The bit where each piece starts, and their end. The first of a part has a mark.
    pub starts: Vec<u32>,
}

impl Default for Scan {
    fn default() -> Self {
        Scan {
            width: 0,
            height: 0,
            components: 1,
            sampling: [1, 1],
            quantisers: [[0; BLOCK]; 3],
            tables: Vec::new(),
            part_units: 0,
            bytes: Vec::new(),
            starts: Vec::new(),
        }
    }
}

impl Scan {
    /// Units across and down. A unit is one block of each chroma component, and the blocks of luma for them.
    pub fn units(&self) -> [usize; 2] {
        let [across, down] = self.sampling;
        [self.width.div_ceil(8 * across), self.height.div_ceil(8 * down)]
    }

    /// Blocks of luma in a unit.
    pub fn luma_blocks(&self) -> usize {
        self.sampling[0] * self.sampling[1]
    }

    /// Blocks of a unit.
    pub fn unit_blocks(&self) -> usize {
        self.luma_blocks() + self.components - 1
    }

    /// Divides the compressed data into pieces. `ends` says where its parts end \[bytes\]. `None` if it is too long.
    pub fn divide(&mut self, ends: &[usize]) -> Option<()> {
        self.starts.clear();
        let mut start = 0;
        for end in ends.iter().map(|end| 8 * end) {
            let mut mark = FIRST;
            // Also an empty part has a piece.
            loop {
                self.starts.push(u32::try_from(start).ok().filter(|bit| bit & FIRST == 0)? | mark);
                mark = 0;
                if end < start + PIECE_BITS + SHORTEST_PIECE {
                    break;
                }
                start += PIECE_BITS;
            }
            start = end;
        }
        self.starts.push(u32::try_from(start).ok().filter(|bit| bit & FIRST == 0)?);
        self.bytes.resize((start / 8 + PADDING).next_multiple_of(4), 0);
        Some(())
    }

    /// True if the numbers of the scan fit together, as those of a file do that was read without any surprise.
    pub fn is_whole(&self) -> bool {
        let most = match self.components {
            1 => 1,
            3 => 2,
            _ => return false,
        };
        let units = self.units_within(most).map_or(0, |[across, down]| across * down);
        let Some((end, starts)) = self.starts.split_last() else { return false };
        let parts = starts.iter().filter(|start| *start & FIRST != 0).count();
        units > 0
            && self.tables.len() == 2 * most
            && self.part_units > 0
            && parts == units.div_ceil(self.part_units)
            && self.bytes.len() >= *end as usize / 8 + PADDING
    }

    /// Units across and down, if no more than `most` samples of luma are beside one of chroma.
    fn units_within(&self, most: usize) -> Option<[usize; 2]> {
        let fits = self.sampling.iter().all(|samples| (1..=most).contains(samples));
        fits.then(|| self.units())
    }

    /// Pieces of the compressed data.
    pub fn pieces(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }
}

/// The greatest coefficient of an image of 8 bits has this many bits. A difference of two has one more.
const MOST_BITS: u8 = 10;

impl JpegTable {
    /// The code of these `symbols`. `counts` says how many have each length from 1 to 16. `None` if it is no code, or
    /// if the symbols are none of first coefficients.
    pub fn new(counts: &[u8; 16], symbols: &[u8], is_first: bool) -> Option<Self> {
        if is_first && symbols.iter().any(|symbol| *symbol > MOST_BITS + 1) {
            return None;
        }
        let mut table = JpegTable {
            found: [0; 1 << LOOK_UP],
            limits: [0; (MOST_CODE - LOOK_UP) as usize],
            offsets: [0; (MOST_CODE - LOOK_UP) as usize],
            codes: [0; 256],
        };
        let mut codeword = 0u32;
        let mut place = 0usize;
        for (length, count) in (1u32..).zip(counts) {
            let first = codeword;
            let count = u32::from(*count);
            // No codeword is ones alone.
            if first + count >= 1 << length {
                return None;
            }
            let own = symbols.get(place..place + count as usize)?;
            let codes = table.codes.get_mut(place..place + own.len())?;
            for (code, symbol) in codes.iter_mut().zip(own) {
                *code = code_of(length, *symbol, is_first);
            }
            if length <= LOOK_UP {
                let each = 1 << (LOOK_UP - length);
                let found = table.found[first as usize * each..].chunks_mut(each);
                found.zip(codes).for_each(|(found, code)| found.fill(*code));
            } else {
                let longer = (length - LOOK_UP - 1) as usize;
                table.offsets[longer] = place as i32 - first as i32;
                table.limits[longer] = (first + count) << (MOST_CODE - length);
            }
            (codeword, place) = ((first + count) << 1, place + own.len());
        }
        Some(table)
    }
}

/// Returns length, size and step of a codeword in one number (`kernels/image/jpeg_scan.cuh`). The step is 0 if no image
/// of 8 bits has such a value.
fn code_of(length: u32, symbol: u8, is_first: bool) -> u16 {
    let run = u16::from(symbol >> 4);
    let size = symbol & 15;
    let step = match (run, size) {
        (_, 11..) if !is_first => 0,
        // Sixteen zeros: fifteen before a zero.
        (0..15, 0) if !is_first => END as u16,
        _ => run + 1,
    };
    (length as u16) << 11 | u16::from(size) << 7 | step
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A scan of 40 x 24 pixels in parts of 100 bytes. Each has `part_units` units, and the last one the rest.
    fn scan(components: usize, sampling: [usize; 2], part_units: usize) -> Scan {
        let table = JpegTable::new(&[1; 16], &[0; 16], true).unwrap();
        let mut scan = Scan { width: 40, height: 24, components, sampling, ..Scan::default() };
        scan.tables = vec![table; if components == 1 { 2 } else { 4 }];
        scan.part_units = part_units;
        let units = scan.units().iter().product::<usize>();
        let ends: Vec<_> = (1..=units.div_ceil(part_units)).map(|part| 100 * part).collect();
        scan.divide(&ends).unwrap();
        scan
    }

    type Damage = fn(&mut Scan);

    #[test]
    fn scans_of_which_parts_are_missing_are_not_whole() {
        for (components, sampling) in [(1, [1, 1]), (3, [1, 1]), (3, [2, 1]), (3, [2, 2])] {
            for part_units in [1, 4, 15, 99] {
                let whole = scan(components, sampling, part_units);
                assert!(whole.is_whole(), "{components} {sampling:?} {part_units}");
                let wrong: [(&str, Damage); 10] = [
                    ("no table", |scan| scan.tables.clear()),
                    ("one table less", |scan| scan.tables.truncate(1)),
                    ("tables of the others", |scan| scan.components = 4 - scan.components),
                    ("no units in a part", |scan| scan.part_units = 0),
                    ("more parts", |scan| scan.height += 64),
                    ("no pixels", |scan| scan.width = 0),
                    ("no samples", |scan| scan.sampling[0] = 0),
                    ("samples", |scan| scan.sampling[1] = 3),
                    ("no pieces", |scan| scan.starts.clear()),
                    ("no zeros behind the data", |scan| scan.bytes.truncate(100)),
                ];
                for (what, change) in wrong {
                    if what == "more parts" && part_units == 99 {
                        continue;
                    }
                    let mut scan = whole.clone();
                    change(&mut scan);
                    assert!(!scan.is_whole(), "{what}: {components} {sampling:?} {part_units}");
                }
            }
        }
    }
}
