//! Tests of what the message says of each step, of its digest, and of its bytes.

use std::fmt::Write as _;

use robocache_core::cdr::{Reader, Writer};
use robocache_core::contract::Contract;
use robocache_core::message::{Publication, StepState};
use robocache_ops::align::NO_AGE;
use robocache_ops::device::HostBuffer;
use twox_hash::XxHash3_64;

use super::*;

/// The start of the recordings here.
const START: Stamp = Stamp::from_nanos(1_795_000_000_000 * MS);
/// The run of the node, and the epoch of its clock.
const RUN: u64 = 0xFEDC_BA98_7654_3210;
const EPOCH: Epoch = Epoch::numbered(3);

/// The bytes of a message that shows every field, as `write_golden` writes them.
const GOLDEN: &str = "tests/golden/message.txt";

const EVERYTHING: &str = "
rate_hz: 100
lag_ms: 5
base_frame: base
streams:
  joints:
    type: sensor_msgs/msg/JointState
    groups: {arm: [a, b], gripper: [g]}
    inputs: [{topic: /arm}, {topic: /gripper}]
    max_age_ms: 20
    history: {steps: 3, step_ms: 10}
  camera:
    type: sensor_msgs/msg/Image
    topic: /image
    max_age_ms: 50
    dtype: u8
    image: {resize: {width: 2, height: 3}}
  grid:
    type: sensor_msgs/msg/PointCloud2
    topic: /points
    max_age_ms: 50
    dtype: bf16
    cloud:
      origin_m: [-1, -2, 0]
      size_m: 0.5
      shape: [4, 8, 2]
      channels: [{reduce: count}, {reduce: mean, field: intensity}]
  wrench:
    type: geometry_msgs/msg/WrenchStamped
    topic: /wrench
    fields: [force]
    max_age_ms: 10
    fill: last
    dtype: f16
";

fn after(ms: i64) -> Stamp {
    START.offset(ms * MS)
}

fn image(stamp: Stamp, width: u32, height: u32, rgb: &[u8]) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.header(stamp, "camera");
    writer.u32(height);
    writer.u32(width);
    writer.string("rgb8");
    writer.u8(0);
    writer.u32(3 * width);
    writer.bytes(rgb);
    writer.finish()
}

fn wrench(stamp: Stamp, force: [f64; 3]) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.header(stamp, "tool");
    writer.f64_array(&force);
    writer.f64_array(&[0.0; 3]);
    writer.finish()
}

/// A message of [`EVERYTHING`] for the tick 100 ms after the start, with targets at 75, 85 and 95 ms.
fn everything() -> (Pipeline, TensorMessage) {
    let pipeline = pipeline(EVERYTHING).with_run(RUN);
    let arrival = Arrival { epoch: EPOCH, ..Arrival::default() };
    let push = |input: usize, message: &[u8]| {
        pipeline.push(InputId::new(input), message, arrival).unwrap();
    };
    for ms in [80, 90, 100] {
        push(0, &joint_state(after(ms), &["b", "a"], &[-1.0, ms as f64]));
    }
    push(1, &joint_state(after(82), &["g"], &[0.5]));
    let pixels: Vec<u8> = (0..18).map(|at| 13 * at).collect();
    push(2, &image(after(93), 2, 3, &pixels));
    push(4, &wrench(after(80), [1.5, -2.5, 0.25]));
    let mut message = pipeline.new_message();
    let tick = START.nanos() / (10 * MS) + 10;
    assert_eq!(pipeline.tick(tick, EPOCH, &mut message).unwrap(), TickOutcome::Ready);
    (pipeline, message)
}

#[test]
fn every_step_says_its_target_age_count_and_inputs() {
    let (_, message) = everything();
    let step = |valid, target_ms, age_ns, count, inputs_valid| StepState {
        valid,
        target: after(target_ms),
        age_ns,
        count,
        inputs_valid,
    };
    let steps = |at| message.steps(SegmentId::new(at)).to_vec();
    // At 75 ms there is nothing. At 85 and 95 ms the arm is between two rows of input 0, and the
    // gripper holds a row of input 1.
    let joints = [
        step(false, 75, NO_AGE, 3, 0),
        step(true, 85, 3 * MS, 3, 0b11),
        step(true, 95, 13 * MS, 3, 0b11),
    ];
    assert_eq!(steps(0), joints);
    assert_eq!(steps(1), [step(true, 95, 2 * MS, 3, 1)]);
    assert_eq!(steps(2), [step(false, 95, NO_AGE, 2, 0)]);
    // Too old, and filled with the last row: the fill has its three entries.
    assert_eq!(steps(3), [step(false, 95, 15 * MS, 3, 0)]);
}

#[test]
fn the_bit_of_an_input_is_that_of_the_rows_used() {
    let two = pipeline(
        "
rate_hz: 100
streams:
  other: {type: sensor_msgs/msg/JointState, topic: /other, joints: [a], max_age_ms: 20}
  joints:
    type: sensor_msgs/msg/JointState
    joints: [a]
    inputs: [{topic: /zero}, {topic: /one}, {topic: /two}]
    max_age_ms: 20
",
    );
    // Inputs 1 to 3 of the configuration are 0 to 2 of the stream.
    let push = |place: usize, ms: i64| {
        let message = joint_state(Stamp::from_nanos(ms * MS), &["a"], &[ms as f64]);
        two.push(InputId::new(1 + place), &message, Arrival::default()).unwrap();
    };
    let mut message = two.new_message();
    let mut bits = |tick: i64| {
        two.tick(tick, Epoch::default(), &mut message).unwrap();
        message.steps(SegmentId::new(1))[0].inputs_valid
    };
    push(2, 100);
    assert_eq!(bits(10), 0b100, "an exact hit uses one row");
    push(0, 115);
    assert_eq!(bits(11), 0b101, "an interpolation uses two");
    push(1, 115);
    assert_eq!(bits(11), 0b110, "a row that replaces another has its own input");
    assert_eq!(bits(13), 0b010, "after the newest row, that row is held");
    assert_eq!(bits(20), 0, "too old: invalid");
    assert_eq!(bits(9), 0, "nothing before");
}

#[test]
fn a_seal_is_the_hash_of_what_the_message_says() {
    let (pipeline, mut message) = everything();
    assert_eq!(message.digest(), None);
    let unsealed = message.message().to_vec();
    message.seal();
    let digest = message.digest().unwrap();
    let mut bytes = Vec::new();
    for at in 0..pipeline.layout().segments().len() {
        let steps = message.steps(SegmentId::new(at));
        bytes.extend(steps.iter().map(|step| u8::from(step.valid)));
        bytes.extend(steps.iter().flat_map(|step| step.target.nanos().to_le_bytes()));
        bytes.extend(steps.iter().flat_map(|step| step.age_ns.to_le_bytes()));
        bytes.extend(steps.iter().flat_map(|step| step.count.to_le_bytes()));
        bytes.extend(steps.iter().flat_map(|step| step.inputs_valid.to_le_bytes()));
    }
    bytes.extend_from_slice(message.data());
    assert_eq!(digest, XxHash3_64::oneshot(&bytes));

    // It is at one place: behind the encapsulation (4), the stamp (8), the frame "base" (4 + 5), and run, epoch and
    // tick (8 each, at a multiple of 8).
    let differ = |one: &[u8], other: &[u8]| -> Vec<usize> {
        (0..one.len()).filter(|at| one[*at] != other[*at]).collect()
    };
    let places = differ(&unsealed, message.message());
    assert!(places.iter().all(|at| (52..60).contains(at)), "{places:?}");
    assert_eq!(message.message()[52..60], digest.to_le_bytes());

    // The next tick clears it, and the one after gives another.
    let tick = START.nanos() / (10 * MS) + 11;
    pipeline.tick(tick, EPOCH, &mut message).unwrap();
    assert_eq!(message.digest(), None);
    message.seal();
    assert!(message.digest().is_some_and(|other| other != digest));
}

#[test]
fn a_message_names_its_run_and_its_epoch_outside_of_its_digest() {
    let sealed = |pipeline: &Pipeline, epoch: u64, message: &mut TensorMessage| {
        pipeline.tick(10, Epoch::numbered(epoch), message).unwrap();
        message.seal();
        let places = message.envelope().places();
        let name = (places.run(message.message()), places.epoch(message.message()));
        (name, message.digest().unwrap())
    };
    let replay = pipeline(EVERYTHING);
    let mut message = replay.new_message();
    let (name, digest) = sealed(&replay, 0, &mut message);
    assert_eq!((name, replay.run()), ((0, 0), 0), "no node");
    // The same memory goes on with the runs of a node.
    for run in [7, u64::MAX] {
        let node = pipeline(EVERYTHING).with_run(run);
        for epoch in [0, 1, 5] {
            assert_eq!(sealed(&node, epoch, &mut message), ((run, epoch), digest));
        }
        assert_eq!((message.run(), node.run()), (run, run));
        let mut lent = node.new_message_in(HostBuffer::new(node.message_memory_len()));
        assert_eq!(sealed(&node, 6, &mut lent), ((run, 6), digest));
    }
}

#[test]
fn a_bytes_row_is_what_the_floats_are_made_of() {
    let rows = |dtype: &str| -> Vec<f32> {
        let pipeline = pipeline(&format!(
            "rate_hz: 100\nstreams:\n  camera: {{type: sensor_msgs/msg/Image, topic: /image, \
             max_age_ms: 50, dtype: {dtype}, image: {{resize: {{width: 16, height: 9}}, pad_value: 77}}}}\n"
        ));
        let pixels: Vec<u8> = (0..3 * 40 * 31).map(|at| (at / 15) as u8).collect();
        let message = image(Stamp::from_nanos(100 * MS), 40, 31, &pixels);
        pipeline.push(FIRST, &message, Arrival::default()).unwrap();
        served(&pipeline, &mut pipeline.new_message(), 10).0
    };
    let bytes = rows("u8");
    assert!(bytes.contains(&77.0) && bytes.iter().any(|byte| *byte > 200.0));
    let floats: Vec<f32> = bytes.iter().map(|byte| byte / 255.0).collect();
    assert_eq!(rows("f32"), floats);
}

/// As hexadecimal digits, 16 bytes per line.
fn golden_text(bytes: &[u8]) -> String {
    let mut text = String::from(
        "# A whole FusedTensor, sealed, as CDR: joints of two inputs, an image of u8, an empty grid of \
         bf16,\n# and an invalid wrench of f16 (crates/core/tests/core/pipeline/message.rs, tests/python/test_golden.py).\n",
    );
    for line in bytes.chunks(16) {
        line.iter().for_each(|byte| write!(text, "{byte:02x}").unwrap());
        text.push('\n');
    }
    text
}

/// The format is for ever: if this fails, receivers of other versions no longer understand the
/// message. Only a breaking release may write the file again, with `ROBOCACHE_WRITE_MESSAGE=1`.
#[test]
fn the_bytes_of_the_message_are_the_kept_ones() {
    let (_, mut message) = everything();
    message.seal();
    let found = golden_text(message.message());
    if std::env::var_os("ROBOCACHE_WRITE_MESSAGE").is_some() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(GOLDEN);
        std::fs::write(path, found).unwrap();
        return;
    }
    assert_eq!(found, include_str!("../../../../../tests/golden/message.txt"));
}

#[test]
fn the_info_says_what_the_tensor_means() {
    let (pipeline, _) = everything();
    let topics = ["/cell/arm", "/cell/gripper", "/cam"].map(str::to_owned);
    let stamp = after(7);
    let bytes =
        pipeline.info(&Publication { stamp, topics: &topics, digest: true, backend: "cpu" });
    let mut info = Info(Reader::new(&bytes).unwrap());
    assert_eq!((info.0.i32().unwrap(), info.0.u32().unwrap()), stamp.to_sec_nanosec());
    assert_eq!(info.text(), "base");
    assert_eq!(info.text(), env!("CARGO_PKG_VERSION"));
    assert_eq!((info.text(), info.text(), info.text()), ("cpu", "test.yaml", EVERYTHING));
    assert_eq!((info.0.f64().unwrap(), info.0.i64().unwrap()), (100.0, 10 * MS));
    assert_eq!((info.0.u8().unwrap(), info.0.u32().unwrap()), (1, 4));

    assert_eq!([info.text(), info.text(), info.text()], ["joints", "vector", "f32"]);
    assert_eq!(info.i64s(), [3, 3]);
    assert_eq!(info.texts(), ["a.position", "b.position", "g.position"]);
    assert_eq!(info.texts(), ["/cell/arm", "/cell/gripper"]);
    assert_eq!(info.texts(), ["sensor_msgs/msg/JointState"; 2]);
    info.times(["header", "linear", "zero"], [5, 10, 20, 40]);
    info.numbers([&[], &[], &[]], 0.0);
    info.made_by("", &[]);

    assert_eq!([info.text(), info.text(), info.text()], ["camera", "image", "u8"]);
    assert_eq!((info.i64s(), info.texts()), (vec![1, 3, 3, 2], vec!["r", "g", "b"]));
    assert_eq!((info.texts(), info.texts()), (vec!["/cam"], vec!["sensor_msgs/msg/Image"]));
    info.times(["header", "hold", "zero"], [5, 0, 50, 0]);
    info.numbers([&[], &[], &[]], 0.0);
    info.made_by("chw", &["pil_bilinear"]);

    assert_eq!([info.text(), info.text(), info.text()], ["grid", "voxels", "bf16"]);
    assert_eq!(
        (info.i64s(), info.texts()),
        (vec![1, 2, 2, 8, 4], vec!["count", "mean(intensity)"])
    );
    // This topic was not given: it is the configuration's.
    assert_eq!(
        (info.texts(), info.texts()),
        (vec!["/points"], vec!["sensor_msgs/msg/PointCloud2"])
    );
    info.times(["header", "hold", "zero"], [5, 0, 50, 0]);
    info.numbers([&[], &[], &[-1.0, -2.0, 0.0]], 0.5);
    info.made_by("", &[]);

    assert_eq!([info.text(), info.text(), info.text()], ["wrench", "vector", "f16"]);
    assert_eq!((info.i64s(), info.texts()), (vec![1, 3], vec!["force.x", "force.y", "force.z"]));
    assert_eq!(info.texts(), ["/wrench"]);
    assert_eq!(info.texts(), ["geometry_msgs/msg/WrenchStamped"]);
    info.times(["header", "linear", "last"], [5, 0, 10, 20]);
    info.numbers([&[], &[], &[]], 0.0);
    info.made_by("", &[]);
    let contract = info.text();
    assert_eq!(Contract::parse(contract).unwrap().to_string(), contract);
    assert!(info.0.u8().is_err(), "nothing follows");
}

#[test]
fn the_info_has_the_normalisation_of_images() {
    let pipeline = pipeline(
        "rate_hz: 100\nstreams:\n  camera: {type: sensor_msgs/msg/Image, topic: /image, \
         max_age_ms: 50, dtype: f16, image: {resize: {width: 1, height: 1}, color: mono, mean: [0.25], \
         std: [0.5]}}\n",
    );
    let bytes = pipeline.info(&Publication {
        stamp: Stamp::ZERO,
        topics: &[],
        digest: false,
        backend: "cpu",
    });
    let numbers =
        [1u32.to_le_bytes(), 0.25f32.to_le_bytes(), 1u32.to_le_bytes(), 0.5f32.to_le_bytes()];
    // What follows: an empty origin, a size of 0, no units and operators, layout and filter.
    let number = u32::to_le_bytes;
    let made_by = [&number(4), &b"chw\0"[..], &number(1), &number(13), b"pil_bilinear\0"].concat();
    let tail = [numbers.as_flattened(), &[0; 16], &made_by].concat();
    // The contract is behind them, at the next multiple of 4 bytes.
    let at = bytes.windows(tail.len()).position(|window| window == tail).unwrap() + tail.len();
    let contract = &bytes[at.next_multiple_of(4) + 4..bytes.len() - 1];
    let contract = Contract::parse(std::str::from_utf8(contract).unwrap()).unwrap();
    assert_eq!(contract.streams().collect::<Vec<_>>(), ["camera"]);
}

/// Reads what the crate's own reader does not need.
struct Info<'a>(Reader<'a>);

impl<'a> Info<'a> {
    fn text(&mut self) -> &'a str {
        std::str::from_utf8(self.0.string_bytes().unwrap()).unwrap()
    }

    fn list<T>(&mut self, mut read: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.0.u32().unwrap()).map(|_| read(self)).collect()
    }

    fn texts(&mut self) -> Vec<&'a str> {
        self.list(Info::text)
    }

    fn i64s(&mut self) -> Vec<i64> {
        self.list(|info| info.0.i64().unwrap())
    }

    fn f32(&mut self) -> f32 {
        f32::from_bits(self.0.u32().unwrap())
    }

    /// The timeline of every input, strategy and fill; lag, history step, greatest age and gap \[ms\].
    /// The targets are those of a history.
    fn times(&mut self, names: [&str; 3], ms: [i64; 4]) {
        let timelines = self.texts();
        assert!(!timelines.is_empty() && timelines.iter().all(|timeline| *timeline == names[0]));
        let mut next = || self.0.i64().unwrap();
        assert_eq!([next(), next()], [ms[0] * MS, ms[1] * MS]);
        let offsets = self.i64s();
        let back = |step: usize| (offsets.len() - 1 - step) as i64 * ms[1];
        let expected: Vec<_> = (0..offsets.len()).map(|step| -(ms[0] + back(step)) * MS).collect();
        assert_eq!(offsets, expected);
        assert_eq!(self.text(), names[1]);
        let mut next = || self.0.i64().unwrap();
        assert_eq!([next(), next()], [ms[2] * MS, ms[3] * MS]);
        assert_eq!(self.text(), names[2]);
    }

    /// The layout of an image, and its filters.
    fn made_by(&mut self, layout: &str, filters: &[&str]) {
        assert_eq!(self.text(), layout);
        assert_eq!(self.texts(), filters);
    }

    /// Mean, std and origin, and the size of a voxel.
    fn numbers(&mut self, lists: [&[f32]; 3], size_m: f32) {
        let [mean, std, origin] = lists;
        assert_eq!(self.list(Info::f32), mean);
        assert_eq!(self.list(Info::f32), std);
        let origin: Vec<_> = origin.iter().copied().map(f64::from).collect();
        assert_eq!(self.list(|info| info.0.f64().unwrap()), origin);
        assert_eq!(self.f32(), size_m);
        // No operators: neither units nor operators.
        assert_eq!([self.0.u32().unwrap(), self.0.u32().unwrap()], [0, 0]);
    }
}
