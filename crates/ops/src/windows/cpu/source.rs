//! Rows as floats: what a value of a window is before it is placed.

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

use crate::align::{Alignment, Value};
use crate::dtype::DType;
use crate::operators::{OutputStage, unwrap};
use crate::resample::cpu::Interpolator;
use crate::windows::spec::{WindowRing, WindowStream};

/// Written before it is read.
#[derive(Default)]
pub(super) struct Scratch {
    /// Two rows and a row between them.
    pub(super) a: Vec<f32>,
    pub(super) b: Vec<f32>,
    pub(super) row: Vec<f32>,
    /// `[steps, row]`, for operators.
    pub(super) wide: Vec<f64>,
    pub(super) angles: Vec<Option<f64>>,
    /// A ring's part of a step, and its bytes.
    pub(super) part: Vec<f32>,
    pub(super) bytes: Vec<u8>,
}

/// Source of the floats of a ring.
pub(super) struct Source<'a> {
    pub(super) ring: &'a WindowRing,
    pub(super) rows: &'a [u8],
    pub(super) interpolator: &'a Interpolator,
}

impl Source<'_> {
    /// A row in place, if its floats are aligned `f32`.
    fn borrowed(&self, row: usize) -> Option<&[f32]> {
        let WindowRing { dtype, row_len, .. } = *self.ring;
        let bytes = self.rows.get(row * row_len * 4..)?.get(..row_len * 4)?;
        (dtype == DType::F32).then(|| bytemuck::try_cast_slice(bytes).ok()).flatten()
    }

    /// Writes a value between two rows straight to its step. Returns whether it could: all are aligned `f32`, and the
    /// part is the step.
    pub(super) fn written(
        &self,
        stream: &WindowStream,
        value: Value<usize>,
        out: &mut [u8],
    ) -> bool {
        let Value::Between { a, b, weight } = value else { return false };
        if stream.dtype != DType::F32 || !self.ring.is_whole(stream) {
            return false;
        }
        let rows = (self.borrowed(a), self.borrowed(b), bytemuck::try_cast_slice_mut(out));
        let (Some(a), Some(b), Ok(out)) = rows else { return false };
        self.interpolator.between(a, b, weight, out);
        true
    }

    /// The floats of a row.
    fn floats(&self, row: usize, out: &mut Vec<f32>) {
        let WindowRing { dtype, row_len, .. } = *self.ring;
        let bytes = &self.rows[row * row_len * dtype.size()..][..row_len * dtype.size()];
        out.resize(row_len, 0.0);
        let halves = || bytes.as_chunks::<2>().0.iter().map(|bytes| u16::from_le_bytes(*bytes));
        match dtype {
            DType::F16 => {
                let halves: Vec<f16> = halves().map(f16::from_bits).collect();
                halves.convert_to_f32_slice(out);
            }
            DType::Bf16 => {
                let all = out.iter_mut().zip(halves());
                all.for_each(|(out, bits)| *out = bf16::from_bits(bits).to_f32());
            }
            _ => {
                let all = out.iter_mut().zip(bytes.as_chunks::<4>().0);
                all.for_each(|(out, bytes)| *out = f32::from_le_bytes(*bytes));
            }
        }
    }

    /// The row of a value, before operators.
    pub(super) fn value<'s>(&self, value: Value<usize>, scratch: &'s mut Scratch) -> &'s [f32] {
        match value {
            Value::Nothing => {
                scratch.row.clear();
                scratch.row.resize(self.ring.row_len, 0.0);
            }
            Value::Row(row) => self.floats(row, &mut scratch.row),
            Value::Between { a, b, weight } => {
                let Scratch { a: first, b: second, row, .. } = scratch;
                row.resize(self.ring.row_len, 0.0);
                match (self.borrowed(a), self.borrowed(b)) {
                    (Some(a), Some(b)) => self.interpolator.between(a, b, weight, row),
                    _ => {
                        self.floats(a, first);
                        self.floats(b, second);
                        self.interpolator.between(first, second, weight, row);
                    }
                }
            }
        }
        &scratch.row
    }

    /// The rows of all steps, with angles that are unwrapped from step to step, in `scratch.wide`.
    pub(super) fn unwrapped(
        &self,
        stream: &WindowStream,
        found: &[Alignment<usize>],
        scratch: &mut Scratch,
    ) {
        let len = self.ring.row_len;
        let mut wide = std::mem::take(&mut scratch.wide);
        wide.clear();
        for found in found {
            wide.extend(self.value(found.value, scratch).iter().map(|value| f64::from(*value)));
        }
        let filled = |step: usize| found[step].value != Value::Nothing;
        for at in self.ring.stage.iter().flat_map(OutputStage::unwrapped) {
            let angle = |step: usize| filled(step).then(|| wide[step * len + at]);
            scratch.angles.clear();
            scratch.angles.extend((0..found.len()).map(angle));
            unwrap(&mut scratch.angles, stream.present);
            for (step, angle) in scratch.angles.iter().enumerate() {
                wide[step * len + at] = angle.unwrap_or(0.0);
            }
        }
        scratch.wide = wide;
    }
}
