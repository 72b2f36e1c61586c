//! One stream: what all types have in common, and which combinations are possible.

use super::check::{Check, Range, is_printable};
use super::raw::{RawHistory, RawQos, RawStream, Reliability, nearest, one_of};
use super::spec::*;
use super::{cloud, image, vector};
use crate::dtype::DType;
use crate::time::{NANOS_PER_MS, NANOS_PER_S};

/// Rows of a stream take less than this in memory \[bytes\], counted as 4-byte elements.
const MAX_RING_BYTES: usize = 1 << 32;
/// Most rows of a ring, however small they are.
const MAX_RING_ROWS: usize = 1 << 20;

const VECTORS: [VectorMessage; 6] = [
    VectorMessage::JointState,
    VectorMessage::Imu,
    VectorMessage::WrenchStamped,
    VectorMessage::PoseStamped,
    VectorMessage::TwistStamped,
    VectorMessage::Odometry,
];
pub(super) const IMAGE_TYPE: &str = "sensor_msgs/msg/Image";
pub(super) const CLOUD_TYPE: &str = "sensor_msgs/msg/PointCloud2";

/// What a stream takes from the top level of the file.
pub(super) struct Defaults {
    pub dtype: DType,
    pub lag_ns: i64,
    pub period_ns: i64,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Vector(VectorMessage),
    Image,
    Cloud,
}

impl Kind {
    fn ros_type(self) -> &'static str {
        match self {
            Kind::Vector(message) => message.ros_type(),
            Kind::Image => IMAGE_TYPE,
            Kind::Cloud => CLOUD_TYPE,
        }
    }

    fn is_vector(self) -> bool {
        matches!(self, Kind::Vector(_))
    }
}

/// Validates one stream.
pub(super) fn stream(
    check: &mut Check<'_>,
    name: String,
    mut raw: RawStream,
    defaults: &Defaults,
) -> Option<StreamSpec> {
    let key = format!("streams.{name}");
    let at = |rest: &str| format!("{key}.{rest}");
    let name = stream_name(check, &key, name);
    let kind = kind(check, &at("type"), raw.ros_type.as_deref());
    let topic = topic(check, &at("topic"), raw.topic.take());
    let strategy = kind.and_then(|kind| strategy(check, &key, &raw, kind));
    let times = times(check, &key, &raw, strategy);
    let qos = qos(check, &at("qos"), raw.qos.take().unwrap_or_default(), kind);
    let expected = expectations(check, &key, &mut raw);
    let rows = raw.ring_rows.unwrap_or(if kind.is_some_and(Kind::is_vector) { 1024 } else { 16 });
    let rows = check.integer(&at("ring_rows"), rows, 1, MAX_RING_ROWS);
    let dtype = raw.dtype.unwrap_or(defaults.dtype);
    let source = source(check, &key, &mut raw, kind?, dtype);
    let times = times?;
    let spec = StreamSpec {
        name: name?,
        topic: topic?,
        source: source?,
        strategy: strategy?,
        history_steps: times.history_steps,
        history_step_ns: times.history_step_ns,
        max_age_ns: times.max_age_ns,
        max_gap_ns: times.max_gap_ns,
        fill: raw.fill.unwrap_or_default(),
        required: raw.required.unwrap_or(false),
        stamp_offset_ns: times.stamp_offset_ns,
        dtype,
        ring_rows: rows?,
        qos: qos?,
        frame_id: expected.frame_id,
        expected_rate_hz: expected.rate_hz,
    };
    ring_fits(check, &at("ring_rows"), raw.ring_rows.is_some(), &spec, defaults).then_some(spec)
}

fn topic(check: &mut Check<'_>, key: &str, topic: Option<String>) -> Option<String> {
    let topic = check.required(key, topic, "a topic")?;
    check.topic(key, topic)
}

/// What the stream's messages are expected to be like.
struct Expectations {
    frame_id: Option<String>,
    rate_hz: Option<f64>,
}

/// The expectations that the file names and that can be met: nothing is computed with a value
/// whose check failed, and the stream's other problems are still found.
fn expectations(check: &mut Check<'_>, key: &str, raw: &mut RawStream) -> Expectations {
    let frame_id = raw.frame_id.take().and_then(|frame| {
        if is_printable(&frame) {
            return Some(frame);
        }
        let expected = "the frame_id that messages must carry, not empty";
        check.fail(&format!("{key}.frame_id"), expected);
        None
    });
    let rate_hz = raw.expected_rate_hz.and_then(|hz| {
        check.number(&format!("{key}.expected_rate_hz"), hz, Range::above(0.0, 1e5))
    });
    Expectations { frame_id, rate_hz }
}

fn stream_name(check: &mut Check<'_>, key: &str, name: String) -> Option<String> {
    let rest = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(rest) {
        return Some(name);
    }
    let expected = "a stream name of lower-case letters, digits and _, a letter first";
    check.fail_found(key, expected, format!("`{name}`"));
    None
}

fn kind(check: &mut Check<'_>, key: &str, ros_type: Option<&str>) -> Option<Kind> {
    let kinds: Vec<Kind> =
        VECTORS.map(Kind::Vector).into_iter().chain([Kind::Image, Kind::Cloud]).collect();
    let long = ros_type.map(|name| match name.split_once('/') {
        Some((package, rest)) if !rest.contains('/') => format!("{package}/msg/{rest}"),
        _ => name.to_owned(),
    });
    let kind = kinds.iter().find(|kind| long.as_deref() == Some(kind.ros_type()));
    if kind.is_none() {
        let names: Vec<_> = kinds.iter().map(|kind| kind.ros_type()).collect();
        let near = long.and_then(|long| nearest(&long, &names));
        check.fail(key, one_of(&names));
        if let Some(near) = near {
            check.hint(format!("did you mean `{near}`?"));
        }
    }
    kind.copied()
}

/// How a message becomes a row, from the keys of the stream's type; the keys of other types are
/// errors.
fn source(
    check: &mut Check<'_>,
    key: &str,
    raw: &mut RawStream,
    kind: Kind,
    dtype: DType,
) -> Option<Source> {
    let joints = kind == Kind::Vector(VectorMessage::JointState);
    let joint_type = VectorMessage::JointState.ros_type();
    for (name, present, fits, owner) in [
        ("fields", raw.fields.is_some(), kind.is_vector(), "types that become a vector"),
        ("joints", raw.joints.is_some(), joints, joint_type),
        ("angular", raw.angular.is_some(), joints, joint_type),
        ("image", raw.image.is_some(), kind == Kind::Image, IMAGE_TYPE),
        ("cloud", raw.cloud.is_some(), kind == Kind::Cloud, CLOUD_TYPE),
    ] {
        if present && !fits {
            let own = kind.ros_type();
            let expected = format!("no such key on a {own} stream (it is for {owner})");
            check.fail(&format!("{key}.{name}"), expected);
        }
    }
    match kind {
        Kind::Vector(message) => {
            let (fields, joints) = (raw.fields.take(), raw.joints.take());
            vector::vector(check, key, message, fields, joints, raw.angular.take())
                .map(Source::Vector)
        }
        Kind::Image => image::image(check, key, raw.image.take(), dtype).map(Source::Image),
        Kind::Cloud => cloud::cloud(check, key, raw.cloud.take()).map(Source::Cloud),
    }
}

fn strategy(check: &mut Check<'_>, key: &str, raw: &RawStream, kind: Kind) -> Option<Strategy> {
    let turns = match kind {
        Kind::Vector(message) => vector::has_orientation(message, raw.fields.as_deref()),
        _ => false,
    };
    let default = match (kind.is_vector(), turns) {
        (true, true) => Strategy::Slerp,
        (true, false) => Strategy::Linear,
        (false, _) => Strategy::Hold,
    };
    let strategy = raw.strategy.unwrap_or(default);
    let expected = match strategy {
        _ if strategy.interpolates() && !kind.is_vector() => {
            "hold or nearest: rows of images and clouds cannot be interpolated"
        }
        Strategy::Linear if turns => {
            "slerp, hold or nearest: an orientation is not a straight line, use slerp"
        }
        Strategy::Slerp if !turns => "linear, hold or nearest: slerp needs the field orientation",
        _ => {
            let joints = kind == Kind::Vector(VectorMessage::JointState);
            if joints && raw.angular.is_some() && strategy != Strategy::Linear {
                let expected = "no such key unless the strategy is linear";
                check.fail(&format!("{key}.angular"), expected);
            }
            return Some(strategy);
        }
    };
    check.fail(&format!("{key}.strategy"), expected);
    None
}

/// The times of a stream.
struct Times {
    history_steps: usize,
    history_step_ns: i64,
    max_age_ns: i64,
    max_gap_ns: i64,
    stamp_offset_ns: i64,
}

fn times(
    check: &mut Check<'_>,
    key: &str,
    raw: &RawStream,
    strategy: Option<Strategy>,
) -> Option<Times> {
    let at = |rest: &str| format!("{key}.{rest}");
    let history = history(check, &at("history"), raw.history.as_ref());
    let max_age_ns = check
        .required(&at("max_age_ms"), raw.max_age_ms, "the age up to which a value is valid")
        .and_then(|ms| check.nanos(&at("max_age_ms"), ms, Range::POSITIVE_MS));
    let max_gap_ns = match raw.max_gap_ms {
        None => max_age_ns.map(|age| 2 * age),
        Some(_) if strategy.is_some_and(|strategy| !strategy.interpolates()) => {
            let expected = "no such key unless the strategy is linear or slerp";
            check.fail(&at("max_gap_ms"), expected);
            None
        }
        Some(ms) => check.nanos(&at("max_gap_ms"), ms, Range::POSITIVE_MS),
    };
    let offset_ms = raw.stamp_offset_ms.unwrap_or(0.0);
    let stamp_offset_ns = check.nanos(&at("stamp_offset_ms"), offset_ms, Range::ANY_MS);
    let (history_steps, history_step_ns) = history?;
    Some(Times {
        history_steps,
        history_step_ns,
        max_age_ns: max_age_ns?,
        max_gap_ns: max_gap_ns?,
        stamp_offset_ns: stamp_offset_ns?,
    })
}

/// Number of steps, and nanoseconds between them.
fn history(check: &mut Check<'_>, key: &str, raw: Option<&RawHistory>) -> Option<(usize, i64)> {
    let Some(raw) = raw else { return Some((1, 0)) };
    let steps = check.integer(&format!("{key}.steps"), raw.steps.unwrap_or(1), 1, 1024);
    let key = format!("{key}.step_ms");
    let step_ns = match raw.step_ms {
        Some(ms) => check.nanos(&key, ms, Range::POSITIVE_MS),
        None if steps.is_some_and(|steps| steps > 1) => {
            check.fail(&key, "the time between steps, since there is more than one");
            None
        }
        None => Some(0),
    };
    Some((steps?, step_ns?))
}

fn qos(check: &mut Check<'_>, key: &str, raw: RawQos, kind: Option<Kind>) -> Option<Qos> {
    let default = if kind.is_some_and(Kind::is_vector) { 256 } else { 8 };
    let depth = check.integer(&format!("{key}.depth"), raw.depth.unwrap_or(default), 1, 10_000)?;
    Some(Qos { reliable: matches!(raw.reliability, Some(Reliability::Reliable)), depth })
}

/// Whether the ring, of a size that was `given` or is the default, can serve the stream.
fn ring_fits(
    check: &mut Check<'_>,
    key: &str,
    given: bool,
    spec: &StreamSpec,
    defaults: &Defaults,
) -> bool {
    let Some(expected) = ring_violation(spec, defaults) else { return true };
    match given {
        true => check.fail(key, expected),
        false => check.fail_found(key, expected, format!("the default of {}", spec.ring_rows)),
    }
    false
}

/// What is expected of the ring instead: at least the rows that interpolation and the oldest
/// target need, at most those that fit in memory.
fn ring_violation(spec: &StreamSpec, defaults: &Defaults) -> Option<String> {
    // One slot more than the ring has rows: the next message is encoded there.
    let fitting = (MAX_RING_BYTES - 1) / (4 * spec.source.row_len()) - 1;
    if spec.ring_rows > fitting {
        return Some(format!("at most {fitting} rows (less than 4 GiB)"));
    }
    if spec.strategy.interpolates() && spec.ring_rows < 2 {
        return Some("at least 2 rows, to interpolate between".into());
    }
    let hz = spec.expected_rate_hz?;
    let reach_ns = defaults.lag_ns + (spec.history_steps as i64 - 1) * spec.history_step_ns;
    // A tick may be served up to one period late; two rows bracket its oldest target.
    let span_s = (reach_ns + defaults.period_ns) as f64 / NANOS_PER_S as f64;
    let needed = (span_s * hz).ceil() as usize + 2;
    (spec.ring_rows < needed).then(|| {
        let reach_ms = reach_ns as f64 / NANOS_PER_MS as f64;
        format!(
            "at least {needed} rows, to reach back over lag and history ({reach_ms} ms) at {hz} Hz"
        )
    })
}
