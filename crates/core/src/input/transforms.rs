//! Messages that place frames: `tf2_msgs/msg/TFMessage`, the pose in `nav_msgs/msg/Odometry`, and the
//! angular velocity in `sensor_msgs/msg/Imu`.
//!
//! They become no rows, so no stream names these types for it. The configuration's need of frames
//! decides which topics are read.

use super::{Input, Sink, header};
use crate::cdr::Reader;
use crate::rejected::{DropReason, Rejected};
use crate::sample::StampedTransform;

/// The type of the messages on `/tf` and `/tf_static`.
pub const TF_MESSAGE: &str = "tf2_msgs/msg/TFMessage";
/// The type of odometry, whose pose is a transform too.
pub const ODOMETRY: &str = "nav_msgs/msg/Odometry";
/// The type of a gyro's messages.
pub const IMU: &str = "sensor_msgs/msg/Imu";

/// Makes an input for messages of this type; `None` if they place no frames. `fixed` says whether
/// the transforms hold at all stamps.
pub(super) fn open(ros_type: &str, fixed: bool) -> Option<Box<dyn Input>> {
    match ros_type {
        TF_MESSAGE => Some(Box::new(TransformTree { fixed })),
        ODOMETRY if !fixed => Some(Box::new(OdometryPose)),
        IMU if !fixed => Some(Box::new(AngularVelocity)),
        _ => None,
    }
}

struct TransformTree {
    fixed: bool,
}

impl Input for TransformTree {
    fn read(&mut self, message: &[u8], sink: &mut dyn Sink) -> Result<(), Rejected> {
        let mut reader = Reader::new(message)?;
        let count = reader.u32()?;
        let start = reader.clone();
        // All of it first, so that a message that ends early gives nothing.
        for _ in 0..count {
            transform(&mut reader, self.fixed)?;
        }
        let mut reader = start;
        for _ in 0..count {
            sink.transform(&transform(&mut reader, self.fixed)?);
        }
        Ok(())
    }
}

/// Reads a `geometry_msgs/TransformStamped`.
fn transform<'a>(reader: &mut Reader<'a>, fixed: bool) -> Result<StampedTransform<'a>, Rejected> {
    let header = header(reader)?;
    let child = child_frame(reader)?;
    let translation = numbers(reader)?;
    let rotation = numbers(reader)?;
    Ok(StampedTransform { header, child, translation, rotation, fixed })
}

struct OdometryPose;

impl Input for OdometryPose {
    fn read(&mut self, message: &[u8], sink: &mut dyn Sink) -> Result<(), Rejected> {
        let mut reader = Reader::new(message)?;
        let transform = transform(&mut reader, false)?;
        // A covariance of the pose, a twist, and the covariance of that.
        reader.skip(8, 8 * (36 + 6 + 36))?;
        sink.transform(&transform);
        Ok(())
    }
}

struct AngularVelocity;

impl Input for AngularVelocity {
    fn read(&mut self, message: &[u8], sink: &mut dyn Sink) -> Result<(), Rejected> {
        let mut reader = Reader::new(message)?;
        let header = header(&mut reader)?;
        reader.skip(8, 8 * (4 + 9))?; // the orientation and its covariance
        let rate: [f64; 3] = numbers(&mut reader)?;
        let covariance: [f64; 9] = numbers(&mut reader)?;
        reader.skip(8, 8 * (3 + 9))?; // the acceleration
        if covariance[0] == -1.0 {
            let detail = "angular_velocity: its covariance says that there is no estimate";
            return Err(Rejected::new(DropReason::MissingField, detail));
        }
        sink.turn(&header, rate);
        Ok(())
    }
}

/// Reads a `child_frame_id`.
pub(super) fn child_frame<'a>(reader: &mut Reader<'a>) -> Result<&'a str, Rejected> {
    std::str::from_utf8(reader.string_bytes()?).map_err(|error| {
        let detail = format!("child_frame_id: expected UTF-8, found {error}");
        Rejected::new(DropReason::Malformed, detail)
    })
}

fn numbers<const N: usize>(reader: &mut Reader<'_>) -> Result<[f64; N], Rejected> {
    let mut numbers = [0.0; N];
    for number in &mut numbers {
        *number = reader.f64()?;
    }
    Ok(numbers)
}
