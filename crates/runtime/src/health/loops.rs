//! What the monitor reads of a loop on a grid.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::GridStats;
use robocache_core::histogram::{Quantiles, WindowReader};

/// Memory of the monitor about a loop.
#[derive(Default)]
pub(super) struct LoopSeen {
    /// Overruns at the end of the last window.
    overruns: u64,
    woken: WindowReader,
}

/// Numbers of a loop at the end of a window.
#[derive(Clone, Debug, Default)]
pub(super) struct LoopWindow {
    /// Ticks in the window that were due and not served.
    pub overruns: u64,
    /// The same since the start.
    pub total_overruns: u64,
    /// How late the system has woken the thread since the start.
    pub woken: Quantiles,
    /// Real-time priority in effect for the thread, 0 for ordinary.
    pub priority: u8,
}

impl LoopSeen {
    /// Ends a window, so long after the start of the monitor.
    pub(super) fn read(&mut self, stats: &GridStats, since: Duration) -> LoopWindow {
        let total_overruns = stats.overruns.get();
        let before = std::mem::replace(&mut self.overruns, total_overruns);
        LoopWindow {
            overruns: total_overruns - before,
            total_overruns,
            woken: self.woken.read(stats.woken.histogram(), since).total,
            priority: stats.priority.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests;
