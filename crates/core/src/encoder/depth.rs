//! Depth images, as distances.

use std::sync::atomic::AtomicBool;

use serde_json::Value;

#[cfg(feature = "cuda")]
use super::CudaEncoder;
use super::{
    CpuCode, CpuEncoder, Drawn, EncodeError, Encoder, EncoderSetup, check_image, image_limits,
};
use crate::rejected::Rejected;
use crate::sample::{Bounds, PlacedSample, Sample, SampleKind};
use robocache_ops::align::Slot;
use robocache_ops::depth::cpu::DepthEncoder;
use robocache_ops::depth::{DepthSpec, memory};
use robocache_ops::dtype::DType;
use robocache_ops::voxelize::PointDrops;
#[cfg(feature = "cuda")]
use {
    robocache_ops::depth::cuda,
    robocache_ops::device::{Device, DeviceError, RowPlace, Stream},
    std::sync::Arc,
};

impl Encoder for DepthSpec {
    fn kind(&self) -> &'static str {
        super::kind::DEPTH
    }

    fn plural(&self) -> &'static str {
        "depth images"
    }

    fn takes(&self) -> SampleKind {
        SampleKind::Depth
    }

    fn row_shape(&self) -> Vec<usize> {
        vec![1, self.height, self.width]
    }

    fn axes(&self) -> &'static [&'static str] {
        &["channel", "y", "x"]
    }

    fn channels(&self) -> Vec<String> {
        vec!["depth".to_owned()]
    }

    fn contents(&self, _: DType) -> String {
        let DepthSpec { min_m, max_m, fill_m, .. } = self;
        format!("distances from {min_m} to {max_m} m; {fill_m} where there is none")
    }

    fn drawn(&self, _: DType) -> Drawn {
        Drawn::Distances { size: [self.width, self.height], fill_m: self.fill_m }
    }

    fn limits(&self, bounds: Bounds) -> Vec<(&'static str, usize)> {
        image_limits(bounds)
    }

    fn check(&self, sample: &Sample<'_>, bounds: Bounds) -> Result<(), Rejected> {
        let Sample::Depth(view) = sample else { return Ok(()) };
        check_image(view.width, view.height, bounds)
    }

    fn message_bytes(&self, _: DType, bounds: Bounds) -> [usize; 2] {
        [memory::upload_bytes(self, bounds.image_px()); 2]
    }

    fn settings(&self, _: DType) -> Value {
        super::json_of(self)
    }

    fn cpu(&self, setup: EncoderSetup) -> CpuCode<'_> {
        CpuCode::Rows(Box::new(DepthEncoder::new(self, setup.dtype)))
    }

    #[cfg(feature = "cuda")]
    fn cuda(
        &self,
        device: &Arc<Device>,
        setup: EncoderSetup,
    ) -> Result<Option<Box<dyn CudaEncoder>>, DeviceError> {
        let largest = setup.bounds.image_px();
        Ok(Some(Box::new(cuda::DepthEncoder::new(device, self, setup.dtype, largest)?)))
    }
}

impl CpuEncoder for DepthEncoder {
    fn encode(
        &mut self,
        placed: &PlacedSample<'_>,
        _: Slot,
        row: &mut [u8],
        overtaken: Option<&AtomicBool>,
    ) -> Result<Option<PointDrops>, EncodeError> {
        let Sample::Depth(view) = &placed.sample else { return Err(EncodeError::WrongKind) };
        Ok(self.encode_unless(overtaken, view, row).then(PointDrops::default))
    }
}

#[cfg(feature = "cuda")]
impl CudaEncoder for cuda::DepthEncoder {
    fn encode(
        &mut self,
        placed: &PlacedSample<'_>,
        _: Slot,
        row: RowPlace<'_>,
        stream: &Stream,
    ) -> Result<PointDrops, EncodeError> {
        let Sample::Depth(view) = &placed.sample else { return Err(EncodeError::WrongKind) };
        self.encode(view, row, stream)?;
        Ok(PointDrops::default())
    }

    fn stage(&mut self, placed: &PlacedSample<'_>) -> Result<(), EncodeError> {
        let Sample::Depth(view) = &placed.sample else { return Err(EncodeError::WrongKind) };
        Ok(self.restage(view)?)
    }

    fn start(&mut self, row: RowPlace<'_>, stream: &Stream) -> Result<(), EncodeError> {
        Ok(self.start(row, stream)?)
    }

    fn finish(&mut self) -> Result<PointDrops, EncodeError> {
        self.settled();
        Ok(PointDrops::default())
    }

    fn operation(&self) -> &'static str {
        "encode a depth image"
    }
}
