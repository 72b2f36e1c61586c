//! Tests of clouds for which the reduction of sorted clouds changes its way: bins of several sub-bins, and more points
//! than the packed counts of a sub-bin hold. `kernels/voxelize/README.md` has the words.

use half::f16;
use robocache_core::layout::Segment;
use robocache_ops::device::shared::voxelize::{Bins, VOXEL_BLOCK};
use robocache_ops::dtype::DType;
use robocache_ops::voxelize::memory::{LARGE_SUB_BIN_SHIFT, SMALL_SUB_BIN_SHIFT, bins_of};
use robocache_ops::voxelize::{Feature, Grid, PointDrops, Reduction, VoxelSpec, extra_fields};

use crate::backends::cloud_paths::{channels, pair_within};
use crate::backends::sifted_clouds::{encode, row_spec, words};
use crate::backends::subject::{Kind, Pair};

/// More voxels than the bins of a grid hold at once.
const SHAPE: [usize; 3] = [260, 260, 250];
/// The least number of points of a voxel.
const ENOUGH: usize = 2;
/// Most points of a bin for which counts of 16 bits do.
const MOST_POINTS: usize = 65_535;
/// Voxels with several points that a sub-bin lists.
const LISTED: usize = 2048;

/// Sub-bins, and voxels with enough points in only some of them: the usual way, with more voxels than are
/// listed, and with more points than are counted in 16 bits.
pub(super) fn check(kind: &Kind, _: usize) {
    check_bin(kind, Some(9000));
    check_bin(kind, None);
}

fn check_bin(kind: &Kind, max_voxels: Option<usize>) {
    let grid = Grid { origin_m: [0.0; 3], size_m: 1.0, shape: SHAPE };
    let channels = match max_voxels {
        Some(_) => vec![
            Reduction::Count,
            Reduction::Mean("a".into()),
            Reduction::Last("a".into()),
            Reduction::Min(Feature::Range),
        ],
        None => vec![Reduction::Count],
    };
    let spec =
        VoxelSpec { min_points: ENOUGH as u32, max_voxels, ..VoxelSpec::new(grid, channels) };
    let bin = voxels_of_a_bin();
    // A multiple of 8, which f16 holds.
    let crowd = MOST_POINTS / SUB_BINS / 8 * 8 + 104;
    // How many points the voxel has that is number `i` of its sub-bin.
    let clouds: [(&str, &dyn Fn(usize) -> usize); 5] = [
        ("few", &|i| [1, 2, 3, 1, 0, 0, 0, 0][i % 8]),
        ("many voxels", &|i| if i % 5 == 0 { 1 } else { 2 }),
        ("crowded", &|i| if i == 0 { crowd } else { i % 2 }),
        ("nothing", &|_| 0),
        ("few again", &|i| [1, 2, 3, 1, 0, 0, 0, 0][(i + 3) % 8]),
    ];
    let most = SUB_BINS * (crowd + bin[0].len());
    let mut pair = pair_within(kind, &spec, DType::F16, most);
    for (name, points_of) in clouds {
        let voxels = bin.iter().flat_map(|sub_bin| sub_bin.iter().copied().enumerate());
        let counts: Vec<(usize, usize)> = voxels
            .map(|(i, voxel)| (voxel, points_of(i)))
            .filter(|(_, points)| *points > 0)
            .collect();
        check_counts(&mut pair, &spec, &counts, name);
    }
    // Each cloud took the way that it is for, if the kernel's limit is this one.
    let kernel = include_str!("../../../../../kernels/voxelize/sub_bin.cuh");
    assert!(kernel.contains(&format!("constexpr u32 LISTED = {LISTED};")));
    let several = |points_of: &dyn Fn(usize) -> usize| {
        let of_large = |sub_bins: &[Vec<usize>]| {
            let counts = sub_bins.iter().flat_map(|voxels| (0..voxels.len()).map(points_of));
            counts.filter(|points| *points > 1).count()
        };
        bin.chunks(SUB_BINS / 2).map(of_large).max()
    };
    assert!(several(clouds[0].1) < Some(LISTED) && several(clouds[1].1) > Some(LISTED));
    assert!(SUB_BINS * crowd > MOST_POINTS);
}

/// Sub-bins of a bin where they are small; where they are large there are two.
const SUB_BINS: usize = 8;

/// The voxels of the grid that one bin holds, by small sub-bins.
fn voxels_of_a_bin() -> Vec<Vec<usize>> {
    let volume: usize = SHAPE.iter().product();
    let [small, large] =
        [SMALL_SUB_BIN_SHIFT, LARGE_SUB_BIN_SHIFT].map(|most| bins_of(volume as u32, most));
    assert_eq!(small.bin_shift, large.bin_shift);
    assert_eq!(1 << (small.bin_shift - small.sub_bin_shift), SUB_BINS);
    assert_eq!(large.bin_shift - large.sub_bin_shift, 1);
    let first = 5u32 << small.bin_shift;
    let sub_bin = |number: usize| {
        let from = first + ((number as u32) << small.sub_bin_shift);
        let voxels =
            (from..from + (1 << small.sub_bin_shift)).map(|number| voxel_of(number, &small));
        voxels.filter(|voxel| *voxel < volume).collect()
    };
    (0..SUB_BINS).map(sub_bin).collect()
}

/// The voxel that has this number in the order of bins: the inverse of `hash_block` in
/// `kernels/voxelize/bins.cuh`.
fn voxel_of(number: u32, bins: &Bins) -> usize {
    let factor = 0x9E37_79B1u32;
    let inverse =
        (0..4).fold(factor, |x, _| x.wrapping_mul(2u32.wrapping_sub(factor.wrapping_mul(x))));
    let block = (number / VOXEL_BLOCK).wrapping_mul(inverse) & bins.voxel_block_mask;
    (block * VOXEL_BLOCK + number % VOXEL_BLOCK) as usize
}

/// Encodes a cloud with the given numbers of points in the given voxels. Its row counts those that have enough, and no
/// others.
fn check_counts(pair: &mut Pair, spec: &VoxelSpec, counts: &[(usize, usize)], name: &str) {
    let [x, y, _] = SHAPE;
    let columns = 3 + extra_fields(spec).count();
    let mut points = Vec::new();
    for (voxel, count) in counts {
        let at = [voxel % x, voxel / x % y, voxel / (x * y)].map(|at| at as f64 + 0.5);
        points.extend(
            (0..*count).map(|i| [&at[..], &[i as f64 * 0.125]].concat()[..columns].to_vec()),
        );
    }
    // The points of some voxels come in two parts, far apart.
    let third = points.len() / 3;
    points.rotate_left(third);
    let case = format!("{name}, {:?}", spec.max_voxels);
    let drops = encode(pair, &points, &words(&points, spec), 0, &case).expect(&case);
    let (kept, left): (Vec<(usize, usize)>, Vec<_>) =
        counts.iter().copied().partition(|(_, count)| *count >= ENOUGH);
    let expected = PointDrops {
        too_few: left.iter().map(|(_, count)| *count as u64).sum(),
        voxels_in_use: spec.max_voxels.map_or(0, |_| kept.len() as u32),
        ..PointDrops::default()
    };
    assert_eq!(drops, expected, "{case}");
    match pair.layout().segments() {
        [_] => {
            let count = |voxel: usize| count_at(pair, voxel);
            assert!(kept.iter().all(|(voxel, points)| count(*voxel) == *points), "{case}");
            assert!(left.iter().all(|(voxel, _)| count(*voxel) == 0), "{case}");
        }
        segments => assert!(listed(pair, segments, spec) == in_order(kept), "{case}"),
    }
}

/// The first element of an entry of the first segment: its count.
fn count_at(pair: &Pair, element: usize) -> usize {
    let elements = pair.output()[pair.layout().segments()[0].step_range(0)].as_chunks::<2>().0;
    f16::from_le_bytes(elements[element]).to_f32() as usize
}

/// The voxels of a sparse row and their counts.
fn listed(pair: &Pair, segments: &[Segment], spec: &VoxelSpec) -> Vec<(usize, usize)> {
    let [x, y, _] = SHAPE;
    let coordinates = pair.output()[segments[1].step_range(0)].as_chunks::<4>().0;
    let number = |bytes: &[u8; 4]| i32::from_le_bytes(*bytes) as usize;
    let voxels = coordinates.chunks_exact(3).map(|at| {
        let [k, j, i] = [0, 1, 2].map(|axis| number(&at[axis]));
        (k * y + j) * x + i
    });
    let channels = spec.channels.len();
    let all = voxels.enumerate().map(|(at, voxel)| (voxel, count_at(pair, at * channels)));
    all.take_while(|(_, count)| *count > 0).collect()
}

fn in_order(mut counts: Vec<(usize, usize)>) -> Vec<(usize, usize)> {
    counts.sort_unstable();
    counts
}

/// As many points as the packed counts of a bin hold, and one more: two voxels share a word of counts, and
/// the points of one must not become points of the other.
pub(super) fn check_packed_counts(kind: &Kind, _: usize) {
    const PLAIN: &str = "mean a, max a, count";
    for (min_points, max_voxels, list) in [
        (1, None, channels(PLAIN)),
        (1, None, channels("count")),
        (2, None, channels(PLAIN)),
        (2, Some(20), channels(PLAIN)),
    ] {
        let count_at = list.len() - 1;
        let spec = VoxelSpec { min_points, max_voxels, channels: list, ..row_spec(600) };
        let mut pair = pair_within(kind, &spec, DType::F32, MOST_POINTS + 1);
        // The lower half of a word, and the upper one.
        for (crowded, other) in [(4, 5), (5, 4)] {
            for total in [MOST_POINTS, MOST_POINTS + 1] {
                let case = format!("{spec:?}: {total} points, voxel {crowded}");
                let columns = 3 + extra_fields(&spec).count();
                let voxel = |i: usize| if i % 20_000 == 7 { other } else { crowded };
                let point = |i| [voxel(i) as f64 + 0.5, 0.5, 0.5, 0.25][..columns].to_vec();
                let points: Vec<_> = (0..total).map(point).collect();
                let few = points.iter().filter(|point| point[0] == other as f64 + 0.5).count();
                assert_eq!(few, 4, "{case}");
                encode(&mut pair, &points, &words(&points, &spec), 0, &case).expect(&case);
                let found =
                    pair.output().as_chunks::<4>().0.iter().map(|at| f32::from_le_bytes(*at));
                let found: Vec<f32> = found.collect();
                let counts: Vec<f32> = match max_voxels {
                    // Two voxels in the order of the grid.
                    Some(_) => found.chunks(3).take(3).map(|voxel| voxel[count_at]).collect(),
                    None => found[count_at * 600..][4..7].to_vec(),
                };
                let crowd = (total - few) as f32;
                let expected = if crowded == 4 { [crowd, 4.0, 0.0] } else { [4.0, crowd, 0.0] };
                assert_eq!(counts, expected, "{case}");
                if count_at > 0 {
                    let means = if max_voxels.is_some() {
                        [found[0], found[3]]
                    } else {
                        [found[4], found[5]]
                    };
                    assert_eq!(means, [0.25; 2], "{case}");
                }
            }
        }
    }
}
