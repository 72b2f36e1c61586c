//! Parts that charts have in common: the frame with its axes, the legend, and the finished figure.

use std::fmt::Write;

use super::COLUMNS;
use super::html::escaped;
use super::scale::ticks;

/// Colours of a chart; series beyond that are dashed.
pub(super) const COLOURS: usize = 8;
/// Labels on an axis, about.
const X_LABELS: usize = 8;
/// Height of an axis per label \[px\], about.
const Y_LABEL_PX: usize = 42;

/// A finished chart. [`Plot`](super::Plot), [`Histogram`](super::Histogram), [`Timeline`](super::Timeline) and
/// [`HeatMap`](super::HeatMap) become one.
#[derive(Clone, Debug)]
pub struct Figure(String);

impl Figure {
    pub(super) fn of(html: String) -> Self {
        Figure(html)
    }

    pub(super) fn html(&self) -> &str {
        &self.0
    }
}

/// A chart's axes. Lines are drawn in an SVG that stretches with the page, and texts beside it keep their size.
#[derive(Clone, Debug)]
pub(super) struct Frame<'a> {
    /// For screen readers.
    pub title: &'a str,
    /// Of the axes.
    pub labels: [&'a str; 2],
    pub x: (f64, f64),
    pub y: (f64, f64),
    /// How tall the frame is.
    pub height: Height,
}

/// The height of a chart.
#[derive(Clone, Copy, Debug)]
pub(super) enum Height {
    /// Whatever the width is \[px\].
    Px(usize),
    /// Height over width.
    Ratio(f64),
}

/// Height of the coordinates of a chart with `Height::Ratio`.
const RATIO_UNITS: f64 = 1000.0;

impl Frame<'_> {
    /// Height of the coordinates.
    pub(super) fn units(&self) -> f64 {
        match self.height {
            Height::Px(px) => px as f64,
            Height::Ratio(_) => RATIO_UNITS,
        }
    }

    /// The place of a value along x, in `0.0..=COLUMNS` if it is in the range.
    pub(super) fn x(&self, value: f64) -> f64 {
        share(self.x, value) * COLUMNS as f64
    }

    /// The place of a value along y, from the top.
    pub(super) fn y(&self, value: f64) -> f64 {
        (1.0 - share(self.y, value)) * self.units()
    }

    /// The chart: `svg` in the frame's coordinates, and `over` it, in HTML.
    pub(super) fn html(&self, svg: &str, over: &str) -> String {
        let count = match self.height {
            Height::Px(px) => (px / Y_LABEL_PX).max(2),
            Height::Ratio(ratio) => ((ratio * 9.0) as usize).clamp(2, 7),
        };
        let x_ticks = ticks(self.x, X_LABELS);
        let y_ticks = ticks(self.y, count);
        let widest = y_ticks.iter().map(|(_, text)| text.chars().count()).max().unwrap_or(0);
        let height = match self.height {
            Height::Px(px) => format!("height:{px}px"),
            Height::Ratio(ratio) => format!("aspect-ratio:{:.4}", 1.0 / ratio),
        };
        let (title, [x_label, y_label]) = (escaped(self.title), self.labels.map(escaped));
        let mut out = format!(
            "<div class=frame role=img aria-label=\"{title}\" style=\"--y:{}ch\">\
             <div class=yt>{y_label}</div><div class=yl>",
            widest + 1
        );
        for (value, text) in &y_ticks {
            let top = 100.0 * (1.0 - share(self.y, *value));
            let _ = write!(out, "<span style=\"top:{top:.2}%\">{}</span>", escaped(text));
        }
        let _ = write!(
            out,
            "</div><div class=area style=\"{height}\"><svg viewBox=\"0 0 {COLUMNS} {}\" \
             preserveAspectRatio=none>{}{svg}</svg>{over}</div>{}<div class=xt>{x_label}</div></div>",
            self.units(),
            self.grid(&x_ticks, &y_ticks),
            x_labels(self.x, &x_ticks),
        );
        out
    }

    fn grid(&self, x_ticks: &[(f64, String)], y_ticks: &[(f64, String)]) -> String {
        let mut path = String::new();
        for (value, _) in x_ticks {
            let _ = write!(path, "M{:.1} 0V{}", self.x(*value), self.units());
        }
        for (value, _) in y_ticks {
            let _ = write!(path, "M0 {:.1}H{COLUMNS}", self.y(*value));
        }
        format!("<path class=grid d=\"{path}\"/>")
    }
}

/// The labels below a chart. Where the page is narrow, every second one is hidden.
pub(super) fn x_labels(range: (f64, f64), ticks: &[(f64, String)]) -> String {
    let mut out = String::from("<div class=xl>");
    for (at, (value, text)) in ticks.iter().enumerate() {
        let left = 100.0 * share(range, *value);
        let odd = if at % 2 == 1 { " class=odd" } else { "" };
        let _ = write!(out, "<span{odd} style=\"left:{left:.2}%\">{}</span>", escaped(text));
    }
    out.push_str("</div>");
    out
}

/// Position of a value in a range: 0 at its low end, 1 at its high end.
pub(super) fn share(range: (f64, f64), value: f64) -> f64 {
    let (low, high) = range;
    let span = high - low;
    if span > 0.0 && span.is_finite() { (value - low) / span } else { 0.0 }
}

/// Names with their colours. `kinds` gives the class of each.
pub(super) fn legend<'a>(entries: impl Iterator<Item = (&'a str, String)>) -> String {
    let mut out = String::from("<ul class=legend>");
    for (name, class) in entries {
        let _ = write!(out, "<li><i class=\"{class}\"></i>{}</li>", escaped(name));
    }
    out.push_str("</ul>");
    out
}
