//! Notes of the runtime's work: how the ticks went, and how long pushes took.

use std::sync::mpsc::{SyncSender, TrySendError};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use super::check::EVERY;
use super::lock;
use super::note::{Note, Pool, Settled, tell};
use super::timeline::{PERIOD_NS, START_MS, Span, Timeline, What, short, touched};
use robocache_core::message::TensorMessage;
use robocache_core::spec::InputId;
use robocache_ops::time::Stamp;
use robocache_runtime::{DueTick, Message, Observer, Publisher, Refused, TickStats};

/// A tick that was done after the next one was due, or that others were missed before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Overrun {
    pub tick: i64,
    /// When the first instant that it serves was due, and when it began and ended \[ns since the
    /// start\].
    pub due: u64,
    pub began: u64,
    pub ended: u64,
    /// Ticks that were due before and not served.
    pub missed: u64,
    /// Activity of the thread before the tick.
    pub after: After,
}

/// Activity of the thread before a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    /// It slept.
    Sleep,
    /// The tick before.
    Tick,
    /// A copy of the tensor for the checker, which crossed the instant of the next tick. A node makes
    /// none.
    Copy,
}

/// How the ticks went.
#[derive(Debug, Default)]
pub(super) struct Ticks {
    /// Durations of the ticks \[ns\].
    pub took: Vec<u32>,
    /// How late the thread woke for them \[ns\], where it slept.
    pub late: Vec<u32>,
    /// Age of the oldest camera image when a tick began \[ns\]: the time since the stamp of the newest
    /// row, whatever the lag.
    pub image_age: Vec<u32>,
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
pub(super) const MOST_OVERRUNS: usize = 10_000;

/// Listens to the runtime.
pub(super) struct Recorder {
    timeline: Arc<Timeline>,
    settled: Arc<Settled>,
    notes: SyncSender<Note>,
    lidar: Option<InputId>,
    cameras: Vec<InputId>,
    /// Of the tick thread alone, and of the main thread at the end.
    ticks: Mutex<Ticking>,
    /// Of the encode thread, likewise.
    pushes: Mutex<Vec<Span>>,
}

/// The tick thread's own notes.
struct Ticking {
    copies: Pool,
    noted: Ticks,
    /// The last tick that was noted, and the last that was handed to the checker.
    last: i64,
    compared: i64,
    /// The tick that is being fused.
    due: Option<Due>,
    copied_late: bool,
}

struct Due {
    tick: i64,
    missed: u64,
    began: u64,
    after: After,
    /// True if the tick is the one that is fused, and not one after the end in its place.
    itself: bool,
    /// The settled instants when the tick began, if the checker gets it.
    settled: Option<Vec<i64>>,
}

impl Recorder {
    /// For tensors of `len` bytes.
    pub(super) fn new(
        timeline: Arc<Timeline>,
        settled: Arc<Settled>,
        notes: SyncSender<Note>,
        cameras: Vec<InputId>,
        lidar: Option<InputId>,
        len: usize,
    ) -> Self {
        let count = timeline.ticks as usize;
        let noted = Ticks {
            took: touched(count),
            late: touched(count),
            image_age: touched(count),
            overruns: Vec::with_capacity(MOST_OVERRUNS),
            ..Ticks::default()
        };
        let copies = Pool::new(2, len);
        let ticking =
            Ticking { copies, noted, last: 0, compared: 0, due: None, copied_late: false };
        // Pages that are touched now are not counted as growth later.
        let mut pushes = vec![Span { what: What::Look, from: 1, to: 1 }; count / 10 + 100];
        pushes.clear();
        let ticks = Mutex::new(ticking);
        let pushes = Mutex::new(pushes);
        Recorder { timeline, settled, notes, lidar, cameras, ticks, pushes }
    }

    /// True if the last tick has been noted.
    pub(super) fn is_over(&self) -> bool {
        lock(&self.ticks).last >= self.timeline.ticks
    }

    /// The pushes so far.
    pub(super) fn push_count(&self) -> usize {
        lock(&self.pushes).len()
    }

    /// Takes all notes.
    pub(super) fn take(&self) -> (Ticks, Vec<Span>) {
        let ticks = std::mem::take(&mut lock(&self.ticks).noted);
        (ticks, std::mem::take(&mut lock(&self.pushes)))
    }
}

impl Observer for Recorder {
    fn due(&self, thread: &'static str, due: DueTick) {
        if thread != TickStats::THREAD {
            return;
        }
        let mut ticking = lock(&self.ticks);
        let began = due.looked.since(Timeline::start_stamp()).max(0) as u64;
        let ticking = &mut *ticking;
        // The end may be among those that were missed.
        let number = due.tick - START_MS;
        let tick = number.min(self.timeline.ticks);
        let copied_late = std::mem::take(&mut ticking.copied_late);
        if tick <= ticking.last {
            return;
        }
        let age = |camera: &InputId| {
            let newest_ns = self.settled.newest(*camera)?;
            Some(short(due.looked.since(Stamp::from_nanos(newest_ns)).max(0) as u64))
        };
        ticking.noted.image_age.extend(self.cameras.iter().filter_map(age).max());
        let after = match (due.waited, copied_late) {
            (true, _) => After::Sleep,
            (false, false) => After::Tick,
            (false, true) => After::Copy,
        };
        let compare = tick >= ticking.compared + EVERY;
        ticking.due = Some(Due {
            tick,
            missed: (tick - ticking.last - 1) as u64,
            began,
            after,
            itself: tick == number,
            settled: compare.then(|| self.settled.read()),
        });
    }

    fn fused(&self, _: i64, message: &[u8]) {
        let Recorder { timeline, notes, ticks, .. } = self;
        let ended = timeline.now();
        let mut ticking = lock(ticks);
        let Some(Due { tick, missed, began, after, itself, settled }) = ticking.due.take() else {
            return;
        };
        let due = (ticking.last + 1) as u64 * PERIOD_NS;
        ticking.noted.note(Overrun { tick, due, began, ended, missed, after });
        ticking.last = tick;
        // Copied where there is time before the next tick; else one of the next is compared.
        if let Some(settled) = settled
            && itself
            && ended < tick as u64 * PERIOD_NS + PERIOD_NS / 2
        {
            ticking.hand_over(tick, settled, message, notes);
            ticking.copied_late = timeline.now() >= (tick + 1) as u64 * PERIOD_NS;
            ticking.noted.late_copies += u64::from(ticking.copied_late);
        }
    }

    fn pushed(&self, message: &Message, row: Option<Stamp>, since: Instant) {
        let Message { input, bytes, .. } = message;
        let bytes = (**bytes).as_ref().len();
        let what = match self.lidar == Some(*input) {
            true => What::Cloud { bytes },
            false => What::Image { camera: input.index(), bytes },
        };
        let from = self.timeline.at(since);
        let to = self.timeline.now();
        if let Some(stamp) = row {
            self.settled.note(*input, stamp.nanos());
        }
        lock(&self.pushes).push(Span { what, from, to });
    }

    fn overwritten(&self, message: &Message) {
        let stamp_ns = stamp_ns((*message.bytes).as_ref());
        tell(&self.notes, Note::Lost { input: message.input, stamp_ns });
    }
}

/// The stamp in a message's header, which is at its front.
fn stamp_ns(message: &[u8]) -> i64 {
    let word = |at: usize| message[at..at + 4].try_into().unwrap_or_default();
    let sec = i32::from_le_bytes(word(4));
    let nanosec = u32::from_le_bytes(word(8));
    Stamp::from_sec_nanosec(sec, nanosec).unwrap_or_default().nanos()
}

/// Takes the tensors and leaves them. The recorder sees each one before, on the tick thread.
pub(super) struct LeftTensors;

impl Publisher for LeftTensors {
    fn publish(&self, _: &mut TensorMessage) -> Result<(), Refused> {
        Ok(())
    }
}

impl Ticking {
    /// Gives the checker a copy of the tensor, unless it still holds all memory for one.
    fn hand_over(
        &mut self,
        tick: i64,
        settled: Vec<i64>,
        message: &[u8],
        notes: &SyncSender<Note>,
    ) {
        let Some(message) = self.copies.copy(message) else { return };
        self.compared = tick;
        // A checker that is behind is not waited for.
        let sent = notes.try_send(Note::Tick { tick: START_MS + tick, settled, message });
        self.noted.unsent += u64::from(matches!(sent, Err(TrySendError::Full(_))));
    }
}

impl Ticks {
    fn note(&mut self, tick: Overrun) {
        self.took.push(short(tick.ended.saturating_sub(tick.began)));
        self.missed += tick.missed;
        match tick.after {
            After::Sleep => self.late.push(short(tick.began.saturating_sub(tick.due))),
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
mod tests;
