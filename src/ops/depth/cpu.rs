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
    plan: Option<Plan>,
    /// One line of the row, before it is rounded.
    line: Vec<f32>,
}

/// What follows from the size of an image; kept until it changes.
#[derive(Debug)]
struct Plan {
    size: (usize, usize),
    /// The column of the image for each column of `target`.
    columns: Vec<usize>,
    /// The line of the image for each line of `target`.
    lines: Vec<usize>,
    /// Columns and lines of the row that are no padding.
    target: [Range<usize>; 2],
}

impl Plan {
    fn new(spec: &DepthSpec, size: (usize, usize)) -> Self {
        let placement = spec.placement(size.0, size.1);
        let [columns, lines] = placement.source;
        let target = placement.target;
        Plan {
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

    /// The same, unless `overtaken` becomes true, because the row is there from elsewhere. Then it
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
            stale => stale.insert(Plan::new(spec, size)),
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
mod tests {
    use super::*;
    use crate::ops::image::Fit;

    fn spec(width: usize, height: usize, fit: Fit) -> DepthSpec {
        DepthSpec { width, height, fit, unit_m: 0.001, min_m: 0.3, max_m: 9.0, fill_m: -1.0 }
    }

    fn row(spec: &DepthSpec, view: &DepthView<'_>) -> Vec<f32> {
        let mut row = vec![0xA5; 4 * spec.width * spec.height];
        DepthEncoder::new(spec, DType::F32).encode(view, &mut row);
        row.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
    }

    #[test]
    fn what_was_not_measured_is_filled() {
        let raw: [u16; 8] = [0, 299, 300, 301, 8999, 9000, 9001, 65_535];
        let expected = [-1.0, -1.0, 0.3, 0.301, 8.999, 9.0, -1.0, -1.0];
        for big_endian in [false, true] {
            let order = if big_endian { u16::to_be_bytes } else { u16::to_le_bytes };
            let data: Vec<u8> = raw.into_iter().flat_map(order).collect();
            let element = DepthElement::U16;
            let view =
                DepthView { element, big_endian, width: 8, height: 1, step: 16, data: &data };
            assert_eq!(row(&spec(8, 1, Fit::Stretch), &view), expected);
        }
        let below = 0.3f32.next_down();
        let raw = [f32::NAN, f32::INFINITY, -1.0, 0.0, below, 0.3, 9.0, 9.0f32.next_up()];
        let expected = [-1.0, -1.0, -1.0, -1.0, -1.0, 0.3, 9.0, -1.0];
        for big_endian in [false, true] {
            let order = if big_endian { f32::to_be_bytes } else { f32::to_le_bytes };
            let data: Vec<u8> = raw.into_iter().flat_map(order).collect();
            let element = DepthElement::F32;
            let view =
                DepthView { element, big_endian, width: 8, height: 1, step: 32, data: &data };
            assert_eq!(row(&spec(8, 1, Fit::Stretch), &view), expected);
        }
    }

    #[test]
    fn without_limits_zero_and_negative_distances_are_still_invalid() {
        let data: Vec<u8> =
            [0.0, -0.0, -2.0, 1e-40f32, f32::MAX].into_iter().flat_map(f32::to_le_bytes).collect();
        let (element, big_endian) = (DepthElement::F32, false);
        let view = DepthView { element, big_endian, width: 5, height: 1, step: 20, data: &data };
        let spec =
            DepthSpec { min_m: 0.0, max_m: f32::MAX, fill_m: 7.0, ..spec(5, 1, Fit::Stretch) };
        assert_eq!(row(&spec, &view), [7.0, 7.0, 7.0, 1e-40, f32::MAX]);
    }

    #[test]
    fn padding_is_filled_and_no_value_is_between_two_pixels() {
        // Two surfaces, at 1 m and at 8 m, and lines with padding.
        let raw: Vec<u8> = (0..6usize)
            .flat_map(|y| (0..13usize).map(move |x| if (x + y) % 2 == 0 { 1000u16 } else { 8000 }))
            .flat_map(u16::to_le_bytes)
            .collect();
        let (element, big_endian) = (DepthElement::U16, false);
        let view =
            DepthView { element, big_endian, width: 12, height: 6, step: 26, data: &raw[..154] };
        let padded = row(&spec(5, 5, Fit::PadCenter), &view);
        assert_eq!(padded.iter().filter(|value| **value == -1.0).count(), 15);
        assert!(padded[5..15].iter().all(|value| [1.0, 8.0].contains(value)), "{padded:?}");
        let cropped = row(&spec(7, 7, Fit::CropCenter), &view);
        assert!(cropped.iter().all(|value| [1.0, 8.0].contains(value)), "{cropped:?}");
    }
}
