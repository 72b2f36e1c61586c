//! Messages of the reference robot, with random content.

use robocache_core::cdr::messages::{
    Image, Imu, JointState, PointCloud2, PointField, WrenchStamped,
};
use robocache_ops::image::Encoding;
use robocache_ops::random::Random;
use robocache_ops::time::{NANOS_PER_MS, Stamp};

use crate::error::BenchError;

/// The configuration of the reference robot.
pub(crate) const ROBOT: &str = include_str!("../../../config/robocache.yaml");

/// Its large inputs: two cameras and the lidar, as they are numbered in [`ROBOT`].
pub(crate) const CAMERAS: [usize; 2] = [0, 1];
pub(crate) const LIDAR: usize = 2;

/// Its vectors: joints, wrench, IMU.
pub(crate) const VECTORS: [usize; 3] = [3, 4, 5];

/// Milliseconds between two images of a camera, and between two clouds.
pub(crate) const CAMERA_MS: i64 = 33;
pub(crate) const LIDAR_MS: i64 = 100;

/// Bytes of a point: x, y, z, intensity and time.
pub(crate) const POINT_STEP: usize = 20;

/// Hands every vector that is stamped in the millisecond `ms` to `sink`, with its input.
pub(crate) fn vectors(
    ms: i64,
    mut sink: impl FnMut(usize, Vec<u8>) -> Result<(), BenchError>,
) -> Result<(), BenchError> {
    let stamp = Stamp::from_nanos(ms * NANOS_PER_MS);
    let t = ms as f64 * 1e-3;
    let [joints, wrench, imu] = VECTORS;
    if ms % 2 == 0 {
        let names: [String; 14] = std::array::from_fn(|i| format!("joint_{i}"));
        let names = names.each_ref().map(String::as_str);
        let position: [f64; 14] = std::array::from_fn(|i| (t + i as f64).sin());
        let velocity: [f64; 14] = std::array::from_fn(|i| (t + i as f64).cos());
        let message = JointState {
            stamp,
            frame_id: "",
            name: &names,
            position: &position,
            velocity: &velocity,
            effort: &[],
        };
        sink(joints, message.to_cdr(Vec::new()))?;
        let force = [t.sin(), t.cos(), 9.8];
        let message = WrenchStamped { stamp, frame_id: "wrist", force, torque: force };
        sink(wrench, message.to_cdr(Vec::new()))?;
    }
    if ms % 5 == 0 {
        let message = Imu {
            stamp,
            frame_id: "imu",
            orientation: [0.0, 0.0, (t / 2.0).sin(), (t / 2.0).cos()],
            angular_velocity: [0.0, 0.0, 1.0],
            linear_acceleration: [0.0, 0.0, 9.8],
        };
        sink(imu, message.to_cdr(Vec::new()))?;
    }
    Ok(())
}

/// An image of `[width, height]` of the first bytes of `pixels`, in the memory of `buffer`.
pub(crate) fn image(
    stamp: Stamp,
    encoding: Encoding,
    [width, height]: [u32; 2],
    pixels: &[u8],
    buffer: Vec<u8>,
) -> Vec<u8> {
    let step = width * encoding.bytes_per_pixel() as u32;
    let encoding = encoding.name();
    let image = Image { stamp, frame_id: "camera", height, width, encoding, step };
    image.to_cdr(buffer, |data| data.extend_from_slice(&pixels[..(step * height) as usize]))
}

/// A cloud of points of [`POINT_STEP`] bytes, in the memory of `buffer`.
pub(crate) fn cloud(stamp: Stamp, points: &[u8], buffer: Vec<u8>) -> Vec<u8> {
    let names = ["x", "y", "z", "intensity", "time"];
    let field =
        |i: usize| PointField { name: names[i], offset: 4 * i as u32, datatype: 7, count: 1 };
    let fields: [PointField<'_>; 5] = std::array::from_fn(field);
    let cloud = PointCloud2 {
        stamp,
        frame_id: "lidar",
        height: 1,
        width: (points.len() / POINT_STEP) as u32,
        fields: &fields,
        is_bigendian: false,
        point_step: POINT_STEP as u32,
        row_step: points.len() as u32,
        is_dense: true,
    };
    cloud.to_cdr(buffer, |data| data.extend_from_slice(points))
}

/// Pixels for images of `len` bytes that start at any of the first 1000.
pub(crate) fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    (0..len + 1000).map(|_| random.bits() as u8).collect()
}

/// Points of `columns` floats within `reach` metres, the fourth one up to 255.
pub(crate) fn points(count: usize, columns: usize, reach: f32) -> Vec<u8> {
    let mut random = Random::new(5);
    let mut data = Vec::with_capacity(4 * count * columns);
    for _ in 0..count {
        for column in 0..columns {
            let value = match column {
                0..3 => random.float(-reach / 2.0, reach / 2.0),
                _ => random.float(0.0, 255.0),
            };
            data.extend_from_slice(&value.to_le_bytes());
        }
    }
    data
}
