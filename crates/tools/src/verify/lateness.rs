//! When rows were there, and which of them a tick did not see.

use std::collections::{BTreeMap, VecDeque};

use super::needs::LagNeeds;
use super::replayed::ReplayedRows;
use super::report::{Late, SlowRow, StreamReport};
use robocache_core::pipeline::{Arrival, Pipeline};
use robocache_core::spec::{Config, InputId, StreamId, StreamSpec};
use robocache_ops::align::Strategy;
use robocache_ops::time::Stamp;

/// The rows of a message.
#[derive(Clone, Copy, Debug, Default)]
struct MessageRows {
    input: Option<InputId>,
    /// The newest stamp, offset included.
    stamp: Option<Stamp>,
    arrival: Option<Stamp>,
    /// When it was in its ring, in the node.
    ready: Option<Stamp>,
    /// The changes of the rings that it made in the node; `None` before the recording has told.
    live: Option<(u64, u64)>,
    /// The changes of the rings that it made in the replay; `None` before it is a row.
    replayed: Option<(u64, u64)>,
    /// The stamp of the row before it.
    before: Option<Stamp>,
    measured: bool,
}

pub(super) struct Lateness {
    rows: BTreeMap<u64, MessageRows>,
    /// Their numbers, in the order in which they were noted.
    noted: VecDeque<(Stamp, u64)>,
    /// By input: stream, name and topic.
    inputs: Vec<(Option<StreamId>, String)>,
    streams: Vec<StreamRows>,
    period_ns: i64,
    now: Stamp,
}

struct StreamRows {
    name: String,
    lag_ns: i64,
    strategy: Strategy,
    /// From the newest target to the oldest \[ns\].
    history_ns: i64,
    max_age_ns: i64,
    max_gap_ns: i64,
    looks_ahead: bool,
    needs: LagNeeds,
    /// Ticks that differ for one of its rows.
    ticks: u64,
    latest_ns: Option<i64>,
}

impl StreamRows {
    fn new(spec: &StreamSpec) -> Self {
        let steps = i64::try_from(spec.history_steps).unwrap_or(i64::MAX).saturating_sub(1);
        let merged = spec.merge.iter().flat_map(|merge| &merge.max_age_ns);
        StreamRows {
            name: spec.name.clone(),
            lag_ns: spec.lag_ns,
            strategy: spec.strategy(),
            history_ns: spec.history_step_ns.saturating_mul(steps),
            max_age_ns: merged.copied().fold(spec.rule.max_age_ns, i64::max),
            max_gap_ns: spec.rule.max_gap_ns,
            looks_ahead: spec.looks_ahead(),
            needs: LagNeeds::new(spec.lag_ns),
            ticks: 0,
            latest_ns: None,
        }
    }

    /// The first target that needs a row.
    fn needed_from(&self, stamp: Stamp, before: Option<Stamp>) -> Stamp {
        let Some(before) = before else { return stamp };
        match self.strategy {
            Strategy::Hold => stamp,
            // A target in the middle takes the earlier row.
            Strategy::Nearest => before.offset(stamp.since(before) / 2 + 1),
            Strategy::Linear | Strategy::Slerp => before.offset(1),
        }
    }
}

impl Lateness {
    pub(super) fn new(config: &Config) -> Self {
        let input = |id: InputId| {
            let spec = config.input(id);
            (spec.stream, format!("{} {}", spec.name, spec.topic))
        };
        Lateness {
            rows: BTreeMap::new(),
            noted: VecDeque::new(),
            inputs: config.input_ids().map(input).collect(),
            streams: config.stream_ids().map(|id| StreamRows::new(config.stream(id))).collect(),
            period_ns: config.grid.period_ns(),
            now: Stamp::ZERO,
        }
    }

    /// The time of the log has come.
    pub(super) fn at(&mut self, now: Stamp) {
        self.now = now;
    }

    fn row(&mut self, number: u64) -> &mut MessageRows {
        let now = self.now;
        self.rows.entry(number).or_insert_with(|| {
            self.noted.push_back((now, number));
            MessageRows::default()
        })
    }

    /// The replay has a message.
    pub(super) fn came(&mut self, number: u64, input: InputId, arrival: Arrival) {
        let row = self.row(number);
        (row.input, row.arrival) = (Some(input), arrival.stamp);
    }

    /// The node made rows of a message.
    pub(super) fn taken(
        &mut self,
        number: u64,
        stamp: Option<Stamp>,
        changes: (u64, u64),
        ready: Option<Stamp>,
    ) {
        let row = self.row(number);
        (row.stamp, row.live, row.ready) = (stamp, Some(changes), ready);
        self.measure(number);
    }

    /// The replay made rows of a message.
    pub(super) fn made(&mut self, made: ReplayedRows, pipeline: &Pipeline) {
        let ReplayedRows { number, input, stamp, changes } = made;
        let stream = self.inputs.get(input.index()).and_then(|(stream, _)| *stream);
        let row = self.row(number);
        row.replayed = Some(changes);
        row.before = stream.zip(stamp).and_then(|(id, stamp)| pipeline.row_before(id, stamp));
        self.measure(number);
    }

    /// Notes which lag a row asks for.
    fn measure(&mut self, number: u64) {
        let Some(row) = self.rows.get_mut(&number).filter(|row| !row.measured) else { return };
        let MessageRows { input: Some(input), stamp: Some(stamp), arrival: Some(arrival), .. } =
            *row
        else {
            return;
        };
        let (Some(ready), Some(_)) = (row.ready, row.replayed) else { return };
        row.measured = true;
        let (Some(stream), name) = &self.inputs[input.index()] else { return };
        let stream = &mut self.streams[stream.index()];
        // A tick that is served late may see it before its arrival.
        let seen = arrival.offset(-self.period_ns).offset(-stream.history_ns);
        let gap = row.before.filter(|before| {
            stream.strategy.interpolates() && stamp.since(*before) > stream.max_gap_ns
        });
        let needed_from = stream.needed_from(stamp, row.before);
        let mut add = |used: Stamp, needed_from: Stamp| {
            let row = SlowRow {
                input: name.clone(),
                stamp_ns: stamp.nanos(),
                arrived_ns: arrival.since(stamp),
                ready_ns: ready.since(stamp),
                // A tick at the instant at which the row was there may not have seen it.
                needs_ns: ready.since(needed_from).saturating_add(1).max(0),
            };
            stream.needs.add(seen.since(used).saturating_sub(stream.max_age_ns), row);
        };
        match gap {
            // There is no value between the two rows. It takes the place of the row before, held.
            Some(before) => {
                add(before, before.offset(1));
                add(stamp, stamp);
            }
            None => add(stamp, needed_from),
        }
    }

    /// Forgets the rows that were noted before this time of the log.
    pub(super) fn forget_before(&mut self, before: Stamp) {
        while self.noted.front().is_some_and(|(noted, _)| *noted < before) {
            if let Some((_, number)) = self.noted.pop_front() {
                self.rows.remove(&number);
            }
        }
    }

    /// The rows that the replay saw at a tick and the node did not, and those that only the node saw, one of
    /// each input. The node saw the first number of changes, and the replay the second.
    pub(super) fn explain(
        &mut self,
        [live, replayed]: [u64; 2],
        tick: Stamp,
    ) -> (Vec<Late>, Vec<Late>) {
        let mut late = Vec::new();
        let mut early = Vec::new();
        for row in self.rows.values() {
            let (Some(input), Some((first, last))) = (row.input, row.live) else { continue };
            let is_in_replay = row.replayed.is_some_and(|(first, _)| first <= replayed);
            let place_of = if is_in_replay && last > live {
                &mut late
            } else if !is_in_replay && first <= live {
                &mut early
            } else {
                continue;
            };
            if let Some(found) = self.late(row, input, tick) {
                place_of.push(found);
            }
        }
        let late = worst(late);
        let early = worst(early);
        for stream in &mut self.streams {
            let of_stream = |rows: &[Late]| -> Option<i64> {
                let rows = rows.iter().filter(|row| row.stream == stream.name);
                rows.map(|row| row.ready_ns).max()
            };
            let latest_ns = of_stream(&late);
            stream.ticks += u64::from(latest_ns.or(of_stream(&early)).is_some());
            stream.latest_ns = stream.latest_ns.max(latest_ns);
        }
        (late, early)
    }

    /// A row that one side saw. `None` if no target of the tick needs it.
    fn late(&self, row: &MessageRows, input: InputId, tick: Stamp) -> Option<Late> {
        let (stream, input) = self.inputs.get(input.index())?;
        let stream = &self.streams[(*stream)?.index()];
        let ready = row.ready?;
        // The points of a plan have many stamps.
        let needed_from = row.stamp.map(|stamp| stream.needed_from(stamp, row.before));
        if needed_from.is_some_and(|from| tick.since(from) < stream.lag_ns) && !stream.looks_ahead {
            return None;
        }
        Some(Late {
            stream: stream.name.clone(),
            input: input.clone(),
            stamp_ns: row.stamp.map(Stamp::nanos),
            arrived_ns: row.arrival.map(|arrival| arrival.since(tick)),
            ready_ns: ready.since(tick),
        })
    }

    /// Lags of the streams: what each is, and what would have done.
    pub(super) fn streams(&self) -> Vec<StreamReport> {
        let report = |stream: &StreamRows| {
            let (most, too_old) = stream.needs.most();
            let most = most.filter(|_| !stream.looks_ahead);
            StreamReport {
                stream: stream.name.clone(),
                lag_ns: stream.lag_ns,
                lag_that_does_ns: most.map(|row| row.needs_ns),
                slowest: most.cloned(),
                too_old,
                ticks: stream.ticks,
                latest_ns: stream.latest_ns,
            }
        };
        self.streams.iter().map(report).collect()
    }
}

/// The latest row of each input.
fn worst(mut rows: Vec<Late>) -> Vec<Late> {
    rows.sort_by(|a, b| a.input.cmp(&b.input).then(b.ready_ns.cmp(&a.ready_ns)));
    rows.dedup_by(|a, b| a.input == b.input);
    rows
}
