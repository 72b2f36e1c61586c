//! A block of points as columns of `f32`, so that loading and locating them vectorise.

use super::sieve::Sieve;
use super::sweep::Times;
use crate::voxelize::filter::Filter;
use crate::voxelize::spec::{Feature, FieldAt, FieldType, Grid, PointDrops, PointsView, Precision};

/// Most points of a block: so few that their bytes and columns stay in the innermost cache.
pub(super) const BLOCK: usize = 1024;

/// In the place of a voxel: the point is in none.
pub(super) const NONE: u32 = u32::MAX;

type Column = [f32; BLOCK];

/// The points of a cloud, [`BLOCK`] at most at a time, in their order.
pub(super) fn blocks<'a>(view: &PointsView<'a>) -> impl Iterator<Item = &'a [u8]> + use<'a> {
    let PointsView { width, height, point_step, row_step, data, .. } = *view;
    // Rows without padding between them are one long row: fewer and fuller blocks. A cloud of width 0
    // has no rows, however many it declares.
    let (rows, points) = match width * point_step == row_step {
        true => (usize::from(height > 0), width * height),
        false => (height, width),
    };
    let rows = if width == 0 { 0 } else { rows };
    (0..rows).flat_map(move |row| {
        let bytes = &data[row * row_step..][..points * point_step];
        bytes.chunks((BLOCK * point_step).max(1))
    })
}

/// The points at hand.
pub(super) struct Block {
    len: usize,
    /// `x`, `y`, `z`: of the cloud after `load`, of the base frame after `locate`.
    coordinates: Box<[Column; 3]>,
    /// The coordinates of a cloud of [`Precision::Double`]: none before the first such cloud.
    wide: Vec<[f64; BLOCK]>,
    precision: Precision,
    /// The times of points. Reserved for the first cloud that has them.
    times: Option<Times>,
    /// The extra fields of the configuration, and behind them what is computed.
    extras: Vec<Column>,
    /// How many of these are fields.
    fields: usize,
    computed: Vec<Feature>,
    /// Voxel of each point, or [`NONE`].
    voxels: Box<[u32; BLOCK]>,
}

impl Block {
    /// A block for `x`, `y`, `z`, `fields` more fields, and the features that are computed.
    pub(super) fn new(fields: usize, computed: Vec<Feature>) -> Self {
        Block {
            len: 0,
            coordinates: Box::new([[0.0; BLOCK]; 3]),
            wide: Vec::new(),
            precision: Precision::Single,
            times: None,
            extras: vec![[0.0; BLOCK]; fields + computed.len()],
            fields,
            computed,
            voxels: Box::new([NONE; BLOCK]),
        }
    }

    /// Voxel of each point, or [`NONE`].
    pub(super) fn voxels(&self) -> &[u32] {
        &self.voxels[..self.len]
    }

    /// Values of column `column`: `x`, `y`, `z`, then the extra fields, then what is computed.
    pub(super) fn column(&self, column: usize) -> &Column {
        column_of(&self.coordinates, &self.extras, column)
    }

    /// Begins a cloud.
    pub(super) fn begin(&mut self, precision: Precision) {
        self.precision = precision;
        if precision == Precision::Double {
            self.wide.resize(3, [0.0; BLOCK]);
        }
    }

    /// Takes the points in `bytes`, [`BLOCK`] at most, and finds their voxels: the rules 1 to 6 of
    /// [`super`]. `limits` are for the last one: columns, and the greatest magnitude of each.
    pub(super) fn take(
        &mut self,
        view: &PointsView<'_>,
        bytes: &[u8],
        grid: &Grid,
        filter: Option<&Filter>,
        limits: &[(usize, f32)],
        report: &mut PointDrops,
    ) {
        self.load(view, bytes);
        let not_swept = self.deskew(view, bytes);
        self.locate(view, grid, filter, report);
        // Their coordinates are NaN since.
        report.non_finite -= not_swept;
        report.out_of_range += not_swept;
        report.out_of_range += self.drop_beyond(limits);
    }

    /// Takes the points in `bytes`, [`BLOCK`] at most.
    fn load(&mut self, view: &PointsView<'_>, bytes: &[u8]) {
        self.len = bytes.len() / view.point_step;
        let len = self.len;
        let big = view.big_endian;
        let step = view.point_step;
        let (coordinates, extras) = view.fields.split_at(3);
        match self.precision {
            Precision::Double => {
                for (column, field) in self.wide.iter_mut().zip(coordinates) {
                    load_column(field, big, bytes, step, &mut column[..len]);
                }
            }
            Precision::Single => {
                for (column, field) in self.coordinates.iter_mut().zip(coordinates) {
                    load_column(field, big, bytes, step, &mut column[..len]);
                }
            }
        }
        for (column, field) in self.extras.iter_mut().zip(extras) {
            load_column(field, big, bytes, step, &mut column[..len]);
        }
    }

    /// Moves the points in `bytes`, which have been loaded, to the reference stamp of the view's sweep,
    /// if there is one. Returns the number of points outside of the sweep; their x is NaN.
    fn deskew(&mut self, view: &PointsView<'_>, bytes: &[u8]) -> u64 {
        let Some(sweep) = &view.sweep else { return 0 };
        let len = self.len;
        let times = self.times.get_or_insert_with(Times::new);
        let [x, y, z] = &mut *self.coordinates;
        let single = [&mut x[..len], &mut y[..len], &mut z[..len]];
        let [x, y, z] = &mut self.wide[..] else {
            return times.deskew(sweep, view, bytes, single);
        };
        let double = [&mut x[..len], &mut y[..len], &mut z[..len]];
        match (self.precision, view.fields[0].kind) {
            (Precision::Single, _) => times.deskew(sweep, view, bytes, single),
            (Precision::Double, FieldType::Float64) => times.deskew(sweep, view, bytes, double),
            // What is `f32` in the message is moved in `f32`.
            (Precision::Double, _) => {
                for (to, from) in single.into_iter().zip(double) {
                    to.iter_mut().zip(from).for_each(|(to, from)| *to = *from as f32);
                }
                let [x, y, z] = &mut *self.coordinates;
                let single = [&mut x[..len], &mut y[..len], &mut z[..len]];
                let outside = times.deskew(sweep, view, bytes, single);
                for (to, from) in self.wide.iter_mut().zip(&*self.coordinates) {
                    let pairs = to[..len].iter_mut().zip(&from[..len]);
                    pairs.for_each(|(to, from)| *to = f64::from(*from));
                }
                outside
            }
        }
    }

    /// Transforms the coordinates to the base frame and finds the voxel of each point that the filter
    /// takes. It uses the widest vectors that this processor has.
    fn locate(
        &mut self,
        view: &PointsView<'_>,
        grid: &Grid,
        filter: Option<&Filter>,
        report: &mut PointDrops,
    ) {
        let t = &view.t_base_sensor;
        self.voxels[..self.len].fill(0);
        let left_out = filter.map_or(0, |filter| self.filter(filter, view.t_shapes, report));
        self.measure_ranges();
        let len = self.len;
        let voxels = &mut self.voxels[..len];
        let [x, y, z] = &mut *self.coordinates;
        let coordinates = [&mut x[..len], &mut y[..len], &mut z[..len]];
        let extras = &self.extras[..self.fields];
        let precision = self.precision;
        let wide = &self.wide;
        let (non_finite, outside) = pulp::Arch::new().dispatch(
            #[inline(always)]
            || {
                for column in extras {
                    mark_non_finite(&column[..len], voxels);
                }
                match (precision, wide.as_slice()) {
                    (Precision::Double, [wx, wy, wz]) => {
                        let wide = [&wx[..len], &wy[..len], &wz[..len]];
                        locate_wide(t, grid, wide, coordinates, voxels)
                    }
                    _ => locate(t, grid, coordinates, voxels),
                }
            },
        );
        // Points that the filter left out are not at 0 either.
        report.non_finite += u64::from(non_finite) - left_out;
        report.outside += u64::from(outside);
        self.measure_offsets(t, grid);
    }

    /// Marks the finite points that the filter leaves out, and returns their number.
    fn filter(
        &mut self,
        filter: &Filter,
        t_shapes: &[[[f64; 4]; 3]],
        report: &mut PointDrops,
    ) -> u64 {
        let len = self.len;
        let finite = |i: usize| self.extras[..self.fields].iter().all(|c| c[i].is_finite());
        let voxels = &mut self.voxels[..len];
        // Each block has a sieve of its own. With one for the whole cloud, a cloud through four boxes took 3.5 %
        // more instructions.
        match self.precision {
            Precision::Single => {
                let [x, y, z] = &*self.coordinates;
                let sieve = Sieve::<f32>::new(filter, t_shapes);
                sieve.mark(|i| [x[i], y[i], z[i]], finite, voxels, report)
            }
            Precision::Double => {
                let wide = &self.wide;
                let sieve = Sieve::<f64>::new(filter, t_shapes);
                sieve.mark(|i| [wide[0][i], wide[1][i], wide[2][i]], finite, voxels, report)
            }
        }
    }

    /// The column of a computed feature, if a channel takes it.
    fn place_of(&self, feature: &Feature) -> Option<usize> {
        let at = self.computed.iter().position(|computed| computed == feature)?;
        Some(self.fields + at)
    }

    /// The distances from the sensor, before the coordinates are those in the base frame.
    fn measure_ranges(&mut self) {
        let Some(at) = self.place_of(&Feature::Range) else { return };
        let out = &mut self.extras[at][..self.len];
        match self.precision {
            Precision::Single => {
                let [x, y, z] = &*self.coordinates;
                for (i, out) in out.iter_mut().enumerate() {
                    *out = ((x[i] * x[i] + y[i] * y[i]) + z[i] * z[i]).sqrt();
                }
            }
            Precision::Double => {
                let [x, y, z] = [0, 1, 2].map(|axis| &self.wide[axis]);
                for (i, out) in out.iter_mut().enumerate() {
                    *out = ((x[i] * x[i] + y[i] * y[i]) + z[i] * z[i]).sqrt() as f32;
                }
            }
        }
    }

    /// The coordinates from the centres of the voxels, of the points in the grid.
    fn measure_offsets(&mut self, t: &[[f64; 4]; 3], grid: &Grid) {
        for (axis, r) in t.iter().enumerate() {
            let Some(at) = self.place_of(&Feature::Offset(axis)) else { continue };
            let base = &self.coordinates[axis];
            let wide = self.wide.as_slice();
            let origin_m = grid.origin_m[axis];
            let from_origin = FromOrigin { precision: self.precision, base, wide, r, origin_m };
            let out = &mut self.extras[at][..self.len];
            for (i, (out, voxel)) in out.iter_mut().zip(&*self.voxels).enumerate() {
                if *voxel == NONE {
                    continue;
                }
                let d = from_origin.at(i);
                *out = d - ((d / grid.size_m).floor() + 0.5) * grid.size_m;
            }
        }
    }

    /// The coordinates along `axis` from the origin of the grid, of the points in it.
    pub(super) fn coordinates_from_origin<'a>(
        &'a self,
        axis: usize,
        t_base_sensor: &'a [[f64; 4]; 3],
        grid: &Grid,
    ) -> FromOrigin<'a> {
        FromOrigin {
            precision: self.precision,
            base: &self.coordinates[axis],
            wide: &self.wide,
            r: &t_base_sensor[axis],
            origin_m: grid.origin_m[axis],
        }
    }

    /// Drops the points inside the grid whose value in a column exceeds its limit in magnitude. Returns
    /// their number.
    fn drop_beyond(&mut self, limits: &[(usize, f32)]) -> u64 {
        let mut dropped = 0;
        for (column, limit) in limits {
            let values = column_of(&self.coordinates, &self.extras, *column);
            for (voxel, value) in self.voxels[..self.len].iter_mut().zip(values) {
                let beyond = value.abs() > *limit && *voxel != NONE;
                *voxel = if beyond { NONE } else { *voxel };
                dropped += u64::from(beyond);
            }
        }
        dropped
    }
}

/// The coordinates of a block along one axis from the origin of the grid: `d` of rule 5 of [`super`].
#[derive(Clone, Copy)]
pub(super) struct FromOrigin<'a> {
    precision: Precision,
    base: &'a Column,
    wide: &'a [[f64; BLOCK]],
    /// The row of `t_base_sensor`.
    r: &'a [f64; 4],
    origin_m: f64,
}

impl FromOrigin<'_> {
    /// Distance of point `i` from the origin along this axis \[m\].
    #[inline(always)]
    pub(super) fn at(&self, i: usize) -> f32 {
        match self.precision {
            Precision::Single => self.base[i] - self.origin_m as f32,
            Precision::Double => {
                let ([x, y, z], r) = ([0, 1, 2].map(|a| self.wide[a][i]), self.r);
                ((((r[0] * x + r[1] * y) + r[2] * z) + r[3]) - self.origin_m) as f32
            }
        }
    }
}

fn column_of<'a>(coordinates: &'a [Column; 3], extras: &'a [Column], at: usize) -> &'a Column {
    match at.checked_sub(3) {
        Some(extra) => &extras[extra],
        None => &coordinates[at],
    }
}

/// Marks with [`NONE`] where `column` is NaN or infinite.
#[inline(always)]
fn mark_non_finite(column: &[f32], marks: &mut [u32]) {
    for (mark, value) in marks.iter_mut().zip(column) {
        *mark |= if value.is_finite() { 0 } else { NONE };
    }
}

/// The rules 2 to 4 of [`super`]. If an extra field of a point is not finite, its element of
/// `voxels` is [`NONE`], otherwise 0. It becomes the voxel of the point. Returns the number of
/// points that are not finite, and the number of finite points outside the grid.
#[inline(always)]
fn locate(
    t: &[[f64; 4]; 3],
    grid: &Grid,
    [x, y, z]: [&mut [f32]; 3],
    voxels: &mut [u32],
) -> (u32, u32) {
    let t = t.map(|row| row.map(|number| number as f32));
    let [ox, oy, oz] = grid.origin_m.map(|m| m as f32);
    let cells = Cells::new(grid);
    let mut non_finite = 0u32;
    let mut outside = 0u32;
    for (((x, y), z), voxel) in x.iter_mut().zip(y).zip(z).zip(voxels) {
        let finite = (*voxel == 0) & x.is_finite() & y.is_finite() & z.is_finite();
        let base = |r: &[f32; 4]| ((r[0] * *x + r[1] * *y) + r[2] * *z) + r[3];
        let bx = base(&t[0]);
        let by = base(&t[1]);
        let bz = base(&t[2]);
        let (at, inside) = cells.at([bx - ox, by - oy, bz - oz]);
        *voxel = if finite & inside { at } else { NONE };
        (*x, *y, *z) = (bx, by, bz);
        non_finite += u32::from(!finite);
        outside += u32::from(finite & !inside);
    }
    (non_finite, outside)
}

/// As [`locate`], with coordinates of the cloud in `f64`. Those in the base frame go to `x`, `y`, `z`.
#[inline(always)]
fn locate_wide(
    t: &[[f64; 4]; 3],
    grid: &Grid,
    [px, py, pz]: [&[f64]; 3],
    [x, y, z]: [&mut [f32]; 3],
    voxels: &mut [u32],
) -> (u32, u32) {
    let [ox, oy, oz] = grid.origin_m;
    let cells = Cells::new(grid);
    let mut non_finite = 0u32;
    let mut outside = 0u32;
    let from = px.iter().zip(py).zip(pz);
    let to = x.iter_mut().zip(y).zip(z).zip(voxels);
    for (((px, py), pz), (((x, y), z), voxel)) in from.zip(to) {
        let finite = (*voxel == 0) & px.is_finite() & py.is_finite() & pz.is_finite();
        let base = |r: &[f64; 4]| ((r[0] * px + r[1] * py) + r[2] * pz) + r[3];
        let bx = base(&t[0]);
        let by = base(&t[1]);
        let bz = base(&t[2]);
        let (at, inside) = cells.at([(bx - ox) as f32, (by - oy) as f32, (bz - oz) as f32]);
        *voxel = if finite & inside { at } else { NONE };
        (*x, *y, *z) = (bx as f32, by as f32, bz as f32);
        non_finite += u32::from(!finite);
        outside += u32::from(finite & !inside);
    }
    (non_finite, outside)
}

/// A grid, to find the voxels of points.
#[derive(Clone, Copy)]
struct Cells {
    size_m: f32,
    shape: [f32; 3],
    row: u32,
    plane: u32,
}

impl Cells {
    #[inline(always)]
    fn new(grid: &Grid) -> Self {
        Cells {
            size_m: grid.size_m,
            shape: grid.shape.map(|n| n as f32),
            row: grid.shape[0] as u32,
            plane: (grid.shape[0] * grid.shape[1]) as u32,
        }
    }

    /// The voxel of a point that is at `d` from the origin of the grid, and whether there is one. The
    /// voxel of a point outside may be any number.
    #[inline(always)]
    fn at(&self, d: [f32; 3]) -> (u32, bool) {
        let Cells { size_m, shape: [nx, ny, nz], row, plane } = *self;
        let [gx, gy, gz] = [d[0] / size_m, d[1] / size_m, d[2] / size_m];
        let inside = (gx >= 0.0) & (gx < nx) & (gy >= 0.0) & (gy < ny) & (gz >= 0.0) & (gz < nz);
        let at = floor_bits(gz).wrapping_mul(plane);
        (at.wrapping_add(floor_bits(gy).wrapping_mul(row)).wrapping_add(floor_bits(gx)), inside)
    }
}

/// `floor(g)` as an integer for `0 <= g < 2^23`; any other `g` gives some number. If an integer is
/// added to 2^23, it is in the low bits of the sum. (`as` saturates, which does not vectorise.)
#[inline(always)]
fn floor_bits(g: f32) -> u32 {
    (g.floor() + 8_388_608.0).to_bits() & 0x7F_FFFF
}

/// The numbers that a column may hold.
pub(super) trait Number: Copy {
    fn of_i32(value: i32) -> Self;
    fn of_u32(value: u32) -> Self;
    fn of_f32(value: f32) -> Self;
    fn of_f64(value: f64) -> Self;
}

macro_rules! number {
    ($type:ty) => {
        impl Number for $type {
            #[inline(always)]
            fn of_i32(value: i32) -> Self {
                value as $type
            }
            #[inline(always)]
            fn of_u32(value: u32) -> Self {
                value as $type
            }
            #[inline(always)]
            fn of_f32(value: f32) -> Self {
                value as $type
            }
            #[inline(always)]
            fn of_f64(value: f64) -> Self {
                value as $type
            }
        }
    };
}
number!(f32);
number!(f64);

/// Reads one field of every point, rounded to nearest with ties to even.
pub(super) fn load_column<T: Number>(
    field: &FieldAt,
    big_endian: bool,
    points: &[u8],
    step: usize,
    out: &mut [T],
) {
    macro_rules! read {
        ($type:ty, $of:ident) => {
            match big_endian {
                false => {
                    gather(points, step, field, out, |b| T::$of(<$type>::from_le_bytes(b).into()))
                }
                true => {
                    gather(points, step, field, out, |b| T::$of(<$type>::from_be_bytes(b).into()))
                }
            }
        };
    }
    match field.kind {
        FieldType::Int8 => read!(i8, of_i32),
        FieldType::Uint8 => read!(u8, of_u32),
        FieldType::Int16 => read!(i16, of_i32),
        FieldType::Uint16 => read!(u16, of_u32),
        FieldType::Int32 => read!(i32, of_i32),
        FieldType::Uint32 => read!(u32, of_u32),
        FieldType::Float32 => read!(f32, of_f32),
        FieldType::Float64 => read!(f64, of_f64),
    }
}

#[inline(always)]
fn gather<T, const SIZE: usize>(
    points: &[u8],
    step: usize,
    field: &FieldAt,
    out: &mut [T],
    value: impl Fn([u8; SIZE]) -> T,
) {
    for (out, point) in out.iter_mut().zip(points.chunks_exact(step)) {
        let mut bytes = [0; SIZE];
        bytes.copy_from_slice(&point[field.offset..][..SIZE]);
        *out = value(bytes);
    }
}
