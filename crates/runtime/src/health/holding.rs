//! Log lines about required streams that hold ticks back: when that begins, and when it ends.
//!
//! The tick thread only notes it. A thread that reports to people logs the lines.

use std::time::Duration;

use super::pace::Pace;
use crate::Runtime;
use robocache_core::spec::{InputId, StreamId};
use robocache_ops::sync::lock;

/// Most lines that wait for the thread that logs them. It looks several times a second, and [`Pace`] allows one a second.
const LINES: usize = 8;

/// What the log says of ticks that are held back.
#[derive(Debug, Default)]
pub(crate) struct Holding {
    /// The stream that holds ticks back by the last line; `None` if none does.
    said: Option<StreamId>,
    /// Ticks held back since the line that it began.
    ticks: u64,
    /// The state of the newest tick.
    state: HoldingState,
    pace: Pace,
    /// The lines to log, the oldest first.
    lines: [Option<HoldingLine>; LINES],
}

/// A row of ticks that one stream holds back, or that are published.
#[derive(Clone, Copy, Debug, Default)]
struct HoldingState {
    /// The stream; `None` if no stream holds them back.
    by: Option<StreamId>,
    /// The first tick.
    first: i64,
    /// How many of them are held back.
    held_back: u64,
}

/// What to log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HoldingLine {
    /// A stream begins to hold ticks back.
    Begins {
        /// The stream.
        stream: StreamId,
        /// The first tick that it holds back.
        first: i64,
    },
    /// No stream holds ticks back any more.
    Ends {
        /// The stream that did.
        stream: StreamId,
        /// The first tick that is published.
        first: i64,
        /// How many ticks it held back, or others meanwhile.
        ticks: u64,
    },
}

impl Holding {
    /// Notes a tick that `by` holds back; that is published, if it is `None`. If that changes with each tick, some lines
    /// are left out; the last one is always true. This allocates nothing.
    pub(crate) fn note(&mut self, now: Duration, tick: i64, by: Option<StreamId>) {
        let is_new = by != self.state.by;
        if is_new {
            self.state = HoldingState { by, first: tick, held_back: 0 };
        }
        self.state.held_back += u64::from(by.is_some());
        self.ticks += u64::from(by.is_some());
        let may_log = |pace: &mut Pace| match is_new {
            true => pace.asks(now),
            false => pace.asks_again(now),
        };
        if by != self.said && may_log(&mut self.pace) {
            self.say();
        }
    }

    /// Adds the line about the present state.
    fn say(&mut self) {
        let HoldingState { by, first, held_back } = self.state;
        let line = match (self.said, by) {
            (before, Some(stream)) => {
                if before.is_some() {
                    // Another stream begins its own count.
                    self.ticks = held_back;
                }
                HoldingLine::Begins { stream, first }
            }
            (Some(stream), None) => {
                HoldingLine::Ends { stream, first, ticks: std::mem::take(&mut self.ticks) }
            }
            (None, None) => return,
        };
        self.said = by;
        let free = self.lines.iter().position(Option::is_none).unwrap_or_else(|| {
            // Nobody logs them. The newest ones tell how it is now.
            self.lines.rotate_left(1);
            LINES - 1
        });
        self.lines[free] = Some(line);
    }

    /// How many lines wait.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.lines.iter().flatten().count()
    }

    /// Takes the lines to log, the oldest first.
    fn take(&mut self) -> impl Iterator<Item = HoldingLine> + use<> {
        std::mem::take(&mut self.lines).into_iter().flatten()
    }
}

/// Logs the lines since the last call.
pub(crate) fn log(runtime: &Runtime) {
    let lines = lock(&runtime.ticks.holding).take();
    lines.for_each(|line| line.log(runtime));
}

impl HoldingLine {
    fn log(self, runtime: &Runtime) {
        match self {
            HoldingLine::Begins { stream, first } => tracing::warn!(
                "tick {first} is held back: stream '{}' is required and not valid ({}); no tensor is \
                 published until it is",
                runtime.stream_spec(stream).name,
                why_not_valid(runtime, stream).unwrap_or_else(|| topics(runtime, stream)),
            ),
            HoldingLine::Ends { stream, first, ticks } => tracing::info!(
                "tensors are published again from tick {first} on, after {ticks} ticks that were held back: stream \
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

/// Says what is wrong with an input; `None` if its newest message was taken a short time ago.
fn trouble(runtime: &Runtime, stream: StreamId, input: InputId) -> Option<String> {
    let (spec, state) = (runtime.stream_spec(stream), runtime.input(input));
    let (topic, now) = (&runtime.input_spec(input).topic, runtime.node_time.now());
    if let Some(words) = runtime.left_out(input) {
        return Some(format!("{topic}: {words}"));
    }
    let (ever, silence) = lock(&state.arrivals).silence(now);
    if !ever {
        return Some(format!("no message on {topic} yet"));
    }
    let patience_ns = spec.rule.max_age_ns.saturating_add(spec.lag_ns);
    if silence > Duration::from_nanos(patience_ns.unsigned_abs()) {
        let seconds = silence.as_secs_f64();
        return Some(format!("nothing has come on {topic} for {seconds:.2} s"));
    }
    let drops = lock(&state.drop_details);
    // The newest message is a dropped one.
    let dropped = drops.last_at().is_some_and(|at| now.saturating_sub(at) <= silence);
    let words = drops.last().filter(|_| dropped)?;
    Some(format!("messages on {topic} are dropped, {words}"))
}

#[cfg(test)]
mod tests;
