//! Stamps in integer nanoseconds and the grid of ticks.
//!
//! No floating-point number in this crate holds an absolute time: today an `f64` of seconds
//! resolves Unix time to 240 ns, an `f32` to 128 s. Seconds in an array of a caller are converted at
//! once (`resample::times`). Differences are taken in integers. Only a ratio
//! of two differences becomes a float (see [`crate::align`]).

use std::fmt;

/// Nanoseconds in one millisecond.
pub const NANOS_PER_MS: i64 = 1_000_000;
/// Nanoseconds in one second.
pub const NANOS_PER_S: i64 = 1_000_000_000;

/// An instant: nanoseconds since the zero of the clock in use. The system clock has Unix time; the
/// clock of a simulator may start anywhere.
///
/// The range of `i64` covers the years 1678 to 2262, so sums and differences of real stamps do
/// not overflow. The arithmetic saturates nevertheless, because stamps come off the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp(i64);

impl Stamp {
    /// The zero stamp: in a message header it means "not set".
    pub const ZERO: Stamp = Stamp(0);
    /// The earliest stamp there is.
    pub const MIN: Stamp = Stamp(i64::MIN);
    /// The latest instant that can be represented.
    pub const MAX: Stamp = Stamp(i64::MAX);

    /// The instant `nanos` nanoseconds after the clock's zero.
    pub const fn from_nanos(nanos: i64) -> Self {
        Stamp(nanos)
    }

    /// From the two fields of `builtin_interfaces/Time`. `None` if `nanosec` is a second or more,
    /// which that message's definition rules out.
    pub fn from_sec_nanosec(sec: i32, nanosec: u32) -> Option<Self> {
        (i64::from(nanosec) < NANOS_PER_S)
            .then(|| Stamp(i64::from(sec) * NANOS_PER_S + i64::from(nanosec)))
    }

    /// The two fields of `builtin_interfaces/Time`; seconds saturate at the range of `i32`.
    pub fn to_sec_nanosec(self) -> (i32, u32) {
        let sec = self.0.div_euclid(NANOS_PER_S);
        let sec32 = sec.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32;
        (sec32, self.0.rem_euclid(NANOS_PER_S) as u32)
    }

    /// Nanoseconds since the clock's zero.
    pub const fn nanos(self) -> i64 {
        self.0
    }

    /// `self - earlier` in nanoseconds, saturating.
    pub const fn since(self, earlier: Stamp) -> i64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The instant `nanos` later (earlier if negative), saturating.
    pub const fn offset(self, nanos: i64) -> Self {
        Stamp(self.0.saturating_add(nanos))
    }
}

/// A stretch of a clock's time without a jump back.
///
/// Instants of two epochs cannot be compared: after a jump back the later one may have the smaller
/// stamp. So whatever is stamped carries the epoch of its clock, and nothing of an earlier epoch
/// meets what belongs to a later one. The default is the epoch before a clock is read.
///
/// Two epochs are equal if their numbers are, whether or not it is known where the clock jumped from.
#[derive(Clone, Copy, Debug, Default)]
pub struct Epoch {
    number: u64,
    jumped_from: Option<Stamp>,
}

impl Epoch {
    /// The epoch of this number. Whether the clock jumped is unknown.
    pub const fn numbered(number: u64) -> Epoch {
        Epoch { number, jumped_from: None }
    }

    /// How many epochs came before.
    pub const fn number(self) -> u64 {
        self.number
    }

    /// The epoch after this one. `jumped_from` is the instant that the clock jumped back from, if
    /// it did.
    #[must_use]
    pub const fn next(self, jumped_from: Option<Stamp>) -> Epoch {
        Epoch { number: self.number + 1, jumped_from }
    }

    /// The instant of the epoch before that the clock jumped back from.
    pub const fn jumped_from(self) -> Option<Stamp> {
        self.jumped_from
    }

    /// True if this epoch began before `other` did.
    pub const fn is_before(self, other: Epoch) -> bool {
        self.number < other.number
    }
}

impl PartialEq for Epoch {
    fn eq(&self, other: &Epoch) -> bool {
        self.number == other.number
    }
}

impl Eq for Epoch {}

impl fmt::Display for Stamp {
    /// Seconds with all nine decimals, as `ros2` tools print stamps.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let magnitude = self.0.unsigned_abs();
        let sign = if self.0 < 0 { "-" } else { "" };
        let second = NANOS_PER_S as u64;
        write!(f, "{sign}{}.{:09}", magnitude / second, magnitude % second)
    }
}

/// The instants of ticks: tick `k` is at `k * period`, on the clock in use.
///
/// The grid starts at the clock's zero rather than at start-up, so that a live run and a replay of
/// its recording tick at the same instants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TickGrid {
    period_ns: i64,
}

impl TickGrid {
    /// A grid with `period_ns` nanoseconds between ticks. `None` unless positive.
    pub const fn new(period_ns: i64) -> Option<Self> {
        if period_ns > 0 { Some(TickGrid { period_ns }) } else { None }
    }

    /// The grid of a rate in hertz; the period is rounded to a whole nanosecond (30 Hz ticks
    /// every 33,333,333 ns). `None` unless the rate is positive and at most 1 GHz.
    pub fn from_rate_hz(rate_hz: f64) -> Option<Self> {
        let period = (NANOS_PER_S as f64 / rate_hz).round();
        (rate_hz > 0.0 && period >= 1.0 && period < i64::MAX as f64)
            .then_some(TickGrid { period_ns: period as i64 })
    }

    /// Nanoseconds between ticks.
    pub fn period_ns(self) -> i64 {
        self.period_ns
    }

    /// The number of the newest tick at or before `now`.
    pub fn tick_at(self, now: Stamp) -> i64 {
        now.nanos().div_euclid(self.period_ns)
    }

    /// The instant of tick `k`, saturating.
    pub fn stamp_of(self, k: i64) -> Stamp {
        Stamp(k.saturating_mul(self.period_ns))
    }
}

#[cfg(test)]
mod tests;
