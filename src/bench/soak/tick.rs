//! The thread that ticks, as the node's does.

use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;

use super::check::{EVERY, Note};
use super::spin::Pool;
use super::{PERIOD_NS, START_MS, Soak, TICK_PRIORITY};
use crate::bench::BenchError;
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
    /// Whether there was time to sleep before it.
    pub rested: bool,
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
    /// Ticks that were due and not served, and those of them that were missed because the tick
    /// before took too long: before the others, the thread woke late.
    pub missed: u64,
    pub missed_awake: u64,
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
    let priority = priority::raise(TICK_PRIORITY);
    let count = soak.ticks as usize;
    let mut ticks = Ticks {
        priority: [priority; 2],
        took: touched(count),
        late: touched(count),
        overruns: Vec::with_capacity(MOST_OVERRUNS),
        ..Ticks::default()
    };
    let mut frame = soak.subject.new_frame();
    let copies = Pool::new(2, frame.message().len());
    let mut overload = Overload::default();
    let mut settled = Vec::with_capacity(soak.settled.len());
    let (mut last, mut rested, mut compared) = (0, false, 0);
    while !soak.stopping() {
        let began = soak.now();
        let tick = (began / PERIOD_NS) as i64;
        if tick <= last {
            if last == soak.ticks {
                break;
            }
            soak.sleep_until((last + 1) as u64 * PERIOD_NS);
            overload.rested();
            rested = true;
            continue;
        }
        // The end may be among those that were missed.
        let tick = tick.min(soak.ticks);
        let due_check = tick >= compared + EVERY;
        if due_check {
            settled.clear();
            settled.extend(soak.settled.iter().map(|stamp| stamp.load(Ordering::Acquire)));
        }
        soak.subject.tick(START_MS + tick, &mut frame)?;
        let ended = soak.now();
        let due = (last + 1) as u64 * PERIOD_NS;
        let missed = (tick - last - 1) as u64;
        ticks.note(Overrun { tick, due, began, ended, missed, rested });
        // Copied where there is time before the next tick; else one of the next is compared.
        if due_check && ended < tick as u64 * PERIOD_NS + PERIOD_NS / 2 {
            let fill = |mut copy: Vec<u8>| {
                copy.clear();
                copy.extend_from_slice(frame.message());
                copy
            };
            if let Some(message) = copies.fill(fill) {
                let settled = settled.clone();
                // A checker that is behind is not waited for.
                let _ = notes.try_send(Note::Tick { tick: START_MS + tick, settled, message });
                compared = tick;
            }
        }
        (last, rested) = (tick, false);
        if overload.served() && ticks.priority[1] > 0 && priority::lower() {
            ticks.priority[1] = 0;
        }
    }
    Ok(ticks)
}

impl Ticks {
    fn note(&mut self, tick: Overrun) {
        self.took.push(short(tick.ended - tick.began));
        self.missed += tick.missed;
        match tick.rested {
            true => self.late.push(short(tick.began - tick.due)),
            false => self.missed_awake += tick.missed,
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
        let mut note = |tick: i64, missed: u64, began: u64, ended: u64, rested: bool| {
            let due = (tick as u64 - missed) * PERIOD_NS;
            ticks.note(Overrun { tick, due, began, ended, missed, rested });
        };
        note(1, 0, 1_000_100, 1_000_300, true); // as it should be
        note(4, 2, 4_100_000, 4_200_000, true); // woke late by two periods
        note(5, 0, 5_000_000, 7_500_000, true); // took too long, so that
        note(7, 1, 7_500_000, 7_900_000, false); // one is missed
        assert_eq!((ticks.missed, ticks.missed_awake), (3, 1));
        let kept: Vec<_> = ticks.overruns.iter().map(|overrun| overrun.tick).collect();
        assert_eq!((kept, ticks.overrun_count), (vec![4, 5, 7], 3));
        assert_eq!(ticks.late, [100, 2_100_000, 0]);
        assert_eq!(ticks.took, [200, 100_000, 2_500_000, 400_000]);
    }
}
