//! Clouds in every layout, and a slow reference for their rows: 128-bit integers, a map of voxels.

use half::{bf16, f16};
use proptest::prelude::*;
use robocache_core::cdr::Writer;
use robocache_core::input::point_cloud2;
use robocache_core::rejected::Rejected;
use robocache_ops::align::Slot;
use robocache_ops::dtype::DType;
use robocache_ops::time::Stamp;
use robocache_ops::voxelize::PointDrops;
use robocache_ops::voxelize::cpu::Voxelizer;
use robocache_ops::voxelize::{
    Action, Feature, FieldType, Filter, Form, PointsView, Shape, ShapeFrame, extra_fields,
};
use robocache_ops::voxelize::{Grid, IDENTITY, Reduction, VoxelSpec};
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

use crate::common::fields::{KINDS, typed};

/// Points as x, y, z and the field `i`, before they take the types of a layout.
#[derive(Clone, Debug)]
pub(super) struct Cloud {
    pub points: Vec<[f64; 4]>,
}

impl Cloud {
    pub(super) fn of(points: &[[f32; 4]]) -> Self {
        Cloud { points: points.iter().map(|point| point.map(f64::from)).collect() }
    }

    pub(super) fn of_f64(points: &[[f64; 4]]) -> Self {
        Cloud { points: points.to_vec() }
    }
}

/// How a cloud is serialized.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub offsets: [usize; 4],
    pub kinds: [FieldType; 4],
    /// In which order the fields are declared.
    pub declared: [usize; 4],
    pub point_step: usize,
    pub row_padding: usize,
    /// Height of the cloud, if that divides the number of points; else 1.
    pub rows: usize,
    pub big_endian: bool,
    /// Declared instead of the cloud's own width and height.
    pub width: Option<u32>,
    pub height: Option<u32>,
}

impl Layout {
    /// As most drivers do: float32, little-endian, one row.
    pub(super) fn plain() -> Self {
        Layout {
            offsets: [0, 4, 8, 12],
            kinds: [FieldType::Float32; 4],
            declared: [0, 1, 2, 3],
            point_step: 20,
            row_padding: 0,
            rows: 1,
            big_endian: false,
            width: None,
            height: None,
        }
    }
}

/// The cloud as a serialized PointCloud2, with noise between the fields.
pub(super) fn message(cloud: &Cloud, layout: &Layout) -> Vec<u8> {
    let count = cloud.points.len();
    let height = if count.is_multiple_of(layout.rows) { layout.rows } else { 1 };
    let width = count / height;
    let row_step = width * layout.point_step + layout.row_padding;
    let mut data = vec![0xA5u8; row_step * height];
    for (at, point) in cloud.points.iter().enumerate() {
        let start = at / width * row_step + at % width * layout.point_step;
        for ((value, kind), offset) in point.iter().zip(layout.kinds).zip(layout.offsets) {
            let mut bytes = typed(*value, kind).0;
            if layout.big_endian {
                bytes.reverse();
            }
            data[start + offset..][..bytes.len()].copy_from_slice(&bytes);
        }
    }
    let mut writer = Writer::new();
    writer.header(Stamp::from_nanos(1_795_000_000_000_000_001), "lidar");
    writer.u32(layout.height.unwrap_or(height as u32));
    writer.u32(layout.width.unwrap_or(width as u32));
    writer.u32(5);
    let mut field = |name: &str, offset: u32, datatype: u8, count: u32| {
        writer.string(name);
        writer.u32(offset);
        writer.u8(datatype);
        writer.u32(count);
    };
    field("unused, and of no known type", u32::MAX, 99, 3);
    for at in layout.declared {
        let code = 1 + KINDS.iter().position(|kind| *kind == layout.kinds[at]).unwrap() as u8;
        field(["x", "y", "z", "i"][at], layout.offsets[at] as u32, code, (at % 2) as u32);
    }
    writer.u8(layout.big_endian.into());
    writer.u32(layout.point_step as u32);
    let declared_width = layout.width.unwrap_or(0) as usize;
    writer.u32(row_step.max(declared_width * layout.point_step) as u32);
    writer.bytes(&data);
    writer.u8(1);
    writer.finish()
}

/// A specification, and where the sensor of its clouds is.
#[derive(Clone, Debug)]
pub(super) struct Placed {
    pub spec: VoxelSpec,
    pub t_base_sensor: [[f64; 4]; 3],
}

impl Deref for Placed {
    type Target = VoxelSpec;

    fn deref(&self) -> &VoxelSpec {
        &self.spec
    }
}

impl DerefMut for Placed {
    fn deref_mut(&mut self) -> &mut VoxelSpec {
        &mut self.spec
    }
}

/// A grid of 8 x 8 x 4 voxels of half a metre around the origin, with channels such as `mean:i`.
pub(super) fn spec<const N: usize>(channels: [&str; N]) -> Placed {
    let feature = |name: &str| match name {
        "range" => Feature::Range,
        "ox" => Feature::Offset(0),
        "oy" => Feature::Offset(1),
        "oz" => Feature::Offset(2),
        field => field.into(),
    };
    let channel = |text: &str| match text.split_once(':') {
        Some(("mean", name)) => Reduction::Mean(feature(name)),
        Some(("max", name)) => Reduction::Max(feature(name)),
        Some(("min", name)) => Reduction::Min(feature(name)),
        Some(("sum", name)) => Reduction::Sum(feature(name)),
        Some(("last", name)) => Reduction::Last(feature(name)),
        _ if text == "count" => Reduction::Count,
        _ if text == "occupancy" => Reduction::Occupancy,
        _ => panic!("no such channel: {text}"),
    };
    let spec = VoxelSpec::new(
        Grid { origin_m: [-2.0, -2.0, -1.0], size_m: 0.5, shape: [8, 8, 4] },
        channels.map(channel).to_vec(),
    );
    Placed { spec, t_base_sensor: IDENTITY }
}

/// Reads a message and encodes its cloud.
pub(super) fn encode(
    voxelizer: &mut Voxelizer,
    message: &[u8],
    spec: &Placed,
    slot: usize,
    row: &mut [u8],
) -> Result<PointDrops, Rejected> {
    let mut scratch = Vec::new();
    let (_, view) = point_cloud2::decode(message, &extra(spec), &mut scratch)?;
    let t_shapes = spec.filter.place(&spec.t_base_sensor, |_| None);
    let view = PointsView { t_base_sensor: spec.t_base_sensor, t_shapes: &t_shapes, ..view };
    Ok(voxelizer.encode(&view, Slot::new(slot), row)?)
}

/// The fields that an input selects for `spec`.
pub(super) fn extra(spec: &VoxelSpec) -> Vec<String> {
    extra_fields(spec).map(str::to_owned).collect()
}

/// Encodes a message with a new voxelizer and a row of zeros, which an error must leave behind.
pub(super) fn fresh(
    message: &[u8],
    spec: &Placed,
    dtype: DType,
) -> Result<(Vec<u8>, PointDrops), Rejected> {
    let mut voxelizer = Voxelizer::new(spec, dtype, 1);
    let mut row = vec![0; voxelizer.row_bytes()];
    let result = encode(&mut voxelizer, message, spec, 0, &mut row);
    assert!(result.is_ok() || row.iter().all(|byte| *byte == 0), "an error left something");
    result.map(|report| (row, report))
}

/// Expected row; `None` where `dtype` cannot hold a value.
pub(super) fn reference(
    cloud: &Cloud,
    layout: &Layout,
    spec: &Placed,
    dtype: DType,
) -> Option<(Vec<u8>, PointDrops)> {
    let mut report = PointDrops::default();
    let mut voxels: BTreeMap<usize, Vec<[f32; 8]>> = BTreeMap::new();
    for point in &cloud.points {
        let loaded = std::array::from_fn(|i| typed(point[i], layout.kinds[i]).1);
        if let Some((voxel, values)) = place(loaded, layout, spec, &mut report) {
            voxels.entry(voxel).or_default().push(values);
        }
    }
    voxels.retain(|_, points| {
        let few = points.len() < spec.min_points as usize;
        report.too_few += if few { points.len() as u64 } else { 0 };
        !few
    });
    let volume: usize = spec.grid.shape.iter().product();
    let mut row = vec![0; spec.channels.len() * volume * dtype.size()];
    for (channel, reduction) in spec.channels.iter().enumerate() {
        for (voxel, points) in &voxels {
            let bytes = rounded(reduce(reduction, points), dtype)?;
            row[(channel * volume + voxel) * dtype.size()..][..dtype.size()]
                .copy_from_slice(&bytes);
        }
    }
    Some((row, report))
}

fn column_of(feature: &Feature) -> usize {
    match feature {
        Feature::Field(name) => {
            ["x", "y", "z", "i"].iter().position(|field| field == name).unwrap()
        }
        Feature::Range => 4,
        Feature::Offset(axis) => 5 + axis,
    }
}

/// Why the filter leaves a point of the cloud out, in numbers rounded by `to`.
fn left_out(at: [f64; 3], spec: &Placed, to: fn(f64) -> f64, report: &mut PointDrops) -> bool {
    // In f32, each operation on numbers of f32 is rounded to nearest, as one in f64 is that is rounded again.
    let square = |p: [f64; 3]| to(to(to(p[0] * p[0]) + to(p[1] * p[1])) + to(p[2] * p[2]));
    let of = |m: f32| to(f64::from(m) * f64::from(m));
    let filter = &spec.filter;
    let distance = square(at);
    if filter.min_range_m.is_some_and(|m| distance < of(m))
        || filter.max_range_m.is_some_and(|m| distance > of(m))
    {
        report.out_of_reach += 1;
        return true;
    }
    let inside = |shape: &Shape, t: &[[f64; 4]; 3]| {
        let p = t.map(|row| {
            let r = row.map(to);
            let sum = to(to(r[0] * at[0]) + to(r[1] * at[1]));
            to(to(sum + to(r[2] * at[2])) + r[3])
        });
        match shape.form {
            Form::Sphere { radius_m } => square(p) <= of(radius_m),
            Form::Box { min_m, max_m } => {
                (0..3).all(|a| f64::from(min_m[a]) <= p[a] && p[a] <= f64::from(max_m[a]))
            }
        }
    };
    let placed = filter.place(&spec.t_base_sensor, |_| None);
    let any = |action: Action| {
        let shapes = filter.shapes.iter().zip(&placed).filter(|(shape, _)| shape.action == action);
        let hits: Vec<_> = shapes.map(|(shape, t)| inside(shape, t)).collect();
        (!hits.is_empty(), hits.contains(&true))
    };
    let ((keeps, kept), (_, removed)) = (any(Action::Keep), any(Action::Remove));
    if (keeps && !kept) || removed {
        report.cropped += 1;
        return true;
    }
    let (_, on_robot) = any(Action::Robot);
    report.on_robot += u64::from(on_robot);
    on_robot
}

/// Voxel and values (coordinates in the base frame) of a point, if it is kept.
fn place(
    loaded: [f64; 4],
    layout: &Layout,
    spec: &Placed,
    report: &mut PointDrops,
) -> Option<(usize, [f32; 8])> {
    use FieldType::{Float64, Int32, Uint32};
    let wide = |kind: &FieldType| matches!(kind, Float64 | Int32 | Uint32);
    let grid = &spec.grid;
    let far = (0..3).any(|axis| {
        let low = grid.origin_m[axis];
        let extent = f64::from(grid.size_m) * grid.shape[axis] as f64;
        let farthest = low.abs().max((low + extent).abs()) as f32;
        grid.size_m < 16.0 * (farthest * f32::EPSILON)
    });
    let wide = layout.kinds[..3].iter().any(wide) || far;
    let [x, y, z] =
        [0, 1, 2].map(|at| if wide { loaded[at] } else { f64::from(loaded[at] as f32) });
    let i = loaded[3] as f32;
    let i_used = extra_fields(spec).count() > 0;
    if ![x, y, z].iter().all(|c| c.is_finite()) || (i_used && !i.is_finite()) {
        report.non_finite += 1;
        return None;
    }
    let to: fn(f64) -> f64 = if wide { |v| v } else { |v| f64::from(v as f32) };
    if left_out([x, y, z], spec, to, report) {
        return None;
    }
    let range = to(to(to(to(x * x) + to(y * y)) + to(z * z)).sqrt()) as f32;
    let t = spec.t_base_sensor;
    let (base, from_origin): ([f32; 3], [f32; 3]) = match wide {
        true => {
            let base = t.map(|r| ((r[0] * x + r[1] * y) + r[2] * z) + r[3]);
            let d = std::array::from_fn(|axis| (base[axis] - grid.origin_m[axis]) as f32);
            (base.map(|c| c as f32), d)
        }
        false => {
            let [x, y, z] = [x, y, z].map(|c| c as f32);
            let base = t.map(|r| {
                let r = r.map(|number| number as f32);
                let xy = r[0] * x + r[1] * y;
                let xyz = xy + r[2] * z;
                xyz + r[3]
            });
            (base, std::array::from_fn(|axis| base[axis] - grid.origin_m[axis] as f32))
        }
    };
    let mut index = [0usize; 3];
    for axis in 0..3 {
        let steps = from_origin[axis] / grid.size_m;
        let floor = steps.floor();
        if !floor.is_finite()
            || floor as i128 != (floor as i128).clamp(0, grid.shape[axis] as i128 - 1)
        {
            report.outside += 1;
            return None;
        }
        index[axis] = floor as usize;
    }
    let offset = |axis: usize| {
        let centre = (index[axis] as f32 + 0.5) * grid.size_m;
        from_origin[axis] - centre
    };
    let values = [base[0], base[1], base[2], i, range, offset(0), offset(1), offset(2)];
    let beyond = |channel: &Reduction| match channel {
        Reduction::Mean(of) | Reduction::Sum(of) => {
            f64::from(values[column_of(of)]).abs() > 1_048_576.0
        }
        _ => false,
    };
    if spec.channels.iter().any(beyond) {
        report.out_of_range += 1;
        return None;
    }
    let [nx, ny, _] = spec.grid.shape;
    Some(((index[2] * ny + index[1]) * nx + index[0], values))
}

fn reduce(reduction: &Reduction, points: &[[f32; 8]]) -> f32 {
    let values = |of: &Feature| {
        let at = column_of(of);
        points.iter().map(move |point| point[at])
    };
    let sum = |of: &Feature| -> f64 {
        let scaled = |v: f32| (f64::from(v) * 1_048_576.0).round_ties_even() as i128;
        values(of).map(scaled).sum::<i128>() as f64
    };
    let one_zero = |value: f32| if value == 0.0 { 0.0 } else { value };
    match reduction {
        Reduction::Count => points.len() as f32,
        Reduction::Occupancy => 1.0,
        Reduction::Mean(of) => (sum(of) / (points.len() as f64 * 1_048_576.0)) as f32,
        Reduction::Sum(of) => (sum(of) / 1_048_576.0) as f32,
        Reduction::Max(of) => one_zero(values(of).max_by(f32::total_cmp).unwrap()),
        Reduction::Min(of) => one_zero(values(of).min_by(f32::total_cmp).unwrap()),
        Reduction::Last(of) => one_zero(values(of).next_back().unwrap()),
    }
}

fn rounded(value: f32, dtype: DType) -> Option<Vec<u8>> {
    let (finite, bytes) = match dtype {
        DType::F32 => (value.is_finite(), value.to_le_bytes().to_vec()),
        DType::F16 => (f16::from_f32(value).is_finite(), f16::from_f32(value).to_le_bytes().into()),
        DType::Bf16 => {
            (bf16::from_f32(value).is_finite(), bf16::from_f32(value).to_le_bytes().into())
        }
        // Beyond its range, a cast gives the closest integer, which is another number.
        DType::U8 => {
            let even = value.round_ties_even();
            (f32::from(even as u8) == even, vec![even as u8])
        }
        DType::I32 => {
            let even = f64::from(value.round_ties_even());
            (f64::from(even as i32) == even, (even as i32).to_le_bytes().into())
        }
    };
    finite.then_some(bytes)
}

pub(super) fn any_dtype() -> impl Strategy<Value = DType> {
    prop::sample::select(DType::ALL.to_vec())
}

pub(super) fn any_spec() -> impl Strategy<Value = Placed> {
    let names = [
        "count",
        "occupancy",
        "mean:i",
        "max:i",
        "mean:x",
        "max:y",
        "mean:z",
        "max:z",
        "min:i",
        "sum:i",
        "last:i",
        "min:x",
        "sum:ox",
        "mean:oy",
        "last:oz",
        "max:range",
        "mean:range",
    ];
    let channels = prop::collection::vec(prop::sample::select(names.to_vec()), 1..6);
    let turned = [[0.6, -0.8, 0.0, 0.1], [0.8, 0.6, 0.0, -0.3], [0.0, 0.0, 1.0, 0.7]];
    let far = prop::sample::select(vec![0.0, 0.0, 0.0, 0.0, 1e6]);
    let grid =
        (prop::array::uniform3(-3.0f64..1.0), 0.1f32..1.5, prop::array::uniform3(1usize..9), far);
    let transform = prop::sample::select(vec![IDENTITY, turned]);
    let parts = (channels, prop::option::of(grid), transform, any_filter(), 1u32..4);
    parts.prop_map(|(channels, grid, t_base_sensor, filter, min_points)| {
        let mut made = spec([]);
        made.filter = filter;
        made.min_points = min_points;
        made.channels = channels.iter().map(|name| spec([name]).channels.remove(0)).collect();
        made.t_base_sensor = t_base_sensor;
        if let Some((origin_m, size_m, shape, far)) = grid {
            // The sensor moves with the grid, so that points are in it.
            made.t_base_sensor[0][3] += far;
            made.grid = Grid { origin_m, size_m, shape };
            made.grid.origin_m[0] += far;
        }
        made
    })
}

fn any_filter() -> impl Strategy<Value = Filter> {
    let limit = |low: f32, high: f32| prop::option::of(low..high);
    let turned = [[0.8, 0.6, 0.0, 0.2], [-0.6, 0.8, 0.0, -0.1], [0.0, 0.0, 1.0, 0.4]];
    let form = prop_oneof![
        (0.2f32..2.0).prop_map(|radius_m| Form::Sphere { radius_m }),
        (prop::array::uniform3(-2.0f32..0.0), prop::array::uniform3(0.0f32..2.0))
            .prop_map(|(min_m, max_m)| Form::Box { min_m, max_m }),
    ];
    let actions = prop::sample::select(vec![Action::Keep, Action::Remove, Action::Robot]);
    let frames = prop::sample::select(vec![ShapeFrame::Base, ShapeFrame::Sensor]);
    let poses = prop::sample::select(vec![IDENTITY, turned]);
    let shape = (actions, form, frames, poses).prop_map(|(action, form, frame, t_shape_frame)| {
        Shape { action, form, frame, t_shape_frame }
    });
    let filter = (limit(0.1, 1.0), limit(1.0, 4.0), prop::collection::vec(shape, 0..4));
    let filter = filter.prop_map(|(min_range_m, max_range_m, shapes)| Filter {
        min_range_m,
        max_range_m,
        shapes,
    });
    prop_oneof![2 => Just(Filter::default()), 1 => filter]
}

fn any_value() -> impl Strategy<Value = f64> {
    prop_oneof![
        12 => -300.0..300.0f64,
        2 => (-40i32..40).prop_map(|units| f64::from(units) / 2_097_152.0), // ties in fixed point
        1 => prop::sample::select(vec![0.0, -0.0, 60_000.0, 70_000.0, 1_048_576.0, -1_048_577.0]),
        1 => prop::sample::select(vec![f64::NAN, f64::INFINITY, -3e38, 1e39, 2e9]),
    ]
}

fn any_point() -> impl Strategy<Value = [f64; 4]> {
    let axis = prop_oneof![
        20 => -2.5..2.5f64,
        10 => (-6i32..6).prop_map(|steps| f64::from(steps) * 0.5), // on faces
        1 => prop::sample::select(vec![-0.0, f64::NAN, f64::NEG_INFINITY, 1e39, 3e38, 50.0]),
    ];
    (prop::array::uniform3(axis), any_value()).prop_map(|([x, y, z], i)| [x, y, z, i])
}

fn any_layout() -> impl Strategy<Value = Layout> {
    use FieldType::{Float32, Float64};
    let coordinate = prop_oneof![
        3 => prop::sample::select(vec![Float32, Float64]),
        1 => prop::sample::select(KINDS.to_vec()),
    ];
    let order = || Just([0usize, 1, 2, 3]).prop_shuffle();
    let gaps = prop::array::uniform5(0usize..6);
    let kinds = (prop::array::uniform3(coordinate), prop::sample::select(KINDS.to_vec()));
    (order(), order(), gaps, kinds, 0usize..9, 1usize..5, any::<bool>()).prop_map(
        |(declared, placed, gaps, ([x, y, z], i), row_padding, rows, big_endian)| {
            let kinds = [x, y, z, i];
            let mut offsets = [0; 4];
            let mut end = 0;
            for (at, gap) in placed.into_iter().zip(gaps) {
                offsets[at] = end + gap;
                end = offsets[at] + kinds[at].size();
            }
            let point_step = end + gaps[4];
            Layout {
                offsets,
                kinds,
                declared,
                point_step,
                row_padding,
                rows,
                big_endian,
                ..Layout::plain()
            }
        },
    )
}

/// Scattered, all in one voxel, all outside, or none.
pub(super) fn any_cloud() -> impl Strategy<Value = (Cloud, Layout)> {
    let scattered = prop::collection::vec(any_point(), 0..200);
    let crowd = (prop::collection::vec(any_value(), 0..200), -2.0..2.0f64)
        .prop_map(|(values, at)| values.into_iter().map(|i| [at, at, 0.2, i]).collect());
    let outside = prop::collection::vec((-90.0..-80.0f64, any_value()), 0..50)
        .prop_map(|points| points.into_iter().map(|(at, i)| [at, 0.0, 0.0, i]).collect());
    // Longer than a block of the implementation.
    let long = (prop::collection::vec(any_point(), 50..100), 20usize..60)
        .prop_map(|(points, times)| points.repeat(times));
    let points = prop_oneof![5 => scattered, 2 => crowd, 1 => outside, 1 => long];
    (points.prop_map(|points| Cloud { points }), any_layout())
}
