//! Clouds that are only counted, with so many points that a GPU puts these into buckets, and with as few that it
//! does not. `kernels/voxelize/README.md` has the words.

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

pub fn check(kind: &Kind, _: usize) {
    let mut random = Random::new(66_000);
    // Voxels that fill their spans, that fill 8 voxels at a time, and that do neither.
    let shapes =
        [([128, 128, 128], DType::Bf16), ([100, 90, 37], DType::F16), ([101, 91, 37], DType::F32)];
    for (number, (shape, dtype)) in shapes.into_iter().enumerate() {
        let grid = Grid { origin_m: [0.0; 3], size_m: 1.0, shape };
        let spec = VoxelSpec::new(grid, channels(["count", "count, occupancy"][number % 2]));
        let mut pair = pair_within(kind, &spec, dtype, 2 * POINTS);
        check_grid(&mut pair, &mut random, &spec, dtype);
    }
}

/// Clouds in all orders, round the slots, so that each finds the voxels of another one in its row.
fn check_grid(pair: &mut Pair, random: &mut Random, spec: &VoxelSpec, dtype: DType) {
    let volume = spec.grid.volume();
    let anywhere = random.range(1, 1 << 30) | 1;
    let orders: [(&str, usize, &dyn Fn(usize) -> usize); 8] = [
        ("spread", POINTS, &|i| i * anywhere),
        ("few", FEW, &|i| i * anywhere),
        ("a third in one voxel", POINTS, &|i| {
            if i.is_multiple_of(3) { 4321 } else { i * anywhere }
        }),
        ("40 crowded voxels of one bin", POINTS, &|i| 512 + i % 40),
        ("few of the same bin", FEW, &|i| 500 + i % 40),
        ("runs", POINTS, &|i| i / 90),
        ("all of one span", POINTS, &|i| volume - 1 - i % 200),
        ("one voxel", POINTS, &|_| volume - 1),
    ];
    for (number, (name, points, voxel)) in orders.into_iter().enumerate() {
        // With 36 bytes, a tile of points is larger than the memory for it.
        let point_step = [12, 16, 20, 32, 36][number % 5];
        let case =
            format!("{name}, {:?} of {dtype:?}, points of {point_step} bytes", spec.grid.shape);
        let place = |i| place_of(random, &spec.grid, i, voxel(i) % volume);
        let values: Vec<_> = (0..points).map(place).collect();
        let row_step = points * point_step;
        let form = Form { point_step, row_step, ..Form::words(3, points) };
        let (data, slot) = (form.bytes(&values), number % 3);
        let drops = pair.encode(0, slot, Sample::Points(form.view(&data)), &case);
        // An f16 ends at 65,504.
        let is_beyond = dtype == DType::F16 && name.ends_with("one voxel");
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
