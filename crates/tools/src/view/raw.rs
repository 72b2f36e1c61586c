//! Curves of raw messages against what the tensors have of them.

use super::rows::gap_ns;
use crate::report::{Plot, Section, number, significant};
use robocache_ops::time::Stamp;

/// Length of the curves, and of the close-up \[s\].
const CURVE_S: f64 = 2.0;
const CLOSE_UP_S: f64 = 0.08;
/// Most curves in a chart.
pub(super) const MAX_CURVES: usize = 3;

/// A channel twice: as it was published, and as the tensors have it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Compared {
    /// Its name.
    pub name: String,
    /// The values as published, by their stamps.
    pub raw: Vec<(Stamp, f64)>,
    /// The values of the tensors: target, value, and the age \[ns\].
    pub aligned: Vec<(Stamp, f64, i64)>,
}

/// A curve where raw and aligned values overlap; times in seconds from its start.
struct Overlap<'a> {
    name: &'a str,
    raw: Vec<(f64, f64)>,
    /// Raw values that are further apart have a gap between them \[s\].
    gap_s: f64,
    aligned: Vec<(f64, f64, i64)>,
}

impl Compared {
    /// At most [`CURVE_S`] of it; `None` if raw and aligned values do not overlap.
    fn overlap(&self) -> Option<Overlap<'_>> {
        let origin = self.raw.iter().map(|(stamp, _)| *stamp).min()?;
        // Integers are subtracted first: a float does not hold an absolute time.
        let seconds = |stamp: Stamp| stamp.since(origin) as f64 / 1e9;
        let mut raw = self.raw.clone();
        raw.retain(|(at, value)| seconds(*at) <= CURVE_S && value.is_finite());
        raw.sort_by_key(|(at, _)| *at);
        let gap_s = gap_ns(raw.iter().map(|(at, _)| *at)) as f64 / 1e9;
        let raw: Vec<_> = raw.iter().map(|(at, value)| (seconds(*at), *value)).collect();
        let last = raw.last()?.0;
        let aligned = self.aligned.iter().map(|(at, value, age)| (seconds(*at), *value, *age));
        let inside =
            |(at, value, _): &(f64, f64, i64)| (0.0..=last).contains(at) && value.is_finite();
        let aligned: Vec<_> = aligned.filter(inside).collect();
        let overlap = Overlap { name: &self.name, raw, gap_s, aligned };
        (overlap.raw.len() > 1 && !overlap.aligned.is_empty()).then_some(overlap)
    }
}

impl Overlap<'_> {
    /// Errors of the interpolation: each aligned value minus what lies on the line between its raw neighbours. If the
    /// newest row used is before the target, the value is held and not interpolated.
    fn errors(&self) -> Vec<(f64, f64)> {
        let between = self.aligned.iter().filter(|(_, _, age)| *age <= 0);
        between.map(|(at, value, _)| (*at, value - self.raw_at(*at))).collect()
    }

    /// The raw values as a line, with its gaps.
    fn line(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        let mut before = None;
        self.raw.iter().flat_map(move |point| {
            let is_gap =
                before.replace(point.0).is_some_and(|before| point.0 - before > self.gap_s);
            is_gap.then_some((point.0, f64::NAN)).into_iter().chain([*point])
        })
    }

    fn raw_at(&self, at: f64) -> f64 {
        let after = self.raw.partition_point(|(stamp, _)| *stamp < at).min(self.raw.len() - 1);
        let ((x0, y0), (x1, y1)) = (self.raw[after.saturating_sub(1)], self.raw[after]);
        if x1 > x0 { y0 + (y1 - y0) * (at - x0) / (x1 - x0) } else { y1 }
    }

    fn held(&self) -> usize {
        self.aligned.iter().filter(|(_, _, age)| *age > 0).count()
    }

    /// The middle of the close-up: where the curve is fastest. It stays away from the ends, so that the
    /// close-up is full.
    fn fastest(&self) -> f64 {
        let edge = self.raw.len() / 10;
        let inner = &self.raw[edge..self.raw.len() - edge];
        let speed = |pair: &[(f64, f64)]| (pair[1].1 - pair[0].1).abs();
        let fastest = inner.windows(2).max_by(|a, b| speed(a).total_cmp(&speed(b)));
        fastest.map_or(self.raw[0].0, |pair| pair[0].0)
    }
}

/// Curves of a stream: raw and aligned, a close-up of the first, and the difference. `value`: what they are,
/// with its unit, such as "position \[rad\]". `interpolates`: whether the stream does; if not, there is no
/// difference to show. Returns whether anything was drawn.
pub(super) fn write(
    section: &mut Section,
    curves: &[Compared],
    value: &str,
    lag_ns: Option<i64>,
    interpolates: bool,
) -> bool {
    let curves: Vec<_> = curves.iter().take(MAX_CURVES).filter_map(Compared::overlap).collect();
    let Some(first) = curves.first() else { return false };
    let lag = lag_ns.map(|ns| format!(" (tick \u{2212} {} ms)", significant(ns as f64 / 1e6, 4)));
    section.text(&format!(
        "Lines: what was published. Dots: the present step of the tensors, at its target{}.",
        lag.unwrap_or_default()
    ));
    let mut whole = Plot::new("raw and aligned values", "time [s]", value);
    whole.height(300);
    let dots = |curve: &Overlap<'_>| -> Vec<(f64, f64)> {
        curve.aligned.iter().map(|(at, value, _)| (*at, *value)).collect()
    };
    for curve in &curves {
        whole.line(curve.name, curve.line());
        whole.dots("", 4.4, dots(curve)).like(curve.name);
    }
    section.figure(&whole, "");
    let low = first.fastest() - CLOSE_UP_S / 2.0;
    let high = first.fastest() + CLOSE_UP_S / 2.0;
    let near = |at: f64| (low..=high).contains(&at);
    let raw = || first.line().filter(|point| near(point.0));
    let mut close = Plot::new("close-up of one curve", "time [s]", value);
    close.x_range(low, high).line("published", raw()).dots("", 4.0, raw()).like("published");
    close.dots("aligned", 9.0, dots(first).into_iter().filter(|point| near(point.0)));
    section.figure(&close, &format!("Close-up of {}", first.name));
    if interpolates {
        differences(section, &curves);
    }
    true
}

/// Aligned minus interpolated raw values.
fn differences(section: &mut Section, curves: &[Overlap<'_>]) {
    let mut plot = Plot::new(
        "difference of aligned and raw values",
        "time [s]",
        "difference \u{d7} 10\u{207b}\u{2076}",
    );
    plot.height(170);
    let mut worst = 0.0f64;
    for curve in curves {
        let errors = curve.errors();
        worst = errors.iter().map(|(_, error)| error.abs()).fold(worst, f64::max);
        plot.dots(curve.name, 3.4, errors.into_iter().map(|(at, error)| (at, error * 1e6)));
    }
    let limit = (worst * 1.15e6).max(1e-3);
    plot.y_range(-limit, limit);
    let held = curves[0].held();
    let all = curves[0].aligned.len();
    let caption = format!(
        "Aligned value minus the published ones, interpolated at the same instant: at most {} \u{d7} 10\u{207b}\u{2076}. \
         {held} of {all} values were held and are not shown: no later message had arrived.",
        number(worst * 1e6, 3)
    );
    section.figure(&plot, &caption);
}

#[cfg(test)]
mod tests;
