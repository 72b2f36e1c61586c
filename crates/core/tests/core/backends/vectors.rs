//! Ticks over vector streams: strategies, element types, lanes, odd sizes, wrapped rings, and groups
//! of channels whose places in the row are scattered.

use robocache_core::backend::StepJob;
use robocache_core::encoder::EncoderSpec;
use robocache_core::layout::RingPlace;
use robocache_core::ring::Ring;
use robocache_core::sample::Sample;
use robocache_core::spec::{RingId, StreamSpec};
use robocache_ops::align::{AlignRule, Fill, Position, Strategy, Value};
use robocache_ops::dtype::DType;
use robocache_ops::operators::{Channel, Group, VectorSpec};
use robocache_ops::operators::{Operator, OutputChannel, Source};
use robocache_ops::resample::Lane;
use robocache_ops::time::Stamp;

use crate::backends::random::Random;
use crate::backends::subject::{Kind, Pair, stream};

const TICKS_PER_PAIR: usize = 20;

pub(super) fn check(kind: &Kind, cases: usize) {
    check_pairs(kind, cases, 0, |_, lanes| VectorSpec::whole(channels(lanes)));
}

/// Checks vectors with channels that arrive in several samples.
pub(super) fn check_groups(kind: &Kind, cases: usize) {
    check_pairs(kind, cases, 100_000, grouped);
}

/// Checks vectors with operators: before and after the interpolation, from step to step, and such that make
/// six numbers of a quaternion.
pub(super) fn check_operators(kind: &Kind, cases: usize) {
    check_pairs(kind, cases, 200_000, |random, lanes| {
        let mut spec = grouped(random, lanes);
        spec.outputs = outputs(random, &spec);
        spec
    });
}

fn outputs(random: &mut Random, spec: &VectorSpec) -> Vec<OutputChannel> {
    let mut outputs = Vec::new();
    let mut at = 0;
    while at < spec.channels.len() {
        let turns = spec.channels[at].lane == Lane::Quaternion;
        if turns && random.one_in(2) {
            for entry in [[0, 0], [1, 0], [2, 0], [0, 1], [1, 1], [2, 1]] {
                let source = Source::Rotation { quaternion: at, row: entry[0], column: entry[1] };
                outputs.push(output(random, source, false));
            }
        } else {
            let channels = if turns { at..at + 4 } else { at..at + 1 };
            outputs.extend(channels.map(|at| output(random, Source::Channel(at), !turns)));
        }
        at += if turns { 4 } else { 1 };
    }
    outputs
}

fn output(random: &mut Random, source: Source, may_unwrap: bool) -> OutputChannel {
    // No result is larger than what a row may have.
    let mut operators: Vec<_> = (0..random.choose(&[0, 0, 1, 3]))
        .map(|_| match random.one_in(3) {
            true => Operator::Clamp { low: -2.5, high: f64::from(random.float(-1.0, 3.0)) },
            false => Operator::Affine {
                shift: f64::from(random.float(-1.0, 1.0)),
                scale: f64::from(random.float(-0.5, 0.5)),
                offset: f64::from(random.float(-1.0, 1.0)),
            },
        })
        .collect();
    if may_unwrap && random.one_in(5) {
        operators.insert(0, Operator::Unwrap);
    }
    OutputChannel { name: String::new(), unit: "", source, operators }
}

fn check_pairs(
    kind: &Kind,
    cases: usize,
    seed: u64,
    spec: impl Fn(&mut Random, Vec<Lane>) -> VectorSpec,
) {
    for pair in 0..cases.div_ceil(TICKS_PER_PAIR) {
        let mut random = Random::new(pair as u64 + seed);
        // Now and then a row as large as an odd image.
        let large = pair % 40 == 7;
        let count = if large { 1 } else { random.range(1, 4) };
        let mut one = |i| random_stream(&mut random, i, large, &spec);
        let specs: Vec<_> = (0..count).map(&mut one).collect();
        let mut pair_of_backends = Pair::new(kind, specs.clone(), pair % 3 == 2);
        if pair % 3 == 1 {
            pair_of_backends.adopt(kind);
        }
        check_ticks(&mut pair_of_backends, &specs, &mut random, pair);
    }
}

fn check_ticks(pair: &mut Pair, specs: &[StreamSpec], random: &mut Random, number: usize) {
    // Near the epoch of Unix, near that of a simulator, and before either.
    let base = random.choose(&[1_795_000_000_000_000_000i64, 0, -3_000_000_000]);
    let places = pair.layout().rings().to_vec();
    let spec_of = |place: &RingPlace| &specs[place.stream.index()];
    let mut rings: Vec<_> =
        places.iter().map(|place| Ring::new(spec_of(place).ring_rows)).collect();
    let mut now = Stamp::from_nanos(base);
    for tick in 0..TICKS_PER_PAIR {
        let case = format!("pair {number} tick {tick}");
        let mut touched = Vec::new();
        for (at, (place, ring)) in places.iter().zip(&mut rings).enumerate() {
            // Enough to wrap the ring, or nothing at all.
            for _ in 0..random.choose(&[0, 1, 1, 2, 5]) {
                let row = random_row(random, spec_of(place), place.group);
                let lease = ring.lease().expect("one slot is always spare");
                touched.push((RingId::new(at), lease.slot()));
                let encoded = pair.encode(at, lease.slot().index(), Sample::Vector(&row), &case);
                assert!(encoded.is_some(), "{case}");
                let stamp = now.offset(random.range(0, 40_000_000) as i64 - 20_000_000);
                ring.insert(stamp, 0, lease);
            }
        }
        now = now.offset(random.choose(&[1, 999, 10_000_000, 100_000_000]));
        let jobs = jobs_at(&places, specs, &rings, now, random);
        let changed = |job: &StepJob| match job.value {
            _ if specs[places[job.ring.index()].stream.index()].encoder.unwraps() => true,
            Value::Row(slot) => touched.contains(&(job.ring, slot)),
            _ => false,
        };
        pair.fuse(&jobs, changed, &case);
    }
}

fn jobs_at(
    places: &[RingPlace],
    specs: &[StreamSpec],
    rings: &[Ring],
    now: Stamp,
    random: &mut Random,
) -> Vec<StepJob> {
    let mut jobs = Vec::new();
    for (at, (place, ring)) in places.iter().zip(rings).enumerate() {
        let spec = &specs[place.stream.index()];
        for step in 0..spec.history_steps {
            let back = (spec.history_steps - 1 - step) as i64 * 7_000_000;
            let mut target = now.offset(-back);
            // Exactly at a sample.
            if !ring.is_empty() && random.one_in(5) {
                target = ring.entry(Position::new(random.range(0, ring.len() - 1))).stamp;
            }
            let aligned = ring.align(spec.rule, target);
            let value = ring.slots_of(aligned.value);
            jobs.push(StepJob { ring: RingId::new(at), step, value, unchanged: false });
        }
    }
    jobs
}

fn random_stream(
    random: &mut Random,
    number: usize,
    large: bool,
    vector: impl Fn(&mut Random, Vec<Lane>) -> VectorSpec,
) -> StreamSpec {
    let dim = match large {
        true => 150_529,
        false => random.choose(&[1, 3, 4, 7, 8, 16, 33, 64, 100, 513, 3000]),
    };
    let strategies = [Strategy::Hold, Strategy::Nearest, Strategy::Linear, Strategy::Slerp];
    let strategy = random.choose(&strategies);
    let lanes = random.lanes(dim);
    let encoder = EncoderSpec::Vector(vector(random, lanes));
    let dtype = random.dtype();
    let steps = random.range(1, 5);
    let rows = random.choose(&[1, 2, 5, 9]);
    let mut spec = stream(&format!("s{number}"), encoder, strategy, dtype, steps, rows);
    spec.rule = AlignRule {
        fill: random.choose(&[Fill::Zero, Fill::Last]),
        max_age_ns: random.choose(&[5_000_000, 50_000_000, i64::MAX]),
        max_gap_ns: random.choose(&[15_000_000, 100_000_000, i64::MAX]),
        ..spec.rule
    };
    spec
}

fn channels(lanes: Vec<Lane>) -> Vec<Channel> {
    let channel = |(i, lane)| Channel { name: format!("c.{i}"), lane };
    lanes.into_iter().enumerate().map(channel).collect()
}

/// Two to five groups. Channels go to them in pieces of a random length, from one channel to more than
/// a warp copies at once, and the pieces of a group are in any order. Quaternions stay whole.
fn grouped(random: &mut Random, lanes: Vec<Lane>) -> VectorSpec {
    let longest = random.choose(&[1, 2, 16, 1000, 40_000]);
    let mut pieces: Vec<Vec<usize>> = Vec::new();
    let mut at = 0;
    while at < lanes.len() {
        let most = at + random.range(1, longest);
        let mut end = at;
        while end < lanes.len() && end < most {
            end += if lanes[end] == Lane::Quaternion { 4 } else { 1 };
        }
        pieces.push((at..end).collect());
        at = end;
    }
    let mut groups = vec![Vec::new(); random.range(2, 5)];
    random.shuffle(&mut pieces);
    for (i, piece) in pieces.into_iter().enumerate() {
        // Each has some, as long as there are pieces.
        let group = if i < groups.len() { i } else { random.range(0, groups.len() - 1) };
        groups[group].extend(piece);
    }
    groups.retain(|group| !group.is_empty());
    let groups = groups.into_iter().map(|channels| Group { channels }).collect();
    VectorSpec { channels: channels(lanes), groups, outputs: Vec::new() }
}

fn random_row(random: &mut Random, spec: &StreamSpec, group: usize) -> Vec<f64> {
    let EncoderSpec::Vector(vector) = &spec.encoder else { unreachable!("only vectors here") };
    let lanes = vector.lanes(group);
    // What the encoder lets through.
    let limit: f32 = match spec.dtype {
        // Operators must not lead out of the element type.
        _ if !vector.outputs.is_empty() => 1e4,
        DType::F16 => 65_504.0,
        _ => 1e38,
    };
    let mut row: Vec<f64> = (0..lanes.len())
        .map(|_| match random.range(0, 9) {
            0 => random.choose(&[0.0, -0.0, limit, -limit, 1e-40, limit.min(65_504.0), -1.0]),
            1 => random.float(-limit, limit),
            2 => random.float(-1e-3, 1e-3),
            _ => random.float(-4.0, 4.0),
        })
        .map(f64::from)
        .collect();
    let mut at = 0;
    while at < row.len() {
        if lanes[at] == Lane::Quaternion {
            row[at..at + 4].copy_from_slice(&quaternion(random));
            at += 4;
        } else {
            at += 1;
        }
    }
    row
}

/// A unit quaternion, now and then one that is a little off.
fn quaternion(random: &mut Random) -> [f64; 4] {
    let off = if random.one_in(4) { 1.03 } else { 1.0 };
    loop {
        let values: [f64; 4] = std::array::from_fn(|_| f64::from(random.float(-1.0, 1.0)));
        let norm = values.iter().map(|q| q * q).sum::<f64>().sqrt();
        if norm > 0.1 {
            return values.map(|q| q / norm * off);
        }
    }
}
