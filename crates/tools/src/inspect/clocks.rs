//! The clocks of a recording: that of the recorder, and a simulator's.

use serde::Serialize;

use super::series::{Intervals, Series};
use robocache_ops::time::{NANOS_PER_S, Stamp};

/// Receive stamps that go back further than this were stamped by a clock that was set back. Less may be the
/// order in which threads wrote them \[ns\].
const SET_BACK_NS: i64 = NANOS_PER_S / 2;
/// A silence of all topics for longer than this is reported \[ns\].
const SILENCE_NS: i64 = NANOS_PER_S;
/// Most events that are kept.
const MOST_EVENTS: usize = 64;
/// Time in which the delays after a silence are collected \[ns\].
const SETTLE_NS: i64 = 2 * NANOS_PER_S;

/// A simulator's clock, by its messages.
#[derive(Clone, Debug, Default)]
pub(super) struct SimulatedClock {
    readings: Series,
    first: Option<(Stamp, Stamp)>,
    last: Option<(Stamp, Stamp)>,
    elapsed_ns: i64,
}

/// Report of inspect about a simulator's clock.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClockReport {
    /// The first reading \[ns\].
    pub first_ns: i64,
    /// The last reading \[ns\].
    pub last_ns: i64,
    /// The readings. Those that go back are resets.
    pub readings: Intervals,
    /// Simulated seconds per second of the recorder, without the steps back.
    pub speed: Option<f64>,
}

impl SimulatedClock {
    /// Takes a reading that was received at an instant.
    pub(super) fn take(&mut self, reading: Stamp, received: Stamp) {
        if let Some((last, _)) = self.last {
            self.elapsed_ns = self.elapsed_ns.saturating_add(reading.since(last).max(0));
        }
        self.readings.take(reading);
        self.first.get_or_insert((reading, received));
        self.last = Some((reading, received));
    }

    /// The newest reading.
    pub(super) fn now(&self) -> Option<Stamp> {
        self.last.map(|(reading, _)| reading)
    }

    /// Report about the clock; `None` without a reading.
    pub(super) fn report(&self) -> Option<ClockReport> {
        let ((first, began), (last, ended)) = self.first.zip(self.last)?;
        let received = ended.since(began);
        Some(ClockReport {
            first_ns: first.nanos(),
            last_ns: last.nanos(),
            readings: self.readings.finish(),
            speed: (received > 0).then(|| self.elapsed_ns as f64 / received as f64),
        })
    }
}

/// Something that happened to the recorder's clock, or to the recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ClockEvent {
    /// The clock was set back, by the receive stamps.
    SetBack {
        /// The stamp before \[ns\].
        at_ns: i64,
        /// How far \[ns\].
        by_ns: i64,
    },
    /// The clock was set ahead: the receive stamps jumped, and the delays of the topics with them.
    SetAhead {
        /// The stamp before \[ns\].
        at_ns: i64,
        /// How far \[ns\].
        by_ns: i64,
    },
    /// No topic had a message.
    Silence {
        /// The stamp before \[ns\].
        at_ns: i64,
        /// How long \[ns\].
        length_ns: i64,
    },
}

/// The recorder's clock, by the receive stamps in the order of writing.
#[derive(Clone, Debug)]
pub(super) struct RecorderClock {
    last: Option<Stamp>,
    events: Vec<ClockEvent>,
    more: u64,
    /// Stamps that go back a little.
    out_of_order: u64,
    furthest_back_ns: i64,
    /// The newest delay of each topic.
    delays: Vec<Option<i64>>,
    pending: Option<Pending>,
}

/// A jump ahead whose cause is still unknown.
#[derive(Clone, Debug)]
struct Pending {
    at: Stamp,
    by_ns: i64,
    /// The delays before it, and by how much they changed.
    before: Vec<Option<i64>>,
    changes: Vec<i64>,
}

/// Report of inspect about the recorder's clock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RecorderReport {
    /// The first of the events.
    pub events: Vec<ClockEvent>,
    /// How many more there are.
    pub more_events: u64,
    /// Messages that were written after one that was received up to half a second later.
    pub out_of_order: u64,
    /// How far such stamps go back at most \[ns\].
    pub furthest_back_ns: i64,
}

impl RecorderClock {
    /// For a bag of this many topics.
    pub(super) fn new(topics: usize) -> Self {
        RecorderClock {
            last: None,
            events: Vec::new(),
            more: 0,
            out_of_order: 0,
            furthest_back_ns: 0,
            delays: vec![None; topics],
            pending: None,
        }
    }

    /// Takes the receive stamp of the next message. `delay` is that minus the header's stamp, if that is of
    /// the same clock.
    pub(super) fn take(&mut self, topic: usize, received: Stamp, delay: Option<i64>) {
        let step = self.last.map_or(0, |last| received.since(last));
        let last = self.last.replace(received).unwrap_or(received);
        let at_ns = last.nanos();
        if step < -SET_BACK_NS {
            self.settle();
            self.add(ClockEvent::SetBack { at_ns, by_ns: step.saturating_neg() });
            self.delays.fill(None);
        } else if step < 0 {
            self.out_of_order += 1;
            self.furthest_back_ns = self.furthest_back_ns.max(-step);
            self.last = Some(last);
        } else if step > SILENCE_NS {
            self.settle();
            let none = vec![None; self.delays.len()];
            let before = std::mem::replace(&mut self.delays, none);
            self.pending = Some(Pending { at: last, by_ns: step, before, changes: Vec::new() });
        }
        let after = |pending: &Pending| received.since(pending.at) > pending.by_ns + SETTLE_NS;
        if self.pending.as_ref().is_some_and(after) {
            self.settle();
        }
        let Some(delay) = delay else { return };
        let is_first = self.delays[topic].replace(delay).is_none();
        if let Some(pending) = self.pending.as_mut().filter(|_| is_first)
            && let Some(before) = pending.before[topic]
        {
            pending.changes.push(delay.saturating_sub(before));
        }
    }

    /// Tells a silence from a clock that was set ahead: then the delays grow by as much.
    fn settle(&mut self) {
        let Some(Pending { at, by_ns, mut changes, .. }) = self.pending.take() else { return };
        changes.sort_unstable();
        let at_ns = at.nanos();
        let grown = changes.get(changes.len() / 2).copied().unwrap_or(0);
        self.add(match grown > by_ns / 2 {
            true => ClockEvent::SetAhead { at_ns, by_ns: grown },
            false => ClockEvent::Silence { at_ns, length_ns: by_ns },
        });
    }

    fn add(&mut self, event: ClockEvent) {
        match self.events.len() < MOST_EVENTS {
            true => self.events.push(event),
            false => self.more += 1,
        }
    }

    /// Ends the observation and reports about the clock.
    pub(super) fn finish(mut self) -> RecorderReport {
        self.settle();
        RecorderReport {
            events: self.events,
            more_events: self.more,
            out_of_order: self.out_of_order,
            furthest_back_ns: self.furthest_back_ns,
        }
    }
}

#[cfg(test)]
mod tests;
