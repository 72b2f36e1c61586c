//! The thread that ticks, as the node's does.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{SyncSender, TrySendError};

use super::check::{EVERY, Note};
use super::spin::Pool;
use super::{PERIOD_NS, START_MS, Soak, TICK_PRIORITY};
use crate::bench::BenchError;
use crate::message::Frame;
use crate::priority::{self, Overload};

/// A tick that was done after the next one was due, or that others were missed before.
#[derive(Clone, Copy, Debug)]
pub struct Overrun {
    pub tick: i64,
    /// When the first instant that it serves was due, and when it began and ended \[ns since the
    /// start\].
    pub due: u64,
    pub began: u64,
    pub ended: u64,
    /// Ticks that were due before and not served.
    pub missed: u64,
    /// What the thread did before it.
    pub after: After,
}

/// What the thread did before a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// It slept.
    Sleep,
    /// The tick before.
    Tick,
    /// A copy of the frame for the checker, which crossed the instant of the next tick. A node makes
    /// none.
    Copy,
}

/// How the ticks went.
#[derive(Debug, Default)]
pub struct Ticks {
    /// Real-time priority at the start, and at the end: 0 for ordinary.
    pub priority: [u8; 2],
    /// Durations of the ticks \[ns\].
    pub took: Vec<u32>,
    /// How late the thread woke for them \[ns\], where it slept.
    pub late: Vec<u32>,
    /// Ticks that were due and not served; those of them that were missed because the tick before
    /// took too long, and because a copy for the checker did. Before the others the thread woke
    /// late: the host did not run it in time.
    pub missed: u64,
    pub missed_awake: u64,
    pub missed_copying: u64,
    /// Copies for the checker during which the next tick became due.
    pub late_copies: u64,
    /// Copies that the checker did not get, because too many notes were waiting for it.
    pub unsent: u64,
    /// The first [`MOST_OVERRUNS`], and the number of all.
    pub overruns: Vec<Overrun>,
    pub overrun_count: u64,
}

/// Overruns that are kept.
pub const MOST_OVERRUNS: usize = 10_000;

/// Memory for `len` numbers whose pages are all touched: they are not counted as growth later.
pub fn touched(len: usize) -> Vec<u32> {
    let mut numbers = vec![1; len];
    numbers.clear();
    numbers
}

/// Nanoseconds as a number of 32 bits, at most 4.3 s.
pub fn short(ns: u64) -> u32 {
    u32::try_from(ns).unwrap_or(u32::MAX)
}

/// Ticks until the end: every instant once; where some were missed, the newest.
pub fn run(soak: &Soak<'_>, notes: &SyncSender<Note>) -> Result<Ticks, BenchError> {
    let mut ticker = Ticker::new(soak, notes)?;
    while !soak.stopping() && ticker.last < soak.ticks {
        let began = soak.now();
        let tick = (began / PERIOD_NS) as i64;
        if tick <= ticker.last {
            ticker.rest();
        } else {
            // The end may be among those that were missed.
            ticker.serve(tick.min(soak.ticks), began)?;
        }
    }
    Ok(ticker.ticks)
}

struct Ticker<'a> {
    soak: &'a Soak<'a>,
    notes: &'a SyncSender<Note>,
    frame: Frame,
    copies: Pool,
    overload: Overload,
    ticks: Ticks,
    /// The last tick that was served, and the last that was handed to the checker.
    last: i64,
    compared: i64,
    after: After,
}

impl<'a> Ticker<'a> {
    fn new(soak: &'a Soak<'a>, notes: &'a SyncSender<Note>) -> Result<Self, BenchError> {
        let priority = priority::raise(TICK_PRIORITY);
        let count = soak.ticks as usize;
        let mut frame = soak.subject.new_frame();
        // The first tick touches the frame's pages: that is part of the start, and not of a tick.
        soak.subject.tick(START_MS, &mut frame)?;
        let copies = Pool::new(2, frame.message().len());
        let ticks = Ticks {
            priority: [priority; 2],
            took: touched(count),
            late: touched(count),
            overruns: Vec::with_capacity(MOST_OVERRUNS),
            ..Ticks::default()
        };
        let (overload, after) = (Overload::default(), After::Sleep);
        Ok(Ticker { soak, notes, frame, copies, overload, ticks, last: 0, compared: 0, after })
    }

    fn rest(&mut self) {
        self.soak.sleep_until((self.last + 1) as u64 * PERIOD_NS);
        self.overload.rested();
        self.after = After::Sleep;
    }

    fn serve(&mut self, tick: i64, began: u64) -> Result<(), BenchError> {
        let soak = self.soak;
        let settled: Option<Vec<i64>> = (tick >= self.compared + EVERY)
            .then(|| soak.settled.iter().map(|stamp| stamp.load(Ordering::Acquire)).collect());
        soak.subject.tick(START_MS + tick, &mut self.frame)?;
        let ended = soak.now();
        let due = (self.last + 1) as u64 * PERIOD_NS;
        let missed = (tick - self.last - 1) as u64;
        self.ticks.note(Overrun { tick, due, began, ended, missed, after: self.after });
        (self.last, self.after) = (tick, After::Tick);
        // Copied where there is time before the next tick; else one of the next is compared.
        if let Some(settled) = settled
            && ended < tick as u64 * PERIOD_NS + PERIOD_NS / 2
        {
            self.hand_over(tick, settled);
        }
        if self.overload.served() && self.ticks.priority[1] > 0 && priority::lower() {
            self.ticks.priority[1] = 0;
        }
        Ok(())
    }

    /// Gives the checker a copy of the frame, unless it still holds all memory for one.
    fn hand_over(&mut self, tick: i64, settled: Vec<i64>) {
        let fill = |mut copy: Vec<u8>| {
            copy.clear();
            copy.extend_from_slice(self.frame.message());
            copy
        };
        let Some(message) = self.copies.fill(fill) else { return };
        self.compared = tick;
        // A checker that is behind is not waited for.
        let sent = self.notes.try_send(Note::Tick { tick: START_MS + tick, settled, message });
        self.ticks.unsent += u64::from(matches!(sent, Err(TrySendError::Full(_))));
        if self.soak.now() >= (tick + 1) as u64 * PERIOD_NS {
            self.ticks.late_copies += 1;
            self.after = After::Copy;
        }
    }
}

impl Ticks {
    fn note(&mut self, tick: Overrun) {
        self.took.push(short(tick.ended - tick.began));
        self.missed += tick.missed;
        match tick.after {
            After::Sleep => self.late.push(short(tick.began - tick.due)),
            After::Tick => self.missed_awake += tick.missed,
            After::Copy => self.missed_copying += tick.missed,
        }
        let next = (tick.tick + 1) as u64 * PERIOD_NS;
        if tick.missed > 0 || tick.ended >= next {
            self.overrun_count += 1;
            if self.overruns.len() < MOST_OVERRUNS {
                self.overruns.push(tick);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_missed_is_told_by_its_cause() {
        let mut ticks = Ticks::default();
        let mut note = |tick: i64, missed: u64, began: u64, ended: u64, after: After| {
            let due = (tick as u64 - missed) * PERIOD_NS;
            ticks.note(Overrun { tick, due, began, ended, missed, after });
        };
        note(1, 0, 1_000_100, 1_000_300, After::Sleep); // as it should be
        note(4, 2, 4_100_000, 4_200_000, After::Sleep); // woke late by two periods
        note(5, 0, 5_000_000, 7_500_000, After::Sleep); // took too long, so that
        note(7, 1, 7_500_000, 7_900_000, After::Tick); // one is missed
        note(10, 2, 10_100_000, 10_200_000, After::Copy); // the copy of 7 took long
        assert_eq!((ticks.missed, ticks.missed_awake, ticks.missed_copying), (5, 1, 2));
        let kept: Vec<_> = ticks.overruns.iter().map(|overrun| overrun.tick).collect();
        assert_eq!((kept, ticks.overrun_count), (vec![4, 5, 7, 10], 4));
        assert_eq!(ticks.late, [100, 2_100_000, 0]);
        assert_eq!(ticks.took, [200, 100_000, 2_500_000, 400_000, 100_000]);
    }
}
