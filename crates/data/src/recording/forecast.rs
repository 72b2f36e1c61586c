//! When a disk will be full, by the rate at which it fills.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::disk::Room;

/// Time between two measurements, the time over which the rate is measured, and the shortest such time.
const EVERY: Duration = Duration::from_secs(1);
const SPAN: Duration = Duration::from_secs(60);
const LEAST: Duration = Duration::from_secs(5);
/// The warning comes so long before the disk is full, and again if there was more time meanwhile.
const WARN: Duration = Duration::from_secs(600);
const REST: Duration = Duration::from_secs(900);

/// Measures how fast a disk fills, whoever fills it.
#[derive(Default)]
pub(super) struct Forecast {
    /// Space that a recording might take, oldest first \[bytes\].
    seen: VecDeque<(Instant, u64)>,
    has_warned: bool,
}

/// A disk that is full soon.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct FullSoon {
    /// Time until a recording must end.
    pub time: Duration,
    /// \[bytes/s\]
    pub rate: f64,
    /// True if a user should be warned now.
    pub warns: bool,
}

impl Forecast {
    /// Takes the room on the disk. Returns when it will be full, if that is soon.
    pub(super) fn take(&mut self, room: Room, now: Instant) -> Option<FullSoon> {
        let usable = room.usable();
        let newest = self.seen.back().map(|(at, _)| *at);
        if newest.is_none_or(|newest| now.saturating_duration_since(newest) >= EVERY) {
            self.seen.push_back((now, usable));
        }
        while self.seen.get(1).is_some_and(|(at, _)| now.saturating_duration_since(*at) >= SPAN) {
            self.seen.pop_front();
        }
        let (first, before) = self.seen.front().copied()?;
        let spent = now.saturating_duration_since(first);
        let rate = before.saturating_sub(usable) as f64 / spent.as_secs_f64();
        let known = spent >= LEAST && rate > 0.0;
        // A slow disk may last longer than a duration can say.
        let seconds = if known { usable as f64 / rate } else { f64::INFINITY };
        if seconds > REST.as_secs_f64() {
            self.has_warned = false;
        }
        if seconds > WARN.as_secs_f64() {
            return None;
        }
        let warns = !std::mem::replace(&mut self.has_warned, true);
        Some(FullSoon { time: Duration::from_secs_f64(seconds), rate, warns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use robocache_runtime::TimeSource;

    const GB: u64 = 1 << 30;

    fn room(usable: u64) -> Room {
        Room { free: usable + GB, total: 1000 * GB }
    }

    #[test]
    fn it_warns_once_ten_minutes_before_the_disk_is_full() {
        let mut forecast = Forecast::default();
        let start = TimeSource::real().monotonic();
        let rate = 100_000_000;
        let mut warned = Vec::new();
        for second in 0..700_u64 {
            let usable = rate * (700 - second);
            let found = forecast.take(room(usable), start + Duration::from_secs(second));
            assert_eq!(found.is_some(), second >= 100, "{second}");
            let Some(FullSoon { time, rate: found, warns }) = found else { continue };
            assert!((found / rate as f64 - 1.0).abs() < 1e-9, "{found}");
            assert_eq!(time.as_secs_f64().round() as u64, 700 - second);
            warned.extend(warns.then_some(second));
        }
        assert_eq!(warned, [100]);
    }

    #[test]
    fn a_disk_that_does_not_fill_is_never_full_and_a_short_time_says_nothing() {
        let mut forecast = Forecast::default();
        let start = TimeSource::real().monotonic();
        for second in 0..120 {
            // Somebody deletes files, too.
            let usable = 50 * GB + second % 7 + second;
            assert_eq!(forecast.take(room(usable), start + Duration::from_secs(second)), None);
        }
        let mut forecast = Forecast::default();
        assert_eq!(forecast.take(room(GB), start), None);
        let after = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(forecast.take(room(GB / 2), after(4)), None);
        assert_eq!(forecast.take(room(GB / 2), after(5)).unwrap().time.as_secs(), 5);
    }
}
