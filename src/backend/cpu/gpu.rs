//! An encoder on the GPU for one ring whose rows are on the host.

use super::BackendError;

#[cfg(feature = "cuda")]
pub use with_cuda::GpuEncoder;
#[cfg(not(feature = "cuda"))]
pub use without_cuda::GpuEncoder;

impl GpuEncoder {
    /// The encoder, if there is one.
    pub fn of(gpu: &mut Option<GpuEncoder>) -> Result<&mut GpuEncoder, BackendError> {
        gpu.as_mut().ok_or_else(|| {
            let detail = "this backend was made without a GPU".into();
            BackendError::Unavailable { backend: super::NAME, detail }
        })
    }
}

#[cfg(feature = "cuda")]
mod with_cuda {
    use std::sync::Arc;

    use crate::backend::{BackendError, wrong_kind};
    use crate::device::{Device, DeviceBuffer, Stream};
    use crate::ops::image::ImageView;
    use crate::ops::image::cuda::ImageEncoder;
    use crate::ops::voxelize::cuda::Voxelizer;
    use crate::ops::voxelize::{PointDrops, PointsView};
    use crate::spec::{EncoderSpec, StreamSpec};

    /// Encodes into a row on the device and copies that to the host.
    pub struct GpuEncoder {
        operation: Operation,
        /// The row on the device.
        row: DeviceBuffer,
        stream: Stream,
    }

    enum Operation {
        Image(Box<ImageEncoder>),
        /// Its only slot is the row on the device.
        Voxels(Box<Voxelizer>),
    }

    impl GpuEncoder {
        /// For the samples of a stream of images or clouds.
        pub fn new(device: &Arc<Device>, spec: &StreamSpec) -> Result<Self, BackendError> {
            let operation = match &spec.encoder {
                EncoderSpec::Image(image) => Operation::Image(Box::new(ImageEncoder::new(
                    device,
                    image,
                    spec.dtype,
                    spec.bounds.image_px(),
                )?)),
                EncoderSpec::Voxels(voxels) => Operation::Voxels(Box::new(Voxelizer::new(
                    device,
                    voxels,
                    spec.dtype,
                    1,
                    spec.bounds.max_points,
                )?)),
                EncoderSpec::Vector(_) => return Err(wrong_kind("cuda")),
            };
            let row = DeviceBuffer::new(device, spec.encoder.row_len() * spec.dtype.size())?;
            Ok(GpuEncoder { operation, row, stream: Stream::new(device, false)? })
        }

        /// Writes an image's row into `out`.
        pub fn image(&mut self, view: &ImageView<'_>, out: &mut [u8]) -> Result<(), BackendError> {
            let Operation::Image(encoder) = &mut self.operation else {
                return Err(wrong_kind("cuda"));
            };
            encoder.encode(view, (&self.row, 0), &self.stream)?;
            Ok(self.row.download(0, out, &self.stream)?)
        }

        /// Writes a cloud's row into `out`.
        pub fn points(
            &mut self,
            view: &PointsView<'_>,
            out: &mut [u8],
        ) -> Result<PointDrops, BackendError> {
            let Operation::Voxels(voxelizer) = &mut self.operation else {
                return Err(wrong_kind("cuda"));
            };
            voxelizer.stage(view)?;
            voxelizer.start(view, 0, (&self.row, 0), &self.stream)?;
            // Also a row that must not be used: one wait for both is less than two.
            self.row.download(0, out, &self.stream)?;
            Ok(voxelizer.finish(&self.stream)?)
        }
    }
}

#[cfg(not(feature = "cuda"))]
mod without_cuda {
    use crate::backend::BackendError;
    use crate::ops::image::ImageView;
    use crate::ops::voxelize::{PointDrops, PointsView};

    /// There is none.
    pub enum GpuEncoder {}

    impl GpuEncoder {
        /// Never called.
        #[expect(clippy::needless_pass_by_ref_mut, reason = "the signature of the build with CUDA")]
        pub fn image(&mut self, _: &ImageView<'_>, _: &mut [u8]) -> Result<(), BackendError> {
            match *self {}
        }

        /// Never called.
        #[expect(clippy::needless_pass_by_ref_mut, reason = "the signature of the build with CUDA")]
        pub fn points(
            &mut self,
            _: &PointsView<'_>,
            _: &mut [u8],
        ) -> Result<PointDrops, BackendError> {
            match *self {}
        }
    }
}
