//! Curves of raw messages against what the tensors have of them.

use crate::report::{Plot, Section, number, significant};
use crate::time::Stamp;

/// Length of the curves, and of the close-up \[s\].
const CURVE_S: f64 = 2.0;
const CLOSE_UP_S: f64 = 0.08;
/// Most curves in a chart.
pub const MAX_CURVES: usize = 3;

/// A channel twice: as it was published, and as the tensors have it.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
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
    aligned: Vec<(f64, f64, i64)>,
}

impl Compared {
    /// At most [`CURVE_S`] of it; `None` if raw and aligned values do not overlap.
    fn overlap(&self) -> Option<Overlap<'_>> {
        let origin = self.raw.iter().map(|(stamp, _)| *stamp).min()?;
        // Integers are subtracted first: a float does not hold an absolute time.
        let seconds = |stamp: Stamp| stamp.since(origin) as f64 / 1e9;
        let mut raw: Vec<_> = self.raw.iter().map(|(at, value)| (seconds(*at), *value)).collect();
        raw.retain(|(at, value)| *at <= CURVE_S && value.is_finite());
        raw.sort_by(|a, b| a.0.total_cmp(&b.0));
        let last = raw.last()?.0;
        let aligned = self.aligned.iter().map(|(at, value, age)| (seconds(*at), *value, *age));
        let inside =
            |(at, value, _): &(f64, f64, i64)| (0.0..=last).contains(at) && value.is_finite();
        let aligned: Vec<_> = aligned.filter(inside).collect();
        (raw.len() > 1 && !aligned.is_empty()).then_some(Overlap { name: &self.name, raw, aligned })
    }
}

impl Overlap<'_> {
    /// Where raw values are interpolated: each aligned value minus what lies on the line between its raw
    /// neighbours. If the newest row used is before the target, the value is held and not interpolated.
    fn errors(&self) -> Vec<(f64, f64)> {
        let between = self.aligned.iter().filter(|(_, _, age)| *age <= 0);
        between.map(|(at, value, _)| (*at, value - self.raw_at(*at))).collect()
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
pub fn write(
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
        whole.line(curve.name, curve.raw.iter().copied());
        whole.dots("", 4.4, dots(curve)).like(curve.name);
    }
    section.figure(&whole, "");
    let (low, high) = (first.fastest() - CLOSE_UP_S / 2.0, first.fastest() + CLOSE_UP_S / 2.0);
    let near = |at: f64| (low..=high).contains(&at);
    let raw = || first.raw.iter().copied().filter(|point| near(point.0));
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
    let (held, all) = (curves[0].held(), curves[0].aligned.len());
    let caption = format!(
        "Aligned value minus the published ones, interpolated at the same instant: at most {} \u{d7} 10\u{207b}\u{2076}. \
         {held} of {all} values were held and are not shown: no later message had arrived.",
        number(worst * 1e6, 3)
    );
    section.figure(&plot, &caption);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_difference_is_that_to_the_line_between_neighbours() {
        let at = |ms: i64| Stamp::from_nanos(1_795_000_000_000_000_000 + ms * 1_000_000);
        let compared = Compared {
            name: "j".into(),
            raw: vec![(at(10), 1.0), (at(0), 0.0), (at(3000), 9.0)],
            aligned: vec![
                (at(4), 0.5, -6),
                (at(5), 0.7, 5),
                (at(20), 9.0, 0),
                (at(6), f64::NAN, 0),
            ],
        };
        let overlap = compared.overlap().unwrap();
        assert_eq!((overlap.raw.len(), overlap.aligned.len(), overlap.held()), (2, 2, 1));
        let errors = overlap.errors();
        assert_eq!(errors.len(), 1);
        assert!((errors[0].1 - 0.1).abs() < 1e-12, "{errors:?}");
        let apart = Compared { aligned: vec![(at(5000), 1.0, 0)], ..compared };
        assert!(apart.overlap().is_none());
    }
}
