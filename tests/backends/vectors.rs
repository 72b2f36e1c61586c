//! Ticks over vector streams: strategies, element types, lanes, odd sizes, wrapped rings.

use robocache::align::{AlignRule, Value, align};
use robocache::backend::{Sample, StepJob};
use robocache::config::{Fill, Lane, Source, Strategy, StreamSpec, VectorMessage, VectorSpec};
use robocache::dtype::DType;
use robocache::ring::Ring;
use robocache::time::Stamp;

use crate::random::Random;
use crate::subject::{Kind, Pair, stream};

const TICKS_PER_PAIR: usize = 20;

pub fn check(kind: &Kind, cases: usize) {
    for pair in 0..cases.div_ceil(TICKS_PER_PAIR) {
        let mut random = Random::new(pair as u64);
        // Now and then a row as large as an odd image.
        let large = pair % 40 == 7;
        let count = if large { 1 } else { random.range(1, 4) };
        let specs: Vec<_> = (0..count).map(|i| random_stream(&mut random, i, large)).collect();
        let mut pair_of_backends = Pair::new(kind, specs.clone(), pair % 3 != 0);
        check_ticks(&mut pair_of_backends, &specs, &mut random, pair);
    }
}

fn check_ticks(pair: &mut Pair, specs: &[StreamSpec], random: &mut Random, number: usize) {
    // Near the epoch of Unix, near that of a simulator, and before either.
    let base = random.choose(&[1_795_000_000_000_000_000i64, 0, -3_000_000_000]);
    let mut rings: Vec<_> = specs.iter().map(|spec| Ring::new(spec.ring_rows)).collect();
    let mut now = Stamp::from_nanos(base);
    for tick in 0..TICKS_PER_PAIR {
        let case = format!("pair {number} tick {tick}");
        let mut touched = Vec::new();
        for (at, (spec, ring)) in specs.iter().zip(&mut rings).enumerate() {
            // Enough to wrap the ring, or nothing at all.
            for _ in 0..random.choose(&[0, 1, 1, 2, 5]) {
                let row = random_row(random, spec);
                let lease = ring.lease().expect("one slot is always spare");
                touched.push((at, lease.slot()));
                pair.encode(at, lease.slot(), Sample::Vector(&row), &case);
                let stamp = now.offset(random.range(0, 40_000_000) as i64 - 20_000_000);
                ring.insert(stamp, lease);
            }
        }
        now = now.offset(random.choose(&[1, 999, 10_000_000, 100_000_000]));
        let jobs = jobs_at(specs, &rings, now, random);
        let changed = |job: &StepJob| match job.value {
            Value::Row(slot) => touched.contains(&(job.stream, slot)),
            _ => false,
        };
        pair.fuse(&jobs, changed, &case);
    }
}

fn jobs_at(specs: &[StreamSpec], rings: &[Ring], now: Stamp, random: &mut Random) -> Vec<StepJob> {
    let mut jobs = Vec::new();
    for (at, (spec, ring)) in specs.iter().zip(rings).enumerate() {
        for step in 0..spec.history_steps {
            let back = (spec.history_steps - 1 - step) as i64 * 7_000_000;
            let mut target = now.offset(-back);
            // Exactly at a sample.
            if !ring.is_empty() && random.one_in(5) {
                target = ring.entry(random.range(0, ring.len() - 1)).stamp;
            }
            let aligned = align(AlignRule::from(spec), ring.len(), |i| ring.entry(i).stamp, target);
            let value = aligned.map(|i| ring.entry(i).slot).value;
            jobs.push(StepJob { stream: at, step, value, unchanged: false });
        }
    }
    jobs
}

fn random_stream(random: &mut Random, number: usize, large: bool) -> StreamSpec {
    let dim = match large {
        true => 150_529,
        false => random.choose(&[1, 3, 4, 7, 8, 16, 33, 64, 100, 513, 3000]),
    };
    let strategies = [Strategy::Hold, Strategy::Nearest, Strategy::Linear, Strategy::Slerp];
    let strategy = random.choose(&strategies);
    let lanes = random.lanes(dim);
    let message = VectorMessage::JointState;
    let source = Source::Vector(VectorSpec { message, fields: vec![], joints: vec![], lanes });
    let (dtype, steps, rows) = (random.dtype(), random.range(1, 5), random.choose(&[1, 2, 5, 9]));
    let mut spec = stream(&format!("s{number}"), source, strategy, dtype, steps, rows);
    spec.fill = random.choose(&[Fill::Zero, Fill::Last]);
    spec.max_age_ns = random.choose(&[5_000_000, 50_000_000, i64::MAX]);
    spec.max_gap_ns = random.choose(&[15_000_000, 100_000_000, i64::MAX]);
    spec
}

fn random_row(random: &mut Random, spec: &StreamSpec) -> Vec<f32> {
    let Source::Vector(vector) = &spec.source else { unreachable!("only vectors here") };
    // What the decoder lets through.
    let limit = if spec.dtype == DType::F16 { 65_504.0 } else { 1e38 };
    let mut row: Vec<f32> = (0..vector.dim())
        .map(|_| match random.range(0, 9) {
            0 => random.choose(&[0.0, -0.0, limit, -limit, 1e-40, 65_504.0, -1.0]),
            1 => random.float(-limit, limit),
            2 => random.float(-1e-3, 1e-3),
            _ => random.float(-4.0, 4.0),
        })
        .collect();
    let mut at = 0;
    while at < row.len() {
        if vector.lanes[at] == Lane::Quaternion {
            let quaternion = &mut row[at..at + 4];
            quaternion.iter_mut().for_each(|q| *q = random.float(-1.0, 1.0));
            let norm = quaternion.iter().map(|q| q * q).sum::<f32>().sqrt().max(1e-3);
            quaternion.iter_mut().for_each(|q| *q /= norm);
            at += 4;
        } else {
            at += 1;
        }
    }
    row
}
