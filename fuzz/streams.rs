//! The streams of the target `messages`, and what a robot says before its sensors do. The seeds know both.

use std::sync::Arc;

use robocache_core::backend::cpu::CpuBackend;
use robocache_core::cdr::Writer;
use robocache_core::cdr::messages::{CameraInfo, Imu};
use robocache_core::config;
use robocache_core::layout::Layout;
use robocache_core::pipeline::{Arrival, Pipeline};
use robocache_core::schema::{Definitions, full_text};
use robocache_core::spec::{Config, InputId};
use robocache_ops::time::Stamp;

/// The stamp of every seed.
pub(crate) const STAMP: Stamp = Stamp::from_nanos(5_000_000_007);

/// Width and height of the images of seeds, and of those in `tests/golden/compressed` \[px\].
pub(crate) const SMALL: [u32; 2] = [4, 4];
pub(crate) const OF_PICTURES: [u32; 2] = [45, 31];

/// The types that streams select from.
pub(crate) struct Types;

/// The text of the definition of `$name`, if it is one of these.
macro_rules! definition {
    ($name:expr, $($known:literal)*) => {
        match $name {
            $($known => {
                Some(include_str!(concat!("../tests/definitions/share/", $known, ".msg")))
            })*
            _ => None,
        }
    };
}

impl Definitions for Types {
    fn find(&self, name: &str) -> Result<String, String> {
        let text = definition! {
            name,
            "builtin_interfaces/msg/Time"
            "std_msgs/msg/Header"
            "geometry_msgs/msg/Point"
            "geometry_msgs/msg/Pose"
            "geometry_msgs/msg/PoseArray"
            "geometry_msgs/msg/PoseStamped"
            "geometry_msgs/msg/Quaternion"
            "geometry_msgs/msg/Transform"
            "geometry_msgs/msg/Twist"
            "geometry_msgs/msg/Vector3"
            "geometry_msgs/msg/Wrench"
            "sensor_msgs/msg/JointState"
            "sensor_msgs/msg/MultiDOFJointState"
            "robot_msgs/msg/Grasp"
            "robot_msgs/msg/Gripper"
        };
        text.map(str::to_owned).ok_or_else(|| format!("expected a known type, found {name}"))
    }
}

/// A pipeline of `streams.yaml` that knows the [`preamble`].
pub(crate) fn pipeline() -> Pipeline {
    let text = include_str!("streams.yaml");
    let config = config::parse_with(text, "streams.yaml", &Types);
    let config = config.unwrap_or_else(|error| panic!("{error}"));
    let backend = CpuBackend::new(&config, &Layout::new(&config)).expect("a backend");
    let pipeline = Pipeline::new(config, Arc::new(backend)).expect("a pipeline");
    for (topic, message) in preamble() {
        for input in inputs_of(pipeline.config(), topic) {
            pipeline.push(input, &message, Arrival::default()).expect("a message that counts");
        }
    }
    pipeline
}

/// The inputs of a topic.
pub(crate) fn inputs_of(config: &Config, topic: &str) -> Vec<InputId> {
    config.input_ids().filter(|id| config.input(*id).topic == topic).collect()
}

/// The topics of the inputs and a simulator's clock, each with its type and the text of its definition.
pub(crate) fn topics() -> Vec<(String, String, String)> {
    let pipeline = pipeline();
    let inputs = pipeline.config().inputs.iter();
    let inputs = inputs.map(|input| (input.topic.clone(), input.ros_type.clone()));
    let clock = ("/clock".to_owned(), "rosgraph_msgs/msg/Clock".to_owned());
    let mut all: Vec<_> = inputs.chain([clock]).collect();
    all.sort();
    all.dedup();
    let with_text = |(topic, ros_type): (String, String)| {
        let text = full_text(&ros_type, &Types).unwrap_or_default();
        (topic, ros_type, text)
    };
    all.into_iter().map(with_text).collect()
}

/// Topics and messages that make transforms, rotations and tables known around [`STAMP`].
pub(crate) fn preamble() -> Vec<(&'static str, Vec<u8>)> {
    let fixed = ["imu", "lidar", "tool"].map(|child| ("base_link", child, 0));
    let moving = [-300, 300].map(|ms| [("map", "odom", ms), ("odom", "base_link", ms)]);
    let mut messages =
        vec![("/tf_static", transforms(&fixed)), ("/tf", transforms(moving.as_flattened()))];
    messages.extend((-10..=10).map(|k| ("/x", gyro(20 * k))));
    for (topic, size) in [("/v", SMALL), ("/ff", OF_PICTURES)] {
        let camera = camera(size, "plumb_bob", &[-0.3, 0.1, 0.001, 0.002, 0.01]);
        messages.push((topic, camera.to_cdr(Vec::new())));
    }
    messages
}

fn after(ms: i64) -> Stamp {
    STAMP.offset(ms * 1_000_000)
}

/// A `tf2_msgs/msg/TFMessage` of these parents and children, so many milliseconds after [`STAMP`].
pub(crate) fn transforms(links: &[(&str, &str, i64)]) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.u32(links.len() as u32);
    for (parent, child, ms) in links {
        writer.header(after(*ms), parent);
        writer.string(child);
        writer.f64_array(&[0.1, 0.2, 0.001 * *ms as f64, 0.0, 0.0, 0.6, 0.8]);
    }
    writer.finish()
}

/// A gyro's message so many milliseconds after [`STAMP`].
pub(crate) fn gyro(ms: i64) -> Vec<u8> {
    let imu = Imu {
        stamp: after(ms),
        frame_id: "imu",
        orientation: [0.0, 0.0, 0.0, 1.0],
        angular_velocity: [0.1, -0.2, 0.5],
        linear_acceleration: [0.0, 0.0, 9.8],
    };
    imu.to_cdr(Vec::new())
}

/// A camera for images of this width and height.
pub(crate) fn camera<'a>(
    [width, height]: [u32; 2],
    distortion_model: &'a str,
    d: &'a [f64],
) -> CameraInfo<'a> {
    let [x, y] = [width, height].map(|side| f64::from(side) / 2.0);
    CameraInfo {
        stamp: STAMP,
        frame_id: "camera",
        height,
        width,
        distortion_model,
        d,
        k: [2.5 * x, 0.0, x, 0.0, 2.5 * x, y, 0.0, 0.0, 1.0],
        r: [0.0; 9],
        p: [2.0 * x, 0.0, x, 0.0, 0.0, 2.0 * x, y, 0.0, 0.0, 0.0, 1.0, 0.0],
        binning: [0; 2],
        roi: [0; 4],
    }
}
