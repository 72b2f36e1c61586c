//! A voxel grid as cubes: `visualization_msgs/msg/MarkerArray`.

use super::color::ColorMap;
use crate::cdr::Writer;
use crate::encoder::Cubes;
use crate::message::StepRead;
use robocache_ops::dtype::DType;
use robocache_ops::time::Stamp;
use robocache_ops::voxelize::Grid;

/// Most cubes in a message: more are too slow to draw.
const MAX_CUBES: usize = 100_000;
/// The constants of `visualization_msgs/msg/Marker`.
const LINE_LIST: i32 = 5;
const CUBE_LIST: i32 = 6;
const ADD: i32 = 0;
/// Red, green, blue and opacity.
const RED: [f32; 4] = [1.0, 0.0, 0.0, 1.0];
const GREY: [f32; 4] = [0.6, 0.6, 0.6, 1.0];
/// How the elements of a grid segment become cubes.
#[derive(Clone, Debug, PartialEq)]
pub struct GridView {
    grid: Grid,
    channels: usize,
    /// The channel that gives the colour; `None`: the height does.
    colored_by: Option<usize>,
    dtype: DType,
}

/// A voxel that is shown.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cube {
    center_m: [f64; 3],
    /// Value that its colour shows.
    value: f32,
}

impl GridView {
    /// How rows of these cells are shown.
    pub fn new(cubes: Cubes, dtype: DType) -> Self {
        let Cubes { grid, channels, colored_by } = cubes;
        GridView { grid, channels, colored_by, dtype }
    }

    /// The message: a marker with a cube per voxel in use, and one with the edges of the grid.
    /// `None` if the step has another size.
    pub(super) fn message(
        &self,
        step: &StepRead<'_>,
        name: &str,
        frame_id: &str,
        buffer: Vec<u8>,
    ) -> Option<Vec<u8>> {
        let cubes = self.cubes(step)?;
        let mut writer = Writer::reusing(buffer);
        writer.u32(2);
        let marker = Marker { stamp: step.target, frame_id, name };
        let size = f64::from(self.grid.size_m);
        let colors = colors(&cubes, step.valid);
        let centers: Vec<_> = cubes.iter().map(|cube| cube.center_m).collect();
        marker.write(&mut writer, 0, CUBE_LIST, [size; 3], &centers, &colors);
        let edges = self.edges();
        let color = if step.valid { GREY } else { RED };
        marker.write(&mut writer, 1, LINE_LIST, [size / 4.0, 0.0, 0.0], &edges, &[color; 24]);
        Some(writer.finish())
    }

    /// The voxels that are in use, lowest first. In each, a channel is not zero.
    fn cubes(&self, step: &StepRead<'_>) -> Option<Vec<Cube>> {
        let values = super::elements(self.dtype, step.bytes);
        let [nx, ny, nz] = self.grid.shape;
        let volume = nx * ny * nz;
        if values.len() != volume * self.channels {
            return None;
        }
        let of = |channel: usize, voxel: usize| values[channel * volume + voxel];
        let in_use = |voxel: &usize| (0..self.channels).any(|channel| of(channel, *voxel) != 0.0);
        let cube = |voxel: usize| {
            let place = [voxel % nx, voxel / nx % ny, voxel / (nx * ny)];
            let center_m = std::array::from_fn(|axis| self.at(axis, place[axis] as f64 + 0.5));
            let value = self.colored_by.map_or(center_m[2] as f32, |channel| of(channel, voxel));
            Cube { center_m, value }
        };
        Some((0..volume).filter(in_use).map(cube).take(MAX_CUBES).collect())
    }

    /// The coordinate that is `voxels` voxels from the lower corner \[m\].
    fn at(&self, axis: usize, voxels: f64) -> f64 {
        self.grid.origin_m[axis] + voxels * f64::from(self.grid.size_m)
    }

    /// The ends of the grid's twelve edges.
    fn edges(&self) -> Vec<[f64; 3]> {
        let corner = |upper: usize| -> [f64; 3] {
            std::array::from_fn(|axis| {
                self.at(
                    axis,
                    if upper >> axis & 1 == 1 { self.grid.shape[axis] as f64 } else { 0.0 },
                )
            })
        };
        let edge = |from: usize, axis: usize| {
            (from >> axis & 1 == 0).then(|| [corner(from), corner(from | 1 << axis)])
        };
        (0..8).flat_map(|from| (0..3).filter_map(move |axis| edge(from, axis))).flatten().collect()
    }
}

/// The colours of the cubes: from the lowest to the highest of their values. All are red if the step
/// is invalid.
fn colors(cubes: &[Cube], valid: bool) -> Vec<[f32; 4]> {
    let map = ColorMap::of(cubes.iter().map(|cube| cube.value));
    let color = |cube: &Cube| match (valid, map.color(cube.value)) {
        (true, [r, g, b]) => [r, g, b, 1.0],
        (false, _) => RED,
    };
    cubes.iter().map(color).collect()
}

/// Parts that the markers of a message have in common.
struct Marker<'a> {
    stamp: Stamp,
    frame_id: &'a str,
    name: &'a str,
}

impl Marker<'_> {
    /// Writes a `visualization_msgs/msg/Marker` of points with a colour each.
    fn write(
        &self,
        writer: &mut Writer,
        id: i32,
        kind: i32,
        scale: [f64; 3],
        points: &[[f64; 3]],
        colors: &[[f32; 4]],
    ) {
        writer.header(self.stamp, self.frame_id);
        writer.string(self.name);
        writer.i32(id);
        writer.i32(kind);
        writer.i32(ADD);
        writer.f64_array(&[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]); // pose
        writer.f64_array(&scale);
        RED.iter().for_each(|part| writer.f32(*part)); // of points without a colour
        writer.i32(0); // lifetime: for ever
        writer.u32(0);
        writer.u8(0); // frame_locked
        writer.u32(points.len() as u32);
        points.iter().for_each(|point| writer.f64_array(point));
        writer.u32(colors.len() as u32);
        colors.iter().flatten().for_each(|part| writer.f32(*part));
        writer.string(""); // texture_resource
        writer.header(Stamp::ZERO, ""); // texture
        writer.string("");
        writer.bytes(&[]);
        writer.u32(0); // uv_coordinates
        writer.string(""); // text
        writer.string(""); // mesh_resource
        writer.string(""); // mesh_file
        writer.bytes(&[]);
        writer.u8(0); // mesh_use_embedded_materials
    }
}

#[cfg(test)]
mod tests;
