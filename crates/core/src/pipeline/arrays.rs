//! Samples that come from no message: arrays of a program.
//!
//! They are a second source of samples beside messages, not messages that are written to be read again. From the
//! sample on, all is the same: stamps, frames, sizes, finite numbers, the encoder and the ring.

use super::{Accepted, Arrival, NotTaken, Pipeline};
use crate::codec::RawImage;
use crate::input::image::{self, Fields};
use crate::input::{SampleSink, Sink, depth_image};
use crate::rejected::{DropReason, Rejected};
use crate::sample::{Header, Sample};
use crate::spec::{InputId, RingId, Selection, StreamId};
use robocache_ops::voxelize::{COORDINATES, FieldAt, FieldType, IDENTITY, PointsView, Sweep};

/// An array of a program.
#[derive(Clone, Copy, Debug)]
pub enum ArraySample<'a> {
    /// Numbers of the channels that the input feeds ([`Pipeline::channels_of`]).
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
    /// Points of `f32` numbers, little-endian.
    Points {
        /// The names of the numbers of each point: `x`, `y`, `z` and other fields.
        fields: &'a [String],
        /// The points, one after the other.
        data: &'a [u8],
    },
}

impl Pipeline {
    /// The channels of its stream that an input feeds, ascending; empty if it feeds no vector. A
    /// [`ArraySample::Vector`] has their numbers in this order.
    pub fn channels_of(&self, input: InputId) -> Vec<usize> {
        let spec = self.config.input(input);
        let Some(stream) = spec.stream else { return Vec::new() };
        let mut channels: Vec<usize> =
            spec.feeds.iter().flat_map(|ring| self.group(stream, *ring)).copied().collect();
        channels.sort_unstable();
        channels
    }

    /// The channels of a ring of a vector.
    fn group(&self, stream: StreamId, ring: RingId) -> &[usize] {
        let Some(vector) = self.config.stream(stream).encoder.as_vector() else { return &[] };
        vector.groups.get(self.layout.ring(ring).group).map_or(&[], |group| &group.channels)
    }

    /// Takes in a sample of an input, with the same checks as the sample of a message. `header` is what the message
    /// would have.
    ///
    /// # Errors
    /// As for [`Pipeline::push`]. `Unsupported` if the input takes no such sample, `Malformed` if its size is wrong.
    pub fn push_sample(
        &self,
        input: InputId,
        header: &Header<'_>,
        sample: &ArraySample<'_>,
        arrival: Arrival,
    ) -> Result<Accepted, NotTaken> {
        let selection = &self.config.input(input).selection;
        self.push_by(input, arrival, |_, sink| {
            let Some(sink) = sink.admit(header) else { return Ok(()) };
            self.take_array(input, selection, sample, sink)
        })
    }

    /// Hands an array to the rings that the input feeds.
    fn take_array(
        &self,
        input: InputId,
        selection: &Selection,
        sample: &ArraySample<'_>,
        sink: &mut dyn SampleSink,
    ) -> Result<(), Rejected> {
        match (selection, *sample) {
            (
                Selection::Fields(_) | Selection::Joints { .. } | Selection::Numbers(_),
                ArraySample::Vector(values),
            ) => self.vectors(input, values, sink),
            (
                Selection::Image { largest_px, encoding_8uc },
                ArraySample::Image { size, encoding, data },
            ) => {
                let (raw, mut pixels) = (raw_image(size, data)?, Vec::new());
                let of = (*encoding_8uc, *largest_px);
                let view = image::view(encoding.as_bytes(), &raw, of, &mut pixels)?;
                sink.sample(0, Sample::Image(view));
                Ok(())
            }
            (Selection::Depth { largest_px }, ArraySample::Image { size, encoding, data }) => {
                let image = raw_image(size, data)?;
                let fields = Fields { encoding: encoding.as_bytes(), image };
                let view = depth_image::view(&fields, *largest_px)?;
                sink.sample(0, Sample::Depth(view));
                Ok(())
            }
            (Selection::Points { extra, time, .. }, ArraySample::Points { fields, data }) => {
                points((extra, time.as_deref()), (fields, data), sink)
            }
            _ => Err(unfit(selection)),
        }
    }

    /// Hands a vector to the rings that the input feeds.
    fn vectors(
        &self,
        input: InputId,
        values: &[f64],
        sink: &mut dyn SampleSink,
    ) -> Result<(), Rejected> {
        let channels = self.channels_of(input);
        if values.len() != channels.len() {
            let (expected, found) = (channels.len(), values.len());
            return Err(malformed(format!("expected {expected} numbers, found {found}")));
        }
        let spec = self.config.input(input);
        let Some(stream) = spec.stream else { return Ok(()) };
        let value = |channel: &usize| channels.binary_search(channel).ok().map(|at| values[at]);
        for (part, ring) in spec.feeds.iter().enumerate() {
            let row: Vec<f64> = self.group(stream, *ring).iter().filter_map(value).collect();
            sink.sample(part, Sample::Vector(&row));
        }
        Ok(())
    }
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
    (extra, time): (&[String], Option<&str>),
    (fields, data): (&[String], &[u8]),
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

fn unfit(selection: &Selection) -> Rejected {
    let expected = match selection {
        Selection::Fields(_) | Selection::Joints { .. } | Selection::Numbers(_) => "a vector",
        Selection::Image { .. } | Selection::Depth { .. } => "an image",
        Selection::Points { .. } => "points",
        Selection::Trajectory { .. }
        | Selection::Map { .. }
        | Selection::Transforms { .. }
        | Selection::CameraInfo { .. } => "a message",
    };
    let detail = format!("expected {expected}, found another kind of sample");
    Rejected::new(DropReason::Unsupported, detail)
}
