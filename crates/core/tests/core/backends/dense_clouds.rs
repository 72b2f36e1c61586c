//! Clouds of many points: in one voxel, in turns, in runs, and in a grid of many bins.

use robocache_core::sample::Sample;
use robocache_ops::dtype::DType;
use robocache_ops::voxelize::{Grid, VoxelSpec, extra_fields};

use crate::backends::cloud_paths::{channels, pair_within};
use crate::backends::clouds::Form;
use crate::backends::random::Random;
use crate::backends::subject::{Kind, Pair};

/// Points of the largest cloud.
const MOST_POINTS: usize = 1 << 22;

pub(super) fn check(kind: &Kind, cases: usize) {
    let points = (cases * 150).min(300_000);
    let mut random = Random::new(60_000);
    for (number, list) in
        ["mean a, max b, count, mean z", "count", "mean a, mean b, max c, mean d, max e"]
            .into_iter()
            .enumerate()
    {
        // The grid is a row of voxels.
        let grid = Grid { origin_m: [0.0; 3], size_m: 1.0, shape: [1000, 1, 1] };
        let spec = VoxelSpec::new(grid, channels(list));
        let mut pair = pair_within(kind, &spec, DType::F32, points);
        let run = random.range(2, 90);
        let mixed = |i: usize| match i {
            i if i.is_multiple_of(11) => 5000, // in no voxel
            i if i % 5 < 2 => 321,
            i => i % 7,
        };
        let orders: [(&str, &dyn Fn(usize) -> usize); 6] = [
            ("one voxel", &|_| 321),
            ("two in turns", &|i| 500 + i % 2),
            ("runs", &|i| i / run % 7),
            ("runs that come again far away", &|i| i / 40 % 1000),
            ("as far apart as can be", &|i| i % 1000),
            ("neighbours and others of one voxel, some outside", &mixed),
        ];
        for (name, voxel) in orders {
            let case = format!("{list}, {name}, runs of {run}");
            let points = points / (number + 1);
            check_order(&mut pair, &mut random, &spec, points, voxel, &case);
        }
    }
    check_packed(kind, (cases * 5).clamp(40, 10_000));
    check_greatest_sum(kind, (cases << 12).min(MOST_POINTS));
    check_bins(kind, (cases * 50).min(100_000));
    check_grids_of_one_device(kind, (cases * 50).min(100_000));
}

/// Points one after the other in these voxels, then the same from the last to the first.
fn check_order(
    pair: &mut Pair,
    random: &mut Random,
    spec: &VoxelSpec,
    points: usize,
    voxel: &dyn Fn(usize) -> usize,
    case: &str,
) {
    let columns = 3 + extra_fields(spec).count();
    let mut values = Vec::with_capacity(points * columns);
    for i in 0..points {
        values.extend([voxel(i) as f32 + random.float(0.0, 0.9), 0.25, random.float(0.0, 1.0)]);
        values.extend((3..columns).map(|_| random.float(-1_048_576.0, 1_048_576.0)));
    }
    assert!(encode(pair, columns, &values, 0, case));
    let before = pair.output().to_vec();
    let reversed: Vec<f32> = values.chunks_exact(columns).rev().flatten().copied().collect();
    assert!(encode(pair, columns, &reversed, 1, case));
    assert_eq!(pair.output(), before, "reversed: {case}");
}

/// As many points as a cloud may have, of the greatest value that is summed, in one voxel: the sum
/// is 2^62. One more point is refused.
fn check_greatest_sum(kind: &Kind, points: usize) {
    let grid = Grid { origin_m: [0.0; 3], size_m: 1.0, shape: [3, 2, 1] };
    let channels = channels("mean a, max a, count");
    let spec = VoxelSpec::new(grid, channels);
    let mut pair = pair_within(kind, &spec, DType::F32, points);
    for value in [-1_048_576.0, 1_048_576.0] {
        let case = format!("{points} times {value}");
        assert!(encode(&mut pair, 4, &[2.5, 1.5, 0.5, value].repeat(points), 0, &case));
        let found: Vec<_> = pair.output().as_chunks::<4>().0.iter().skip(5).step_by(6).collect();
        let expected = [value, value, points as f32].map(f32::to_le_bytes);
        assert_eq!(found[..3], expected.iter().collect::<Vec<_>>(), "{case}");
        let form = Form::words(4, MOST_POINTS + 1);
        assert!(pair.encode(0, 1, Sample::Points(form.view(&[])), "too many").is_none());
    }
}

/// Clouds of as many points as the bound allows, in messages whose points have many fields more: a
/// GPU has memory for the fields that it needs, and no more. A cloud with few fields comes between.
fn check_packed(kind: &Kind, points: usize) {
    let mut random = Random::new(63_000);
    let grid = Grid { origin_m: [0.0; 3], size_m: 0.25, shape: [40, 30, 20] };
    for list in ["mean a, max b, count", "count"] {
        let spec = VoxelSpec::new(grid, channels(list));
        let columns = 3 + extra_fields(&spec).count();
        let mut pair = pair_within(kind, &spec, DType::F32, points);
        for (number, point_step) in
            [400, 4 * columns, 1001, 8 * columns + 1].into_iter().enumerate()
        {
            let plain = Form::words(columns, points);
            let width = points / 2;
            let big_endian = number == 2;
            let row_step = width * point_step + 60;
            let form = Form { point_step, width, height: 2, row_step, big_endian, ..plain };
            let values: Vec<Vec<f64>> = (0..points)
                .map(|_| (0..columns).map(|_| f64::from(random.float(-1.0, 11.0))).collect())
                .collect();
            let data = form.bytes(&values);
            let slot = number % 2;
            let case = format!("{list}, points of {point_step} bytes");
            let drops = pair.encode(0, slot, Sample::Points(form.view(&data)), &case);
            assert!(drops.is_some(), "{case}");
            pair.compare_slot(slot, &case);
        }
    }
}

/// A grid of thousands of bins: full, with a few points, empty, and with some in other bins.
fn check_bins(kind: &Kind, points: usize) {
    let mut random = Random::new(61_000);
    let shape = [300, 300, 40];
    let grid = Grid { origin_m: [-15.0, -15.0, -2.0], size_m: 0.1, shape };
    for (dtype, list) in [(DType::F16, "mean a, count"), (DType::Bf16, "count")] {
        let spec = VoxelSpec::new(grid, channels(list));
        let columns = 3 + extra_fields(&spec).count();
        let mut pair = pair_within(kind, &spec, dtype, points + 1);
        for (number, points) in [points, 40, 0, points / 10, points].into_iter().enumerate() {
            let case = format!("cloud {number} of {points} points, {dtype:?}, {list}");
            let mut values = Vec::with_capacity(points * columns);
            for _ in 0..points.div_ceil(2) {
                let at = [0, 1, 2].map(|axis| {
                    grid.origin_m[axis] as f32
                        + random.float(-0.01, 1.01) * shape[axis] as f32 * 0.1
                });
                values.extend_from_slice(&at);
                values.extend((3..columns).map(|_| random.float(-100.0, 100.0)));
            }
            // The same places once more.
            values.extend_from_within(..);
            assert!(encode(&mut pair, columns, &values, usize::from(number == 3), &case));
        }
        pair.compare_slot(1, "the other slot");
    }
}

/// Two streams of one device, a large grid made before a small one: what one needs of the device must
/// not be taken from it by the other. The large one has more voxels than a cloud's bins hold at once.
fn check_grids_of_one_device(kind: &Kind, points: usize) {
    let mut random = Random::new(62_000);
    let mut pairs = [[260, 260, 250], [20, 20, 10]].map(|shape| {
        let grid = Grid { origin_m: [0.0; 3], size_m: 1.0, shape };
        let spec = VoxelSpec::new(grid, channels("mean a, count"));
        (shape, pair_within(kind, &spec, DType::Bf16, points.max(30)))
    });
    for (number, points) in [points, 30, points].into_iter().enumerate() {
        for (shape, pair) in &mut pairs {
            let mut values = Vec::with_capacity(4 * points);
            for _ in 0..points {
                values.extend(shape.map(|n| random.float(0.0, 1.0) * n as f32));
                values.push(random.float(-100.0, 100.0));
            }
            let case = format!("cloud {number} of {points} points in {shape:?}");
            assert!(encode(pair, 4, &values, number % 2, &case));
        }
    }
}

/// Encodes words and compares the slot; whether they were accepted.
pub(super) fn encode(
    pair: &mut Pair,
    columns: usize,
    values: &[f32],
    slot: usize,
    case: &str,
) -> bool {
    let form = Form::words(columns, values.len() / columns);
    let data: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let accepted = pair.encode(0, slot, Sample::Points(form.view(&data)), case).is_some();
    if accepted {
        pair.compare_slot(slot, case);
    }
    accepted
}
