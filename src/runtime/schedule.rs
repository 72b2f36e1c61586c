//! Decides which tick to serve and when: at absolute instants, only the newest due tick, never a
//! burst.

use std::time::Instant;

use super::clock::Reading;
use crate::time::{Epoch, NANOS_PER_S, Stamp, TickGrid};

/// If the clock gains more than this on the monotonic clock between two readings, it was set. A
/// smaller difference is a late wake-up, or a clock that is slewed.
const STEP_NS: i64 = NANOS_PER_S;

/// What the tick thread must do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Wait until this instant.
    Wait(Stamp),
    /// Serve this tick.
    Serve {
        /// The newest tick that is due.
        tick: i64,
        /// Ticks between the last one served and this one.
        missed: u64,
    },
    /// The clock was set ahead; the next tick is the first one from now on.
    SetAhead,
}

/// The schedule of ticks on a clock that may jump. It starts again with each epoch.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    grid: TickGrid,
    /// Whether to compare the clock with the monotonic one. A simulator's clock has its own speed,
    /// so it is not compared.
    real_time: bool,
    /// The tick served last (or skipped at the start), and the last reading of the clock.
    progress: Option<(i64, Reading)>,
}

impl Schedule {
    /// Makes a schedule that starts at the first tick at or after the first reading of the clock.
    pub fn new(grid: TickGrid, real_time: bool) -> Self {
        Schedule { grid, real_time, progress: None }
    }

    /// Decides from a reading of the clock.
    pub fn advance(&mut self, now: Reading) -> Step {
        let Some((last, before)) = self.progress else {
            return self.start_at(now);
        };
        if before.epoch != now.epoch {
            return self.start_at(now);
        }
        if self.stepped_ahead(before, now) {
            self.start_at(now);
            return Step::SetAhead;
        }
        let due = self.grid.tick_at(now.stamp);
        if due <= last {
            self.progress = Some((last, now));
            return Step::Wait(self.grid.stamp_of(last.saturating_add(1)));
        }
        self.progress = Some((due, now));
        Step::Serve { tick: due, missed: (due - last - 1) as u64 }
    }

    /// The clock's epoch, and the first tick of it that can still be served; `None` before the first reading.
    pub fn next(&self) -> Option<(Epoch, i64)> {
        self.progress.map(|(last, reading)| (reading.epoch, last.saturating_add(1)))
    }

    fn start_at(&mut self, now: Reading) -> Step {
        // A tick exactly at this instant is still to be served.
        let passed = self.grid.tick_at(now.stamp.offset(-1));
        self.progress = Some((passed, now));
        Step::Wait(self.grid.stamp_of(passed.saturating_add(1)))
    }

    fn stepped_ahead(&self, before: Reading, now: Reading) -> bool {
        let monotonic = elapsed_ns(before.since, now.since);
        self.real_time && now.stamp.since(before.stamp).saturating_sub(monotonic) > STEP_NS
    }
}

/// Returns the nanoseconds from one instant to a later one.
pub fn elapsed_ns(from: Instant, to: Instant) -> i64 {
    i64::try_from(to.saturating_duration_since(from).as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const PERIOD: i64 = 10_000_000;

    struct Looks {
        schedule: Schedule,
        start: Instant,
    }

    impl Looks {
        fn new(real_time: bool) -> Self {
            let grid = TickGrid::new(PERIOD).unwrap();
            Looks { schedule: Schedule::new(grid, real_time), start: Instant::now() }
        }

        /// Advances with both clocks at the same instant.
        fn at(&mut self, nanos: i64) -> Step {
            self.look(nanos, nanos, Epoch::default())
        }

        fn look(&mut self, nanos: i64, monotonic: i64, epoch: Epoch) -> Step {
            let since = self.start + Duration::from_nanos(monotonic as u64);
            self.schedule.advance(Reading { stamp: Stamp::from_nanos(nanos), since, epoch })
        }
    }

    fn later() -> Epoch {
        Epoch::default().next(None)
    }

    fn wait(tick: i64) -> Step {
        Step::Wait(Stamp::from_nanos(tick * PERIOD))
    }

    #[test]
    fn every_tick_is_served_once_and_late_ones_are_counted() {
        let mut looks = Looks::new(true);
        assert_eq!(looks.at(3 * PERIOD), wait(3));
        assert_eq!(looks.at(3 * PERIOD), Step::Serve { tick: 3, missed: 0 });
        assert_eq!(looks.at(3 * PERIOD + 1), wait(4));
        assert_eq!(looks.at(4 * PERIOD + 9), Step::Serve { tick: 4, missed: 0 });
        assert_eq!(looks.at(9 * PERIOD + 9), Step::Serve { tick: 9, missed: 4 });
        assert_eq!(looks.at(9 * PERIOD + 10), wait(10));
    }

    #[test]
    fn a_small_step_back_waits_and_a_larger_one_is_a_jump() {
        let mut looks = Looks::new(true);
        looks.at(PERIOD);
        looks.at(PERIOD);
        assert_eq!(looks.at(PERIOD + 5), wait(2));
        assert_eq!(looks.at(PERIOD + 1), wait(2));
        assert_eq!(looks.look(PERIOD - 1, PERIOD + 7, later()), wait(1));
        assert_eq!(looks.look(PERIOD, PERIOD + 8, later()), Step::Serve { tick: 1, missed: 0 });
    }

    #[test]
    fn a_clock_set_ahead_misses_no_ticks_but_a_stalled_process_does() {
        let mut looks = Looks::new(true);
        looks.at(PERIOD);
        let hour = 3600 * NANOS_PER_S;
        assert_eq!(looks.look(hour, PERIOD + 9, Epoch::default()), Step::SetAhead);
        assert_eq!(
            looks.look(hour, PERIOD + 9, Epoch::default()),
            Step::Serve { tick: hour / PERIOD, missed: 0 }
        );

        let mut looks = Looks::new(true);
        looks.at(0);
        assert_eq!(looks.at(0), Step::Serve { tick: 0, missed: 0 });
        assert_eq!(looks.at(3 * NANOS_PER_S), Step::Serve { tick: 300, missed: 299 });
    }

    #[test]
    fn a_simulators_clock_may_run_fast_and_its_epoch_says_that_it_jumped() {
        let mut looks = Looks::new(false);
        looks.at(0);
        assert_eq!(
            looks.look(5 * NANOS_PER_S, 1, Epoch::default()),
            Step::Serve { tick: 500, missed: 500 }
        );
        // The clock went back and forth between two readings: only the epoch shows it.
        assert_eq!(looks.look(5 * NANOS_PER_S + 1, 2, later()), wait(501));
    }
}
