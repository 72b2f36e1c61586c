//! The rows of a group's chunks: the keys `rows` and `contract`.

use super::check::{Check, Range};
use super::command_contract;
use super::mapping::mapping;
use crate::command::MOST_ROWS;
use crate::contract::Actions;
use crate::spec::Interface;
use robocache_ops::time::NANOS_PER_MS;

/// Longest time from the first row of a chunk to its last, and from the answered tick to any row \[ms\].
const MAX_SPAN_MS: f64 = 60_000.0;

mapping! { RawRows {
    steps: i64,
    step_ms: f64,
    lag_ms: f64,
} }

/// Source of a description of a group's rows.
pub(super) enum RowSource {
    /// In its own keys.
    Keys,
    /// In a contract. If that has no such actions, it has been reported.
    Contract(Option<Box<Actions>>),
}

impl RowSource {
    /// Finds it for the group at `group`, which names this contract. `given` are the keys that a contract has. Unknown joints
    /// have been reported.
    pub(super) fn new(
        check: &mut Check<'_>,
        group: &str,
        contract: Option<&str>,
        given: [bool; 3],
        joints: Option<(&[String], Interface)>,
    ) -> Self {
        let key = format!("{group}.contract");
        match contract {
            None if check.is_unread(&key) => RowSource::Contract(None),
            None => RowSource::Keys,
            Some(path) => {
                let alone = command_contract::alone(check, group, given);
                let read = |(joints, interface)| {
                    command_contract::actions(check, &key, path, joints, interface)
                };
                RowSource::Contract(alone.and(joints).and_then(read).map(Box::new))
            }
        }
    }

    /// The actions of the contract.
    pub(super) fn actions(&self) -> Option<&Actions> {
        match self {
            RowSource::Keys => None,
            RowSource::Contract(actions) => actions.as_deref(),
        }
    }
}

/// The instants of rows, relative to the answered tick.
pub(super) struct Rows {
    pub(super) offsets_ns: Vec<i64>,
    /// From the first row to the second.
    pub(super) step_ns: i64,
}

impl Rows {
    /// Validates the rows of the group at `group`.
    pub(super) fn new(
        check: &mut Check<'_>,
        group: &str,
        raw: Option<RawRows>,
        source: &RowSource,
    ) -> Option<Self> {
        let at = |name: &str| format!("{group}.{name}");
        match source {
            RowSource::Keys => {
                let expected = "the instants of a chunk's rows: steps and step_ms; or `contract`, which has them";
                let raw = check.required(&at("rows"), raw, expected)?;
                written(check, &at("rows"), &raw)
            }
            RowSource::Contract(actions) => {
                Self::of(check, &at("contract"), &actions.as_ref()?.offsets_ns)
            }
        }
    }

    /// The rows of a contract.
    fn of(check: &mut Check<'_>, key: &str, offsets_ns: &[i64]) -> Option<Self> {
        let step_ns = offsets_ns.get(1).zip(offsets_ns.first()).map_or(0, |(of, from)| of - from);
        let rows = Rows { offsets_ns: offsets_ns.to_vec(), step_ns };
        let count = offsets_ns.len();
        let span_ms = rows.span_ns() as f64 / NANOS_PER_MS as f64;
        if !(2..=MOST_ROWS).contains(&count) || span_ms > MAX_SPAN_MS {
            let expected = format!("2 to {MOST_ROWS} rows over at most {MAX_SPAN_MS} ms");
            check.fail_found(key, expected, format!("{count} over {span_ms} ms"));
            return None;
        }
        rows.near(check, key)
    }

    /// Returns the rows if they are near the answered tick and not all past at it. Otherwise no command could follow
    /// them.
    fn near(self, check: &mut Check<'_>, key: &str) -> Option<Self> {
        let ends = self.offsets_ns.first().zip(self.offsets_ns.last());
        let (first_ns, last_ns) = ends.map_or((0, 0), |(first, last)| (*first, *last));
        let [first_ms, last_ms] = [first_ns, last_ns].map(|ns| ns as f64 / NANOS_PER_MS as f64);
        if last_ns > 0 && first_ms.abs().max(last_ms) <= MAX_SPAN_MS {
            return Some(self);
        }
        let expected = format!(
            "rows at most {MAX_SPAN_MS} ms from the answered tick, the last of them after it"
        );
        check.fail_found(key, expected, format!("{first_ms} ms to {last_ms} ms"));
        None
    }

    /// From the first row to the last.
    pub(super) fn span_ns(&self) -> i64 {
        self.offsets_ns.last().zip(self.offsets_ns.first()).map_or(0, |(last, first)| last - first)
    }
}

/// The rows that the keys of a configuration say.
fn written(check: &mut Check<'_>, key: &str, raw: &RawRows) -> Option<Rows> {
    let at = |name: &str| format!("{key}.{name}");
    let steps = check
        .required(&at("steps"), raw.steps, "the number of rows, from 2 to 1024")
        // One row alone would be past when it comes.
        .and_then(|steps| check.integer(&at("steps"), steps, 2, MOST_ROWS));
    let lag_ns = check.nanos(&at("lag_ms"), raw.lag_ms.unwrap_or(0.0), Range::NON_NEGATIVE_MS);
    let step_ms = check.required(&at("step_ms"), raw.step_ms, "the time from row to row")?;
    // Two rows less than a nanosecond apart may be at one instant.
    check.number(&at("step_ms"), step_ms, Range::from(1e-6, MAX_SPAN_MS))?;
    let steps = steps?;
    let lag_ns = lag_ns?;
    if (steps - 1) as f64 * step_ms > MAX_SPAN_MS {
        check.fail(&at("step_ms"), format!("rows over at most {MAX_SPAN_MS} ms in all"));
        return None;
    }
    // Each is rounded by itself, so that rows of 30 Hz do not drift away from those of a dataset.
    let offset_ns = |row: usize| (row as f64 * step_ms * NANOS_PER_MS as f64).round() as i64;
    let offsets_ns = (0..steps).map(|row| offset_ns(row) - lag_ns).collect();
    // The steps alone are near.
    Rows { offsets_ns, step_ns: offset_ns(1) }.near(check, &at("lag_ms"))
}
