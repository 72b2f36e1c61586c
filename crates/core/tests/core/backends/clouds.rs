//! Clouds: grids, channels, field layouts, and points at the places where rules meet.

use robocache_core::encoder::EncoderSpec;
use robocache_core::sample::Sample;
use robocache_ops::align::{Slot, Strategy};
use robocache_ops::voxelize::cpu::Voxelizer;
use robocache_ops::voxelize::{
    Action, Feature, FieldAt, FieldType, Filter, Form as Solid, Grid, IDENTITY, Knot, PointsView,
    Reduction, Shape, ShapeFrame, Sweep, VoxelSpec, extra_fields, movable,
};

use crate::backends::random::Random;
use crate::backends::subject::{Kind, Pair, stream};
use crate::common::fields::{KINDS, typed};

const CLOUDS_PER_PAIR: usize = 20;
pub(super) const SLOTS: usize = 3;
pub(super) const FIELDS: [&str; 8] = ["x", "y", "z", "a", "b", "c", "d", "e"];

pub(super) fn check(kind: &Kind, cases: usize) {
    for number in 0..cases.div_ceil(CLOUDS_PER_PAIR) {
        let mut random = Random::new(number as u64 + 20_000);
        let spec = random_spec(&mut random);
        let dtype = random.dtype();
        let case = format!("pair {number}: {spec:?} {dtype:?}");
        let source = EncoderSpec::Voxels(spec.clone());
        let stream = stream("lidar", source, Strategy::Hold, dtype, 1, SLOTS - 1);
        let mut pair = Pair::new(kind, vec![stream], number % 3 != 0);
        for cloud in 0..CLOUDS_PER_PAIR {
            let case = format!("{case}, cloud {cloud}");
            check_cloud(&mut pair, &mut random, &spec, cloud % SLOTS, &case);
        }
    }
}

/// Each cloud is encoded into a row of any content, after a call of `forget` for the row.
pub(super) fn check_forgotten_rows() {
    let mut random = Random::new(23_000);
    for number in 0..20 {
        let spec = random_spec(&mut random);
        let dtype = random.dtype();
        let mut known = Voxelizer::new(&spec, dtype, 1);
        let mut told = Voxelizer::new(&spec, dtype, 2);
        let mut expected = vec![0; known.row_bytes()];
        let mut row = vec![0; known.row_bytes()];
        for cloud in 0..5 {
            let (points, form) = random_points(&mut random, &spec);
            let data = form.bytes(&points);
            if cloud % 2 == 1 {
                row.fill(0xAB);
                told.forget(Slot::new(1));
            }
            let outcome = known.encode(&form.view(&data), Slot::new(0), &mut expected);
            assert_eq!(told.encode(&form.view(&data), Slot::new(1), &mut row), outcome);
            assert!(row == expected, "{number}, cloud {cloud}: {spec:?}");
        }
    }
}

fn check_cloud(pair: &mut Pair, random: &mut Random, spec: &VoxelSpec, slot: usize, case: &str) {
    let (mut points, form) = random_points(random, spec);
    check_points(pair, random, &mut points, &form, slot, case);
}

/// Encodes points into a slot and compares it; now and then also in another order.
pub(super) fn check_points(
    pair: &mut Pair,
    random: &mut Random,
    points: &mut [Vec<f64>],
    form: &Form,
    slot: usize,
    case: &str,
) {
    let data = form.bytes(points);
    let case = format!("{case}, {form:?}");
    let outcome = pair.encode(0, slot, Sample::Points(form.view(&data)), &case);
    if outcome.is_none() {
        return;
    }
    pair.compare_slot(slot, &case);
    // The same points in another order, in another slot.
    if random.one_in(4) {
        let before = pair.output().to_vec();
        random.shuffle(points);
        let other = (slot + 1) % SLOTS;
        let data = form.bytes(points);
        pair.encode(0, other, Sample::Points(form.view(&data)), &case);
        pair.compare_slot(other, &case);
        assert_eq!(pair.output(), before, "permuted: {case}");
    }
}

pub(super) fn random_spec(random: &mut Random) -> VoxelSpec {
    let mut channels: Vec<_> = (0..random.range(1, 6))
        .map(|_| {
            let field = random.choose(&FIELDS).to_string();
            match random.range(0, 5) {
                0 => Reduction::Count,
                1 => Reduction::Occupancy,
                2 | 3 => Reduction::Mean(field.into()),
                _ => Reduction::Max(field.into()),
            }
        })
        .collect();
    if random.one_in(5) {
        channels = ["a", "b", "c", "d"].map(|name| Reduction::Mean(name.into())).to_vec();
    }
    let far = random.choose(&[0.0, 0.0, 0.0, 456_789.0]);
    if random.one_in(4) {
        channels.push(Reduction::Min(random.choose(&FIELDS).into()));
        channels.push(Reduction::Sum(Feature::Range));
        channels.push(Reduction::Mean(Feature::Offset(random.range(0, 2))));
    }
    let mut spec = VoxelSpec::new(
        Grid {
            origin_m: [
                far + random.choose(&[0.0, -2.0, -1.6]),
                -2.0,
                f64::from(random.float(-1.0, 0.0)),
            ],
            size_m: random.choose(&[0.5, 0.1, 0.25, 0.07]),
            shape: [random.range(1, 40), random.range(1, 40), random.range(1, 20)],
        },
        channels,
    );
    if random.one_in(4) {
        spec.max_voxels = Some(random.range(1, 600));
    }
    if random.one_in(4) {
        spec.min_points = random.range(1, 3) as u32;
        spec.filter = random_filter(random);
    }
    spec
}

pub(super) fn random_filter(random: &mut Random) -> Filter {
    let shapes = (0..random.range(0, 3)).map(|_| {
        let half = random.float(0.1, 1.0);
        Shape {
            action: random.choose(&[Action::Keep, Action::Remove, Action::Robot]),
            form: match random.one_in(2) {
                true => Solid::Sphere { radius_m: half },
                false => Solid::Box { min_m: [-half; 3], max_m: [half, 2.0 * half, 3.0 * half] },
            },
            frame: random.choose(&[ShapeFrame::Base, ShapeFrame::Sensor]),
            t_shape_frame: random_turn(random),
        }
    });
    let shapes = shapes.collect();
    let max_range_m = random.one_in(2).then(|| random.float(0.5, 4.0));
    Filter { min_range_m: Some(0.1), max_range_m, shapes }
}

/// How the points of a cloud are laid out.
#[derive(Debug)]
pub(super) struct Form {
    pub fields: Vec<FieldAt>,
    pub t_base_sensor: [[f64; 4]; 3],
    pub t_shapes: Vec<[[f64; 4]; 3]>,
    pub point_step: usize,
    pub width: usize,
    pub height: usize,
    pub row_step: usize,
    pub big_endian: bool,
    pub sweep: Option<Swept>,
}

/// The motion of a sensor; the time of a point is one of its fields.
#[derive(Clone, Debug)]
pub(super) struct Swept {
    time: FieldAt,
    origin: f64,
    rate: f64,
    knots: Vec<Knot>,
}

impl Swept {
    fn random(random: &mut Random, fields: &[FieldAt]) -> Option<Self> {
        if !movable(fields) || !random.one_in(2) {
            return None;
        }
        let count = random.choose(&[2, 3, 56, 256]);
        let size = random.choose(&[0.0, 1e-3, 1.0]);
        let mut knot = || {
            let mut q = [0; 4].map(|_| size * random.float(-0.5, 0.5));
            q[3] += 1.0;
            let length = q.iter().map(|value| value * value).sum::<f32>().sqrt();
            let shift = [0; 3].map(|_| size * random.float(-0.5, 0.5));
            let translation = [shift[0], shift[1], shift[2], 0.0];
            Knot { rotation: q.map(|value| value / length), translation }
        };
        let knots: Vec<_> = (0..count).map(|_| knot()).collect();
        let origin = f64::from(random.float(-3.0, 0.0));
        let rate = f64::from(random.float(0.1, 0.4)) * count as f64;
        Some(Swept { time: random.choose(fields), origin, rate, knots })
    }

    fn view(&self) -> Sweep<'_> {
        let Swept { time, origin, rate, ref knots } = *self;
        Sweep { time, origin, rate, knots }
    }
}

impl Form {
    /// Little-endian floats without gaps: what kernels read as words.
    pub(super) fn words(columns: usize, points: usize) -> Self {
        let fields = (0..columns).map(|at| FieldAt { offset: 4 * at, kind: FieldType::Float32 });
        let point_step = 4 * columns;
        Form {
            fields: fields.collect(),
            point_step,
            width: points,
            height: 1,
            row_step: points * point_step,
            big_endian: false,
            t_base_sensor: IDENTITY,
            t_shapes: Vec::new(),
            sweep: None,
        }
    }

    /// Makes a form with the most significant byte first, so that its numbers are no words.
    pub(super) fn big_endian(columns: usize, points: usize) -> Self {
        Form { big_endian: true, ..Self::words(columns, points) }
    }

    pub(super) fn random(random: &mut Random, spec: &VoxelSpec, points: usize) -> Self {
        let plain = random.one_in(2);
        // Integers too: those of 32 bits are computed as float64 are.
        let coordinate = match random.one_in(4) {
            true => random.choose(&KINDS),
            false => random.choose(&[FieldType::Float32, FieldType::Float64]),
        };
        let mut offset = 0;
        let fields: Vec<FieldAt> = (0..3 + extra_fields(spec).count())
            .map(|at| {
                let kind = match (plain, at) {
                    (true, _) => FieldType::Float32,
                    (false, 0..3) => coordinate,
                    _ => random.choose(&KINDS),
                };
                let gap = if plain { 0 } else { random.range(0, 3) };
                let field = FieldAt { offset: offset + gap, kind };
                offset += gap + kind.size();
                field
            })
            .collect();
        let point_step = offset + if plain { random.choose(&[0, 4]) } else { random.range(0, 5) };
        let height = if random.one_in(3) { random.range(1, 4) } else { 1 };
        let width = points / height;
        let padding = if random.one_in(2) { 0 } else { random.choose(&[4, 7]) };
        let row_step = width * point_step + padding;
        let big_endian = !plain && random.one_in(2);
        let t_base_sensor = IDENTITY;
        let t_shapes = Vec::new();
        let sweep = Swept::random(random, &fields);
        Form {
            fields,
            t_base_sensor,
            t_shapes,
            point_step,
            width,
            height,
            row_step,
            big_endian,
            sweep,
        }
    }

    /// Points that it has room for, as all rows are of one length.
    pub(super) fn points(&self) -> usize {
        self.width * self.height
    }

    pub(super) fn bytes(&self, points: &[Vec<f64>]) -> Vec<u8> {
        let mut data = vec![0x5A; self.row_step * self.height];
        for (i, point) in points.iter().enumerate().take(self.points()) {
            let start = i / self.width * self.row_step + i % self.width * self.point_step;
            for (field, value) in self.fields.iter().zip(point) {
                let (mut bytes, _) = typed(*value, field.kind);
                if self.big_endian {
                    bytes.reverse();
                }
                data[start + field.offset..][..bytes.len()].copy_from_slice(&bytes);
            }
        }
        data
    }

    pub(super) fn view<'a>(&'a self, data: &'a [u8]) -> PointsView<'a> {
        PointsView {
            width: self.width,
            height: self.height,
            point_step: self.point_step,
            row_step: self.row_step,
            big_endian: self.big_endian,
            fields: &self.fields,
            t_base_sensor: self.t_base_sensor,
            t_shapes: &self.t_shapes,
            sweep: self.sweep.as_ref().map(Swept::view),
            data,
        }
    }
}

/// Pattern of a cloud's points.
#[derive(Clone, Copy)]
enum Pattern {
    Everywhere,
    OneVoxel,
    Outside,
    Faces,
    Runs,
}

pub(super) fn random_points(random: &mut Random, spec: &VoxelSpec) -> (Vec<Vec<f64>>, Form) {
    let count = random.choose(&[0, 1, 31, 33, 500, 3000]);
    let mut form = Form::random(random, spec, count);
    form.t_base_sensor = random_turn(random);
    // As far away as the grid, and the shapes with it.
    form.t_base_sensor[0][3] += if spec.grid.fits_f32() { 0.0 } else { 456_789.0 };
    form.t_shapes = spec.filter.place(&form.t_base_sensor, |_| None);
    let patterns =
        [Pattern::Everywhere, Pattern::OneVoxel, Pattern::Outside, Pattern::Faces, Pattern::Runs];
    let pattern = random.choose(&patterns);
    let values = random.choose(&[100.0, 1e5, 3e6]);
    let odd = random.one_in(2);
    let points = (0..form.points())
        .map(|i| {
            let mut point = random_position(random, spec, pattern, i);
            for _ in 3..form.fields.len() {
                point.push(f64::from(random.float(-values, values)));
            }
            if odd && random.one_in(20) {
                let at = random.range(0, point.len() - 1);
                let odd_values =
                    [f64::NAN, f64::INFINITY, -1e300, 1_048_576.0, 1_048_577.0, -0.0, 70_000.0];
                point[at] = random.choose(&odd_values);
            }
            point
        })
        .collect();
    (points, form)
}

/// A turn about z and a way.
fn random_turn(random: &mut Random) -> [[f64; 4]; 3] {
    let angle = f64::from(random.float(-3.0, 3.0));
    let (sin, cos) = if random.one_in(2) { (0.0, 1.0) } else { (angle.sin(), angle.cos()) };
    [
        [cos, -sin, 0.0, random.choose(&[0.0, 0.3])],
        [sin, cos, 0.0, 0.0],
        [0.0, 0.0, 1.0, random.choose(&[0.0, -0.2])],
    ]
}

fn random_position(random: &mut Random, spec: &VoxelSpec, pattern: Pattern, i: usize) -> Vec<f64> {
    let mut origin = spec.grid.origin_m;
    let size = spec.grid.size_m;
    origin[0] -= if spec.grid.fits_f32() { 0.0 } else { 456_789.0 };
    let origin = origin.map(|m| m as f32);
    (0..3)
        .map(|axis| {
            let extent = spec.grid.shape[axis] as f32 * size;
            let value = match pattern {
                Pattern::Everywhere => origin[axis] + random.float(-0.2, 1.2) * extent,
                Pattern::OneVoxel => origin[axis] + random.float(0.1, 0.4) * size,
                Pattern::Outside => origin[axis] - 100.0,
                Pattern::Faces => {
                    let cells = spec.grid.shape[axis];
                    origin[axis] + size * random.range(0, cells) as f32
                }
                Pattern::Runs => origin[axis] + (i / 40) as f32 * 0.013 * size,
            };
            f64::from(value)
        })
        .collect()
}
