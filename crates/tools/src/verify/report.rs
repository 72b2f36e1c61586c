//! Findings of a verification.

use serde::Serialize;

use super::commands::CommandsReport;

/// Findings of a verification. Times are in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct VerifyReport {
    /// The recording.
    pub recording: String,
    /// The version of the node.
    pub version: String,
    /// True if its first files were deleted, because it reached a limit.
    pub is_cut: bool,
    /// The streams that are not recorded. The digests are of the others.
    pub missing_streams: Vec<String>,
    /// Ticks that are the same, bit for bit.
    pub equal: u64,
    /// Equal ticks that had no tensor on both sides, because a required stream was not valid.
    pub held_back: u64,
    /// Ticks that differ and may do so because messages are missing in the recording.
    pub unverifiable: u64,
    /// Ticks without a digest, because a newer tensor took their place before they were sent.
    pub unsent: u64,
    /// Ticks that the node did not serve.
    pub overruns: u64,
    /// Messages that were replayed.
    pub messages: u64,
    /// Messages for which the recorder had no room.
    pub missing: u64,
    /// Messages that are missing because a part of a file is damaged.
    pub damaged: u64,
    /// Events for which the recorder had no room: among them may be ticks.
    pub missing_events: u64,
    /// Messages that the node dropped because its encoders were too slow.
    pub overloads: u64,
    /// True if the recording has an end. If not, the node did not stop by itself, or the disk was full.
    pub complete: bool,
    /// Ticks that differ.
    pub differing: u64,
    /// Differing ticks for which the recording shows no cause.
    pub unexplained: u64,
    /// True if transforms or the numbers of cameras influence the tensors: the recording does not tell when the
    /// node had them.
    pub has_frames: bool,
    /// The commands; `None` if the node made none.
    pub commands: Option<CommandsReport>,
    /// Every stream, with its lag.
    pub streams: Vec<StreamReport>,
    /// The first ticks that differ.
    pub different: Vec<Different>,
    /// Problems of reading: the first of them.
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
    /// The lag that would have done for the messages of the recording, apart from those that were `too_old`.
    /// `None` without rows, and if the stream looks ahead: then no lag does.
    pub lag_that_does_ns: Option<i64>,
    /// The row that asks for it.
    pub slowest: Option<SlowRow>,
    /// Messages that were so old when they arrived that no tick could use them.
    pub too_old: u64,
    /// Ticks that differ and did not see a row of it in time.
    pub ticks: u64,
    /// How long after its tick the latest such row was there.
    pub latest_ns: Option<i64>,
}

/// A row that asks for a lag.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SlowRow {
    /// Its input and the topic.
    pub input: String,
    /// Its stamp.
    pub stamp_ns: i64,
    /// When its message arrived, after the stamp.
    pub arrived_ns: i64,
    /// When it was in its ring, after the stamp.
    pub ready_ns: i64,
    /// The lag: `ready_ns` and, if values are made of two rows, the distance from the row before.
    pub needs_ns: i64,
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

impl VerifyReport {
    /// True if the node and this program have the same version. If not, their arithmetic may differ.
    pub fn is_of_this_version(&self) -> bool {
        self.version == env!("CARGO_PKG_VERSION")
    }

    /// True if all ticks and commands that could be compared are the same, and these are enough: one tick at least, half of
    /// those with a tensor, and half of the command ticks.
    pub fn is_equal(&self) -> bool {
        self.differing == 0
            && self.equal > self.held_back
            && !self.is_mostly_unverifiable()
            && !self.has_mostly_unverifiable_commands()
            && self.commands.as_ref().is_none_or(|commands| commands.differing == 0)
    }

    /// True if most ticks are unverifiable, so that the others say little.
    pub fn is_mostly_unverifiable(&self) -> bool {
        self.unverifiable > self.equal - self.held_back
    }

    /// True if most command ticks are unverifiable.
    pub fn has_mostly_unverifiable_commands(&self) -> bool {
        self.commands.as_ref().is_some_and(|commands| commands.unverifiable > commands.equal)
    }
}

#[cfg(test)]
mod tests;
