//! Moves the points of a sweep to its reference stamp: `kernels/voxelize/deskew.cu`. It works in the
//! memory that the points were uploaded to, before they are voxelized.

use std::sync::Arc;

use super::job::{self, DevicePoints};
use crate::device::shared::voxelize::Counters;
use crate::device::shared::voxelize::deskew::{Deskew, Knot, THREADS};
use crate::device::{Device, DeviceError, Kernel, Launch, Stream};
use crate::voxelize::memory::tables_at;
use crate::voxelize::{FieldAt, FieldType, Sweep};

// A point outside of its sweep is counted in the last of these places.
const _: () = assert!(size_of::<Counters>() == 4 * 4);

/// The kernels.
pub(super) struct Deskewing {
    /// For coordinates in `f32`.
    single: Kernel,
    /// For coordinates in `f64`.
    double: Kernel,
}

/// The sweep of a cloud that was staged. Its knots follow the points.
#[derive(Clone, Copy, Debug)]
pub(super) struct StagedSweep {
    pub time: FieldAt,
    pub origin: f64,
    pub rate: f64,
    pub knots: usize,
}

impl StagedSweep {
    pub(super) fn of(sweep: &Sweep<'_>) -> Self {
        let Sweep { time, origin, rate, knots } = *sweep;
        StagedSweep { time, origin, rate, knots: knots.len() }
    }
}

/// The knots as the kernels read them, into `out`.
pub(super) fn knots(sweep: &Sweep<'_>, out: &mut Vec<Knot>) {
    out.clear();
    let knots = sweep.knots.iter();
    out.extend(knots.map(|k| Knot { rotation: k.rotation, translation: k.translation }));
}

impl Deskewing {
    pub(super) fn new(device: &Arc<Device>) -> Result<Self, DeviceError> {
        let [single, double] = ["voxelize_deskew_f32", "voxelize_deskew_f64"];
        Ok(Deskewing { single: device.kernel(single)?, double: device.kernel(double)? })
    }

    /// Puts the deskew of points on `stream`; their knots are behind them. `len` is the size of the
    /// points \[bytes\].
    ///
    /// # Safety
    /// Until the launch is done, the points, the knots and the counters are valid on the device, and
    /// nothing else uses the points. All fields are inside their point.
    pub(super) unsafe fn launch(
        &self,
        points: &DevicePoints<'_>,
        len: usize,
        sweep: &StagedSweep,
        counters: u64,
        stream: &Stream,
    ) -> Result<(), DeviceError> {
        let count = (points.width * points.height) as u32;
        if count == 0 {
            return Ok(());
        }
        let offset = |axis: usize| points.fields[axis].offset as u32;
        let job = Deskew {
            points: points.address,
            knots: points.address + tables_at(len) as u64,
            counters,
            row_step: points.row_step as u64,
            origin: sweep.origin,
            rate: sweep.rate,
            width: points.width as u32,
            count,
            point_step: points.point_step as u32,
            big_endian: u32::from(points.big_endian),
            time: job::field(&sweep.time),
            offsets: std::array::from_fn(offset),
            knot_count: sweep.knots as u32,
        };
        let kernel = match points.fields[0].kind {
            FieldType::Float64 => &self.double,
            _ => &self.single,
        };
        let launch = Launch { blocks: count.div_ceil(THREADS), threads: THREADS, shared: 0 };
        // SAFETY: the parameter is that of the kernels; the caller answers for the rest.
        unsafe { kernel.launch_job(stream, launch, &job) }
    }
}
