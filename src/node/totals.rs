//! What the counters show at one instant; the difference of two is a window.

use super::arrivals::Arrivals;
use super::shared::Shared;
use crate::stats::DropReason;

/// Counters of a stream since the start.
#[derive(Clone, Copy, Debug, Default)]
pub struct StreamTotals {
    /// Messages that came.
    pub received: u64,
    /// Steps served.
    pub steps: u64,
    /// Of those, the valid ones.
    pub steps_valid: u64,
    /// Times the middleware's queue was full.
    pub queue_full: u64,
    /// Messages missing by their stamps' period; falls when one comes out of order.
    pub missing: u64,
    /// Messages dropped, by [`DropReason`].
    pub dropped: [u64; DropReason::ALL.len()],
}

impl StreamTotals {
    /// The counters now; `arrivals` are those of the stream.
    pub fn read(shared: &Shared, stream: usize, arrivals: &Arrivals) -> Self {
        let stats = shared.pipeline.stats(stream);
        StreamTotals {
            received: stats.received.get(),
            steps: stats.steps.get(),
            steps_valid: stats.steps_valid.get(),
            queue_full: shared.streams[stream].queue_full.get(),
            missing: arrivals.missing(),
            dropped: DropReason::ALL.map(|reason| stats.dropped(reason)),
        }
    }

    /// Messages dropped since `before`, where there are any.
    pub fn drops_since(&self, before: &Self) -> Vec<(DropReason, u64)> {
        let new = |reason: DropReason| {
            (reason, self.dropped[reason as usize] - before.dropped[reason as usize])
        };
        DropReason::ALL.into_iter().map(new).filter(|(_, n)| *n > 0).collect()
    }
}

/// Counters of the ticks since the start.
#[derive(Clone, Copy, Debug, Default)]
pub struct TickTotals {
    /// Tensors published.
    pub published: u64,
    /// Ticks that a required stream held back.
    pub held_back: u64,
    /// Ticks that were due and not served.
    pub overruns: u64,
    /// Times the clock was set.
    pub clock_jumps: u64,
    /// Tensors that the middleware refused.
    pub publish_failed: u64,
}

impl TickTotals {
    /// The counters now.
    pub fn read(shared: &Shared) -> Self {
        let ticks = &shared.ticks;
        TickTotals {
            published: ticks.published.get(),
            held_back: ticks.held_back.get(),
            overruns: ticks.overruns.get(),
            clock_jumps: shared.pipeline.clock_jumps() + ticks.clock_set_ahead.get(),
            publish_failed: ticks.publish_failed.get(),
        }
    }

    /// Ticks that were dealt with.
    pub fn served(&self) -> u64 {
        self.published + self.held_back + self.publish_failed
    }
}
