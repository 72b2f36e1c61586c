//! Writes the seeds of the corpora into `fuzz/corpus`, with the crate's own writers. Files of pictures and
//! bad configurations come from the tests. It is built as a target, because cargo-fuzz builds all programs so.
#![no_main]

use std::fs;
use std::path::Path;

use libfuzzer_sys::fuzz_target;
use robocache::cdr::Writer;
use robocache::cdr::messages::{
    CameraInfo, Image, Imu, JointState, Odometry, PointCloud2, PointField, PoseStamped,
    TwistStamped, WrenchStamped,
};
use robocache::time::Stamp;

const STAMP: Stamp = Stamp::from_nanos(5_000_000_007);

fuzz_target!(init: { write(); std::process::exit(0) }, |_input: &[u8]| {});

fn write() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let corpus = root.join("corpus");
    let tests = root.join("../tests");
    for (target, seeds) in [
        ("messages", messages(&tests)),
        ("pictures", files(&tests.join("golden/compressed"), &["jpg", "png"])),
        ("depth", depth(&tests)),
        ("raw_images", raw_images()),
        ("select", select()),
        ("definitions", definitions(&tests)),
        ("configuration", configurations(&root.join(".."))),
    ] {
        let folder = corpus.join(target);
        fs::create_dir_all(&folder).expect("a folder for the corpus");
        for (at, seed) in seeds.iter().enumerate() {
            fs::write(folder.join(format!("seed_{at:03}")), seed).expect("a seed");
        }
        println!("{target}: {} seeds", seeds.len());
    }
}

/// The files of a folder with these endings, in order.
fn files(folder: &Path, endings: &[&str]) -> Vec<Vec<u8>> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|end| endings.iter().any(|own| end == *own)));
    paths.sort();
    paths.iter().map(|path| fs::read(path).expect("a file")).collect()
}

fn with_choice(choice: u8, data: &[u8]) -> Vec<u8> {
    [&[choice], data].concat()
}

/// The messages of `streams.yaml`, by the position of their stream.
fn messages(tests: &Path) -> Vec<Vec<u8>> {
    let image = |encoding, step: u32, lines: u32| {
        let image = Image { stamp: STAMP, frame_id: "camera", height: 4, width: 4, encoding, step };
        image.to_cdr(Vec::new(), |data| data.extend((0..step * lines).map(|at| at as u8)))
    };
    let mut seeds = Vec::new();
    for (encoding, step, lines) in [
        ("rgb8", 12, 4),
        ("bgra8", 17, 4),
        ("mono8", 4, 4),
        ("mono16", 8, 4),
        ("8UC3", 12, 4),
        ("yuv422", 8, 4),
        ("nv12", 4, 6),
        ("bayer_rggb8", 4, 4),
        ("8UC1", 4, 4),
    ] {
        seeds.push(with_choice(0, &image(encoding, step, lines)));
        seeds.push(with_choice(1, &image(encoding, step, lines)));
    }
    for file in files(&tests.join("golden/compressed"), &["jpg", "png"]) {
        seeds.push(with_choice(2, &compressed("jpeg", &file)));
    }
    seeds.push(with_choice(3, &image("16UC1", 8, 4)));
    seeds.push(with_choice(3, &image("32FC1", 16, 4)));
    seeds.push(with_choice(4, &compressed("16UC1; compressedDepth rvl", &rvl())));
    seeds.push(with_choice(4, &compressed("32FC1; compressedDepth rvl", &rvl())));
    for choice in [5, 6] {
        let joints = JointState {
            stamp: STAMP,
            frame_id: "",
            name: &["b", "a", "c"],
            position: &[1.0, 2.0, 3.0],
            velocity: &[4.0, 5.0, 6.0],
            effort: &[],
        };
        seeds.push(with_choice(choice, &joints.to_cdr(Vec::new())));
    }
    seeds.extend(vectors());
    for cloud in clouds() {
        seeds.push(with_choice(14, &cloud));
        seeds.push(with_choice(17, &cloud));
    }
    seeds.push(with_choice(15, &scan()));
    seeds.push(with_choice(18, &scan()));
    seeds.push(with_choice(16, &plan()));
    let (stamp, frame_id, position) = (STAMP, "base_link", [1.0, 2.0, 3.0]);
    let orientation = [0.0, 0.0, 0.6, 0.8];
    let pose = PoseStamped { stamp, frame_id, position, orientation };
    seeds.push(with_choice(19, &pose.to_cdr(Vec::new())));
    seeds.push(with_choice(20, &image("rgb8", 12, 4)));
    seeds.push(with_choice(21, &transforms()));
    seeds.push(with_choice(22, &transforms()));
    seeds.extend(cameras().iter().map(|camera| with_choice(23, camera)));
    seeds
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

/// Cameras of every model, for images of 4x4 pixels.
fn cameras() -> Vec<Vec<u8>> {
    let camera = |distortion_model, d, binning, roi| {
        let k = [5.0, 0.0, 2.0, 0.0, 5.0, 2.0, 0.0, 0.0, 1.0];
        let p = [4.0, 0.0, 2.0, 0.0, 0.0, 4.0, 2.0, 0.0, 0.0, 0.0, 1.0, 0.0];
        let (stamp, frame_id, height, width, r) = (STAMP, "camera", 4, 4, [0.0; 9]);
        let info = CameraInfo {
            stamp,
            frame_id,
            height,
            width,
            distortion_model,
            d,
            k,
            r,
            p,
            binning,
            roi,
        };
        info.to_cdr(Vec::new())
    };
    vec![
        camera("plumb_bob", &[-0.3, 0.1, 0.001, 0.002, 0.01], [0, 0], [0; 4]),
        camera("rational_polynomial", &[0.01; 14], [1, 1], [0; 4]),
        camera("equidistant", &[0.01; 4], [1, 1], [0, 0, 4, 4]),
        camera("", &[], [0, 0], [0; 4]),
        camera("plumb_bob", &[0.1; 4], [2, 2], [1, 1, 3, 3]),
    ]
}

/// `tf2_msgs/msg/TFMessage`
fn transforms() -> Vec<u8> {
    let mut writer = Writer::new();
    writer.u32(2);
    for (frame, child) in [("map", "odom"), ("odom", "base_link")] {
        writer.header(STAMP, frame);
        writer.string(child);
        writer.f64_array(&[1.0, 2.0, 3.0, 0.0, 0.0, 0.6, 0.8]);
    }
    writer.finish()
}

fn vectors() -> Vec<Vec<u8>> {
    let (stamp, frame_id) = (STAMP, "base_link");
    let orientation = [0.0, 0.0, 0.6, 0.8];
    let (one, two) = ([1.0, 2.0, 3.0], [4.0, 5.0, 6.0]);
    let imu = Imu { stamp, frame_id, orientation, angular_velocity: one, linear_acceleration: two };
    let numbers = |count: usize| {
        let mut writer = Writer::new();
        writer.header(stamp, frame_id);
        writer.f64_array(&orientation.repeat(20)[..count]);
        writer.finish()
    };
    let position = one;
    let odometry = Odometry {
        stamp,
        frame_id,
        child_frame_id: "base",
        position,
        orientation,
        linear: one,
        angular: two,
    };
    vec![
        with_choice(7, &imu.to_cdr(Vec::new())),
        with_choice(8, &numbers(12)),
        with_choice(9, &WrenchStamped { stamp, frame_id, force: one, torque: two }.to_cdr(vec![])),
        with_choice(10, &PoseStamped { stamp, frame_id, position, orientation }.to_cdr(vec![])),
        with_choice(11, &numbers(43)),
        with_choice(
            12,
            &TwistStamped { stamp, frame_id, linear: one, angular: two }.to_cdr(vec![]),
        ),
        with_choice(13, &odometry.to_cdr(Vec::new())),
    ]
}

/// Clouds in both byte orders, organised and not.
fn clouds() -> Vec<Vec<u8>> {
    let field = |name, offset, datatype| PointField { name, offset, datatype, count: 1 };
    let fields = [field("x", 0, 7), field("y", 4, 7), field("z", 8, 7), field("intensity", 12, 7)];
    let cloud = |height: u32, is_bigendian: bool| {
        let (width, point_step) = (6, 16);
        let row_step = width * point_step;
        let cloud = PointCloud2 {
            stamp: STAMP,
            frame_id: "lidar",
            height,
            width,
            fields: &fields,
            is_bigendian,
            point_step,
            row_step,
            is_dense: true,
        };
        cloud.to_cdr(Vec::new(), |data| {
            let order = if is_bigendian { f32::to_be_bytes } else { f32::to_le_bytes };
            data.extend((0..4 * width * height).flat_map(|at| order(at as f32 / 50.0)));
        })
    };
    vec![cloud(1, false), cloud(2, true)]
}

fn compressed(format: &str, data: &[u8]) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.header(STAMP, "camera");
    writer.string(format);
    writer.bytes(data);
    writer.finish()
}

/// The header of inverse depth, and 2x1 pixels: a run of one zero, and a run of one pixel of 5.
fn rvl() -> Vec<u8> {
    let parameters = [10_100f32, 1.0].map(f32::to_le_bytes).concat();
    let size = [2u32, 1].map(u32::to_le_bytes).concat();
    [&[0; 4][..], &parameters, &size, &0x11A1_0000u32.to_le_bytes()].concat()
}

fn depth(tests: &Path) -> Vec<Vec<u8>> {
    let deep = fs::read(tests.join("golden/compressed/deep.png")).expect("a PNG file");
    let behind_header = [&rvl()[..12], &deep].concat();
    vec![
        with_choice(0, &behind_header),
        with_choice(1, &rvl()),
        with_choice(2, &behind_header),
        with_choice(3, &rvl()),
        with_choice(5, &deep),
    ]
}

/// An image of 4x4 pixels of every encoding.
fn raw_images() -> Vec<Vec<u8>> {
    (0..16).map(|choice| [&[choice, choice, 4, 4, 16, 0][..], &[choice; 96]].concat()).collect()
}

const OTHERS: &str = "uint8 small\nfloat64 x\nstring<=5 name\nfloat32[<=3] some";

fn select() -> Vec<Vec<u8>> {
    let mut writer = Writer::new();
    writer.header(STAMP, "");
    writer.f64_sequence(&[1.0, 2.0]);
    writer.string_sequence(["a", "elbow"].into_iter());
    writer.f64_array(&[0.0, 0.0, 0.0]);
    let message = writer.finish();
    let definition = "std_msgs/Header header\nfloat64[] values\nstring[] names\nfloat64[3] three";
    let nested = "B[2] two\nB one\nint32 LIMIT=5\nbool[] flags";
    let seed = |definition: &str, paths: &str| {
        let text = [definition, OTHERS, paths, ""].join("\n===\n");
        [text.as_bytes(), &message].concat()
    };
    vec![
        seed(definition, "values[1]\nthree"),
        seed(definition, "values[names=\"elbow\"]\nthree[0:2]"),
        seed(nested, "two[1].x\none.some[0]"),
    ]
}

fn definitions(tests: &Path) -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for package in ["std_msgs", "geometry_msgs", "sensor_msgs", "nav_msgs", "robot_msgs"] {
        seeds.extend(files(&tests.join(format!("definitions/share/{package}/msg")), &["msg"]));
    }
    seeds.push(format!("B[2] two\nB one\nint32 LIMIT=5\n\n===\n{OTHERS}").into_bytes());
    seeds.push(b"B[2] two\n===\nB one".to_vec());
    seeds
}

fn configurations(root: &Path) -> Vec<Vec<u8>> {
    let reference = fs::read(root.join("config/robocache.yaml")).expect("the reference");
    let own = fs::read(root.join("fuzz/streams.yaml")).expect("the streams of a target");
    let bad = files(&root.join("tests/configs/bad"), &["yaml"]);
    bad.into_iter().chain([reference, own]).collect()
}
