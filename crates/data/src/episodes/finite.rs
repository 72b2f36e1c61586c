//! Checks that rows are finite: the encoders give no others, and windows expect none. Checks also that windows of a
//! narrower type hold them.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use half::{bf16, f16};

use super::{EpisodeError, Stream};
use robocache_ops::dtype::DType;
use robocache_ops::operators::OutputStage;
use robocache_ops::parallel;
use robocache_ops::sync::lock;
use robocache_ops::windows::{WindowRing, WindowStream};

/// Bytes that a thread looks at before it takes more.
const PIECE: usize = 1 << 22;
/// Bytes after which a look may end.
const BLOCK: usize = 1 << 12;
/// The bits of the least `f32` that is not finite in an element type; a bfloat16 has the upper half of them.
const BEYOND_F32: u32 = 0x7F80_0000;
const BEYOND_F16: u32 = 0x477F_F000;
const BEYOND_BF16: u32 = 0x7F7F_8000;

/// Checks the rows of a stream, on all cores.
///
/// # Errors
/// A float is infinite or no number.
pub(super) fn check(stream: &Stream) -> Result<(), EpisodeError> {
    let means = &stream.means;
    for (group, (ring, dtype)) in stream.rings.iter().zip(&means.row_dtypes).enumerate() {
        // Compressed rows are checked when a window reads them.
        let Some(column) = ring.rows.plain() else { continue };
        let bytes = column.bytes();
        let Some(at) = first_beyond(*dtype, bytes, BEYOND_F32) else { continue };
        let value = value(*dtype, &bytes[at * dtype.size()..]);
        let len = means.row_len(group).max(1);
        let what = format!("rows of '{}' in group {group}", means.name);
        let found = format!("{value} in row {}, element {}", at / len, at % len);
        let advice = "leave such rows out, and their steps are not valid";
        return Err(EpisodeError::of(what, "finite numbers", format!("{found}: {advice}")));
    }
    Ok(())
}

/// Results of checks of element types, so that the rows are read once for each: type, whether steps are interpolated,
/// and their number, as operators depend on both. With them is what is not held, in words.
pub(super) type HeldBy = Mutex<Vec<((DType, bool, usize), Option<String>)>>;

/// Checks that the element type of windows holds what steps may get of the rows. Rows were checked for the type that
/// the configuration gives, so this is for another one. The first check of a type reads all rows.
///
/// # Errors
/// A value would be infinite.
pub(super) fn check_held(stream: &Stream, windows: &WindowStream) -> Result<(), EpisodeError> {
    let asked = (windows.dtype, windows.rule.strategy.interpolates(), windows.steps());
    let mut known = lock(&stream.held);
    let beyond = match known.iter().find(|(of, _)| *of == asked) {
        Some((_, beyond)) => beyond.clone(),
        None => {
            let beyond = not_held(stream, windows);
            known.push((asked, beyond.clone()));
            beyond
        }
    };
    let what = || format!("dtype of '{}'", windows.name);
    beyond.map_or(Ok(()), |found| Err(EpisodeError::of(what(), "one that holds all values", found)))
}

/// A value that the windows do not hold. It uses all cores, except for rows with operators.
fn not_held(stream: &Stream, windows: &WindowStream) -> Option<String> {
    let beyond = match windows.dtype {
        DType::F16 => BEYOND_F16,
        DType::Bf16 => BEYOND_BF16,
        _ => return None,
    };
    for (group, (ring, of)) in stream.rings.iter().zip(&windows.rings).enumerate() {
        // Every type holds bytes. So images that are compressed are not read here.
        if of.stage.is_none() && (of.dtype == windows.dtype || of.dtype == DType::U8) {
            continue;
        }
        let row_bytes = of.row_len.max(1) * of.dtype.size();
        let in_bytes = |bytes: &[u8]| match &of.stage {
            Some(stage) => bytes
                .chunks_exact(row_bytes)
                .enumerate()
                .find_map(|(row, bytes)| Some((row, operated_beyond(stage, of, bytes, windows)?))),
            None => first_beyond(of.dtype, bytes, beyond).map(|at| {
                let size = of.dtype.size();
                (at * size / row_bytes, f64::from(value(of.dtype, &bytes[at * size..])))
            }),
        };
        let mut first = 0;
        let searched = ring.rows.for_each(|bytes| {
            if let Some((row, value)) = in_bytes(bytes) {
                let dtype = windows.dtype.name();
                let row = first + row;
                return Err(format!("{dtype} for {value:e} of row {row} in group {group}"));
            }
            first += bytes.len() / row_bytes;
            Ok(())
        });
        if let Err(found) = searched {
            return Some(found);
        }
    }
    None
}

/// A number that a step may get of a row by its operators, and that the windows do not hold.
fn operated_beyond(
    stage: &OutputStage,
    ring: &WindowRing,
    bytes: &[u8],
    windows: &WindowStream,
) -> Option<f64> {
    let elements = bytes.chunks_exact(ring.dtype.size());
    let row: Vec<f64> = elements.map(|bytes| f64::from(value(ring.dtype, bytes))).collect();
    let mut beyond = None;
    stage.reach(&row, windows.steps(), |value| {
        if !windows.dtype.holds(value as f32) {
            beyond = Some(value);
        }
    });
    beyond
}

/// The number of the first element whose size is that of the `f32` with these bits, or more.
fn first_beyond(dtype: DType, bytes: &[u8], beyond: u32) -> Option<usize> {
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
            let beyond = |block| has(dtype, block, beyond);
            if !found.load(Ordering::Relaxed) && piece.chunks(BLOCK).any(beyond) {
                found.store(true, Ordering::Relaxed);
            }
        },
    );
    if !found.into_inner() {
        return None;
    }
    let size = dtype.size();
    bytes.chunks_exact(size).position(|element| has(dtype, element, beyond))
}

/// True if all elements are finite.
pub(super) fn are_finite(dtype: DType, bytes: &[u8]) -> bool {
    !has(dtype, bytes, BEYOND_F32)
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

/// True if an element has at least the size of the `f32` with the bits `beyond`, or is no number. A size grows with
/// its bits. An `f16` is only compared with infinity. The loops vectorise.
fn has(dtype: DType, bytes: &[u8], beyond: u32) -> bool {
    let narrow = |beyond: u16| {
        let elements = bytes.as_chunks::<2>().0.iter();
        elements.fold(false, |any, b| any | (u16::from_le_bytes(*b) & 0x7FFF >= beyond))
    };
    match dtype {
        DType::F32 => {
            let elements = bytes.as_chunks::<4>().0.iter();
            elements.fold(false, |any, b| any | (u32::from_le_bytes(*b) & 0x7FFF_FFFF >= beyond))
        }
        DType::F16 => narrow(0x7C00),
        DType::Bf16 => narrow(beyond.div_ceil(1 << 16) as u16),
        DType::U8 | DType::I32 => false,
    }
}

#[cfg(test)]
mod tests;
