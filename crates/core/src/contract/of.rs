//! The contract of a configuration.
//!
//! What bears on a number of the tensor, or on its validity, is in it. A new key of a stream belongs here, or among the
//! keys that `tests/core/encoders` lists as accepted: a test fails until it is in one of both.

use serde_json::{Map, Value, json};

use super::{Contract, FORMAT, FORMAT_KEY, STREAMS, sorted};
use crate::sample::SampleKind;
use crate::schema::StampSource;
use crate::spec::{Config, DeskewSpec, InputSpec, StreamId, StreamSpec, still_frame};
use robocache_ops::align::{AlignRule, MergeSpec, ValidWhen};

/// Messages of this type hold compressed images.
const COMPRESSED: &str = "sensor_msgs/msg/CompressedImage";
/// Messages of this type hold plans.
const PLAN: &str = "trajectory_msgs/msg/JointTrajectory";

impl Contract {
    /// The contract of all streams of a configuration.
    pub fn of(config: &Config) -> Contract {
        let streams = config.stream_ids().map(|id| {
            let name = config.stream(id).name.clone();
            (name, Value::Object(of_stream(config, id)))
        });
        let all = [
            (FORMAT_KEY, json!(FORMAT)),
            ("rate_hz", json!(config.rate_hz)),
            ("base_frame", json!(config.base_frame)),
            (STREAMS, sorted(streams.collect())),
        ];
        let all = all.map(|(key, value)| (key.to_owned(), value));
        Self::of_map(all.into_iter().collect())
    }
}

/// The targets of the steps, and, if angles go on from step to step, the step whose angles stay.
pub(super) fn times(targets_ns: &[i64], present: Option<usize>) -> Vec<(String, Value)> {
    let mut all = vec![("targets_ns".to_owned(), json!(targets_ns))];
    all.extend(present.map(|present| ("present_step".to_owned(), json!(present))));
    all
}

/// True if a target is in the future.
pub(super) fn is_ahead(targets_ns: &[i64]) -> bool {
    targets_ns.iter().any(|target| *target > 0)
}

/// True if an input of a stream takes plans.
pub(super) fn is_plan(input: &Value) -> bool {
    input["type"] == PLAN
}

/// How values follow from rows. A gap counts only between rows.
pub(super) fn rules(rule: AlignRule) -> Vec<(String, Value)> {
    let AlignRule { strategy, max_age_ns, max_gap_ns, fill } = rule;
    let mut all = vec![
        ("strategy".to_owned(), json!(strategy.name())),
        ("max_age_ns".to_owned(), json!(max_age_ns)),
        ("fill".to_owned(), json!(fill.name())),
    ];
    all.extend(strategy.interpolates().then(|| ("max_gap_ns".to_owned(), json!(max_gap_ns))));
    all
}

/// Settings of a stream that bear on its numbers.
fn of_stream(config: &Config, id: StreamId) -> Map<String, Value> {
    let spec = config.stream(id);
    let encoder = &spec.encoder;
    let steps = spec.steps();
    let targets: Vec<i64> = (0..steps).map(|step| spec.target_offset_ns(step)).collect();
    let shape: Vec<usize> = [vec![steps], encoder.row_shape()].concat();
    let mut all = Map::new();
    let mut put = |key: &str, value: Value| all.insert(key.to_owned(), value);
    put("kind", json!(encoder.kind()));
    put("channels", json!(encoder.channels()));
    put("shape", json!(shape));
    put("dtype", json!(spec.dtype.name()));
    put("encoder", encoder.settings(spec.dtype));
    let inputs = config.inputs_of(id).map(|input| config.input(input)).enumerate();
    put("inputs", inputs.map(|(at, input)| of_input(input, spec, at)).collect());
    if let Some(merge) = &spec.merge {
        put("valid_when", of_merge(merge));
    }
    if spec.plans || is_ahead(&targets) {
        put("max_ahead_ns", json!(spec.max_ahead_ns));
    }
    let mut inputs = config.inputs_of(id).map(|input| config.input(input));
    if let (Some(tf), true) = (&config.tf, inputs.any(|of| of.asks_for_frames(&config.streams))) {
        put("transforms_max_gap_ns", json!(tf.limits.max_gap_ns));
    }
    all.extend(times(&targets, encoder.unwraps().then(|| spec.present_step())));
    all.extend(rules(spec.rule));
    all
}

/// Which inputs of a merged row are needed: their numbers, so that topics may have other names.
fn of_merge(merge: &MergeSpec) -> Value {
    match merge.valid_when {
        ValidWhen::All => json!("all"),
        ValidWhen::Any => json!("any"),
        ValidWhen::Listed(needed) => {
            let all = 0..merge.max_age_ns.len();
            json!(all.filter(|at| needed & 1 << at != 0).collect::<Vec<_>>())
        }
    }
}

/// Settings for what an input takes from its messages.
fn of_input(input: &InputSpec, stream: &StreamSpec, at: usize) -> Value {
    let mut all = vec![
        ("type", json!(input.ros_type)),
        ("timeline", json!(input.timeline.name())),
        ("stamp_offset_ns", json!(input.stamp_offset_ns)),
    ];
    if matches!(input.gives(), Some(SampleKind::Image | SampleKind::Depth)) {
        let codec = if input.ros_type == COMPRESSED { "JPEG or PNG" } else { "none" };
        all.push(("codec", json!(codec)));
    }
    if let Some(format) = input.encoding_8uc() {
        all.push(("encoding_8uc", json!(format.name())));
    }
    if input.gives() == Some(SampleKind::Points) && input.in_frame.is_none() {
        all.push(("t_base_sensor", json!(input.t_base_sensor)));
    }
    if let Some(reader) = input.selected() {
        let stamp = match (reader.stamp_path(), reader.stamp()) {
            (Some(path), _) => path,
            (None, StampSource::Header) => "header.stamp",
            (None, StampSource::Member | StampSource::None) => "arrival",
        };
        all.push(("stamp", json!(stamp)));
    }
    if let Some(in_frame) = &input.in_frame {
        all.push(("in_frame", json!(in_frame.frame)));
    }
    if let Some(deskew) = &input.deskew {
        all.push(("deskew", of_deskew(deskew)));
    }
    if let Some(max_age_ns) = stream.merge.as_ref().and_then(|merge| merge.max_age_ns.get(at)) {
        all.push(("max_age_ns", json!(max_age_ns)));
    }
    sorted(all.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

/// How a cloud is deskewed. The topic of a gyro may have another name.
fn of_deskew(deskew: &DeskewSpec) -> Value {
    let DeskewSpec { fixed_frame, gyro, time_field, unit_ns, absolute, span_ns } = deskew;
    let by_gyro = gyro.as_ref().is_some_and(|topic| *fixed_frame == still_frame(topic));
    json!({
        "by": if by_gyro { "the gyro" } else { fixed_frame },
        "time_field": time_field,
        "unit_ns": unit_ns,
        "absolute": absolute,
        "span_ns": span_ns,
    })
}
