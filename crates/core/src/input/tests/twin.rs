//! The typed readers and the plans of `select` give the same rows.

use std::path::Path;

use super::super::*;
use crate::cdr::Writer;
use crate::config;
use crate::encoder::EncoderSpec;
use crate::encoder::VectorEncoder;
use crate::schema::Prefixes;
use robocache_ops::random::Random;
use robocache_ops::time::Stamp;

/// A typed reader, what to select for the same row, and how many numbers its messages have.
struct Twin {
    ros_type: &'static str,
    fields: &'static str,
    select: &'static str,
    text: bool,
    numbers: usize,
}

const TWINS: &[Twin] = &[
    Twin {
        ros_type: "sensor_msgs/Imu",
        fields: "[linear_acceleration, orientation]",
        select: "[linear_acceleration, orientation]",
        text: false,
        numbers: 4 + 9 + 3 + 9 + 3 + 9,
    },
    Twin {
        ros_type: "sensor_msgs/MagneticField",
        fields: "[magnetic_field]",
        select: "[magnetic_field]",
        text: false,
        numbers: 12,
    },
    Twin {
        ros_type: "geometry_msgs/WrenchStamped",
        fields: "[torque, force]",
        select: "[wrench.torque, wrench.force]",
        text: false,
        numbers: 6,
    },
    Twin {
        ros_type: "geometry_msgs/PoseStamped",
        fields: "[position, orientation]",
        select: "[pose]",
        text: false,
        numbers: 7,
    },
    Twin {
        ros_type: "geometry_msgs/PoseWithCovarianceStamped",
        fields: "[orientation, position]",
        select: "[pose.pose.orientation, pose.pose.position]",
        text: false,
        numbers: 7 + 36,
    },
    Twin {
        ros_type: "geometry_msgs/TwistStamped",
        fields: "[linear, angular]",
        select: "[twist]",
        text: false,
        numbers: 6,
    },
    Twin {
        ros_type: "nav_msgs/Odometry",
        fields: "[angular, position, orientation]",
        select: "[twist.twist.angular, pose.pose.position, pose.pose.orientation]",
        text: true,
        numbers: 7 + 36 + 6 + 36,
    },
];

/// Keeps the rows, and the stamps.
struct Rows<'a> {
    encoder: &'a mut VectorEncoder,
    stamp: Stamp,
    rows: Vec<(Stamp, Result<Vec<f32>, DropReason>)>,
}

impl Sink for Rows<'_> {
    fn admit(&mut self, header: &Header<'_>) -> Option<&mut dyn SampleSink> {
        self.stamp = header.stamp.unwrap();
        Some(self)
    }
}

impl SampleSink for Rows<'_> {
    fn sample(&mut self, _: usize, sample: Sample<'_>) {
        let Sample::Vector(values) = sample else { panic!("a vector") };
        let row =
            self.encoder.encode(values).map(<[f32]>::to_vec).map_err(|rejected| rejected.reason);
        self.rows.push((self.stamp, row));
    }

    fn trajectory(&mut self, _: &Trajectory<'_>) {
        panic!("no plan");
    }

    fn incomplete(&mut self, part: usize, _: &str) {
        panic!("part {part} is incomplete")
    }
}

/// The rows, or the errors: one for the message, or one per row.
type ReadRows = Result<Vec<(Stamp, Result<Vec<f32>, DropReason>)>, DropReason>;

/// Reads a message by a stream with these keys.
fn read(keys: &str, message: &[u8]) -> ReadRows {
    let yaml = format!("rate_hz: 10\nstreams:\n  s: {{topic: /s, max_age_ms: 9, {keys}}}");
    let definitions = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/definitions");
    let config = config::parse_with(&yaml, "test.yaml", &Prefixes::new(vec![definitions]));
    let config = config.unwrap_or_else(|error| panic!("{error}"));
    let EncoderSpec::Vector(spec) = &config.streams[0].encoder else { panic!("a vector") };
    let mut encoder = VectorEncoder::new(spec, 0, config.streams[0].dtype);
    let mut rows = Rows { encoder: &mut encoder, stamp: Stamp::ZERO, rows: Vec::new() };
    let outcome = open(&config.inputs[0]).unwrap().read(message, &mut rows);
    outcome.map(|()| rows.rows).map_err(|rejected| rejected.reason)
}

#[test]
fn plans_read_what_the_typed_readers_read() {
    let mut random = Random::new(7);
    for Twin { ros_type, fields, select, text, numbers } in TWINS {
        for round in 0..8 {
            let mut writer = Writer::new();
            writer.header(Stamp::from_nanos(5 + round), &"frame_of_7"[..3 + round as usize]);
            if *text {
                writer.string("child");
            }
            // Four halves are a unit quaternion.
            let number = |random: &mut Random| match round % 2 {
                0 => 0.5 - random.below(2) as f64,
                _ => random.between(-3.0, 3.0),
            };
            let numbers: Vec<f64> = (0..*numbers).map(|_| number(&mut random)).collect();
            writer.f64_array(&numbers);
            let message = writer.finish();
            let typed =
                |message: &[u8]| read(&format!("type: {ros_type}, fields: {fields}"), message);
            let planned =
                |message: &[u8]| read(&format!("type: {ros_type}, select: {select}"), message);
            assert!(matches!(&typed(&message), Ok(rows) if rows.len() == 1), "{ros_type}");
            assert_eq!(typed(&message), planned(&message), "{ros_type}");
            let cut = &message[..random.below(message.len() as u64) as usize];
            assert_eq!(typed(cut), planned(cut), "{ros_type}, {} bytes", cut.len());
        }
    }
}

#[test]
fn plans_read_joints_by_their_names() {
    let joints = |names: &[&str], values: usize| {
        let mut writer = Writer::new();
        writer.header(Stamp::from_nanos(5), "base");
        writer.string_sequence(names.iter().copied());
        for scale in 1..=3u32 {
            writer.u32(values as u32);
            (0..values).for_each(|at| writer.f64(f64::from(scale) * (at as f64 + 0.5)));
        }
        writer.finish()
    };
    let typed = "type: sensor_msgs/JointState, joints: [c, a], fields: [velocity, position]";
    let planned = "type: sensor_msgs/JointState, \
                   select: ['velocity[\"c\"]', 'velocity[\"a\"]', 'position[\"c\"]', 'position[\"a\"]']";
    for (names, values) in [
        (&["a", "b", "c"][..], 3),
        (&["c", "a"], 2),
        (&["a", "b"], 2),      // one is missing
        (&["a", "c", "a"], 3), // one is there twice
        (&["a", "c"], 1),      // fewer values than names
        (&["a", "c"], 0),
        (&[], 0),
    ] {
        let message = joints(names, values);
        // A group that is there in part is no error to the typed reader: the rest may come from
        // another publisher.
        match names {
            ["a", "b"] => assert_eq!(read(planned, &message), Err(DropReason::MissingField)),
            _ => assert_eq!(read(typed, &message), read(planned, &message), "{names:?} {values}"),
        }
    }
}
