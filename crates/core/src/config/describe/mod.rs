//! The report of `robocache check`: the streams and the tensor of a configuration.

mod commands;
mod recording;
pub mod shared_memory;
mod stream;
mod text;

use serde::Serialize;

pub use commands::{CommandOutputReport, CommandsReport, GroupReport};
pub use recording::RecordingReport;
pub use shared_memory::SharedMemory;
pub use stream::{InputReport, StreamReport};

use crate::contract::Contract;
use crate::layout::{Holds, Layout, Segment};
use crate::schema::Prefixes;
use crate::spec::{Config, InputId, InputSpec, StreamId};
use robocache_ops::align::MergeSpec;
use robocache_ops::align::Strategy;
use robocache_ops::time::{NANOS_PER_MS, NANOS_PER_S};
use robocache_ops::voxelize;

/// The packages of `interfaces/`: `scripts/setup.sh` builds them if the ROS lacks them.
const BUILT_BY_SETUP: [&str; 2] = ["control_msgs", "tf2_msgs"];

/// A configuration with all defaults, and its tensor. Its text is a table for people. Its
/// serialized form has everything, so that a program needs no defaults of its own.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Rate of the ticks \[Hz\].
    pub rate_hz: f64,
    /// Nanoseconds between ticks.
    pub period_ns: i64,
    /// Frame of the tensor.
    pub base_frame: String,
    /// Topic of the tensor, before remapping.
    pub output_topic: String,
    /// The streams, with every default filled in.
    pub streams: Vec<StreamReport>,
    /// One per stream, of a sparse one two; in packed order.
    pub segments: Vec<SegmentReport>,
    /// Bytes of one tick's tensor.
    pub bytes_per_tick: usize,
    /// Bytes of all tensors in one second.
    pub bytes_per_second: f64,
    /// Memory of all rings \[bytes\].
    pub ring_bytes: usize,
    /// GPU memory for the largest messages, if a GPU encodes \[bytes\]. Rows are not included.
    pub gpu_bytes: usize,
    /// Pinned memory for the same \[bytes\].
    pub pinned_bytes: usize,
    /// Contents of a recording of the node.
    pub recording: RecordingReport,
    /// Shared memory that Fast DDS needs, in this node and in the publishers of its inputs.
    pub shared_memory: SharedMemory,
    /// Contract of the tensors: what a policy relies on that is trained on them.
    pub contract: serde_json::Value,
    /// The digest of the contract.
    pub contract_digest: String,
    /// How chunks of actions become commands, if they do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commands: Option<CommandsReport>,
    /// Warnings: settings that are possible but probably not meant; one sentence each.
    pub warnings: Vec<String>,
}

/// One segment of the tensor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SegmentReport {
    /// Name of the segment: that of its stream, or of a part of a sparse one.
    pub name: String,
    /// ROS types of the messages, by input.
    pub types: Vec<String>,
    /// Topics of its inputs, before remapping.
    pub topics: Vec<String>,
    /// `header` or `receive`, by input.
    pub timelines: Vec<&'static str>,
    /// `hold`, `nearest`, `linear` or `slerp`.
    pub strategy: &'static str,
    /// Shape of the segment; the first dimension is that of the steps.
    pub shape: Vec<usize>,
    /// Element type.
    pub dtype: &'static str,
    /// Start in the packed tensor \[bytes\].
    pub byte_offset: usize,
    /// Length in the packed tensor \[bytes\].
    pub byte_len: usize,
    /// Rows that each ring holds.
    pub ring_rows: usize,
    /// Memory of the rows and the spare slots, with 4 bytes per element \[bytes\].
    pub ring_bytes: usize,
    /// GPU memory for its largest message, if a GPU encodes \[bytes\]; at most this.
    pub gpu_bytes: usize,
    /// Pinned memory for the same \[bytes\].
    pub pinned_bytes: usize,
    /// Target times relative to the tick \[ns\], oldest first.
    pub targets_ns: Vec<i64>,
    /// How many of them are of the horizon: from the present one on.
    pub horizon_steps: usize,
    /// Contents of a row, in words; the JSON has them in the encoder of the stream.
    #[serde(skip)]
    pub contents: String,
}

impl Report {
    /// Makes the report of `config`. `installed` are the packages of ROS; if it is empty, missing packages are not
    /// reported.
    pub fn new(config: &Config, installed: &Prefixes) -> Report {
        let layout = Layout::new(config);
        let segment = |segment: &Segment| SegmentReport::new(config, segment);
        let segments: Vec<_> = layout.segments().iter().map(segment).collect();
        let contract = Contract::of_node(config);
        Report {
            rate_hz: config.rate_hz,
            period_ns: config.grid.period_ns(),
            base_frame: config.base_frame.clone(),
            output_topic: config.output_topic.clone(),
            streams: config.stream_ids().map(|id| StreamReport::new(config, id)).collect(),
            bytes_per_tick: layout.byte_len(),
            bytes_per_second: layout.byte_len() as f64 * config.rate_hz,
            ring_bytes: segments.iter().map(|segment| segment.ring_bytes).sum(),
            gpu_bytes: segments.iter().map(|segment| segment.gpu_bytes).sum(),
            pinned_bytes: segments.iter().map(|segment| segment.pinned_bytes).sum(),
            segments,
            warnings: config
                .stream_ids()
                .flat_map(|id| {
                    let of_times = short_lag(config, id).into_iter().chain(short_limit(config, id));
                    of_times.chain(one_place(config, id))
                })
                .chain(missing_packages(config, installed))
                .chain(config.source.advice.iter().cloned())
                .chain(config.source.without_effect.iter().cloned())
                .collect(),
            recording: RecordingReport::new(config),
            shared_memory: SharedMemory::new(config),
            contract: contract.value(),
            contract_digest: contract.digest(),
            commands: config.commands.as_ref().map(|of| CommandsReport::new(config, of)),
        }
    }
}

/// Returns a warning for each package of messages that the node will not find. The node ends at its start
/// then, but the configuration may be for another machine.
fn missing_packages(config: &Config, installed: &Prefixes) -> Vec<String> {
    let inputs = config.inputs.iter().map(|input| (input.ros_type.as_str(), &*input.topic));
    let groups = config.commands.iter().flat_map(|commands| &commands.groups);
    let outputs = groups.map(|group| (group.output.ros_type, &*group.output.topic));
    let mut missing: Vec<(&str, Vec<&str>)> = Vec::new();
    for (ros_type, topic) in inputs.chain(outputs) {
        let package = ros_type.split('/').next().unwrap_or_default();
        if installed.is_empty() || installed.have(package) {
            continue;
        }
        match missing.iter_mut().find(|(known, _)| *known == package) {
            Some((_, topics)) => topics.push(topic),
            None => missing.push((package, vec![topic])),
        }
    }
    let warning = |(package, topics): &(&str, Vec<&str>)| {
        // No wheel has these, so the set-up builds them.
        let or = match BUILT_BY_SETUP.contains(package) {
            true => {
                ", source the workspace that holds it, or run `scripts/setup.sh` and `. .ros/env.sh`"
            }
            false => " or source the workspace that holds it",
        };
        format!(
            "no package {package} in AMENT_PREFIX_PATH, and the node needs it for {}; install \
             ros-$ROS_DISTRO-{}{or}",
            topics.join(", "),
            package.replace('_', "-")
        )
    };
    missing.iter().map(warning).collect()
}

/// Returns a warning if the lag of a stream is shorter than one interval of its messages, and the
/// strategy uses the message after a target. At the newest target that message has not come yet.
fn short_lag(config: &Config, id: StreamId) -> Option<String> {
    let spec = config.stream(id);
    if spec.strategy() == Strategy::Hold || spec.looks_ahead() {
        return None;
    }
    // The slowest input, because each may fill a group of its own.
    let rates = config.inputs_of(id).filter_map(|input| config.input(input).expected_rate_hz);
    let hz = rates.reduce(f64::min)?;
    let lag_ms = spec.lag_ns as f64 / NANOS_PER_MS as f64;
    let interval_ms = 1e3 / hz;
    (spec.lag_ns < (NANOS_PER_S as f64 / hz).floor() as i64).then(|| {
        let name = &spec.name;
        let strategy = spec.strategy().name();
        format!(
            "streams.{name}.lag_ms: {strategy} expects a lag of at least {interval_ms} ms, one \
             interval at {hz} Hz, found {lag_ms} ms; the newest target can only be held"
        )
    })
}

/// Returns a warning if values of a stream must be invalid at times, also if no message is late: its
/// messages are further apart than its limit.
fn short_limit(config: &Config, id: StreamId) -> Option<String> {
    let spec = config.stream(id);
    // A plan has points of its own.
    if spec.plans {
        return None;
    }
    if let Some(merge) = &spec.merge {
        return short_limit_of_clouds(config, id, merge);
    }
    let rates = config.inputs_of(id).filter_map(|input| config.input(input).expected_rate_hz);
    let hz = rates.reduce(f64::min)?;
    let interval_ns = NANOS_PER_S as f64 / hz;
    let (key, limit_ns, least_ns, words) = match spec.strategy() {
        Strategy::Linear | Strategy::Slerp => {
            ("max_gap_ms", spec.rule.max_gap_ns, interval_ns, "one interval")
        }
        Strategy::Hold => ("max_age_ms", spec.rule.max_age_ns, interval_ns, "one interval"),
        Strategy::Nearest => {
            ("max_age_ms", spec.rule.max_age_ns, interval_ns / 2.0, "half an interval")
        }
    };
    (limit_ns < least_ns.floor() as i64).then(|| {
        let name = &spec.name;
        let found_ms = limit_ns as f64 / NANOS_PER_MS as f64;
        let least_ms = (least_ns / 1e3).ceil() / 1e3;
        format!(
            "streams.{name}.{key}: expected at least {least_ms} ms, {words} at {hz} Hz, found \
             {found_ms} ms; values are invalid between two messages"
        )
    })
}

/// Returns a warning if the clouds of an input are further apart than its limit, in a stream that merges clouds.
fn short_limit_of_clouds(config: &Config, id: StreamId, merge: &MergeSpec) -> Option<String> {
    let spec = config.stream(id);
    let mut limits = config.inputs_of(id).zip(&merge.max_age_ns).enumerate();
    limits.find_map(|(at, (input, limit_ns))| {
        let hz = config.input(input).expected_rate_hz?;
        let interval_ns = NANOS_PER_S as f64 / hz;
        (*limit_ns < interval_ns.floor() as i64).then(|| {
            let found_ms = *limit_ns as f64 / NANOS_PER_MS as f64;
            let least_ms = (interval_ns / 1e3).ceil() / 1e3;
            format!(
                "streams.{}.inputs[{at}].max_age_ms: expected at least {least_ms} ms, one \
                     interval at {hz} Hz, found {found_ms} ms; rows lack its clouds at times",
                spec.name
            )
        })
    })
}

/// Returns a warning for each `t_base_sensor` that several inputs of a stream share, for example by inheritance.
/// Several sensors are rarely at one pose. Without a `t_base_sensor`, the points are taken as they are, so they may be
/// in the base frame already.
fn one_place(config: &Config, id: StreamId) -> Vec<String> {
    let spec = config.stream(id);
    if spec.merge.is_none() {
        return Vec::new();
    }
    let placed = config
        .inputs_of(id)
        .map(|input| config.input(input))
        .filter(|input| input.in_frame.is_none() && input.t_base_sensor != voxelize::IDENTITY);
    let placed: Vec<_> = placed.collect();
    let warning = |(at, input): (usize, &&InputSpec)| {
        let is_same = |other: &&&InputSpec| other.t_base_sensor == input.t_base_sensor;
        if placed[..at].iter().any(|other| is_same(&other)) {
            return None; // the first one names them all
        }
        let same: Vec<_> = placed.iter().filter(is_same).map(|input| &*input.topic).collect();
        (same.len() > 1).then(|| {
            format!(
                "streams.{}.t_base_sensor: expected one for each sensor, found the same one for {}; \
                 give each input its own, or `t_base_sensor: tf`",
                spec.name,
                same.join(" and ")
            )
        })
    };
    placed.iter().enumerate().filter_map(warning).collect()
}

impl SegmentReport {
    fn new(config: &Config, segment: &Segment) -> SegmentReport {
        let spec = config.stream(segment.stream);
        let inputs: Vec<InputId> = config.inputs_of(segment.stream).collect();
        let topics = inputs.iter().map(|input| config.input(*input).topic.clone()).collect();
        let timelines = inputs.iter().map(|input| config.input(*input).timeline.name()).collect();
        let types = inputs.iter().map(|input| config.input(*input).ros_type.clone()).collect();
        // Both segments of a sparse stream are of one message.
        let [gpu_bytes, pinned_bytes] = match segment.holds {
            Holds::Rows | Holds::Features => {
                let rows = spec.of_rows();
                rows.encoder.message_bytes(rows.dtype, rows.bounds)
            }
            Holds::Coordinates => [0, 0],
        };
        SegmentReport {
            name: segment.name.clone(),
            types,
            topics,
            timelines,
            strategy: spec.strategy().name(),
            shape: segment.shape.clone(),
            dtype: segment.dtype.name(),
            byte_offset: segment.byte_offset,
            byte_len: segment.byte_len,
            ring_rows: spec.ring_rows,
            ring_bytes: spec.ring_slots() * segment.step_len * size_of::<f32>(),
            gpu_bytes,
            pinned_bytes,
            targets_ns: (0..spec.steps()).map(|step| spec.target_offset_ns(step)).collect(),
            horizon_steps: spec.horizon_steps,
            contents: text::contents(config, segment),
        }
    }
}
