//! The configuration as it is written: types, but no ranges, defaults or combinations yet.

use super::check::Check;
use super::commands::RawCommands;
use super::defaults::{self, Kind};
use super::image::RawImage;
use super::keys;
use super::mapping::{AllKeys, Mapping, mapping, read_words};
use super::node::Node;
use super::occupancy::RawOccupancy;
use super::read::{InOrder, Named, Read, check_keys};
use crate::spec::{Durability, Reliability, Timeline};
use robocache_ops::align::{Fill, Strategy};
use robocache_ops::dtype::DType;

mapping! { RawConfig {
    rate_hz: f64,
    lag_ms: f64,
    timeline: Timeline,
    base_frame: String,
    output: RawOutput,
    tf: RawTf,
    _defaults ("defaults"): RawDefaults,
    streams: InOrder<RawStream>,
    commands: RawCommands,
} }

mapping! { RawTf {
    wait_ms: f64,
    max_gap_ms: f64,
    max_frames: i64,
    max_rows: i64,
    odometry: Vec<String>,
} }

mapping! { RawOutput {
    topic: String,
    dtype: DType,
} }

/// The defaults by kind. The streams have them already; they are read for what is wrong in them.
#[derive(Default)]
pub(super) struct RawDefaults;

mapping! { RawStream listed by usual_keys {
    ros_type ("type"): String,
    topic: String,
    inputs: Vec<RawInput>,
    valid_when: RawValidWhen,
    strategy: Strategy,
    lag_ms: f64,
    history: RawSteps,
    horizon: RawSteps,
    max_ahead_ms: f64,
    max_age_ms: f64,
    max_gap_ms: f64,
    fill: RawFill,
    required: bool,
    timeline: Timeline,
    stamp_offset_ms: f64,
    dtype: DType,
    ring_rows: i64,
    qos: RawQos,
    frame_id: String,
    t_base_sensor: RawExtrinsic,
    deskew: RawDeskew,
    in_frame: String,
    expected_rate_hz: f64,
    fields: Vec<String>,
    joints: JointNames,
    groups: InOrder<Vec<String>>,
    angular: Vec<String>,
    quaternions: Vec<Vec<String>>,
    held: Vec<String>,
    operators: Vec<RawOperator>,
    select: Vec<String>,
    stamp: String,
    image: RawImage,
    cloud: RawCloud,
    occupancy: RawOccupancy,
} }

/// The joints of a stream.
pub(super) struct JointNames(pub Vec<String>);

mapping! {
    /// One of several inputs of a stream. If a key is not given here, that of the stream applies.
    RawInput {
        topic: String,
        ros_type ("type"): String,
        timeline: Timeline,
        stamp_offset_ms: f64,
        qos: RawQos,
        frame_id: String,
        t_base_sensor: RawExtrinsic,
        deskew: RawDeskew,
        in_frame: String,
        max_age_ms: f64,
        expected_rate_hz: f64,
        joints: JointNames,
        select: Vec<String>,
        stamp: String,
    }
}

mapping! {
    /// One operator, and the channels that it is for.
    RawOperator {
        of: Vec<String>,
        scale: f64,
        offset: f64,
        clamp: Vec<f64>,
        rad2deg: bool,
        unwrap: bool,
        rotation_6d: Rotation6d,
        normalize: RawNormalize,
    }
}

mapping! { RawNormalize {
    mode: NormalizeMode,
    stats: String,
    key: String,
    first: i64,
    eps: f64,
    mean: Vec<f64>,
    std: Vec<f64>,
    min: Vec<f64>,
    max: Vec<f64>,
    q01: Vec<f64>,
    q99: Vec<f64>,
} }

/// Which six entries of a rotation matrix, in which order.
#[derive(Clone, Copy, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Rotation6d {
    /// The first row, then the second.
    Rows,
    /// The first column, then the second.
    Columns,
    /// The first two columns, row by row.
    ColumnsByRow,
}

#[derive(Clone, Copy, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum NormalizeMode {
    MeanStd,
    MinMax,
    Quantile,
}

mapping! { RawSteps {
    steps: i64,
    step_ms: f64,
} }

mapping! {
    #[derive(Clone, Copy)]
    RawQos {
        reliability: Reliability,
        durability: Durability,
        depth: i64,
    }
}

mapping! { RawCloud {
    origin_m: Vec<f64>,
    size_m: f64,
    shape: Vec<i64>,
    channels: Vec<RawChannel>,
    min_points: i64,
    min_range_m: f64,
    max_range_m: f64,
    crop: Vec<RawCrop>,
    self_filter: Vec<RawSolid>,
    max_voxels: i64,
    output: GridOutput,
    max_points: i64,
} }

mapping! { RawCrop {
    action: CropAction,
    frame: String,
    min_m: Vec<f64>,
    max_m: Vec<f64>,
    pose: RawTransform,
} }

mapping! { RawSolid {
    frame: String,
    size_m: Vec<f64>,
    radius_m: f64,
    pose: RawTransform,
} }

mapping! {
    #[derive(Clone)]
    RawTransform {
        translation_m: Vec<f64>,
        rotation_xyzw: Vec<f64>,
        rotation_rpy_deg: Vec<f64>,
    }
}

mapping! {
    #[derive(Clone)]
    RawDeskew {
        fixed_frame: String,
        gyro: String,
        sensor: Sensor,
        time_field: String,
        time_unit: TimeUnit,
        time_from: TimeFrom,
        span_ms: Vec<f64>,
    }
}

mapping! { RawChannel {
    reduce: Reduce,
    field: String,
    feature: RawFeature,
} }

/// Whose driver's convention the times of points follow.
#[derive(Clone, Copy, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Sensor {
    Ouster,
    Velodyne,
    Hesai,
    Robosense,
    Livox,
}

#[derive(Clone, Copy, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum TimeUnit {
    Ns,
    Us,
    Ms,
    S,
}

/// Origin of the times of points.
#[derive(Clone, Copy, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum TimeFrom {
    Header,
    Epoch,
}

#[derive(Clone, Copy, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Reduce {
    Count,
    Occupancy,
    Mean,
    Max,
    Min,
    Sum,
    Last,
}

/// Quantity that is computed of a point.
#[derive(Clone, Copy, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RawFeature {
    Range,
    Height,
    OffsetX,
    OffsetY,
    OffsetZ,
}

/// Fill of invalid steps. A node has no `first`: which row is the first depends on arrivals, so no lag would make live and
/// replay equal.
#[derive(Clone, Copy, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RawFill {
    Zero,
    Last,
}

impl From<RawFill> for Fill {
    fn from(fill: RawFill) -> Self {
        match fill {
            RawFill::Zero => Fill::Zero,
            RawFill::Last => Fill::Last,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum GridOutput {
    Dense,
    Sparse,
}

#[derive(Clone, Copy, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CropAction {
    Keep,
    Remove,
}

read_words! {
    Rotation6d NormalizeMode Sensor TimeUnit TimeFrom Strategy RawFill DType Timeline Reliability Durability Reduce
    RawFeature CropAction GridOutput
}

/// Which inputs must have a cloud in a row.
pub(super) enum RawValidWhen {
    All,
    Any,
    /// The inputs of these topics.
    Listed(Vec<String>),
}

impl Read for RawValidWhen {
    fn read(check: &mut Check<'_>, path: &str, node: &Node) -> Option<Self> {
        match node.scalar() {
            Some("all") => return Some(RawValidWhen::All),
            Some("any") => return Some(RawValidWhen::Any),
            _ => {}
        }
        if node.items().is_none() {
            check.fail(path, "all, any, or a list of topics of `inputs`");
            return None;
        }
        Vec::read(check, path, node).map(RawValidWhen::Listed)
    }
}

/// Pose of a sensor in the base frame.
#[derive(Clone)]
pub(super) enum RawExtrinsic {
    /// The tree of frames says it.
    Tf,
    Known(RawTransform),
}

impl Read for RawExtrinsic {
    fn read(check: &mut Check<'_>, path: &str, node: &Node) -> Option<Self> {
        if node.scalar() == Some("tf") {
            return Some(RawExtrinsic::Tf);
        }
        if node.entries().is_none() {
            check.fail(path, "tf, or a mapping with translation_m and a rotation");
            return None;
        }
        RawTransform::read(check, path, node).map(RawExtrinsic::Known)
    }

    fn keys(path: &str, all: &mut AllKeys) {
        RawTransform::keys(path, all);
    }
}

/// The keys that streams of this content usually have.
fn usual_keys(stream: &Node) -> Vec<&'static str> {
    let content = defaults::content(stream);
    let fits = |key: &&&str| content.is_none_or(|content| keys::is_usual(key, content));
    RawStream::KEYS.iter().filter(fits).copied().collect()
}

impl Read for JointNames {
    fn read(check: &mut Check<'_>, key: &str, node: &Node) -> Option<Self> {
        if node.entries().is_none() {
            return Vec::read(check, key, node).map(JointNames);
        }
        check.fail(key, "a list");
        check.hint("did you mean `groups`? It takes the joints of each group, by its name".into());
        None
    }
}

impl Read for RawDefaults {
    fn read(check: &mut Check<'_>, path: &str, node: &Node) -> Option<Self> {
        let kinds = Kind::ALL.map(Kind::name);
        let of_each = keys::of_each();
        check_keys(check, path, node, &kinds, &kinds)?;
        for kind in Kind::ALL {
            let Some(node) = node.get(kind.name()) else { continue };
            let path = format!("{path}.{}", kind.name());
            for key in of_each.iter().filter(|key| node.get(key).is_some()) {
                let expected = format!("no such key here: each stream has its own `{key}`");
                check.fail(&format!("{path}.{key}"), expected);
            }
            let image = node.get("image").filter(|_| kind == Kind::Image);
            if image.is_some_and(|image| image.get("undistort").is_some()) {
                let expected = "no such key here: each stream names the topic of its own camera";
                check.fail(&format!("{path}.image.undistort"), expected);
            }
            let keys = keys::of_kind(kind);
            let known = [&keys[..], &of_each].concat();
            if check_keys(check, &path, node, &known, &keys).is_some() {
                RawStream::fields(check, &path, node);
            }
        }
        Some(RawDefaults)
    }
}

impl Named for RawStream {
    const EXPECTED: &str = "a mapping from stream names to streams";
}

impl Named for Vec<String> {
    const EXPECTED: &str = "a mapping from group names to lists of joints";
}
