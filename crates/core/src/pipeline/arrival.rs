//! When a message arrived, and what is refused because of it.

use crate::rejected::{DropReason, Rejected};
use robocache_ops::time::{Epoch, NANOS_PER_S, Stamp};

/// A header's stamp may be at most this far ahead of the node's clock \[ns\], unless its stream looks
/// ahead. Synchronised clocks differ by less. A row further ahead would be the newest of its ring
/// until the clock reaches it.
pub const MAX_AHEAD_NS: i64 = NANOS_PER_S;

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
    /// A header's stamp may be at most this far ahead of `stamp` \[ns\]. If it is less than
    /// [`MAX_AHEAD_NS`], a message further ahead may have been stamped before the clock jumped back.
    pub max_ahead_ns: i64,
    /// Whether a header's stamp of zero is an instant. Otherwise it means "not set".
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
            max_ahead_ns: MAX_AHEAD_NS,
            zero_is_an_instant: false,
            seen_from: None,
        }
    }
}

/// Checks that a stamp is at most `most_ns` ahead of the clock. `known_ns` is how far a message of
/// this epoch may be ahead for certain: if that is less than [`MAX_AHEAD_NS`], one further ahead may be from before
/// the clock jumped back.
pub(super) fn check_ahead(
    stamp: Stamp,
    now: Stamp,
    known_ns: i64,
    most_ns: i64,
) -> Result<(), Rejected> {
    let ahead = stamp.since(now);
    let in_doubt = known_ns < MAX_AHEAD_NS;
    let max_ahead_ns = if in_doubt { known_ns } else { known_ns.max(most_ns) };
    if ahead <= max_ahead_ns {
        return Ok(());
    }
    if in_doubt && ahead <= most_ns {
        return Err(cleared());
    }
    let seconds = |ns: i64| ns as f64 / NANOS_PER_S as f64;
    let detail = format!(
        "header.stamp: expected at most {} s ahead of the node's clock ({now}), found {stamp}, \
         {:.3} s ahead; do sensor and node use the same clock?",
        seconds(max_ahead_ns.max(most_ns)),
        seconds(ahead),
    );
    Err(Rejected::new(DropReason::Ahead, detail))
}

pub(super) fn cleared() -> Rejected {
    let detail = "the message is from before the clock jumped back, or before its first reading";
    Rejected::new(DropReason::Cleared, detail)
}

pub(super) fn late(detail: &str) -> Rejected {
    Rejected::new(DropReason::Late, detail)
}
