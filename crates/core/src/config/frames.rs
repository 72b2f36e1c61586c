//! The tree of frames: the key `tf`, and the streams that ask for a frame.

use super::check::{Check, Range};
use super::raw::RawTf;
use super::select::SelectedInput;
use super::words::one_of;
use crate::input::{Content, Field, IMU, Member, ODOMETRY, TF_MESSAGE};
use crate::spec::{
    Durability, InFrame, InputSpec, Qos, Reliability, Selection, StreamSpec, TfSpec,
};
use crate::tf::Limits;
use crate::tf::{FramedPart, Quantity};
use robocache_ops::resample::Lane;
use robocache_ops::time::NANOS_PER_MS;

/// The longest wait that is no setting \[ns\]. A robot publishes its tree at 20 Hz or more, and odometry likewise.
const WAIT_NS: i64 = 200 * NANOS_PER_MS;
/// A second without a transform is a publisher that stands still.
const MAX_GAP_MS: f64 = 1000.0;
/// A humanoid has about 100.
const MAX_FRAMES: i64 = 1024;
/// Ten seconds at 200 Hz.
const MAX_ROWS: i64 = 2048;
/// The queues that tf2 has for the moving transforms, and room for as many publishers of fixed ones.
const DEPTH: [usize; 2] = [100, 1000];
/// Most streams of odometry.
const MAX_ODOMETRY: usize = 16;

/// The tree of frames as the file has it.
pub(super) struct Tf {
    /// The wait that is written; `None` if it follows from the lags.
    wait_ns: Option<i64>,
    limits: Limits,
    odometry: Vec<String>,
}

/// Validates the key `tf`.
pub(super) fn tf(check: &mut Check<'_>, raw: Option<RawTf>) -> Option<Tf> {
    let raw = raw.unwrap_or_default();
    // A message that waits holds its memory.
    let range = Range::from(0.0, 10_000.0);
    let wait_ns = match raw.wait_ms {
        Some(wait_ms) => check.nanos("tf.wait_ms", wait_ms, range).map(Some),
        None => Some(None),
    };
    let max_gap_ms = raw.max_gap_ms.unwrap_or(MAX_GAP_MS);
    let max_gap_ns = check.nanos("tf.max_gap_ms", max_gap_ms, Range::POSITIVE_MS);
    let frames = raw.max_frames.unwrap_or(MAX_FRAMES);
    let frames = check.integer("tf.max_frames", frames, 2, 1 << 16);
    let rows = raw.max_rows.unwrap_or(MAX_ROWS);
    let rows = check.integer("tf.max_rows", rows, 2, 1 << 20);
    let given = raw.odometry.unwrap_or_default();
    if given.len() > MAX_ODOMETRY {
        let expected = format!("at most {MAX_ODOMETRY} topics");
        check.fail_found("tf.odometry", expected, given.len().to_string());
        return None;
    }
    let mut odometry = Vec::with_capacity(given.len());
    for (i, topic) in given.into_iter().enumerate() {
        let key = format!("tf.odometry[{i}]");
        let topic = check.topic(&key, topic)?;
        if let Some(first) = odometry.iter().position(|other| *other == topic) {
            check.fail(&key, format!("each topic only once (first at [{first}])"));
        }
        odometry.push(topic);
    }
    let limits = Limits { frames: frames?, rows: rows?, max_gap_ns: max_gap_ns? };
    Some(Tf { wait_ns: wait_ns?, limits, odometry })
}

impl Tf {
    /// The tree for these inputs and streams, and the inputs that it is read from; nothing if none asks
    /// for a frame. Warns if a wait is written that is longer than a lag.
    pub(super) fn of(
        self,
        check: &mut Check<'_>,
        inputs: &[InputSpec],
        streams: &[StreamSpec],
    ) -> (Option<TfSpec>, Vec<InputSpec>) {
        if !inputs.iter().any(|input| input.asks_for_frames(streams)) {
            return (None, Vec::new());
        }
        let spec = TfSpec { wait_ns: self.wait(check, inputs, streams), limits: self.limits };
        let transforms = |name: String, topic: &str, ros_type: &str, fixed: bool| {
            let qos = Qos {
                reliability: Reliability::Auto,
                // Fixed transforms are published once.
                durability: if fixed { Durability::TransientLocal } else { Durability::Auto },
                depth: DEPTH[usize::from(fixed)],
            };
            let selection = Selection::Transforms { fixed };
            InputSpec::without_rows(name, topic.to_owned(), ros_type, selection, qos)
        };
        let tree = [("tf", "/tf", false), ("tf_static", "/tf_static", true)]
            .map(|(name, topic, fixed)| transforms(name.into(), topic, TF_MESSAGE, fixed));
        let odometry = self
            .odometry
            .iter()
            .enumerate()
            .map(|(i, topic)| transforms(format!("tf.odometry[{i}]"), topic, ODOMETRY, false));
        let mut gyros: Vec<&str> = Vec::new();
        for topic in inputs.iter().filter_map(|input| input.deskew.as_ref()?.gyro.as_deref()) {
            if !gyros.contains(&topic) {
                gyros.push(topic);
            }
        }
        let gyros = gyros.iter().enumerate();
        let gyros =
            gyros.map(|(i, topic)| transforms(format!("deskew.gyro[{i}]"), topic, IMU, false));
        (Some(spec), tree.into_iter().chain(odometry).chain(gyros).collect())
    }
}

impl Tf {
    /// How long a message waits for its transform \[ns\]. If the file does not say it, it is the shortest lag of the
    /// streams that wait, at most [`WAIT_NS`]: a row that waited longer comes after the tick that needed it. A lag of 0
    /// does not count, because without a wait each message would be dropped whose transform comes after it.
    fn wait(&self, check: &mut Check<'_>, inputs: &[InputSpec], streams: &[StreamSpec]) -> i64 {
        let waits = |at: usize| {
            let of = |input: &&InputSpec| input.stream.is_some_and(|stream| stream.index() == at);
            inputs.iter().filter(of).any(|input| input.asks_for_frames(streams))
        };
        let waiting = streams.iter().enumerate().filter(|(at, stream)| {
            // What is ahead of its tick is never too late for it.
            !stream.looks_ahead() && waits(*at)
        });
        let waiting: Vec<&StreamSpec> = waiting.map(|(_, stream)| stream).collect();
        let Some(wait_ns) = self.wait_ns else {
            let lags = waiting.iter().map(|stream| stream.lag_ns).filter(|lag_ns| *lag_ns > 0);
            return lags.fold(WAIT_NS, i64::min);
        };
        let shortest = waiting.iter().min_by_key(|stream| stream.lag_ns);
        if let Some(stream) = shortest.filter(|stream| stream.lag_ns < wait_ns) {
            let ms = |ns: i64| ns as f64 / NANOS_PER_MS as f64;
            let expected =
                format!("at most {} ms, the lag of streams.{}", ms(stream.lag_ns), stream.name);
            let why = "a message that waits so long for its transform comes after its tick";
            check.advise("tf.wait_ms", expected, format!("{} ms; {why}", ms(wait_ns)));
        }
        wait_ns
    }
}

/// Types whose numbers are in a frame, so that `in_frame` takes them to another one.
pub static FRAMED: &[&str] = &[
    "geometry_msgs/msg/PoseStamped",
    "geometry_msgs/msg/PoseWithCovarianceStamped",
    "geometry_msgs/msg/TwistStamped",
    "geometry_msgs/msg/WrenchStamped",
    "nav_msgs/msg/Odometry",
    "sensor_msgs/msg/Imu",
    "sensor_msgs/msg/MagneticField",
];

/// Validates the key `in_frame` of the stream at `key`, which takes `fields` of its messages. `None` if
/// it is not given, or wrong, which is reported.
pub(super) fn in_frame(
    check: &mut Check<'_>,
    key: &str,
    given: Option<String>,
    message: &str,
    content: Content,
    fields: Option<&[String]>,
) -> Option<InFrame> {
    let key = format!("{key}.in_frame");
    let frame = given?;
    // One that is inherited is for the streams whose numbers are in a frame.
    let framed = FRAMED.contains(&message);
    if !framed && check.is_inherited(&key) {
        return None;
    }
    let frame = check.frame_id(&key, frame)?;
    let (Content::Fields(members), true) = (content, framed) else {
        let framed = one_of(FRAMED);
        check.fail(&key, format!("no such key: it is for {framed}; or any type, with `select`"));
        return None;
    };
    let parts = parts(members, fields);
    if message == "sensor_msgs/msg/Imu"
        && parts.iter().any(|part| part.quantity == Quantity::Orientation)
    {
        let expected = "no such key unless `fields` leaves orientation out: the message does not say \
                        which frame an orientation is in";
        check.fail(&key, expected);
        return None;
    }
    Some(InFrame { frame, parts })
}

/// Validates the key `in_frame` at `key`, for what an input selects.
pub(super) fn in_frame_selected(
    check: &mut Check<'_>,
    key: &str,
    given: Option<String>,
    SelectedInput { key: select, ros_type, plan }: &SelectedInput,
) -> Option<InFrame> {
    let frame = given?;
    let framed = plan.framed();
    let foreign = !plan.has_header() || framed.is_err_and(|wrong| !wrong.any);
    if foreign && check.is_inherited(key) {
        return None;
    }
    let frame = check.frame_id(key, frame);
    if !plan.has_header() {
        let expected = format!("no such key: {ros_type} has no header, so it says no frame");
        check.fail(key, expected);
        return None;
    }
    match framed {
        Ok(parts) => Some(InFrame { frame: frame?, parts: parts.to_vec() }),
        Err(wrong) => {
            check.fail(&format!("{select}[{}]", wrong.path), wrong.expected.clone());
            None
        }
    }
}

/// Quantities of the numbers in a row of `fields`.
fn parts(members: &[Member], fields: Option<&[String]>) -> Vec<FramedPart> {
    let child = members.iter().position(|member| *member == Member::ChildFrame);
    let place = |field: &Field| members.iter().position(|m| m.field() == Some(field));
    // Of an odometry, the pose is in the header's frame and the twist in the child's.
    let of_child = |field: &Field| child.is_some() && !is_pose(field) && place(field) > child;
    let all: Vec<&Field> = members.iter().filter_map(Member::field).collect();
    let chosen: Vec<&Field> = match fields {
        None => all,
        Some(names) => {
            let of_name = |name: &String| all.iter().copied().find(|field| field.name == name);
            names.iter().filter_map(of_name).collect()
        }
    };
    let mut at = 0;
    let part = |field: &Field| {
        let quantity = match field.lane {
            Lane::Quaternion => Quantity::Orientation,
            _ if is_pose(field) => Quantity::Point,
            _ => Quantity::Direction,
        };
        let part = FramedPart { at, quantity, of_child: of_child(field) };
        at += field.components.len();
        part
    };
    chosen.into_iter().map(part).collect()
}

fn is_pose(field: &Field) -> bool {
    matches!(field.name, "position" | "orientation")
}
