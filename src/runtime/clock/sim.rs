//! A simulator's clock, which the messages on `/clock` set.

use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::pace::Pace;
use super::{JumpLog, Reading, SLICE, Transit, is_jump};
use crate::cdr::{CdrError, Reader};
use crate::pipeline::{Arrival, MAX_AHEAD_NS};
use crate::sync::lock;
use crate::time::{Epoch, Stamp, TickGrid};

/// After this many steps in a row that are longer than a tick, the clock counts as coarse. A single
/// long step may be a short delay of the simulator.
const COARSE: u32 = 5;
/// If the middleware does not tell when messages were published, a header's stamp may be this many
/// steps of `/clock` ahead after a jump back. A sensor stamps at most one step ahead of the newest
/// reading, and a second step may be on its way.
const STEPS_AHEAD: i64 = 2;

/// No message is on its way for longer than this.
const IN_FLIGHT: Duration = Duration::from_secs(5);

/// A clock that does not move between the messages on `/clock`. The spin thread sets it, and the
/// tick thread waits for it.
#[derive(Debug)]
pub struct SimClock {
    grid: TickGrid,
    state: Mutex<SimState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct SimState {
    now: Option<Now>,
    /// Steps in a row that were longer than a tick; stays at [`COARSE`] when it is reached.
    coarse: u32,
    pace: Pace,
    log: JumpLog,
}

/// The message that began an epoch.
#[derive(Clone, Copy, Debug)]
struct Began {
    /// When it arrived.
    at: Instant,
    /// When it was published.
    published: i64,
    /// When the last message of the epoch before was published; `None` if that is not known.
    last_before: Option<i64>,
    /// How far the clock jumped back \[ns\]; 0 if it did not.
    jump_ns: i64,
}

/// A clock that runs.
#[derive(Clone, Copy, Debug)]
struct Now {
    reading: Reading,
    /// When the instant last changed.
    moved: Instant,
    /// The epoch before that of the reading.
    previous: Epoch,
    /// What is known of the message that began the epoch. Only for [`IN_FLIGHT`]: later no message
    /// of an earlier epoch is on its way, and the machine's clock may have been set.
    began: Option<Began>,
    /// When the newest message on `/clock` was published; `None` if that is not known.
    published: Option<i64>,
    /// Whether the clock has read zero in this epoch.
    has_read_zero: bool,
    /// The newest instant of an arrival in this epoch.
    arrival: Option<Stamp>,
}

impl SimClock {
    /// Makes a clock that does not run yet, for ticks on `grid`.
    pub(super) fn new(grid: TickGrid) -> Self {
        SimClock { grid, state: Mutex::default(), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, SimState> {
        // The state is plain values; a panic of another thread does not leave them half written.
        lock(&self.state)
    }

    /// Returns the newest reading; `None` before the first message.
    pub(super) fn now(&self) -> Option<Reading> {
        self.lock().now.map(|now| now.reading)
    }

    /// Returns how long the clock has not moved; `None` before it runs.
    pub(super) fn stands(&self) -> Option<Duration> {
        self.lock().now.map(|now| now.moved.elapsed())
    }

    /// Sets the clock from a message and wakes the waiting threads. If this is the first message or
    /// a jump back, an epoch begins, and this returns it. A short step back changes nothing, until
    /// the clock passes its newest instant again.
    pub fn set(&self, stamp: Stamp, transit: Transit) -> Option<Epoch> {
        let at = Instant::now();
        let mut state = self.lock();
        let Some(before) = state.now else {
            let epoch = Epoch::default().next(None);
            state.now = Some(Now::begin(stamp, at, None, epoch, transit));
            drop(state);
            self.changed.notify_all();
            tracing::info!("/clock runs, from {stamp}");
            return Some(epoch);
        };
        let from = before.reading.stamp;
        if is_jump(from, stamp, self.grid) {
            let epoch = before.reading.epoch.next(Some(from));
            state.now = Some(Now::begin(stamp, at, Some(before), epoch, transit));
            let jumped = state.log.note(at, from, stamp);
            drop(state);
            self.changed.notify_all();
            if let Some(jumped) = jumped {
                jumped.say();
            }
            return Some(epoch);
        }
        let step_ns = stamp.since(from);
        if step_ns <= 0 {
            state.now = Some(Now {
                has_read_zero: before.has_read_zero || stamp == Stamp::ZERO,
                published: transit.published(),
                ..before
            });
            return None;
        }
        state.pace.note(step_ns, at.saturating_duration_since(before.moved));
        state.now = Some(before.advanced(stamp, at, transit, self.grid));
        let coarse = state.is_coarse(step_ns, self.grid);
        drop(state);
        self.changed.notify_all();
        if coarse {
            warn_of_coarse_clock(step_ns, self.grid);
        }
        None
    }

    /// Returns the arrival of a message that comes now.
    ///
    /// Its stamp is between two readings: interpolated at the measured pace, below the next step,
    /// and later than that of every earlier arrival. Otherwise all messages between two readings
    /// would have one stamp under `timeline: receive`, and would replace each other.
    ///
    /// If the message was published before the one that began the epoch, its epoch is the one
    /// before. A simulator may send sensors before its first `/clock` after a jump: between the last
    /// old and the first new message on `/clock`, only the stamp tells. So it does if publications
    /// cannot be compared, until the clock has passed the instant that it jumped back from. Then a
    /// stamp far ahead is an old one.
    pub(super) fn arrival(&self, transit: Transit) -> Arrival {
        let mut state = self.lock();
        let past_ns = state.now.map(|now| state.pace.past_reading_ns(now.moved.elapsed()));
        let step_ns = state.pace.step_ns().unwrap_or(0).max(self.grid.period_ns());
        let (Some(past_ns), Some(now)) = (past_ns, &mut state.now) else {
            return Arrival::default();
        };
        let interpolated = now.reading.stamp.offset(past_ns);
        let stamp = now.arrival.map_or(interpolated, |last| interpolated.max(last.offset(1)));
        now.arrival = Some(stamp);
        let steps_ns = step_ns.saturating_mul(STEPS_AHEAD);
        let (mut epoch, mut max_ahead_ns) = (now.reading.epoch, steps_ns.max(MAX_AHEAD_NS));
        let before_the_end = epoch.jumped_from().is_some_and(|from| now.reading.stamp < from);
        let began = now.began.filter(|began| began.at.elapsed() < IN_FLIGHT);
        match began.zip(transit.published()) {
            Some((began, published)) => match began.sent(published, steps_ns) {
                Sent::Before => {
                    epoch = now.previous;
                    // Nothing of this clock's time can be said of it.
                    return Arrival { epoch, ..Arrival::default() };
                }
                Sent::Between => max_ahead_ns = steps_ns,
                Sent::After => {}
            },
            None if before_the_end => max_ahead_ns = steps_ns,
            None => {}
        }
        Arrival { stamp: Some(stamp), epoch, max_ahead_ns, zero_is_an_instant: now.has_read_zero }
    }

    /// Waits until the clock reaches `until` or jumps back, at most for [`SLICE`].
    pub(super) fn wait(&self, until: Option<Stamp>) {
        let state = self.lock();
        let epoch = state.now.map(|now| now.reading.epoch);
        let not_yet = |state: &mut SimState| match (state.now, until) {
            (Some(Now { reading, .. }), Some(until)) => {
                reading.stamp < until && Some(reading.epoch) == epoch
            }
            (Some(_), None) => false,
            (None, _) => true,
        };
        drop(self.changed.wait_timeout_while(state, SLICE, not_yet));
    }
}

/// When a message was published.
enum Sent {
    /// Before the jump.
    Before,
    /// Between the last old and the first new message on `/clock`.
    Between,
    /// After the jump.
    After,
}

impl Began {
    fn sent(self, published: i64, steps_ns: i64) -> Sent {
        if published >= self.published {
            return Sent::After;
        }
        // After a short jump, an old stamp is not far ahead either.
        let between = self.last_before.is_some_and(|last| published > last);
        match between && self.jump_ns > steps_ns {
            true => Sent::Between,
            false => Sent::Before,
        }
    }
}

impl Now {
    /// The first reading of an epoch, by a message that arrived at `at`.
    fn begin(
        stamp: Stamp,
        at: Instant,
        before: Option<Now>,
        epoch: Epoch,
        transit: Transit,
    ) -> Self {
        let published = transit.published();
        let began = published.map(|published| Began {
            at,
            published,
            last_before: before.and_then(|before| before.published),
            jump_ns: before.map_or(0, |before| before.reading.stamp.since(stamp)),
        });
        Now {
            reading: Reading { stamp, since: at, epoch },
            moved: at,
            previous: before.map_or(Epoch::default(), |before| before.reading.epoch),
            began,
            published,
            has_read_zero: stamp == Stamp::ZERO,
            arrival: None,
        }
    }

    /// The next reading of the epoch, by a message that arrived at `at`.
    fn advanced(self, stamp: Stamp, at: Instant, transit: Transit, grid: TickGrid) -> Self {
        let before = self.reading;
        let same_tick = grid.tick_at(stamp) == grid.tick_at(before.stamp);
        let since = if same_tick { before.since } else { at };
        let has_read_zero = self.has_read_zero || stamp == Stamp::ZERO;
        let reading = Reading { stamp, since, epoch: before.epoch };
        Now { reading, moved: at, has_read_zero, published: transit.published(), ..self }
    }
}

impl SimState {
    /// Notes a step ahead. Returns true once, when [`COARSE`] steps in a row were longer than a
    /// tick.
    fn is_coarse(&mut self, step_ns: i64, grid: TickGrid) -> bool {
        if self.coarse >= COARSE {
            return false;
        }
        self.coarse = if step_ns > grid.period_ns() { self.coarse + 1 } else { 0 };
        self.coarse == COARSE
    }
}

fn warn_of_coarse_clock(step_ns: i64, grid: TickGrid) {
    tracing::warn!(
        "/clock is too coarse for the rate of the ticks: it advances by {} ms at a time, but the \
         period of the ticks is {} ms; only the newest tick of each step is served",
        step_ns as f64 / 1e6,
        grid.period_ns() as f64 / 1e6,
    );
}

/// Returns the instant in a serialized `rosgraph_msgs/msg/Clock`; `None` if its nanosecond part is
/// a second or more.
pub fn decode_clock(message: &[u8]) -> Result<Option<Stamp>, CdrError> {
    let mut reader = Reader::new(message)?;
    let (sec, nanosec) = (reader.i32()?, reader.u32()?);
    Ok(Stamp::from_sec_nanosec(sec, nanosec))
}

#[cfg(test)]
mod tests {
    use super::super::Clock;
    use super::*;
    use crate::cdr::Writer;
    use crate::time::NANOS_PER_MS;
    use std::sync::Arc;

    fn sim_clock() -> SimClock {
        SimClock::new(TickGrid::new(10).unwrap())
    }

    fn at(nanos: i64) -> Stamp {
        Stamp::from_nanos(nanos)
    }

    /// Published at this instant, and arrived at once.
    fn published(ns: i64) -> Transit {
        Transit { published_ns: Some(ns), arrived_ns: Some(ns) }
    }

    fn set(clock: &SimClock, nanos: i64) -> Option<Epoch> {
        clock.set(at(nanos), Transit::UNKNOWN)
    }

    #[test]
    fn a_tick_is_due_since_the_first_message_at_or_after_it() {
        let clock = sim_clock();
        let since = |nanos| {
            std::thread::sleep(Duration::from_millis(2));
            set(&clock, nanos);
            clock.now().unwrap().since
        };
        let first = since(12);
        assert_eq!((since(15), since(19)), (first, first));
        let second = since(20);
        assert!(second > first);
        assert_eq!(since(20), second);
        assert!(since(9) > second, "a jump back starts again");
    }

    #[test]
    fn a_clock_whose_messages_repeat_an_instant_does_not_move() {
        let clock = sim_clock();
        assert_eq!(clock.stands(), None);
        let pause = Duration::from_millis(20);
        set(&clock, 5);
        std::thread::sleep(pause);
        set(&clock, 5);
        assert!(clock.stands().unwrap() >= pause);
        set(&clock, 6);
        assert!(clock.stands().unwrap() < pause);
        assert_eq!(Clock::system(TickGrid::new(10).unwrap()).stands(), None);
    }

    #[test]
    fn an_epoch_begins_with_the_first_reading_and_with_a_jump_back() {
        let clock = sim_clock();
        let first = Epoch::default().next(None);
        assert_eq!(set(&clock, 5), Some(first));
        assert_eq!([set(&clock, 5), set(&clock, 19)], [None; 2]);
        assert_eq!(clock.now().map(|r| (r.stamp, r.epoch)), Some((at(19), first)));
        let second = first.next(Some(at(19)));
        assert_eq!(set(&clock, 9), Some(second));
        assert_eq!(clock.now().map(|r| (r.stamp, r.epoch)), Some((at(9), second)));
        let arrival = clock.arrival(Transit::UNKNOWN);
        assert_eq!((arrival.stamp, arrival.epoch), (Some(at(9)), second));
    }

    #[test]
    fn a_step_back_that_is_shorter_than_a_tick_changes_nothing() {
        let clock = sim_clock();
        let first = set(&clock, 25).unwrap();
        for (step, newest) in [(24, 25), (16, 25), (25, 25), (26, 26)] {
            assert_eq!(set(&clock, step), None);
            assert_eq!(clock.now().map(|r| (r.stamp, r.epoch)), Some((at(newest), first)));
        }
        assert!(set(&clock, 16).is_some());
    }

    #[test]
    fn a_message_belongs_to_the_epoch_in_which_it_was_published() {
        let clock = sim_clock();
        let first = clock.set(at(990), published(90)).unwrap();
        clock.set(at(1000), published(199));
        let second = clock.set(at(500), published(200)).unwrap();
        let epoch = |transit| clock.arrival(transit).epoch;
        assert_eq!([epoch(published(199)), epoch(published(150))], [first; 2]);
        assert_eq!([epoch(published(200)), epoch(published(201))], [second; 2]);
        // All of them may be stamped far ahead of a slow clock.
        assert_eq!(clock.arrival(published(201)).max_ahead_ns, MAX_AHEAD_NS);
        // This publisher's clock is not that of the machine that publishes /clock.
        let elsewhere = Transit { published_ns: Some(5), arrived_ns: Some(10_000_000_000) };
        assert_eq!((epoch(elsewhere), epoch(Transit::UNKNOWN)), (second, second));
        // An old message says nothing of this epoch's time.
        assert_eq!(clock.arrival(published(150)), Arrival { epoch: first, ..Arrival::default() });
        // After a while the machine's clock may have been set back: nothing old is on its way.
        let long_ago = Instant::now().checked_sub(IN_FLIGHT).unwrap();
        if let Some(Now { began: Some(began), .. }) = &mut clock.lock().now {
            began.at = long_ago;
        }
        assert_eq!(epoch(published(150)), second);
    }

    #[test]
    fn a_message_before_the_first_clock_of_an_epoch_is_told_by_its_stamp() {
        let clock = SimClock::new(TickGrid::new(NANOS_PER_MS).unwrap());
        let set = |ms: i64, ns| clock.set(at(ms * NANOS_PER_MS), published(ns));
        let steps = (0..5).map(|k| set(60_000 + 25 * k, 100 + k)).collect::<Vec<_>>();
        let first = steps[0].unwrap();
        let second = set(500, 200).unwrap();
        // The last old message on /clock was published at 104.
        assert_eq!(clock.arrival(published(104)).epoch, first);
        let between = clock.arrival(published(105));
        assert_eq!((between.epoch, between.max_ahead_ns), (second, 50 * NANOS_PER_MS));
        assert_eq!(clock.arrival(published(200)).max_ahead_ns, MAX_AHEAD_NS);
        // After a jump of two steps or less, a stamp tells nothing.
        let third = set(460, 300).unwrap();
        assert_eq!(clock.arrival(published(250)).epoch, second);
        assert_eq!(clock.arrival(published(300)).epoch, third);
    }

    #[test]
    fn without_publications_a_stamp_may_be_two_steps_ahead_until_the_old_end() {
        let clock = SimClock::new(TickGrid::new(NANOS_PER_MS).unwrap());
        let max_ahead_ms = |transit| clock.arrival(transit).max_ahead_ns / NANOS_PER_MS;
        let set = |ms: i64| clock.set(at(ms * NANOS_PER_MS), published(ms));
        (0..5).for_each(|k| assert_eq!(set(1000 + 25 * k).is_some(), k == 0));
        assert_eq!(max_ahead_ms(Transit::UNKNOWN), 1000);
        assert!(set(500).is_some());
        assert_eq!(max_ahead_ms(Transit::UNKNOWN), 50);
        assert_eq!(max_ahead_ms(published(500)), 1000);
        set(1099);
        assert_eq!(max_ahead_ms(Transit::UNKNOWN), 50);
        set(1100);
        assert_eq!(max_ahead_ms(Transit::UNKNOWN), 1000, "by now a sensor may be ahead again");
    }

    #[test]
    fn zero_is_an_instant_of_an_epoch_whose_clock_has_read_zero() {
        let clock = sim_clock();
        let zero = || clock.arrival(Transit::UNKNOWN).zero_is_an_instant;
        let after = |nanos| {
            set(&clock, nanos);
            zero()
        };
        assert!(!zero());
        assert_eq!([after(5), after(100), after(0), after(50)], [false, false, true, true]);
        assert_eq!([after(20), after(-10), after(0)], [false, false, true]);
    }

    #[test]
    fn arrivals_between_two_readings_have_different_instants_below_the_next_step() {
        let clock = sim_clock();
        let step = 20 * NANOS_PER_MS;
        let mut stamps = Vec::new();
        for k in 1..=6 {
            set(&clock, k * step);
            for _ in 0..4 {
                stamps.push(clock.arrival(Transit::UNKNOWN).stamp.unwrap());
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        assert!(stamps.is_sorted_by(|a, b| a < b), "{stamps:?}");
        for (k, four) in (1..).zip(stamps.chunks(4)) {
            let limit = at((k + 1) * step);
            assert!(four.iter().all(|stamp| (at(k * step)..limit).contains(stamp)), "{four:?}");
            // With a pace, a millisecond later is not just the next nanosecond.
            assert_eq!(k >= 4, four[1].since(four[0]) > 1000, "{four:?}");
        }
    }

    #[test]
    fn messages_have_no_arrival_stamp_before_a_simulators_clock_runs() {
        assert_eq!(sim_clock().arrival(published(5)), Arrival::default());
    }

    #[test]
    fn a_clock_with_steps_longer_than_a_tick_is_reported_as_coarse_once() {
        let (mut state, grid) = (SimState::default(), TickGrid::new(10).unwrap());
        let mut steps = |steps: &[i64]| -> Vec<bool> {
            steps.iter().map(|step_ns| state.is_coarse(*step_ns, grid)).collect()
        };
        assert_eq!(steps(&[11, 11, 11, 11, 10]), [false; 5]);
        assert_eq!(steps(&[11, 11, 11, 11, 11]), [false, false, false, false, true]);
        assert_eq!(steps(&[11; 20]), [false; 20]);
    }

    /// Whether a waiting thread wakes early when the clock is set.
    fn wakes(set: i64, waited_for: i64) -> bool {
        let clock = Arc::new(Clock::Sim(Box::new(sim_clock())));
        clock.set(Stamp::from_nanos(15), Transit::UNKNOWN);
        let waiter = Arc::clone(&clock);
        let thread = std::thread::spawn(move || {
            let started = Instant::now();
            waiter.wait(Some(Stamp::from_nanos(waited_for)));
            started.elapsed()
        });
        std::thread::sleep(Duration::from_millis(5));
        clock.set(Stamp::from_nanos(set), Transit::UNKNOWN);
        thread.join().unwrap() < SLICE
    }

    #[test]
    fn a_waiter_wakes_when_the_clock_reaches_its_instant_or_jumps_back() {
        for (set, waited_for) in [(20, 20), (3, 20)] {
            // On a busy machine the thread may begin to wait after the clock is set.
            assert!((0..20).any(|_| wakes(set, waited_for)));
        }
    }

    #[test]
    fn a_clock_message_has_seconds_and_nanoseconds() {
        let mut writer = Writer::new();
        writer.i32(7);
        writer.u32(500_000_000);
        let bytes = writer.finish();
        assert_eq!(decode_clock(&bytes), Ok(Some(Stamp::from_nanos(7_500_000_000))));
        assert!(decode_clock(&bytes[..8]).is_err());
    }
}
