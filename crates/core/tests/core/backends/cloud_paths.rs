//! Clouds that take every path of the kernels: numbers of columns and channels, grids whose ends
//! meet none of the sizes that work is shared in, layouts that take turns on one encoder, and values
//! that an element type cannot hold.

use robocache_core::encoder::EncoderSpec;
use robocache_core::sample::Sample;
use robocache_ops::align::Strategy;
use robocache_ops::dtype::DType;
use robocache_ops::voxelize::{Grid, IDENTITY, Reduction, VoxelSpec, extra_fields};

use crate::backends::clouds::{Form, SLOTS, check_points};
use crate::backends::random::Random;
use crate::backends::subject::{BOUNDS, Kind, Pair, stream};

const CLOUDS_PER_PAIR: usize = 20;

/// Channels by the number of columns that they make, from 3 to 11. With 8 channels at most, those
/// after x, y and z may be more than a launch has room for.
const CHANNELS: [&str; 18] = [
    "count",
    "occupancy, count",
    "mean x, mean y, mean z, max z",
    "max x, count",
    "mean a, max a, count",
    "mean a, mean x, mean y, occupancy, mean z, max y",
    "max a, mean a, mean a, max a",
    "mean a, max b",
    "occupancy, max a, mean b, max c, count",
    "mean a, mean b, mean c, mean d",
    "max a, max b, max c, max d, mean d",
    "mean a, max b, mean c, max d, mean e",
    "mean a, max b, mean c, max d, mean e, max f",
    "max f, mean e, max d, count, mean c, max b, mean a",
    "mean a, mean b, mean c, mean d, mean e, mean f, mean g, mean h",
    "max a, max b, max c, max d, max e, max f, max g, max h",
    "mean a, mean b, mean c, mean d, max a, max b, max c, max d, count",
    "mean x, mean a, max z, mean b, count, max c, mean d, max a, occupancy, mean z, max e, mean f",
];

/// Around 1, 8, 256 and 1,024 voxels, and multiples of none, some and all of these.
const SHAPES: [[usize; 3]; 13] = [
    [1, 1, 1],
    [1, 1, 7],
    [4, 2, 1],
    [3, 1, 4],
    [17, 3, 5],
    [8, 8, 4],
    [257, 1, 1],
    [31, 33, 1],
    [16, 16, 4],
    [5, 5, 41],
    [10, 10, 10],
    [26, 40, 4],
    [13, 17, 19],
];

/// Channels from a list as above.
pub(super) fn channels(list: &str) -> Vec<Reduction> {
    let channel = |text: &str| match text.split_once(' ') {
        Some(("mean", field)) => Reduction::Mean(field.into()),
        Some(("max", field)) => Reduction::Max(field.into()),
        None if text == "count" => Reduction::Count,
        None if text == "occupancy" => Reduction::Occupancy,
        _ => panic!("no channel: {text}"),
    };
    list.split(", ").map(channel).collect()
}

/// A pair for clouds of `spec` alone.
pub(super) fn pair(kind: &Kind, spec: &VoxelSpec, dtype: DType) -> Pair {
    pair_within(kind, spec, dtype, BOUNDS.max_points)
}

/// A pair for clouds of `spec` alone, of up to `max_points` points.
pub(super) fn pair_within(kind: &Kind, spec: &VoxelSpec, dtype: DType, max_points: usize) -> Pair {
    let source = EncoderSpec::Voxels(spec.clone());
    let mut stream = stream("lidar", source, Strategy::Hold, dtype, 1, SLOTS - 1);
    stream.bounds.max_points = max_points;
    Pair::new(kind, vec![stream], true)
}

pub(super) fn check(kind: &Kind, cases: usize) {
    for number in 0..cases.div_ceil(CLOUDS_PER_PAIR) {
        let mut random = Random::new(number as u64 + 40_000);
        let list = match CHANNELS.get(number % (CHANNELS.len() + 1)) {
            Some(list) => list.to_string(),
            // More sums and maxima than a warp has lanes.
            None => (0..17).map(|i| format!("mean f{i}, max f{i}, ")).collect::<String>() + "count",
        };
        let spec = VoxelSpec::new(
            Grid {
                // With coordinates that are summed to both sides of their limit.
                origin_m: [
                    random.choose(&[-1.5, 0.0, 1_048_575.0]),
                    0.0,
                    f64::from(random.float(-9.0, 9.0)),
                ],
                size_m: random.choose(&[0.5, 1.0, 0.7, 0.031]),
                shape: SHAPES[number * 5 % SHAPES.len()],
            },
            channels(&list),
        );
        let dtype = random.dtype();
        let mut pair = pair(kind, &spec, dtype);
        for cloud in 0..CLOUDS_PER_PAIR {
            let case = format!("pair {number}: {spec:?} {dtype:?}, cloud {cloud}");
            check_cloud(&mut pair, &mut random, &spec, number, cloud, &case);
        }
    }
}

/// In the first slot the cloud is full, empty, full, outside, full; then anything comes. Words and
/// other layouts take turns.
fn check_cloud(
    pair: &mut Pair,
    random: &mut Random,
    spec: &VoxelSpec,
    number: usize,
    cloud: usize,
    case: &str,
) {
    let (points, pattern, slot) = match cloud {
        1 => (0, Pattern::Everywhere, 0),
        3 => (500, Pattern::Outside, 0),
        0..5 => (700, Pattern::Everywhere, 0),
        _ => {
            let patterns = [Pattern::Everywhere, Pattern::OneVoxel, Pattern::Runs, Pattern::Pairs];
            let points = random.choose(&[0, 1, 2, 31, 33, 64, 300, 700, 1100]);
            (points, random.choose(&patterns), random.range(0, SLOTS - 1))
        }
    };
    let columns = 3 + extra_fields(spec).count();
    let mut form = match (cloud / 3 + number).is_multiple_of(2) {
        true => Form::words(columns, points),
        false => Form::random(random, spec, points),
    };
    form.t_base_sensor = transform(random);
    let greatest = random.choose(&[100.0, 100.0, 1e5, 3e6]);
    let odd = random.one_in(3);
    let seed = random.bits();
    let mut points: Vec<_> = (0..form.points())
        .map(|i| {
            let place = pattern.place(random, seed, spec.grid.shape, i, form.points());
            let mut point = to_lidar(spec, &form.t_base_sensor, place);
            point.extend((3..columns).map(|_| f64::from(random.float(-greatest, greatest))));
            if odd && random.one_in(15) {
                let at = random.range(0, columns - 1);
                point[at] = random.choose(&ODD);
            }
            point
        })
        .collect();
    check_points(pair, random, &mut points, &form, slot, case);
}

/// NaN, infinities, also by rounding, the limits of what is summed and of the element types and
/// their neighbours, and numbers that end in fixed point at a tie or at zero.
const ODD: [f64; 16] = [
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    1e300,
    1_048_576.0,
    -1_048_576.0,
    1_048_576.125,
    -1_048_576.125,
    65_519.9,
    65_520.0,
    3.39e38,
    -3.4e38,
    -0.0,
    1e-40,
    -0.5 / 1_048_576.0,
    1.5 / 1_048_576.0,
];

/// Pattern of a cloud's points.
#[derive(Clone, Copy)]
enum Pattern {
    Everywhere,
    OneVoxel,
    Outside,
    /// As many as a warp has lanes, more or less, in one voxel.
    Runs,
    /// Two of a voxel are half the cloud apart.
    Pairs,
}

impl Pattern {
    /// The place of a point, from its number and the number of all points \[voxels\].
    fn place(
        self,
        random: &mut Random,
        seed: u64,
        shape: [usize; 3],
        i: usize,
        of: usize,
    ) -> [f64; 3] {
        let mut group = Random::new(match self {
            Pattern::Runs => seed ^ (i / (1 + seed % 70) as usize) as u64,
            Pattern::Pairs => seed ^ (i % of.div_ceil(2)) as u64,
            _ => seed,
        });
        shape.map(|cells| match self {
            Pattern::Everywhere => f64::from(random.float(-0.1, 1.1)) * cells as f64,
            Pattern::Outside => -5.0,
            _ => group.range(0, cells - 1) as f64 + f64::from(random.float(0.2, 0.8)),
        })
    }
}

/// A rotation about all axes and a way, or none.
fn transform(random: &mut Random) -> [[f64; 4]; 3] {
    if random.one_in(2) {
        return IDENTITY;
    }
    let mut about = || f64::from(random.float(-3.0, 3.0)).sin_cos();
    let ((sa, ca), (sb, cb), (sc, cc)) = (about(), about(), about());
    [
        [ca * cb, ca * sb * sc - sa * cc, ca * sb * cc + sa * sc, 0.3],
        [sa * cb, sa * sb * sc + ca * cc, sa * sb * cc - ca * sc, -1.7],
        [-sb, cb * sc, cb * cc, 0.0],
    ]
}

/// A place in the grid as x, y and z of the cloud.
fn to_lidar(spec: &VoxelSpec, t: &[[f64; 4]; 3], place: [f64; 3]) -> Vec<f64> {
    let grid = spec.grid;
    let base: Vec<f64> = (0..3)
        .map(|axis| {
            let metres = place[axis] * f64::from(grid.size_m);
            grid.origin_m[axis] + metres - t[axis][3]
        })
        .collect();
    (0..3).map(|axis| (0..3).map(|row| t[row][axis] * base[row]).sum()).collect()
}

/// Values of one voxel, and whether the cloud is accepted.
struct Limit {
    dtype: DType,
    channels: &'static str,
    values: Vec<f32>,
    accepted: bool,
}

/// The least f32 that bf16 rounds to infinity is 0x7F7F_8000.
const BF16_BEYOND: u32 = 0x7F7F_8000;

fn limits() -> Vec<Limit> {
    let limit = |dtype, channels, values: &[f32], accepted| {
        let values = values.to_vec();
        Limit { dtype, channels, values, accepted }
    };
    let f16 = |channels, values: &[f32], accepted| limit(DType::F16, channels, values, accepted);
    let bf16 = |values: [u32; 2], accepted| {
        limit(DType::Bf16, "occupancy, max a", &values.map(f32::from_bits), accepted)
    };
    vec![
        f16("mean a", &[65_519.0], true),
        f16("mean a", &[65_520.0], false),
        f16("count, max a", &[-65_519.0], true),
        f16("count, max a", &[-65_520.0], false),
        // The first alone is beyond, or a later one, but not the mean, or the greatest.
        f16("mean a, count", &[1e5, -5e4], true),
        f16("mean a, count", &[-5e4, 1e5], true),
        f16("mean a, mean x", &[1e6, -1e6, 3.0], true),
        f16("max a, mean x", &[-1e5, 10.0], true),
        f16("max a, mean x", &[10.0, -1e5], true),
        // The mean is in range, the greatest is beyond it.
        f16("mean a, max a", &[1e5, -5e4], false),
        f16("max a, mean a", &[-1e5, -1e5, 2e5, 0.0], false),
        f16("mean a", &[65_530.0, 65_530.0], false),
        f16("mean x, mean y, mean z, count, mean a", &[-7e4, -7e4], false),
        f16("max a", &[10.0, 7e4], false),
        f16("max a", &[-1e5, -7e4], false),
        f16("count", &vec![1.0; 65_519], true),
        f16("count", &vec![1.0; 65_520], false),
        f16("mean a, count", &vec![1e5; 65_520], false),
        f16("max a, count", &vec![1.0; 65_519], true),
        f16("max a, count", &vec![1.0; 65_520], false),
        limit(DType::Bf16, "count", &vec![1.0; 65_520], true),
        limit(DType::F32, "max a, count", &[f32::MAX, f32::MIN], true),
        bf16([0, BF16_BEYOND - 1], true),
        bf16([0, BF16_BEYOND], false),
        bf16([BF16_BEYOND | 1 << 31, BF16_BEYOND | 1 << 31], false),
        bf16([BF16_BEYOND | 1 << 31, 0], true),
    ]
}

/// Clouds at the limits of an element type; the clouds after one that is refused are right again.
pub(super) fn check_refusals(kind: &Kind, _: usize) {
    for limit in limits() {
        for form in [Form::words, Form::big_endian] {
            check_limit(kind, &limit, form);
        }
    }
}

fn check_limit(kind: &Kind, limit: &Limit, form: fn(usize, usize) -> Form) {
    let case = format!("{:?} {}: {:?}", limit.dtype, limit.channels, limit.values.first());
    let grid = Grid { origin_m: [0.0; 3], size_m: 1.0, shape: [9, 8, 7] };
    let channels = channels(limit.channels);
    let spec = VoxelSpec::new(grid, channels);
    let most = (limit.values.len() + 1).max(BOUNDS.max_points);
    let mut pair = pair_within(kind, &spec, limit.dtype, most);
    let columns = 3 + extra_fields(&spec).count();
    let point = |x: f64, value: f64| [x, 2.5, 3.5, value][..columns].to_vec();
    // Points along x, some of them where the cloud at the limit is.
    let usual: Vec<_> = (0..20).map(|i| point(f64::from(i) * 0.4, f64::from(i))).collect();
    let mut at_limit = vec![point(8.5, 3.0)];
    at_limit.extend(limit.values.iter().map(|value| point(4.5, f64::from(*value))));
    let mut encode = |points: &[Vec<f64>], slot: usize| {
        let form = form(columns, points.len());
        let data = form.bytes(points);
        let outcome = pair.encode(0, slot, Sample::Points(form.view(&data)), &case);
        if outcome.is_some() {
            pair.compare_slot(slot, &case);
        }
        outcome.is_some()
    };
    assert!(encode(&usual, 0) && encode(&usual[10..], 1), "{case}");
    assert_eq!(encode(&at_limit, 0), limit.accepted, "{case}");
    assert!(encode(&usual[..3], 2) && encode(&usual[2..5], 0), "{case}");
    // Again, and then nothing at all.
    assert_eq!(encode(&at_limit, 2), limit.accepted, "{case}");
    assert!(encode(&[], 2), "{case}");
    pair.compare_slot(1, &case);
    pair.compare_slot(0, &case);
}
