//! A block of points as columns of `f32`, so that loading and locating them vectorise.

use crate::ops::voxelize::spec::{FieldAt, FieldType, Grid, PointDrops, PointsView};

/// Most points of a block: so few that their bytes and columns stay in the innermost cache.
pub const BLOCK: usize = 1024;

/// In the place of a voxel: the point is in none.
pub const NONE: u32 = u32::MAX;

type Column = [f32; BLOCK];

/// The points at hand.
pub struct Block {
    len: usize,
    /// `x`, `y`, `z`: of the cloud after `load`, of the base frame after `locate`.
    coordinates: Box<[Column; 3]>,
    /// The extra fields of the configuration.
    extras: Vec<Column>,
    /// Voxel of each point, or [`NONE`].
    voxels: Box<[u32; BLOCK]>,
}

impl Block {
    /// A block for `x`, `y`, `z` and `extras` more fields.
    pub fn new(extras: usize) -> Self {
        Block {
            len: 0,
            coordinates: Box::new([[0.0; BLOCK]; 3]),
            extras: vec![[0.0; BLOCK]; extras],
            voxels: Box::new([NONE; BLOCK]),
        }
    }

    /// Voxel of each point, or [`NONE`].
    pub fn voxels(&self) -> &[u32] {
        &self.voxels[..self.len]
    }

    /// Values of field `column`: `x`, `y`, `z`, then the extra fields.
    pub fn column(&self, column: usize) -> &Column {
        column_of(&self.coordinates, &self.extras, column)
    }

    /// Takes the points in `bytes`, [`BLOCK`] at most.
    pub fn load(&mut self, view: &PointsView<'_>, bytes: &[u8]) {
        self.len = bytes.len() / view.point_step;
        let columns = self.coordinates.iter_mut().chain(&mut self.extras);
        for (column, field) in columns.zip(view.fields) {
            load_column(field, view.big_endian, bytes, view.point_step, &mut column[..self.len]);
        }
    }

    /// Transforms the coordinates to the base frame and finds the voxel of each point. It uses the
    /// widest vectors that this processor has.
    pub fn locate(&mut self, t: &[[f32; 4]; 3], grid: &Grid, report: &mut PointDrops) {
        let len = self.len;
        let voxels = &mut self.voxels[..len];
        let [x, y, z] = &mut *self.coordinates;
        let coordinates = [&mut x[..len], &mut y[..len], &mut z[..len]];
        let extras = &self.extras;
        let (non_finite, outside) = pulp::Arch::new().dispatch(
            #[inline(always)]
            || {
                voxels.fill(0);
                for column in extras {
                    mark_non_finite(&column[..len], voxels);
                }
                locate(t, grid, coordinates, voxels)
            },
        );
        report.non_finite += u64::from(non_finite);
        report.outside += u64::from(outside);
    }

    /// Drops the points inside the grid whose value in one of `columns` exceeds `limit` in
    /// magnitude. Returns their number.
    pub fn drop_beyond(&mut self, columns: &[usize], limit: f32) -> u64 {
        let mut dropped = 0;
        for column in columns {
            let values = column_of(&self.coordinates, &self.extras, *column);
            for (voxel, value) in self.voxels[..self.len].iter_mut().zip(values) {
                let beyond = value.abs() > limit && *voxel != NONE;
                *voxel = if beyond { NONE } else { *voxel };
                dropped += u64::from(beyond);
            }
        }
        dropped
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
    t: &[[f32; 4]; 3],
    grid: &Grid,
    [x, y, z]: [&mut [f32]; 3],
    voxels: &mut [u32],
) -> (u32, u32) {
    let [ox, oy, oz] = grid.origin_m;
    let size = grid.size_m;
    let [nx, ny, nz] = grid.shape.map(|n| n as f32);
    let [row, plane] = [grid.shape[0] as u32, (grid.shape[0] * grid.shape[1]) as u32];
    let (mut non_finite, mut outside) = (0u32, 0u32);
    for (((x, y), z), voxel) in x.iter_mut().zip(y).zip(z).zip(voxels) {
        let finite = (*voxel == 0) & x.is_finite() & y.is_finite() & z.is_finite();
        let base = |r: &[f32; 4]| ((r[0] * *x + r[1] * *y) + r[2] * *z) + r[3];
        let (bx, by, bz) = (base(&t[0]), base(&t[1]), base(&t[2]));
        let (gx, gy, gz) = ((bx - ox) / size, (by - oy) / size, (bz - oz) / size);
        let inside = (gx >= 0.0) & (gx < nx) & (gy >= 0.0) & (gy < ny) & (gz >= 0.0) & (gz < nz);
        // The result of a point outside is not used, so its products may be anything.
        let at = floor_bits(gz).wrapping_mul(plane);
        let at = at.wrapping_add(floor_bits(gy).wrapping_mul(row)).wrapping_add(floor_bits(gx));
        *voxel = if finite & inside { at } else { NONE };
        (*x, *y, *z) = (bx, by, bz);
        non_finite += u32::from(!finite);
        outside += u32::from(finite & !inside);
    }
    (non_finite, outside)
}

/// `floor(g)` as an integer for `0 <= g < 2^23`; any other `g` gives some number. If an integer is
/// added to 2^23, it is in the low bits of the sum. (`as` saturates, which does not vectorise.)
#[inline(always)]
fn floor_bits(g: f32) -> u32 {
    (g.floor() + 8_388_608.0).to_bits() & 0x7F_FFFF
}

/// Reads one field of every point as `f32`, rounded to nearest with ties to even.
fn load_column(field: &FieldAt, big_endian: bool, points: &[u8], step: usize, out: &mut [f32]) {
    macro_rules! read {
        ($type:ty) => {
            match big_endian {
                false => gather(points, step, field, out, |b| <$type>::from_le_bytes(b) as f32),
                true => gather(points, step, field, out, |b| <$type>::from_be_bytes(b) as f32),
            }
        };
    }
    match field.kind {
        FieldType::Int8 => read!(i8),
        FieldType::Uint8 => read!(u8),
        FieldType::Int16 => read!(i16),
        FieldType::Uint16 => read!(u16),
        FieldType::Int32 => read!(i32),
        FieldType::Uint32 => read!(u32),
        FieldType::Float32 => read!(f32),
        FieldType::Float64 => read!(f64),
    }
}

#[inline(always)]
fn gather<const SIZE: usize>(
    points: &[u8],
    step: usize,
    field: &FieldAt,
    out: &mut [f32],
    value: impl Fn([u8; SIZE]) -> f32,
) {
    for (out, point) in out.iter_mut().zip(points.chunks_exact(step)) {
        let mut bytes = [0; SIZE];
        bytes.copy_from_slice(&point[field.offset..][..SIZE]);
        *out = value(bytes);
    }
}
