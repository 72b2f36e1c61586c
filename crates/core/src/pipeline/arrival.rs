//! When a message arrived, and what is refused because of it.

use crate::rejected::{DropReason, Rejected};
use robocache_ops::time::{Epoch, NANOS_PER_MS, NANOS_PER_S, Stamp};

/// Transforms, and the start of what looks ahead, may be at most this far ahead of the node's clock \[ns\].
pub const MAX_AHEAD_NS: i64 = NANOS_PER_S;
/// Default of `max_ahead_ms` for a stream that does not look ahead \[ns\]. Clocks that are synchronised through a network
/// differ by less. If a sensor's clock is further ahead, old values would count as fresh: each of its rows would be
/// valid until the node's clock has passed it.
pub const SENSOR_AHEAD_NS: i64 = 50 * NANOS_PER_MS;

/// When a message arrived, and which stamps it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When the node took the message, on its clock; `None` if there is no clock yet. A header's stamp may
    /// not be far ahead of it. A delay ends with it, because a lag must cover the wait in the middleware's
    /// queue. Ticks see from then on what the message becomes.
    pub stamp: Option<Stamp>,
    /// The row's instant under `timeline: receive`: when the middleware received the message, on the node's
    /// clock. `None` if that is `stamp`. A recording keeps it, because a replay does not know it otherwise.
    pub received: Option<Stamp>,
    /// The clock's epoch in which the message was published.
    pub epoch: Epoch,
    /// A header's stamp may be this far ahead of `stamp` \[ns\], even if the limit of its stream is smaller. A
    /// simulator's clock moves in steps, so its sensors are ahead of it. If it is negative, the clock has moved on since the
    /// message was published: a stamp that is not before `in_doubt_from` must then be so far behind `stamp`.
    pub max_ahead_ns: i64,
    /// If a header's stamp is further ahead than `max_ahead_ns`, and is not before this instant, the message may have been
    /// stamped before the clock jumped back. `None`: no message can.
    pub in_doubt_from: Option<Stamp>,
    /// True if a header's stamp of zero is an instant. Otherwise it means "not set".
    pub zero_is_an_instant: bool,
    /// From when on ticks see what the message becomes, on the node's clock; `None` if that is `stamp`. It
    /// differs if the message waited for a transform, or if a simulator's clock took a large step. It is only
    /// kept with rows ([`Pipeline::keep_rows`]).
    pub seen_from: Option<Stamp>,
}

impl Default for Arrival {
    /// The arrival of a message before a clock is read.
    fn default() -> Self {
        Arrival {
            stamp: None,
            received: None,
            epoch: Epoch::default(),
            max_ahead_ns: 0,
            in_doubt_from: None,
            zero_is_an_instant: false,
            seen_from: None,
        }
    }
}

impl Arrival {
    /// Checks that a header's stamp, to which `offset_ns` was added, is at most `most_ns` ahead of the clock. `advises`:
    /// whether the configuration can add another offset.
    pub(super) fn check_ahead(
        &self,
        stamp: Stamp,
        most_ns: i64,
        advises: Option<OffsetKey>,
    ) -> Result<(), Rejected> {
        let Some(now) = self.stamp else { return Ok(()) };
        let ahead_ns = stamp.since(now);
        let known_ns = self.max_ahead_ns;
        let in_doubt = ahead_ns > known_ns && self.in_doubt_from.is_some_and(|from| stamp >= from);
        if in_doubt && ahead_ns <= most_ns.max(MAX_AHEAD_NS) {
            return Err(cleared());
        }
        let most_ns = most_ns.max(known_ns);
        if ahead_ns <= most_ns {
            return Ok(());
        }
        let detail = format!(
            "header.stamp: expected at most {} ahead of the node's clock ({now}), found {stamp}, {} ahead{}",
            shown(most_ns),
            shown(ahead_ns),
            advice(ahead_ns, advises),
        );
        Err(Rejected::new(DropReason::Ahead, detail))
    }
}

/// The key `stamp_offset_ms` of an input, with its present value \[ns\].
#[derive(Clone, Copy, Debug)]
pub(super) struct OffsetKey(pub i64);

/// A span for people: in milliseconds up to ten seconds.
fn shown(ns: i64) -> String {
    match ns < 10 * NANOS_PER_S {
        // Rounded up: "50 ms" would not be ahead of 50 ms.
        true => format!("{} ms", ns.saturating_add(NANOS_PER_MS - 1) / NANOS_PER_MS),
        false => format!("{:.1} s", ns as f64 / NANOS_PER_S as f64),
    }
}

/// Advice about a stamp that is ahead.
fn advice(ahead_ns: i64, key: Option<OffsetKey>) -> String {
    // Nobody sets an offset of an hour: then the two clocks have nothing in common.
    const HOUR_NS: i64 = 3600 * NANOS_PER_S;
    match key {
        Some(OffsetKey(present_ns)) if ahead_ns < HOUR_NS => {
            let offset_ms = present_ns.saturating_sub(ahead_ns).div_euclid(NANOS_PER_MS);
            let ahead = shown(ahead_ns);
            format!("; its clock is {ahead} ahead: set that clock, or stamp_offset_ms: {offset_ms}")
        }
        _ => "; do sensor and node use the same clock?".to_owned(),
    }
}

pub(super) fn cleared() -> Rejected {
    let detail = "the message is from before the clock jumped back, or before its first reading";
    Rejected::new(DropReason::Cleared, detail)
}

pub(super) fn late(detail: &str) -> Rejected {
    Rejected::new(DropReason::Late, detail)
}
