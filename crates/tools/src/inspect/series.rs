//! The stamps of a topic: intervals, gaps, and steps back.

use serde::Serialize;

use super::sketch::{Distribution, Sketch};
use robocache_ops::time::Stamp;

/// Longest gaps that are listed.
const GAPS: usize = 5;
/// An interval of more than this many usual ones is a gap.
pub const GAP_FACTOR: f64 = 2.5;

/// Collects the stamps of a topic, in the order of its messages.
#[derive(Clone, Debug, Default)]
pub struct Series {
    intervals: Sketch,
    /// The longest intervals with where they begin, the longest first.
    longest: Vec<Gap>,
    last: Option<Stamp>,
    backwards: u64,
    furthest_back_ns: i64,
    repeated: u64,
}

/// Intervals of a [`Series`].
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Intervals {
    /// From one stamp to the next later one.
    pub intervals: Option<Distribution>,
    /// The usual rate: one per median interval \[Hz\].
    pub rate_hz: Option<f64>,
    /// Intervals of more than 2.5 usual ones.
    pub gaps: u64,
    /// The longest of these.
    pub longest: Vec<Gap>,
    /// Stamps that are before the one of the message before.
    pub backwards: u64,
    /// How far they go back at most \[ns\].
    pub furthest_back_ns: i64,
    /// Stamps that are equal to the one before.
    pub repeated: u64,
}

/// An interval without messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Gap {
    /// The last stamp before it \[ns\].
    pub start_ns: i64,
    /// How long it is \[ns\].
    pub length_ns: i64,
}

impl Series {
    /// Takes the stamp of the next message.
    pub fn take(&mut self, stamp: Stamp) {
        let Some(last) = self.last.replace(stamp) else { return };
        let interval = stamp.since(last);
        match interval {
            ..0 => {
                self.backwards += 1;
                self.furthest_back_ns = self.furthest_back_ns.max(interval.saturating_neg());
            }
            0 => self.repeated += 1,
            _ => {
                self.intervals.record(interval);
                self.note(Gap { start_ns: last.nanos(), length_ns: interval });
            }
        }
    }

    fn note(&mut self, gap: Gap) {
        let place = self.longest.partition_point(|known| known.length_ns >= gap.length_ns);
        if place < GAPS {
            self.longest.truncate(GAPS - 1);
            self.longest.insert(place, gap);
        }
    }

    /// The intervals.
    pub fn sketch(&self) -> &Sketch {
        &self.intervals
    }

    /// Intervals of the stamps so far.
    pub fn finish(&self) -> Intervals {
        let intervals = self.intervals.distribution();
        let usual = intervals.map(|intervals| intervals.p50_ns).filter(|usual| *usual > 0);
        let limit = usual.map_or(i64::MAX, |usual| (usual as f64 * GAP_FACTOR) as i64);
        Intervals {
            intervals,
            rate_hz: usual.map(|usual| 1e9 / usual as f64),
            gaps: self.intervals.longer_than(limit),
            longest: self.longest.iter().filter(|gap| gap.length_ns > limit).copied().collect(),
            backwards: self.backwards,
            furthest_back_ns: self.furthest_back_ns,
            repeated: self.repeated,
        }
    }
}

#[cfg(test)]
mod tests;
