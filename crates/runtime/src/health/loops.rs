//! Numbers of a loop on a grid, for the monitor.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::GridStats;
use robocache_core::histogram::{Quantiles, WindowReader};

/// A loop counts as stuck only if it serves nothing for longer than this.
const HICCUP: Duration = Duration::from_millis(500);

/// Memory of the monitor about a loop.
#[derive(Default)]
pub(super) struct LoopSeen {
    /// Overruns at the end of the last window.
    overruns: u64,
    woken: WindowReader,
    progress: Option<Progress>,
}

/// The last reading at which a loop had served another tick.
#[derive(Clone, Copy)]
struct Progress {
    /// Ticks served, whatever came of them.
    served: u64,
    /// The newest tick due.
    tick: i64,
    at: Instant,
}

/// Numbers of a loop at the end of a window.
#[derive(Clone, Debug, Default)]
pub(super) struct LoopWindow {
    /// Ticks served since the start.
    pub served: u64,
    /// Ticks that have become due since the last one served.
    pub unserved: i64,
    /// Ticks in the window that were due and not served.
    pub overruns: u64,
    /// Ticks since the start that were due and not served.
    pub total_overruns: u64,
    /// How late the system has woken the thread since the start.
    pub woken: Quantiles,
    /// Real-time priority in effect for the thread, 0 for ordinary.
    pub priority: u8,
}

impl LoopSeen {
    /// Ends a window, so long after the start of the monitor. `unserved` is by [`LoopSeen::unserved`].
    pub(super) fn read(&mut self, stats: &GridStats, since: Duration, unserved: i64) -> LoopWindow {
        let total_overruns = stats.overruns.get();
        let before = std::mem::replace(&mut self.overruns, total_overruns);
        LoopWindow {
            served: stats.served.get(),
            unserved,
            overruns: total_overruns - before,
            total_overruns,
            woken: self.woken.read(stats.woken.histogram(), since).total,
            priority: stats.priority.load(Ordering::Relaxed),
        }
    }

    /// Returns how many ticks became due since the last window in which one was served. `tick` is the newest tick due;
    /// `None` while the clock does not run.
    pub(super) fn unserved(&mut self, now: Instant, tick: Option<i64>, served: u64) -> i64 {
        let Some(tick) = tick else { return 0 };
        let new = Progress { served, tick, at: now };
        let old = *self.progress.get_or_insert(new);
        if served != old.served || tick < old.tick {
            self.progress = Some(new);
            return 0;
        }
        match now.duration_since(old.at) > HICCUP {
            true => tick - old.tick,
            false => 0,
        }
    }
}

#[cfg(test)]
mod tests;
