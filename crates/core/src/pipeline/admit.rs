//! Messages are judged by their headers, before an input reads the rest: epoch, frame, stamp, and the transforms that
//! their samples need.
//!
//! So a message of another frame or of an earlier epoch costs no decoding, and a message that waits for a transform is
//! decoded once, when it is taken.

use std::sync::Arc;

use super::arrival::{OffsetKey, cleared};
use super::cameras::KnownCamera;
use super::frames::{Frames, PartTransforms};
use super::not_taken::NotTaken;
use super::push::PushSink;
use super::sweep::{SensorMotion, without_times};
use super::{Arrival, Pipeline, Rings};
use crate::rejected::{DropReason, Rejected};
use crate::sample::{Header, PlacedSample, Placement, Sample, SampleKind, StampError};
use crate::spec::{InFrame, InputSpec, StreamId, StreamSpec, Timeline};
use crate::tf::shown;
use robocache_ops::image::Remap;
use robocache_ops::time::Stamp;

/// A message that may become rows.
pub(super) struct Admission<'a> {
    /// The stream of its rows.
    pub stream: StreamId,
    /// Stamp of its rows, offset included; of a plan its start.
    pub stamp: Stamp,
    /// Brings its samples to the frames of their rows.
    pub placing: Placing<'a>,
}

impl<'p> PushSink<'p> {
    /// Judges the header of a message for `stream`.
    pub(super) fn judge(
        &self,
        stream: StreamId,
        header: &Header<'_>,
    ) -> Result<Admission<'p>, NotTaken> {
        // First, because an old message says nothing of this epoch's time.
        self.enter_epoch()?;
        check_frame(self.spec, header)?;
        let spec = self.pipeline.config.stream(stream);
        let stamp = match spec.plans {
            true => self.start_of(header, spec)?,
            false => self.stamp_of(header, spec)?,
        };
        let placing = Placing::find(self.pipeline, self.spec, stream, header, stamp, self.arrival)?;
        Ok(Admission { stream, stamp, placing })
    }

    /// Begins the message's epoch if it is later than that of the rows; refuses the message if it is earlier. The lock
    /// of the rings is not taken if both are the same: a lease looks again, under the lock.
    fn enter_epoch(&self) -> Result<(), Rejected> {
        let entered = self.pipeline.epochs.is_newest(self.arrival.epoch)
            || self.enter(&mut self.pipeline.lock_rings());
        if entered { Ok(()) } else { Err(cleared()) }
    }

    /// Begins the message's epoch if it is later than that of the rows. Returns false if it is earlier: the message is
    /// refused. (The refusal has words, which the caller makes without the lock.)
    pub(super) fn enter(&self, rings: &mut Rings) -> bool {
        rings.begin(self.arrival.epoch, &self.pipeline.epochs);
        !self.arrival.epoch.is_before(rings.epoch)
    }

    pub(super) fn stamp_of(
        &self,
        header: &Header<'_>,
        stream: &StreamSpec,
    ) -> Result<Stamp, Rejected> {
        let offset_ns = self.spec.stamp_offset_ns;
        if self.spec.timeline == Timeline::Receive {
            let stamp = self.arrival.received.or(self.arrival.stamp).ok_or_else(|| {
                let detail = "expected the time of arrival, found no clock yet";
                Rejected::new(DropReason::ZeroStamp, detail)
            })?;
            return Ok(stamp.offset(offset_ns));
        }
        let stamp = match header.stamp {
            Err(StampError::Zero) if self.arrival.zero_is_an_instant => Stamp::ZERO,
            stamp => stamp?,
        };
        let stamp = stamp.offset(offset_ns);
        self.arrival.check_ahead(stamp, stream.max_ahead_ns, Some(OffsetKey(offset_ns)))?;
        Ok(stamp)
    }

    /// How late the message came \[ns\]; `None` if its stamp says nothing about that.
    pub(super) fn delay_ns(&self, header: &Header<'_>) -> Option<i64> {
        if self.spec.timeline == Timeline::Receive {
            return None;
        }
        let stamp = header.stamp.as_ref().ok()?.offset(self.spec.stamp_offset_ns);
        self.arrival.stamp.map(|arrival| arrival.since(stamp))
    }
}

pub(super) fn check_frame(spec: &InputSpec, header: &Header<'_>) -> Result<(), Rejected> {
    match &spec.frame_id {
        Some(expected) if expected != header.frame_id => {
            let found = shown(header.frame_id);
            let detail = format!("header.frame_id: expected {expected:?}, found {found:?}");
            Err(Rejected::new(DropReason::WrongFrame, detail))
        }
        _ => Ok(()),
    }
}

/// Brings the samples of one message to the frames of their rows. It owns what a [`Placement`] borrows. It is small,
/// because most messages have nothing of it.
pub(super) enum Placing<'p> {
    /// The samples are in the frame of their rows.
    Done,
    /// Each part of a vector has a transform.
    Parts(Box<PartTransforms>, &'p InFrame),
    /// The table of a camera undistorts the image.
    Camera(Arc<KnownCamera>),
    /// A cloud is moved.
    Cloud(Box<CloudPlacing>),
    /// A map is cropped around a frame.
    Map(Box<[[f64; 4]; 3]>),
}

/// Transform, shapes and motion of a cloud; see [`Placement`].
pub(super) struct CloudPlacing {
    transform: [[f64; 4]; 3],
    shapes: Vec<[[f64; 4]; 3]>,
    motion: Option<SensorMotion>,
}

impl<'p> Placing<'p> {
    /// Looks up what the samples of a message need.
    pub(super) fn find(
        pipeline: &Pipeline,
        input: &'p InputSpec,
        stream: StreamId,
        header: &Header<'_>,
        stamp: Stamp,
        arrival: Arrival,
    ) -> Result<Self, NotTaken> {
        let in_frame = input.in_frame.as_ref().zip(pipeline.frames.as_ref());
        let look_up = |(spec, frames): (&InFrame, &Frames)| {
            let found = frames.lookup(arrival, &spec.frame, header.frame_id, stamp)?;
            Ok::<_, NotTaken>(found.matrix())
        };
        Ok(match pipeline.config.stream(stream).encoder.takes() {
            SampleKind::Vector => match in_frame {
                Some((spec, frames)) => {
                    Placing::Parts(Box::new(frames.of_parts(spec, header, stamp, arrival)?), spec)
                }
                None => Placing::Done,
            },
            SampleKind::Image => {
                let Pipeline { cameras, config, .. } = pipeline;
                let camera = cameras.camera(config, stream, header, arrival)?;
                camera.map_or(Placing::Done, Placing::Camera)
            }
            SampleKind::Points => {
                let motion = SensorMotion::of(pipeline, input, header, stamp, arrival)?;
                let transform = in_frame.map_or(Ok(input.t_base_sensor), look_up)?;
                let shapes = pipeline.place_shapes(stream, &transform, stamp, arrival)?;
                Placing::Cloud(Box::new(CloudPlacing { transform, shapes, motion }))
            }
            SampleKind::Map => match in_frame {
                Some(asked) => Placing::Map(Box::new(look_up(asked)?)),
                None => Placing::Done,
            },
            SampleKind::Depth => Placing::Done,
        })
    }

    /// The table that undistorts an image of this size; `None` if the image stays as it is.
    pub(super) fn table(
        &self,
        pipeline: &Pipeline,
        stream: StreamId,
        sample: &Sample<'_>,
    ) -> Result<Option<Arc<Remap>>, Rejected> {
        match (self, sample.image_size()) {
            (Placing::Camera(camera), Some(size)) => {
                pipeline.cameras.table(&pipeline.config, stream, camera, size)
            }
            _ => Ok(None),
        }
    }

    /// A sample with its placement. `moved` is memory for the numbers of a vector in another frame.
    pub(super) fn place<'a>(
        &'a self,
        sample: Sample<'a>,
        table: Option<&'a Arc<Remap>>,
        moved: &'a mut Vec<f64>,
    ) -> Result<PlacedSample<'a>, Rejected> {
        let done = Placement { table, ..Placement::NONE };
        Ok(match (self, sample) {
            (Placing::Parts(transforms, spec), Sample::Vector(values)) => {
                moved.extend_from_slice(values);
                transforms.take(spec, moved);
                PlacedSample { sample: Sample::Vector(moved), placement: done }
            }
            (Placing::Cloud(cloud), Sample::Points(view)) => {
                let CloudPlacing { transform, shapes, motion } = &**cloud;
                if motion.is_some() && view.sweep.is_none() {
                    return Err(without_times());
                }
                let motion = motion.as_ref().map(SensorMotion::view);
                PlacedSample { sample, placement: Placement { table, transform, shapes, motion } }
            }
            (Placing::Map(transform), sample) => {
                PlacedSample { sample, placement: Placement { transform, ..done } }
            }
            (Placing::Done | Placing::Camera(_), sample) => {
                PlacedSample { sample, placement: done }
            }
            (Placing::Parts(..) | Placing::Cloud(_), _) => {
                // The pipeline rules this out when it is made.
                let detail = "the sample is not of the kind that its stream takes";
                return Err(Rejected::new(DropReason::Unsupported, detail));
            }
        })
    }
}

#[cfg(test)]
mod tests;
