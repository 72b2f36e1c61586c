//! Decides when an input must be subscribed to again, through a new connection to the middleware.
//!
//! Fast DDS may cut a process off from the shared memory of its publishers for good, if the process
//! stood still for more than a second: it was stopped, or the machine was suspended. Then nothing
//! comes any more, although the graph shows the publishers. Only a new connection (a context with a
//! node) hears them again.
//!
//! From the silence alone, an input that was cut off looks like one whose publisher is idle. So
//! [`Recovery`] bounds how often it asks for a new connection. After the process stood still it
//! asks soon and often. Otherwise it asks late and rarely, and later still if that was in vain
//! before.

use std::time::{Duration, Instant, SystemTime};

/// If a thread that wakes several times in this span did not run for so long, the process stood
/// still. Fast DDS needs a second or more to cut a process off.
const STILL: Duration = Duration::from_millis(900);
/// Number of intervals between arrivals whose median is the usual interval.
const INTERVALS: usize = 8;
/// Shortest silence after which an input may be cut off, if the process stood still before.
const SHORT_SILENCE: Duration = Duration::from_secs(3);
/// Shortest silence after which an input may be cut off otherwise.
const LONG_SILENCE: Duration = Duration::from_secs(10);
/// A silence is shorter than this many usual intervals, unless something is wrong.
const SHORT_INTERVALS: u32 = 5;
/// As [`SHORT_INTERVALS`], if the process did not stand still.
const LONG_INTERVALS: u32 = 10;
/// Attempts in one silence, if the process stood still before it or in it.
const ATTEMPTS_AFTER_STANDSTILL: u32 = 8;
/// Attempts in one silence otherwise.
const ATTEMPTS_AT_REST: u32 = 2;
/// Pause after the first attempt. It doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(2);
/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Messages that waited while the process stood still come within this time. They do not show that
/// new ones will.
const BACKLOG: Duration = Duration::from_secs(1);
/// If a message comes within this time after an attempt, the attempt has helped.
const HELPS_WITHIN: Duration = Duration::from_secs(5);
/// However often attempts were in vain, an input is tried again after this silence.
const LONGEST_PATIENCE: Duration = Duration::from_secs(600);

/// Notices that the process stood still.
#[derive(Debug)]
pub struct Standstills {
    /// Time that does not pass while the machine is suspended.
    running: Instant,
    /// Time that does.
    wall: SystemTime,
}

impl Standstills {
    /// Begins to watch.
    pub fn new(running: Instant, wall: SystemTime) -> Self {
        Standstills { running, wall }
    }

    /// Says whether the process stood still since the last look. The caller looks several times per
    /// second. If the system's clock is set ahead, this is taken for a standstill; that only makes
    /// a [`Recovery`] less patient once.
    pub fn look(&mut self, running: Instant, wall: SystemTime) -> bool {
        let ran = running.saturating_duration_since(self.running);
        let passed = wall.duration_since(self.wall).unwrap_or_default();
        (self.running, self.wall) = (running, wall);
        ran.max(passed) >= STILL
    }
}

/// Watches the arrivals of one input.
#[derive(Debug)]
pub struct Recovery {
    began: Instant,
    newest: Option<Instant>,
    intervals: [Duration; INTERVALS],
    /// How many intervals have been noted.
    noted: usize,
    /// The end of a standstill, until messages come as usual.
    stood_until: Option<Instant>,
    /// Silence before this instant says nothing.
    excused_until: Instant,
    /// Whether attempts are made in a silence without a standstill.
    at_rest: bool,
    /// The attempts in this silence.
    attempts: u32,
    /// The newest attempt since the newest message.
    attempted: Option<Instant>,
    /// The shortest silence that is long, if the process did not stand still.
    patience: Duration,
}

/// What a message says about the attempts before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// Nothing: there were none.
    AsUsual,
    /// The last of so many attempts brought the messages back.
    Recovered(u32),
    /// The messages came back later. So the publisher was silent.
    OfItself,
}

impl Recovery {
    /// Watches an input from now on.
    pub fn new(now: Instant) -> Self {
        Recovery {
            began: now,
            newest: None,
            intervals: [Duration::ZERO; INTERVALS],
            noted: 0,
            stood_until: None,
            excused_until: now,
            at_rest: true,
            attempts: 0,
            attempted: None,
            patience: LONG_SILENCE,
        }
    }

    /// Watches an input that may be silent for any length of time without a fault, as a simulator's
    /// clock may. Attempts are made only after a standstill.
    pub fn after_standstills(now: Instant) -> Self {
        Recovery { at_rest: false, ..Recovery::new(now) }
    }

    /// Notes a message.
    pub fn arrived(&mut self, now: Instant) -> Heard {
        if let Some(newest) = self.newest {
            self.intervals[self.noted % INTERVALS] = now.saturating_duration_since(newest);
            self.noted += 1;
        }
        self.newest = Some(now);
        self.stood_until = self.stood_until.filter(|until| now < *until + BACKLOG);
        let attempts = std::mem::take(&mut self.attempts);
        match self.attempted.take() {
            None => Heard::AsUsual,
            Some(at) if now.saturating_duration_since(at) <= HELPS_WITHIN => {
                self.patience = LONG_SILENCE;
                Heard::Recovered(attempts)
            }
            Some(_) => {
                self.patience = (self.patience * 2).min(LONGEST_PATIENCE);
                Heard::OfItself
            }
        }
    }

    /// Notes that the process stood still until now.
    pub fn stood_still(&mut self, now: Instant) {
        (self.stood_until, self.attempts) = (Some(now), 0);
    }

    /// Notes that silence says nothing at present, because the clock of the publishers stands.
    pub fn excuse(&mut self, now: Instant) {
        self.excused_until = now;
    }

    /// Whether an attempt is due.
    ///
    /// `others_recovered` says when the newest connection was created through which another input
    /// has been heard again. If nothing came from this input since, its own connection is probably
    /// cut off too. `is_there` says whether the graph shows a publisher of the input; it is called
    /// only if all else holds. After a standstill, the first attempt does not ask, because the
    /// graph may be cut off as well.
    pub fn is_due(
        &self,
        now: Instant,
        others_recovered: Option<Instant>,
        is_there: impl FnOnce() -> bool,
    ) -> bool {
        if others_recovered.is_some_and(|created| created > self.wants_newer_than()) {
            return true;
        }
        let (attempts, long) = match self.stood_until {
            Some(_) => (ATTEMPTS_AFTER_STANDSTILL, self.long(SHORT_SILENCE, SHORT_INTERVALS)),
            None if self.at_rest => (ATTEMPTS_AT_REST, self.long(self.patience, LONG_INTERVALS)),
            None => return false,
        };
        let Some(long) = long else { return false };
        let from = self.wants_newer_than().max(self.excused_until);
        let enough = if self.attempts > 0 { self.pause() } else { long };
        self.attempts < attempts
            && now.saturating_duration_since(from) >= enough
            && ((self.stood_until.is_some() && self.attempts == 0) || is_there())
    }

    /// Only a connection that was created after this instant can help: after the newest message,
    /// standstill and attempt.
    pub fn wants_newer_than(&self) -> Instant {
        let instants = [self.newest, self.stood_until, self.attempted];
        instants.into_iter().flatten().fold(self.began, Instant::max)
    }

    /// Notes an attempt: the input has been subscribed to again, or no connection could be made.
    /// Returns whether it is the first one in this silence.
    pub fn attempted(&mut self, now: Instant) -> bool {
        self.attempted = Some(now);
        self.attempts += 1;
        self.attempts == 1
    }

    /// How long nothing has come.
    pub fn silence(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.newest.unwrap_or(self.began))
    }

    /// How long a silence must be; `None` if the input has not been heard twice.
    fn long(&self, shortest: Duration, intervals: u32) -> Option<Duration> {
        let noted = self.noted.min(INTERVALS);
        let mut sorted = self.intervals;
        sorted[..noted].sort_unstable();
        (noted > 0).then(|| (sorted[noted / 2] * intervals).max(shortest))
    }

    /// The pause after the newest attempt.
    fn pause(&self) -> Duration {
        let doublings = self.attempts.saturating_sub(1).min(16);
        (FIRST_PAUSE * (1 << doublings)).min(LONGEST_PAUSE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const SECOND: Duration = Duration::from_secs(1);
    const MINUTE: Duration = Duration::from_secs(60);

    /// An input that was heard every `interval` until the returned instant.
    fn heard_every(interval: Duration) -> (Recovery, Instant) {
        heard(Recovery::new, interval)
    }

    fn heard(new: fn(Instant) -> Recovery, interval: Duration) -> (Recovery, Instant) {
        let mut now = Instant::now();
        let mut recovery = new(now);
        for _ in 0..20 {
            now += interval;
            assert_eq!(recovery.arrived(now), Heard::AsUsual);
        }
        (recovery, now)
    }

    /// The seconds after `from` at which attempts are made until `until`, if none of them helps.
    fn attempts(recovery: &mut Recovery, from: Instant, until: Duration) -> Vec<f64> {
        let mut at = Vec::new();
        for step in 0..(until.as_millis() / 50) as u32 {
            let now = from + 50 * MS * step;
            if recovery.is_due(now, None, || true) {
                assert_eq!(recovery.attempted(now), at.is_empty());
                at.push(now.duration_since(from).as_secs_f64());
            }
        }
        at
    }

    #[test]
    fn after_a_standstill_attempts_begin_soon_and_become_rare() {
        let (mut recovery, now) = heard_every(10 * MS);
        recovery.stood_still(now + 2 * SECOND);
        let at = attempts(&mut recovery, now + 2 * SECOND, 60 * MINUTE);
        assert_eq!(at, [3.0, 5.0, 9.0, 17.0, 33.0, 65.0, 125.0, 185.0]);
        // Another standstill may have another cause, so the attempts begin again.
        let later = now + 62 * MINUTE;
        recovery.stood_still(later);
        assert_eq!(attempts(&mut recovery, later, 10 * SECOND), [3.0, 5.0, 9.0]);
    }

    #[test]
    fn a_slow_input_is_not_due_within_a_few_of_its_intervals() {
        let (mut recovery, now) = heard_every(4 * SECOND);
        recovery.stood_still(now);
        assert_eq!(attempts(&mut recovery, now, 21 * SECOND), [20.0]);
        let (mut recovery, now) = heard_every(4 * SECOND);
        assert_eq!(attempts(&mut recovery, now, 41 * SECOND), [40.0]);
    }

    #[test]
    fn messages_that_waited_during_a_standstill_do_not_hide_it() {
        let (mut recovery, now) = heard_every(10 * MS);
        recovery.stood_still(now + 2 * SECOND);
        let backlog = now + 2 * SECOND + 200 * MS;
        recovery.arrived(backlog);
        assert_eq!(attempts(&mut recovery, backlog, 4 * SECOND), [3.0]);
        let (mut recovery, now) = heard_every(10 * MS);
        recovery.stood_still(now + 2 * SECOND);
        let new = now + 4 * SECOND;
        recovery.arrived(new);
        assert_eq!(attempts(&mut recovery, new, 9 * SECOND), [0.0; 0]);
    }

    #[test]
    fn an_idle_publisher_is_left_alone_after_two_attempts_and_ever_longer_after_that() {
        let (mut recovery, mut now) = heard_every(10 * MS);
        for patience in [10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 600.0, 600.0] {
            let at = attempts(&mut recovery, now, 60 * MINUTE);
            assert_eq!(at, [patience, patience + 2.0]);
            now += 60 * MINUTE;
            assert_eq!(recovery.arrived(now), Heard::OfItself);
            for _ in 0..20 {
                now += 10 * MS;
                assert_eq!(recovery.arrived(now), Heard::AsUsual);
            }
        }
        // An attempt that helps shows that silence does mean something.
        assert!(recovery.is_due(now + 600 * SECOND, None, || true));
        recovery.attempted(now + 600 * SECOND);
        assert_eq!(recovery.arrived(now + 601 * SECOND), Heard::Recovered(1));
        now += 601 * SECOND;
        for _ in 0..20 {
            now += 10 * MS;
            recovery.arrived(now);
        }
        assert_eq!(attempts(&mut recovery, now, 11 * SECOND), [10.0]);
    }

    #[test]
    fn without_a_publisher_only_a_standstill_asks_for_an_attempt_and_only_once() {
        let (recovery, now) = heard_every(10 * MS);
        assert!(!recovery.is_due(now + 11 * SECOND, None, || false));
        assert!(recovery.is_due(now + 11 * SECOND, None, || true));
        let (mut recovery, now) = heard_every(10 * MS);
        recovery.stood_still(now);
        assert!(recovery.is_due(now + 3 * SECOND, None, || false));
        recovery.attempted(now + 3 * SECOND);
        assert!(!recovery.is_due(now + 9 * SECOND, None, || false));
        assert!(recovery.is_due(now + 9 * SECOND, None, || true));
    }

    #[test]
    fn nothing_is_due_before_an_input_was_heard_or_while_its_clock_stands() {
        let now = Instant::now();
        let mut recovery = Recovery::new(now);
        recovery.stood_still(now);
        assert!(!recovery.is_due(now + MINUTE, None, || true));
        recovery.arrived(now + MINUTE);
        assert!(!recovery.is_due(now + 3 * MINUTE, None, || true), "no interval is known");

        let (mut recovery, now) = heard_every(10 * MS);
        recovery.excuse(now + MINUTE);
        assert!(!recovery.is_due(now + MINUTE + 9 * SECOND, None, || true));
        assert!(recovery.is_due(now + MINUTE + 10 * SECOND, None, || true));
    }

    #[test]
    fn a_clock_is_due_only_after_a_standstill() {
        let (mut recovery, now) = heard(Recovery::after_standstills, MS);
        assert_eq!(attempts(&mut recovery, now, 10 * MINUTE), [0.0; 0]);
        recovery.stood_still(now);
        assert_eq!(attempts(&mut recovery, now, 6 * SECOND), [3.0, 5.0]);
    }

    #[test]
    fn an_input_that_was_silent_while_another_one_recovered_follows_it_once() {
        let (mut recovery, now) = heard_every(10 * SECOND);
        recovery.stood_still(now + SECOND);
        let created = now + 4 * SECOND;
        assert!(recovery.is_due(now + 5 * SECOND, Some(created), || false));
        assert!(recovery.wants_newer_than() < created);
        recovery.attempted(now + 5 * SECOND);
        assert!(!recovery.is_due(now + 6 * SECOND, Some(created), || false));
        // A connection from before the standstill shows nothing, nor does one from before a
        // message.
        let (mut recovery, now) = heard_every(10 * SECOND);
        recovery.stood_still(now + 5 * SECOND);
        assert!(!recovery.is_due(now + 6 * SECOND, Some(created.min(now + SECOND)), || false));
        recovery.arrived(now + 9 * SECOND);
        assert!(!recovery.is_due(now + 10 * SECOND, Some(now + 8 * SECOND), || false));
        // Messages come again, so the attempts are counted from zero.
        assert!(recovery.attempted(now + 10 * SECOND));
    }

    #[test]
    fn a_standstill_is_seen_by_either_clock() {
        let (start, wall) = (Instant::now(), SystemTime::now());
        let mut standstills = Standstills::new(start, wall);
        assert!(!standstills.look(start + 100 * MS, wall + 100 * MS));
        assert!(standstills.look(start + 1100 * MS, wall + 1100 * MS), "the process was stopped");
        assert!(standstills.look(start + 1150 * MS, wall + MINUTE), "the machine was suspended");
        // A clock that is set back is none.
        assert!(!standstills.look(start + 1200 * MS, wall));
        assert!(!standstills.look(start + 1250 * MS, wall + 50 * MS));
    }
}
