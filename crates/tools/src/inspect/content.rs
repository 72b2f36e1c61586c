//! Contents of a topic's messages, as far as a configuration needs to know.

use serde::Serialize;

use super::points::Clouds;
use robocache_core::cdr::Reader;
use robocache_core::codec;
use robocache_core::input::{self, CAMERA_INFO, IMU};
use robocache_core::rejected::Rejected;
use robocache_core::schema::{Leaf, Survey};

/// The most forms that are distinguished.
const MOST_FORMS: usize = 16;
/// Most names of joints that are kept of a message.
const MOST_NAMES: usize = 512;
/// Longest name or encoding that is kept \[bytes\].
const MOST_BYTES: usize = 256;

/// Contents of a topic's messages.
#[derive(Clone, Debug)]
pub(super) enum Content {
    /// Images, raw or compressed.
    Images(ImageForms),
    /// Clouds or scans.
    Clouds(Clouds),
    /// Joints by their names: states or plans.
    Joints(Joints),
    /// An IMU: messages without an orientation, and without an angular velocity.
    Imu([u64; 2]),
    /// The form of a camera.
    Camera(Option<CameraForm>),
    /// Numbers of any type.
    Numbers(Survey),
    /// Nothing is looked at.
    Other,
}

/// The forms of a topic's images.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ImageForms {
    /// With how many images each has; the first first.
    pub forms: Vec<ImageForm>,
    /// Images of yet other forms.
    pub others: u64,
}

/// How images are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ImageForm {
    /// The encoding, or the format of a compressed image.
    pub encoding: String,
    /// Width \[px\]; 0 if unknown.
    pub width: usize,
    /// Height \[px\].
    pub height: usize,
    /// True if the file is PNG.
    pub is_png: bool,
    /// Images.
    pub images: u64,
}

/// The joints of a topic's messages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Joints {
    /// The different lists of names, the first first.
    pub sets: Vec<JointSet>,
    /// Messages with yet other names.
    pub others: u64,
    /// Most points of a plan.
    pub most_points: usize,
    /// The last time of a plan \[ns\].
    pub horizon_ns: i64,
    /// The longest time between two points \[ns\].
    pub spacing_ns: i64,
}

/// A list of joints.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct JointSet {
    /// Their names.
    pub names: Vec<String>,
    /// Messages with them.
    pub messages: u64,
    /// Messages in which each field has a value for each joint: position, velocity, effort; of a plan
    /// positions, velocities, accelerations, effort.
    pub complete: [u64; 4],
}

/// Form of a camera, as it tells.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CameraForm {
    /// Width \[px\].
    pub width: u32,
    /// Height \[px\].
    pub height: u32,
    /// The model of the lens.
    pub model: String,
    /// True if the lens has a coefficient that is not zero.
    pub is_distorted: bool,
    /// Its frame.
    pub frame_id: String,
}

/// Report of inspect about a content.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ContentReport {
    /// Images.
    Images(ImageForms),
    /// Clouds or scans.
    Clouds(super::points::CloudReport),
    /// Joints.
    Joints(Joints),
    /// An IMU.
    Imu {
        /// Messages that say that they have no orientation.
        without_orientation: u64,
        /// Messages that say that they have no angular velocity.
        without_angular_velocity: u64,
    },
    /// A camera.
    Camera(CameraForm),
    /// The numbers of a type without a reader of its own.
    Numbers {
        /// Its paths.
        paths: Vec<Leaf>,
        /// Paths of times outside of the header.
        times: Vec<String>,
        /// Paths of lists of types, which are not looked at.
        lists: Vec<String>,
    },
}

impl Content {
    /// For messages of a type. `survey` is for types without a reader of their own.
    pub(super) fn new(ros_type: &str, survey: Option<Survey>) -> Content {
        match ros_type {
            "sensor_msgs/msg/Image" | "sensor_msgs/msg/CompressedImage" => {
                Content::Images(ImageForms::default())
            }
            "sensor_msgs/msg/PointCloud2" | "sensor_msgs/msg/LaserScan" => {
                Content::Clouds(Clouds::default())
            }
            "sensor_msgs/msg/JointState" | "trajectory_msgs/msg/JointTrajectory" => {
                Content::Joints(Joints::default())
            }
            CAMERA_INFO => Content::Camera(None),
            IMU => Content::Imu([0; 2]),
            _ => survey.map_or(Content::Other, Content::Numbers),
        }
    }

    /// Looks at a message.
    ///
    /// # Errors
    /// It is not what its type says.
    pub(super) fn take(&mut self, ros_type: &str, message: &[u8]) -> Result<(), Rejected> {
        match self {
            Content::Images(images) => {
                let is_raw = ros_type == "sensor_msgs/msg/Image";
                images.take(if is_raw { raw_form(message)? } else { file_form(message)? });
                Ok(())
            }
            Content::Clouds(clouds) => clouds.take(ros_type, message),
            Content::Joints(joints) if ros_type == "sensor_msgs/msg/JointState" => {
                joints.state(message)
            }
            Content::Joints(joints) => joints.plan(message),
            Content::Imu(without) => {
                for (count, unknown) in without.iter_mut().zip(imu_lacks(message)?) {
                    *count += u64::from(unknown);
                }
                Ok(())
            }
            Content::Camera(camera) => {
                if camera.is_none() {
                    *camera = Some(camera_form(message)?);
                }
                Ok(())
            }
            Content::Numbers(survey) => Ok(survey.take(message)?),
            Content::Other => Ok(()),
        }
    }

    /// Report of inspect about the content; `None` if there is nothing to tell.
    pub(super) fn report(&self) -> Option<ContentReport> {
        Some(match self {
            Content::Images(images) => ContentReport::Images(images.clone()),
            Content::Clouds(clouds) => ContentReport::Clouds(clouds.report()?),
            Content::Joints(joints) => ContentReport::Joints(joints.clone()),
            Content::Imu([without_orientation, without_angular_velocity]) => ContentReport::Imu {
                without_orientation: *without_orientation,
                without_angular_velocity: *without_angular_velocity,
            },
            Content::Camera(camera) => ContentReport::Camera(camera.clone()?),
            Content::Numbers(survey) => ContentReport::Numbers {
                paths: survey.leaves().to_vec(),
                times: survey.times().to_vec(),
                lists: survey.lists().to_vec(),
            },
            Content::Other => return None,
        })
    }
}

impl ImageForms {
    fn take(&mut self, form: ImageForm) {
        let same = |known: &ImageForm| ImageForm { images: 0, ..known.clone() } == form;
        match self.forms.iter().position(same) {
            Some(at) => self.forms[at].images += 1,
            None if self.forms.len() < MOST_FORMS => {
                self.forms.push(ImageForm { images: 1, ..form });
            }
            None => self.others += 1,
        }
    }

    /// The form that most images have.
    pub fn usual(&self) -> Option<&ImageForm> {
        self.forms.iter().rev().max_by_key(|form| form.images)
    }
}

/// The first bytes of a text of a message.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(MOST_BYTES)]).into_owned()
}

fn raw_form(message: &[u8]) -> Result<ImageForm, Rejected> {
    let mut reader = Reader::new(message)?;
    input::header(&mut reader)?;
    let height = reader.u32()? as usize;
    let width = reader.u32()? as usize;
    let encoding = text(reader.string_bytes()?);
    Ok(ImageForm { encoding, width, height, ..ImageForm::default() })
}

fn file_form(message: &[u8]) -> Result<ImageForm, Rejected> {
    let mut reader = Reader::new(message)?;
    input::header(&mut reader)?;
    let encoding = text(reader.string_bytes()?);
    let file = reader.bytes()?;
    // compressed_depth_image_transport puts a header of 12 bytes before the file.
    let file = match encoding.contains("compressedDepth") {
        true => file.get(12..).unwrap_or_default(),
        false => file,
    };
    let [width, height] = codec::size(file).unwrap_or_default();
    Ok(ImageForm { encoding, width, height, is_png: codec::is_png(file), images: 0 })
}

/// For the orientation and the angular velocity of an IMU: true if the IMU says that it does not measure it. Then the
/// first element of the covariance is -1.
fn imu_lacks(message: &[u8]) -> Result<[bool; 2], Rejected> {
    let mut reader = Reader::new(message)?;
    input::header(&mut reader)?;
    reader.skip(8, 8 * 4)?;
    let orientation = reader.f64()?;
    reader.skip(8, 8 * (8 + 3))?;
    Ok([orientation == -1.0, reader.f64()? == -1.0])
}

fn camera_form(message: &[u8]) -> Result<CameraForm, Rejected> {
    let mut reader = Reader::new(message)?;
    let header = input::header(&mut reader)?;
    let frame_id = header.frame_id.to_owned();
    let height = reader.u32()?;
    let width = reader.u32()?;
    let model = text(reader.string_bytes()?);
    let d = reader.f64_sequence()?;
    let is_distorted = (0..d.len().min(64)).any(|at| d.get(at).is_some_and(|value| value != 0.0));
    Ok(CameraForm { width, height, model, is_distorted, frame_id })
}

impl Joints {
    fn state(&mut self, message: &[u8]) -> Result<(), Rejected> {
        let mut reader = Reader::new(message)?;
        input::header(&mut reader)?;
        let names = names(&mut reader)?;
        let mut complete = [0; 4];
        for complete in &mut complete[..3] {
            *complete = u64::from(reader.f64_sequence()?.len() == names.len());
        }
        self.note(names, complete);
        Ok(())
    }

    fn plan(&mut self, message: &[u8]) -> Result<(), Rejected> {
        let mut reader = Reader::new(message)?;
        input::header(&mut reader)?;
        let names = names(&mut reader)?;
        let points = reader.u32()? as usize;
        let mut complete = [1; 4];
        let mut before = 0;
        for _ in 0..points {
            for complete in &mut complete {
                *complete &= u64::from(reader.f64_sequence()?.len() == names.len());
            }
            let sec = reader.i32()?;
            let nanosec = reader.u32()?;
            let at = i64::from(sec) * robocache_ops::time::NANOS_PER_S + i64::from(nanosec);
            self.horizon_ns = self.horizon_ns.max(at);
            self.spacing_ns = self.spacing_ns.max(at - before);
            before = at;
        }
        self.most_points = self.most_points.max(points);
        // A plan without points is to stop, and says nothing of the fields.
        if points > 0 {
            self.note(names, complete);
        }
        Ok(())
    }

    fn note(&mut self, names: Vec<String>, complete: [u64; 4]) {
        let at = match self.sets.iter().position(|set| set.names == names) {
            Some(at) => at,
            None if self.sets.len() < MOST_FORMS => {
                self.sets.push(JointSet { names, ..JointSet::default() });
                self.sets.len() - 1
            }
            None => {
                self.others += 1;
                return;
            }
        };
        self.sets[at].messages += 1;
        for (sum, one) in self.sets[at].complete.iter_mut().zip(complete) {
            *sum += one;
        }
    }
}

/// Reads names, and keeps the first of them.
fn names(reader: &mut Reader<'_>) -> Result<Vec<String>, Rejected> {
    let count = reader.u32()? as usize;
    let mut names = Vec::new();
    for _ in 0..count {
        let name = reader.string_bytes()?;
        if names.len() < MOST_NAMES {
            names.push(text(name));
        }
    }
    Ok(names)
}
