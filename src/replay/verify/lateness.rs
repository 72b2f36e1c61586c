//! When rows were there, and which of them a tick did not see.

use std::collections::{BTreeMap, VecDeque};

use super::report::{Different, Late, StreamReport};
use crate::align::Strategy;
use crate::pipeline::Arrival;
use crate::spec::{Config, InputId, StreamId};
use crate::time::Stamp;

/// A row of the live node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    /// Its place in the order of the replay; `None` before the replay has it.
    place: Option<u64>,
    input: Option<InputId>,
    /// Its stamp, offset included.
    stamp: Option<Stamp>,
    arrival: Option<Stamp>,
    /// When it was in its ring.
    ready: Option<Stamp>,
    /// The changes of the rings that it made; `None` before the recording has told.
    changes: Option<(u64, u64)>,
    /// The epoch of its arrival.
    epoch: u64,
    measured: bool,
}

/// What is known of an input's rows.
#[derive(Clone, Debug, Default)]
struct Seen {
    epoch: u64,
    newest: Option<Stamp>,
    /// The longest time from a stamp until its row was there \[ns\].
    delay_ns: Option<i64>,
    /// The longest distance between two stamps \[ns\].
    distance_ns: i64,
}

pub(super) struct Lateness {
    rows: BTreeMap<u64, Row>,
    /// Their numbers, in the order in which they were noted.
    noted: VecDeque<(Stamp, u64)>,
    seen: Vec<Seen>,
    /// By input: stream, name and topic.
    inputs: Vec<(Option<StreamId>, String, String)>,
    streams: Vec<Stream>,
    now: Stamp,
}

struct Stream {
    name: String,
    lag_ns: i64,
    /// Whether a value needs the rows on both sides of its target.
    both_sides: bool,
    looks_ahead: bool,
}

impl Lateness {
    pub fn new(config: &Config) -> Self {
        let stream = |id: StreamId| {
            let spec = config.stream(id);
            Stream {
                name: spec.name.clone(),
                lag_ns: spec.lag_ns,
                both_sides: spec.strategy() != Strategy::Hold,
                looks_ahead: spec.looks_ahead(),
            }
        };
        let input = |id: InputId| {
            let spec = config.input(id);
            (spec.stream, spec.name.clone(), spec.topic.clone())
        };
        Lateness {
            rows: BTreeMap::new(),
            noted: VecDeque::new(),
            seen: vec![Seen::default(); config.inputs.len()],
            inputs: config.input_ids().map(input).collect(),
            streams: config.stream_ids().map(stream).collect(),
            now: Stamp::ZERO,
        }
    }

    /// The time of the log has come.
    pub fn at(&mut self, now: Stamp) {
        self.now = now;
    }

    fn row(&mut self, number: u64) -> &mut Row {
        let now = self.now;
        self.rows.entry(number).or_insert_with(|| {
            self.noted.push_back((now, number));
            Row {
                place: None,
                input: None,
                stamp: None,
                arrival: None,
                ready: None,
                changes: None,
                epoch: 0,
                measured: false,
            }
        })
    }

    /// The replay has a message, as the one with this place.
    pub fn came(&mut self, number: u64, place: u64, input: InputId, arrival: Arrival) {
        let row = self.row(number);
        (row.place, row.input, row.arrival) = (Some(place), Some(input), arrival.stamp);
        row.epoch = arrival.epoch.number();
        self.measure(number);
    }

    /// The node took a message.
    pub fn taken(
        &mut self,
        number: u64,
        stamp: Option<Stamp>,
        changes: (u64, u64),
        ready: Option<Stamp>,
    ) {
        let row = self.row(number);
        (row.stamp, row.changes, row.ready) = (stamp, Some(changes), ready);
        self.measure(number);
    }

    /// Notes the delay of a row, and its distance from the one before.
    fn measure(&mut self, number: u64) {
        let Some(row) = self.rows.get_mut(&number).filter(|row| !row.measured) else { return };
        let (Some(input), Some(stamp), Some(ready)) = (row.input, row.stamp, row.ready) else {
            return;
        };
        row.measured = true;
        let seen = &mut self.seen[input.index()];
        if seen.epoch != row.epoch {
            (seen.epoch, seen.newest) = (row.epoch, None);
        }
        seen.delay_ns = seen.delay_ns.max(Some(ready.since(stamp)));
        let distance_ns = seen.newest.map_or(0, |newest| stamp.since(newest));
        seen.distance_ns = seen.distance_ns.max(distance_ns);
        seen.newest = seen.newest.max(Some(stamp));
    }

    /// Forgets the rows that were noted before this time of the log.
    pub fn forget_before(&mut self, before: Stamp) {
        while self.noted.front().is_some_and(|(noted, _)| *noted < before) {
            if let Some((_, number)) = self.noted.pop_front() {
                self.rows.remove(&number);
            }
        }
    }

    /// The rows that the replay saw at a tick and the node did not, and those that only the node saw, one of
    /// each input. `changes` are those that the node saw; before the tick the replay had `before` messages.
    pub fn explain(&self, changes: u64, (before, tick): (u64, Stamp)) -> (Vec<Late>, Vec<Late>) {
        let (mut late, mut early) = (Vec::new(), Vec::new());
        for row in self.rows.values() {
            let (Some(place), Some(input), Some((first, last))) =
                (row.place, row.input, row.changes)
            else {
                continue;
            };
            let place_of = if place <= before && last > changes {
                &mut late
            } else if place > before && first <= changes {
                &mut early
            } else {
                continue;
            };
            if let Some(found) = self.late(row, input, tick) {
                place_of.push(found);
            }
        }
        (worst(late), worst(early))
    }

    /// A row that one side saw. `None` if no lag of its stream was too short for it.
    fn late(&self, row: &Row, input: InputId, tick: Stamp) -> Option<Late> {
        let (stream, name, topic) = self.inputs.get(input.index())?;
        let stream = &self.streams[(*stream)?.index()];
        let ready = row.ready?;
        // The points of a plan have many stamps.
        let after_ns = row.stamp.map(|stamp| tick.since(stamp));
        let distance_ns = self.distance_of(stream, input);
        let needs_ns = after_ns.map(|after_ns| after_ns.saturating_add(distance_ns));
        if needs_ns.is_some_and(|needs_ns| needs_ns < stream.lag_ns) && !stream.looks_ahead {
            return None;
        }
        Some(Late {
            stream: stream.name.clone(),
            input: format!("{name} {topic}"),
            stamp_ns: row.stamp.map(Stamp::nanos),
            arrived_ns: row.arrival.map(|arrival| arrival.since(tick)),
            ready_ns: ready.since(tick),
        })
    }

    fn distance_of(&self, stream: &Stream, input: InputId) -> i64 {
        if stream.both_sides { self.seen[input.index()].distance_ns } else { 0 }
    }

    /// What each stream's lag is, and what would have done.
    pub fn streams(&self, different: &[Different]) -> Vec<StreamReport> {
        let report = |(at, stream): (usize, &Stream)| {
            let of_stream = |(_, (id, ..)): &(usize, &(Option<StreamId>, String, String))| {
                id.is_some_and(|id| id.index() == at)
            };
            let inputs = self.inputs.iter().enumerate().filter(of_stream);
            let needs = inputs.filter_map(|(input, _)| {
                let seen = &self.seen[input];
                let distance_ns = if stream.both_sides { seen.distance_ns } else { 0 };
                // One more, as a row at the target counts.
                Some(seen.delay_ns?.saturating_add(distance_ns).saturating_add(1).max(0))
            });
            let lag_that_does_ns = needs.max().filter(|_| !stream.looks_ahead);
            let late = |tick: &&Different| {
                tick.late.iter().chain(&tick.early).any(|row| row.stream == stream.name)
            };
            let ticks = different.iter().filter(late);
            let rows = ticks.clone().flat_map(|tick| &tick.late);
            let rows = rows.filter(|row| row.stream == stream.name);
            StreamReport {
                stream: stream.name.clone(),
                lag_ns: stream.lag_ns,
                lag_that_does_ns,
                ticks: ticks.count() as u64,
                latest_ns: rows.map(|row| row.ready_ns).max(),
            }
        };
        self.streams.iter().enumerate().map(report).collect()
    }
}

/// The latest row of each input.
fn worst(mut rows: Vec<Late>) -> Vec<Late> {
    rows.sort_by(|a, b| a.input.cmp(&b.input).then(b.ready_ns.cmp(&a.ready_ns)));
    rows.dedup_by(|a, b| a.input == b.input);
    rows
}
