//! The robot: its sensors, and what each of them measures at any instant.

use crate::net::{MS, Net};
use crate::plan::Again;
use robocache_core::cdr::Writer;
use robocache_core::cdr::messages::{Image, JointState, TfMessage};
use robocache_ops::time::Stamp;
use robocache_runtime::OfferedQos;

/// A unit of the numbers that stand for time \[ns\]. Stamps are whole units, so an f32 has them exactly.
pub(crate) const UNIT_NS: i64 = 100_000;
/// Greatest second derivative of a joint's position \[1/s^2\].
pub(crate) const BEND: f64 = 4.0;

/// A sensor, or another source of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Wrench,
    Twist,
    Joints,
    /// Latched: rare messages that stay true.
    Mark,
    Camera,
    Goal,
    Tf,
}

/// A source of messages.
#[derive(Clone, Debug)]
pub(crate) struct MessageSource {
    pub kind: Kind,
    /// Its publisher; `None` while it is ended.
    pub publisher: Option<usize>,
    /// The publisher before, and how it begins again.
    before: Option<(usize, Again)>,
    offers: OfferedQos,
    remote: bool,
    ahead_ns: i64,
    /// Its newest stamp, and the pass of that.
    newest: Option<(u64, Stamp)>,
}

impl Kind {
    pub(crate) const ALL: [Kind; 7] =
        [Kind::Wrench, Kind::Twist, Kind::Joints, Kind::Mark, Kind::Camera, Kind::Goal, Kind::Tf];

    pub(crate) fn topic(self) -> (&'static str, &'static str) {
        match self {
            Kind::Wrench => ("/wrench", "geometry_msgs/msg/WrenchStamped"),
            Kind::Twist => ("/twist", "geometry_msgs/msg/TwistStamped"),
            Kind::Joints => ("/joints", "sensor_msgs/msg/JointState"),
            Kind::Mark => ("/mark", "geometry_msgs/msg/WrenchStamped"),
            Kind::Camera => ("/camera", "sensor_msgs/msg/Image"),
            Kind::Goal => ("/goal", "geometry_msgs/msg/PoseStamped"),
            Kind::Tf => ("/tf", "tf2_msgs/msg/TFMessage"),
        }
    }

    /// Time between two messages.
    pub(crate) fn period_ns(self) -> u64 {
        match self {
            Kind::Wrench | Kind::Joints => 50 * MS,
            Kind::Twist | Kind::Tf => 100 * MS,
            Kind::Mark => 11_000 * MS,
            Kind::Camera | Kind::Goal => 200 * MS,
        }
    }
}

impl MessageSource {
    pub(crate) fn new(kind: Kind, remote: bool, ahead_ns: i64) -> Self {
        let offers = match kind {
            Kind::Mark => OfferedQos { reliable: true, transient_local: true },
            Kind::Twist | Kind::Camera => OfferedQos::default(),
            _ => OfferedQos { reliable: true, transient_local: false },
        };
        MessageSource {
            kind,
            publisher: None,
            before: None,
            offers,
            remote,
            ahead_ns,
            newest: None,
        }
    }

    /// Begins to publish, perhaps again.
    pub(crate) fn begin(&mut self, net: &mut Net) {
        let other_qos = self.before.is_some_and(|(_, again)| again.other_qos);
        if other_qos && self.kind != Kind::Mark {
            self.offers.reliable = !self.offers.reliable;
        }
        let depth = if self.kind == Kind::Mark { 1 } else { 10 };
        let (topic, ros_type) = self.kind.topic();
        let publisher =
            net.advertise(topic, ros_type, self.offers, depth, self.remote, self.ahead_ns);
        if let Some((before, Again { same_identity: true, .. })) = self.before {
            net.identify(publisher, before);
        }
        self.publisher = Some(publisher);
    }

    /// Ends, and says how it begins again. Returns false if it had ended already.
    pub(crate) fn end(&mut self, net: &mut Net, with: Again) -> bool {
        let Some(publisher) = self.publisher.take() else { return false };
        net.end_publisher(publisher);
        self.before = Some((publisher, with));
        true
    }

    /// Stamp of a measurement in a pass: later than that of the one before, or if it `is_equal`, that one. Work of the node
    /// moves the clock of the world, so that two measurements may be made at one instant.
    pub(crate) fn next_stamp(&mut self, pass: u64, stamp: Stamp, is_equal: bool) -> Stamp {
        let before = self.newest.filter(|(of, _)| *of == pass).map(|(_, before)| before);
        let is_near = |before: &Stamp| stamp.since(*before) <= 2 * self.kind.period_ns() as i64;
        let stamp = match before.filter(is_near) {
            Some(before) if is_equal => before,
            _ => before.map_or(stamp, |before| stamp.max(before.offset(UNIT_NS))),
        };
        self.newest = Some((pass, stamp));
        stamp
    }

    /// True if its messages come from another machine than the node's.
    pub(crate) fn is_remote(&self) -> bool {
        self.remote
    }
}

/// Instant of a stamp in units, relative to the start of a pass.
pub(crate) fn units(stamp: Stamp, base: Stamp) -> f64 {
    stamp.since(base) as f64 / UNIT_NS as f64
}

/// Position of a joint at an instant of a pass.
pub(crate) fn joint(stamp: Stamp, base: Stamp, pass: u64, joint: usize) -> f64 {
    let seconds = stamp.since(base) as f64 / 1e9;
    // Its second derivative is at most the amplitude times the square of the frequency.
    (2.0 * seconds + pass as f64 + joint as f64).sin() * BEND / 4.0
}

/// Stamp, pass, publisher and number that a message tells of itself.
pub(crate) struct Said {
    pub stamp: Stamp,
    pub base: Stamp,
    pub pass: u64,
    pub publisher: usize,
    pub number: u64,
}

/// The message of a source.
pub(crate) fn message(kind: Kind, said: &Said) -> Vec<u8> {
    let Said { stamp, base, pass, publisher, number } = *said;
    let six = [units(stamp, base), pass as f64, number as f64, publisher as f64, 0.0, 0.0];
    let mut writer = Writer::new();
    match kind {
        Kind::Wrench | Kind::Twist | Kind::Mark => {
            writer.header(stamp, "r");
            writer.f64_array(&six);
            writer.finish()
        }
        Kind::Joints => {
            let position = [0, 1].map(|at| joint(stamp, base, pass, at));
            let name = &["a", "b"];
            let none = &[];
            let message = JointState {
                stamp,
                frame_id: "",
                name,
                position: &position,
                velocity: none,
                effort: none,
            };
            message.to_cdr(Vec::new())
        }
        Kind::Camera => {
            let image =
                Image { stamp, frame_id: "c", height: 4, width: 4, encoding: "mono8", step: 4 };
            image.to_cdr(Vec::new(), |data| data.extend([(number % 251) as u8; 16]))
        }
        Kind::Goal => {
            writer.header(stamp, "odom");
            writer.f64_array(&[six[0], six[1], six[2]]);
            writer.f64_array(&[0.0, 0.0, 0.0, 1.0]);
            writer.finish()
        }
        Kind::Tf => {
            let translation = [1.0, 0.0, 0.0];
            let rotation = [0.0, 0.0, 0.0, 1.0];
            let message =
                TfMessage { stamp, frame_id: "map", child_frame_id: "odom", translation, rotation };
            message.to_cdr(Vec::new())
        }
    }
}

/// The configuration of the node.
pub(crate) fn config(rate_hz: u64, lag_ms: u64) -> String {
    format!(
        "rate_hz: {rate_hz}
lag_ms: {lag_ms}
tf: {{wait_ms: 250}}
streams:
  wrench: {{type: geometry_msgs/WrenchStamped, topic: /wrench, strategy: linear, max_age_ms: 300, max_gap_ms: 400, history: {{steps: 2, step_ms: 70}}, dtype: f32}}
  twist: {{type: geometry_msgs/TwistStamped, topic: /twist, strategy: hold, timeline: receive, max_age_ms: 500, dtype: f32, qos: {{depth: 4}}}}
  joints: {{type: sensor_msgs/JointState, topic: /joints, joints: [a, b], max_age_ms: 300, max_gap_ms: 400, dtype: f32}}
  mark: {{type: geometry_msgs/WrenchStamped, topic: /mark, strategy: hold, timeline: receive, max_age_ms: 3600000, dtype: f32}}
  camera: {{type: sensor_msgs/Image, topic: /camera, max_age_ms: 1000, dtype: u8, image: {{color: mono, resize: {{width: 4, height: 4}}}}}}
  goal: {{type: geometry_msgs/PoseStamped, topic: /goal, strategy: hold, in_frame: map, max_age_ms: 1000, dtype: f32}}
commands:
  rate_hz: 50
  groups:
    arm:
      joints: [a, b]
      rows: {{steps: 20, step_ms: 50}}
      start_from: joints
      watchdog_ms: 600
      limits:
        joints:
          a: {{position: [-3, 3], velocity: 2, acceleration: 10}}
          b: {{position: [-3, 3], velocity: 2, acceleration: 10}}
      output: {{topic: /commands, type: std_msgs/msg/Float64MultiArray}}
"
    )
}
