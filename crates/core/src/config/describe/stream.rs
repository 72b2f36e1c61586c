//! A stream and its inputs, in the JSON report.

use serde::{Serialize, Serializer};

use crate::encoder::EncoderSpec;
use crate::sample::SampleKind;
use crate::spec::{Config, Durability, InputSpec, Reliability, StreamId, Timeline};
use robocache_ops::align::{Fill, Strategy};
use robocache_ops::align::{MergeSpec, ValidWhen};
use robocache_ops::dtype::DType;

/// One stream, with all defaults, so that a program needs no defaults of its own.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StreamReport {
    /// Name of the stream and its segment.
    pub name: String,
    /// `kind`: the encoder, such as `image`; and `encoder`: its settings.
    #[serde(flatten)]
    pub encoder: EncoderSpec,
    /// The fields of the message, in the order of the row; empty if the stream is no vector.
    pub fields: Vec<String>,
    /// The joints, in the order of the row; empty if messages have none. A row has the first field
    /// of all joints, then the next field.
    pub joints: Vec<String>,
    /// How a value at a target time follows from the rows around it.
    pub strategy: Strategy,
    /// Distance of the present target from its tick \[ns\].
    pub lag_ns: i64,
    /// Number of target times: those of the history and of the horizon, which share the present one.
    pub steps: usize,
    /// Distance of neighbouring target times of the history \[ns\].
    pub step_ns: i64,
    /// Number of target times from the present one on.
    pub horizon_steps: usize,
    /// Distance of neighbouring target times of the horizon \[ns\].
    pub horizon_step_ns: i64,
    /// How far ahead of the clock a row may be when it arrives \[ns\].
    pub max_ahead_ns: i64,
    /// Greatest distance between a target and a row used alone \[ns\].
    pub max_age_ns: i64,
    /// Greatest distance between the two rows of an interpolation \[ns\].
    pub max_gap_ns: i64,
    /// Content of an invalid step.
    pub fill: Fill,
    /// True if a tick is held back while any step of this stream is invalid.
    pub required: bool,
    /// Element type of the segment.
    pub dtype: DType,
    /// Rows that each of its rings holds.
    pub ring_rows: usize,
    /// The largest image or cloud that is taken.
    #[serde(flatten)]
    pub limits: LimitsReport,
    /// The most memory of the clouds that merged rows are made of \[bytes\].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept_bytes: Option<usize>,
    /// The topics whose clouds a row must hold for a step to be valid; `any`: one of them suffices. Only
    /// if clouds of the inputs are merged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub valid_when: Option<NeededReport>,
    /// The inputs of the stream.
    pub inputs: Vec<InputReport>,
    /// The input of the camera whose images are undistorted; only if they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub camera_info: Option<InputReport>,
}

/// The keys that bound a message, and their values. A report has the last word of each key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitsReport(Vec<(&'static str, usize)>);

impl Serialize for LimitsReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let word = |key: &'static str| key.rsplit('.').next().unwrap_or(key);
        serializer.collect_map(self.0.iter().map(|(key, value)| (word(key), value)))
    }
}

/// Which inputs must have a cloud in a row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum NeededReport {
    /// `any`.
    Word(&'static str),
    /// The inputs of these topics.
    Topics(Vec<String>),
}

impl NeededReport {
    fn new<'a>(merge: &MergeSpec, topics: impl Iterator<Item = &'a str>) -> Self {
        let needed = match merge.valid_when {
            ValidWhen::Any => return NeededReport::Word("any"),
            ValidWhen::All => u32::MAX,
            ValidWhen::Listed(needed) => needed,
        };
        let topics = topics.enumerate().filter(|(at, _)| needed & 1 << at != 0);
        NeededReport::Topics(topics.map(|(_, topic)| topic.to_owned()).collect())
    }
}

/// One input of a stream.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct InputReport {
    /// The stream's name. If the stream has several inputs, the input's number follows.
    pub name: String,
    /// Topic, before remapping.
    pub topic: String,
    /// ROS type of the messages.
    #[serde(rename = "type")]
    pub ros_type: String,
    /// Reliability that the subscription asks for.
    pub reliability: Reliability,
    /// Durability that the subscription asks for: if messages of the time before it come too.
    pub durability: Durability,
    /// Number of messages that the subscription's queue holds.
    pub depth: usize,
    /// Which stamp of a message counts.
    pub timeline: Timeline,
    /// Offset that is added to every stamp on arrival \[ns\].
    pub stamp_offset_ns: i64,
    /// The `header.frame_id` that messages must have; `None`: any.
    pub frame_id: Option<String>,
    /// Takes a point of the sensor's frame to the base frame, `[R | t]` row by row \[m\]; only if the
    /// messages are points, and the configuration has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub t_base_sensor: Option<[[f64; 4]; 3]>,
    /// The frame that samples are taken to by the tree of frames.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_frame: Option<String>,
    /// Greatest age of a cloud in a merged row, at its stamp and at a target \[ns\].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_age_ns: Option<i64>,
    /// Rate at which messages are expected to arrive \[Hz\].
    pub expected_rate_hz: Option<f64>,
}

impl StreamReport {
    pub(super) fn new(config: &Config, id: StreamId) -> StreamReport {
        let spec = config.stream(id);
        let inputs = || config.inputs_of(id).map(|input| config.input(input));
        // Inputs that select take numbers of their own, and inputs may have joints of their own. These names may
        // begin with the topic. All others take the same fields.
        let first = inputs().next();
        let (fields, joints) = match (joints(inputs()), spec.encoder.as_vector()) {
            (Some(joints), _) => joints,
            (None, Some(vector)) if first.is_some_and(InputSpec::selects) => {
                let names = vector.channels.iter().map(|channel| channel.name.clone());
                (names.collect(), Vec::new())
            }
            _ => (first.map_or(Vec::new(), |input| input.fields().to_vec()), Vec::new()),
        };
        StreamReport {
            name: spec.name.clone(),
            encoder: spec.encoder.clone(),
            fields,
            joints,
            strategy: spec.rule.strategy,
            lag_ns: spec.lag_ns,
            steps: spec.steps(),
            step_ns: spec.history_step_ns,
            horizon_steps: spec.horizon_steps,
            horizon_step_ns: spec.horizon_step_ns,
            max_ahead_ns: spec.max_ahead_ns,
            max_age_ns: spec.rule.max_age_ns,
            max_gap_ns: spec.rule.max_gap_ns,
            fill: spec.rule.fill,
            required: spec.required,
            dtype: spec.dtype,
            ring_rows: spec.ring_rows,
            limits: LimitsReport(spec.encoder.limits(spec.bounds)),
            kept_bytes: spec.kept_bytes(),
            valid_when: spec
                .merge
                .as_ref()
                .map(|merge| NeededReport::new(merge, inputs().map(|input| input.topic.as_str()))),
            inputs: inputs()
                .enumerate()
                .map(|(at, input)| {
                    let merge = spec.merge.as_ref();
                    InputReport::new(input, merge.map(|merge| merge.max_age_ns[at]))
                })
                .collect(),
            camera_info: config.camera_of(id).map(|camera| InputReport::new(camera, None)),
        }
    }
}

/// Returns the fields and the joints that the inputs of a stream take, if it is one of joints. If each input has joints
/// of its own, their names begin with the topic.
pub(super) fn joints<'a>(
    inputs: impl Iterator<Item = &'a InputSpec>,
) -> Option<(Vec<String>, Vec<String>)> {
    let inputs: Vec<&InputSpec> = inputs.collect();
    let of = |input: &'a InputSpec| Some((input.fields(), input.joint_groups()?));
    let first = *inputs.first()?;
    let (fields, groups) = of(first)?;
    if inputs.iter().all(|input| input.feeds == first.feeds) {
        return Some((fields.to_vec(), groups.concat()));
    }
    let named = |input: &&'a InputSpec| {
        let joints = of(input).into_iter().flat_map(|(_, groups)| groups.iter().flatten());
        let name = |joint: &String| format!("{}:{joint}", input.topic);
        joints.map(name).collect::<Vec<_>>()
    };
    Some((fields.to_vec(), inputs.iter().flat_map(named).collect()))
}

impl InputReport {
    fn new(input: &InputSpec, max_age_ns: Option<i64>) -> InputReport {
        let points = input.gives() == Some(SampleKind::Points);
        InputReport {
            name: input.name.clone(),
            topic: input.topic.clone(),
            ros_type: input.ros_type.clone(),
            reliability: input.qos.reliability,
            durability: input.qos.durability,
            depth: input.qos.depth,
            timeline: input.timeline,
            stamp_offset_ns: input.stamp_offset_ns,
            frame_id: input.frame_id.clone(),
            t_base_sensor: (points && input.in_frame.is_none()).then_some(input.t_base_sensor),
            in_frame: input.in_frame.as_ref().map(|in_frame| in_frame.frame.clone()),
            max_age_ns,
            expected_rate_hz: input.expected_rate_hz,
        }
    }
}
