//! Vector messages, good and bad, from their bytes to the row that an encoder makes of them.

mod twin;

use super::*;
use crate::cdr::Writer;
use crate::config;
use crate::encoder::EncoderSpec;
use crate::encoder::VectorEncoder;
use robocache_ops::time::Stamp;

/// An input of a configured stream, and the encoders of the groups that it feeds.
struct Subject {
    input: Box<dyn Input>,
    encoders: Vec<VectorEncoder>,
}

/// Rows that a message gave.
#[derive(Default)]
struct Taken {
    /// Per group: its row, or the error.
    rows: Vec<(usize, Result<Vec<f32>, Rejected>)>,
    incomplete: Vec<usize>,
}

struct Encoding<'a> {
    encoders: &'a mut [VectorEncoder],
    taken: Taken,
}

impl Sink for Encoding<'_> {
    fn admit(&mut self, header: &Header<'_>) -> Option<&mut dyn SampleSink> {
        assert_eq!(header.frame_id, "base_link");
        Some(self)
    }
}

impl SampleSink for Encoding<'_> {
    fn sample(&mut self, part: usize, sample: Sample<'_>) {
        let Sample::Vector(values) = sample else { panic!("a vector") };
        let row = self.encoders[part].encode(values).map(<[f32]>::to_vec);
        self.taken.rows.push((part, row));
    }

    fn trajectory(&mut self, _: &Trajectory<'_>) {
        panic!("no plan");
    }

    fn incomplete(&mut self, part: usize, _: &str) {
        self.taken.incomplete.push(part);
    }
}

impl Subject {
    /// The input and the encoders of a stream with these keys.
    fn new(keys: &str) -> Self {
        let yaml = format!("rate_hz: 10\nstreams: {{s: {{topic: /s, max_age_ms: 9, {keys}}}}}");
        let config = config::parse(&yaml, "test.yaml").unwrap_or_else(|e| panic!("{e}"));
        let stream = &config.streams[0];
        let EncoderSpec::Vector(spec) = &stream.encoder else { panic!("a vector") };
        let encoder = |group| VectorEncoder::new(spec, group, stream.dtype);
        let encoders = (0..spec.groups.len()).map(encoder).collect();
        Subject { input: open(&config.inputs[0]).unwrap(), encoders }
    }

    fn read(&mut self, message: &[u8]) -> Result<Taken, Rejected> {
        let mut sink = Encoding { encoders: &mut self.encoders, taken: Taken::default() };
        self.input.read(message, &mut sink)?;
        Ok(sink.taken)
    }

    /// The row of a message for the only group.
    fn row(&mut self, message: &[u8]) -> Result<Vec<f32>, Rejected> {
        let mut taken = self.read(message)?;
        assert_eq!((taken.rows.len(), taken.incomplete.len()), (1, 0));
        taken.rows.remove(0).1
    }

    fn reason(&mut self, message: &[u8]) -> DropReason {
        self.row(message).expect_err("the message is bad").reason
    }
}

fn joints(rest: &str) -> Subject {
    Subject::new(&format!("type: sensor_msgs/JointState, {rest}"))
}

fn joint_state(names: &[&str], position: &[f64], velocity: &[f64], effort: &[f64]) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.header(Stamp::from_nanos(5), "base_link");
    writer.u32(names.len() as u32);
    names.iter().for_each(|name| writer.string(name));
    [position, velocity, effort].iter().for_each(|values| writer.f64_sequence(values));
    writer.finish()
}

#[test]
fn joints_are_found_by_name_in_any_order_and_again_after_the_order_changes() {
    let mut subject = joints("fields: [velocity, position], joints: [b, a]");
    let first = joint_state(&["a", "x", "b"], &[1.0, 9.0, 2.0], &[3.0, 9.0, 4.0], &[]);
    let second = joint_state(&["b", "a"], &[20.0, 10.0], &[40.0, 30.0], &[]);
    for _ in 0..2 {
        assert_eq!(subject.row(&first).unwrap(), [4.0, 3.0, 2.0, 1.0]);
        assert_eq!(subject.row(&second).unwrap(), [40.0, 30.0, 20.0, 10.0]);
    }
}

#[test]
fn joints_are_found_if_more_publishers_alternate_than_orders_are_kept() {
    let mut subject = joints("groups: {arm: [a, b], hand: [h]}");
    let extra = ["p", "q", "r", "s", "t", "u"];
    for round in 0..3 {
        for (i, name) in extra.iter().enumerate() {
            let value = (10 * round + i) as f64;
            let arm = joint_state(&[*name, "b", "a"], &[0.0, 2.0, value], &[], &[]);
            let taken = subject.read(&arm).unwrap();
            assert_eq!(taken.rows, [(0, Ok(vec![value as f32, 2.0]))]);
            let hand = joint_state(&["h", *name], &[value, 0.0], &[], &[]);
            assert_eq!(subject.read(&hand).unwrap().rows, [(1, Ok(vec![value as f32]))]);
        }
    }
}

#[test]
fn a_message_of_too_many_joints_is_malformed_before_memory_is_taken() {
    let names: Vec<String> = (0..=MAX_JOINTS).map(|k| format!("j{k}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let values = vec![1.0; names.len()];
    let most = joint_state(&names[..MAX_JOINTS], &values[1..], &[], &[]);
    let mut subject = joints("joints: [j0, j9]");
    assert_eq!(subject.row(&most).unwrap(), [1.0, 1.0]);
    // It is refused by the number alone: what is behind it is not read.
    let mut short = joint_state(&names, &values, &[], &[]);
    let behind_count = joint_state(&[], &[], &[], &[]).len() - 3 * 4;
    short.truncate(behind_count);
    let error = subject.row(&short).unwrap_err();
    assert_eq!(error.reason, DropReason::Malformed);
    assert_eq!(error.detail, "name: expected at most 4096 joints, found 4097");
}

#[test]
fn a_bad_joint_message_is_dropped_and_the_next_good_one_is_not() {
    let mut subject = joints("joints: [a, b]");
    let good = joint_state(&["a", "b"], &[1.0, 2.0], &[], &[]);
    let bad = [
        (joint_state(&["a", "b"], &[], &[], &[]), DropReason::MissingField),
        (joint_state(&["a", "b"], &[1.0], &[], &[]), DropReason::Malformed),
        (joint_state(&["a", "b", "a"], &[1.0, 2.0, 3.0], &[], &[]), DropReason::Malformed),
        (joint_state(&["a", "b"], &[1.0, f64::NAN], &[], &[]), DropReason::NonFinite),
        (joint_state(&["a", "b"], &[f64::NEG_INFINITY, 0.0], &[], &[]), DropReason::NonFinite),
        (joint_state(&["a", "b"], &[1e300, 0.0], &[], &[]), DropReason::OutOfRange),
        (joint_state(&["a", "c"], &[1.0, 2.0], &[], &[]), DropReason::MissingField),
        (joint_state(&[], &[], &[], &[]), DropReason::MissingField),
    ];
    for (message, expected) in bad {
        assert_eq!(subject.reason(&message), expected);
        assert_eq!(subject.row(&good).unwrap(), [1.0, 2.0]);
    }
    let lacking = joint_state(&["a", "c"], &[1.0, 2.0], &[], &[]);
    let detail = subject.row(&lacking).unwrap_err().detail;
    assert_eq!(detail, "name: b is missing; other joints found: c");
    let detail = subject.row(&joint_state(&["a", "b"], &[1.0, f64::NAN], &[], &[])).unwrap_err();
    assert_eq!(detail.detail, "b.position: expected a finite number, found NaN");
}

#[test]
fn a_missing_joint_is_named_alone() {
    let twelve = "groups: {left: [l1, l2, l3, l4, l5, l6], right: [r1, r2, r3, r4, r5, r6]}";
    let mut subject = joints(twelve);
    let detail = |subject: &mut Subject, names: &[&str]| {
        let message = joint_state(names, &vec![0.0; names.len()], &[], &[]);
        subject.read(&message).map(|_| ()).unwrap_err().detail
    };
    let found = detail(&mut subject, &["r1", "r2", "r4", "r5", "r6"]);
    assert_eq!(found, "name: r3 is missing");
    let found = detail(&mut subject, &["r1", "r2", "r4", "r5", "R6"]);
    assert_eq!(found, "name: r3 and r6 are missing; other joints found: R6");
    let found = detail(&mut subject, &["l1", "r2"]);
    assert_eq!(found, "name: l2, l3, l4 and 2 more joints are missing");
}

#[test]
fn a_joint_message_cut_anywhere_is_malformed() {
    let mut subject = joints("joints: [a]");
    let whole = joint_state(&["a"], &[1.0], &[2.0], &[3.0]);
    for len in 0..whole.len() {
        assert_eq!(subject.reason(&whole[..len]), DropReason::Malformed, "{len}");
    }
}

#[test]
fn half_floats_refuse_what_they_cannot_hold() {
    let mut subject = joints("joints: [a], dtype: f16");
    let message = joint_state(&["a"], &[70_000.0], &[], &[]);
    assert_eq!(subject.reason(&message), DropReason::OutOfRange);
}

#[test]
fn a_message_fills_every_group_that_it_holds_completely() {
    let mut subject =
        joints("fields: [velocity, position], groups: {arm: [a, b], gripper: [g], base: [x, y]}");
    let rows = |taken: Taken| -> Vec<_> {
        taken.rows.into_iter().map(|(group, row)| (group, row.unwrap())).collect()
    };
    let arm = joint_state(&["b", "a"], &[2.0, 1.0], &[4.0, 3.0], &[]);
    let gripper = joint_state(&["g"], &[5.0], &[6.0], &[]);
    let both = joint_state(&["g", "a", "b"], &[5.0, 1.0, 2.0], &[6.0, 3.0, 4.0], &[]);
    let partly = joint_state(&["y", "g"], &[9.0, 5.0], &[9.0, 6.0], &[]);
    for _ in 0..2 {
        assert_eq!(rows(subject.read(&arm).unwrap()), [(0, vec![3.0, 4.0, 1.0, 2.0])]);
        assert_eq!(rows(subject.read(&gripper).unwrap()), [(1, vec![6.0, 5.0])]);
        let taken = subject.read(&both).unwrap();
        assert_eq!(rows(taken), [(0, vec![3.0, 4.0, 1.0, 2.0]), (1, vec![6.0, 5.0])]);
        let taken = subject.read(&partly).unwrap();
        assert_eq!(taken.incomplete, [2]);
        assert_eq!(rows(taken), [(1, vec![6.0, 5.0])]);
    }
    let none = joint_state(&["a", "x"], &[1.0, 2.0], &[1.0, 2.0], &[]);
    let error = subject.read(&none).map(|_| ()).unwrap_err();
    assert_eq!(error.reason, DropReason::MissingField);
    assert_eq!(error.detail, "name: b is missing");
    let none = joint_state(&["other"], &[1.0], &[1.0], &[]);
    let error = subject.read(&none).map(|_| ()).unwrap_err();
    assert_eq!(error.detail, "name: expected all joints of a group (a, b; g; x, y), found other");
    // If a number of one group is bad, the other group is still taken.
    let bad = joint_state(&["g", "a", "b"], &[f64::NAN, 1.0, 2.0], &[6.0, 3.0, 4.0], &[]);
    let taken = subject.read(&bad).unwrap();
    assert!(taken.rows[0].1.is_ok());
    assert_eq!(taken.rows[1].1.as_ref().unwrap_err().reason, DropReason::NonFinite);
}

fn imu(orientation: [f64; 4], covariance: f64) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.header(Stamp::from_nanos(5), "base_link");
    writer.f64_array(&orientation);
    writer.f64_array(&[covariance, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    for vector in [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]] {
        writer.f64_array(&vector);
        writer.f64_array(&[0.0; 9]);
    }
    writer.finish()
}

#[test]
fn imu_fields_come_in_the_configured_order() {
    let fields = "fields: [linear_acceleration, orientation, angular_velocity]";
    let mut subject = Subject::new(&format!("type: sensor_msgs/Imu, {fields}"));
    let row = subject.row(&imu([0.0, 0.0, 0.6, 0.8], 0.0)).unwrap();
    assert_eq!(row, [4.0, 5.0, 6.0, 0.0, 0.0, 0.6, 0.8, 1.0, 2.0, 3.0]);
}

#[test]
fn a_message_without_a_usable_orientation_is_dropped() {
    let mut subject = Subject::new("type: sensor_msgs/Imu, fields: [orientation]");
    assert_eq!(subject.reason(&imu([0.0, 0.0, 0.0, 1.0], -1.0)), DropReason::MissingField);
    assert_eq!(subject.reason(&imu([0.0; 4], 0.0)), DropReason::OutOfRange);
    assert_eq!(subject.reason(&imu([f64::NAN; 4], 0.0)), DropReason::NonFinite);
    // If the length is only a little off, the quaternion is normalised.
    let row = subject.row(&imu([0.0, 0.0, 0.606, 0.808], 0.0)).unwrap();
    assert_eq!(row, [0.0, 0.0, 0.6, 0.8]);
    // An input that does not select the orientation takes the message.
    let mut rates = Subject::new("type: sensor_msgs/Imu, fields: [angular_velocity]");
    assert_eq!(rates.row(&imu([0.0; 4], -1.0)).unwrap(), [1.0, 2.0, 3.0]);
}

#[test]
fn odometry_is_read_past_its_strings_and_covariances() {
    let mut writer = Writer::new();
    writer.header(Stamp::from_nanos(5), "base_link");
    writer.string("base_footprint");
    writer.f64_array(&[1.0, 2.0, 3.0, 0.0, 0.0, 0.0, 1.0]);
    writer.f64_array(&[7.0; 36]);
    writer.f64_array(&[4.0, 5.0, 6.0, 0.1, 0.2, 0.3]);
    writer.f64_array(&[7.0; 36]);
    let message = writer.finish();
    let fields = "fields: [angular, position, orientation, linear]";
    let mut subject = Subject::new(&format!("type: nav_msgs/Odometry, {fields}"));
    let row = subject.row(&message).unwrap();
    assert_eq!(row, [0.1, 0.2, 0.3, 1.0, 2.0, 3.0, 0.0, 0.0, 0.0, 1.0, 4.0, 5.0, 6.0]);
    for len in 0..message.len() {
        assert_eq!(subject.reason(&message[..len]), DropReason::Malformed);
    }
}

#[test]
fn wrench_pose_and_twist() {
    let cases: [(&str, &[f64]); 3] = [
        ("geometry_msgs/WrenchStamped", &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
        ("geometry_msgs/PoseStamped", &[1.0, 2.0, 3.0, 0.0, 1.0, 0.0, 0.0]),
        ("geometry_msgs/TwistStamped", &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
    ];
    for (ros_type, values) in cases {
        let mut writer = Writer::new();
        writer.header(Stamp::from_nanos(5), "base_link");
        writer.f64_array(values);
        let row = Subject::new(&format!("type: {ros_type}")).row(&writer.finish()).unwrap();
        assert_eq!(row, values.iter().map(|v| *v as f32).collect::<Vec<_>>());
    }
}

#[test]
fn a_pose_with_covariance_and_a_magnetic_field_are_read_past_their_covariances() {
    let cases: [(&str, &[f64], usize); 2] = [
        ("geometry_msgs/PoseWithCovarianceStamped", &[1.0, 2.0, 3.0, 0.0, 0.0, 0.6, 0.8], 36),
        ("sensor_msgs/MagneticField", &[2e-5, -4e-6, 4e-5], 9),
    ];
    for (ros_type, values, covariance) in cases {
        let mut writer = Writer::new();
        writer.header(Stamp::from_nanos(5), "base_link");
        writer.f64_array(values);
        writer.f64_array(&vec![7.0; covariance]);
        let message = writer.finish();
        let mut subject = Subject::new(&format!("type: {ros_type}"));
        let row = subject.row(&message).unwrap();
        assert_eq!(row, values.iter().map(|v| *v as f32).collect::<Vec<_>>());
        for len in 0..message.len() {
            assert_eq!(subject.reason(&message[..len]), DropReason::Malformed, "{ros_type} {len}");
        }
    }
}

#[test]
fn every_type_is_registered_once_and_refuses_another_content() {
    for (at, known) in TYPES.iter().enumerate() {
        assert!(std::ptr::eq(MessageType::find(known.name).unwrap(), *known));
        assert!(TYPES[..at].iter().all(|other| other.name != known.name), "{}", known.name);
        let parts = known.name.split('/').collect::<Vec<_>>();
        assert!(matches!(parts.as_slice(), [_, "msg", _]), "{}", known.name);
        let wrong = match known.content {
            Content::Image => Selection::Fields(vec![]),
            _ => Selection::Image { largest_px: [1, 1], encoding_8uc: None },
        };
        assert!((known.open)(&wrong).is_none(), "{}", known.name);
    }
}
