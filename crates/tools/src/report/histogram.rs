//! How often which values are.

use std::fmt::Write;

use super::COLUMNS;
use super::chart::{Figure, Frame, Height};
use super::plot::marks;
use super::scale::padded;

/// Bars of a histogram that is made of values.
const BARS: usize = 80;
/// Most bars of one whose bins are given: neighbours are joined.
const MAX_BARS: usize = 200;

/// Counts of values in bins.
#[derive(Clone, Debug)]
pub struct Histogram {
    title: String,
    labels: [String; 2],
    /// Bars (from, to, count), ordered.
    bars: Vec<(f64, f64, f64)>,
    marks: Vec<(String, f64)>,
    height_px: usize,
}

impl Histogram {
    /// A histogram of values; those that are not finite do not count. The lowest and the highest 0.2 % share the
    /// first and the last bar, so that one outlier does not hide all others. `label`: what they are, with the
    /// unit; `counted`: what is counted, such as "ticks".
    pub fn of(title: &str, label: &str, counted: &str, values: &[f64]) -> Self {
        let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let quantile = |share: f64| sorted[((sorted.len() - 1) as f64 * share).round() as usize];
        let (low, high) = match sorted.is_empty() {
            true => (0.0, 1.0),
            false => (quantile(0.002), quantile(0.998)),
        };
        let (wide_low, wide_high) = padded(Some((low, high)), 0.04);
        let margin = (wide_high - high).max(low - wide_low);
        let from = if low >= 0.0 && low < (high - low) { 0.0 } else { low - margin };
        let width = (high + margin - from) / BARS as f64;
        let edge = |bar: usize| from + bar as f64 * width;
        let mut bars: Vec<_> = (0..BARS).map(|bar| (edge(bar), edge(bar + 1), 0.0)).collect();
        for value in sorted {
            // A cast gives 0 for what is below.
            let bar = (((value - from) / width) as usize).min(BARS - 1);
            bars[bar].2 += 1.0;
        }
        Self::with(title, label, counted, bars)
    }

    /// A histogram of bins (from, to, count), ordered. Several neighbours share a bar if there are too many.
    pub fn of_bins(title: &str, label: &str, counted: &str, bins: &[(f64, f64, u64)]) -> Self {
        let finite = |(from, to, _): &&(f64, f64, u64)| from.is_finite() && to.is_finite();
        let bins: Vec<_> = bins.iter().filter(finite).collect();
        let joined = bins.len().div_ceil(MAX_BARS).max(1);
        let join = |bins: &[&(f64, f64, u64)]| {
            let count = bins.iter().map(|bin| bin.2 as f64).sum();
            (bins[0].0, bins[bins.len() - 1].1, count)
        };
        Self::with(title, label, counted, bins.chunks(joined).map(join).collect())
    }

    fn with(title: &str, label: &str, counted: &str, bars: Vec<(f64, f64, f64)>) -> Self {
        let labels = [label, counted].map(str::to_owned);
        Histogram { title: title.to_owned(), labels, bars, marks: Vec::new(), height_px: 220 }
    }

    /// Adds a vertical line with a name, such as a percentile.
    pub fn mark(&mut self, name: &str, value: f64) -> &mut Self {
        self.marks.push((name.to_owned(), value));
        self
    }

    /// How tall the histogram is \[px\]: by default 220.
    pub fn height(&mut self, px: usize) -> &mut Self {
        self.height_px = px;
        self
    }

    fn draw(&self) -> String {
        let ends = (self.bars.first(), self.bars.last());
        let x = if let (Some(first), Some(last)) = ends { (first.0, last.1) } else { (0.0, 1.0) };
        let most = self.bars.iter().map(|bar| bar.2).fold(0.0, f64::max);
        let [label, counted] = &self.labels;
        let frame = Frame {
            title: &self.title,
            labels: [label, counted],
            x,
            y: (0.0, if most > 0.0 { most * 1.15 } else { 1.0 }),
            height: Height::Px(self.height_px),
        };
        let mut svg = String::new();
        for (from, to, count) in self.bars.iter().filter(|bar| bar.2 > 0.0) {
            let left = frame.x(*from).max(0.0);
            let right = frame.x(*to).min(COLUMNS as f64);
            // Rare values must be seen.
            let top = frame.y(*count).min(frame.units() - 1.5);
            let width = (right - left) * 0.88;
            let height = frame.units() - top;
            let _ = write!(
                svg,
                "<rect class=bar x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.2}\" \
                 height=\"{height:.1}\"/>"
            );
        }
        let (lines, names) = marks(&frame, &self.marks);
        frame.html(&(svg + &lines), &names)
    }
}

impl From<&Histogram> for Figure {
    fn from(histogram: &Histogram) -> Self {
        Figure::of(histogram.draw())
    }
}
