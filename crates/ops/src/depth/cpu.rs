//! A depth image into a row on the CPU.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use super::spec::{DepthElement, DepthSpec, DepthView, nearest};
use crate::dtype::DType;

/// Turns the depth images of one stream into rows.
#[derive(Debug)]
pub struct DepthEncoder {
    spec: DepthSpec,
    dtype: DType,
    plan: Option<DepthSampling>,
    /// One line of the row, before it is rounded.
    line: Vec<f32>,
}

/// Sampling that follows from the size of an image; kept until the size changes.
#[derive(Debug)]
struct DepthSampling {
    size: (usize, usize),
    /// The column of the image for each column of `target`.
    columns: Vec<usize>,
    /// The line of the image for each line of `target`.
    lines: Vec<usize>,
    /// Columns and lines of the row that are no padding.
    target: [Range<usize>; 2],
}

impl DepthSampling {
    fn new(spec: &DepthSpec, size: (usize, usize)) -> Self {
        let placement = spec.placement(size.0, size.1);
        let [columns, lines] = placement.source;
        let target = placement.target;
        DepthSampling {
            size,
            columns: nearest(columns, target[0].len()).collect(),
            lines: nearest(lines, target[1].len()).collect(),
            target,
        }
    }
}

impl DepthEncoder {
    /// An encoder into rows of `spec`, of element type `dtype`. The sides of the row are not 0.
    pub fn new(spec: &DepthSpec, dtype: DType) -> Self {
        DepthEncoder { line: vec![0.0; spec.width], spec: spec.clone(), dtype, plan: None }
    }

    /// Writes the row `[1, height, width]` of an image. Allocates only if the last image had another
    /// size.
    ///
    /// # Panics
    /// If `row` has not the length of a row. It comes from the layout, never from a message.
    pub fn encode(&mut self, view: &DepthView<'_>, row: &mut [u8]) {
        self.encode_unless(None, view, row);
    }

    /// Writes the row of an image, unless `overtaken` becomes true, because the row is there from elsewhere. Then it
    /// stops at the next line of the row, returns false, and leaves anything in `row`.
    ///
    /// # Panics
    /// As [`DepthEncoder::encode`].
    pub fn encode_unless(
        &mut self,
        overtaken: Option<&AtomicBool>,
        view: &DepthView<'_>,
        row: &mut [u8],
    ) -> bool {
        let unit_m = self.spec.unit_m;
        match (view.element, view.big_endian) {
            (DepthElement::U16, false) => {
                self.lines(overtaken, view, row, |raw| in_metres(u16::from_le_bytes(raw), unit_m))
            }
            (DepthElement::U16, true) => {
                self.lines(overtaken, view, row, |raw| in_metres(u16::from_be_bytes(raw), unit_m))
            }
            (DepthElement::F32, false) => self.lines(overtaken, view, row, f32::from_le_bytes),
            (DepthElement::F32, true) => self.lines(overtaken, view, row, f32::from_be_bytes),
        }
    }

    /// Writes the row of an image whose pixels have `N` bytes, which `metres` reads.
    fn lines<const N: usize>(
        &mut self,
        overtaken: Option<&AtomicBool>,
        view: &DepthView<'_>,
        row: &mut [u8],
        metres: impl Fn([u8; N]) -> f32,
    ) -> bool {
        let DepthEncoder { spec, dtype, plan, line } = self;
        let &mut DepthSpec { width, height, min_m, max_m, fill_m, .. } = spec;
        let line_len = width * dtype.size();
        assert_eq!(row.len(), height * line_len, "encode: length mismatch");
        let size = (view.width, view.height);
        let plan = match plan {
            Some(plan) if plan.size == size => plan,
            stale => stale.insert(DepthSampling::new(spec, size)),
        };
        line.fill(fill_m);
        let [columns, lines] = plan.target.clone();
        for at in [0..lines.start, lines.end..height] {
            row[at.start * line_len..at.end * line_len]
                .chunks_exact_mut(line_len)
                .for_each(|out| dtype.store(line, out));
        }
        let inside = &mut row[lines.start * line_len..lines.end * line_len];
        for (out, y) in inside.chunks_exact_mut(line_len).zip(&plan.lines) {
            let source = view.data[y * view.step..][..view.width * N].as_chunks::<N>().0;
            for (value, x) in line[columns.clone()].iter_mut().zip(&plan.columns) {
                let found = metres(source[*x]);
                let valid = found > 0.0 && found >= min_m && found <= max_m;
                *value = if valid { found } else { fill_m };
            }
            dtype.store(line, out);
            if overtaken.is_some_and(|flag| flag.load(Ordering::Acquire)) {
                return false;
            }
        }
        true
    }
}

/// The distance of a number of 16 bits.
#[inline(always)]
fn in_metres(raw: u16, unit_m: f64) -> f32 {
    (f64::from(raw) * unit_m) as f32
}

#[cfg(test)]
mod tests;
