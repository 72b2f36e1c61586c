//! The twin of `kernels/image/jpeg_scan.cu` and `jpeg.cu`: it reads a scan from its beginning to its end, and makes one
//! pixel after the other.

use robocache_ops::image::jpeg::{BLOCK, JpegTable, Scan};

/// Coefficients of a block, row by row, dequantised.
type Block = [i32; BLOCK];

/// Places of coefficients, row by row: along the diagonals of a block, up and down in turn.
const ZIGZAG: [usize; BLOCK] = [
    0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20,
    13, 6, 7, 14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59,
    52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63,
];
/// The greatest sum of magnitudes whose sums of pairs fit in the 16 bits of libjpeg's vector code.
const MOST_SUM: u32 = 32_767;
/// Samples before 128 is added. Outside of these, libjpeg's code in C wraps around and its vector code does not.
const SAMPLES: std::ops::RangeInclusive<i32> = -512..=511;
/// The mark of the first piece of a part.
const FIRST: u32 = 1 << 31;
/// The step of the symbol that ends a block.
const END: usize = 64;

/// The pixels of a scan; `None` if a core must decode the file.
pub(crate) fn pixels(of: &Scan) -> Option<Vec<u8>> {
    let planes = planes(of)?;
    let [across, down] = of.sampling;
    let chroma = [of.width.div_ceil(across), of.height.div_ceil(down)];
    let mut pixels = Vec::new();
    for (x, y) in (0..of.height).flat_map(|y| (0..of.width).map(move |x| (x, y))) {
        let luma = planes[0].at(x, y);
        if of.components == 1 {
            pixels.push(luma as u8);
            continue;
        }
        let [cb, cr] = [1, 2].map(|at| planes[at].upsampled([x, y], of.sampling, chroma) - 128);
        let colours = [
            luma + ((91_881 * cr + 32_768) >> 16),
            luma + ((-22_554 * cb - 46_802 * cr + 32_768) >> 16),
            luma + ((116_130 * cb + 32_768) >> 16),
        ];
        pixels.extend(colours.map(|colour| colour.clamp(0, 255) as u8));
    }
    Some(pixels)
}

/// The samples of a component.
struct Plane {
    stride: usize,
    samples: Vec<i32>,
}

impl Plane {
    fn at(&self, x: usize, y: usize) -> i32 {
        self.samples[y * self.stride + x]
    }

    /// The sample of a pixel by libjpeg's triangle filter, if there are `size` samples.
    fn upsampled(&self, [x, y]: [usize; 2], [across, down]: [usize; 2], size: [usize; 2]) -> i32 {
        // The nearest and the next sample of an axis: at an edge the same.
        let axis = |pixel: usize, per: usize, size: usize| {
            let near = pixel / per;
            let next = if pixel.is_multiple_of(2) {
                near.saturating_sub(1)
            } else {
                (near + 1).min(size - 1)
            };
            (near, if per == 1 { near } else { next })
        };
        let ((column, far_column), (line, far_line)) =
            (axis(x, across, size[0]), axis(y, down, size[1]));
        if across == 2 && size[0] <= 2 {
            return self.at(column, line);
        }
        let of = |column| 3 * self.at(column, line) + self.at(column, far_line);
        match [across, down] {
            [1, 1] => self.at(x, y),
            [1, _] => (of(column) + 1 + (y % 2) as i32) >> 2,
            [_, 1] => (3 * self.at(column, y) + self.at(far_column, y) + 1 + (x % 2) as i32) >> 2,
            _ => (3 * of(column) + of(far_column) + 8 - (x % 2) as i32) >> 4,
        }
    }
}

fn planes(of: &Scan) -> Option<Vec<Plane>> {
    let blocks = blocks(of)?;
    let [units_across, units_down] = of.units();
    let sampling = |component| if component == 0 { of.sampling } else { [1, 1] };
    let plane = |component| {
        let [across, down] = sampling(component);
        let stride = 8 * units_across * across;
        Plane { stride, samples: vec![0; stride * 8 * units_down * down] }
    };
    let mut planes: Vec<Plane> = (0..of.components).map(plane).collect();
    let mut block = 0;
    for unit in 0..units_across * units_down {
        for (component, plane) in planes.iter_mut().enumerate() {
            let [across, down] = sampling(component);
            for part in 0..across * down {
                let x = 8 * (unit % units_across * across + part % across);
                let y = 8 * (unit / units_across * down + part / across);
                for (at, sample) in samples(blocks[block])?.iter().enumerate() {
                    let place = (y + at / 8) * plane.stride + x + at % 8;
                    plane.samples[place] = (sample + 128).clamp(0, 255);
                }
                block += 1;
            }
        }
    }
    assert_eq!(block, blocks.len());
    Some(planes)
}

/// All blocks, in the order of the file.
fn blocks(of: &Scan) -> Option<Vec<Block>> {
    let units = of.units().iter().product::<usize>();
    let parts: Vec<usize> = of.starts[..of.pieces()]
        .iter()
        .enumerate()
        .filter_map(|(piece, start)| (start & FIRST != 0).then_some(piece))
        .collect();
    assert_eq!(parts.len(), units.div_ceil(of.part_units));
    let mut blocks = Vec::new();
    for (part, piece) in parts.iter().enumerate() {
        let next = parts.get(part + 1).copied().unwrap_or(of.pieces());
        let [start, end] = [*piece, next].map(|piece| (of.starts[piece] & !FIRST) as usize);
        let mut bits = Bits { bytes: &of.bytes, at: start };
        let mut last = [0; 3];
        for _ in 0..of.part_units.min(units - part * of.part_units) {
            for block in 0..of.unit_blocks() {
                let component = (block + 1).saturating_sub(of.luma_blocks());
                let tables = &of.tables[2 * usize::from(component > 0)..];
                blocks.push(bits.block(
                    [&tables[0], &tables[1]],
                    &of.quantisers[component],
                    &mut last[component],
                )?);
            }
        }
        // All but the rest of the last byte was read.
        if bits.at > end || end - bits.at >= 8 {
            return None;
        }
    }
    Some(blocks)
}

/// Reads bits, the highest of a byte first.
struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Bits<'_> {
    /// The next bits, behind the end zeros.
    fn next(&self, count: usize) -> u32 {
        let bit = |at: usize| self.bytes.get(at / 8).map_or(0, |byte| byte >> (7 - at % 8) & 1);
        (self.at..self.at + count).fold(0, |bits, at| bits << 1 | u32::from(bit(at)))
    }

    /// By how many coefficients the next one is further, and the bits of its value. `None` if no codeword is next.
    fn code(&mut self, table: &JpegTable) -> Option<(usize, usize)> {
        let mut code = table.found[self.next(10) as usize];
        if code == 0 {
            let next = self.next(16);
            let longer = table.limits.iter().position(|limit| next < *limit)?;
            let place = (next >> (5 - longer)) as i32 + table.offsets[longer];
            code = table.codes[place as usize];
        }
        self.at += usize::from(code >> 11);
        let step = usize::from(code & 127);
        let size = usize::from(code >> 7 & 15);
        (step > 0).then_some((step, size))
    }

    fn value(&mut self, size: usize) -> i32 {
        let bits = self.next(size) as i32;
        self.at += size;
        if size > 0 && bits < 1 << (size - 1) { bits - (1 << size) + 1 } else { bits }
    }

    fn block(
        &mut self,
        [first, others]: [&JpegTable; 2],
        quantiser: &[u8; BLOCK],
        last: &mut i32,
    ) -> Option<Block> {
        let mut block = [0; BLOCK];
        let (step, size) = self.code(first)?;
        assert_eq!(step, 1);
        *last += self.value(size);
        i16::try_from(*last).ok()?;
        block[0] = *last * i32::from(quantiser[0]);
        let mut place = 1;
        while place < BLOCK {
            let (step, size) = self.code(others)?;
            if step == END {
                break;
            }
            place += step;
            if place > BLOCK {
                return None;
            }
            block[ZIGZAG[place - 1]] = self.value(size) * i32::from(quantiser[place - 1]);
        }
        Some(block)
    }
}

/// The samples of a block, minus 128: libjpeg's `islow` inverse transform. `None` if libjpeg's code does not give the
/// same on all processors.
fn samples(mut block: Block) -> Option<Block> {
    let sum = |numbers: &[i32]| numbers.iter().map(|number| number.unsigned_abs()).sum::<u32>();
    if sum(&block) > MOST_SUM {
        return None;
    }
    for column in 0..8 {
        let sums = pass(std::array::from_fn(|row| block[8 * row + column]));
        (0..8).for_each(|row| block[8 * row + column] = rounded(sums[row], 11));
    }
    for row in block.as_chunks_mut::<8>().0 {
        if sum(row) > MOST_SUM {
            return None;
        }
        *row = pass(*row).map(|sum| rounded(sum, 18));
    }
    block.iter().all(|sample| SAMPLES.contains(sample)).then_some(block)
}

const fn rounded(sum: i32, bits: u32) -> i32 {
    (sum + (1 << (bits - 1))) >> bits
}

/// One dimension of the transform of Loeffler, Ligtenberg and Moschytz, with constants of 13 fraction bits. The twin
/// of `jpeg_pass` in `kernels/image/jpeg.cuh`.
const fn pass(x: [i32; 8]) -> [i32; 8] {
    let turn = (x[2] + x[6]) * 4433;
    let low = turn - x[6] * 15_137;
    let high = turn + x[2] * 6270;
    let sum = (x[0] + x[4]) << 13;
    let difference = (x[0] - x[4]) << 13;
    let even = [sum + high, difference + low, difference - low, sum - high];
    let all = (x[7] + x[3] + x[5] + x[1]) * 9633;
    let z1 = (x[7] + x[1]) * -7373;
    let z2 = (x[5] + x[3]) * -20_995;
    let z3 = (x[7] + x[3]) * -16_069 + all;
    let z4 = (x[5] + x[1]) * -3196 + all;
    let odd = [
        x[1] * 12_299 + z1 + z4,
        x[3] * 25_172 + z2 + z3,
        x[5] * 16_819 + z2 + z4,
        x[7] * 2446 + z1 + z3,
    ];
    let [a, b, c, d] = even;
    let [e, f, g, h] = odd;
    [a + e, b + f, c + g, d + h, d - h, c - g, b - f, a - e]
}
