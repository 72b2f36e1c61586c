//! Counts missing messages from the spacings of stamps, in periods.

use robocache_ops::time::Stamp;

/// The part of a stamp's distance from its multiple that the next spacing takes on. A timer that was late
/// once is on time again, so all of it would suit; a loop that sleeps between two messages stays late, so
/// none would.
const CARRY: f64 = 0.5;
/// A gap settles in one to two times this many periods.
const SETTLE: f64 = 8.0;
/// If this many messages more came than periods passed, a publisher makes up for a stop.
const CATCHING_UP: i64 = 2;

/// The gaps among the stamps of one publisher.
///
/// A publisher that stops for a moment sends what it owes afterwards. So a gap is open at first, and each
/// message that comes before its time closes a place of it. What is still open later is missing.
#[derive(Debug, Default)]
pub(super) struct Gaps {
    steps: Steps,
    /// Places of gaps since `began`, less the messages that came before their time; -1 if one came and no
    /// gap was open.
    open: i64,
    /// Open places from before that.
    older: i64,
    /// Messages that were missing since `began`, less those before their time.
    balance: i64,
    began: Option<Stamp>,
    missing: u64,
}

/// Finds the multiple of the period that each stamp is near.
#[derive(Debug, Default)]
pub(super) struct Steps {
    /// How far the newest stamp is from its multiple, in periods.
    off: f64,
}

impl Steps {
    /// Returns the number of periods from one message to the next, for a spacing of `periods`. It is 0 if the message
    /// came early.
    pub(super) fn advance(&mut self, periods: f64) -> i64 {
        let found = periods + CARRY * self.off;
        let steps = found.round().max(0.0);
        self.off = found - steps;
        steps as i64
    }

    /// Returns how far the newest stamp is from its multiple, in periods.
    pub(super) fn distance(&self) -> f64 {
        self.off.abs()
    }
}

impl Gaps {
    /// Notes a spacing up to `stamp`. Of the messages that lack in it, at most `dropped` came and were
    /// dropped. Returns how many those were.
    pub(super) fn note(
        &mut self,
        stamp: Stamp,
        spacing_ns: i64,
        period_ns: f64,
        dropped: u64,
    ) -> u64 {
        let lack = self.steps.advance(spacing_ns as f64 / period_ns) - 1;
        let explained = lack.clamp(0, i64::try_from(dropped).unwrap_or(i64::MAX));
        match lack {
            -1 => self.early(),
            _ => {
                self.open += lack - explained;
                self.balance += lack - explained;
            }
        }
        let began = *self.began.get_or_insert(stamp);
        if stamp.since(began) as f64 > SETTLE * period_ns {
            self.settle();
            self.began = Some(stamp);
        }
        explained as u64
    }

    /// Notes a message that came before its time.
    fn early(&mut self) {
        self.balance -= 1;
        match self.older {
            0 => self.open = (self.open - 1).max(-1),
            _ => self.older -= 1,
        }
    }

    /// Notes that a message whose gap was counted has come after all.
    pub(super) fn found(&mut self) {
        match self.older + self.open {
            1.. => self.early(),
            _ => self.missing = self.missing.saturating_sub(1),
        }
    }

    fn settle(&mut self) {
        if std::mem::take(&mut self.balance) > -CATCHING_UP {
            self.missing += std::mem::take(&mut self.older).unsigned_abs();
        }
        self.older += self.open.max(0);
        self.open = self.open.min(0);
    }

    /// Begins again with other stamps: what is open stays missing.
    pub(super) fn restart(&mut self) {
        let missing = self.missing + (self.older + self.open).max(0).unsigned_abs();
        *self = Gaps { missing, ..Gaps::default() };
    }

    /// Returns how many messages are missing.
    pub(super) fn missing(&self) -> u64 {
        self.missing
    }
}
