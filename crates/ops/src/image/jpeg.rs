//! A JPEG image between its file and its pixels: the quantised coefficients that a core has read, for a GPU that
//! makes the pixels (`kernels/image/jpeg.cu`).
//!
//! The pixels are libjpeg's: its `islow` transform, its triangle filter for chroma and its colours. All are
//! integers, so that they are the same on every processor, unless coefficients are so large that they leave the
//! integers of libjpeg's vector code. [`Magnitudes`] tells these.

/// Coefficients of a block.
pub const BLOCK: usize = 64;
/// Bits of an entry that hold a value. The place of the coefficient is above them.
pub const VALUE_BITS: u32 = 10;
/// The greatest value of an entry. A greater coefficient takes several, which are added.
pub const MOST_VALUE: i32 = (1 << (VALUE_BITS - 1)) - 1;
/// The place of the coefficients in a block, in the order of the file.
pub const ZIGZAG: [u8; BLOCK] = zigzag();

/// An image of 8 bits: luma, or luma and two chroma components.
#[derive(Clone, Debug)]
pub struct Coefficients {
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
    /// Where each block begins in `entries`, and their end. Blocks are in the order of the file: units of all
    /// components, from left to right.
    pub blocks: Vec<u32>,
    /// Of each block: the first coefficient as an `i16`, then `place << VALUE_BITS | value` of the others that the file
    /// has, which leaves out most zeros. Places are in the order of the file, 1 to 63. Entries behind the end of the last
    /// block mean nothing ([`Self::used`]).
    pub entries: Vec<u16>,
}

impl Default for Coefficients {
    fn default() -> Self {
        Coefficients {
            width: 0,
            height: 0,
            components: 1,
            sampling: [1, 1],
            quantisers: [[0; BLOCK]; 3],
            blocks: Vec::new(),
            entries: Vec::new(),
        }
    }
}

impl Coefficients {
    /// Units across and down. A unit is one block of each chroma component, and the blocks of luma for them.
    pub fn units(&self) -> [usize; 2] {
        let [across, down] = self.sampling;
        [self.width.div_ceil(8 * across), self.height.div_ceil(8 * down)]
    }

    /// The entries of all blocks.
    pub fn used(&self) -> &[u16] {
        let end = self.blocks.last().map_or(0, |end| *end as usize);
        &self.entries[..end]
    }

    /// Blocks of a unit.
    pub fn unit_blocks(&self) -> usize {
        self.sampling[0] * self.sampling[1] + self.components - 1
    }
}

/// The magnitudes of a block's dequantised coefficients.
#[derive(Clone, Copy, Debug, Default)]
pub struct Magnitudes {
    /// That of the first.
    pub first: u32,
    /// The sum of the others.
    pub others: u32,
}

/// The greatest sum of magnitudes whose sums of pairs fit in the 16 bits of libjpeg's vector code.
const MOST_SUM: u32 = 32_767;
/// Samples before 128 is added. Outside of these, libjpeg's code in C wraps around and its vector code does not.
const SAMPLES: std::ops::RangeInclusive<i32> = -512..=511;

impl Magnitudes {
    /// Whether libjpeg's code gives the same samples on all processors. `block` gives the dequantised coefficients,
    /// row by row; they are only asked for if the sums do not tell.
    pub fn are_safe(self, block: impl FnOnce() -> [i32; BLOCK]) -> bool {
        let Magnitudes { first, others } = self;
        // A coefficient changes a sample by at most a quarter, the first by an eighth; rounding is below 1. What is
        // between the passes is below 6 times the sum.
        first.saturating_add(2 * others) <= 8 * (SAMPLES.end().unsigned_abs() - 1)
            || first.saturating_add(others) <= MOST_SUM
                && samples(block())
                    .is_some_and(|samples| samples.iter().all(|sample| SAMPLES.contains(sample)))
    }
}

/// The samples of a block, minus 128: libjpeg's `islow` inverse transform. `None` if numbers between its passes are too
/// large.
pub fn samples(mut block: [i32; BLOCK]) -> Option<[i32; BLOCK]> {
    for column in 0..8 {
        let sums = pass(std::array::from_fn(|row| block[8 * row + column]));
        (0..8).for_each(|row| block[8 * row + column] = rounded(sums[row], 11));
    }
    for row in block.as_chunks_mut::<8>().0 {
        if row.iter().map(|number| number.unsigned_abs()).sum::<u32>() > MOST_SUM {
            return None;
        }
        *row = pass(*row).map(|sum| rounded(sum, 18));
    }
    Some(block)
}

const fn rounded(sum: i32, bits: u32) -> i32 {
    (sum + (1 << (bits - 1))) >> bits
}

/// One dimension of the transform of Loeffler, Ligtenberg and Moschytz, with constants of 13 fraction bits. The twin
/// of `pass` in `kernels/image/jpeg.cuh`.
const fn pass(x: [i32; 8]) -> [i32; 8] {
    let turn = (x[2] + x[6]) * 4433;
    let (low, high) = (turn - x[6] * 15_137, turn + x[2] * 6270);
    let (sum, difference) = ((x[0] + x[4]) << 13, (x[0] - x[4]) << 13);
    let even = [sum + high, difference + low, difference - low, sum - high];
    let all = (x[7] + x[3] + x[5] + x[1]) * 9633;
    let (z1, z2) = ((x[7] + x[1]) * -7373, (x[5] + x[3]) * -20_995);
    let (z3, z4) = ((x[7] + x[3]) * -16_069 + all, (x[5] + x[1]) * -3196 + all);
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

/// Along the diagonals of a block, up and down in turn.
const fn zigzag() -> [u8; BLOCK] {
    let mut places = [0; BLOCK];
    let (mut at, mut diagonal) = (0, 0);
    while diagonal < 15 {
        let mut step = 0;
        while step <= diagonal {
            let (one, other) = (step, diagonal - step);
            let (x, y) = if diagonal % 2 == 0 { (one, other) } else { (other, one) };
            if x < 8 && y < 8 {
                places[at] = (8 * y + x) as u8;
                at += 1;
            }
            step += 1;
        }
        diagonal += 1;
    }
    places
}
