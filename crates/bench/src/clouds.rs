//! Clouds of points to voxel grids on the GPU, without their upload.
#![cfg(feature = "cuda")]

use std::sync::Arc;

use robocache::device::Device;
use robocache::dtype::DType;
use robocache::ops::voxelize::cpu::Voxelizer;
use robocache::ops::voxelize::{
    FieldAt, FieldType, Grid, IDENTITY, PointsView, Reduction, VoxelSpec,
};
use robocache::random::Random;

use crate::timer::{CLOUD_LAUNCHES, Timer};
use crate::{BenchError, Case, Options, Report};

/// Voxels along each axis.
const SIDE: usize = 128;

/// Clouds that a case goes round.
const CLOUDS: usize = 5;

/// All cases that are asked for.
pub fn run(
    _: &Arc<Device>,
    timer: &Timer,
    options: &Options,
    report: &mut Report,
) -> Result<(), BenchError> {
    let count = vec![Reduction::Count];
    let mean = ["a", "b", "c", "d"].map(|name| Reduction::Mean(name.into())).to_vec();
    let cases: [(_, _, _, fn(&mut Random) -> _, _, _); 8] = [
        ("voxel scatter alone, count 500000", &count, 500_000, anywhere, true, Some(7.7)),
        ("voxel count 500000", &count, 500_000, anywhere, false, None),
        ("voxel mean of 4, 500000", &mean, 500_000, anywhere, false, Some(25.0)),
        ("voxel mean of 4, 131072", &mean, 131_072, anywhere, false, Some(9.0)),
        ("voxel mean of 4, 500000 in a room", &mean, 500_000, in_a_room, false, None),
        ("voxel mean of 4, 131072 in a room", &mean, 131_072, in_a_room, false, None),
        ("voxel mean of 4, 131072, a third dead", &mean, 131_072, often_dead, false, None),
        ("voxel count 131072, a third dead", &count, 131_072, often_dead, false, None),
    ];
    for (name, channels, points, place, scatter_only, target) in cases {
        if !report.wants(options, name) {
            continue;
        }
        let case = time(timer, options, name, channels, (points, place), scatter_only)?;
        report.cases.push(Case { target_us: target, ..case });
    }
    Ok(())
}

fn time(
    timer: &Timer,
    options: &Options,
    name: &str,
    channels: &[Reduction],
    (points, place): (usize, fn(&mut Random) -> [f32; 3]),
    scatter_only: bool,
) -> Result<Case, BenchError> {
    let grid = Grid { origin_m: [-6.4; 3], size_m: 0.1, shape: [SIDE; 3] };
    let spec = VoxelSpec::new(grid, channels.to_vec());
    let columns = if matches!(channels[0], Reduction::Count) { 3 } else { 7 };
    let field = |i: usize| FieldAt { offset: 4 * i, kind: FieldType::Float32 };
    let fields: Vec<_> = (0..columns).map(field).collect();
    let clouds: Vec<_> =
        (0..CLOUDS).map(|seed| cloud(points, place, columns, seed as u64)).collect();
    let view = |data| PointsView {
        width: points,
        height: 1,
        point_step: 4 * columns,
        row_step: 4 * columns * points,
        big_endian: false,
        fields: &fields,
        t_base_sensor: IDENTITY,
        t_shapes: &[],
        sweep: None,
        data,
    };
    let views: Vec<_> = clouds.iter().map(|data| view(data)).collect();
    let dtype = DType::Bf16;
    let (times, found) = timer.clouds(&spec, dtype, &views, scatter_only, options.repeats)?;
    let row = row_on_the_cpu(&spec, dtype, &views[(CLOUD_LAUNCHES - 1) % CLOUDS]);
    let occupied = occupied(row.as_deref().unwrap_or_default(), spec.channels.len());
    let expected = if scatter_only { counts_on_the_cpu(&spec, &views) } else { row };
    if expected.as_ref() != Some(&found) {
        return Err(BenchError::Mismatch { case: name.into(), found: "others".into() });
    }
    // Points in; and out a count per voxel, or the row: zeros where it held values before, and new ones.
    let written = if scatter_only { 4 * occupied } else { 4 * occupied * channels.len() };
    Ok(Case::of_kernels(name, times).bytes((4 * columns * points + written) as u64))
}

/// A place anywhere inside the grid.
fn anywhere(random: &mut Random) -> [f32; 3] {
    std::array::from_fn(|_| random.float(-6.4, 6.39))
}

/// A place on the floor or one of two walls: there points are dense, as what a sensor sees is.
fn in_a_room(random: &mut Random) -> [f32; 3] {
    let mut place = anywhere(random);
    place[random.below(3) as usize] = random.float(-5.1, -5.05);
    place
}

/// Anywhere, or at one place, where the sensor is: there some drivers put a ray that returned
/// nothing, which is dead.
fn often_dead(random: &mut Random) -> [f32; 3] {
    let place = anywhere(random);
    if random.below(3) == 0 { [0.0; 3] } else { place }
}

/// Points with values.
fn cloud(points: usize, place: fn(&mut Random) -> [f32; 3], columns: usize, seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut data = Vec::with_capacity(4 * points * columns);
    for _ in 0..points {
        let place = place(&mut random);
        data.extend(place.iter().flat_map(|value| value.to_le_bytes()));
        for _ in 3..columns {
            data.extend_from_slice(&random.float(-9.0, 9.0).to_le_bytes());
        }
    }
    data
}

fn row_on_the_cpu(spec: &VoxelSpec, dtype: DType, view: &PointsView<'_>) -> Option<Vec<u8>> {
    let mut voxelizer = Voxelizer::new(spec, dtype, 1);
    let mut row = vec![0; voxelizer.row_bytes()];
    voxelizer.encode(view, 0, &mut row).ok().map(|_| row)
}

/// The points per voxel of all launches of a graph together.
fn counts_on_the_cpu(spec: &VoxelSpec, views: &[PointsView<'_>]) -> Option<Vec<u8>> {
    // Counts do not depend on the other columns.
    let spec = VoxelSpec { channels: vec![Reduction::Count], ..spec.clone() };
    let volume: usize = spec.grid.shape.iter().product();
    let mut totals = vec![0u32; volume];
    for view in views {
        let view = PointsView { fields: &view.fields[..3], ..*view };
        let row = row_on_the_cpu(&spec, DType::F32, &view)?;
        for (total, bytes) in totals.iter_mut().zip(row.as_chunks::<4>().0) {
            *total += f32::from_le_bytes(*bytes) as u32 * (CLOUD_LAUNCHES / views.len()) as u32;
        }
    }
    Some(totals.iter().flat_map(|total| total.to_le_bytes()).collect())
}

/// Voxels with a value, in the last channel of a row of two bytes per element.
fn occupied(row: &[u8], channels: usize) -> usize {
    let plane = row.len() / channels;
    row[row.len() - plane..].as_chunks::<2>().0.iter().filter(|bytes| **bytes != [0; 2]).count()
}
