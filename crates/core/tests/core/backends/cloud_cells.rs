//! The voxel of a coordinate, at and beside the faces between voxels: the quotient by the size of a
//! voxel must be that of an IEEE division, however a backend comes by it.

use robocache_ops::dtype::DType;
use robocache_ops::voxelize::{Grid, VoxelSpec};

use crate::backends::cloud_paths::{channels, pair};
use crate::backends::dense_clouds::encode;
use crate::backends::random::Random;
use crate::backends::subject::{Kind, Pair};

const CLOUDS_PER_PAIR: usize = 20;
const POINTS: usize = 600;
const CELLS: usize = 4096;

/// Sizes at the ends of what a reciprocal will do for, and beyond.
const SIZES: [f32; 10] =
    [1e-18, 9.99e-19, 1e18, 1.01e18, 1e-30, 1e30, f32::MIN_POSITIVE, 0.1, 1.9999999, 0.05];

/// A size of 1e-4 to 1e3 metres, its last bit set.
fn size(random: &mut Random) -> f32 {
    let size = 10f32.powf(random.float(-4.0, 3.0));
    f32::from_bits(size.to_bits() | 1)
}

/// `value` and its neighbours, 3 to either side.
fn beside(random: &mut Random, value: f32) -> f32 {
    f32::from_bits(value.to_bits().wrapping_add(random.range(0, 6) as u32).wrapping_sub(3))
}

/// A difference to divide by `size`: mostly of a face, else of any magnitude.
fn difference(random: &mut Random, size: f32) -> f32 {
    let any = f32::from_bits(random.bits() as u32);
    let face = |random: &mut Random, cells| random.range(0, cells) as f32 * size;
    match random.range(0, 9) {
        0 => random.choose(&[0.0, -0.0, size, -size, f32::MAX, f32::MIN, f32::MIN_POSITIVE]),
        1 => any,
        2 => f32::from_bits(any.to_bits() & 0x807F_FFFF), // denormal
        3 => any.abs() % size,
        // Around 2^-60, below which kernels divide.
        4 => beside(random, f32::from_bits((127 - 60) << 23)),
        5 => {
            let face = face(random, 8);
            beside(random, face)
        }
        _ => {
            let face = face(random, CELLS);
            beside(random, face)
        }
    }
}

pub(super) fn check(kind: &Kind, cases: usize) {
    for number in 0..cases.div_ceil(CLOUDS_PER_PAIR) {
        let mut random = Random::new(number as u64 + 70_000);
        let size_m = SIZES.get(number % 20).copied().unwrap_or_else(|| size(&mut random));
        let axis = number % 3;
        let mut shape = [1; 3];
        shape[axis] = CELLS;
        // From an origin that is not 0, differences are rounded; the rule is the same.
        let mut origin_m = [0.0; 3];
        if number % 4 == 3 {
            origin_m[axis] = f64::from(-size_m * random.float(0.0, 5000.0));
        }
        let grid = Grid { origin_m, size_m, shape };
        let spec = VoxelSpec::new(grid, channels("count"));
        let mut pair = pair(kind, &spec, DType::F32);
        for cloud in 0..CLOUDS_PER_PAIR {
            let case = format!("pair {number}: {grid:?}, cloud {cloud}");
            check_faces(&mut pair, &mut random, &grid, axis, &case);
        }
    }
}

/// The counts are those of a division in place of the backend's own.
fn check_faces(pair: &mut Pair, random: &mut Random, grid: &Grid, axis: usize, case: &str) {
    let size = grid.size_m;
    let origin = grid.origin_m[axis] as f32;
    let mut counts = vec![0.0f32; CELLS];
    let mut values = Vec::with_capacity(3 * POINTS);
    for _ in 0..POINTS {
        let mut point = [size / 2.0; 3];
        point[axis] = origin + difference(random, size);
        values.extend_from_slice(&point);
        let quotient = (point[axis] - origin) / size;
        if (0.0..CELLS as f32).contains(&quotient) {
            counts[quotient as usize] += 1.0;
        }
    }
    assert!(encode(pair, 3, &values, 0, case));
    let found = &pair.output().as_chunks::<4>().0[..CELLS];
    let found: Vec<_> = found.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    let wrong = found.iter().zip(&counts).position(|(found, expected)| found != expected);
    assert_eq!(wrong, None, "voxel with another count: {case}");
}

/// `quotient` of `kernels/voxelize/points.cuh`, with IEEE operations.
fn quotient(d: f32, size: f32) -> f32 {
    let inverse = 1.0 / size;
    let first = d * inverse;
    let second = (-first).mul_add(size, d).mul_add(inverse, first);
    (-second).mul_add(size, d).mul_add(inverse, second)
}

/// Checks that a quotient has the bits of a division wherever kernels use it, unless both are outside of any grid.
fn check_quotient(d: f32, size: f32) {
    if d.abs() < f32::from_bits((127 - 60) << 23) || !(1e-18..=1e18).contains(&size) {
        return;
    }
    let found = quotient(d, size);
    let expected = d / size;
    let inside = |quotient: f32| (0.0..8_388_608.0).contains(&quotient);
    assert!(
        found.to_bits() == expected.to_bits() || !(inside(found) || inside(expected)),
        "{d:e} / {size:e}: expected {expected:e}, found {found:e}"
    );
}

pub(super) fn check_quotients(cases: usize) {
    let mut random = Random::new(80_000);
    for _ in 0..cases * 500 {
        let any = f32::from_bits(random.bits() as u32);
        let fraction = random.bits() as u32 >> 9;
        check_quotient(any, size(&mut random));
        check_quotient(any, f32::from_bits(random.range(67, 187) as u32 * (1 << 23) + fraction));
        let size = size(&mut random);
        check_quotient(difference(&mut random, size), size);
        check_nearest_to_a_tie(f32::from_bits(127 << 23 | fraction | 1), &mut random);
    }
}

/// Quotients that lie as close to the middle between two floats as any by this divisor can, or
/// next to one at random.
fn check_nearest_to_a_tie(size: f32, random: &mut Random) {
    let divisor = u64::from(size.to_bits() & 0x7F_FFFF | 0x80_0000);
    // The inverse modulo 2^64 by Newton's iteration, which doubles the bits that are right.
    let mut inverse = divisor;
    for _ in 0..5 {
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(divisor.wrapping_mul(inverse)));
    }
    for (bits, error) in [(24, 1), (24, u64::MAX), (25, 1), (25, u64::MAX)] {
        // middle * divisor = error modulo 2^bits; a middle has 25 bits, the last one set.
        let residue = inverse.wrapping_mul(error) & ((1 << bits) - 1);
        let middle = residue | 1 << 24;
        let product = (middle * divisor).wrapping_sub(error);
        if product.is_multiple_of(1 << bits) && product >> bits < 1 << 24 {
            check_quotient((product >> bits) as f32, divisor as f32);
        }
    }
    let middle = 1 << 24 | random.range(0, (1 << 24) - 1) as u64 | 1;
    check_quotient(beside(random, (middle * divisor) as f32), divisor as f32);
}
