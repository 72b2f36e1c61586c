//! RVL, a code for depth images without loss: A. D. Wilson, "Fast Lossless Depth Image Compression",
//! ISS 2017, as compressed_depth_image_transport frames it.
//!
//! A file is the width and the height (`u32`), then words of 32 bits, all little-endian. A word has eight
//! nibbles, the most significant first. A number is one or more nibbles: three bits each, the least
//! significant first, and a bit that says whether another follows. The pixels are runs in turn: a number
//! of zeros, a number of other pixels, and for each of these the difference to the last pixel that was
//! not zero, with its sign in the lowest bit (0, -1, 1, -2 and so on are 0, 1, 2, 3).

use super::{check_size, malformed};
use crate::rejected::Rejected;

/// Bytes in front of the words.
const HEADER: usize = 8;

/// Decodes a file into `pixels`, big-endian and without padding. Returns width and height.
///
/// # Errors
/// - `TooLarge`: more pixels than `largest`; nothing is reserved then.
/// - `Malformed`: the file ends early, a run is longer than the image, or a pixel has no 16 bits.
pub(super) fn decode(
    file: &[u8],
    largest: [usize; 2],
    pixels: &mut Vec<u8>,
) -> Result<[usize; 2], Rejected> {
    let Some((header, body)) = file.split_at_checked(HEADER) else {
        let found = file.len();
        return Err(malformed(format!("RVL: expected {HEADER} bytes of sizes, found {found}")));
    };
    let side = |at: usize| header[at..].first_chunk().map_or(0, |four| u32::from_le_bytes(*four));
    let width = side(0) as usize;
    let height = side(4) as usize;
    check_size([width, height], largest)?;
    pixels.resize(2 * width * height, 0);
    let mut rest = pixels.as_chunks_mut::<2>().0;
    let mut nibbles = Nibbles { words: body.as_chunks::<4>().0.iter(), word: 0, left: 0 };
    let mut last = 0i64;
    while !rest.is_empty() {
        let zeros = run(&mut nibbles, rest.len())?;
        let (run_of_zeros, behind) = rest.split_at_mut(zeros);
        run_of_zeros.fill([0; 2]);
        if behind.is_empty() {
            break;
        }
        let others = run(&mut nibbles, behind.len())?;
        let (run_of_others, behind) = behind.split_at_mut(others);
        for pixel in run_of_others {
            let code = i64::from(number(&mut nibbles)?);
            last += (code >> 1) ^ -(code & 1);
            let Ok(value) = u16::try_from(last) else {
                return Err(malformed(format!("RVL: expected pixels of 16 bits, found {last}")));
            };
            *pixel = value.to_be_bytes();
        }
        rest = behind;
    }
    Ok([width, height])
}

/// The nibbles of the words.
struct Nibbles<'a> {
    words: std::slice::Iter<'a, [u8; 4]>,
    word: u32,
    left: u32,
}

impl Nibbles<'_> {
    #[inline(always)]
    fn next(&mut self) -> Option<u32> {
        if self.left == 0 {
            self.word = u32::from_le_bytes(*self.words.next()?);
            self.left = 8;
        }
        let nibble = self.word >> 28;
        self.word <<= 4;
        self.left -= 1;
        Some(nibble)
    }
}

/// The next number.
#[inline(always)]
fn number(nibbles: &mut Nibbles<'_>) -> Result<u32, Rejected> {
    let mut value = 0u64;
    let mut shift = 0;
    loop {
        let Some(nibble) = nibbles.next() else {
            return Err(malformed("RVL: expected all pixels, found the end".to_owned()));
        };
        value |= u64::from(nibble & 7) << shift;
        if nibble & 8 == 0 {
            let found = u32::try_from(value);
            return found.map_err(|_| malformed(format!("RVL: found the number {value}")));
        }
        shift += 3;
        if shift > 30 {
            return Err(malformed("RVL: found a number of more than 32 bits".to_owned()));
        }
    }
}

/// The length of the next run, of at most `left` pixels.
fn run(nibbles: &mut Nibbles<'_>, left: usize) -> Result<usize, Rejected> {
    match number(nibbles)? as usize {
        length if length <= left => Ok(length),
        length => {
            Err(malformed(format!("RVL: expected at most {left} more pixels, found {length}")))
        }
    }
}
