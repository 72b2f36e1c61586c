//! The standard messages that robots publish, as CDR bytes.
//!
//! Each type has the fields of its ROS definition (common_interfaces, Jazzy), in that order. Its
//! `to_cdr(buffer)` discards the content of `buffer` and writes into its memory, so that a
//! publisher of large messages allocates nothing.

use super::Writer;
use robocache_ops::time::Stamp;

/// `sensor_msgs/msg/JointState`
#[derive(Clone, Copy, Debug)]
pub struct JointState<'a> {
    /// When the joints were read.
    pub stamp: Stamp,
    /// Usually empty.
    pub frame_id: &'a str,
    /// Names, in the order of the three sequences below.
    pub name: &'a [&'a str],
    /// \[rad\] or \[m\]; empty if not measured.
    pub position: &'a [f64],
    /// \[rad/s\] or \[m/s\]; empty if not measured.
    pub velocity: &'a [f64],
    /// \[N m\] or \[N\]; empty if not measured.
    pub effort: &'a [f64],
}

impl JointState<'_> {
    /// The serialized message.
    pub fn to_cdr(&self, buffer: Vec<u8>) -> Vec<u8> {
        let mut writer = Writer::reusing(buffer);
        writer.header(self.stamp, self.frame_id);
        writer.u32(self.name.len() as u32);
        for name in self.name {
            writer.string(name);
        }
        for values in [self.position, self.velocity, self.effort] {
            writer.f64_sequence(values);
        }
        writer.finish()
    }
}

/// `sensor_msgs/msg/Imu`; the covariances are zeros, "unknown".
#[derive(Clone, Copy, Debug)]
pub struct Imu<'a> {
    /// When the sensor measured.
    pub stamp: Stamp,
    /// Frame of the sensor.
    pub frame_id: &'a str,
    /// x, y, z, w.
    pub orientation: [f64; 4],
    /// \[rad/s\]
    pub angular_velocity: [f64; 3],
    /// \[m/s^2\]
    pub linear_acceleration: [f64; 3],
}

impl Imu<'_> {
    /// The serialized message.
    pub fn to_cdr(&self, buffer: Vec<u8>) -> Vec<u8> {
        let mut writer = Writer::reusing(buffer);
        writer.header(self.stamp, self.frame_id);
        writer.f64_array(&self.orientation);
        writer.f64_array(&[0.0; 9]);
        writer.f64_array(&self.angular_velocity);
        writer.f64_array(&[0.0; 9]);
        writer.f64_array(&self.linear_acceleration);
        writer.f64_array(&[0.0; 9]);
        writer.finish()
    }
}

/// `sensor_msgs/msg/CameraInfo`
#[derive(Clone, Debug)]
pub struct CameraInfo<'a> {
    /// When the image was taken.
    pub stamp: Stamp,
    /// Frame of the camera.
    pub frame_id: &'a str,
    /// Lines of the sensor.
    pub height: u32,
    /// Columns of the sensor.
    pub width: u32,
    /// `plumb_bob`, `rational_polynomial` or `equidistant`.
    pub distortion_model: &'a str,
    /// Coefficients of the lens.
    pub d: &'a [f64],
    /// Camera matrix, row by row.
    pub k: [f64; 9],
    /// Rectifying rotation, row by row.
    pub r: [f64; 9],
    /// Projection of the undistorted image, row by row.
    pub p: [f64; 12],
    /// Columns and lines of the sensor per pixel of the image; 0 is 1.
    pub binning: [u32; 2],
    /// x, y, width and height of the region of interest on the sensor; zeros: all.
    pub roi: [u32; 4],
}

impl CameraInfo<'_> {
    /// The serialized message.
    pub fn to_cdr(&self, buffer: Vec<u8>) -> Vec<u8> {
        let mut writer = Writer::reusing(buffer);
        writer.header(self.stamp, self.frame_id);
        writer.u32(self.height);
        writer.u32(self.width);
        writer.string(self.distortion_model);
        writer.f64_sequence(self.d);
        writer.f64_array(&self.k);
        writer.f64_array(&self.r);
        writer.f64_array(&self.p);
        self.binning.iter().for_each(|binning| writer.u32(*binning));
        let [x, y, width, height] = self.roi;
        [x, y, height, width].into_iter().for_each(|number| writer.u32(number));
        writer.u8(0);
        writer.finish()
    }
}

/// `geometry_msgs/msg/WrenchStamped`
#[derive(Clone, Copy, Debug)]
pub struct WrenchStamped<'a> {
    /// When the sensor measured.
    pub stamp: Stamp,
    /// Frame of the sensor.
    pub frame_id: &'a str,
    /// \[N\]
    pub force: [f64; 3],
    /// \[N m\]
    pub torque: [f64; 3],
}

impl WrenchStamped<'_> {
    /// The serialized message.
    pub fn to_cdr(&self, buffer: Vec<u8>) -> Vec<u8> {
        let mut writer = Writer::reusing(buffer);
        writer.header(self.stamp, self.frame_id);
        writer.f64_array(&self.force);
        writer.f64_array(&self.torque);
        writer.finish()
    }
}

/// `geometry_msgs/msg/PoseStamped`
#[derive(Clone, Copy, Debug)]
pub struct PoseStamped<'a> {
    /// When the pose held.
    pub stamp: Stamp,
    /// Frame the pose is given in.
    pub frame_id: &'a str,
    /// \[m\]
    pub position: [f64; 3],
    /// x, y, z, w.
    pub orientation: [f64; 4],
}

impl PoseStamped<'_> {
    /// The serialized message.
    pub fn to_cdr(&self, buffer: Vec<u8>) -> Vec<u8> {
        let mut writer = Writer::reusing(buffer);
        writer.header(self.stamp, self.frame_id);
        writer.f64_array(&self.position);
        writer.f64_array(&self.orientation);
        writer.finish()
    }
}

/// `geometry_msgs/msg/TwistStamped`
#[derive(Clone, Copy, Debug)]
pub struct TwistStamped<'a> {
    /// When the velocity held.
    pub stamp: Stamp,
    /// Frame the velocity is given in.
    pub frame_id: &'a str,
    /// \[m/s\]
    pub linear: [f64; 3],
    /// \[rad/s\]
    pub angular: [f64; 3],
}

impl TwistStamped<'_> {
    /// The serialized message.
    pub fn to_cdr(&self, buffer: Vec<u8>) -> Vec<u8> {
        let mut writer = Writer::reusing(buffer);
        writer.header(self.stamp, self.frame_id);
        writer.f64_array(&self.linear);
        writer.f64_array(&self.angular);
        writer.finish()
    }
}

/// `nav_msgs/msg/Odometry`; the covariances are zeros.
#[derive(Clone, Copy, Debug)]
pub struct Odometry<'a> {
    /// When the pose held.
    pub stamp: Stamp,
    /// Frame the pose is given in.
    pub frame_id: &'a str,
    /// Frame the pose describes and the twist is given in.
    pub child_frame_id: &'a str,
    /// \[m\]
    pub position: [f64; 3],
    /// x, y, z, w.
    pub orientation: [f64; 4],
    /// \[m/s\]
    pub linear: [f64; 3],
    /// \[rad/s\]
    pub angular: [f64; 3],
}

impl Odometry<'_> {
    /// The serialized message.
    pub fn to_cdr(&self, buffer: Vec<u8>) -> Vec<u8> {
        let mut writer = Writer::reusing(buffer);
        writer.header(self.stamp, self.frame_id);
        writer.string(self.child_frame_id);
        writer.f64_array(&self.position);
        writer.f64_array(&self.orientation);
        writer.f64_array(&[0.0; 36]);
        writer.f64_array(&self.linear);
        writer.f64_array(&self.angular);
        writer.f64_array(&[0.0; 36]);
        writer.finish()
    }
}

/// `sensor_msgs/msg/Image`, little-endian, without its data.
#[derive(Clone, Copy, Debug)]
pub struct Image<'a> {
    /// When the exposure began.
    pub stamp: Stamp,
    /// Frame of the camera.
    pub frame_id: &'a str,
    /// \[px\]
    pub height: u32,
    /// \[px\]
    pub width: u32,
    /// A name from `sensor_msgs/image_encodings.hpp`.
    pub encoding: &'a str,
    /// Bytes from one line to the next.
    pub step: u32,
}

impl Image<'_> {
    /// The serialized message; `data` appends the lines.
    pub fn to_cdr(&self, buffer: Vec<u8>, data: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut writer = Writer::reusing(buffer);
        writer.header(self.stamp, self.frame_id);
        writer.u32(self.height);
        writer.u32(self.width);
        writer.string(self.encoding);
        writer.u8(0);
        writer.u32(self.step);
        writer.bytes_with(data);
        writer.finish()
    }
}

/// `sensor_msgs/msg/CompressedImage`, without its data.
#[derive(Clone, Copy, Debug)]
pub struct CompressedImage<'a> {
    /// When the exposure began.
    pub stamp: Stamp,
    /// Frame of the camera.
    pub frame_id: &'a str,
    /// As `compressed_image_transport` writes it: `rgb8; jpeg compressed bgr8`, or just `jpeg`.
    pub format: &'a str,
}

impl CompressedImage<'_> {
    /// The serialized message; `data` appends the file.
    pub fn to_cdr(&self, buffer: Vec<u8>, data: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut writer = Writer::reusing(buffer);
        writer.header(self.stamp, self.frame_id);
        writer.string(self.format);
        writer.bytes_with(data);
        writer.finish()
    }
}

/// `tf2_msgs/msg/TFMessage` with one transform.
#[derive(Clone, Copy, Debug)]
pub struct TfMessage<'a> {
    /// When the child frame was there.
    pub stamp: Stamp,
    /// Frame of the parent.
    pub frame_id: &'a str,
    /// Frame of the child.
    pub child_frame_id: &'a str,
    /// \[m\]
    pub translation: [f64; 3],
    /// x, y, z, w.
    pub rotation: [f64; 4],
}

impl TfMessage<'_> {
    /// The serialized message.
    pub fn to_cdr(&self, buffer: Vec<u8>) -> Vec<u8> {
        let mut writer = Writer::reusing(buffer);
        writer.u32(1);
        writer.header(self.stamp, self.frame_id);
        writer.string(self.child_frame_id);
        writer.f64_array(&self.translation);
        writer.f64_array(&self.rotation);
        writer.finish()
    }
}

/// `sensor_msgs/msg/PointField`
#[derive(Clone, Copy, Debug)]
pub struct PointField<'a> {
    /// For example `x`.
    pub name: &'a str,
    /// Bytes from the start of the point.
    pub offset: u32,
    /// A constant of the message: 1 int8, 2 uint8, 3 int16, 4 uint16, 5 int32, 6 uint32,
    /// 7 float32, 8 float64.
    pub datatype: u8,
    /// Elements in the field.
    pub count: u32,
}

/// `sensor_msgs/msg/PointCloud2`, without its data.
#[derive(Clone, Copy, Debug)]
pub struct PointCloud2<'a> {
    /// The instant that the cloud is given for.
    pub stamp: Stamp,
    /// Frame of the points.
    pub frame_id: &'a str,
    /// Rows; 1 if unorganised.
    pub height: u32,
    /// Points per row.
    pub width: u32,
    /// The layout of a point.
    pub fields: &'a [PointField<'a>],
    /// True if the numbers of the data have their most significant byte first.
    pub is_bigendian: bool,
    /// Bytes from one point to the next.
    pub point_step: u32,
    /// Bytes from one row to the next.
    pub row_step: u32,
    /// True if no point is NaN or infinite.
    pub is_dense: bool,
}

impl PointCloud2<'_> {
    /// The serialized message; `data` appends the points.
    pub fn to_cdr(&self, buffer: Vec<u8>, data: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut writer = Writer::reusing(buffer);
        writer.header(self.stamp, self.frame_id);
        writer.u32(self.height);
        writer.u32(self.width);
        writer.u32(self.fields.len() as u32);
        for field in self.fields {
            writer.string(field.name);
            writer.u32(field.offset);
            writer.u8(field.datatype);
            writer.u32(field.count);
        }
        writer.u8(self.is_bigendian.into());
        writer.u32(self.point_step);
        writer.u32(self.row_step);
        writer.bytes_with(data);
        writer.u8(self.is_dense.into());
        writer.finish()
    }
}

/// `rosgraph_msgs/msg/Clock`
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// The current time.
    pub clock: Stamp,
}

impl Clock {
    /// The serialized message.
    pub fn to_cdr(&self, buffer: Vec<u8>) -> Vec<u8> {
        let mut writer = Writer::reusing(buffer);
        let (sec, nanosec) = self.clock.to_sec_nanosec();
        writer.i32(sec);
        writer.u32(nanosec);
        writer.finish()
    }
}
