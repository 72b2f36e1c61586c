//! Clouds of several inputs in one grid: rows follow from the clouds, whatever their order of arrival.

use proptest::prelude::*;
use robocache_core::cdr::Writer;
use robocache_core::cdr::messages::{PointCloud2, PointField};

use super::*;

/// Places of the sensors: a cloud of input `i` is moved by this [m].
const SHIFTS: [[f32; 3]; 3] = [[0.0, 0.0, 0.0], [2.0, 0.0, 0.0], [0.0, 1.0, 0.0]];
/// The greatest age of each input's clouds, and that of the stream [ms].
const AGES: [i64; 3] = [20, 12, 7];
const MAX_AGE: i64 = 20;
const ROWS: usize = 4;
/// Voxels of 1 m from the origin on.
const SHAPE: [usize; 3] = [4, 3, 1];
const CHANNELS: usize = 4;

fn config(valid_when: &str) -> String {
    format!(
        "
rate_hz: 200
streams:
  cells:
    type: sensor_msgs/PointCloud2
    max_age_ms: {MAX_AGE}
    history: {{steps: 6, step_ms: 5}}
    ring_rows: {ROWS}
    valid_when: {valid_when}
    inputs:
      - {{topic: /front}}
      - {{topic: /rear, max_age_ms: 12, t_base_sensor: {{translation_m: [2, 0, 0]}}}}
      - topic: /scan
        type: sensor_msgs/LaserScan
        max_age_ms: 7
        t_base_sensor: {{translation_m: [0, 1, 0]}}
    cloud:
      origin_m: [0, 0, 0]
      size_m: 1
      shape: [4, 3, 1]
      channels:
        - {{reduce: count}}
        - {{reduce: mean, field: intensity}}
        - {{reduce: last, field: intensity}}
        - {{reduce: sum, feature: offset_x}}
"
    )
}

/// A message of an input. Points are x, y, z and intensity; a scan has only their x and intensity.
#[derive(Clone, Debug)]
struct Given {
    input: usize,
    ms: i64,
    points: Vec<[f32; 4]>,
}

impl Given {
    fn message(&self) -> Vec<u8> {
        let stamp = Stamp::from_nanos(self.ms * MS);
        match self.input {
            2 => scan(stamp, &self.points),
            _ => cloud(stamp, &self.points),
        }
    }

    /// The points in the base frame.
    fn in_base(&self) -> impl Iterator<Item = [f32; 4]> + '_ {
        let [dx, dy, dz] = SHIFTS[self.input];
        self.points.iter().map(move |[x, y, z, intensity]| match self.input {
            2 => [x + dx, dy, dz, *intensity],
            _ => [x + dx, y + dy, z + dz, *intensity],
        })
    }
}

pub(super) fn cloud(stamp: Stamp, points: &[[f32; 4]]) -> Vec<u8> {
    let field = |(at, name): (u32, _)| PointField { name, offset: 4 * at, datatype: 7, count: 1 };
    let fields = [(0, "x"), (1, "y"), (2, "z"), (3, "intensity")].map(field);
    let width = points.len() as u32;
    let cloud = PointCloud2 {
        stamp,
        frame_id: "lidar",
        height: 1,
        width,
        fields: &fields,
        is_bigendian: false,
        point_step: 16,
        row_step: 16 * width,
        is_dense: true,
    };
    let bytes = points.as_flattened().iter().flat_map(|number| number.to_le_bytes());
    cloud.to_cdr(Vec::new(), |data| data.extend(bytes))
}

/// A scan whose rays all point along x.
fn scan(stamp: Stamp, points: &[[f32; 4]]) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.header(stamp, "scanner");
    [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 100.0].into_iter().for_each(|number| writer.f32(number));
    writer.f32_sequence(points.iter().map(|point| point[0]));
    writer.f32_sequence(points.iter().map(|point| point[3]));
    writer.finish()
}

/// Expected step: its values, validity, age [ms] and inputs.
#[derive(Debug, PartialEq)]
struct Step {
    values: Vec<f32>,
    valid: bool,
    age_ns: i64,
    inputs_valid: u32,
}

/// The steps by the definition: from all messages that came, in this order.
fn expected(given: &[Given], tick_ms: i64, suffices: Suffices) -> Vec<Step> {
    let mut kept: Vec<&Given> = Vec::new();
    for cloud in given {
        kept.retain(|other| (other.input, other.ms) != (cloud.input, cloud.ms));
        kept.push(cloud);
    }
    let mut rows: Vec<i64> = kept.iter().map(|cloud| cloud.ms).collect();
    rows.sort_unstable();
    rows.dedup();
    let rows = &rows[rows.len().saturating_sub(ROWS)..];
    (0..6).map(|step| expected_step(&kept, rows, tick_ms - 25 + 5 * step, suffices)).collect()
}

fn expected_step(kept: &[&Given], rows: &[i64], target: i64, suffices: Suffices) -> Step {
    let empty = vec![0.0; CHANNELS * SHAPE.iter().product::<usize>()];
    let Some(row) = rows.iter().rev().find(|row| **row <= target) else {
        return Step { values: empty, valid: false, age_ns: NO_AGE, inputs_valid: 0 };
    };
    let newest = |input: usize| {
        let of_input = kept.iter().filter(|cloud| cloud.input == input && cloud.ms <= *row);
        of_input.max_by_key(|cloud| cloud.ms).filter(|cloud| row - cloud.ms <= AGES[input])
    };
    let held: Vec<&&Given> = (0..3).filter_map(newest).collect();
    let in_time = |cloud: &Given| target - cloud.ms <= AGES[cloud.input];
    let age = target - row;
    let bits = held.iter().filter(|cloud| in_time(cloud)).fold(0, |bits, c| bits | 1 << c.input);
    let valid = age <= MAX_AGE && held.iter().all(|cloud| in_time(cloud)) && suffices(bits);
    // An invalid step is filled with zeros, which no input gave.
    let (values, inputs_valid) = if valid { (grid(&held), bits) } else { (empty, 0) };
    Step { values, valid, age_ns: age * MS, inputs_valid }
}

/// The grid by a plain loop.
fn grid(clouds: &[&&Given]) -> Vec<f32> {
    let volume = SHAPE.iter().product::<usize>();
    let mut cells: Vec<Vec<[f32; 2]>> = vec![Vec::new(); volume];
    for [x, y, z, intensity] in clouds.iter().flat_map(|cloud| cloud.in_base()) {
        let at = [x, y, z].map(|c| c.floor() as i64);
        if at.iter().zip(SHAPE).all(|(at, n)| (0..n as i64).contains(at)) {
            let [i, j, _] = at.map(|at| at as usize);
            cells[j * SHAPE[0] + i].push([intensity, x - (x.floor() + 0.5)]);
        }
    }
    let mut values = vec![0.0; CHANNELS * volume];
    for (cell, points) in cells.iter().enumerate().filter(|(_, points)| !points.is_empty()) {
        let sum = |at: usize| points.iter().map(|point| f64::from(point[at])).sum::<f64>();
        let channels = [
            points.len() as f64,
            sum(0) / points.len() as f64,
            f64::from(points.last().unwrap()[0]),
            sum(1),
        ];
        for (channel, value) in channels.into_iter().enumerate() {
            values[channel * volume + cell] = value as f32;
        }
    }
    values
}

fn steps(pipeline: &Pipeline, message: &mut TensorMessage, tick_ms: i64) -> Vec<Step> {
    let outcome = pipeline.tick(tick_ms / 5, Epoch::default(), message).unwrap();
    assert_eq!(outcome, TickOutcome::Ready);
    let all = values(pipeline, message, SEGMENT);
    let len = all.len() / 6;
    let step = |(at, state): (usize, &robocache_core::message::StepState)| Step {
        values: all[len * at..][..len].to_vec(),
        valid: state.valid,
        age_ns: state.age_ns,
        inputs_valid: state.inputs_valid,
    };
    message.steps(SEGMENT).iter().enumerate().map(step).collect()
}

/// Pushes a message; returns why it was dropped.
fn push(pipeline: &Pipeline, given: &Given) -> Option<DropReason> {
    let input = InputId::new(given.input);
    match pipeline.push(input, &given.message(), Arrival::default()) {
        Ok(accepted) => {
            assert!(accepted.rows > 0 && accepted.part.is_none());
            assert_eq!(accepted.stamp, Some(Stamp::from_nanos(given.ms * MS)));
            None
        }
        Err(NotTaken::Dropped(rejected)) => Some(rejected.reason),
        Err(error) => panic!("{error}"),
    }
}

/// Judges if the inputs of a step suffice: bit `i` for input `i`.
type Suffices = fn(u32) -> bool;

/// When a step is valid, in the configuration and by its inputs.
const MODES: [(&str, Suffices); 3] = [
    ("all", |inputs| inputs == 7),
    ("any", |inputs| inputs != 0),
    ("[/rear]", |inputs| inputs & 2 != 0),
];

fn given() -> impl Strategy<Value = Given> {
    let quarter = |from: i32, to: i32| (from..to).prop_map(|q| q as f32 * 0.25 + 0.125);
    let point = (quarter(-4, 20), quarter(-2, 14), quarter(0, 5), -50i32..50)
        .prop_map(|(x, y, z, intensity)| [x.abs(), y, z, intensity as f32]);
    (0..3usize, 100..130i64, prop::collection::vec(point, 0..6))
        .prop_map(|(input, ms, points)| Given { input, ms, points })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Clouds come in any order, late, twice and at equal stamps. After each, every tick is as defined.
    #[test]
    fn rows_follow_from_the_clouds_in_any_order(
        given in prop::collection::vec(given(), 1..16),
        mode in 0..MODES.len(),
    ) {
        let (valid_when, suffices) = MODES[mode];
        let pipeline = pipeline(&config(valid_when));
        let mut message = pipeline.new_message();
        for count in 1..=given.len() {
            let dropped = push(&pipeline, &given[count - 1]);
            prop_assert!(dropped.is_none_or(|reason| reason == DropReason::Late));
            for tick_ms in [115, 130, 145] {
                let found = steps(&pipeline, &mut message, tick_ms);
                let expected = expected(&given[..count], tick_ms, suffices);
                prop_assert_eq!(found, expected, "after {} at {} ms", count, tick_ms);
            }
        }
    }
}

#[test]
fn all_orders_of_the_same_clouds_give_the_same_message() {
    let point = |x: f32, intensity: f32| vec![[x, 0.5, 0.5, intensity]];
    let given = [(0, 100, 0.5), (1, 104, 0.5), (2, 104, 1.5), (0, 108, 0.5), (1, 112, 1.5)];
    let given = given.map(|(input, ms, x)| Given { input, ms, points: point(x, ms as f32) });
    let mut messages = Vec::new();
    for mut order in 0..120 {
        let pipeline = pipeline(&config("any"));
        let mut left: Vec<&Given> = given.iter().collect();
        for choices in (1..=left.len()).rev() {
            push(&pipeline, left.remove(order % choices));
            order /= choices;
        }
        let mut message = pipeline.new_message();
        let found = steps(&pipeline, &mut message, 115);
        assert_eq!(found, expected(&given, 115, MODES[1].1));
        messages.push(message.message().to_vec());
    }
    assert!(messages.iter().all(|message| *message == messages[0]));
}

/// A late cloud makes only its rows again, and one that no row can hold is dropped.
#[test]
fn a_late_cloud_makes_its_rows_again() {
    let pipeline = pipeline(&config("any"));
    let at = |input, ms| Given { input, ms, points: vec![[0.5, 0.5, 0.5, 1.0]] };
    for ms in [100, 105, 110, 115] {
        assert_eq!(push(&pipeline, &at(0, ms)), None);
    }
    let stats = pipeline.stats(STREAM);
    let counts = || (stats.rows.get(), stats.remade.get(), stats.replaced.get());
    assert_eq!(counts(), (4, 0, 0));
    // No row of its own in the full ring, but in the rows at 100 and 105 it is not older than 12 ms.
    assert_eq!(push(&pipeline, &at(1, 95)), None);
    assert_eq!(counts(), (6, 2, 0));
    assert_eq!(push(&pipeline, &at(1, 94)), Some(DropReason::Late));
    assert_eq!(push(&pipeline, &at(0, 99)), Some(DropReason::Late));
    assert_eq!(push(&pipeline, &at(2, 92)), Some(DropReason::Late));
    // The same stamp replaces.
    assert_eq!(push(&pipeline, &at(0, 110)), None);
    assert_eq!(counts(), (7, 2, 1));
    // Another input at the same stamp shares the row; the one at 115 holds its cloud as well.
    assert_eq!(push(&pipeline, &at(2, 110)), None);
    assert_eq!(counts(), (9, 4, 1));
    let input = pipeline.input_stats(InputId::new(1));
    assert_eq!((input.received.get(), input.accepted.get(), input.dropped_total()), (2, 1, 1));
}

#[test]
fn a_malformed_cloud_changes_no_row() {
    let pipeline = pipeline(&config("any"));
    let good = Given { input: 0, ms: 105, points: vec![[0.5, 0.5, 0.5, 1.0]] };
    assert_eq!(push(&pipeline, &good), None);
    let mut message = pipeline.new_message();
    let before = steps(&pipeline, &mut message, 110);
    for input in 0..3 {
        let other = Given { input, ms: 106, points: vec![[1.5, 0.5, 0.5, 2.0]; 2] };
        let bytes = other.message();
        let mut huge = bytes.clone();
        huge.truncate(bytes.len() - 1 - bytes.len() % 4);
        for bytes in [&bytes[..20], &bytes[..bytes.len() / 2], &huge[..huge.len() - 8], &[]] {
            let result = pipeline.push(InputId::new(input), bytes, Arrival::default());
            let Err(NotTaken::Dropped(rejected)) = result else { panic!("{result:?}") };
            assert_eq!(rejected.reason, DropReason::Malformed);
        }
        let stats = pipeline.input_stats(InputId::new(input));
        assert_eq!(stats.dropped(DropReason::Malformed), 4);
    }
    assert_eq!(steps(&pipeline, &mut message, 110), before);
    assert_eq!(pipeline.stats(STREAM).rows.get(), 1);
}

#[test]
fn an_epoch_begins_without_clouds() {
    let pipeline = pipeline(&config("any"));
    let at = |input, ms| Given { input, ms, points: vec![[0.5, 0.5, 0.5, 1.0]] };
    assert_eq!((push(&pipeline, &at(0, 105)), push(&pipeline, &at(1, 106))), (None, None));
    let epoch = Epoch::default().next(Some(Stamp::from_nanos(100 * MS)));
    let arrival = Arrival { epoch, ..Arrival::default() };
    pipeline.push(InputId::new(2), &at(2, 107).message(), arrival).unwrap();
    let mut message = pipeline.new_message();
    assert_eq!(pipeline.tick(22, epoch, &mut message).unwrap(), TickOutcome::Ready);
    let step = message.steps(SEGMENT)[5];
    assert_eq!((step.valid, step.inputs_valid), (true, 4), "the clouds of before are gone");
    let error = pipeline.push(InputId::new(0), &at(0, 108).message(), Arrival::default());
    assert!(matches!(error, Err(NotTaken::Dropped(r)) if r.reason == DropReason::Cleared));
}

/// A tick, a message of any input: whatever begins the epoch, no row holds a cloud from before, also
/// at the same stamps.
#[test]
fn no_cloud_of_an_input_outlives_its_epoch() {
    let at = |input, ms| Given { input, ms, points: vec![[0.5, 0.5, 0.5, 1.0]] };
    for by_tick in [true, false] {
        for first in 0..3 {
            let pipeline = pipeline(&config("any"));
            for input in 0..3 {
                assert_eq!(push(&pipeline, &at(input, 105)), None);
            }
            let epoch = Epoch::default().next(Some(Stamp::from_nanos(100 * MS)));
            let arrival = Arrival { epoch, ..Arrival::default() };
            let mut message = pipeline.new_message();
            let mut newest = || {
                let outcome = pipeline.tick(22, epoch, &mut message).unwrap();
                assert_eq!(outcome, TickOutcome::Ready);
                let step = message.steps(SEGMENT)[5];
                (step.valid, step.inputs_valid)
            };
            if by_tick {
                assert_eq!(newest(), (false, 0));
            }
            let mut bits = 0;
            for input in [first, (first + 1) % 3, (first + 2) % 3] {
                let given = at(input, 105);
                pipeline.push(InputId::new(input), &given.message(), arrival).unwrap();
                bits |= 1 << input;
                assert_eq!(newest(), (true, bits), "by a tick: {by_tick}, from input {first} on");
            }
        }
    }
}

/// The points of a row are counted when it is made, and not once more when it is made again.
#[test]
fn a_row_that_is_made_again_counts_its_points_once() {
    let keys = "shape: [4, 3, 1]\n      min_points: 2\n      output: sparse\n      max_voxels: 1";
    let pipeline = pipeline(&config("any").replace("shape: [4, 3, 1]", keys));
    // Two full voxels, and one with too few points.
    let points = [0.5, 0.5, 1.5, 1.5, 2.5].map(|x| [x, 0.5, 0.5, 1.0]).to_vec();
    for ms in [105, 110] {
        assert_eq!(push(&pipeline, &Given { input: 0, ms, points: points.clone() }), None);
    }
    let stats = pipeline.stats(STREAM);
    let counts = || {
        let counters = [&stats.remade, &stats.points_too_few, &stats.voxels_beyond_capacity];
        counters.map(robocache_core::pipeline::Counter::get)
    };
    assert_eq!(counts(), [0, 2, 2]);
    // It belongs in both rows, outside of the grid. Its own row in between is a new one.
    let outside = vec![[90.0, 0.5, 0.5, 1.0]];
    assert_eq!(push(&pipeline, &Given { input: 1, ms: 105, points: outside.clone() }), None);
    assert_eq!(counts(), [2, 2, 2]);
    assert_eq!(push(&pipeline, &Given { input: 2, ms: 107, points: outside }), None);
    assert_eq!(counts(), [3, 3, 3]);
    // The sensor's correction of a cloud is another cloud.
    assert_eq!(push(&pipeline, &Given { input: 0, ms: 110, points }), None);
    assert_eq!(counts(), [3, 4, 4]);
}

/// The row that is served is the one made last: what it leaves out beyond those before it is counted.
#[test]
fn a_row_that_is_made_again_counts_what_it_leaves_out_in_addition() {
    let keys = "shape: [4, 3, 1]\n      min_points: 2\n      output: sparse\n      max_voxels: 3";
    let pipeline = pipeline(&config("any").replace("shape: [4, 3, 1]", keys));
    let stats = pipeline.stats(STREAM);
    let counts = || {
        let counters = [&stats.remade, &stats.points_too_few, &stats.voxels_beyond_capacity];
        counters.map(robocache_core::pipeline::Counter::get)
    };
    let push = |input, points: &[[f32; 2]]| {
        let points = points.iter().map(|[x, y]| [*x, *y, 0.5, 1.0]).collect();
        assert_eq!(push(&pipeline, &Given { input, ms: 105, points }), None);
    };
    // Two full voxels, and one with too few points.
    push(0, &[[0.5, 0.5], [0.5, 0.5], [1.5, 0.5], [1.5, 0.5], [0.5, 1.5]]);
    assert_eq!(counts(), [0, 1, 0]);
    // Two other full voxels; one of them has no room. And two other voxels with too few points.
    push(1, &[[0.5, 0.5], [0.5, 0.5], [1.5, 0.5], [1.5, 0.5], [0.5, 1.5], [1.5, 1.5]]);
    assert_eq!(counts(), [1, 3, 1]);
    // A scan fills one of those with too few points. It has no room either.
    push(2, &[[0.5, 0.0]]);
    assert_eq!(counts(), [2, 3, 2]);
}

/// The clock jumps at different moments while a late cloud is taken, which is only in rows of others.
/// The cloud is in them, or it is dropped; it is never accepted and in no row.
#[test]
fn a_late_cloud_that_a_jump_overtakes_is_no_cloud_of_any_row() {
    let late = cloud(Stamp::from_nanos(95 * MS), &vec![[0.5, 0.5, 0.5, 1.0]; 50_000]);
    for round in 0..60 {
        let pipeline = pipeline(&config("any"));
        for ms in [100, 105, 110, 115] {
            let given = Given { input: 0, ms, points: vec![[0.5, 0.5, 0.5, 1.0]] };
            assert_eq!(push(&pipeline, &given), None);
        }
        let pushed = std::thread::scope(|scope| {
            let pushed = scope.spawn(|| pipeline.push(InputId::new(1), &late, Arrival::default()));
            std::thread::sleep(std::time::Duration::from_micros(200 * round));
            let epoch = Epoch::default().next(Some(Stamp::from_nanos(50 * MS)));
            pipeline.tick(11, epoch, &mut pipeline.new_message()).unwrap();
            pushed.join().unwrap()
        });
        match pushed {
            Ok(accepted) => assert_eq!(accepted.rows, 2, "round {round}"),
            Err(NotTaken::Dropped(rejected)) => assert_eq!(rejected.reason, DropReason::Cleared),
            Err(error) => panic!("{error}"),
        }
    }
}

/// A value that `f16` cannot hold: the row holds nothing and is invalid, also of other clouds.
#[test]
fn a_row_that_cannot_be_encoded_is_invalid() {
    let text = config("any").replace("max_age_ms: 20", "dtype: f16\n    max_age_ms: 20");
    let pipeline = pipeline(&text);
    let at = |input, ms, value| Given { input, ms, points: vec![[0.5, 0.5, 0.5, value]] };
    assert_eq!(push(&pipeline, &at(1, 100, 1.0)), None);
    let beyond = at(0, 105, 70_000.0).message();
    let accepted = pipeline.push(FIRST, &beyond, Arrival::default()).unwrap();
    assert_eq!(accepted.part.unwrap().reason, DropReason::OutOfRange);
    assert_eq!(pipeline.input_stats(FIRST).parts_dropped(DropReason::OutOfRange), 1);
    let mut message = pipeline.new_message();
    let states = |message: &mut TensorMessage| -> Vec<_> {
        let found = steps(&pipeline, message, 110);
        found[3..].iter().map(|step| (step.valid, step.inputs_valid)).collect()
    };
    assert_eq!(states(&mut message), [(true, 2), (false, 0), (false, 0)]);
    // A cloud of the same stamp takes its place.
    assert_eq!(push(&pipeline, &at(0, 105, 3.0)), None);
    assert_eq!(states(&mut message), [(true, 2), (true, 3), (true, 3)]);
}

/// Three threads push while a fourth one ticks. In the end the rows are those of all the clouds.
#[test]
fn inputs_may_be_pushed_by_several_threads() {
    // The last rows are 5 ms apart, from 4580 to 4595 ms.
    let given = |input: usize, k: i64| {
        let point = [0.125 + (k % 4) as f32, 0.375, 0.5, (1000 * input as i64 + k) as f32];
        Given { input, ms: 100 + 15 * k + 5 * input as i64, points: vec![point; 1 + input] }
    };
    let pipeline = pipeline(&config("any"));
    let done = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for input in 0..3 {
            let pipeline = &pipeline;
            let done = &done;
            scope.spawn(move || {
                for k in 0..300 {
                    // Refused messages show in the counts.
                    let _ = push(pipeline, &given(input, k));
                }
                done.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            });
        }
        let mut message = pipeline.new_message();
        while done.load(std::sync::atomic::Ordering::SeqCst) < 3 {
            steps(&pipeline, &mut message, 4600);
        }
    });
    for input in 0..3 {
        let stats = pipeline.input_stats(InputId::new(input));
        let dropped = stats.dropped(DropReason::Late);
        assert_eq!((stats.received.get(), stats.accepted.get() + dropped), (300, 300));
    }
    let mut message = pipeline.new_message();
    let found = steps(&pipeline, &mut message, 4600);
    let all: Vec<_> = (0..3).flat_map(|input| (0..300).map(move |k| given(input, k))).collect();
    assert_eq!(found, expected(&all, 4600, MODES[1].1));
    let inputs: Vec<_> = found.iter().map(|step| step.inputs_valid).collect();
    assert_eq!(inputs, [0, 7, 7, 3, 7, 7]);
}

/// A stream of one input in `inputs` gives the bits of a stream with a topic, and so do merged rows that
/// hold clouds of one input.
#[test]
fn one_input_gives_the_bits_of_a_topic() {
    let keys = |rest: &str, cloud: &str| {
        format!(
            "
rate_hz: 100
streams:
  cells:
    type: sensor_msgs/PointCloud2
    max_age_ms: 20
    {rest}
    cloud:
      size_m: 0.3
      shape: [20, 20, 10]
      min_range_m: 0.5
      {cloud}
      self_filter: [{{size_m: [1, 1, 1]}}, {{frame: sensor, radius_m: 0.7}}]
      channels:
        - {{reduce: count}}
        - {{reduce: mean, field: x}}
        - {{reduce: max, field: y}}
        - {{reduce: min, field: z}}
        - {{reduce: last, field: intensity}}
        - {{reduce: mean, field: intensity}}
        - {{reduce: mean, feature: range}}
        - {{reduce: sum, feature: offset_z}}
"
        )
    };
    let mut state = 7u64;
    let mut random = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 40) as f32 / (1u64 << 24) as f32
    };
    let mut occupied = 0;
    for (origin, sparse) in [([-3.0, -3.0, -1.0], false), ([456_786.0, -3.0, -1.0], true)] {
        let output = if sparse { "output: sparse\n      max_voxels: 900" } else { "" };
        let cloud_keys = format!("origin_m: {origin:?}\n      min_points: 2\n      {output}");
        let turn = format!(
            "t_base_sensor: {{translation_m: [{}, 0.2, 0.1], rotation_rpy_deg: [10, -20, 130]}}",
            origin[0] + 3.0
        );
        let single = pipeline(&keys(&format!("topic: /a\n    {turn}"), &cloud_keys));
        let only = pipeline(&keys(&format!("inputs: [{{topic: /a, {turn}}}]"), &cloud_keys));
        let inputs = format!("valid_when: any\n    inputs: [{{topic: /a, {turn}}}, {{topic: /b}}]");
        let merged = pipeline(&keys(&inputs, &cloud_keys));
        for tick in 10..30 {
            let stamp = Stamp::from_nanos(10 * tick * MS);
            let mut point = |_| {
                let [x, y, z, intensity] = [0; 4].map(|_| random() * 6.0 - 3.0);
                if random() < 0.02 { [f32::NAN; 4] } else { [x, y, z, 2.5e6 * intensity / 3.0] }
            };
            let message = cloud(stamp, &(0..4000).map(&mut point).collect::<Vec<_>>());
            let found = [&single, &only, &merged].map(|pipeline| {
                pipeline.push(FIRST, &message, Arrival::default()).unwrap();
                let mut message = pipeline.new_message();
                assert_eq!(
                    pipeline.tick(tick, Epoch::default(), &mut message).unwrap(),
                    TickOutcome::Ready
                );
                message.seal();
                let stats = pipeline.stats(STREAM);
                let drops = [
                    &stats.points_non_finite,
                    &stats.points_out_of_range,
                    &stats.points_outside,
                    &stats.points_out_of_reach,
                    &stats.points_on_robot,
                    &stats.points_too_few,
                    &stats.voxels_beyond_capacity,
                ];
                let drops = drops.map(robocache_core::pipeline::Counter::get);
                assert!(drops[..5].iter().all(|count| *count > 0), "{drops:?}");
                occupied += message.data().iter().filter(|byte| **byte != 0).count();
                (message.message().to_vec(), drops)
            });
            for other in &found[1..] {
                assert!(found[0] == *other, "tick {tick}: {:?} and {:?}", found[0].1, other.1);
            }
        }
    }
    assert!(occupied > 100_000, "{occupied} bytes");
}
