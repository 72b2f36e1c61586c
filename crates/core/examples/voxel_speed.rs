//! Time to voxelize a cloud of 131,072 points on one core, and two clouds of half as many into one grid:
//! `cargo run --release --example voxel_speed`

use robocache_core::cdr::Writer;
use robocache_core::input::point_cloud2;
use robocache_ops::align::Slot;
use robocache_ops::dtype::DType;
use robocache_ops::time::Stamp;
use robocache_ops::voxelize::cpu::{Condenser, Voxelizer};
use robocache_ops::voxelize::{
    FieldAt, FieldType, Grid, PointDrops, PointsView, Reduction, VoxelSpec, extra_fields,
};
use std::time::Instant;

const RINGS: usize = 128;
const COLUMNS: usize = 1024;
const FLOAT32: u8 = 7;

/// The points of a cloud, from a seed.
type Pattern = fn(u64) -> Vec<[f32; 5]>;

fn main() {
    println!("{} points; ms per cloud: p50, p99 over 200 clouds", RINGS * COLUMNS);
    let patterns: [(&str, Pattern); 2] = [("uniform", uniform), ("rings", rings)];
    for (name, points) in patterns {
        for step in [16, 24] {
            let messages: Vec<_> = (0..4).map(|seed| message(&points(seed), step)).collect();
            for shape in [[64, 64, 32], [128, 128, 128]] {
                for dtype in [DType::F32, DType::F16] {
                    measure(name, &messages, step, shape, dtype);
                }
                measure_merged(name, &points(0), step, shape);
            }
        }
    }
}

/// Dense and sparse rows of the same clouds, in turns.
fn measure(name: &str, messages: &[Vec<u8>], step: usize, shape: [usize; 3], dtype: DType) {
    let size_m = 64.0 / shape[0] as f32;
    let dense = VoxelSpec::new(
        Grid { origin_m: [-32.0, -32.0, -4.0], size_m, shape },
        vec![Reduction::Count, Reduction::Mean("intensity".into())],
    );
    let sparse = VoxelSpec { max_voxels: Some(RINGS * COLUMNS), ..dense.clone() };
    const SLOTS: usize = 4;
    let extra: Vec<_> = extra_fields(&dense).map(str::to_owned).collect();
    let mut subjects = [dense, sparse].map(|spec| {
        let mut voxelizer = Voxelizer::new(&spec, dtype, SLOTS);
        voxelizer.reserve(RINGS * COLUMNS);
        let rows = vec![vec![0u8; voxelizer.row_bytes()]; SLOTS];
        (voxelizer, rows, Vec::new())
    });
    let mut scratch = Vec::new();
    let mut report = PointDrops::default();
    for i in 0..220 {
        let slot = i % SLOTS;
        for (voxelizer, rows, times) in &mut subjects {
            let start = Instant::now();
            let (_, view) =
                point_cloud2::decode(&messages[i % messages.len()], &extra, &mut scratch)
                    .expect("the message is well-formed");
            let t_base_sensor = [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.8]];
            let view = PointsView { t_base_sensor, ..view };
            report =
                voxelizer.encode(&view, Slot::new(slot), &mut rows[slot]).expect("the values fit");
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
    }
    let occupied = subjects[0].0.occupied(Slot::new(0));
    let [dense, sparse] = subjects.map(|(_, _, times)| {
        let mut times = times[20..].to_vec();
        times.sort_by(f64::total_cmp);
        format!("{:6.3} {:6.3}", times[100], times[198])
    });
    println!(
        "{name:8} step {step} {shape:?} {:4} dense {dense}, sparse {sparse}   {occupied} voxels, \
         {report:?}",
        dtype.name()
    );
}

/// One cloud, and a row of two clouds of half its points each: what one of them costs when it comes.
fn measure_merged(name: &str, points: &[[f32; 5]], step: usize, shape: [usize; 3]) {
    let size_m = 64.0 / shape[0] as f32;
    let spec = VoxelSpec::new(
        Grid { origin_m: [-32.0, -32.0, -4.0], size_m, shape },
        vec![Reduction::Count, Reduction::Mean("intensity".into())],
    );
    let extra: Vec<_> = extra_fields(&spec).map(str::to_owned).collect();
    let whole = message(points, step);
    let halves = points.chunks(points.len() / 2).map(|half| message(half, step));
    let halves: Vec<_> = halves.collect();
    let mut single = Voxelizer::new(&spec, DType::F32, 1);
    let mut merged = Voxelizer::new(&spec.of_condensed(), DType::F32, 1);
    let mut condenser = Condenser::new(&spec);
    let mut row = vec![0; single.row_bytes()];
    let mut other = vec![0; single.row_bytes()];
    let mut scratch = Vec::new();
    let mut condensed = [Vec::new(), Vec::new()];
    let mut joined = vec![];
    let field = |at| FieldAt { offset: 4 * at, kind: FieldType::Float32 };
    let fields: Vec<_> = (0..condenser.point_bytes() / 4).map(field).collect();
    let mut times = [const { Vec::new() }; 3];
    for i in 0..220 {
        let start = Instant::now();
        let (_, view) = point_cloud2::decode(&whole, &extra, &mut scratch).expect("well-formed");
        single.encode(&view, Slot::new(0), &mut row).expect("the values fit");
        times[0].push(start.elapsed().as_secs_f64() * 1e3);
        let start = Instant::now();
        let (_, view) =
            point_cloud2::decode(&halves[i % 2], &extra, &mut scratch).expect("well-formed");
        condenser.condense(&view, &mut condensed[i % 2]).expect("well-formed");
        times[1].push(start.elapsed().as_secs_f64() * 1e3);
        joined.clear();
        condensed.iter().for_each(|points| joined.extend_from_slice(points));
        let point_step = condenser.point_bytes();
        let view = PointsView {
            width: joined.len() / point_step,
            point_step,
            row_step: joined.len(),
            fields: &fields,
            data: &joined,
            ..view
        };
        merged.encode(&view, Slot::new(0), &mut other).expect("the values fit");
        times[2].push(start.elapsed().as_secs_f64() * 1e3);
    }
    assert!(row == other, "one cloud and two give other rows");
    let [single, condense, merged] = times.map(|times| {
        let mut times = times[20..].to_vec();
        times.sort_by(f64::total_cmp);
        format!("{:6.3} {:6.3}", times[100], times[198])
    });
    println!(
        "{name:8} step {step} {shape:?} one cloud {single}, a half of two {merged} (to condense it {condense})"
    );
}

/// Points all over the grid's surroundings, in no order: the worst case for caches.
fn uniform(seed: u64) -> Vec<[f32; 5]> {
    let mut state = seed;
    let mut random = move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1u64 << 24) as f32
    };
    let mut point = |i| {
        let [x, y, z] = [random(), random(), random()];
        [x * 70.0 - 35.0, y * 70.0 - 35.0, z * 70.0 - 6.0, random() * 255.0, i as f32 * 1e-6]
    };
    (0..RINGS * COLUMNS).map(&mut point).collect()
}

/// A spinning lidar 1.8 m above the ground in a hall of 50 m by 40 m, column after column.
fn rings(seed: u64) -> Vec<[f32; 5]> {
    let mut points = Vec::with_capacity(RINGS * COLUMNS);
    for column in 0..COLUMNS {
        let azimuth = (column as f32 + seed as f32 * 0.2) / COLUMNS as f32 * std::f32::consts::TAU;
        for ring in 0..RINGS {
            let elevation = (ring as f32 / RINGS as f32 * 45.0 - 25.0).to_radians();
            let dx = azimuth.cos() * elevation.cos();
            let dy = azimuth.sin() * elevation.cos();
            let dz = elevation.sin();
            let wall = (25.0 / dx.abs().max(1e-6)).min(20.0 / dy.abs().max(1e-6));
            let range = if dz < 0.0 { wall.min(-1.8 / dz) } else { wall };
            let ripple = ((column * 37 + ring * 91) % 101) as f32 * 2e-4;
            let range = range + ripple;
            let time = column as f32 * 1e-4;
            points.push([dx * range, dy * range, dz * range, 100.0 / (1.0 + range), time]);
        }
    }
    points
}

/// A PointCloud2 with x, y, z, intensity, and time where `point_step` has room for it.
fn message(points: &[[f32; 5]], point_step: usize) -> Vec<u8> {
    let values = (point_step / 4).min(5);
    let mut data = Vec::with_capacity(points.len() * point_step);
    for point in points {
        let start = data.len();
        point[..values].iter().for_each(|value| data.extend_from_slice(&value.to_le_bytes()));
        data.resize(start + point_step, 0);
    }
    let mut writer = Writer::new();
    writer.header(Stamp::from_nanos(1), "lidar");
    writer.u32(1);
    writer.u32(points.len() as u32);
    writer.u32(values as u32);
    for (i, name) in ["x", "y", "z", "intensity", "time"][..values].iter().enumerate() {
        writer.string(name);
        writer.u32(4 * i as u32);
        writer.u8(FLOAT32);
        writer.u32(1);
    }
    writer.u8(0);
    writer.u32(point_step as u32);
    writer.u32((points.len() * point_step) as u32);
    writer.bytes(&data);
    writer.u8(1);
    writer.finish()
}
