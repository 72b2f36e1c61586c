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
    let Step::SetAhead { before } = looks.look(hour, PERIOD + 9, Epoch::default()) else {
        panic!("expected a clock that was set ahead")
    };
    assert_eq!(before.stamp, Stamp::from_nanos(PERIOD));
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
