//! What is counted: every message ends up in exactly one of these counters.

use std::sync::atomic::{AtomicU64, Ordering};

/// Why a message did not become a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(usize)]
pub enum DropReason {
    /// Shorter than it declares, or not the CDR of its type.
    Malformed,
    /// The header's stamp is zero under `timeline: header`.
    ZeroStamp,
    /// The header's stamp has a nanosecond part of a second or more.
    BadStamp,
    /// An encoding, data type or layout that is not supported.
    Unsupported,
    /// A joint or point field of the configuration is not in the message.
    MissingField,
    /// `frame_id` is not the configured one.
    WrongFrame,
    /// NaN or infinity in a field that the row takes.
    NonFinite,
    /// A value that the row's element type cannot hold.
    OutOfRange,
    /// Stamped further ahead of the node's clock than any transport explains.
    Ahead,
    /// Older than everything in a full ring.
    Late,
    /// Still on its way to the ring when the clock jumped back and the ring was cleared.
    Cleared,
    /// Overwritten in the inbox because the encoder could not keep up; the oldest goes first.
    Overload,
}

impl DropReason {
    /// All reasons, in the order of their discriminants.
    pub const ALL: [DropReason; 12] = [
        DropReason::Malformed,
        DropReason::ZeroStamp,
        DropReason::BadStamp,
        DropReason::Unsupported,
        DropReason::MissingField,
        DropReason::WrongFrame,
        DropReason::NonFinite,
        DropReason::OutOfRange,
        DropReason::Ahead,
        DropReason::Late,
        DropReason::Cleared,
        DropReason::Overload,
    ];

    /// The name in diagnostics and logs.
    pub const fn name(self) -> &'static str {
        match self {
            DropReason::Malformed => "malformed",
            DropReason::ZeroStamp => "zero_stamp",
            DropReason::BadStamp => "bad_stamp",
            DropReason::Unsupported => "unsupported",
            DropReason::MissingField => "missing_field",
            DropReason::WrongFrame => "wrong_frame",
            DropReason::NonFinite => "non_finite",
            DropReason::OutOfRange => "out_of_range",
            DropReason::Ahead => "ahead",
            DropReason::Late => "late",
            DropReason::Cleared => "cleared",
            DropReason::Overload => "overload",
        }
    }
}

/// A counter that any thread may raise. Relaxed: each counter is read on its own.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Raises the counter.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// The count so far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counters of one stream.
#[derive(Debug, Default)]
pub struct StreamStats {
    /// Messages handed to the pipeline. Equals `rows` plus all of `drops`.
    pub received: Counter,
    /// Messages that became a row.
    pub rows: Counter,
    /// Rows that were put in place behind a newer one.
    pub reordered: Counter,
    /// Rows that replaced one of the same stamp.
    pub replaced: Counter,
    /// Points dropped as NaN or infinite, inside clouds that were kept.
    pub points_non_finite: Counter,
    /// Points whose feature values are outside the fixed-point range, inside clouds that were kept.
    pub points_out_of_range: Counter,
    /// Points outside the grid.
    pub points_outside: Counter,
    /// Output steps served.
    pub steps: Counter,
    /// Output steps that were valid.
    pub steps_valid: Counter,
    drops: [Counter; DropReason::ALL.len()],
}

impl StreamStats {
    /// Counts a dropped message.
    pub fn drop(&self, reason: DropReason) {
        self.drops[reason as usize].add(1);
    }

    /// Messages dropped for `reason` so far.
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.drops[reason as usize].get()
    }

    /// Messages dropped so far.
    pub fn dropped_total(&self) -> u64 {
        self.drops.iter().map(Counter::get).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_its_own_counter() {
        for (index, reason) in DropReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, index);
            let stats = StreamStats::default();
            stats.drop(reason);
            assert_eq!((stats.dropped(reason), stats.dropped_total()), (1, 1));
        }
    }
}
