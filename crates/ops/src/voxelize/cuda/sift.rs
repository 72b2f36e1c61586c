//! Parts that only sifted clouds need: the filter, values of last points, and sparse rows. The kernels are
//! `kernels/voxelize/sieve.cuh` and `list.cu`; [`super::sort`] launches the others.

use std::sync::Arc;

use crate::align::Slot;
use crate::device::shared::voxelize::list::{List, THREADS, Tell};
use crate::device::shared::voxelize::{
    Bins, LIMIT_GREATEST, LIMIT_LEAST, Last, Listing, SHAPE_KEEP, SHAPE_REMOVE, SHAPE_ROBOT,
    Shape as ShapeJob, Sieve,
};
use crate::device::{Device, DeviceBuffer, DeviceError, Kernel, Launch, Stream};
use crate::dtype::DType;
use crate::voxelize::memory::{ListBytes, last_bytes, sorted_points};
use crate::voxelize::{Action, Filter, Form, Shape, SparseRow, VoxelSpec};

use super::Target;

/// Filter, last points and output of a specification that asks for more than means and maxima of all points.
pub(super) struct Sifting {
    filter: Filter,
    keeps: bool,
    /// The values of channels that take the last point.
    last: DeviceBuffer,
    /// Values of one of these channels.
    stride: u64,
    /// True if a channel has the value of the last point.
    keeps_last: bool,
    pub min_points: u32,
    output: Output,
}

/// Writer of the row.
enum Output {
    /// The reduction writes it.
    Dense(Kernel),
    Sparse(Box<Sparse>),
}

/// Turns occupied voxels into a list.
struct Sparse {
    kernel: Kernel,
    row: SparseRow,
    /// Voxels of the grid along x and y.
    sides: [u32; 2],
    listing: Listing,
    /// Per slot: how many voxels its row holds.
    held: Vec<DeviceBuffer>,
    /// Kept for their memory.
    _buffers: [DeviceBuffer; 5],
}

impl Sifting {
    /// For clouds of at most `max_points` points.
    pub(super) fn new(
        device: &Arc<Device>,
        spec: &VoxelSpec,
        dtype: DType,
        bins: &Bins,
        slots: usize,
        max_points: usize,
    ) -> Result<Self, DeviceError> {
        let stride = sorted_points(max_points);
        let output = match SparseRow::new(spec, dtype) {
            None => Output::Dense(device.kernel("voxelize_tell")?),
            Some(row) => {
                let sparse = Sparse::new(device, spec, row, dtype, bins, slots, max_points)?;
                Output::Sparse(Box::new(sparse))
            }
        };
        Ok(Sifting {
            keeps: spec.filter.shapes.iter().any(|shape| shape.action == Action::Keep),
            filter: spec.filter.clone(),
            last: DeviceBuffer::new(device, last_bytes(max_points, spec.last_channels()))?,
            stride: stride as u64,
            keeps_last: spec.last_channels() > 0,
            min_points: spec.min_points,
            output,
        })
    }

    /// The filter, with its shapes at `shapes` on the device.
    pub(super) fn sieve(&self, shapes: u64) -> Sieve {
        let Filter { min_range_m, max_range_m, .. } = self.filter;
        let limit = |m: Option<f32>, bit| if m.is_some() { bit } else { 0 };
        Sieve {
            shapes,
            count: self.filter.shapes.len() as u32,
            keeps: u32::from(self.keeps),
            limits: limit(min_range_m, LIMIT_LEAST) | limit(max_range_m, LIMIT_GREATEST),
            least: min_range_m.unwrap_or_default(),
            greatest: max_range_m.unwrap_or_default(),
            reserved: 0,
        }
    }

    /// Place of the values of last points.
    pub(super) fn last(&self) -> Last {
        Last { values: self.last.address(), stride: self.stride }
    }

    /// Destination of the occupied voxels for the row of `slot`. `None` if the row is dense.
    pub(super) fn listing(&self, slot: Slot) -> Option<Listing> {
        match &self.output {
            Output::Dense(_) => None,
            Output::Sparse(sparse) => Some(sparse.listing_of(slot)),
        }
    }

    /// Ends a cloud, just after the launch that reduces it: writes the row if it is sparse, and gives the host the
    /// counts of the points.
    ///
    /// # Safety
    /// The row of `target` is valid on the device until the launch is done.
    pub(super) unsafe fn launch_end(
        &mut self,
        target: &Target,
        stream: &Stream,
    ) -> Result<(), DeviceError> {
        let Target { counters: tally, report, .. } = *target;
        match &mut self.output {
            Output::Dense(kernel) => {
                let launch = Launch { blocks: 1, threads: 32, shared: 0 };
                // SAFETY: the parameter is that of the kernel; both are of this voxelizer.
                unsafe { kernel.follow_job(stream, launch, &Tell { tally, report }) }
            }
            // SAFETY: the caller answers for the row.
            Output::Sparse(sparse) => unsafe { sparse.launch(target, stream) },
        }
    }

    /// True if a channel has the value of the last point.
    pub(super) fn keeps_last(&self) -> bool {
        self.keeps_last
    }

    /// True if the rows are sparse.
    pub(super) fn is_list(&self) -> bool {
        matches!(self.output, Output::Sparse(_))
    }

    /// Notes that the row of `slot` may hold anything. `None` if the row is dense.
    pub(super) fn forget(&self, slot: Slot) -> Option<&DeviceBuffer> {
        match &self.output {
            Output::Dense(_) => None,
            Output::Sparse(sparse) => Some(&sparse.held[slot.index()]),
        }
    }
}

impl Sparse {
    fn new(
        device: &Arc<Device>,
        spec: &VoxelSpec,
        row: SparseRow,
        dtype: DType,
        bins: &Bins,
        slots: usize,
        max_points: usize,
    ) -> Result<Self, DeviceError> {
        let voxel_blocks = bins.voxel_block_mask as usize + 1;
        let bytes = ListBytes::new(max_points, voxel_blocks, spec.grid.volume(), row.feature_bytes);
        let reserve = |bytes: usize| DeviceBuffer::new(device, bytes);
        let buffers = [
            reserve(bytes.masks)?,
            reserve(bytes.firsts)?,
            reserve(bytes.features)?,
            reserve(bytes.totals)?,
            reserve(size_of::<u32>())?,
        ];
        let [masks, firsts, features, totals, before] = &buffers;
        let listing = Listing {
            masks: masks.address(),
            firsts: firsts.address(),
            features: features.address(),
            totals: totals.address(),
            held: 0,
            before: before.address(),
            phase: 0,
            tiles: bytes.tiles as u32,
            tile_shift: bytes.tile_shift,
            channels: spec.channels.len() as u32,
        };
        let kernel = if dtype.size() == 2 { "voxelize_list_16" } else { "voxelize_list_32" };
        let [x, y, _] = spec.grid.shape.map(|side| side as u32);
        let held = (0..slots).map(|_| reserve(size_of::<u32>()));
        Ok(Sparse {
            kernel: device.kernel(kernel)?,
            row,
            sides: [x, y],
            listing,
            held: held.collect::<Result<_, DeviceError>>()?,
            _buffers: buffers,
        })
    }

    fn listing_of(&self, slot: Slot) -> Listing {
        Listing { held: self.held[slot.index()].address(), ..self.listing }
    }

    /// # Safety
    /// As for [`Sifting::launch_end`].
    unsafe fn launch(&mut self, target: &Target, stream: &Stream) -> Result<(), DeviceError> {
        let job = List {
            from: self.listing_of(target.slot),
            features: target.row,
            coordinates: target.row + self.row.coordinates_at() as u64,
            tally: target.counters,
            report: target.report,
            max_voxels: self.row.max_voxels as u32,
            row: self.sides[0],
            column: self.sides[1],
            reserved: 0,
        };
        let launch = Launch { blocks: self.listing.tiles, threads: THREADS, shared: 0 };
        // SAFETY: the parameter is that of the kernels. The buffers are of this voxelizer and sized for
        // its grid; the caller answers for the row.
        unsafe { self.kernel.follow_job(stream, launch, &job)? };
        self.listing.phase ^= 1;
        Ok(())
    }
}

/// The shapes of a filter for one cloud, as the kernels read them, into `out`. `t_shapes` has a pose for
/// each at least.
pub(super) fn shapes(filter: &Filter, t_shapes: &[[[f64; 4]; 3]], out: &mut Vec<ShapeJob>) {
    let job = |(shape, t): (&Shape, &[[f64; 4]; 3])| {
        let (corners, is_sphere) = match shape.form {
            Form::Box { min_m, max_m } => ([min_m, max_m], 0),
            Form::Sphere { radius_m } => ([[radius_m; 3]; 2], 1),
        };
        let action = match shape.action {
            Action::Keep => SHAPE_KEEP,
            Action::Remove => SHAPE_REMOVE,
            Action::Robot => SHAPE_ROBOT,
        };
        let single = t.map(|row| row.map(|number| number as f32));
        ShapeJob { wide_t: *t, t: single, corners, action, is_sphere }
    };
    out.clear();
    out.extend(filter.shapes.iter().zip(t_shapes).map(job));
}
