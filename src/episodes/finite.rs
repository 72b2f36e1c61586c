//! Whether rows are finite. The encoders give no others, and windows expect none.

use std::sync::atomic::{AtomicBool, Ordering};

use half::{bf16, f16};

use super::{EpisodeError, Stream};
use crate::dtype::DType;
use crate::ops::parallel;

/// Bytes that a thread looks at before it takes more.
const PIECE: usize = 1 << 22;
/// Bytes after which a look may end.
const BLOCK: usize = 1 << 12;

/// Checks the rows of a stream, on all cores.
///
/// # Errors
/// A float is infinite or no number.
pub(super) fn check(stream: &Stream) -> Result<(), EpisodeError> {
    let means = &stream.means;
    for (group, (ring, dtype)) in stream.rings.iter().zip(&means.row_dtypes).enumerate() {
        let bytes = ring.rows.bytes();
        let Some(at) = first_other(*dtype, bytes) else { continue };
        let value = value(*dtype, &bytes[at * dtype.size()..]);
        let len = means.row_len(group).max(1);
        let what = format!("rows of '{}' in group {group}", means.name);
        let found = format!("{value} in row {}, element {}", at / len, at % len);
        let advice = "leave such rows out, and their steps are not valid";
        return Err(EpisodeError::of(what, "finite numbers", format!("{found}: {advice}")));
    }
    Ok(())
}

/// The number of the first element that is not finite.
fn first_other(dtype: DType, bytes: &[u8]) -> Option<usize> {
    if matches!(dtype, DType::U8 | DType::I32) {
        return None;
    }
    let found = AtomicBool::new(false);
    let pieces: Vec<&[u8]> = bytes.chunks(PIECE).collect();
    parallel::for_each(
        pieces,
        parallel::cores(),
        || (),
        |(), piece| {
            if !found.load(Ordering::Relaxed) && piece.chunks(BLOCK).any(|block| has(dtype, block))
            {
                found.store(true, Ordering::Relaxed);
            }
        },
    );
    if !found.into_inner() {
        return None;
    }
    let size = dtype.size();
    bytes.chunks_exact(size).position(|element| has(dtype, element))
}

/// The number that bytes begin with.
fn value(dtype: DType, bytes: &[u8]) -> f32 {
    match (dtype, bytes) {
        (DType::F32, [a, b, c, d, ..]) => f32::from_le_bytes([*a, *b, *c, *d]),
        (DType::F16, [a, b, ..]) => f16::from_le_bytes([*a, *b]).to_f32(),
        (DType::Bf16, [a, b, ..]) => bf16::from_le_bytes([*a, *b]).to_f32(),
        _ => 0.0,
    }
}

/// Whether an exponent has all its bits: the number is infinite or none. The loops vectorise.
fn has(dtype: DType, bytes: &[u8]) -> bool {
    let narrow = |exponent: u16| {
        let elements = bytes.as_chunks::<2>().0.iter();
        elements.fold(false, |any, b| any | (u16::from_le_bytes(*b) & exponent == exponent))
    };
    match dtype {
        DType::F32 => {
            let elements = bytes.as_chunks::<4>().0.iter();
            let exponent = 0x7F80_0000;
            elements.fold(false, |any, b| any | (u32::from_le_bytes(*b) & exponent == exponent))
        }
        DType::F16 => narrow(0x7C00),
        DType::Bf16 => narrow(0x7F80),
        DType::U8 | DType::I32 => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_number_that_is_not_finite_is_found() {
        // More than one piece, and not whole blocks.
        let count = (PIECE + 3 * BLOCK) / 4 + 5;
        for (dtype, least, greatest, others) in [
            (DType::F32, 1, 0x7F7F_FFFF, [0x7F80_0000u32, 0xFF80_0000, 0x7F80_0001, 0xFFFF_FFFF]),
            (DType::F16, 1, 0xFBFF, [0x7C00, 0xFC00, 0x7C01, 0xFFFF]),
            (DType::Bf16, 1, 0xFF7F, [0x7F80, 0xFF80, 0x7F81, 0xFFFF]),
        ] {
            let size = dtype.size();
            let put = |bytes: &mut [u8], at: usize, bits: u32| {
                bytes[at * size..][..size].copy_from_slice(&bits.to_le_bytes()[..size]);
            };
            let mut bytes = vec![0; count * size];
            (0..count).for_each(|at| put(&mut bytes, at, [least, greatest][at % 2]));
            assert_eq!(first_other(dtype, &bytes), None, "{dtype:?}");
            for (at, bits) in [count - 1, count / 2, 1, 0].into_iter().zip(others) {
                put(&mut bytes, at, bits);
                assert_eq!(first_other(dtype, &bytes), Some(at), "{dtype:?}");
            }
        }
        assert_eq!(first_other(DType::U8, &[255; 8]), None);
        assert_eq!(first_other(DType::I32, &[255; 8]), None);
    }

    #[test]
    #[ignore = "a measurement: cargo test --release finite -- --ignored --nocapture"]
    fn speed() {
        let bytes = vec![1; 1 << 30];
        for dtype in [DType::F32, DType::F16, DType::Bf16] {
            let start = std::time::Instant::now();
            assert_eq!(first_other(dtype, &bytes), None);
            println!("{dtype:?}: {:.1} GiB/s", 1.0 / start.elapsed().as_secs_f64());
        }
    }
}
