//! Arrays of a program: a second source of samples beside messages.
//!
//! An array is not written as a message to be read again. From the sample on, all is the same: sizes, finite numbers,
//! the encoder and the ring.

use super::image::{self, Fields};
use super::{SampleSink, compressed_image, depth_image};
use crate::codec::{self, RawImage};
use crate::rejected::{DropReason, Rejected};
use crate::sample::{Sample, SampleKind};
use crate::spec::{InputSpec, Selection};
use robocache_ops::voxelize::{COORDINATES, FieldAt, FieldType, IDENTITY, PointsView, Sweep};

/// An array of a program.
#[derive(Clone, Copy, Debug)]
pub enum ArraySample<'a> {
    /// Numbers of the channels that the input feeds ([`channels_of`](crate::pipeline::Pipeline::channels_of)).
    Vector(&'a [f64]),
    /// An image, of light or of depth: its lines follow each other.
    Image {
        /// Width and height \[px\].
        size: [usize; 2],
        /// As in `sensor_msgs/Image`. Numbers of several bytes are little-endian.
        encoding: &'a str,
        /// The pixels.
        data: &'a [u8],
    },
    /// Joints by their names, as in `sensor_msgs/JointState`.
    Joints {
        /// The names.
        names: &'a [String],
        /// A position for each of them: `f64`, little-endian.
        positions: &'a [u8],
    },
    /// A file of a picture, as in `sensor_msgs/CompressedImage`.
    File {
        /// Its format.
        format: &'a str,
        /// The bytes of the file.
        data: &'a [u8],
    },
    /// Points of `f32` numbers, little-endian.
    Points {
        /// The names of the numbers of each point: `x`, `y`, `z` and other fields.
        fields: &'a [String],
        /// The points, one after the other.
        data: &'a [u8],
    },
}

/// Reads an array that is no vector and no joints as an input reads a message.
///
/// # Errors
/// `Unsupported` if the input takes no such array, `Malformed` if its size is wrong.
pub(crate) fn read(
    spec: &InputSpec,
    sample: &ArraySample<'_>,
    sink: &mut dyn SampleSink,
) -> Result<(), Rejected> {
    match (&spec.selection, sample) {
        (
            Selection::Image { largest_px, encoding_8uc },
            ArraySample::Image { size, encoding, data },
        ) => {
            let raw = raw_image(*size, data)?;
            let mut pixels = Vec::new();
            let encoding = encoding.as_bytes();
            let view = image::view(encoding, &raw, *encoding_8uc, *largest_px, &mut pixels)?;
            sink.sample(0, Sample::Image(view));
            Ok(())
        }
        (Selection::Depth { largest_px }, ArraySample::Image { size, encoding, data }) => {
            let image = raw_image(*size, data)?;
            let fields = Fields { encoding: encoding.as_bytes(), image };
            let view = depth_image::view(&fields, *largest_px)?;
            sink.sample(0, Sample::Depth(view));
            Ok(())
        }
        (Selection::Image { largest_px, .. }, ArraySample::File { format, data }) => {
            let picture = compressed_image::picture(format.as_bytes(), data, *largest_px)?;
            sink.sample(0, Sample::Compressed(picture));
            Ok(())
        }
        (Selection::Depth { largest_px }, ArraySample::File { format, data }) => {
            let format = format.as_bytes();
            let mut pixels = Vec::new();
            let view = codec::depth::decode(format, data, *largest_px, &mut pixels)?;
            sink.sample(0, Sample::Depth(view));
            Ok(())
        }
        (Selection::Points { extra, time, .. }, ArraySample::Points { fields, data }) => {
            points(extra, time.as_deref(), fields, data, sink)
        }
        _ => Err(unfit(spec)),
    }
}

/// Checks that the input takes arrays of this kind.
///
/// # Errors
/// `Unsupported` if it does not.
pub(crate) fn check_kind(spec: &InputSpec, sample: &ArraySample<'_>) -> Result<(), Rejected> {
    let fits = match sample {
        ArraySample::Vector(_) | ArraySample::Joints { .. } => {
            spec.takes_arrays() == Some(SampleKind::Vector)
        }
        ArraySample::Image { .. } | ArraySample::File { .. } => {
            matches!(spec.takes_arrays(), Some(SampleKind::Image | SampleKind::Depth))
        }
        ArraySample::Points { .. } => spec.takes_arrays() == Some(SampleKind::Points),
    };
    if fits { Ok(()) } else { Err(unfit(spec)) }
}

/// The drop of an array that the input does not take.
fn unfit(spec: &InputSpec) -> Rejected {
    let expected = match spec.takes_arrays() {
        Some(SampleKind::Vector) => "a vector",
        Some(SampleKind::Image | SampleKind::Depth) => "an image",
        Some(SampleKind::Points) => "points",
        Some(SampleKind::Map) | None => "a message",
    };
    let detail = format!("expected {expected}, found another kind of sample");
    Rejected::new(DropReason::Unsupported, detail)
}

/// An image whose lines follow each other. What its encoding needs is checked by its reader.
fn raw_image(size: [usize; 2], data: &[u8]) -> Result<RawImage<'_>, Rejected> {
    let [_, height] = size;
    let step = data.len().checked_div(height).filter(|step| step * height == data.len());
    let step = step.ok_or_else(|| malformed(format!("expected whole lines, found {size:?}")))?;
    Ok(RawImage { size, big_endian: false, step, data })
}

/// Hands points to the sink.
fn points(
    extra: &[String],
    time: Option<&str>,
    fields: &[String],
    data: &[u8],
    sink: &mut dyn SampleSink,
) -> Result<(), Rejected> {
    let point_step = fields.len() * size_of::<f32>();
    let whole = data.len().checked_div(point_step).filter(|n| n * point_step == data.len());
    let width = whole.ok_or_else(|| {
        malformed(format!("expected points of {point_step} bytes, found {} bytes", data.len()))
    })?;
    let find = |name: &str| -> Result<FieldAt, Rejected> {
        let mut places = (0..fields.len()).filter(|at| fields[*at] == name);
        match (places.next(), places.next()) {
            (Some(at), None) => {
                Ok(FieldAt { offset: at * size_of::<f32>(), kind: FieldType::Float32 })
            }
            (None, _) => {
                let detail = format!("expected field {name}, found [{}]", fields.join(", "));
                Err(Rejected::new(DropReason::MissingField, detail))
            }
            _ => Err(malformed(format!("field {name}: expected one, found several"))),
        }
    };
    let names = COORDINATES.into_iter().chain(extra.iter().map(String::as_str));
    let places: Vec<FieldAt> = names.map(find).collect::<Result<_, _>>()?;
    let time = time.map(find).transpose()?;
    let view = PointsView {
        width,
        height: 1,
        point_step,
        row_step: data.len(),
        big_endian: false,
        fields: &places,
        t_base_sensor: IDENTITY,
        t_shapes: &[],
        sweep: time.map(|time| Sweep { time, origin: 0.0, rate: 0.0, knots: &[] }),
        data,
    };
    sink.sample(0, Sample::Points(view));
    Ok(())
}

fn malformed(detail: String) -> Rejected {
    Rejected::new(DropReason::Malformed, detail)
}
