//! The cameras of images that are undistorted, and the tables that do it.
//!
//! A camera is latched: neither a jump of the clock nor time makes it forget. The encode worker of an image
//! makes the table, because that takes tens of milliseconds, and again only when the numbers of the camera
//! have changed.

use std::sync::{Arc, Mutex};

use super::{DropReason, Rejected};
use crate::ops::image::camera::Camera;
use crate::ops::image::{ImageSpec, ImageView, Remap};
use crate::spec::{Config, EncoderSpec, InputId, Selection, StreamId};
use crate::sync::lock;

/// The cameras of a configuration.
pub(super) struct Cameras {
    /// By input: the newest camera, if the input gives them.
    newest: Vec<Option<Mutex<Option<Arc<Camera>>>>>,
    /// By stream: what undistorts its images, if anything does.
    streams: Vec<Option<Undistortion>>,
}

struct Undistortion {
    /// The input of its camera.
    input: InputId,
    made: Mutex<Option<Made>>,
}

/// A table and what it was made of. It is set as a whole, so a panic leaves it whole.
struct Made {
    camera: Arc<Camera>,
    /// `None` if images stay as they are.
    table: Option<Arc<Remap>>,
}

impl Cameras {
    /// No cameras yet.
    ///
    /// # Errors
    /// If a stream of images that are undistorted has not exactly one input of cameras, or another stream
    /// has one.
    pub fn new(config: &Config) -> Result<Self, String> {
        let mut cameras = Cameras {
            newest: Vec::with_capacity(config.inputs.len()),
            streams: config.streams.iter().map(|_| None).collect(),
        };
        for input in config.input_ids() {
            let Selection::CameraInfo { streams } = &config.input(input).selection else {
                cameras.newest.push(None);
                continue;
            };
            cameras.newest.push(Some(Mutex::default()));
            for stream in streams {
                let place = cameras.streams.get_mut(stream.index());
                let place = place.ok_or("a camera is for a stream that there is not")?;
                let twice = place.replace(Undistortion { input, made: Mutex::default() });
                if twice.is_some() {
                    let name = &config.stream(*stream).name;
                    return Err(format!("stream '{name}': expected one camera, found two"));
                }
            }
        }
        for (spec, camera) in config.streams.iter().zip(&cameras.streams) {
            let undistorts = matches!(&spec.encoder, EncoderSpec::Image(image) if image.undistort);
            if undistorts != camera.is_some() {
                let name = &spec.name;
                return Err(format!(
                    "stream '{name}': expected a camera if and only if its images are undistorted"
                ));
            }
        }
        Ok(cameras)
    }

    /// Takes a camera of an input.
    pub fn insert(&self, input: InputId, camera: Camera) {
        let Some(Some(newest)) = self.newest.get(input.index()) else { return };
        let mut newest = lock(newest);
        // Drivers say the same with every image: tables are made for what is new.
        if newest.as_deref() != Some(&camera) {
            *newest = Some(Arc::new(camera));
        }
    }

    /// The table for an image of a stream; `None` if it stays as it is. The image has the part that the
    /// stream crops.
    ///
    /// # Errors
    /// [`DropReason::NoCameraInfo`] before the first camera, [`DropReason::WrongSize`] if the camera is for
    /// images of another size.
    pub fn table(
        &self,
        config: &Config,
        stream: StreamId,
        view: &ImageView<'_>,
    ) -> Result<Option<Arc<Remap>>, Rejected> {
        let Some(undistortion) = &self.streams[stream.index()] else { return Ok(None) };
        let Undistortion { input, made } = undistortion;
        let newest = self.newest[input.index()].as_ref().and_then(|newest| lock(newest).clone());
        let (spec, topic) = (config.stream(stream), &config.input(*input).topic);
        let key = || format!("streams.{}.image.undistort", spec.name);
        let camera = newest.ok_or_else(|| {
            let detail = format!(
                "{}: expected a CameraInfo on {topic} before the image, found none; start what publishes \
                 it (usually the driver of the camera), or set camera_info to its topic",
                key()
            );
            Rejected::new(DropReason::NoCameraInfo, detail)
        })?;
        if camera.size != [view.width, view.height] {
            let ([width, height], [w, h]) = (camera.size, [view.width, view.height]);
            let detail = format!(
                "{}: expected an image of {width}x{height} px, as the CameraInfo on {topic} says (with \
                 its binning and region of interest), found {w}x{h} px",
                key()
            );
            return Err(Rejected::new(DropReason::WrongSize, detail));
        }
        let EncoderSpec::Image(image) = &spec.encoder else { return Ok(None) };
        Ok(table_of(&mut lock(made), camera, image))
    }
}

/// The table of a camera: that which is there, or a new one.
fn table_of(made: &mut Option<Made>, camera: Arc<Camera>, image: &ImageSpec) -> Option<Arc<Remap>> {
    match made {
        Some(made) if Arc::ptr_eq(&made.camera, &camera) => made.table.clone(),
        _ => {
            // The memory of the old one first.
            *made = None;
            let [width, height] = camera.size;
            let part = image.part(width, height)?;
            let table = camera.remap(&part).map(Arc::new);
            *made = Some(Made { camera, table: table.clone() });
            table
        }
    }
}
