//! Tests of the vector decoder on hand-made messages, good and bad.

use super::*;
use crate::cdr::Writer;
use crate::config::Lane;
use crate::time::Stamp;

fn joints_spec(fields: &[VectorField], joints: &[&str]) -> VectorSpec {
    VectorSpec {
        message: VectorMessage::JointState,
        fields: fields.to_vec(),
        joints: joints.iter().map(|j| j.to_string()).collect(),
        lanes: vec![Lane::Linear; fields.len() * joints.len()],
    }
}

fn joint_state(names: &[&str], position: &[f64], velocity: &[f64], effort: &[f64]) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.header(Stamp::from_nanos(5), "base_link");
    writer.u32(names.len() as u32);
    names.iter().for_each(|name| writer.string(name));
    [position, velocity, effort].iter().for_each(|values| writer.f64_sequence(values));
    writer.finish()
}

fn decode(decoder: &mut VectorDecoder, message: &[u8]) -> Result<Vec<f32>, DecodeError> {
    let mut row = vec![f32::NAN; decoder.spec.dim()];
    let header = decoder.decode(message, &mut row)?;
    assert_eq!(header.frame_id, "base_link");
    Ok(row)
}

fn reason(decoder: &mut VectorDecoder, message: &[u8]) -> DropReason {
    decode(decoder, message).expect_err("the message is bad").reason
}

#[test]
fn joints_are_found_by_name_in_any_order_and_again_after_the_order_changes() {
    use VectorField::{Position, Velocity};
    let mut decoder =
        VectorDecoder::new(&joints_spec(&[Velocity, Position], &["b", "a"]), DType::F32);
    let first = joint_state(&["a", "x", "b"], &[1.0, 9.0, 2.0], &[3.0, 9.0, 4.0], &[]);
    let second = joint_state(&["b", "a"], &[20.0, 10.0], &[40.0, 30.0], &[]);
    for _ in 0..2 {
        assert_eq!(decode(&mut decoder, &first).unwrap(), [4.0, 3.0, 2.0, 1.0]);
        assert_eq!(decode(&mut decoder, &second).unwrap(), [40.0, 30.0, 20.0, 10.0]);
    }
}

#[test]
fn a_bad_joint_message_is_dropped_and_the_next_good_one_is_not() {
    let mut decoder =
        VectorDecoder::new(&joints_spec(&[VectorField::Position], &["a", "b"]), DType::F32);
    let good = joint_state(&["a", "b"], &[1.0, 2.0], &[], &[]);
    let bad = [
        (joint_state(&["a", "c"], &[1.0, 2.0], &[], &[]), DropReason::MissingField),
        (joint_state(&["a", "b"], &[], &[], &[]), DropReason::MissingField),
        (joint_state(&["a", "b"], &[1.0], &[], &[]), DropReason::Malformed),
        (joint_state(&["a", "b", "a"], &[1.0, 2.0, 3.0], &[], &[]), DropReason::Malformed),
        (joint_state(&["a", "b"], &[1.0, f64::NAN], &[], &[]), DropReason::NonFinite),
        (joint_state(&["a", "b"], &[f64::NEG_INFINITY, 0.0], &[], &[]), DropReason::NonFinite),
        (joint_state(&["a", "b"], &[1e300, 0.0], &[], &[]), DropReason::OutOfRange),
        (joint_state(&[], &[], &[], &[]), DropReason::MissingField),
    ];
    for (message, expected) in bad {
        assert_eq!(reason(&mut decoder, &message), expected);
        assert_eq!(decode(&mut decoder, &good).unwrap(), [1.0, 2.0]);
    }
}

#[test]
fn a_joint_message_cut_anywhere_is_malformed() {
    let mut decoder =
        VectorDecoder::new(&joints_spec(&[VectorField::Position], &["a"]), DType::F32);
    let whole = joint_state(&["a"], &[1.0], &[2.0], &[3.0]);
    for len in 0..whole.len() {
        let error = decode(&mut decoder, &whole[..len]).unwrap_err();
        assert!(matches!(error.reason, DropReason::Malformed), "{len}: {error}");
    }
}

#[test]
fn half_floats_refuse_what_they_cannot_hold() {
    let mut decoder =
        VectorDecoder::new(&joints_spec(&[VectorField::Position], &["a"]), DType::F16);
    let message = joint_state(&["a"], &[70_000.0], &[], &[]);
    assert_eq!(reason(&mut decoder, &message), DropReason::OutOfRange);
}

fn spec(message: VectorMessage, fields: &[VectorField]) -> VectorSpec {
    let lanes = fields.iter().map(|f| width(*f)).sum();
    VectorSpec {
        message,
        fields: fields.to_vec(),
        joints: vec![],
        lanes: vec![Lane::Linear; lanes],
    }
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
    use VectorField::*;
    let fields = [LinearAcceleration, Orientation, AngularVelocity];
    let mut decoder = VectorDecoder::new(&spec(VectorMessage::Imu, &fields), DType::F32);
    let row = decode(&mut decoder, &imu([0.0, 0.0, 0.6, 0.8], 0.0)).unwrap();
    assert_eq!(row, [4.0, 5.0, 6.0, 0.0, 0.0, 0.6, 0.8, 1.0, 2.0, 3.0]);
}

#[test]
fn an_orientation_that_is_none_is_not_served() {
    let mut decoder =
        VectorDecoder::new(&spec(VectorMessage::Imu, &[VectorField::Orientation]), DType::F32);
    assert_eq!(reason(&mut decoder, &imu([0.0, 0.0, 0.0, 1.0], -1.0)), DropReason::MissingField);
    assert_eq!(reason(&mut decoder, &imu([0.0; 4], 0.0)), DropReason::OutOfRange);
    assert_eq!(reason(&mut decoder, &imu([f64::NAN; 4], 0.0)), DropReason::NonFinite);
    // A slightly long one is made unit.
    let row = decode(&mut decoder, &imu([0.0, 0.0, 0.606, 0.808], 0.0)).unwrap();
    assert_eq!(row, [0.0, 0.0, 0.6, 0.8]);
    // Who does not ask for the orientation does not miss it.
    let mut rates =
        VectorDecoder::new(&spec(VectorMessage::Imu, &[VectorField::AngularVelocity]), DType::F32);
    assert_eq!(decode(&mut rates, &imu([0.0; 4], -1.0)).unwrap(), [1.0, 2.0, 3.0]);
}

#[test]
fn odometry_is_read_past_its_strings_and_covariances() {
    use VectorField::*;
    let mut writer = Writer::new();
    writer.header(Stamp::from_nanos(5), "base_link");
    writer.string("base_footprint");
    writer.f64_array(&[1.0, 2.0, 3.0, 0.0, 0.0, 0.0, 1.0]);
    writer.f64_array(&[7.0; 36]);
    writer.f64_array(&[4.0, 5.0, 6.0, 0.1, 0.2, 0.3]);
    writer.f64_array(&[7.0; 36]);
    let message = writer.finish();
    let fields = [Angular, Position, Orientation, Linear];
    let mut decoder = VectorDecoder::new(&spec(VectorMessage::Odometry, &fields), DType::F32);
    let row = decode(&mut decoder, &message).unwrap();
    assert_eq!(row, [0.1, 0.2, 0.3, 1.0, 2.0, 3.0, 0.0, 0.0, 0.0, 1.0, 4.0, 5.0, 6.0]);
    for len in 0..message.len() {
        assert_eq!(reason(&mut decoder, &message[..len]), DropReason::Malformed);
    }
}

#[test]
fn wrench_pose_and_twist() {
    use VectorField::*;
    let cases: [(VectorMessage, &[VectorField], &[f64]); 3] = [
        (VectorMessage::WrenchStamped, &[Force, Torque], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
        (
            VectorMessage::PoseStamped,
            &[Position, Orientation],
            &[1.0, 2.0, 3.0, 0.0, 1.0, 0.0, 0.0],
        ),
        (VectorMessage::TwistStamped, &[Linear, Angular], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
    ];
    for (message, fields, values) in cases {
        let mut writer = Writer::new();
        writer.header(Stamp::from_nanos(5), "base_link");
        writer.f64_array(values);
        let mut decoder = VectorDecoder::new(&spec(message, fields), DType::F32);
        let row = decode(&mut decoder, &writer.finish()).unwrap();
        assert_eq!(row, values.iter().map(|v| *v as f32).collect::<Vec<_>>());
    }
}
