//! The encoder of one ring on a CUDA device, for rows on the host.

use std::sync::Arc;
use std::time::Duration;

use super::choice::CALL_LIMIT_NS;
use super::gpu_thread::GpuEncoder;
use crate::backend::{BackendError, wrong_kind};
use crate::device::{Device, Download, HostBuffer, Stream};
use crate::input::Sample;
use crate::ops::image::cuda::ImageEncoder;
use crate::ops::voxelize::cuda::Voxelizer;
use crate::ops::voxelize::{FieldAt, PointDrops, PointsView};
use crate::spec::{EncoderSpec, StreamSpec};

/// A row that is not there after this time is a failure.
const LIMIT: Duration = Duration::from_nanos(CALL_LIMIT_NS);

/// Encodes into a row on the device and copies that to memory of the host.
pub struct CudaEncoder {
    operation: Operation,
    download: Download,
    stream: Stream,
}

enum Operation {
    Image(Box<ImageEncoder>),
    /// Its only slot is the row on the device.
    Voxels {
        voxelizer: Box<Voxelizer>,
        staged: Cloud,
    },
}

/// The layout of the staged cloud, without its bytes.
#[derive(Default)]
struct Cloud {
    width: usize,
    height: usize,
    point_step: usize,
    row_step: usize,
    big_endian: bool,
    fields: Vec<FieldAt>,
}

impl CudaEncoder {
    /// For the samples of a stream of images or clouds.
    ///
    /// # Errors
    /// [`BackendError::Failed`] where the GPU's memory does not suffice.
    pub fn new(device: &Arc<Device>, spec: &StreamSpec) -> Result<Self, BackendError> {
        let operation = match &spec.encoder {
            EncoderSpec::Image(image) => Operation::Image(Box::new(ImageEncoder::new(
                device,
                image,
                spec.dtype,
                spec.bounds.image_px(),
            )?)),
            EncoderSpec::Voxels(voxels) => {
                let voxelizer = Box::new(Voxelizer::new(
                    device,
                    voxels,
                    spec.dtype,
                    1,
                    spec.bounds.max_points,
                )?);
                Operation::Voxels { voxelizer, staged: Cloud::default() }
            }
            EncoderSpec::Vector(_) => return Err(wrong_kind("cuda")),
        };
        let download = Download::new(device, spec.encoder.row_len() * spec.dtype.size())?;
        Ok(CudaEncoder { operation, download, stream: Stream::new(device, true)? })
    }
}

impl GpuEncoder for CudaEncoder {
    fn stage(&mut self, sample: &Sample<'_>) -> bool {
        match (&mut self.operation, sample) {
            (Operation::Image(encoder), Sample::Image(view)) => encoder.restage(view).is_ok(),
            (Operation::Voxels { voxelizer, staged }, Sample::Points(view)) => {
                staged.note(view);
                voxelizer.restage(view).unwrap_or(false)
            }
            _ => false,
        }
    }

    fn run(&mut self) -> Result<PointDrops, BackendError> {
        let CudaEncoder { operation, download, stream } = self;
        match operation {
            Operation::Image(encoder) => {
                encoder.start((download.row(), 0), stream)?;
                download.copy(stream, LIMIT, "encode an image")?;
                encoder.settled();
                Ok(PointDrops::default())
            }
            Operation::Voxels { voxelizer, staged } => {
                voxelizer.start(&staged.view(), 0, (download.row(), 0), stream)?;
                // Also a row that must not be used: one wait for both is less than two.
                download.copy(stream, LIMIT, "voxelize a cloud")?;
                voxelizer.settled();
                Ok(voxelizer.outcome()?)
            }
        }
    }

    fn row(&mut self) -> Option<&mut HostBuffer> {
        self.download.host()
    }
}

impl Cloud {
    fn note(&mut self, view: &PointsView<'_>) {
        let PointsView { width, height, point_step, row_step, big_endian, fields, .. } = *view;
        let mut kept = std::mem::take(&mut self.fields);
        kept.clear();
        kept.extend_from_slice(fields);
        *self = Cloud { width, height, point_step, row_step, big_endian, fields: kept };
    }

    fn view(&self) -> PointsView<'_> {
        PointsView {
            width: self.width,
            height: self.height,
            point_step: self.point_step,
            row_step: self.row_step,
            big_endian: self.big_endian,
            fields: &self.fields,
            data: &[],
        }
    }
}
