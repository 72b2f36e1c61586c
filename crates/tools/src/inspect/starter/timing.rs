//! Meaning of the stamps and delays of a topic for the keys of a stream.

use crate::inspect::TopicReport;
use crate::inspect::notes::{OTHER_CLOCK_NS, offset_ns};
use crate::inspect::sketch::Distribution;
use robocache_core::pipeline::SENSOR_AHEAD_NS;
use robocache_core::spec::Timeline;
use robocache_ops::time::{NANOS_PER_MS, NANOS_PER_S};

/// A stamp that is further ahead of the node's clock is not taken, with some room \[ns\].
const MOST_AHEAD_NS: i64 = SENSOR_AHEAD_NS - 5 * NANOS_PER_MS;
/// [`MOST_AHEAD_NS`] on a simulator's clock, whose steps may be long.
const MOST_AHEAD_OF_SIMULATOR_NS: i64 = 900 * NANOS_PER_MS;
/// Values are interpolated between messages that are usually at most this far apart \[ns\].
const INTERPOLATED_NS: i64 = 50 * NANOS_PER_MS;

/// The timing of a topic.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timing {
    pub timeline: Timeline,
    /// Why the timeline is that of the arrivals.
    pub why: Option<&'static str>,
    /// The usual interval \[ns\].
    pub usual_ns: i64,
    /// An interval that most are not longer than \[ns\], and how many that are \[%\].
    pub long_ns: i64,
    pub long_share: u8,
    /// A delay that 99.9 % are not longer than; 0 by the arrivals \[ns\].
    pub delay_ns: i64,
    /// The usual delay \[ns\].
    pub usual_delay_ns: Option<i64>,
    /// Offset that is added to the stamps of a clock that is ahead \[ns\]. Delays are with it.
    pub offset_ns: i64,
}

impl Timing {
    /// The timing of a topic; `None` if it has no two messages at different times.
    /// `simulated`: whether stamps are those of a simulator.
    pub(super) fn new(topic: &TopicReport, simulated: bool) -> Option<Timing> {
        let why = by_arrival(topic, simulated);
        let timeline = if why.is_some() { Timeline::Receive } else { Timeline::Header };
        let found = match timeline {
            Timeline::Header => topic.stamped.as_ref()?,
            Timeline::Receive => &topic.received,
        };
        let intervals = found.intervals?;
        let gaps = found.gaps;
        let delay = topic.delay.filter(|_| timeline == Timeline::Header);
        let (long_ns, long_share) = long(intervals, gaps);
        let usual_delay_ns = delay.map(|delay| delay.p50_ns);
        let offset_ns = usual_delay_ns.map_or(0, |usual| offset_ns(usual, simulated));
        Some(Timing {
            timeline,
            why,
            usual_ns: intervals.p50_ns.max(1),
            long_ns,
            long_share,
            delay_ns: delay.map_or(0, |delay| (delay.p999_ns - offset_ns).max(0)),
            usual_delay_ns: usual_delay_ns.map(|usual| usual - offset_ns),
            offset_ns,
        })
    }

    /// The usual rate, to three digits \[Hz\].
    pub(super) fn rate_hz(&self) -> f64 {
        let rate = NANOS_PER_S as f64 / self.usual_ns as f64;
        let decimals = (2 - rate.log10().floor() as i32).clamp(0, 9) as usize;
        // The nearest number that has `decimals` decimals.
        format!("{rate:.decimals$}").parse().unwrap_or(rate)
    }

    /// True if a vector is better held than interpolated: the lag would be long.
    pub(super) fn is_slow(&self) -> bool {
        self.usual_ns > INTERPOLATED_NS
    }

    /// The age up to which a value counts: two and a half intervals, more if they scatter \[ns\].
    pub(super) fn max_age_ns(&self) -> i64 {
        rounded_up((self.usual_ns / 2).saturating_mul(5).max(self.long_ns.saturating_mul(3) / 2))
    }

    /// The lag that would do \[ns\].
    pub(super) fn lag_ns(&self, interpolated: bool) -> i64 {
        let distance = if interpolated { self.long_ns } else { 0 };
        rounded_up(self.delay_ns.saturating_add(distance))
    }
}

/// A long interval, and how many are not longer \[%\]. A few gaps must not tell how old a value may be: in a short
/// recording one of them is more than 1 %.
fn long(intervals: Distribution, gaps: u64) -> (i64, u8) {
    match gaps > 0 && 20 * gaps <= intervals.count {
        true => (intervals.p95_ns.max(intervals.p50_ns), 95),
        false => (intervals.p99_ns.max(intervals.p50_ns), 99),
    }
}

/// Why the header's stamps of a topic cannot be used.
fn by_arrival(topic: &TopicReport, simulated: bool) -> Option<&'static str> {
    let stamps = topic.stamps;
    if stamps.headers == 0 {
        return Some("its messages have no header");
    }
    if 50 * (stamps.zero + stamps.bad) > stamps.headers {
        return Some("stamps are not set");
    }
    let delay = topic.delay?;
    if delay.p50_ns.saturating_abs() > OTHER_CLOCK_NS {
        return Some("its stamps are of another clock");
    }
    let most_ns = if simulated { MOST_AHEAD_OF_SIMULATOR_NS } else { MOST_AHEAD_NS };
    (delay.p1_ns - offset_ns(delay.p50_ns, simulated) < -most_ns)
        .then_some("its stamps are ahead of the arrival, and not always by as much")
}

/// The next round number of milliseconds \[ns\].
fn rounded_up(nanos: i64) -> i64 {
    let step = match nanos / NANOS_PER_MS {
        ..20 => 1,
        20..100 => 5,
        100..1000 => 10,
        _ => 100,
    };
    let step = step * NANOS_PER_MS;
    nanos.saturating_add(step - 1) / step * step
}

/// Nanoseconds in milliseconds, as a configuration writes them.
pub(super) fn milliseconds(nanos: i64) -> String {
    let micros = (nanos as f64 / 1e3).round();
    format!("{}", micros / 1e3)
}

#[cfg(test)]
mod tests;
