//! Messages for the inputs of `streams.yaml`: topics, and what is published there.

use robocache_core::cdr::Writer;
use robocache_core::cdr::messages::{
    CompressedImage, Image, Imu, JointState, Odometry, PointCloud2, PointField, PoseStamped,
    TwistStamped, WrenchStamped,
};

use super::seeds::rvl;
use super::streams::{SMALL, STAMP, camera, preamble, transforms};

type SensorMessages = Vec<(&'static str, Vec<u8>)>;

const ORIENTATION: [f64; 4] = [0.0, 0.0, 0.6, 0.8];

/// All of them. `pictures` are JPEG and PNG files.
pub(crate) fn messages(pictures: &[Vec<u8>]) -> SensorMessages {
    let mut all = preamble();
    all.extend(images(pictures));
    all.extend(vectors());
    all.extend(selected());
    all.extend(clouds());
    for topic in ["/p", "/t", "/z"] {
        all.push((topic, scan()));
    }
    all.push(("/q", plan()));
    all.push(("/gg", map()));
    for links in [[("map", "odom", 0), ("odom", "base_link", 0)], [("a", "b", -1), ("b", "a", 1)]] {
        all.push(("/tf", transforms(&links)));
        all.push(("/tf_static", transforms(&links)));
    }
    all.extend(cameras().into_iter().map(|camera| ("/v", camera)));
    all
}

fn images(pictures: &[Vec<u8>]) -> SensorMessages {
    let image = |encoding, step: u32, lines: u32| {
        let [width, height] = SMALL;
        let image = Image { stamp: STAMP, frame_id: "camera", height, width, encoding, step };
        image.to_cdr(Vec::new(), |data| data.extend((0..step * lines).map(|at| at as u8)))
    };
    let mut all = SensorMessages::new();
    for (encoding, step, lines) in [
        ("rgb8", 12, 4),
        ("bgra8", 17, 4),
        ("mono8", 4, 4),
        ("mono16", 8, 4),
        ("8UC3", 12, 4),
        ("yuv422", 8, 4),
        ("nv12", 4, 6),
        ("bayer_rggb8", 4, 4),
        ("bayer_grbg16", 8, 4),
        ("8UC1", 4, 4),
    ] {
        all.extend(["/a", "/b", "/u"].map(|topic| (topic, image(encoding, step, lines))));
    }
    for file in pictures {
        all.extend(["/c", "/aa"].map(|topic| (topic, compressed("jpeg", file))));
    }
    all.push(("/d", image("16UC1", 8, 4)));
    all.push(("/d", image("32FC1", 16, 4)));
    all.push(("/e", compressed("16UC1; compressedDepth rvl", &rvl())));
    all.push(("/e", compressed("32FC1; compressedDepth rvl", &rvl())));
    all
}

fn compressed(format: &str, file: &[u8]) -> Vec<u8> {
    let message = CompressedImage { stamp: STAMP, frame_id: "camera", format };
    message.to_cdr(Vec::new(), |data| data.extend_from_slice(file))
}

fn vectors() -> SensorMessages {
    let stamp = STAMP;
    let frame_id = "base_link";
    let orientation = ORIENTATION;
    let one = [1.0, 2.0, 3.0];
    let two = [4.0, 5.0, 6.0];
    let imu = Imu { stamp, frame_id, orientation, angular_velocity: one, linear_acceleration: two };
    let position = one;
    let pose = PoseStamped { stamp, frame_id, position, orientation };
    let twist = TwistStamped { stamp, frame_id, linear: one, angular: two };
    let wrench = WrenchStamped { stamp, frame_id, force: one, torque: two };
    let odometry = Odometry {
        stamp,
        frame_id,
        child_frame_id: "base",
        position,
        orientation,
        linear: one,
        angular: two,
    };
    let joints = JointState {
        stamp,
        frame_id: "",
        name: &["b", "a", "c"],
        position: &[1.0, 2.0, 3.0],
        velocity: &[4.0, 5.0, 6.0],
        effort: &[],
    };
    let numbers = |count: usize| with_header(frame_id, &ORIENTATION.repeat(20)[..count]);
    vec![
        ("/f", joints.to_cdr(Vec::new())),
        ("/g", joints.to_cdr(Vec::new())),
        ("/cc", joints.to_cdr(Vec::new())),
        ("/h", imu.to_cdr(Vec::new())),
        ("/i", numbers(12)),
        ("/j", wrench.to_cdr(Vec::new())),
        ("/k", pose.to_cdr(Vec::new())),
        ("/l", numbers(43)),
        ("/m", twist.to_cdr(Vec::new())),
        ("/n", odometry.to_cdr(Vec::new())),
        ("/r", pose.to_cdr(Vec::new())),
    ]
}

fn with_header(frame: &str, numbers: &[f64]) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.header(STAMP, frame);
    writer.f64_array(numbers);
    writer.finish()
}

/// Messages of types that have no reader of their own.
fn selected() -> SensorMessages {
    let pose = [&[1.0, 2.0, 3.0][..], &ORIENTATION].concat();
    let mut gripper = Writer::new();
    gripper.string("left");
    gripper.f32(0.01);
    gripper.f32(0.02);
    gripper.u8(1);
    gripper.f64_sequence(&[0.5, 1.5]);
    gripper.f64_array(&pose);
    let (seconds, nanoseconds) = STAMP.to_sec_nanosec();
    gripper.i32(seconds);
    gripper.u32(nanoseconds);

    let mut body = Writer::new();
    body.header(STAMP, "base_link");
    body.string_sequence(["b", "a"].into_iter());
    for numbers in [7, 6, 6] {
        body.u32(2);
        body.f64_array(&pose.repeat(2)[..2 * numbers]);
    }

    let mut goals = Writer::new();
    goals.header(STAMP, "base_link");
    goals.u32(2);
    goals.f64_array(&pose.repeat(2));
    vec![("/bb", gripper.finish()), ("/dd", body.finish()), ("/ee", goals.finish())]
}

/// The type codes of numbers in a cloud.
const UINT32: u8 = 6;
const FLOAT32: u8 = 7;
const FLOAT64: u8 = 8;

/// Clouds in both byte orders, organised and not; and some whose points have their times.
fn clouds() -> SensorMessages {
    let mut all = SensorMessages::new();
    for topic in ["/o", "/s"] {
        for (height, big_endian) in [(1, false), (2, true)] {
            all.push((topic, cloud(height, big_endian, "intensity", FLOAT32)));
        }
    }
    all.push(("/w", cloud(1, false, "t", UINT32)));
    all.push(("/y", cloud(2, true, "t", FLOAT64)));
    all
}

/// A cloud whose points have a field beside x, y and z; if that is `t`, two points share a voxel.
fn cloud(height: u32, is_bigendian: bool, name: &str, datatype: u8) -> Vec<u8> {
    let field = |name, offset, datatype| PointField { name, offset, datatype, count: 1 };
    let fields = [
        field("x", 0, FLOAT32),
        field("y", 4, FLOAT32),
        field("z", 8, FLOAT32),
        field(name, 12, datatype),
    ];
    let width = 6;
    let point_step = if datatype == FLOAT64 { 20 } else { 16 };
    let cloud = PointCloud2 {
        stamp: STAMP,
        frame_id: "lidar",
        height,
        width,
        fields: &fields,
        is_bigendian,
        point_step,
        row_step: width * point_step,
        is_dense: true,
    };
    let put = |data: &mut Vec<u8>, mut bytes: Vec<u8>| {
        if is_bigendian {
            bytes.reverse();
        }
        data.extend(bytes);
    };
    cloud.to_cdr(Vec::new(), |data| {
        for point in 0..width * height {
            for axis in 0..3 {
                let place = (point / 2 + axis) as f32 / 12.5;
                put(data, place.to_le_bytes().to_vec());
            }
            put(
                data,
                match datatype {
                    UINT32 => (point * 9_000_000).to_le_bytes().to_vec(),
                    FLOAT64 => (5.0 + f64::from(point) / 1000.0).to_le_bytes().to_vec(),
                    _ => (point as f32 / 50.0).to_le_bytes().to_vec(),
                },
            );
        }
    })
}

fn scan() -> Vec<u8> {
    let mut writer = Writer::new();
    writer.header(STAMP, "scanner");
    for number in [-1.0, 1.0, 0.5, 0.001, 0.1, 0.0, 30.0] {
        writer.f32(number);
    }
    writer.f32_sequence([1.0, f32::NAN, 2.0, f32::INFINITY, 0.5].into_iter());
    writer.f32_sequence([1.0, 2.0, 3.0, 4.0, 5.0].into_iter());
    writer.finish()
}

/// A map of 3 x 2 cells.
fn map() -> Vec<u8> {
    let mut writer = Writer::new();
    writer.header(STAMP, "map");
    writer.i32(5);
    writer.u32(0);
    writer.f32(0.5);
    writer.u32(3);
    writer.u32(2);
    writer.f64_array(&[-1.0, -0.5, 0.0]);
    writer.f64_array(&ORIENTATION);
    writer.bytes(&[0, 100, 255, 50, 1, 99]);
    writer.finish()
}

/// A plan of two points.
fn plan() -> Vec<u8> {
    let mut writer = Writer::new();
    writer.header(STAMP, "");
    writer.string_sequence(["b", "a"].into_iter());
    writer.u32(2);
    for second in [0, 1] {
        writer.f64_sequence(&[1.0, 2.0]);
        writer.f64_sequence(&[0.1, 0.2]);
        writer.f64_sequence(&[]);
        writer.f64_sequence(&[]);
        writer.i32(second);
        writer.u32(500_000_000);
    }
    writer.finish()
}

/// Cameras of every model for small images, some of a binned region.
fn cameras() -> Vec<Vec<u8>> {
    let of_part = |model, d, binning, roi| {
        let mut camera = camera(SMALL, model, d);
        (camera.binning, camera.roi) = (binning, roi);
        camera.to_cdr(Vec::new())
    };
    vec![
        of_part("rational_polynomial", &[0.01; 14], [1, 1], [0; 4]),
        of_part("equidistant", &[0.01; 4], [1, 1], [0, 0, 4, 4]),
        of_part("", &[], [0, 0], [0; 4]),
        of_part("plumb_bob", &[0.1; 4], [2, 2], [1, 1, 3, 3]),
    ]
}
