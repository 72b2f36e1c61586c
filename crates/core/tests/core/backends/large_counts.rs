//! Clouds that are only counted. A GPU puts the points of large ones into buckets, and those of small ones not. `kernels/voxelize/README.md` has the words.

use robocache_core::sample::Sample;
use robocache_ops::dtype::DType;
use robocache_ops::voxelize::{Grid, VoxelSpec};

use crate::backends::cloud_paths::{channels, pair_within};
use crate::backends::clouds::Form;
use crate::backends::random::Random;
use crate::backends::subject::{Kind, Pair};

/// More points than any GPU with buckets needs for them, in a number that no warp, tile or copy divides.
const POINTS: usize = 330_001;
/// Points that go into buckets on no GPU.
const FEW: usize = 500;
/// The most that a cloud may have.
const MOST: usize = 1 << 22;
/// More tiles than a thread block has loads under way at once, and whole tiles for 132 multiprocessors.
const MANY: usize = 1_100_003;
const WHOLE_TILES: usize = 132 * 4096;

/// Which voxel a point is in.
type VoxelOf<'a> = &'a dyn Fn(usize) -> usize;

pub(super) fn check(kind: &Kind, cases: usize) {
    let mut random = Random::new(66_000);
    // Cores have one way for all clouds, so a hundredth of the points is enough.
    let share = if kind.is_cpu() { 100 } else { 1 };
    // A tool that checks each access would take minutes for more.
    let (grids, most) = if cases < 400 { (1, POINTS) } else { (3, MOST) };
    // Voxels that fill their spans, that fill 8 voxels at a time, and that do neither.
    let shapes =
        [([128, 128, 128], DType::Bf16), ([100, 90, 37], DType::F16), ([101, 91, 37], DType::F32)];
    for (number, (shape, dtype)) in shapes.into_iter().enumerate().take(grids) {
        let grid = Grid { origin_m: [0.0; 3], size_m: 1.0, shape };
        let spec = VoxelSpec::new(grid, channels(["count", "count, occupancy"][number % 2]));
        let mut pair = pair_within(kind, &spec, dtype, MOST);
        check_grid(&mut pair, &mut random, &spec, dtype, most, share);
    }
}

/// Clouds in all orders, round the slots, so that each finds the voxels of another one in its row. Points of 36 bytes do
/// not go into buckets, because a tile of them is larger than the memory for it.
fn check_grid(
    pair: &mut Pair,
    random: &mut Random,
    spec: &VoxelSpec,
    dtype: DType,
    most: usize,
    share: usize,
) {
    let volume = spec.grid.volume();
    let anywhere = random.range(1, 1 << 30) | 1;
    let spread: VoxelOf<'_> = &|i| i * anywhere;
    let orders: [(&str, usize, usize, VoxelOf<'_>); 12] = [
        ("spread", POINTS, 12, spread),
        ("few", FEW, 16, spread),
        ("a third in one voxel", POINTS, 20, &|i| {
            if i.is_multiple_of(3) { 4321 } else { i * anywhere }
        }),
        ("20 crowded voxels of one bin", POINTS, 32, &|i| 512 + i % 20),
        ("few of the same bin", FEW, 36, &|i| 500 + i % 40),
        ("large points", POINTS, 36, spread),
        ("whole tiles", WHOLE_TILES, 12, spread),
        ("runs", POINTS, 12, &|i| i / 90),
        ("many", MANY, 16, spread),
        ("all of one span", POINTS, 16, &|i| volume - 1 - i % 200),
        ("the most", MOST, 12, spread),
        ("one voxel", POINTS, 20, &|_| volume - 1),
    ];
    let orders = orders.into_iter().filter(|(_, points, ..)| *points <= most);
    for (number, (name, points, point_step, voxel)) in orders.enumerate() {
        let points = points.div_ceil(share);
        let case =
            format!("{name}, {:?} of {dtype:?}, points of {point_step} bytes", spec.grid.shape);
        let place = |i| place_of(random, &spec.grid, i, voxel(i) % volume);
        let values: Vec<_> = (0..points).map(place).collect();
        let row_step = points * point_step;
        let form = Form { point_step, row_step, ..Form::words(3, points) };
        let data = form.bytes(&values);
        let slot = number % 3;
        let drops = pair.encode(0, slot, Sample::Points(form.view(&data)), &case);
        // An f16 ends at 65,504, and a third of the points is more.
        let is_beyond = dtype == DType::F16 && points >= POINTS && name.ends_with("one voxel");
        assert_eq!(drops.is_none(), is_beyond, "{case}");
        if drops.is_some() {
            pair.compare_slot(slot, &case);
        }
    }
}

/// A place in a voxel. Some points are not finite, and some are outside.
fn place_of(random: &mut Random, grid: &Grid, i: usize, voxel: usize) -> Vec<f64> {
    let [x, y, _] = grid.shape;
    let mut place = vec![voxel % x, voxel / x % y, voxel / x / y]
        .into_iter()
        .map(|at| f64::from(at as f32 + random.float(0.1, 0.9)))
        .collect::<Vec<_>>();
    match i % 97 {
        5 => place[i % 3] = f64::NAN,
        6 => place[i % 3] = -1.0,
        7 => place[i % 3] = f64::INFINITY,
        _ => {}
    }
    place
}
