//! Which lag a stream needs, from what was measured.

use robocache_core::histogram::Quantiles;
use robocache_ops::align::{CLOCKS_APART_NS, Strategy};
use robocache_ops::time::NANOS_PER_MS;

/// Returns the shortest lag \[ms\] at which a stream's values almost never change after their tick. It is the delay of
/// 99.9 % of the messages. Unless the strategy is `hold`, the longest usual distance between two messages is added.
///
/// It takes the quantile and not the maximum, because one pause of the machine would spoil that for ever. `delays` are
/// those of the stream's inputs, `distance_ns` is `None` if unknown. Returns `None` without a measurement, and if the
/// clocks of sensor and node differ.
pub(super) fn suggested_ms(
    strategy: Strategy,
    delays: impl IntoIterator<Item = Quantiles>,
    distance_ns: Option<i64>,
) -> Option<f64> {
    let delays = delays.into_iter().filter(|delay| delay.count > 0);
    let delay_ns = delays.map(|delay| delay.p999_ns).max()?;
    let distance_ns = match strategy {
        Strategy::Hold => 0,
        Strategy::Nearest | Strategy::Linear | Strategy::Slerp => distance_ns?,
    };
    let clocks_differ = delay_ns.saturating_abs() > CLOCKS_APART_NS;
    (!clocks_differ).then(|| round_up_ms(delay_ns.saturating_add(distance_ns)))
}

/// Rounds nanoseconds up to milliseconds that a person would write: by halves below 10 ms, by ones
/// below 100 ms, by tens below 1 s, by hundreds above. A negative time is 0.
pub(super) fn round_up_ms(nanos: i64) -> f64 {
    let ms = nanos.max(0) as f64 / NANOS_PER_MS as f64;
    let step = match ms {
        _ if ms <= 10.0 => 0.5,
        _ if ms <= 100.0 => 1.0,
        _ if ms <= 1000.0 => 10.0,
        _ => 100.0,
    };
    (ms / step).ceil() * step
}

#[cfg(test)]
mod tests;
