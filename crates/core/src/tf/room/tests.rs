//! Tests of the room that frames make for others.

use super::super::tests::{fixed, moving, ms, x};
use super::super::*;

const S: i64 = 1000;

fn buffer(frames: usize) -> Buffer {
    Buffer::new(Limits { frames, rows: 64, max_gap_ns: i64::MAX })
}

/// A transform that arrives at its own stamp.
fn heard<'a>(parent: &'a str, child: &'a str, at_ms: i64, x: f64) -> Link<'a> {
    Link { arrival: Some(ms(at_ms)), ..moving(parent, child, at_ms, x) }
}

#[test]
fn a_tracker_with_a_new_name_for_each_person_leaves_room_for_others() {
    let mut buffer = buffer(32);
    buffer.add_of_gyro("gyro");
    buffer.insert(Link { arrival: Some(ms(0)), ..fixed("base", "lidar", 0.5) }).unwrap();
    for k in 0..3000 {
        let at = k * S;
        buffer.insert(heard("odom", "base", at, k as f64)).unwrap();
        let person = format!("person_{k}");
        buffer.insert(heard("odom", &person, at, -1.0)).unwrap();
        assert!(buffer.frames() <= 32);
        assert_eq!(x(&buffer, "odom", "lidar", at), Ok(k as f64 + 0.5));
        // What was said lately is still there.
        let before = format!("person_{}", (k - 15).max(0));
        assert_eq!(x(&buffer, "odom", &before, (k - 15).max(0) * S), Ok(-1.0));
    }
    // The driver of a sensor starts again.
    buffer.insert(Link { arrival: Some(ms(3000 * S)), ..fixed("base", "camera", 2.0) }).unwrap();
    assert_eq!(x(&buffer, "odom", "camera", 2999 * S), Ok(3001.0));
    let Forgotten { count, newest } = buffer.forgotten().clone();
    assert!((2900..3000).contains(&count) && newest.starts_with("person_"), "{count} {newest}");
    let gone = x(&buffer, "odom", "person_7", 7 * S);
    assert!(matches!(gone, Err(LookupError::UnknownFrame { .. })), "{gone:?}");
    // It comes again, in the place of another one.
    buffer.insert(heard("base", "person_7", 3000 * S, 4.0)).unwrap();
    assert_eq!(x(&buffer, "base", "person_7", 3000 * S), Ok(4.0));
    assert_eq!(
        x(&buffer, "base", "person_7", 7 * S).map_err(|error| error.waiting_helps()),
        Err(false)
    );
}

#[test]
fn frames_that_are_in_use_make_no_room() {
    let mut buffer = buffer(4);
    for at in [0, 30 * S] {
        buffer.insert(heard("map", "odom", at, 1.0)).unwrap();
        buffer.insert(heard("odom", "base", at, 1.0)).unwrap();
    }
    buffer.insert(Link { arrival: Some(ms(0)), ..fixed("base", "lidar", 1.0) }).unwrap();
    let full = buffer.insert(heard("base", "hand", 31 * S, 1.0)).unwrap_err();
    assert!(matches!(full, LinkError::TooManyFrames { most: 4, .. }), "{full}");
    assert_eq!(buffer.forgotten().count, 0);
    assert_eq!(x(&buffer, "map", "lidar", 30 * S), Ok(3.0));
    // `map` has no parent of its own, and goes with the rows that name it.
    for at in [45 * S, 52 * S] {
        buffer.insert(heard("odom", "base", at, 1.0)).unwrap();
    }
    buffer.insert(heard("base", "hand", 52 * S, 1.0)).unwrap();
    assert_eq!((buffer.frames(), buffer.forgotten().count), (4, 1));
    assert_eq!(x(&buffer, "odom", "hand", 52 * S), Ok(2.0));
}

#[test]
fn a_fixed_frame_does_not_wait_for_the_next_look() {
    let mut buffer = buffer(4);
    buffer.insert(heard("odom", "base", 0, 1.0)).unwrap();
    buffer.insert(heard("odom", "person_1", 0, 1.0)).unwrap();
    buffer.insert(heard("odom", "base", 20 * S, 1.0)).unwrap();
    buffer.insert(heard("odom", "person_2", 20 * S, 1.0)).unwrap();
    // Nothing is abandoned yet, and half a second later the next look is not due.
    assert!(buffer.insert(heard("odom", "person_3", 20 * S, 1.0)).is_err());
    let at = 20 * S + 500;
    assert!(buffer.insert(heard("odom", "person_3", at, 1.0)).is_err());
    buffer.insert(Link { arrival: Some(ms(at)), ..fixed("base", "camera", 1.0) }).unwrap();
    assert_eq!(x(&buffer, "base", "camera", 0), Ok(1.0));
}

#[test]
fn frames_of_an_epoch_that_is_over_make_room_and_those_of_a_gyro_do_not() {
    let mut buffer = buffer(4);
    buffer.add_of_gyro("gyro");
    buffer.insert(Link { arrival: Some(ms(90)), ..moving("imu", "gyro", 90, 1.0) }).unwrap();
    buffer.insert(heard("map", "base", 90, 1.0)).unwrap();
    let full = |buffer: &mut Buffer, at| buffer.insert(heard("imu", "arm", at, 1.0)).is_err();
    assert!(full(&mut buffer, 91));
    // The clock of a simulator begins again.
    let epoch = Epoch::default().next(Some(ms(0)));
    buffer.begin(epoch);
    assert!(!full(&mut buffer, 1));
    assert_eq!((buffer.frames(), buffer.forgotten().count), (3, 3));
    assert_eq!(x(&buffer, "imu", "arm", 1), Ok(1.0));
    let silent = x(&buffer, "arm", "gyro", 1).unwrap_err();
    assert!(matches!(silent, LookupError::NoGyro { .. }), "{silent}");
}
