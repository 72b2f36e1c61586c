//! What a verification found.

use serde::Serialize;

/// What a verification found. Times are in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The recording.
    pub recording: String,
    /// The version of the node.
    pub version: String,
    /// Ticks that are the same, bit for bit.
    pub equal: u64,
    /// Those of them that had no tensor on both sides, because a required stream was not valid.
    pub held_back: u64,
    /// Ticks that differ and may do so because messages are missing in the recording.
    pub unverifiable: u64,
    /// Ticks without a digest, because a newer tensor took their place before they were sent.
    pub unsent: u64,
    /// Ticks that the node did not serve.
    pub overruns: u64,
    /// Messages that were replayed.
    pub messages: u64,
    /// Messages that are missing in the recording.
    pub missing: u64,
    /// Messages that the node dropped because its encoders were too slow.
    pub overloads: u64,
    /// Whether the recording has an end. If not, the node did not stop by itself, or the disk was full.
    pub complete: bool,
    /// Ticks that differ, for which the recording shows no cause.
    pub unexplained: u64,
    /// Every stream, with its lag.
    pub streams: Vec<StreamReport>,
    /// The ticks that differ.
    pub different: Vec<Different>,
    /// What could not be read: the first of them.
    pub problems: Vec<String>,
    /// How many more there are.
    pub more_problems: u64,
}

/// A stream's lag.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StreamReport {
    /// Its name.
    pub stream: String,
    /// Its lag.
    pub lag_ns: i64,
    /// The lag that would have done for every message of the recording: the longest time from a stamp until its
    /// row was there and, unless the strategy is `hold`, the longest distance between two messages. `None`
    /// without rows, and if the stream looks ahead: then no lag does.
    pub lag_that_does_ns: Option<i64>,
    /// Ticks that differ and did not see a row of it in time.
    pub ticks: u64,
    /// How long after its tick the latest such row was there.
    pub latest_ns: Option<i64>,
}

/// A tick that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Different {
    /// Its number.
    pub tick: i64,
    /// The number of its epoch.
    pub epoch: u64,
    /// Rows that arrived before the tick and were not there yet: the latest of each input.
    pub late: Vec<Late>,
    /// Rows that arrived after the tick's instant, and were there when the node served it.
    pub early: Vec<Late>,
}

/// A row that one side saw at a tick.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Late {
    /// Its stream.
    pub stream: String,
    /// Its input and the topic.
    pub input: String,
    /// Its stamp; `None` for a plan.
    pub stamp_ns: Option<i64>,
    /// When its message arrived, after the tick's instant.
    pub arrived_ns: Option<i64>,
    /// When it was in its ring, after the tick's instant.
    pub ready_ns: i64,
}

impl Report {
    /// Whether all ticks that could be compared are the same, and at least one of them has a tensor.
    pub fn is_equal(&self) -> bool {
        self.different.is_empty() && self.equal > self.held_back
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_without_a_tensor_alone_prove_nothing() {
        let report = |equal, held_back| Report { equal, held_back, ..Report::default() };
        assert!(report(3, 2).is_equal());
        assert!(!report(3, 3).is_equal());
        assert!(!report(0, 0).is_equal());
    }
}
