//! The counters at one instant. The difference of two is a window.

use crate::Runtime;
use crate::measure::Arrivals;
use robocache_core::rejected::DropReason;
use robocache_core::spec::{InputId, StreamId};
use robocache_ops::align::InvalidReason;

/// Counters of an input since the start.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct InputTotals {
    /// Messages that came.
    pub received: u64,
    /// Messages that the middleware's full queue dropped.
    pub queue_full: u64,
    /// Messages that were lost between the publisher and that queue; `None` if the middleware does
    /// not tell.
    pub lost: Option<u64>,
    /// Messages missing by their stamps' period; falls when a message comes out of order.
    pub missing: u64,
    /// How often the middleware failed to give a message that waited.
    pub take_failed: u64,
    /// Messages dropped, by [`DropReason`].
    pub dropped: [u64; DropReason::ALL.len()],
    /// Parts dropped from accepted messages, by [`DropReason`].
    pub parts_dropped: [u64; DropReason::ALL.len()],
    /// Groups that a message held only in part.
    pub groups_incomplete: u64,
}

impl InputTotals {
    /// Reads the counters; `arrivals` are those of the input.
    pub(super) fn read(runtime: &Runtime, input: InputId, arrivals: &Arrivals) -> Self {
        let stats = runtime.input_stats(input);
        let state = runtime.input(input);
        InputTotals {
            received: stats.received.get(),
            queue_full: state.queue_full.get(),
            lost: state.lost_on_the_way(),
            missing: arrivals.missing(),
            take_failed: state.take_failed.get(),
            dropped: DropReason::ALL.map(|reason| stats.dropped(reason)),
            parts_dropped: DropReason::ALL.map(|reason| stats.parts_dropped(reason)),
            groups_incomplete: stats.groups_incomplete.get(),
        }
    }

    /// Returns the messages lost on the way since `before`; `None` if the middleware does not tell.
    pub(super) fn lost_since(&self, before: &Self) -> Option<u64> {
        self.lost.map(|lost| lost - before.lost.unwrap_or(0))
    }

    /// Returns the messages missing by their stamps' period since `before`. If the middleware tells
    /// which messages were lost, this guess says nothing more and is 0.
    pub(super) fn missing_since(&self, before: &Self) -> u64 {
        match self.lost {
            Some(_) => 0,
            // A message out of order lowers the count, because it was missing until it came.
            None => self.missing.saturating_sub(before.missing),
        }
    }

    /// Returns the messages dropped since `before`, for each reason that occurred.
    pub(super) fn drops_since(&self, before: &Self) -> Vec<(DropReason, u64)> {
        by_reason(&self.dropped, &before.dropped)
    }

    /// Returns the parts dropped from accepted messages since `before`, for each reason that
    /// occurred.
    pub(super) fn parts_dropped_since(&self, before: &Self) -> Vec<(DropReason, u64)> {
        by_reason(&self.parts_dropped, &before.parts_dropped)
    }
}

type ByReason = [u64; DropReason::ALL.len()];

fn by_reason(after: &ByReason, before: &ByReason) -> Vec<(DropReason, u64)> {
    let new = |reason: DropReason| (reason, after[reason as usize] - before[reason as usize]);
    DropReason::ALL.into_iter().map(new).filter(|(_, n)| *n > 0).collect()
}

/// Counters of a stream's steps since the start.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StreamTotals {
    /// Steps served.
    pub steps: u64,
    /// Valid steps among them.
    pub steps_valid: u64,
    /// Ticks whose newest value was held because no newer row had come.
    pub newest_held: u64,
    /// Steps that were invalid, by [`InvalidReason`].
    pub invalid: [u64; InvalidReason::ALL.len()],
}

impl StreamTotals {
    /// Reads the counters.
    pub(super) fn read(runtime: &Runtime, stream: StreamId) -> Self {
        let stats = runtime.stream_stats(stream);
        StreamTotals {
            steps: stats.steps.get(),
            steps_valid: stats.steps_valid.get(),
            newest_held: stats.newest_held.get(),
            invalid: InvalidReason::ALL.map(|reason| stats.invalid(reason)),
        }
    }

    /// Returns the steps that were invalid since `before`, by [`InvalidReason`].
    pub(super) fn invalid_since(&self, before: &Self) -> [u64; InvalidReason::ALL.len()] {
        InvalidReason::ALL.map(|reason| {
            let reason = reason as usize;
            self.invalid[reason] - before.invalid[reason]
        })
    }

    /// Returns the share of valid steps since `before`; `None` without a step.
    pub(super) fn valid_share_since(&self, before: &Self) -> Option<f64> {
        let steps = self.steps - before.steps;
        let valid = self.steps_valid - before.steps_valid;
        (steps > 0).then(|| valid as f64 / steps as f64)
    }
}

/// Counters of the ticks since the start.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TickTotals {
    /// Tensors published.
    pub published: u64,
    /// Tensors that were not published, because nobody took them.
    pub unread: u64,
    /// Ticks that a required stream held back.
    pub held_back: u64,
    /// How often the clock was set.
    pub clock_jumps: u64,
    /// Tensors that a newer one replaced before they were sent.
    pub unsent: u64,
    /// Tensors that the middleware refused.
    pub publish_failed: u64,
}

impl TickTotals {
    /// Reads the counters.
    pub(super) fn read(runtime: &Runtime) -> Self {
        let ticks = &runtime.ticks;
        TickTotals {
            published: ticks.published.get(),
            unread: ticks.unread.get(),
            held_back: ticks.held_back.get(),
            clock_jumps: runtime.pipeline.clock_jumps() + runtime.clock.times_set_ahead(),
            unsent: ticks.unsent.get(),
            publish_failed: ticks.publish_failed.get(),
        }
    }

    /// Returns the ticks that were published, unread, held back, overwritten or refused.
    pub(super) fn served(&self) -> u64 {
        self.published + self.unread + self.held_back + self.unsent + self.publish_failed
    }
}
