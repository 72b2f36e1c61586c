//! The gradient with respect to rows on the GPU: `kernels/resample/gradient.cu`, the twin of
//! [`gradient`](crate::resample::gradient).

use std::sync::Arc;

use super::{align_rule, each, misaligned};
use crate::device::shared::common::WARP;
use crate::device::shared::resample::gradient::{COLUMNS, Gradient as Job, THREADS};
use crate::device::{Device, DeviceError, Kernel, Launch, Stream};
use crate::dtype::DType;
use crate::resample::{BatchSpec, Times};

/// Addresses of the gradients of one stream of a batch on the device, and of the batch's instants. The shapes are those
/// of the [`BatchSpec`].
#[derive(Clone, Copy, Debug)]
pub struct GradientPointers {
    /// Gradient of the output, `[targets, sum of D]`.
    pub of_output: u64,
    /// Gradient of the rows, which is written.
    pub of_rows: u64,
    /// Stamps of the rows, of the gradient's [`Times`].
    pub stamps: u64,
    /// `[B + 1]`, `i64`; 0 if rows are divided evenly.
    pub row_offsets: u64,
    /// Targets, of the same.
    pub targets: u64,
    /// `[B + 1]`, `i64`; 0 if targets are divided evenly.
    pub target_offsets: u64,
}

impl GradientPointers {
    /// The address that the kernel cannot take, if there is one.
    fn fault(&self, of_output: DType, of_rows: DType, times: Times) -> Option<String> {
        misaligned("gradient of values", &[self.of_output], of_output.size() as u64)
            .or_else(|| misaligned("gradient of rows", &[self.of_rows], of_rows.size() as u64))
            .or_else(|| misaligned("times", &[self.stamps, self.targets], times.size() as u64))
            .or_else(|| misaligned("offsets", &[self.row_offsets, self.target_offsets], 8))
    }
}

/// Computes the gradients of batches of one element type.
pub struct Gradient {
    kernel: Kernel,
    dtype: DType,
    times: Times,
}

impl Gradient {
    /// For batches whose output is of `dtype`, with `times`.
    pub fn new(device: &Arc<Device>, dtype: DType, times: Times) -> Result<Self, DeviceError> {
        let name = format!("gradient_{}{}", dtype.name(), times.suffix());
        Ok(Gradient { kernel: device.kernel(&name)?, dtype, times })
    }

    /// Puts the gradient of the stream number `at` of a batch on a stream.
    ///
    /// # Safety
    /// Until the launch is done, the pointers are valid for the shapes of the spec and aligned, nothing
    /// else writes what they point to, and nothing else reads the gradient of the rows.
    ///
    /// # Errors
    /// An address is not aligned, there are too many rows, or the device fails.
    ///
    /// # Panics
    /// If `spec` has no gradient ([`BatchSpec::gradient_fault`]) or another element type.
    pub unsafe fn launch(
        &self,
        spec: &BatchSpec,
        at: usize,
        pointers: &GradientPointers,
        stream: &Stream,
    ) -> Result<(), DeviceError> {
        if let Some(fault) = spec.gradient_fault() {
            panic!("{fault}");
        }
        assert_eq!(spec.dtype, self.dtype, "gradient: element type");
        let own = &spec.streams[at];
        if let Some(detail) = pointers.fault(spec.dtype, own.dtype, self.times) {
            return Err(DeviceError::Failed { operation: "compute gradients", detail });
        }
        let dim = own.lanes.len();
        let rows = own.rows.total(spec.episodes);
        let before: usize = spec.streams[..at].iter().map(|stream| stream.lanes.len()).sum();
        let column_tiles = dim.div_ceil((WARP * COLUMNS) as usize).max(1);
        // The kernel numbers warps in 32 bits.
        if rows.saturating_mul(column_tiles) > i32::MAX as usize {
            let detail = format!("expected fewer than 2^31 parts of rows, found {rows} rows");
            return Err(DeviceError::Failed { operation: "compute gradients", detail });
        }
        let job = Job {
            of_output: pointers.of_output + (before * spec.dtype.size()) as u64,
            of_rows: pointers.of_rows,
            stamps: pointers.stamps,
            row_offsets: pointers.row_offsets,
            targets: pointers.targets,
            target_offsets: pointers.target_offsets,
            rule: align_rule(own.rule),
            episodes: spec.episodes as u32,
            len: each(own.rows),
            all_rows: rows as u32,
            steps: each(spec.steps),
            all_steps: spec.targets() as u32,
            dim: dim as u32,
            out_row: spec.row_len() as u32,
            column_tiles: column_tiles as u32,
            rows_are_f32: u32::from(own.dtype == DType::F32),
            reserved: 0,
        };
        let blocks = (rows * column_tiles).div_ceil((THREADS / WARP) as usize) as u32;
        let launch = Launch { blocks, threads: THREADS, shared: 0 };
        // SAFETY: the parameter is that of the kernel, and names what the caller answers for.
        unsafe { self.kernel.launch_job(stream, launch, &job) }
    }
}
