//! Point clouds and scans.

use robocache_core::cdr::messages::{PointCloud2, PointField, TfMessage};

use super::*;

/// The keys of a stream whose row has voxels of 2 m along x.
fn cloud_keys(kind: &str, voxels: usize, channels: &str) -> String {
    format!(
        "type: sensor_msgs/{kind}, topic: /s, max_age_ms: 100, cloud: {{origin_m: [0, -1, -1], size_m: 2, \
         shape: [{voxels}, 1, 1], channels: [{channels}]}}"
    )
}

fn mean(field: &str) -> String {
    format!("{{reduce: mean, field: {field}}}")
}

/// How a driver lays out its points.
#[derive(Clone, Copy)]
struct Layout<'a> {
    /// Name, offset and datatype.
    fields: &'a [(&'a str, u32, u8)],
    /// Points in a row, and rows.
    size: [u32; 2],
    steps: [u32; 2],
}

const XYZI: Layout<'_> = Layout {
    fields: &[("x", 0, 7), ("y", 4, 7), ("z", 8, 7), ("intensity", 12, 7)],
    size: [2, 1],
    steps: [16, 32],
};

impl Layout<'_> {
    /// A cloud with these bytes.
    fn message(&self, data: &[u8]) -> Vec<u8> {
        let field = |&(name, offset, datatype)| PointField { name, offset, datatype, count: 1 };
        let fields: Vec<_> = self.fields.iter().map(field).collect();
        let cloud = PointCloud2 {
            stamp: NOW,
            frame_id: "base",
            height: self.size[1],
            width: self.size[0],
            fields: &fields,
            is_bigendian: false,
            point_step: self.steps[0],
            row_step: self.steps[1],
            is_dense: true,
        };
        cloud.to_cdr(Vec::new(), |bytes| bytes.extend_from_slice(data))
    }
}

/// A point of `size` bytes with these bytes at these offsets; the others are no part of it.
fn point(size: usize, parts: &[(usize, &[u8])]) -> Vec<u8> {
    let mut point = vec![0xEE; size];
    for (offset, bytes) in parts {
        point[*offset..offset + bytes.len()].copy_from_slice(bytes);
    }
    point
}

/// x, y and z of a point in the voxel `at`.
fn place(at: usize) -> Vec<u8> {
    [2.0 * at as f32 + 1.0, 0.0, 0.0].into_iter().flat_map(f32::to_le_bytes).collect()
}

fn float(number: f32) -> [u8; 4] {
    number.to_le_bytes()
}

/// realsense-ros#1667: 640 x 480 points, each in the voxel of its column. The row counts them.
fn whole_cloud(row_step: u32, cut: usize, expected: Answer) -> Case {
    let layout = Layout { size: [640, 480], steps: [16, row_step], ..XYZI };
    let data: Vec<u8> = (0..640 * 480)
        .flat_map(|at| point(16, &[(0, &place(at % 640)), (12, &float((at / 640) as f32))]))
        .collect();
    let keys = cloud_keys("PointCloud2", 640, &format!("{{reduce: count}}, {}", mean("intensity")));
    let message = layout.message(&data[..data.len() - cut]);
    case("realsense-ros#1667, zed-ros-wrapper#258", keys, to_s([message]), expected)
}

#[test]
fn layouts() {
    // The fields end 12 bytes before the next point.
    let padded = Layout {
        fields: &[("x", 0, 7), ("y", 4, 7), ("z", 8, 7), ("intensity", 32, 7)],
        steps: [48, 96],
        ..XYZI
    };
    let padded_data =
        [0, 1].map(|at| point(48, &[(0, &place(at)), (32, &float(at as f32 + 5.0))])).concat();
    // The field at 32 is listed before the one at 16.
    let swapped = Layout {
        fields: &[("x", 0, 7), ("y", 4, 7), ("z", 8, 7), ("intensity", 32, 7), ("normal_x", 16, 7)],
        size: [1, 1],
        steps: [48, 48],
    };
    let swapped_data = point(48, &[(0, &place(0)), (16, &float(0.25)), (32, &float(70.0))]);
    // PointXYZIRCAEDT of Autoware.
    let autoware = Layout {
        fields: &[
            ("x", 0, 7),
            ("y", 4, 7),
            ("z", 8, 7),
            ("intensity", 12, 2),
            ("return_type", 13, 2),
            ("channel", 14, 4),
            ("azimuth", 16, 7),
            ("elevation", 20, 7),
            ("distance", 24, 7),
            ("time_stamp", 28, 6),
        ],
        size: [1, 1],
        steps: [32, 32],
    };
    let autoware_data =
        point(32, &[(0, &place(0)), (12, &[200, 3, 127, 1]), (28, &90_000_000u32.to_le_bytes())]);
    let autoware_fields = ["intensity", "return_type", "channel"].map(mean).join(", ")
        + ", {reduce: max, field: time_stamp}";
    let counts = [vec![480.0; 640], vec![239.5; 640]].concat();
    check(vec![
        case(
            "common_interfaces#197, #223",
            cloud_keys("PointCloud2", 2, &mean("intensity")),
            to_s([padded.message(&padded_data)]),
            value([5.0, 6.0]),
        ),
        case(
            "ros_numpy#40",
            cloud_keys("PointCloud2", 1, &format!("{}, {}", mean("intensity"), mean("normal_x"))),
            to_s([swapped.message(&swapped_data)]),
            value([70.0, 0.25]),
        ),
        whole_cloud(10_240, 0, value(counts.clone())),
        whole_cloud(16 * 640 * 480, 0, value(counts.clone())),
        whole_cloud(0, 0, value(counts)),
        // Other lengths do not say what the rows are.
        whole_cloud(16 * 640 * 480, 1, dropped(&[DropReason::Malformed])),
        case(
            "autoware PointXYZIRCAEDT",
            cloud_keys("PointCloud2", 1, &autoware_fields),
            to_s([autoware.message(&autoware_data)]),
            value([200.0, 3.0, 383.0, 90_000_000.0]),
        ),
    ]);
}

#[test]
fn times_of_rays_and_of_a_gyro() {
    // Three rays ahead, 0.1 ms apart. The first is at the stamp.
    let mut scan = begun(10, "base");
    [0.0, 0.0, 0.0, 0.000_1, 0.1, 0.1, 30.0].into_iter().for_each(|number| scan.f32(number));
    scan.f32_sequence([1.0f32, 3.0, 5.0].into_iter());
    scan.f32_sequence([].into_iter());
    let times = value([0.0, 0.000_1, 0.000_2]);

    // The velocity changes from 1 rad/s at -10 ms to 3 rad/s at 5 ms: on average 2 rad/s between them.
    let gyro = |ms: i64, rate: f64| {
        let mut writer = begun(-ms, "imu");
        writer.f64_array(&[0.0; 4 + 9]);
        writer.f64_array(&[0.0, 0.0, rate]);
        writer.f64_array(&[0.0; 9 + 3 + 9]);
        ("deskew.gyro[0]", writer.finish())
    };
    let swept = Layout {
        fields: &[("x", 0, 7), ("y", 4, 7), ("z", 8, 7), ("t", 12, 6)],
        size: [1, 1],
        steps: [16, 16],
    };
    let data = point(16, &[(0, &place(5)), (12, &5_000_000u32.to_le_bytes())]);
    let channels = format!("{}, {}", mean("x"), mean("y"));
    let keys = cloud_keys("PointCloud2", 6, &channels)
        + ", deskew: {gyro: /imu, sensor: ouster, span_ms: [0, 5]}";
    let (sin, cos) = 0.01f32.sin_cos();
    let last = |number: f32| [0.0, 0.0, 0.0, 0.0, 0.0, number];
    let turned = value([last(11.0 * cos), last(11.0 * sin)].concat());
    // A fixed transform may have any stamp.
    let fixed = TfMessage {
        stamp: Stamp::from_nanos(-1),
        frame_id: "base",
        child_frame_id: "imu",
        translation: [0.0; 3],
        rotation: [0.0, 0.0, 0.0, 1.0],
    };
    let fixed = ("tf_static", fixed.to_cdr(Vec::new()));
    let given = vec![fixed, gyro(-10, 1.0), gyro(5, 3.0), ("s", swept.message(&data))];
    check(vec![
        case(
            "laser_filters#184",
            cloud_keys("LaserScan", 3, "{reduce: max, field: t}"),
            to_s([scan.finish()]),
            times,
        ),
        Case { within: 1e-5, ..case("autoware#11055", keys, given, turned) },
    ]);
}
