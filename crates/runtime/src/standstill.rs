//! Notices that the process stood still: it was stopped, or the machine was suspended.
//!
//! Two threads that wake several times per second note each time that they wake. If both slept far too long from the
//! same instant on, the process stood still. A single thread that was held up, for example by the middleware, shows
//! nothing. The clock is that of the time since the boot, which runs in a suspend too. No user sets that clock, so a
//! step of the system's clock does not count as a standstill.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::time_source::TimeSource;

/// If a thread that wakes several times in this span did not run for so long, it stood still. Fast DDS
/// needs a second or more to cut a process off.
pub const STILL: Duration = Duration::from_millis(900);
/// Threads that stood still together were last awake within this time. They may go on at different times.
const TOGETHER: Duration = Duration::from_millis(500);

/// A thread that notes its wake-ups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Witness {
    /// The threads of loops on a grid, or another one while none of them runs.
    Tick,
    /// The thread that reports to people.
    Report,
}

/// The wake-ups of the witnesses.
#[derive(Debug)]
pub struct Standstills {
    time: TimeSource,
    witnesses: [ThreadWakes; 2],
    /// The start of the newest standstill that [`Standstills::newest`] has returned \[ns\].
    known_ns: AtomicU64,
}

/// The wake-ups of one thread, in nanoseconds since the boot; 0 for never.
#[derive(Debug, Default)]
struct ThreadWakes {
    newest_ns: AtomicU64,
    /// The start of its newest long sleep, and how long that was.
    stood_from_ns: AtomicU64,
    stood_for_ns: AtomicU64,
}

impl Standstills {
    /// Begins without a wake-up.
    pub fn new(time: TimeSource) -> Self {
        Standstills { time, witnesses: Default::default(), known_ns: AtomicU64::new(0) }
    }

    /// Notes that a witness is awake. Returns how long it did not run, if that is [`STILL`] or more.
    pub fn awake(&self, witness: Witness) -> Option<Duration> {
        let now_ns = self.time.boot_ns()?;
        let wakes = &self.witnesses[witness as usize];
        let before_ns = wakes.newest_ns.swap(now_ns, Ordering::Relaxed);
        let stood = Duration::from_nanos(now_ns.saturating_sub(before_ns));
        if before_ns == 0 || stood < STILL {
            return None;
        }
        wakes.stood_for_ns.store(stood.as_nanos() as u64, Ordering::Relaxed);
        wakes.stood_from_ns.store(before_ns, Ordering::Release);
        Some(stood)
    }

    /// Returns how long the process stood still, once for each standstill.
    pub fn newest(&self) -> Option<Duration> {
        let from = self.witnesses.each_ref().map(|w| w.stood_from_ns.load(Ordering::Acquire));
        let [first, last] = [from[0].min(from[1]), from[0].max(from[1])];
        if first <= self.known_ns.load(Ordering::Relaxed)
            || Duration::from_nanos(last - first) > TOGETHER
        {
            return None;
        }
        self.known_ns.store(last, Ordering::Relaxed);
        let stood = self.witnesses.iter().map(|w| w.stood_for_ns.load(Ordering::Relaxed)).min();
        stood.map(Duration::from_nanos)
    }
}

#[cfg(test)]
mod tests;
