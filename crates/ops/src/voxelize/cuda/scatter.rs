//! Clouds straight to arrays of the caller: `kernels/voxelize/scatter.cu`.

use std::sync::Arc;

use super::job::{self, DevicePoints, PointLayout};
use crate::device::shared::voxelize::scatter::{PER, Scatter as Job, THREADS};
use crate::device::{Device, DeviceError, Kernel, Launch, Stream};
use crate::voxelize::Grid;

/// Meaning of a word of the result, of which each voxel has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Words {
    /// How many points it has, as an integer.
    Counts,
    /// These bits if it has a point.
    Marks(u32),
}

/// Writes counts or marks in words of 32 bits. It keeps no memory on the device, and nothing is reported.
#[derive(Debug)]
pub struct Scatter(Kernel);

impl Scatter {
    /// For a device.
    ///
    /// # Errors
    /// The kernel is missing.
    pub fn new(device: &Arc<Device>) -> Result<Self, DeviceError> {
        Ok(Scatter(device.kernel("voxelize_scatter")?))
    }

    /// True if the kernel takes points of this layout into this grid. It takes only floats that an `f32` holds.
    pub fn takes(points: &DevicePoints<'_>, grid: &Grid) -> bool {
        points.layout(grid) == PointLayout::F32
    }

    /// Zeros `out` and puts this many clouds on a stream. `points` is the first cloud, and the others follow it in
    /// memory. `out` has a grid of words for each cloud. `strides` are the words from a voxel to the next along x, y and z.
    ///
    /// # Errors
    /// There are too many points for one launch, or the device fails.
    ///
    /// # Safety
    /// Until the launch is done, the points and `out` are valid on the device, nothing writes the points, and nothing
    /// else uses `out`. `strides` take every voxel of the grid to a place of its own, from 0 to the volume.
    ///
    /// # Panics
    /// When it does not take the points ([`Scatter::takes`]).
    pub unsafe fn launch(
        &self,
        points: &DevicePoints<'_>,
        clouds: usize,
        grid: &Grid,
        (out, strides, words): (u64, [usize; 3], Words),
        stream: &Stream,
    ) -> Result<(), DeviceError> {
        assert!(Self::takes(points, grid), "scatter: expected points of f32");
        let blocks = (points.width * points.height).div_ceil((THREADS * PER) as usize);
        let Ok(all) = i32::try_from(blocks * clouds) else {
            let detail = format!("expected fewer than {clouds} clouds at once");
            return Err(DeviceError::Failed { operation: "scatter clouds", detail });
        };
        if clouds == 0 {
            return Ok(());
        }
        // SAFETY: the caller answers for `out`.
        unsafe { stream.clear_words(out, clouds * grid.volume())? };
        let job = Job {
            // The kernel has no need of the table of fields.
            cloud: points.job(0),
            grid: job::grid(grid),
            out,
            strides: strides.map(|words| words as u32),
            mark: match words {
                Words::Counts => 0,
                Words::Marks(bits) => bits,
            },
            blocks: blocks as u32,
            reserved: 0,
        };
        let launch = Launch { blocks: all as u32, threads: THREADS, shared: 0 };
        // SAFETY: the parameter is that of the kernel; the caller answers for what it names.
        unsafe { self.0.launch_job(stream, launch, &job) }
    }
}
