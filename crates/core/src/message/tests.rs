//! Messages that are read back, and messages that are wrong.

use super::*;
use crate::cdr::{CdrError, Writer};
use robocache_ops::dtype::DType;
use robocache_ops::time::Stamp;

/// A segment of a message, each field as it is written.
#[derive(Clone)]
struct Written {
    name: &'static str,
    kind: (u8, u8, u16),
    shape: Vec<i64>,
    byte_offset: u64,
    valid: Vec<u8>,
    numbers: [Vec<i64>; 2],
    counts: [Vec<u32>; 2],
}

/// Two steps of three numbers, and the number of elements of a sparse one.
fn example() -> [Written; 2] {
    let joints = Written {
        name: "joints",
        kind: (2, 32, 1),
        shape: vec![2, 3],
        byte_offset: 0,
        valid: vec![0, 1],
        numbers: [vec![10, 20], vec![i64::MAX, -5]],
        counts: [vec![0, 3], vec![0, 1]],
    };
    let lidar = Written {
        name: "lidar",
        kind: (4, 16, 1),
        shape: vec![1, 2],
        byte_offset: 64,
        valid: vec![1],
        numbers: [vec![30], vec![40]],
        counts: [vec![2], vec![1]],
    };
    [joints, lidar]
}

/// The bytes of a message: its data is 68 bytes, each its own number.
fn message(nanosec: u32, segments: &[Written]) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.i32(12);
    writer.u32(nanosec);
    writer.string("base");
    [9, 3, 77, 5].into_iter().for_each(|number| writer.u64(number));
    writer.u32(segments.len() as u32);
    for segment in segments {
        writer.string(segment.name);
        let (code, bits, lanes) = segment.kind;
        writer.u8(code);
        writer.u8(bits);
        writer.u16(lanes);
        writer.i64_sequence(segment.shape.iter().copied());
        writer.u64(segment.byte_offset);
        writer.bytes(&segment.valid);
        segment.numbers.iter().for_each(|numbers| writer.i64_sequence(numbers.iter().copied()));
        segment.counts.iter().for_each(|counts| writer.u32_sequence(counts.iter().copied()));
    }
    writer.bytes(&(0..68).collect::<Vec<u8>>());
    writer.finish()
}

#[test]
fn a_message_is_read_as_it_was_written() {
    let bytes = message(340, &example());
    let tensor = TensorRead::read(&bytes).unwrap();
    assert_eq!((tensor.stamp, tensor.tick), (Stamp::from_nanos(12_000_000_340), 77));
    assert_eq!((tensor.len, tensor.segments.len()), (68, 2));
    let joints = tensor.segment("joints").unwrap();
    assert_eq!((joints.dtype, &joints.shape[..], joints.byte_offset), (DType::F32, &[2, 3][..], 0));
    assert_eq!((joints.valid, &joints.ages_ns[..]), (&[0, 1][..], &[i64::MAX, -5][..]));
    let newest = joints.newest().unwrap();
    assert_eq!((newest.valid, newest.target, newest.count), (true, Stamp::from_nanos(20), 3));
    assert_eq!(newest.bytes, (12..24).collect::<Vec<u8>>());
    assert!(joints.step(2).is_none());
    let lidar = tensor.segment("lidar").unwrap();
    assert_eq!(
        (lidar.dtype, lidar.byte_offset, lidar.bytes),
        (DType::Bf16, 64, &[64, 65, 66, 67][..])
    );
    let places = Places::read(&bytes).unwrap();
    assert_eq!((places.frame_id.as_str(), places.digest(&bytes)), ("base", 5));
    assert_eq!((places.run(&bytes), places.epoch(&bytes)), (9, 3));
}

#[test]
fn the_places_of_an_envelope_are_those_that_are_read() {
    let config = crate::config::parse(
        "rate_hz: 100\nbase_frame: odd\nstreams:\n  a: {type: geometry_msgs/WrenchStamped, topic: /a, \
         max_age_ms: 50, history: {steps: 3, step_ms: 10}}\n  b: {type: sensor_msgs/Image, topic: /b, \
         max_age_ms: 50, dtype: u8, image: {resize: {width: 3, height: 5}}}\n",
        "test.yaml",
    );
    let layout = crate::layout::Layout::new(&config.unwrap());
    let mut envelope = Envelope::fused_tensor(&layout, "odd");
    envelope.set_run(8);
    let mut bytes = vec![0; envelope.byte_len()];
    envelope.begin(&mut bytes);
    assert_eq!(Places::read(&bytes).as_ref(), Ok(envelope.places()));
    // A segment that ends the data has all of it.
    let last = layout.segments().last().unwrap();
    assert_eq!(envelope.places().segments[1].data.len(), last.byte_len);
    let stamp = Stamp::from_nanos(1_234_567_890);
    let state = StepState { count: 7, ..StepState::NEVER };
    envelope.places().put_epoch(&mut bytes, 2);
    envelope.places().put_tick(&mut bytes, -1, stamp);
    envelope.places().segments[0].put_step(&mut bytes, 1, StepState { count: 6, ..state });
    let read = TensorRead::read(&bytes).unwrap();
    assert_eq!(
        (read.stamp, read.tick, &read.segments[0].counts[..]),
        (stamp, u64::MAX, &[0, 6, 0][..])
    );
    assert_eq!((envelope.places().run(&bytes), envelope.places().epoch(&bytes)), (8, 2));
    // The form of Isaac ROS has neither.
    let list = Envelope::isaac_tensor_list(&layout, "odd").unwrap();
    let mut rewritten = Vec::new();
    list.rewrite(envelope.places(), &bytes, &mut rewritten);
    assert_eq!((list.places().run(&rewritten), list.places().epoch(&rewritten)), (0, 0));
    assert_eq!(list.places().tick(&rewritten), u64::MAX);
}

#[test]
fn every_truncation_is_an_error() {
    let bytes = message(0, &example());
    for length in 0..bytes.len() {
        let error = Places::read(&bytes[..length]).unwrap_err();
        assert!(
            matches!(error, MessageError::Cdr(CdrError::Truncated { .. })),
            "{length}: {error}"
        );
    }
}

#[test]
fn a_changed_byte_is_never_a_panic() {
    let bytes = message(0, &example());
    let mut read = [0; 2];
    for at in 0..bytes.len() {
        for flip in [0x01, 0x80, 0xFF] {
            let mut changed = bytes.clone();
            changed[at] ^= flip;
            let tensor = TensorRead::read(&changed);
            read[usize::from(tensor.is_ok())] += 1;
            for segment in tensor.iter().flat_map(|tensor| &tensor.segments) {
                assert_eq!(segment.step(0).is_some(), !segment.valid.is_empty());
            }
        }
    }
    assert!(read.iter().all(|count| *count > 100), "{read:?}");
}

#[test]
fn an_impossible_message_is_an_error_that_says_why() {
    let wrong = |change: &dyn Fn(&mut Written), expected: &str| {
        let mut segments = example();
        change(&mut segments[0]);
        let error = Places::read(&message(0, &segments)).unwrap_err().to_string();
        assert!(error.starts_with("segment 'joints': ") || error.contains("distinct"), "{error}");
        assert!(error.ends_with(expected), "{error}");
    };
    wrong(
        &|joints| joints.kind = (0, 8, 1),
        "(4, 16), (1, 8), (0, 32) with 1 lane, found (0, 8) with 1",
    );
    wrong(&|joints| joints.kind.2 = 4, "found (2, 32) with 4");
    wrong(&|joints| joints.shape.clear(), "expected a shape of sizes >= 0, found []");
    wrong(&|joints| joints.shape[1] = -3, "expected a shape of sizes >= 0, found [2, -3]");
    wrong(&|joints| joints.shape[0] = 3, "expected 3 steps in valid, found 2");
    wrong(&|joints| joints.numbers[1].push(1), "expected 2 steps in age_ns, found 3");
    wrong(&|joints| joints.counts[1].clear(), "expected 2 steps in inputs_valid, found 0");
    wrong(&|joints| joints.counts[0][0] = 4, "expected at most 3 entries in count, found 4");
    wrong(&|joints| joints.byte_offset = 4, "an offset that is a multiple of 64, found 4");
    let outside = "f32[2, 3] at byte 64 to lie inside the data, found 68 bytes of data";
    wrong(&|joints| joints.byte_offset = 64, outside);
    wrong(&|joints| joints.byte_offset = u64::MAX - 63, "found 68 bytes of data");
    wrong(&|joints| joints.shape[1] = i64::MAX, "found 68 bytes of data");
    wrong(&|joints| joints.name = "lidar", "distinct segment names, found 'lidar' twice");
    let error = Places::read(&message(1_000_000_000, &[])).unwrap_err();
    assert_eq!(error, MessageError::Nanoseconds { found: 1_000_000_000 });
    let mut bytes = message(0, &[]);
    bytes[17] = 0xFF;
    let error = Places::read(&bytes).unwrap_err().to_string();
    assert_eq!(error, "expected UTF-8 in the string at byte 12, found 62ff7365");
}
