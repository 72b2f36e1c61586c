//! Log lines about required streams that hold ticks back: when that begins, and when it ends.

use std::time::Duration;

use super::pace::Pace;
use crate::Runtime;
use robocache_core::spec::{InputId, StreamId};

/// What the log says of ticks that are held back.
#[derive(Debug, Default)]
pub(crate) struct Holding {
    /// The stream that holds ticks back by the last line; `None` if none does.
    said: Option<StreamId>,
    /// Ticks held back since the line that it began.
    ticks: u64,
    pace: Pace,
}

/// What to log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HoldingLine {
    /// A stream begins to hold ticks back.
    Begins(StreamId),
    /// No stream holds ticks back any more.
    Ends {
        /// The stream that did.
        stream: StreamId,
        /// How many ticks it held back, or others meanwhile.
        ticks: u64,
    },
}

impl Holding {
    /// Notes a tick that `by` holds back; that is published, if it is `None`. Returns what to log. If that changes with
    /// each tick, some lines are left out; the last one is always true.
    pub(crate) fn note(&mut self, now: Duration, by: Option<StreamId>) -> Option<HoldingLine> {
        let said = self.said;
        if by == said || !self.pace.asks(now) {
            self.ticks += u64::from(by.is_some());
            return None;
        }
        self.said = by;
        let ticks = std::mem::take(&mut self.ticks);
        match (said, by) {
            (before, Some(stream)) => {
                // Another stream begins its own count.
                self.ticks = 1 + if before.is_none() { ticks } else { 0 };
                Some(HoldingLine::Begins(stream))
            }
            (Some(stream), None) => Some(HoldingLine::Ends { stream, ticks }),
            (None, None) => None,
        }
    }
}

impl HoldingLine {
    /// Logs the line about `tick`.
    pub(crate) fn log(self, runtime: &Runtime, tick: i64) {
        match self {
            HoldingLine::Begins(stream) => tracing::warn!(
                "tick {tick} is held back: stream '{}' is required and not valid ({}); no tensor is \
                 published until it is",
                runtime.stream_spec(stream).name,
                why_not_valid(runtime, stream).unwrap_or_else(|| topics(runtime, stream)),
            ),
            HoldingLine::Ends { stream, ticks } => tracing::info!(
                "tensors are published again from tick {tick} on, after {ticks} ticks that were held back: stream \
                 '{}' is valid",
                runtime.stream_spec(stream).name,
            ),
        }
    }
}

/// Says which inputs of a stream keep it from being valid; `None` if none is known.
pub(crate) fn why_not_valid(runtime: &Runtime, stream: StreamId) -> Option<String> {
    let of = |input| trouble(runtime, stream, input);
    let troubles: Vec<String> = runtime.inputs_of(Some(stream)).filter_map(of).collect();
    (!troubles.is_empty()).then(|| troubles.join("; "))
}

/// The topics of a stream.
fn topics(runtime: &Runtime, stream: StreamId) -> String {
    let topic = |input| runtime.input_spec(input).topic.as_str();
    runtime.inputs_of(Some(stream)).map(topic).collect::<Vec<_>>().join(", ")
}

/// Says what is wrong with an input; `None` if its newest message was taken a short time ago. It waits for no lock,
/// because the thread of the ticks asks.
fn trouble(runtime: &Runtime, stream: StreamId, input: InputId) -> Option<String> {
    let (spec, state) = (runtime.stream_spec(stream), runtime.input(input));
    let (topic, now) = (&runtime.input_spec(input).topic, runtime.node_time.now());
    if let Some(words) = runtime.left_out(input) {
        return Some(format!("{topic}: {words}"));
    }
    let (ever, silence) = state.arrivals.try_lock().ok()?.silence(now);
    if !ever {
        return Some(format!("no message on {topic} yet"));
    }
    let patience_ns = spec.rule.max_age_ns.saturating_add(spec.lag_ns);
    if silence > Duration::from_nanos(patience_ns.unsigned_abs()) {
        let seconds = silence.as_secs_f64();
        return Some(format!("nothing has come on {topic} for {seconds:.2} s"));
    }
    let drops = state.drop_details.try_lock().ok()?;
    // The newest message is a dropped one.
    let dropped = drops.last_at().is_some_and(|at| now.saturating_sub(at) <= silence);
    let words = drops.last().filter(|_| dropped)?;
    Some(format!("messages on {topic} are dropped, {words}"))
}

#[cfg(test)]
mod tests;
