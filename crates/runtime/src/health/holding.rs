//! Log lines about required streams that hold ticks back: when that begins, why, and when it ends.

use std::time::Duration;

use crate::Runtime;
use crate::measure::HoldingLine;
use robocache_core::spec::{InputId, StreamId};
use robocache_ops::sync::lock;

/// Logs the lines since the last call.
pub(crate) fn log(runtime: &Runtime) {
    let lines = lock(&runtime.ticks.holding).take();
    lines.for_each(|line| log_line(runtime, line));
}

fn log_line(runtime: &Runtime, line: HoldingLine) {
    match line {
        HoldingLine::Begins { stream, first } => tracing::warn!(
            "tick {first} is held back: stream '{}' is required and not valid ({}); no tensor is published until \
             it is",
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
    let spec = runtime.stream_spec(stream);
    let state = runtime.input(input);
    let topic = &runtime.input_spec(input).topic;
    let now = runtime.node_time.now();
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
