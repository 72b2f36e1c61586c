//! Clouds with crowded voxels: the sort adds up what a tile has of them, and the reduction takes the sums.
//! `kernels/voxelize/README.md` has the words.

use robocache_ops::dtype::DType;
use robocache_ops::voxelize::{Feature, Grid, Reduction, VoxelSpec, extra_fields};

use crate::backends::cloud_paths::{channels, pair_within};
use crate::backends::random::Random;
use crate::backends::sifted_clouds::{encode, words};
use crate::backends::subject::Kind;

/// Clouds of a case.
const CLOUDS: usize = 3;

pub(super) fn check(kind: &Kind, cases: usize) {
    let mut random = Random::new(64_000);
    for number in 0..(cases / 20).clamp(8, 60) {
        // Now and then more points than counts of 16 bits hold, and more tiles than are listed at once.
        let most = match number % 8 {
            7 => (cases * 100).min(200_000),
            3 if number % 16 == 3 => (cases * 600).min(1_200_000),
            _ => (cases * 10).clamp(500, 20_000),
        };
        check_case(kind, number, most, &mut random);
    }
}

fn check_case(kind: &Kind, number: usize, most: usize, random: &mut Random) {
    let shapes = [[64, 64, 32], [9, 8, 7], [1000, 1, 1], [130, 120, 110]];
    let shape = random.choose(&shapes);
    let grid = Grid { origin_m: [0.0; 3], size_m: 1.0, shape };
    let lists =
        ["mean a, mean b, mean c, mean d", "max a, count, mean b", "mean a, max x, occupancy"];
    let long = "mean a, mean b, max c, mean d, max e, count, mean z, mean e, max b";
    let mut spec = VoxelSpec::new(grid, channels(lists[number % lists.len()]));
    if random.one_in(4) {
        spec.channels = channels(long);
    }
    if random.one_in(2) {
        let of = |name: &str| Feature::from(name);
        let more = [Reduction::Last(of("a")), Reduction::Min(of("a")), Reduction::Sum(of("b"))];
        spec.channels.extend(more);
        spec.min_points = random.choose(&[1, 2, 50, 3000]);
        if random.one_in(2) {
            spec.max_voxels = Some(most + 1);
        }
    }
    let dtype = random.choose(&[DType::F32, DType::Bf16]);
    let mut pair = pair_within(kind, &spec, dtype, most);
    let columns = 3 + extra_fields(&spec).count();
    for cloud in 0..CLOUDS {
        let points = random.range(1, most);
        let crowds: Vec<[f64; 3]> =
            (0..random.range(1, 40)).map(|_| place(random, shape)).collect();
        // The share of points in crowds, of 16. The first crowd has half of these.
        let share = random.range(0, 16);
        let run = random.choose(&[1, 1, 7, 900]);
        let mut crowded = false;
        let all: Vec<Vec<f64>> = (0..points)
            .map(|i| {
                if i % run == 0 {
                    crowded = random.range(0, 15) < share;
                }
                let own = match crowded {
                    true if random.one_in(2) => crowds[0],
                    true => random.choose(&crowds),
                    false => place(random, shape),
                };
                let values = (3..columns).map(|_| f64::from(random.float(-1000.0, 1000.0)));
                own.into_iter().chain(values).collect()
            })
            .collect();
        let case = format!(
            "case {number}, cloud {cloud}: {points} points, {share}/16 in {} voxels, runs of {run}, \
             {shape:?}, {dtype:?}, {:?}, at least {}, {:?}",
            crowds.len(),
            spec.channels,
            spec.min_points,
            spec.max_voxels,
        );
        encode(&mut pair, &all, &words(&all, &spec), cloud % 2, &case);
    }
}

/// A place in the grid.
fn place(random: &mut Random, shape: [usize; 3]) -> [f64; 3] {
    shape.map(|n| f64::from(random.float(0.0, n as f32)))
}
