//! Rows of any element type to rows of the output's: copied, rounded, or between two.
//!
//! Each element is loaded into an `f32` and rounded once when it is stored. The loops have a form that the
//! compiler vectorises.

use half::f16;
use half::slice::{HalfBitsSliceExt, HalfFloatSliceExt};

use super::Lane;
use super::cpu::Interpolator;
use crate::dtype::{DType, bf16_bits};

/// Elements that a thread converts at once.
const BLOCK: usize = 64;

/// Writes rows of one element type as rows of another one.
pub(super) struct RowWriter {
    from: DType,
    to: DType,
    /// For lanes that are not all linear.
    lanes: Option<Box<Lanes>>,
}

/// Scratch for rows whose lanes are not all linear.
struct Lanes {
    interpolator: Interpolator,
    a: Vec<f32>,
    b: Vec<f32>,
    out: Vec<f32>,
}

/// An element type, whose conversions vectorise.
trait Element {
    type Bytes: Copy;
    fn chunks(bytes: &[u8]) -> &[Self::Bytes];
    fn chunks_mut(bytes: &mut [u8]) -> &mut [Self::Bytes];
    fn load(bytes: Self::Bytes) -> f32;
    fn store(value: f32) -> Self::Bytes;
}

struct F32;
struct Bf16;

impl Element for F32 {
    type Bytes = [u8; 4];
    #[inline(always)]
    fn chunks(bytes: &[u8]) -> &[[u8; 4]] {
        bytes.as_chunks().0
    }
    #[inline(always)]
    fn chunks_mut(bytes: &mut [u8]) -> &mut [[u8; 4]] {
        bytes.as_chunks_mut().0
    }
    #[inline(always)]
    fn load(bytes: [u8; 4]) -> f32 {
        f32::from_le_bytes(bytes)
    }
    #[inline(always)]
    fn store(value: f32) -> [u8; 4] {
        value.to_le_bytes()
    }
}

impl Element for Bf16 {
    type Bytes = [u8; 2];
    #[inline(always)]
    fn chunks(bytes: &[u8]) -> &[[u8; 2]] {
        bytes.as_chunks().0
    }
    #[inline(always)]
    fn chunks_mut(bytes: &mut [u8]) -> &mut [[u8; 2]] {
        bytes.as_chunks_mut().0
    }
    #[inline(always)]
    fn load(bytes: [u8; 2]) -> f32 {
        f32::from_bits(u32::from(u16::from_le_bytes(bytes)) << 16)
    }
    #[inline(always)]
    fn store(value: f32) -> [u8; 2] {
        bf16_bits(value).to_le_bytes()
    }
}

impl RowWriter {
    /// For rows with these lanes.
    pub(super) fn new(from: DType, to: DType, lanes: &[Lane], interpolates: bool) -> Self {
        let linear = !interpolates || lanes.iter().all(|lane| *lane == Lane::Linear);
        let scratch = || vec![0.0; lanes.len()];
        let lanes = (!linear).then(|| {
            let interpolator = Interpolator::new(lanes);
            Box::new(Lanes { interpolator, a: scratch(), b: scratch(), out: scratch() })
        });
        RowWriter { from, to, lanes }
    }

    /// Writes a row as it is. If the type is the same, so are the bits.
    #[inline(always)]
    pub(super) fn copy(&self, row: &[u8], out: &mut [u8]) {
        if self.from == self.to {
            out.copy_from_slice(row);
            return;
        }
        match self.to {
            DType::Bf16 => convert::<F32, Bf16>(row, out),
            _ => in_blocks([row, row], self.from, self.to, out, |a, _| a),
        }
    }

    /// Writes the row at `weight` of the way from `a` to `b`.
    #[inline(always)]
    pub(super) fn between(&mut self, a: &[u8], b: &[u8], weight: f32, out: &mut [u8]) {
        let from = self.from;
        let to = self.to;
        if let Some(lanes) = &mut self.lanes {
            load(from, a, &mut lanes.a);
            load(from, b, &mut lanes.b);
            lanes.interpolator.between(&lanes.a, &lanes.b, weight, &mut lanes.out);
            store(to, &lanes.out, out);
            return;
        }
        match (from, to) {
            (DType::F32, DType::F32) => linear::<F32, F32>(a, b, weight, out),
            (DType::F32, DType::Bf16) => linear::<F32, Bf16>(a, b, weight, out),
            (DType::Bf16, DType::Bf16) => linear::<Bf16, Bf16>(a, b, weight, out),
            (from, to) => in_blocks([a, b], from, to, out, |a, b| a + weight * (b - a)),
        }
    }
}

#[inline(always)]
fn convert<I: Element, O: Element>(row: &[u8], out: &mut [u8]) {
    for (out, row) in O::chunks_mut(out).iter_mut().zip(I::chunks(row)) {
        *out = O::store(I::load(*row));
    }
}

#[inline(always)]
fn linear<I: Element, O: Element>(a: &[u8], b: &[u8], weight: f32, out: &mut [u8]) {
    let pairs = I::chunks(a).iter().zip(I::chunks(b));
    for (out, (a, b)) in O::chunks_mut(out).iter_mut().zip(pairs) {
        let a = I::load(*a);
        let b = I::load(*b);
        *out = O::store(a + weight * (b - a));
    }
}

/// Writes `value` of each pair of elements. It is for `f16`, of which the processor converts many at a time.
#[inline(always)]
fn in_blocks(
    [a, b]: [&[u8]; 2],
    from: DType,
    to: DType,
    out: &mut [u8],
    value: impl Fn(f32, f32) -> f32,
) {
    let mut left = [0.0; BLOCK];
    let mut right = [0.0; BLOCK];
    let rows = a.chunks(BLOCK * from.size()).zip(b.chunks(BLOCK * from.size()));
    for ((a, b), out) in rows.zip(out.chunks_mut(BLOCK * to.size())) {
        let count = out.len() / to.size();
        load(from, a, &mut left[..count]);
        load(from, b, &mut right[..count]);
        for (left, right) in left[..count].iter_mut().zip(&right[..count]) {
            *left = value(*left, *right);
        }
        store(to, &left[..count], out);
    }
}

/// Loads as many elements as there are places.
#[inline(always)]
pub(super) fn load(dtype: DType, bytes: &[u8], values: &mut [f32]) {
    match dtype {
        DType::Bf16 => {
            for (value, bytes) in values.iter_mut().zip(Bf16::chunks(bytes)) {
                *value = Bf16::load(*bytes);
            }
        }
        DType::F16 => {
            let mut halves = [0u16; BLOCK];
            for (values, bytes) in values.chunks_mut(BLOCK).zip(bytes.chunks(2 * BLOCK)) {
                for (half, bytes) in halves.iter_mut().zip(bytes.as_chunks::<2>().0) {
                    *half = u16::from_le_bytes(*bytes);
                }
                let halves: &[f16] = halves[..values.len()].reinterpret_cast();
                halves.convert_to_f32_slice(values);
            }
        }
        // The specification has no rows of integers.
        DType::F32 | DType::U8 | DType::I32 => {
            for (value, bytes) in values.iter_mut().zip(F32::chunks(bytes)) {
                *value = F32::load(*bytes);
            }
        }
    }
}

/// Rounds values to the type of the output.
#[inline(always)]
pub(super) fn store(dtype: DType, values: &[f32], out: &mut [u8]) {
    match dtype {
        DType::Bf16 => {
            for (bytes, value) in Bf16::chunks_mut(out).iter_mut().zip(values) {
                *bytes = Bf16::store(*value);
            }
        }
        _ => dtype.store(values, out),
    }
}

#[cfg(test)]
mod tests;
