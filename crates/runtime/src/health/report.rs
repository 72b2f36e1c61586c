//! The monitor's report: the state of each part, in words and numbers.

use std::sync::atomic::Ordering;

use super::assess::{self, InputWindow, Level, SimClockSeen, TickWindow};
use super::loops::LoopWindow;
use super::totals::{InputTotals, TickTotals};
use crate::{RecorderStatus, Runtime};
use robocache_core::backend::{Encodes, GpuUse, Processor};
use robocache_core::histogram::{Quantiles, Windows};
use robocache_core::pipeline::InputStats;
use robocache_core::rejected::DropReason;
use robocache_core::spec::{InputId, StreamId};
use robocache_ops::align::{InvalidReason, NO_AGE};
use robocache_ops::sync::lock;
use robocache_ops::time::Stamp;

/// In place of a count that the middleware does not tell.
const NOT_COUNTED: &str = "not counted";

/// The state of all parts at the end of a window.
#[derive(Clone, Debug)]
pub struct Report {
    /// When the report was made, on the runtime's clock; `None` before the clock runs.
    pub stamp: Option<Stamp>,
    /// The ticks, then the streams, each with its inputs, then other loops and the recording.
    pub parts: Vec<Status>,
}

/// The state of one part.
#[derive(Clone, Debug)]
pub struct Status {
    /// The part's name.
    pub part: String,
    /// The part's level.
    pub level: Level,
    /// The part's state in words.
    pub message: String,
    /// The part's numbers, by key.
    pub values: Values,
}

/// Values by key, in the order in which people read them.
pub(super) type Values = Vec<(String, String)>;

/// A stream's part of a status.
pub(super) struct StreamPart {
    pub id: StreamId,
    pub valid_share: Option<f64>,
    /// Share of the ticks whose newest value was held because no newer row had come.
    pub held_share: Option<f64>,
    /// The shortest lag that would do \[ms\].
    pub suggested_lag_ms: Option<f64>,
}

/// An input's part of a status.
pub(super) struct InputPart<'a> {
    pub id: InputId,
    /// The full name of its topic.
    pub topic: &'a str,
    pub window: &'a InputWindow,
    pub totals: &'a InputTotals,
}

/// Returns the state of the recording.
pub(super) fn recording(status: &RecorderStatus) -> Status {
    let RecorderStatus { folder, messages, bytes, deleted, lost, lost_events, .. } = status;
    let (level, message) = match (&status.failed, lost, lost_events) {
        (Some(why), ..) => (Level::Warn, format!("the recording has ended: {why}")),
        (None, ..) if folder.as_os_str().is_empty() => {
            (Level::Ok, "no episode is being recorded".to_owned())
        }
        (None, 0, 0) => match status.full_in_s {
            None => (Level::Ok, "recording".to_owned()),
            Some(seconds) => {
                let full = format!("the disk is full in about {} minutes", seconds.div_ceil(60));
                (Level::Warn, format!("recording; {full}, then the recording ends"))
            }
        },
        (None, ..) => {
            let missing = format!("{lost} messages and {lost_events} events are missing");
            (Level::Warn, format!("recording; the disk is too slow, so {missing}"))
        }
    };
    let values = vec![
        pair("folder", folder.display()),
        pair("messages", messages),
        pair("bytes", bytes),
        pair("deleted", deleted),
        pair("lost", lost),
        pair("lost_events", lost_events),
    ];
    Status { part: "recording".to_owned(), level, message, values }
}

/// Returns the state of a loop about which nothing else is known. `name` is that of its thread.
pub(super) fn of_loop(name: &str, window: &LoopWindow, sim_clock: Option<SimClockSeen>) -> Status {
    let (level, message) = assess::assess_loop(window, sim_clock);
    let mut values = vec![pair("served", window.served), pair("overruns", window.total_overruns)];
    values.extend(latency_values("woken_latency", window.woken));
    values.push(pair("realtime_priority", window.priority));
    // No stream has a space in its name.
    Status { part: format!("loop {name}"), level, message, values }
}

/// Returns the numbers of the ticks.
pub(super) fn tick_values(
    runtime: &Runtime,
    window: &TickWindow,
    totals: &TickTotals,
    Windows { window: latency, total, .. }: Windows,
    fused: Quantiles,
) -> Values {
    let ticks = &runtime.ticks;
    let mut values = vec![
        pair("backend", runtime.pipeline.backend_name()),
        pair("gpu", gpu(runtime)),
        pair("rate_hz", runtime.pipeline.config().rate_hz),
        pair("published_hz", format!("{:.2}", window.published_hz())),
        pair("published", totals.published),
        pair("unread", totals.unread),
        pair("held_back", totals.held_back),
        pair("overruns", window.grid.total_overruns),
        pair("clock_jumps", totals.clock_jumps),
        pair("unsent", totals.unsent),
        pair("publish_failed", totals.publish_failed),
    ];
    for (name, quantiles) in [
        ("latency", latency),
        ("total_latency", total),
        ("fused_latency", fused),
        ("woken_latency", window.grid.woken),
    ] {
        values.extend(latency_values(name, quantiles));
    }
    values.push(pair("share_failed", ticks.share_failed.get()));
    values.push(pair("shared_readers", ticks.shared_readers.load(Ordering::Relaxed)));
    values.push(pair("realtime_priority", window.grid.priority));
    values.push(pair("tick", ticks.newest.load(Ordering::Relaxed)));
    values
}

/// Returns the quantiles of a latency under its name.
pub(super) fn latency_values(name: &str, of: Quantiles) -> [(String, String); 3] {
    let Quantiles { p50_ns, p99_ns, max_ns, .. } = of;
    let quantiles = [("p50", p50_ns), ("p99", p99_ns), ("max", max_ns)];
    quantiles.map(|(of, ns)| pair(&format!("{name}_{of}_ms"), milliseconds(ns)))
}

/// Returns the numbers of a stream, of an input, or of both if the stream has only this input.
pub(super) fn values(
    runtime: &Runtime,
    stream: Option<&StreamPart>,
    input: Option<&InputPart<'_>>,
) -> Values {
    let mut values = Values::new();
    if let Some(input) = input {
        values.push(pair("topic", input.topic));
        values.push(pair("type", &runtime.input_spec(input.id).ros_type));
        values.push(pair("rate_hz", format!("{:.2}", input.window.rate.hz)));
    }
    if let Some(stream) = stream {
        let share = |share: Option<f64>| share.map_or(String::new(), |share| format!("{share:.4}"));
        values.extend([
            pair("age_ms", age_ms(runtime, stream.id)),
            pair("valid_share", share(stream.valid_share)),
            pair("held_share", share(stream.held_share)),
        ]);
        let stats = runtime.stream_stats(stream.id);
        for reason in InvalidReason::ALL {
            values.push(pair(&format!("invalid.{}", reason.name()), stats.invalid(reason)));
        }
        values.push(pair("lag_ms", runtime.stream_spec(stream.id).lag_ns as f64 / 1e6));
        // Without a measured delay there is nothing to suggest.
        values.extend(stream.suggested_lag_ms.map(|lag_ms| pair("suggested_lag_ms", lag_ms)));
    }
    if let Some(input) = input {
        values.extend(delays(input.window));
        values.push(pair("received", input.totals.received));
    }
    if let Some(stream) = stream {
        values.push(pair("rows", runtime.stream_stats(stream.id).rows.get()));
    }
    if let Some(encodes) = stream.and_then(|stream| runtime.pipeline.encodes(stream.id)) {
        values.extend(encode_values(&encodes));
    }
    if let Some(input) = input {
        let stats = runtime.input_stats(input.id);
        values.push(pair("accepted", stats.accepted.get()));
        values.push(pair("dropped", stats.dropped_total()));
        for reason in DropReason::ALL {
            values.push(pair(&format!("dropped.{}", reason.name()), stats.dropped(reason)));
        }
        values.push(pair("last_drop", input.window.last_drop.as_deref().unwrap_or_default()));
        values.extend(frames(runtime, input.id));
        values.push(pair("parts_dropped", stats.parts_dropped_total()));
        // Only an input of groups has them, so a reason appears when it has occurred.
        let occurred = |reason: &DropReason| stats.parts_dropped(*reason) > 0;
        for reason in DropReason::ALL.into_iter().filter(occurred) {
            let key = format!("parts_dropped.{}", reason.name());
            values.push(pair(&key, stats.parts_dropped(reason)));
        }
        values.push(pair("groups_incomplete", stats.groups_incomplete.get()));
    }
    if let Some(stream) = stream {
        let stats = runtime.stream_stats(stream.id);
        values.push(pair("reordered", stats.reordered.get()));
        values.push(pair("replaced", stats.replaced.get()));
        if runtime.stream_spec(stream.id).merge.is_some() {
            values.push(pair("rows_remade", stats.remade.get()));
        }
    }
    if let Some(input) = input {
        let lost = input.totals.lost;
        let queue_full = input.totals.queue_full;
        values.push(pair("queue_full", counted(lost.map(|_| queue_full))));
        values.push(pair("lost", counted(lost)));
        values.push(pair("missing", input.totals.missing));
        values.push(pair("take_failed", input.totals.take_failed));
        let state = runtime.input(input.id);
        values.push(pair("resubscribed", state.resubscribed.get()));
        values.push(pair("qos", state.asks.get()));
        values.push(pair("adapted", state.adapted.get()));
        values.push(pair("repeated", state.repeated.get()));
        let incompatible = state.incompatible.load(Ordering::Relaxed);
        values.push(pair("publishers_incompatible", incompatible));
    }
    if let Some(stream) = stream {
        let stats = runtime.stream_stats(stream.id);
        values.push(pair("points_non_finite", stats.points_non_finite.get()));
        values.push(pair("points_out_of_range", stats.points_out_of_range.get()));
        values.push(pair("points_outside", stats.points_outside.get()));
        values.push(pair("points_out_of_reach", stats.points_out_of_reach.get()));
        values.push(pair("points_cropped", stats.points_cropped.get()));
        values.push(pair("points_on_robot", stats.points_on_robot.get()));
        values.push(pair("points_too_few", stats.points_too_few.get()));
        values.push(pair("voxels_beyond_capacity", stats.voxels_beyond_capacity.get()));
    }
    if let Some(input) = input {
        let seen = lock(&runtime.input(input.id).publishers).as_ref().map_or(0, Vec::len);
        values.push(pair("publishers", seen));
    }
    values
}

/// A count in words; `None` if nobody counts, which is not zero.
fn counted(count: Option<u64>) -> String {
    count.map_or_else(|| NOT_COUNTED.to_owned(), |count| count.to_string())
}

/// The numbers of an input that has to do with frames: how many messages wait for a transform, or what
/// the tree of frames holds.
fn frames(runtime: &Runtime, input: InputId) -> Values {
    let spec = runtime.input_spec(input);
    if spec.asks_for_frames(&runtime.pipeline.config().streams) {
        return vec![pair("waiting", runtime.waiting(input))];
    }
    match (spec.feeds_tree(), runtime.pipeline.tree()) {
        (true, Some(tree)) => {
            vec![
                pair("frames", tree.frames),
                pair("frames_forgotten", tree.forgotten.count),
                pair("conflicts", tree.conflicts),
            ]
        }
        _ => Values::new(),
    }
}

/// Returns the delays of an input: nothing before the first, and if the arrival is the stamp.
fn delays(window: &InputWindow) -> Values {
    let mut values = Values::new();
    let mut add = |name: &str, of: Quantiles| {
        let numbers = [("p50", of.p50_ns), ("p99", of.p99_ns), ("max", of.max_ns)];
        values.extend(numbers.map(|(quantile, nanos)| {
            let value = if of.count > 0 { milliseconds(nanos) } else { String::new() };
            pair(&format!("{name}_{quantile}_ms"), value)
        }));
    };
    if window.delay.total.count > 0 {
        add("delay", window.delay.window);
        add("total_delay", window.delay.total);
    }
    if window.ready.total.count > 0 {
        add("ready", window.ready.window);
        add("total_ready", window.ready.total);
    }
    values
}

/// Returns the sums of received, accepted and dropped messages over several inputs.
pub(super) fn sums(runtime: &Runtime, inputs: &[InputId]) -> Values {
    let sum = |count: fn(&InputStats) -> u64| -> u64 {
        inputs.iter().map(|input| count(runtime.input_stats(*input))).sum()
    };
    vec![
        pair("received", sum(|stats| stats.received.get())),
        pair("accepted", sum(|stats| stats.accepted.get())),
        pair("dropped", sum(InputStats::dropped_total)),
    ]
}

/// The use of a GPU, in words.
fn gpu(runtime: &Runtime) -> String {
    match runtime.pipeline.gpu() {
        GpuUse::None => "none".to_owned(),
        GpuUse::InUse => "in use".to_owned(),
        GpuUse::Left { reason } => format!("left: {reason}"),
    }
}

/// The numbers of a stream that either processor may encode.
fn encode_values(encodes: &Encodes) -> Values {
    let latency = |ns: Option<u64>| ns.map_or(String::new(), |ns| milliseconds(ns as i64));
    let encoder = match encodes.in_use {
        Processor::Cpu => "cpu",
        Processor::Gpu => "gpu",
    };
    vec![
        pair("encoder", encoder),
        pair("encode_cpu_ms", latency(encodes.cpu_ns)),
        pair("encode_gpu_ms", latency(encodes.gpu_ns)),
        pair("encoded_by_cpu", encodes.by_cpu),
        pair("encoded_by_gpu", encodes.by_gpu),
        pair("takeovers", encodes.takeovers),
    ]
}

fn age_ms(runtime: &Runtime, stream: StreamId) -> String {
    match runtime.stream(stream).age_ns.load(Ordering::Relaxed) {
        NO_AGE => String::new(),
        age => format!("{:.3}", age as f64 / 1e6),
    }
}

pub(super) fn pair(key: &str, value: impl ToString) -> (String, String) {
    (key.to_owned(), value.to_string())
}

/// Formats nanoseconds as milliseconds.
pub(super) fn milliseconds(nanos: i64) -> String {
    format!("{:.3}", nanos as f64 / 1e6)
}
