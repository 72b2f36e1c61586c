//! Images, resized and normalised.

use std::sync::atomic::AtomicBool;

use serde_json::{Value, json};

#[cfg(feature = "cuda")]
use super::CudaEncoder;
use super::{
    CpuCode, CpuEncoder, Drawn, EncodeError, Encoder, EncoderSetup, Meaning, check_image,
    image_limits,
};
use crate::codec;
use crate::rejected::{DropReason, Rejected};
use crate::sample::{Bounds, PlacedSample, Sample, SampleKind};
use robocache_ops::align::Slot;
use robocache_ops::dtype::DType;
use robocache_ops::image::camera::Camera;
use robocache_ops::image::cpu::ImageEncoder;
use robocache_ops::image::{ImageLayout, ImageSpec, ImageView, Remap, Resize, memory};
use robocache_ops::voxelize::PointDrops;
#[cfg(feature = "cuda")]
use {
    crate::codec::FileReader,
    robocache_ops::device::{Device, DeviceError, MessagePool, RowPlace, Stream},
    robocache_ops::image::{Encoding, cuda},
    std::sync::Arc,
    std::time::Duration,
};

impl Encoder for ImageSpec {
    fn kind(&self) -> &'static str {
        super::kind::IMAGE
    }

    fn plural(&self) -> &'static str {
        "images"
    }

    fn takes(&self) -> SampleKind {
        SampleKind::Image
    }

    fn dtypes(&self) -> &'static [DType] {
        &[DType::F32, DType::F16, DType::Bf16, DType::U8]
    }

    fn row_shape(&self) -> Vec<usize> {
        ImageSpec::row_shape(self).to_vec()
    }

    fn axes(&self) -> &'static [&'static str] {
        match self.layout {
            ImageLayout::Chw => &["channel", "y", "x"],
            ImageLayout::Hwc => &["y", "x", "channel"],
        }
    }

    fn channels(&self) -> Vec<String> {
        self.color.names().iter().copied().map(str::to_owned).collect()
    }

    /// The channels, from where to where their values go, and how a picture fits into the row.
    fn contents(&self, dtype: DType) -> String {
        let names = self.color.names();
        let range = |at: usize| match dtype {
            DType::U8 => "from 0 to 255".to_owned(),
            _ => {
                let value = |byte: f32| (byte - self.mean[at]) / self.std[at];
                format!("from {} to {}", rounded(value(0.0)), rounded(value(1.0)))
            }
        };
        let ranges: Vec<String> = (0..names.len()).map(range).collect();
        let channels = match ranges.iter().all(|range| *range == ranges[0]) {
            true => format!("{} {}", names.join(", "), ranges[0]),
            false => {
                let each = names.iter().zip(&ranges).map(|(name, range)| format!("{name} {range}"));
                each.collect::<Vec<_>>().join(", ")
            }
        };
        let fit = |of: &Resize| format!("; {} into {}x{}", of.fit.name(), of.width, of.height);
        channels + &self.resizes.iter().map(fit).collect::<String>()
    }

    /// Rows of bytes are not normalised.
    fn meaning(&self, dtype: DType) -> Meaning {
        let channels = match dtype {
            DType::U8 => 0,
            _ => self.color.channels(),
        };
        Meaning {
            mean: self.mean[..channels].to_vec(),
            std: self.std[..channels].to_vec(),
            layout: self.layout.name(),
            filters: self.resizes.iter().map(|resize| resize.filter.name()).collect(),
            ..Meaning::default()
        }
    }

    fn drawn(&self, _: DType) -> Drawn {
        let Resize { width, height, .. } = *self.last();
        Drawn::Colors {
            color: self.color,
            layout: self.layout,
            size: [width, height],
            normalisation: [self.mean, self.std],
        }
    }

    fn limits(&self, bounds: Bounds) -> Vec<(&'static str, usize)> {
        image_limits(bounds)
    }

    fn check(&self, sample: &Sample<'_>, bounds: Bounds) -> Result<(), Rejected> {
        let Some([width, height]) = sample.image_size() else { return Ok(()) };
        check_image(width, height, bounds)?;
        let (Some(crop), None) = (self.crop, self.part(width, height)) else {
            return Ok(());
        };
        let [needed_width, needed_height] = [crop.x + crop.width, crop.y + crop.height];
        let detail = format!(
            "image.crop: expected an image of at least {needed_width}x{needed_height} px, found {width}x{height}"
        );
        Err(Rejected::new(DropReason::WrongSize, detail))
    }

    fn message_bytes(&self, _: DType, bounds: Bounds) -> [usize; 2] {
        let largest = bounds.image_px();
        let upload = memory::upload_bytes(self, largest);
        let between = memory::between_bytes(self);
        let remap = memory::remap_bytes(self, largest);
        let jpeg = if bounds.jpeg { memory::jpeg_bytes(largest) } else { 0 };
        let on_device = upload + memory::lines_bytes(self, largest) + between + remap + jpeg;
        // What is reserved at the start. Messages that the GPU reads in place have the size of those that come.
        [on_device, upload]
    }

    fn settings(&self, dtype: DType) -> Value {
        let mut meaningless = vec!["color"];
        // Bytes are not normalised.
        if dtype == DType::U8 {
            meaningless.extend(["mean", "std"]);
        }
        if !self.resizes.iter().any(|resize| resize.fit.pads()) {
            meaningless.push("pad_value");
        }
        let mut image = super::without(super::json_of(self), &meaningless);
        for (resize, known) in self.resizes.iter().enumerate() {
            let filter = known.filter;
            image["resizes"][resize]["filter"] =
                json!(format!("{} ({})", filter.name(), filter.library()));
        }
        image
    }

    fn cpu(&self, setup: EncoderSetup) -> CpuCode<'_> {
        let encoder = ImageEncoder::new(self, setup.dtype);
        CpuCode::Rows(Box::new(ImageOnCore { encoder, pixels: Vec::new() }))
    }

    #[cfg(feature = "cuda")]
    fn cuda(
        &self,
        device: &Arc<Device>,
        setup: EncoderSetup,
    ) -> Result<Option<Box<dyn CudaEncoder>>, DeviceError> {
        let largest = setup.bounds.image_px();
        let encoder = cuda::ImageEncoder::new(device, self, setup.dtype, largest)?;
        let encoder = if setup.bounds.jpeg { encoder.with_jpeg(device, largest)? } else { encoder };
        let files = FileReader::default();
        let pixels = Vec::new();
        Ok(Some(Box::new(ImageOnDevice { encoder, files, pixels })))
    }

    fn undistorts(&self) -> bool {
        self.undistort
    }

    fn remap(&self, camera: &Camera) -> Option<Remap> {
        let [width, height] = camera.size;
        camera.remap(&self.part(width, height)?)
    }
}

/// A number with at most three decimals.
fn rounded(value: f32) -> f64 {
    (f64::from(value) * 1e3).round() / 1e3
}

/// The image of a sample, with its table. If nobody has decoded it, its pixels go to `pixels`.
///
/// # Errors
/// [`EncodeError::WrongKind`] if the sample is no image; those of a file that cannot be decoded.
fn image_of<'a>(
    placed: &PlacedSample<'a>,
    pixels: &'a mut Vec<u8>,
) -> Result<ImageView<'a>, EncodeError> {
    let view = match &placed.sample {
        Sample::Image(view) => *view,
        Sample::Compressed(image) => codec::decode_compressed(image, pixels)?,
        _ => return Err(EncodeError::WrongKind),
    };
    Ok(placed.placement.image(&view))
}

/// The code for a core, and memory for pixels.
struct ImageOnCore {
    encoder: ImageEncoder,
    pixels: Vec<u8>,
}

impl CpuEncoder for ImageOnCore {
    fn encode(
        &mut self,
        placed: &PlacedSample<'_>,
        _: Slot,
        row: &mut [u8],
        overtaken: Option<&AtomicBool>,
    ) -> Result<Option<PointDrops>, EncodeError> {
        let view = image_of(placed, &mut self.pixels)?;
        Ok(self.encoder.encode_unless(overtaken, &view, row).then(PointDrops::default))
    }
}

/// Limit of the wait for a row of a JPEG file. A GPU that takes longer has failed.
#[cfg(feature = "cuda")]
const LIMIT: Duration = Duration::from_secs(10);

/// The code for a GPU.
#[cfg(feature = "cuda")]
struct ImageOnDevice {
    encoder: cuda::ImageEncoder,
    /// Reads compressed images that nobody has read.
    files: FileReader,
    /// The pixels of a JPEG file that the GPU does not take.
    pixels: Vec<u8>,
}

#[cfg(feature = "cuda")]
impl CudaEncoder for ImageOnDevice {
    fn encode(
        &mut self,
        placed: &PlacedSample<'_>,
        _: Slot,
        row: RowPlace<'_>,
        stream: &Stream,
    ) -> Result<PointDrops, EncodeError> {
        self.encoder.wait()?;
        self.stage(placed)?;
        self.encoder.start(row, stream)?;
        if self.encoder.may_refuse() {
            stream.wait_for(LIMIT, self.operation())?;
            self.encoder.settled();
        }
        if self.encoder.refused() {
            let ImageOnDevice { encoder, pixels, .. } = self;
            encoder.restage(&image_of(placed, pixels)?)?;
            encoder.start(row, stream)?;
        }
        Ok(PointDrops::default())
    }

    fn messages(&self) -> Option<&Arc<MessagePool>> {
        Some(self.encoder.messages())
    }

    fn stage(&mut self, placed: &PlacedSample<'_>) -> Result<(), EncodeError> {
        let ImageOnDevice { encoder, files, pixels } = self;
        let mut placed = *placed;
        if let Sample::Compressed(image) = &placed.sample
            && image.scan.is_none()
        {
            placed.sample = files.read(image)?;
        }
        if let Sample::Compressed(image) = &placed.sample
            && let Some(scan) = image.scan
        {
            let encoding = if image.is_swapped { Encoding::Bgr8 } else { Encoding::Rgb8 };
            if encoder.restage_jpeg(scan, encoding, placed.placement.table)? {
                return Ok(());
            }
        }
        Ok(encoder.restage(&image_of(&placed, pixels)?)?)
    }

    fn start(&mut self, row: RowPlace<'_>, stream: &Stream) -> Result<(), EncodeError> {
        Ok(self.encoder.start(row, stream)?)
    }

    fn finish(&mut self) -> Result<PointDrops, EncodeError> {
        self.encoder.settled();
        match self.encoder.refused() {
            true => Err(EncodeError::ForCore),
            false => Ok(PointDrops::default()),
        }
    }

    fn operation(&self) -> &'static str {
        "encode an image"
    }
}
