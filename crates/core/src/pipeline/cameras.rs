//! The cameras of images that are undistorted, and the tables that do it.
//!
//! A camera is latched: neither a jump of the clock nor time makes it forget. The encode worker of an image
//! makes the table, because that takes tens of milliseconds, and again only when the numbers of the camera
//! have changed. An image that waited for its worker has the camera that was known when the image arrived, so
//! the order of arrival decides, live and in a replay.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use super::arrival::Arrival;
use crate::encoder::EncoderSpec;
use crate::rejected::{DropReason, Rejected};
use crate::sample::Header;
use crate::spec::{Config, InputId, StreamId};
use crate::tf::MAX_NAME;
use crate::tf::shown;
use robocache_ops::image::Remap;
use robocache_ops::image::camera::Camera;
use robocache_ops::sync::lock;
use robocache_ops::time::Stamp;

/// Most cameras of an input that are kept. A camera whose numbers change with each image has fewer images in
/// the queue of the encode workers.
const KEPT: usize = 16;

/// The cameras of a configuration.
pub(super) struct Cameras {
    /// By input: its cameras, if the input gives them. A change is one push or pop, so a panic leaves them
    /// whole.
    known: Vec<Option<Mutex<History>>>,
    /// By stream: what undistorts its images, if anything does.
    streams: Vec<Option<Undistortion>>,
}

/// The cameras of an input, in the order of arrival. Two in succession differ.
#[derive(Default)]
struct History {
    known: VecDeque<(Instant, Arc<KnownCamera>)>,
    /// True if older cameras made room.
    forgot: bool,
}

/// The number of an epoch, and an instant of it: `None` is before the clock was read. A later one is greater.
type Instant = (u64, Option<Stamp>);

fn instant(arrival: Arrival) -> Instant {
    (arrival.epoch.number(), arrival.stamp)
}

/// A camera, and the frame of its images.
pub(super) struct KnownCamera {
    /// Without the slash that ROS 1 put in front.
    frame_id: String,
    camera: Camera,
}

impl History {
    fn insert(&mut self, frame_id: &str, camera: Camera, arrival: Arrival) {
        let mut since = instant(arrival);
        if let Some((last, known)) = self.known.back() {
            // Drivers say the same with every image: tables are made for what is new.
            if known.camera == camera && known.frame_id == frame_id {
                return;
            }
            // One by one, whatever small steps the clock makes.
            since = since.max(*last);
        }
        if self.known.len() == KEPT {
            self.known.pop_front();
            self.forgot = true;
        }
        let known = KnownCamera { frame_id: frame_id.to_owned(), camera };
        self.known.push_back((since, Arc::new(known)));
    }

    /// The newest that arrived no later than an image; the newest of all if the image's arrival is unknown.
    fn of(&self, arrival: Arrival) -> Option<Arc<KnownCamera>> {
        let at = instant(arrival);
        let counts = |since: Instant| arrival.stamp.is_none() || since <= at;
        let found = self.known.iter().rev().find(|(since, _)| counts(*since));
        found.map(|(_, known)| Arc::clone(known))
    }
}

struct Undistortion {
    /// The input of its camera.
    input: InputId,
    made: Mutex<Option<UndistortTable>>,
}

/// A table and what it was made of. It is set as a whole, so a panic leaves it whole.
struct UndistortTable {
    of: Arc<KnownCamera>,
    /// `None` if images stay as they are.
    table: Option<Arc<Remap>>,
}

impl Cameras {
    /// No cameras yet.
    ///
    /// # Errors
    /// If a stream of images that are undistorted has not exactly one input of cameras, or another stream
    /// has one.
    pub(super) fn new(config: &Config) -> Result<Self, String> {
        let mut cameras = Cameras {
            known: Vec::with_capacity(config.inputs.len()),
            streams: config.streams.iter().map(|_| None).collect(),
        };
        for input in config.input_ids() {
            let spec = config.input(input);
            cameras.known.push(spec.is_calibration().then(Mutex::default));
            for stream in spec.calibrates() {
                let place = cameras.streams.get_mut(stream.index());
                let place = place.ok_or("a camera is for an unknown stream")?;
                let twice = place.replace(Undistortion { input, made: Mutex::default() });
                if twice.is_some() {
                    let name = &config.stream(*stream).name;
                    return Err(format!("stream '{name}': expected one camera, found two"));
                }
            }
        }
        for (spec, camera) in config.streams.iter().zip(&cameras.streams) {
            if spec.encoder.undistorts() != camera.is_some() {
                let name = &spec.name;
                return Err(format!(
                    "stream '{name}': expected a camera if and only if its images are undistorted"
                ));
            }
        }
        Ok(cameras)
    }

    /// Takes a camera of an input, and the header of its message.
    ///
    /// # Errors
    /// [`DropReason::OutOfRange`] if the name of its frame is longer than any frame's.
    pub(super) fn insert(
        &self,
        input: InputId,
        header: &Header<'_>,
        camera: Camera,
        arrival: Arrival,
    ) -> Result<(), Rejected> {
        let Some(Some(known)) = self.known.get(input.index()) else { return Ok(()) };
        let frame_id = bare(header.frame_id);
        if frame_id.len() > MAX_NAME {
            let found = frame_id.len();
            let detail =
                format!("header.frame_id: expected at most {MAX_NAME} bytes, found {found}");
            return Err(Rejected::new(DropReason::OutOfRange, detail));
        }
        lock(known).insert(frame_id, camera, arrival);
        Ok(())
    }

    /// The camera of an image of a stream; `None` if images of the stream stay as they are.
    ///
    /// # Errors
    /// [`DropReason::NoCameraInfo`] before the first camera, [`DropReason::Late`] if the camera is no longer
    /// known, [`DropReason::WrongFrame`] if the camera is another one.
    pub(super) fn camera(
        &self,
        config: &Config,
        stream: StreamId,
        header: &Header<'_>,
        arrival: Arrival,
    ) -> Result<Option<Arc<KnownCamera>>, Rejected> {
        let Some(Undistortion { input, .. }) = &self.streams[stream.index()] else {
            return Ok(None);
        };
        let topic = &config.input(*input).topic;
        let known = self.of(*input, topic, arrival);
        let known = known.map_err(|rejected| of_stream(config, stream, rejected))?;
        check_frame(&known.frame_id, header, topic)
            .map_err(|rejected| of_stream(config, stream, rejected))?;
        Ok(Some(known))
    }

    /// The table of a camera for an image of `size` \[px\]; `None` if the image stays as it is. The image has the part that
    /// the stream crops.
    ///
    /// # Errors
    /// [`DropReason::WrongSize`] if the camera is for images of another size.
    pub(super) fn table(
        &self,
        config: &Config,
        stream: StreamId,
        known: &Arc<KnownCamera>,
        size: [usize; 2],
    ) -> Result<Option<Arc<Remap>>, Rejected> {
        let Some(Undistortion { input, made }) = &self.streams[stream.index()] else {
            return Ok(None);
        };
        check_size(&known.camera, size, &config.input(*input).topic)
            .map_err(|rejected| of_stream(config, stream, rejected))?;
        Ok(table_of(&mut lock(made), known, &config.stream(stream).encoder))
    }

    /// The camera of an input for an image.
    fn of(
        &self,
        input: InputId,
        topic: &str,
        arrival: Arrival,
    ) -> Result<Arc<KnownCamera>, Rejected> {
        let history = self.known[input.index()].as_ref().map(lock);
        let (found, forgot) =
            history.map_or((None, false), |history| (history.of(arrival), history.forgot));
        found.ok_or_else(|| match forgot {
            true => {
                let detail = format!(
                    "the CameraInfo on {topic} changed {KEPT} times while the image waited for an \
                     encode worker, so its own is no longer known"
                );
                Rejected::new(DropReason::Late, detail)
            }
            false => {
                let detail = format!(
                    "expected a CameraInfo on {topic} before the image, found none; start what \
                     publishes it (usually the driver of the camera), or set camera_info to its topic"
                );
                Rejected::new(DropReason::NoCameraInfo, detail)
            }
        })
    }
}

/// A drop that names the stream.
fn of_stream(config: &Config, stream: StreamId, rejected: Rejected) -> Rejected {
    let (name, Rejected { reason, detail, .. }) = (&config.stream(stream).name, rejected);
    Rejected::new(reason, format!("streams.{name}.image.undistort: {detail}"))
}

/// The name of a frame without the slash that ROS 1 put in front.
fn bare(frame_id: &str) -> &str {
    frame_id.strip_prefix('/').unwrap_or(frame_id)
}

/// Checks that an image is of the camera of `expected`. A frame without a name may be any.
fn check_frame(expected: &str, header: &Header<'_>, topic: &str) -> Result<(), Rejected> {
    let found = bare(header.frame_id);
    if expected == found || expected.is_empty() || found.is_empty() {
        return Ok(());
    }
    let found = shown(found);
    let detail = format!(
        "header.frame_id: expected {expected:?}, as the CameraInfo on {topic} says, found {found:?}; is \
         it the topic of this camera?"
    );
    Err(Rejected::new(DropReason::WrongFrame, detail))
}

/// Checks that an image has the size that its camera says.
fn check_size(camera: &Camera, [w, h]: [usize; 2], topic: &str) -> Result<(), Rejected> {
    let [width, height] = camera.size;
    if [width, height] == [w, h] {
        return Ok(());
    }
    let detail = format!(
        "expected an image of {width}x{height} px, as the CameraInfo on {topic} says (with its binning and \
         region of interest), found {w}x{h} px"
    );
    Err(Rejected::new(DropReason::WrongSize, detail))
}

/// The table of a camera: that which is there, or a new one.
fn table_of(
    made: &mut Option<UndistortTable>,
    known: &Arc<KnownCamera>,
    encoder: &EncoderSpec,
) -> Option<Arc<Remap>> {
    match made {
        // By the numbers: messages that change back, or that only name another frame, make no table.
        Some(made) if made.of.camera == known.camera => made.table.clone(),
        _ => {
            // The memory of the old one first.
            *made = None;
            let table = encoder.remap(&known.camera).map(Arc::new);
            *made = Some(UndistortTable { of: Arc::clone(known), table: table.clone() });
            table
        }
    }
}

#[cfg(test)]
mod tests;
