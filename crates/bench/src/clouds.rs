//! Clouds of points to voxel grids on the GPU, without their upload.
#![cfg(feature = "cuda")]

use std::sync::Arc;

use robocache_ops::align::Slot;
use robocache_ops::device::Device;
use robocache_ops::dtype::DType;
use robocache_ops::random::Random;
use robocache_ops::voxelize::cpu::Voxelizer;
use robocache_ops::voxelize::{
    Action, FieldAt, FieldType, Filter, Form, Grid, IDENTITY, PointDrops, PointsView, Reduction,
    Shape, ShapeFrame, VoxelSpec, extra_fields,
};

use crate::error::BenchError;
use crate::options::Options;
use crate::report::{Case, RunTimes};
use crate::timer::{CLOUD_LAUNCHES, CLOUD_SLOTS, Timer};

/// Voxels along each axis.
const SIDE: usize = 128;

/// Clouds that a case goes round.
const CLOUDS: usize = 5;

/// All cases that are asked for.
pub(crate) fn run(
    _: &Arc<Device>,
    timer: &Timer,
    options: &Options,
    report: &mut RunTimes,
) -> Result<(), BenchError> {
    let count = || spec(vec![Reduction::Count]);
    let mean = || spec(["a", "b", "c", "d"].map(|name| Reduction::Mean(name.into())).to_vec());
    let sparse = || VoxelSpec { max_voxels: Some(131_072), ..mean() };
    let cases: [(_, _, _, fn(&mut Random) -> _, _); 14] = [
        ("voxel count 500000", count(), 500_000, anywhere, Some(9.3)),
        ("voxel count 500000 in a room", count(), 500_000, in_a_room, None),
        ("voxel count 500000, a third dead", count(), 500_000, often_dead, None),
        ("voxel mean of 4, 500000", mean(), 500_000, anywhere, Some(21.0)),
        ("voxel mean of 4, 131072", mean(), 131_072, anywhere, Some(12.5)),
        ("voxel mean of 4, 500000, a fifth dropped", mean(), 500_000, dropped, None),
        ("voxel mean of 4, 500000 in a room", mean(), 500_000, in_a_room, None),
        ("voxel mean of 4, 131072 in a room", mean(), 131_072, in_a_room, None),
        ("voxel mean of 4, 131072, a third dead", mean(), 131_072, often_dead, Some(19.0)),
        ("voxel mean of 4, 500000, a third dead", mean(), 500_000, often_dead, Some(40.0)),
        ("voxel count 131072, a third dead", count(), 131_072, often_dead, None),
        ("voxel sparse mean of 4, 131072", sparse(), 131_072, anywhere, None),
        ("voxel sparse mean of 4, 131072 in a room", sparse(), 131_072, in_a_room, None),
        ("voxel filters, min max last, 131072", filtered(), 131_072, anywhere, None),
    ];
    for (name, spec, points, place, target) in cases {
        if !report.wants(options, name) {
            continue;
        }
        let case = time(timer, options, name, &spec, points, place)?;
        report.cases.push(Case { target_us: target, ..case });
    }
    let name = "voxel count 500000, int32, x first";
    if report.wants(options, name) {
        report.cases.push(time_scatter(timer, options, name, 500_000)?);
    }
    Ok(())
}

/// Clouds as operations on tensors take them: nothing is kept from call to call.
fn time_scatter(
    timer: &Timer,
    options: &Options,
    name: &str,
    points: usize,
) -> Result<Case, BenchError> {
    let spec = spec(vec![Reduction::Count]);
    let clouds: Vec<_> = (0..CLOUDS).map(|seed| cloud(points, anywhere, 3, seed as u64)).collect();
    let fields = [0, 4, 8].map(|offset| FieldAt { offset, kind: FieldType::Float32 });
    let view = |data| PointsView {
        width: points,
        height: 1,
        point_step: 12,
        row_step: 12 * points,
        big_endian: false,
        fields: &fields,
        t_base_sensor: IDENTITY,
        t_shapes: &[],
        sweep: None,
        data,
    };
    let views: Vec<_> = clouds.iter().map(|data| view(data)).collect();
    let (times, found) = timer.scatter(&spec.grid, &views, CLOUD_SLOTS, options.repeats)?;
    let (warm, _) = timer.scatter(&spec.grid, &views[..1], 1, options.repeats)?;
    let row = row_on_the_cpu(&spec, DType::F32, &views[(CLOUD_LAUNCHES - 1) % CLOUDS]);
    let row = row.map(|(row, _)| row).unwrap_or_default();
    let counts = row.as_chunks::<4>().0;
    let at =
        |x, y, z| counts.get((z * SIDE + y) * SIDE + x).map(|count| f32::from_le_bytes(*count));
    let places = (0..SIDE.pow(3)).map(|i| (i / SIDE / SIDE, i / SIDE % SIDE, i % SIDE));
    let expected = places.map(|(x, y, z)| at(x, y, z).map(|count| count as u32));
    let found = found.as_chunks::<4>().0.iter().map(|count| Some(u32::from_le_bytes(*count)));
    if !expected.eq(found) {
        return Err(BenchError::Mismatch { case: name.into(), found: "others".into() });
    }
    // Points in, and all of the array out.
    Ok(Case::of_kernels(name, times).warm(warm).bytes((12 * points + 4 * SIDE.pow(3)) as u64))
}

fn spec(channels: Vec<Reduction>) -> VoxelSpec {
    VoxelSpec::new(Grid { origin_m: [-6.4; 3], size_m: 0.1, shape: [SIDE; 3] }, channels)
}

/// Specification that leaves out points as a robot does: those far away, outside of its room, and on itself.
fn filtered() -> VoxelSpec {
    let shape =
        |action, form| Shape { action, form, frame: ShapeFrame::Base, t_shape_frame: IDENTITY };
    let room = Form::Box { min_m: [-6.0; 3], max_m: [6.0; 3] };
    let shapes = vec![
        shape(Action::Keep, room),
        shape(Action::Robot, Form::Sphere { radius_m: 0.8 }),
        shape(Action::Robot, Form::Box { min_m: [0.0; 3], max_m: [2.0, 0.5, 0.5] }),
    ];
    let filter = Filter { min_range_m: Some(0.3), max_range_m: Some(9.0), shapes };
    let a = || "a".into();
    let channels = vec![Reduction::Min(a()), Reduction::Max(a()), Reduction::Last(a())];
    VoxelSpec { filter, ..spec(channels) }
}

fn time(
    timer: &Timer,
    options: &Options,
    name: &str,
    spec: &VoxelSpec,
    points: usize,
    place: fn(&mut Random) -> [f32; 3],
) -> Result<Case, BenchError> {
    let channels = spec.channels.len();
    let columns = 3 + extra_fields(spec).count();
    let field = |i: usize| FieldAt { offset: 4 * i, kind: FieldType::Float32 };
    let fields: Vec<_> = (0..columns).map(field).collect();
    let t_shapes = spec.filter.place(&IDENTITY, |_| None);
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
        t_shapes: &t_shapes,
        sweep: None,
        data,
    };
    let views: Vec<_> = clouds.iter().map(|data| view(data)).collect();
    let dtype = DType::Bf16;
    let (times, found) = timer.clouds(spec, dtype, &views, CLOUD_SLOTS, options.repeats)?;
    let (warm, _) = timer.clouds(spec, dtype, &views[..1], 1, options.repeats)?;
    let (row, drops) = row_on_the_cpu(spec, dtype, &views[(CLOUD_LAUNCHES - 1) % CLOUDS]).unzip();
    let occupied = match (&row, drops.map(|drops| drops.voxels_in_use)) {
        (Some(row), Some(0)) => occupied(row, channels),
        (_, in_use) => in_use.unwrap_or(0) as usize,
    };
    if row.as_ref() != Some(&found) {
        return Err(BenchError::Mismatch { case: name.into(), found: "others".into() });
    }
    // Points in; and out the row: zeros where it held values before, and new ones.
    let written = match spec.max_voxels {
        None => 4 * occupied * channels,
        // With three numbers more for each voxel.
        Some(_) => occupied * (2 * channels + 12),
    };
    let bytes = (4 * columns * points + written) as u64;
    Ok(Case::of_kernels(name, times).warm(warm).bytes(bytes))
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

/// Anywhere, outside of the grid, or nowhere.
fn dropped(random: &mut Random) -> [f32; 3] {
    let place = anywhere(random);
    match random.below(10) {
        0 => [place[0], f32::NAN, place[2]],
        1 => [place[0] + 20.0, place[1], place[2]],
        _ => place,
    }
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

fn row_on_the_cpu(
    spec: &VoxelSpec,
    dtype: DType,
    view: &PointsView<'_>,
) -> Option<(Vec<u8>, PointDrops)> {
    let mut voxelizer = Voxelizer::new(spec, dtype, 1);
    let mut row = vec![0; voxelizer.row_bytes()];
    voxelizer.encode(view, Slot::new(0), &mut row).ok().map(|drops| (row, drops))
}

/// Voxels with a value, in the last channel of a row of two bytes per element.
fn occupied(row: &[u8], channels: usize) -> usize {
    let plane = row.len() / channels;
    row[row.len() - plane..].as_chunks::<2>().0.iter().filter(|bytes| **bytes != [0; 2]).count()
}
