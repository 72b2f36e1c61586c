//! Clouds that need more than counts, means and maxima: filters, features that are no fields,
//! all reductions, voxels with enough points, and sparse rows; all of them in any combination, and at
//! the places where one of them ends.

use robocache_core::sample::Sample;
use robocache_ops::dtype::DType;
use robocache_ops::voxelize::{
    Action, Feature, Filter, Form as Solid, Grid, IDENTITY, PointDrops, Reduction, Shape,
    ShapeFrame, VoxelSpec, extra_fields,
};

use crate::backends::cloud_paths::pair_within;
use crate::backends::clouds::{FIELDS, Form, SLOTS, random_filter, random_points};
use crate::backends::random::Random;
use crate::backends::subject::{BOUNDS, Kind, Pair};

const CLOUDS_PER_PAIR: usize = 10;

pub(super) fn check(kind: &Kind, cases: usize) {
    for number in 0..cases.div_ceil(CLOUDS_PER_PAIR) {
        let mut random = Random::new(number as u64 + 100_000);
        let spec = random_spec(&mut random);
        let dtype = random.dtype();
        let mut pair = pair_within(kind, &spec, dtype, BOUNDS.max_points);
        for cloud in 0..CLOUDS_PER_PAIR {
            let (mut points, form) = random_points(&mut random, &spec);
            let case = format!("pair {number}: {spec:?} {dtype:?}, cloud {cloud}, {form:?}");
            let slot = random.range(0, SLOTS - 1);
            let Some(drops) = encode(&mut pair, &points, &form, slot, &case) else { continue };
            if spec.last_channels() > 0 || !random.one_in(4) {
                continue;
            }
            // The same points in another order, in another slot.
            let before = pair.output().to_vec();
            random.shuffle(&mut points);
            let again = encode(&mut pair, &points, &form, (slot + 1) % SLOTS, &case);
            assert_eq!(again, Some(drops), "permuted: {case}");
            assert_eq!(pair.output(), before, "permuted: {case}");
        }
    }
}

/// Encodes points into a slot and compares it.
pub(super) fn encode(
    pair: &mut Pair,
    points: &[Vec<f64>],
    form: &Form,
    slot: usize,
    case: &str,
) -> Option<PointDrops> {
    let data = form.bytes(points);
    let drops = pair.encode(0, slot, Sample::Points(form.view(&data)), case)?;
    pair.compare_slot(slot, case);
    Some(drops)
}

fn random_feature(random: &mut Random) -> Feature {
    match random.range(0, 5) {
        0 => Feature::Range,
        1 => Feature::Offset(random.range(0, 2)),
        _ => random.choose(&FIELDS).into(),
    }
}

/// Up to more channels than a launch has room for.
fn random_spec(random: &mut Random) -> VoxelSpec {
    let count = random.choose(&[1, 2, 3, 4, 5, 8, 11]);
    let channel = |random: &mut Random| match random.range(0, 6) {
        0 => Reduction::Count,
        1 => Reduction::Occupancy,
        2 => Reduction::Mean(random_feature(random)),
        3 => Reduction::Max(random_feature(random)),
        4 => Reduction::Min(random_feature(random)),
        5 => Reduction::Sum(random_feature(random)),
        _ => Reduction::Last(random_feature(random)),
    };
    let channels: Vec<_> = (0..count).map(|_| channel(random)).collect();
    let far = random.choose(&[0.0, 0.0, 0.0, 456_789.0]);
    let grid = Grid {
        origin_m: [far + random.choose(&[0.0, -2.0]), -2.0, f64::from(random.float(-1.0, 0.0))],
        size_m: random.choose(&[0.5, 0.1, 0.25, 0.07]),
        shape: [random.range(1, 40), random.range(1, 40), random.range(1, 20)],
    };
    let mut spec = VoxelSpec::new(grid, channels);
    if random.one_in(2) {
        let most = random.choose(&[20, 600, 3000]);
        spec.max_voxels = Some(random.range(1, most).min(grid.volume()));
    }
    if random.one_in(2) {
        spec.min_points = random.choose(&[2, 3, 40, 1 << 22]);
    }
    if random.one_in(2) {
        spec.filter = random_filter(random);
    }
    spec
}

/// All reductions, of fields and of what is computed.
fn all_channels() -> Vec<Reduction> {
    let a = || Feature::from("a");
    vec![
        Reduction::Last(a()),
        Reduction::Count,
        Reduction::Min(a()),
        Reduction::Sum(Feature::Range),
        Reduction::Last("z".into()),
        Reduction::Mean(Feature::Offset(0)),
        Reduction::Max(a()),
        Reduction::Occupancy,
        Reduction::Sum(a()),
    ]
}

/// A row of voxels along x, each 1 m.
pub(super) fn row_spec(voxels: usize) -> VoxelSpec {
    let grid = Grid { origin_m: [0.0; 3], size_m: 1.0, shape: [voxels, 1, 1] };
    VoxelSpec::new(grid, all_channels())
}

pub(super) fn check_edges(kind: &Kind, cases: usize) {
    for dtype in [DType::F32, DType::F16] {
        check_capacity(kind, dtype);
        check_nothing_left(kind, dtype);
        for sparse in [false, true] {
            check_crowded(kind, dtype, sparse, (cases * 40).clamp(2_000, 70_000));
            check_tiles(kind, dtype, sparse, (cases * 600).clamp(2_000, 1_200_000));
        }
    }
    check_listed_voxels(kind);
    check_moving_shapes(kind);
    check_overflowing_features(kind);
    check_last(kind);
    check_large_lists(kind, (cases * 50).min(100_000));
}

/// Points at these x, with `a` as their number.
pub(super) fn along_x(at: impl Iterator<Item = f64>) -> Vec<Vec<f64>> {
    at.enumerate().map(|(i, x)| vec![x, 0.5, 0.5, (i % 1000) as f64 * 0.25]).collect()
}

/// These points as words, with the shapes of the filter where the base is.
pub(super) fn words(points: &[Vec<f64>], spec: &VoxelSpec) -> Form {
    let mut form = Form::words(3 + extra_fields(spec).count(), points.len());
    form.t_shapes = spec.filter.place(&IDENTITY, |_| None);
    form
}

/// As many occupied voxels as the row has room for, one more, one less, none, and all again.
fn check_capacity(kind: &Kind, dtype: DType) {
    let mut spec = row_spec(3000);
    spec.max_voxels = Some(700);
    let mut pair = pair_within(kind, &spec, dtype, 4000);
    for (number, voxels) in [700, 701, 699, 0, 1, 3000, 700].into_iter().enumerate() {
        let case = format!("{voxels} voxels of 700, {dtype:?}");
        let points = along_x((0..voxels).map(|i| ((i * 7) % 3000) as f64 + 0.5));
        let form = words(&points, &spec);
        // Twice into the same slot, and into another one.
        for slot in [0, 0, number % SLOTS] {
            let drops = encode(&mut pair, &points, &form, slot, &case).expect(&case);
            let kept = voxels.min(700);
            assert_eq!(drops.voxels_in_use as usize, kept, "{case}");
            assert_eq!(drops.voxels_beyond as usize, voxels - kept, "{case}");
        }
    }
}

/// Clouds that lose all points to the filter or `min_points`; and points without a
/// number in every column.
fn check_nothing_left(kind: &Kind, dtype: DType) {
    let everything = Shape {
        action: Action::Remove,
        form: Solid::Box { min_m: [-1e4; 3], max_m: [1e4; 3] },
        frame: ShapeFrame::Sensor,
        t_shape_frame: IDENTITY,
    };
    let cropped = Filter { shapes: vec![everything], ..Filter::default() };
    let beyond = Filter { max_range_m: Some(0.25), ..Filter::default() };
    for max_voxels in [None, Some(50)] {
        for (filter, min_points) in
            [(cropped.clone(), 1), (beyond.clone(), 1), (Filter::default(), 1 << 22)]
        {
            let spec = VoxelSpec { filter, min_points, max_voxels, ..row_spec(100) };
            let mut pair = pair_within(kind, &spec, dtype, 2000);
            for slot in [0, 0, 1] {
                let case = format!("{spec:?} {dtype:?}");
                let mut points = along_x((0..2000).map(|i| f64::from(i % 100) + 0.5));
                for at in 0..4 {
                    points[at * 5][at] = f64::NAN;
                    points[at * 5 + 1][at] = f64::NEG_INFINITY;
                }
                let drops = encode(&mut pair, &points, &words(&points, &spec), slot, &case);
                let drops = drops.expect(&case);
                assert_eq!(drops.non_finite, 8, "{case}");
                let left_out = drops.cropped + drops.out_of_reach + drops.too_few;
                assert_eq!(left_out, 1992, "{case}");
                encode(&mut pair, &[], &words(&[], &spec), slot, &case).expect(&case);
            }
        }
    }
}

/// Voxels with more points than 16 bits count, beside voxels with one, and more voxels with several
/// points than a thread block lists.
fn check_crowded(kind: &Kind, dtype: DType, sparse: bool, points: usize) {
    for min_points in [1, 2, 3] {
        let spec = VoxelSpec {
            min_points,
            max_voxels: sparse.then_some(5000),
            // What an element type holds of any number of points.
            channels: all_channels()
                .into_iter()
                .filter(|c| !c.sums() && c.word() != "count")
                .collect(),
            ..row_spec(8192)
        };
        let mut pair = pair_within(kind, &spec, dtype, points);
        for (name, voxel) in [
            ("one voxel", (|i| if i % 50 == 7 { i % 40 } else { 5 }) as fn(usize) -> usize),
            ("pairs", |i| i / 2 % 8192),
            ("one each", |i| i % 8192),
            ("threes and pairs", |i| if i % 5 < 3 { i / 5 % 8192 } else { i / 5 * 7 % 8192 }),
        ] {
            let case =
                format!("{name}, {points} points, at least {min_points}, {dtype:?} {sparse}");
            let points = along_x((0..points).map(|i| voxel(i) as f64 + 0.25));
            for slot in [0, 1] {
                encode(&mut pair, &points, &words(&points, &spec), slot, &case).expect(&case);
            }
        }
    }
}

/// Voxels that one thread block reduces, nearly all of them with two points: more than it lists. The
/// numbers of their voxel blocks follow each other after the hash of `kernels/voxelize/bins.cuh`.
fn check_listed_voxels(kind: &Kind) {
    const BITS: u32 = 20;
    let hash = 0x9E37_79B1u32;
    let inverse = (0..4).fold(hash, |x, _| x.wrapping_mul(2u32.wrapping_sub(hash.wrapping_mul(x))));
    let mask = (1u32 << BITS) / 32 - 1;
    let blocks = (0..128u32).map(|number| number.wrapping_mul(inverse) & mask);
    let voxels: Vec<_> = blocks.flat_map(|block| (0..32).map(move |i| block * 32 + i)).collect();
    for (min_points, max_voxels) in [(1, None), (2, None), (2, Some(3000)), (3, Some(3000))] {
        let mut spec = VoxelSpec { min_points, max_voxels, ..row_spec(1 << BITS) };
        spec.channels = vec![Reduction::Last("a".into()), Reduction::Min(Feature::Range)];
        let mut pair = pair_within(kind, &spec, DType::F32, 2 * voxels.len());
        for (slot, pairs) in [(0, 2000), (0, 4000), (1, 2100), (0, 10)] {
            let both = voxels.iter().chain(&voxels[..pairs]);
            let points = along_x(both.map(|voxel| f64::from(*voxel) + 0.25));
            let case = format!("{pairs} pairs, at least {min_points}, {max_voxels:?}");
            encode(&mut pair, &points, &words(&points, &spec), slot, &case).expect(&case);
        }
    }
}

/// The cloud has more tiles than a thread block lists at once.
fn check_tiles(kind: &Kind, dtype: DType, sparse: bool, points: usize) {
    let channels = vec![Reduction::Last("a".into()), Reduction::Min(Feature::Range)];
    let spec =
        VoxelSpec { min_points: 2, max_voxels: sparse.then_some(900), channels, ..row_spec(1000) };
    let mut pair = pair_within(kind, &spec, dtype, points);
    let case = format!("{points} points, {dtype:?} {sparse}");
    let points = along_x((0..points).map(|i| (i * 31 % 1201) as f64 + 0.25));
    encode(&mut pair, &points, &words(&points, &spec), 0, &case).expect(&case);
}

/// A part of the robot that is elsewhere for each cloud of one encoder.
fn check_moving_shapes(kind: &Kind) {
    for max_voxels in [None, Some(9)] {
        let spec = VoxelSpec { max_voxels, ..part_of_the_robot() };
        let mut pair = pair_within(kind, &spec, DType::F32, 10);
        let points = along_x((0..10).map(|i| f64::from(i) + 0.5));
        for (slot, at, on_robot) in
            [(0, 2.0, 2), (1, 7.5, 3), (0, 7.5, 3), (0, -5.0, 0), (0, 2.0, 2)]
        {
            let mut form = words(&points, &spec);
            form.t_shapes = vec![t_part_cloud(at)];
            let case = format!("{max_voxels:?}, at {at} m");
            let drops = encode(&mut pair, &points, &form, slot, &case).expect(&case);
            assert_eq!(drops.on_robot, on_robot, "{case}");
        }
    }
}

/// A row of 10 voxels, and a sphere of 1.2 m.
pub(super) fn part_of_the_robot() -> VoxelSpec {
    let sphere = Shape {
        action: Action::Robot,
        form: Solid::Sphere { radius_m: 1.2 },
        frame: ShapeFrame::Base,
        t_shape_frame: IDENTITY,
    };
    let mut spec = row_spec(10);
    spec.channels = vec![Reduction::Count, Reduction::Max("a".into())];
    spec.filter.shapes = vec![sphere];
    spec
}

/// The sphere at this x, in the middle of the row.
pub(super) fn t_part_cloud(x: f64) -> [[f64; 4]; 3] {
    let mut t = IDENTITY;
    (t[0][3], t[1][3], t[2][3]) = (-x, -0.5, -0.5);
    t
}

/// A distance of a finite point that is infinite as `f32` is out of range, whatever the reduction.
fn check_overflowing_features(kind: &Kind) {
    for reduction in [Reduction::Max, Reduction::Last, Reduction::Sum] {
        let mut spec = row_spec(10);
        spec.channels = vec![reduction(Feature::Range)];
        let mut pair = pair_within(kind, &spec, DType::F32, 10);
        let points = vec![vec![2.5, 0.5, 0.5], vec![3e19, 0.5, 0.5], vec![-3e19, 0.0, 0.0]];
        let mut form = words(&points, &spec);
        // As far away as the points: x of the base is 0 for two of them.
        form.t_base_sensor[0] = [0.0, 0.0, 0.0, 0.5];
        let drops = encode(&mut pair, &points, &form, 0, "range").expect("range");
        assert_eq!((drops.out_of_range, drops.outside), (2, 0), "{spec:?}");
    }
}

/// The last point of a voxel in the order of the message, whatever thread sees it first.
fn check_last(kind: &Kind) {
    let mut spec = row_spec(7);
    spec.channels = vec![Reduction::Last("a".into())];
    let mut pair = pair_within(kind, &spec, DType::F32, 6000);
    let mut points = along_x((0..6000).map(|i| f64::from(i % 7) + 0.5));
    for (i, point) in points.iter_mut().enumerate() {
        point[3] = -(i as f64);
    }
    encode(&mut pair, &points, &words(&points, &spec), 0, "last").expect("last");
    let found = pair.output().as_chunks::<4>().0[..7].iter();
    let found: Vec<f32> = found.map(|bytes| f32::from_le_bytes(*bytes)).collect();
    // Of the numbers 5993 to 5999, the one that is in this voxel.
    let last = |voxel: usize| -((5993..6000).find(|i| i % 7 == voxel).unwrap_or(0) as f32);
    assert_eq!(found, (0..7).map(last).collect::<Vec<_>>());
}

/// Lists of a grid with many tiles of voxel blocks: full, with a few points, empty, full again.
fn check_large_lists(kind: &Kind, points: usize) {
    let mut random = Random::new(101_000);
    for (shape, dtype) in [([300, 300, 40], DType::F16), ([260, 260, 250], DType::F32)] {
        let grid = Grid { origin_m: [0.0; 3], size_m: 1.0, shape };
        let channels = vec![Reduction::Mean("a".into()), Reduction::Last(Feature::Offset(2))];
        let max_voxels = Some((points / 2).max(10));
        let spec = VoxelSpec { max_voxels, ..VoxelSpec::new(grid, channels) };
        let mut pair = pair_within(kind, &spec, dtype, points);
        for (number, points) in [points, 40, 0, points / 3, points].into_iter().enumerate() {
            let mut point = |_| {
                let mut point: Vec<_> =
                    shape.map(|n| f64::from(random.float(-0.01, 1.01)) * n as f64).to_vec();
                point.push(f64::from(random.float(-100.0, 100.0)));
                point
            };
            let points: Vec<_> = (0..points).map(&mut point).collect();
            let case = format!("cloud {number} in {shape:?}");
            let slot = usize::from(number == 3);
            encode(&mut pair, &points, &words(&points, &spec), slot, &case).expect(&case);
        }
    }
}
