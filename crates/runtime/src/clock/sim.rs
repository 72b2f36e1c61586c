//! A simulator's clock, which the messages on `/clock` set.

mod newest;

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use self::newest::Newest;
use super::pace::Pace;
use super::{IN_FLIGHT, JumpLog, Reading, SLICE, TOLERANCE_NS, Transit};
use crate::time_source::TimeSource;
use robocache_core::cdr::{CdrError, Reader};
use robocache_core::pipeline::{Arrival, MAX_AHEAD_NS};
use robocache_ops::sync::lock;
use robocache_ops::time::{Epoch, Stamp, TickGrid};

/// After this many steps in a row that are longer than a tick, the clock counts as coarse. A single
/// long step may be a short delay of the simulator.
const COARSE: u32 = 5;
/// A header's stamp may be this many steps of `/clock` ahead. A sensor stamps at most one step ahead of the newest
/// reading, and a second step may be on its way.
const STEPS_AHEAD: i64 = 2;
/// Time between two readings that are remembered.
const REMEMBERED: Duration = Duration::from_millis(250);

/// A clock that does not move between the messages on `/clock`. The spin thread sets it, and all
/// loops wait for it.
#[derive(Debug)]
pub struct SimClock {
    /// Ticks of the tensors: a step back by one of them clears the rows.
    grid: TickGrid,
    pub(super) time: TimeSource,
    state: Mutex<SimState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct SimState {
    now: Option<Now>,
    loops: Vec<LoopSteps>,
    pace: Pace,
    past: Past,
    newest: Newest,
    log: JumpLog,
}

/// Ticks of a loop, and whether the steps of the clock are too long for them.
#[derive(Debug)]
struct LoopSteps {
    /// Name of the loop.
    name: &'static str,
    grid: TickGrid,
    /// Steps in a row that were longer than a tick; stays at [`COARSE`] when it is reached.
    coarse: u32,
}

impl LoopSteps {
    /// Notes a step ahead. Returns true once, when [`COARSE`] steps in a row were longer than a
    /// tick.
    fn note(&mut self, step_ns: i64) -> bool {
        if self.coarse >= COARSE {
            return false;
        }
        self.coarse = if step_ns > self.grid.period_ns() { self.coarse + 1 } else { 0 };
        self.coarse == COARSE
    }

    fn warn(name: &str, grid: TickGrid, step_ns: i64) {
        tracing::warn!(
            "the simulator's clock is too coarse for the loop {name}: it advances by {} ms at a time, but the period of \
             its ticks is {} ms; only the newest tick of each step is served",
            step_ns as f64 / 1e6,
            grid.period_ns() as f64 / 1e6,
        );
    }
}

/// Past readings of the clock: one each [`REMEMBERED`], for somewhat longer than [`IN_FLIGHT`].
#[derive(Debug, Default)]
struct Past(VecDeque<(Instant, Stamp)>);

impl Past {
    fn note(&mut self, at: Instant, stamp: Stamp) {
        let since = |earlier: Instant| at.saturating_duration_since(earlier);
        if self.0.back().is_none_or(|(last, _)| since(*last) >= REMEMBERED) {
            // The second one is old enough: nothing that is on its way was sent before.
            while self.0.get(1).is_some_and(|(second, _)| since(*second) >= IN_FLIGHT) {
                self.0.pop_front();
            }
            self.0.push_back((at, stamp));
        }
    }

    /// Ends an epoch at `at`. What is on its way was stamped at the returned instant or later. That is the first instant of
    /// all if the epoch was too short to tell.
    fn end(&mut self, at: Instant) -> Stamp {
        let since = |earlier: Instant| at.saturating_duration_since(earlier);
        let sent = self.0.iter().rev().find(|(earlier, _)| since(*earlier) >= IN_FLIGHT);
        // A sensor publishes some time after its stamp.
        let first = sent.map_or(Stamp::MIN, |(_, stamp)| stamp.offset(-MAX_AHEAD_NS));
        self.0.clear();
        first
    }
}

/// The message that began an epoch.
#[derive(Clone, Copy, Debug)]
struct Began {
    /// The first reading of the epoch.
    stamp: Stamp,
    /// When it arrived.
    at: Instant,
    transit: Transit,
    /// When the last message of the epoch before was published; `None` if unknown.
    last_before: Option<i64>,
    /// How far the clock jumped back \[ns\]; 0 if it did not.
    jump_ns: i64,
    /// Messages of the epoch before that may be on their way were stamped at this instant or later.
    in_doubt_from: Stamp,
}

/// A clock that runs.
#[derive(Clone, Copy, Debug)]
struct Now {
    reading: Reading,
    /// The epoch before that of the reading.
    previous: Epoch,
    /// The message that began the epoch. It counts only for [`IN_FLIGHT`]: later no message of an
    /// earlier epoch is on its way, and the machine's clock may have been set.
    began: Began,
    /// When the newest message on `/clock` was published; `None` if unknown.
    published: Option<i64>,
    /// True if the clock has read zero in this epoch.
    has_read_zero: bool,
    /// The newest instant of an arrival in this epoch.
    arrival: Option<Stamp>,
}

impl SimClock {
    /// Makes a clock that does not run yet, for ticks on `grid`.
    pub(super) fn new(grid: TickGrid, time: TimeSource) -> Self {
        SimClock { grid, time, state: Mutex::default(), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, SimState> {
        // The state is plain values; a panic of another thread does not leave them half written.
        lock(&self.state)
    }

    /// Returns the newest reading; `None` before the first message.
    pub(crate) fn now(&self) -> Option<Reading> {
        self.lock().now.map(|now| now.reading)
    }

    /// Returns how long the clock has not moved; `None` before it runs.
    pub(super) fn stalled_for(&self) -> Option<Duration> {
        self.now().map(|now| self.time.since(now.since))
    }

    /// Notes that a loop has ticks on `grid`, for which the steps of the clock may be too long.
    pub(super) fn note_loop(&self, name: &'static str, grid: TickGrid) {
        self.lock().loops.push(LoopSteps { name, grid, coarse: 0 });
    }

    /// Arrival of the message with which the clock reached `instant`. That is at or before the reading `now`. If it is longer
    /// ago than ten seconds, some later message.
    pub(super) fn reached(&self, now: Reading, instant: Stamp) -> Instant {
        let state = self.lock();
        let is_now = |of: &Now| of.reading.epoch == now.epoch;
        let reached = state.now.filter(is_now).and_then(|_| state.newest.reached(instant));
        // After a jump, nothing of the reading's epoch is remembered.
        reached.unwrap_or(now.since)
    }

    /// Sets the clock from a message and wakes the waiting threads. If this is the first message or
    /// a jump back, an epoch begins, and this returns it. A short step back changes nothing, until
    /// the clock passes its newest instant again.
    pub fn set(&self, stamp: Stamp, transit: Transit) -> Option<Epoch> {
        self.set_at(stamp, transit, self.time.monotonic())
    }

    /// As [`SimClock::set`], from a message that arrived at `at`.
    pub(crate) fn set_at(&self, stamp: Stamp, transit: Transit, at: Instant) -> Option<Epoch> {
        let mut state = self.lock();
        let Some(before) = state.now else {
            let epoch = Epoch::default().next(None);
            state.begin(Now::begin(stamp, at, None, epoch, transit));
            drop(state);
            self.changed.notify_all();
            tracing::info!("the simulator's clock runs, from {stamp}");
            return Some(epoch);
        };
        let from = before.reading.stamp;
        if self.is_jump(from, stamp) {
            let epoch = before.reading.epoch.next(Some(from));
            let ended = (before, state.past.end(at));
            state.begin(Now::begin(stamp, at, Some(ended), epoch, transit));
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
        state.pace.note(step_ns, at.saturating_duration_since(before.reading.since));
        state.past.note(at, stamp);
        let now = before.advanced(stamp, at, transit);
        state.newest.note(now.reading);
        state.now = Some(now);
        let coarse = state.note_step(step_ns);
        drop(state);
        self.changed.notify_all();
        for (name, grid) in coarse {
            LoopSteps::warn(name, grid, step_ns);
        }
        None
    }

    /// True if a step of the clock is a jump back: by a tick, or by [`TOLERANCE_NS`]. After a shorter step no tick
    /// becomes due
    /// for a second time. Two publishers on `/clock` make such steps.
    fn is_jump(&self, from: Stamp, to: Stamp) -> bool {
        from.since(to) >= self.grid.period_ns().min(TOLERANCE_NS)
    }

    /// Returns the arrival of a message that comes at `at`.
    ///
    /// Its stamp is between two readings: interpolated at the measured pace, below the next step,
    /// and later than that of every earlier arrival. Otherwise all messages between two readings
    /// would have one stamp under `timeline: receive`, and would replace each other.
    ///
    /// For [`IN_FLIGHT`] after a jump, a message may be from before it. If the message was published
    /// before the one that began the epoch, its epoch is the one before. A simulator may send sensors
    /// before its first `/clock` after a jump: between the last old and the first new message on
    /// `/clock`, only the stamp tells. If the message has no stamp of its own (`is_stamped`), or if the
    /// jump is so short that an old stamp may fit, its epoch is the one before as well.
    ///
    /// If publications cannot be compared, the stamp tells until the clock has passed the instant that it
    /// jumped back from: a stamp that is ahead may be an old one, unless it is from before all that may be on
    /// its way. Later, and for a message that was published after the jump, the ordinary limit holds. After a short
    /// jump an old stamp soon fits. Then publications by one clock tell, even if it is not this machine's.
    pub(super) fn arrival_at(&self, transit: Transit, at: Instant, is_stamped: bool) -> Arrival {
        let mut state = self.lock();
        let since = |earlier: Instant| at.saturating_duration_since(earlier);
        let past_ns = state.now.map(|now| state.pace.past_reading_ns(since(now.reading.since)));
        let step_ns = state.pace.step_ns();
        let (Some(past_ns), Some(now)) = (past_ns, &mut state.now) else {
            return Arrival::default();
        };
        let interpolated = now.reading.stamp.offset(past_ns);
        let stamp = now.arrival.map_or(interpolated, |last| interpolated.max(last.offset(1)));
        now.arrival = Some(stamp);
        let period_ns = self.grid.period_ns();
        let steps_ns = step_ns.unwrap_or(0).max(period_ns).saturating_mul(STEPS_AHEAD);
        let mut epoch = now.reading.epoch;
        let mut in_doubt_from = None;
        let mut passed_ns = 0;
        let before_the_end = epoch.jumped_from().is_some_and(|from| now.reading.stamp < from);
        if since(now.began.at) < IN_FLIGHT {
            match now.began.sent(transit, steps_ns, is_stamped) {
                Some(Sent::Before) => {
                    epoch = now.previous;
                    // Nothing of this clock's time can be said of it.
                    return Arrival { epoch, ..Arrival::default() };
                }
                Some(Sent::Between) => {
                    in_doubt_from = Some(now.began.in_doubt_from);
                    // Such a message of this epoch is not ahead of its first reading, however late it comes. An old one is,
                    // and the clock may have come near its stamp meanwhile.
                    passed_ns = stamp.since(now.began.stamp);
                }
                Some(Sent::After) => {}
                None if before_the_end => in_doubt_from = Some(now.began.in_doubt_from),
                None => {}
            }
        }
        // A first step may be long, and nobody knows it yet.
        let unknown = step_ns.is_none() && in_doubt_from.is_none();
        let max_ahead_ns = if unknown { steps_ns.max(MAX_AHEAD_NS) } else { steps_ns } - passed_ns;
        let stamp = Some(stamp);
        let zero_is_an_instant = now.has_read_zero;
        Arrival {
            stamp,
            epoch,
            max_ahead_ns,
            in_doubt_from,
            zero_is_an_instant,
            ..Arrival::default()
        }
    }

    /// Waits until the clock reaches an instant or has jumped back since a reading, at most for [`SLICE`]. With `None`, waits
    /// for the first reading.
    pub(super) fn wait(&self, next: Option<(Reading, Stamp)>) {
        self.wait_at_most(next, SLICE);
    }

    /// As [`SimClock::wait`], with another limit.
    fn wait_at_most(&self, next: Option<(Reading, Stamp)>, limit: Duration) {
        let not_yet = |state: &mut SimState| match (state.now, next) {
            (Some(Now { reading, .. }), Some((seen, until))) => {
                reading.stamp < until && reading.epoch == seen.epoch
            }
            (now, _) => now.is_none(),
        };
        drop(self.changed.wait_timeout_while(self.lock(), limit, not_yet));
    }
}

/// When a message was published.
enum Sent {
    /// Before the jump, as far as anybody can tell.
    Before,
    /// Between the last old and the first new message on `/clock`, and the stamp tells the epoch.
    Between,
    /// After the jump.
    After,
}

impl Began {
    /// `None` if the two publications cannot be compared, and the stamp tells the epoch.
    fn sent(self, transit: Transit, steps_ns: i64, is_stamped: bool) -> Option<Sent> {
        // After a short jump, an old stamp is not far ahead either. A sensor publishes some time after its stamp.
        let is_long = self.jump_ns > steps_ns.saturating_add(MAX_AHEAD_NS);
        let Some((first, published)) = self.transit.published().zip(transit.published()) else {
            let is_short = self.jump_ns > 0 && !is_long;
            let is_before = transit.is_before(self.transit).filter(|_| is_short)?;
            return Some(if is_before { Sent::Before } else { Sent::After });
        };
        if published >= first {
            return Some(Sent::After);
        }
        let between = self.last_before.is_some_and(|last| published > last);
        Some(match between && is_stamped && is_long {
            true => Sent::Between,
            false => Sent::Before,
        })
    }
}

impl Now {
    /// The first reading of an epoch, by a message that arrived at `at`. `ended`: the epoch before, and
    /// [`Began::in_doubt_from`].
    fn begin(
        stamp: Stamp,
        at: Instant,
        ended: Option<(Now, Stamp)>,
        epoch: Epoch,
        transit: Transit,
    ) -> Self {
        let (before, in_doubt_from) = ended.unzip();
        let began = Began {
            stamp,
            at,
            transit,
            last_before: before.and_then(|before| before.published),
            jump_ns: before.map_or(0, |before| before.reading.stamp.since(stamp)),
            in_doubt_from: in_doubt_from.unwrap_or(Stamp::MIN),
        };
        Now {
            reading: Reading { stamp, since: at, epoch },
            previous: before.map_or(Epoch::default(), |before| before.reading.epoch),
            began,
            published: transit.published(),
            has_read_zero: stamp == Stamp::ZERO,
            arrival: None,
        }
    }

    /// The next reading of the epoch, by a message that arrived at `at`.
    fn advanced(self, stamp: Stamp, at: Instant, transit: Transit) -> Self {
        let has_read_zero = self.has_read_zero || stamp == Stamp::ZERO;
        let reading = Reading { stamp, since: at, epoch: self.reading.epoch };
        Now { reading, has_read_zero, published: transit.published(), ..self }
    }
}

impl SimState {
    /// Begins an epoch.
    fn begin(&mut self, now: Now) {
        let Reading { stamp, since, .. } = now.reading;
        self.past.note(since, stamp);
        self.newest.begin(now.reading);
        self.now = Some(now);
    }

    /// Notes a step ahead. Returns the loops for which it shows that the clock is too coarse.
    fn note_step(&mut self, step_ns: i64) -> Vec<(&'static str, TickGrid)> {
        let coarse =
            self.loops.iter_mut().filter_map(|of| of.note(step_ns).then_some((of.name, of.grid)));
        coarse.collect()
    }
}

/// Returns the instant in a serialized `rosgraph_msgs/msg/Clock`; `None` if its nanosecond part is
/// a second or more.
pub fn decode_clock(message: &[u8]) -> Result<Option<Stamp>, CdrError> {
    let mut reader = Reader::new(message)?;
    let sec = reader.i32()?;
    let nanosec = reader.u32()?;
    Ok(Stamp::from_sec_nanosec(sec, nanosec))
}

#[cfg(test)]
mod tests;
