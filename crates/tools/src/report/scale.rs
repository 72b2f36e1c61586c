//! Numbers as text, and the marks of an axis.

/// A number with `decimals` decimals and a real minus sign; a dash if it is not finite.
pub fn number(value: f64, decimals: usize) -> String {
    if !value.is_finite() {
        return "\u{2013}".to_owned();
    }
    let text = format!("{value:.decimals$}");
    // "-0.00" is no number that anybody wants to read.
    let is_zero = text.bytes().all(|byte| matches!(byte, b'-' | b'0' | b'.'));
    let text = if is_zero { text.trim_start_matches('-').to_owned() } else { text };
    text.replacen('-', "\u{2212}", 1)
}

/// A number of things: `1 gap`, `3 gaps`.
pub fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// A number with about `digits` digits, at least one: `1234.5` with three is `1234`, `0.012345` is `0.0123`. Very large
/// and very small ones have a power of ten.
pub fn significant(value: f64, digits: usize) -> String {
    let digits = digits.max(1);
    let size = value.abs();
    if !value.is_finite() || size == 0.0 {
        return number(value, 0);
    }
    let power = size.log10().floor();
    if !(-5.0..9.0).contains(&power) {
        let text = format!("{value:.*e}", digits - 1);
        return text.replace('-', "\u{2212}");
    }
    let decimals = (digits as f64 - 1.0 - power).max(0.0) as usize;
    let text = number(value, decimals);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// About `count` round numbers in a range, at distances of 1, 2 or 5 times a power of ten, with their
/// texts. One, if the range is empty.
pub(super) fn ticks(range: (f64, f64), count: usize) -> Vec<(f64, String)> {
    let (low, high) = range;
    let rough = (high - low) / count.max(1) as f64;
    if !rough.is_finite() || rough <= 0.0 {
        return vec![(low, significant(low, 6))];
    }
    let power = rough.log10().floor();
    // The nearest of 1, 2, 5 and 10 by ratio: neighbours meet at their geometric mean.
    let nearest = match rough / 10f64.powf(power) {
        over if over < 2f64.sqrt() => 1.0,
        over if over < 10f64.sqrt() => 2.0,
        over if over < 50f64.sqrt() => 5.0,
        _ => 10.0,
    };
    let step = nearest * 10f64.powf(power);
    // A range that is tiny beside its own place cannot be divided.
    if low + step == low || high + step == high {
        return vec![(low, significant(low, 6))];
    }
    let decimals = (-step.log10()).ceil().max(0.0) as usize;
    let first = (low / step - 1e-9).ceil();
    let last = (high / step + 1e-9).floor();
    let large = low.abs().max(high.abs());
    let text = |value: f64| match large >= 1e7 || decimals > 6 {
        // As many digits as tell neighbours apart.
        true => significant(value, (large / step).log10().ceil().clamp(1.0, 15.0) as usize + 1),
        false => number(value, decimals),
    };
    let count = (last - first).clamp(0.0, 100.0) as usize;
    (0..=count).map(|at| (first + at as f64) * step).map(|value| (value, text(value))).collect()
}

/// The range of some values. Those that are not finite do not count.
pub(super) fn range(values: impl IntoIterator<Item = f64>) -> Option<(f64, f64)> {
    let finite = values.into_iter().filter(|value| value.is_finite());
    finite.fold(None, |range, value| match range {
        None => Some((value, value)),
        Some((low, high)) => Some((f64::min(low, value), f64::max(high, value))),
    })
}

/// A range, a little wider; something sensible for none, or for one value.
pub(super) fn padded(range: Option<(f64, f64)>, share: f64) -> (f64, f64) {
    let Some((low, high)) = range else { return (0.0, 1.0) };
    let pad = match (high - low) * share {
        pad if pad > 0.0 => pad,
        _ if high != 0.0 => high.abs() * share.max(0.05),
        _ => 1.0,
    };
    (low - pad, high + pad)
}

#[cfg(test)]
mod tests;
