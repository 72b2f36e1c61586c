//! Values on a plane, as colours.

use std::fmt::Write;

use super::chart::{Figure, Frame, Height};
use super::picture::Picture;
use super::scale::{number, range, significant};
use robocache_core::visual::ColorMap;

/// Most cells along a side: larger maps show the highest value of several cells.
const MAX_SIDE: usize = 800;

/// A map of values with axes and a bar of colours.
#[derive(Clone, Debug)]
pub struct HeatMap {
    title: String,
    labels: [String; 2],
    x: (f64, f64),
    y: (f64, f64),
    columns: usize,
    values: Vec<f32>,
    logarithmic: bool,
}

impl HeatMap {
    /// A map of values, line by line; the first line is the lowest. Zero, which is what an empty cell has, is
    /// always in the range of the colours. `x` and `y`: where the edges of the map are. Values beyond whole
    /// lines are left out, and those that are not finite are black.
    pub fn new(
        title: &str,
        labels: [&str; 2],
        x: (f64, f64),
        y: (f64, f64),
        columns: usize,
        values: Vec<f32>,
    ) -> Self {
        let labels = labels.map(str::to_owned);
        let columns = columns.max(1);
        HeatMap { title: title.to_owned(), labels, x, y, columns, values, logarithmic: false }
    }

    /// Colours follow the logarithm of the value, as counts need it.
    pub fn logarithmic(mut self) -> Self {
        self.logarithmic = true;
        self
    }

    fn draw(&self) -> String {
        let (columns, rows, values) = self.reduced();
        let (low, high) = range(values.iter().map(|value| f64::from(*value))).unwrap_or((0.0, 0.0));
        let scale = Scale { low: low.min(0.0), high: high.max(0.0), logarithmic: self.logarithmic };
        let map = ColorMap::of([0.0, 1.0].into_iter());
        let rgb = |unit: f32| map.color(unit).map(|part| (255.0 * part).round() as u8);
        let color = |value: &f32| match value.is_finite() {
            true => rgb(scale.unit(f64::from(*value)) as f32),
            false => [0; 3],
        };
        // The first line of a picture is its highest.
        let lines = values.chunks_exact(columns).rev();
        let pixels: Vec<u8> = lines.flatten().flat_map(color).collect();
        let ramp: Vec<u8> = (0..64).flat_map(|at| rgb(1.0 - at as f32 / 63.0)).collect();
        let picture = Picture::exact(columns, rows, &pixels);
        let ramp = Picture::exact(1, 64, &ramp);
        let frame = Frame {
            title: &self.title,
            labels: [&self.labels[0], &self.labels[1]],
            x: self.x,
            y: self.y,
            height: Height::Ratio(self.ratio()),
        };
        let mut bar = String::new();
        for share in [0.0, 0.5, 1.0] {
            let top = 100.0 * (1.0 - share);
            let text = scale.text(share);
            let _ = write!(bar, "<span style=\"top:{top}%\">{text}</span>");
        }
        let over = format!(
            "{}<div class=ramp>{}{bar}</div>",
            picture.img_of_class("map", ""),
            ramp.img_of_class("", "")
        );
        format!("<div class=heat>{}</div>", frame.html("", &over))
    }

    /// Height over width, as the axes say; within bounds, so that a thin map stays readable.
    fn ratio(&self) -> f64 {
        let ratio = (self.y.1 - self.y.0) / (self.x.1 - self.x.0);
        if ratio.is_finite() { ratio.clamp(0.1, 3.0) } else { 1.0 }
    }

    /// Columns, lines and values, with the highest of each block if there are too many.
    fn reduced(&self) -> (usize, usize, Vec<f32>) {
        let rows = self.values.len() / self.columns;
        let block = self.columns.max(rows).div_ceil(MAX_SIDE).max(1);
        let wide = self.columns.div_ceil(block);
        let tall = rows.div_ceil(block);
        if block == 1 {
            return (wide, tall, self.values[..rows * self.columns].to_vec());
        }
        let mut out = vec![f32::NAN; wide * tall];
        for (row, line) in self.values.chunks_exact(self.columns).enumerate() {
            for (column, value) in line.iter().enumerate() {
                let cell = &mut out[row / block * wide + column / block];
                *cell = cell.max(*value);
            }
        }
        (wide, tall, out)
    }
}

/// How values become shares of the colours.
struct Scale {
    low: f64,
    high: f64,
    logarithmic: bool,
}

impl Scale {
    fn unit(&self, value: f64) -> f64 {
        let above = value - self.low;
        let span = self.high - self.low;
        match self.logarithmic {
            _ if span <= 0.0 => 0.0,
            true => above.ln_1p() / span.ln_1p(),
            false => above / span,
        }
    }

    /// The value at a share of the colours, with three digits of the whole range.
    fn text(&self, share: f64) -> String {
        let digits = 2.0 - (self.high - self.low).log10().floor();
        match digits {
            0.0..=5.0 => number(self.value(share), digits as usize),
            _ => significant(self.value(share), 3),
        }
    }

    fn value(&self, share: f64) -> f64 {
        let span = self.high - self.low;
        self.low + if self.logarithmic { (share * span.ln_1p()).exp_m1() } else { share * span }
    }
}

impl From<&HeatMap> for Figure {
    fn from(map: &HeatMap) -> Self {
        Figure::of(map.draw())
    }
}
