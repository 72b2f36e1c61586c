//! Tests of the meaning of valid configurations.

mod hostile;
mod sharing;

use super::*;
use crate::encoder::EncoderSpec;
use crate::layout::Layout;
use crate::spec::{Durability, Qos, Reliability, RingId, Selection, Timeline};
use robocache_ops::align::{Fill, Strategy};
use robocache_ops::align::{MergeSpec, ValidWhen};
use robocache_ops::depth::DepthSpec;
use robocache_ops::dtype::DType;
use robocache_ops::image::{Color, Fit, ImageSpec, Resize};
use robocache_ops::operators::VectorSpec;
use robocache_ops::resample::Lane;
use robocache_ops::voxelize::{Grid, IDENTITY, Reduction, VoxelSpec};

pub(super) const REFERENCE: &str = include_str!("../../../../config/robocache.yaml");

/// The reference with its commands, which are a comment in it.
pub(super) fn reference_with_commands() -> String {
    let (streams, commands) = REFERENCE.split_once("# commands:\n").unwrap();
    let uncommented = |line: &str| line.strip_prefix("# ").map(|line| format!("{line}\n"));
    let commands: String = commands.lines().map_while(uncommented).collect();
    format!("{streams}commands:\n{commands}")
}

/// The only stream of a configuration at 100 Hz, given as `key: value` lines, and its only input.
fn stream(lines: &[&str]) -> (StreamSpec, InputSpec) {
    let body: String = lines.iter().map(|line| format!("    {line}\n")).collect();
    let text = format!("rate_hz: 100\nstreams:\n  s:\n    max_age_ms: 50\n{body}");
    let mut config = parse(&text, "test.yaml").unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!((config.streams.len(), config.inputs.len()), (1, 1));
    (config.streams.remove(0), config.inputs.remove(0))
}

/// Quality of service that a subscription asks for if the configuration says no durability.
fn qos(reliability: Reliability, depth: usize) -> Qos {
    Qos { reliability, durability: Durability::Auto, depth }
}

fn vector(ros_type: &str, more: &[&str]) -> (StreamSpec, VectorSpec, InputSpec) {
    let ros_type = format!("type: {ros_type}");
    let topic = "topic: /t";
    let (spec, input) = stream(&[&[ros_type.as_str(), topic], more].concat());
    let EncoderSpec::Vector(vector) = spec.encoder.clone() else { panic!("not a vector") };
    (spec, vector, input)
}

fn lanes(vector: &VectorSpec) -> Vec<Lane> {
    vector.channels.iter().map(|channel| channel.lane).collect()
}

fn names(vector: &VectorSpec) -> Vec<&str> {
    vector.channels.iter().map(|channel| channel.name.as_str()).collect()
}

fn image(image: &str, more: &[&str]) -> (StreamSpec, ImageSpec, InputSpec) {
    let lines = ["type: sensor_msgs/Image", "topic: /t", &format!("image: {image}")];
    let (spec, input) = stream(&[&lines, more].concat());
    let EncoderSpec::Image(image) = spec.encoder.clone() else { panic!("not an image") };
    (spec, image, input)
}

fn cloud(more: &str) -> (StreamSpec, VoxelSpec, InputSpec) {
    let (spec, input) = stream(&[
        "type: sensor_msgs/PointCloud2",
        "topic: /t",
        "cloud:",
        "  origin_m: [-3.2, 0, 1]",
        "  size_m: 0.1",
        "  shape: [4, 5, 6]",
        "  channels: [{reduce: count}, {reduce: max, field: intensity}]",
        more,
    ]);
    let EncoderSpec::Voxels(cloud) = spec.encoder.clone() else { panic!("not a cloud") };
    (spec, cloud, input)
}

#[test]
fn defaults_of_the_top_level() {
    let text = "rate_hz: 30\nstreams: {w: {type: geometry_msgs/msg/WrenchStamped, topic: w, \
                max_age_ms: 1}}";
    let config = parse(text, "test.yaml").unwrap();
    assert_eq!((config.rate_hz, config.grid.period_ns()), (30.0, 33_333_333));
    assert_eq!((config.streams[0].lag_ns, config.inputs[0].timeline), (0, Timeline::Header));
    assert_eq!(
        (config.base_frame.as_str(), config.output_topic.as_str()),
        ("base_link", "fused_tensor")
    );
    assert_eq!(config.streams[0].dtype, DType::F32);
}

#[test]
fn defaults_of_a_vector_stream() {
    let (spec, vector, input) = vector("geometry_msgs/WrenchStamped", &[]);
    assert_eq!(spec.name, "s");
    assert_eq!(spec.strategy(), Strategy::Linear);
    assert_eq!((spec.history_steps, spec.history_step_ns), (1, 0));
    assert_eq!((spec.rule.max_age_ns, spec.rule.max_gap_ns), (50_000_000, 100_000_000));
    let filled = (spec.rule.fill, spec.required, input.stamp_offset_ns);
    assert_eq!(filled, (Fill::Zero, false, 0));
    assert_eq!((spec.dtype, spec.ring_rows), (DType::F32, 1024));
    assert_eq!(input.qos, qos(Reliability::Auto, 256));
    assert_eq!((input.frame_id, input.expected_rate_hz), (None, None));
    assert_eq!(input.selection, Selection::Fields(vec!["force".into(), "torque".into()]));
    assert_eq!(lanes(&vector), [Lane::Linear; 6]);
    let expected = ["force.x", "force.y", "force.z", "torque.x", "torque.y", "torque.z"];
    assert_eq!(names(&vector), expected);
    assert_eq!(vector.groups.len(), 1);
}

#[test]
fn times_become_whole_nanoseconds() {
    let (spec, _, input) = vector(
        "geometry_msgs/TwistStamped",
        &["history: {steps: 3, step_ms: 0.5}", "max_gap_ms: 0.0000014", "stamp_offset_ms: -1.25"],
    );
    assert_eq!((spec.history_steps, spec.history_step_ns), (3, 500_000));
    assert_eq!(spec.rule.max_gap_ns, 1);
    assert_eq!(input.stamp_offset_ns, -1_250_000);
    let longest = "lag_ms: 1000000000\n".to_owned() + REFERENCE;
    let longest = longest.replace("\nlag_ms: 20\n", "\n").replace("expected_rate_hz", "# rate");
    let longest = parse(&longest, "test.yaml").unwrap();
    assert!(longest.streams.iter().all(|stream| stream.lag_ns == 1_000_000_000_000_000));
}

#[test]
fn a_stream_may_have_its_own_lag_and_an_input_its_own_timeline() {
    let text = "rate_hz: 100
lag_ms: 20
timeline: receive
streams:
  a: {type: sensor_msgs/Imu, topic: a, max_age_ms: 1}
  b: {type: sensor_msgs/Imu, topic: b, max_age_ms: 1, lag_ms: 2.5, timeline: header}
  c:
    type: sensor_msgs/JointState
    max_age_ms: 1
    lag_ms: 0
    joints: [j]
    inputs: [{topic: c}, {topic: d, timeline: header}]
  e:
    type: sensor_msgs/JointState
    max_age_ms: 1
    timeline: header
    joints: [j]
    inputs: [{topic: e}, {topic: f, timeline: receive}]
";
    let config = parse(text, "test.yaml").unwrap();
    let lags: Vec<_> = config.streams.iter().map(|stream| stream.lag_ns).collect();
    assert_eq!(lags, [20_000_000, 2_500_000, 0, 20_000_000]);
    use Timeline::{Header, Receive};
    let timelines: Vec<_> = config.inputs.iter().map(|input| input.timeline).collect();
    assert_eq!(timelines, [Receive, Header, Receive, Header, Header, Receive]);
}

/// An `i64` of nanoseconds holds the sum of the longest lag and the longest history.
#[test]
fn the_longest_times_together_need_more_rows_than_a_ring_can_have() {
    let text = "rate_hz: 0.1
lag_ms: 1000000000
streams:
  s:
    type: sensor_msgs/Imu
    topic: t
    max_age_ms: 1000000000
    stamp_offset_ms: -1000000000
    history: {steps: 1024, step_ms: 1000000000}
    expected_rate_hz: 100000
    ring_rows: 1048576
";
    let error = parse(text, "t.yaml").unwrap_err().to_string();
    let expected = "t.yaml:11: streams.s.ring_rows: expected at least 102400001000002 rows, to \
                    reach back over lag and history (1024000000000 ms) at 100000 Hz, found 1048576";
    assert_eq!(error, expected);
    let at_any_rate = text.replace("    expected_rate_hz: 100000\n", "");
    let config = parse(&at_any_rate, "t.yaml").unwrap();
    assert_eq!(config.streams[0].rule.max_gap_ns, 2_000_000_000_000_000);
    hostile::assert_read(&at_any_rate);
    let longer = parse(&text.replace("1000000000", "1000000001"), "t.yaml").unwrap_err();
    assert_eq!(longer.to_string().matches("expected a number of at most 1000000000,").count(), 3);
}

#[test]
fn joint_state_lanes_follow_fields_then_joints() {
    let (_, vector, input) = vector(
        "sensor_msgs/msg/JointState",
        &["joints: [b, a, c]", "fields: [velocity, position]", "angular: [a]"],
    );
    assert_eq!(input.ros_type, "sensor_msgs/msg/JointState");
    let expected =
        ["b.velocity", "a.velocity", "c.velocity", "b.position", "a.position", "c.position"];
    assert_eq!(names(&vector), expected);
    use Lane::{Angular, Linear};
    assert_eq!(lanes(&vector), [Linear, Linear, Linear, Linear, Angular, Linear]);
    let (_, vector, _) = self::vector("sensor_msgs/JointState", &["joints: [a]"]);
    assert_eq!(names(&vector), ["a.position"]);
}

#[test]
fn a_row_of_joints_has_angles_quaternions_and_held_numbers() {
    use Lane::{Angular, Held, Linear, Quaternion};
    let (_, vector, _) = vector(
        "sensor_msgs/JointState",
        &[
            "joints: [x, yaw, qx, qy, qz, qw, gripper]",
            "fields: [position, velocity]",
            "angular: [yaw]",
            "quaternions: [[qx, qy, qz, qw]]",
            "held: [gripper]",
        ],
    );
    let expected = [Linear, Angular, Quaternion, Quaternion, Quaternion, Quaternion, Held];
    assert_eq!(lanes(&vector)[..7], expected);
    assert_eq!(lanes(&vector)[7..], [Linear; 7]);
}

#[test]
fn groups_are_laid_out_as_if_they_were_one_list_of_joints() {
    let text = "rate_hz: 100
streams:
  s:
    type: sensor_msgs/JointState
    max_age_ms: 50
    qos: {reliability: reliable}
    stamp_offset_ms: 1
    fields: [position, velocity]
    groups: {arm: [a, b], gripper: [g]}
    inputs:
      - {topic: /arm, expected_rate_hz: 100}
      - {topic: /gripper, stamp_offset_ms: -2, qos: {depth: 3}}
";
    let config = parse(text, "test.yaml").unwrap();
    let EncoderSpec::Vector(vector) = &config.streams[0].encoder else { panic!("a vector") };
    let expected =
        ["a.position", "b.position", "g.position", "a.velocity", "b.velocity", "g.velocity"];
    assert_eq!(names(vector), expected);
    let groups: Vec<_> = vector.groups.iter().map(|group| group.channels.as_slice()).collect();
    assert_eq!(groups, [&[0, 1, 3, 4][..], &[2, 5]]);
    let [arm, gripper] = config.inputs.as_slice() else { panic!("two inputs") };
    assert_eq!((arm.name.as_str(), gripper.name.as_str()), ("s[0]", "s[1]"));
    assert_eq!((arm.topic.as_str(), gripper.topic.as_str()), ("/arm", "/gripper"));
    assert_eq!((arm.stamp_offset_ns, gripper.stamp_offset_ns), (1_000_000, -2_000_000));
    assert_eq!(arm.qos, qos(Reliability::Reliable, 256));
    assert_eq!(gripper.qos, qos(Reliability::Reliable, 3));
    // Either topic may carry either group.
    assert_eq!((&arm.feeds, &arm.selection), (&gripper.feeds, &gripper.selection));
    let layout = Layout::new(&config);
    let runs = |ring: usize| -> Vec<_> {
        let run = |run: &robocache_ops::packing::Run| (run.row_at, run.step_at, run.len);
        layout.rings()[ring].runs.iter().map(run).collect()
    };
    assert_eq!((runs(0), runs(1)), (vec![(0, 0, 2), (2, 3, 2)], vec![(0, 2, 1), (1, 5, 1)]));
}

#[test]
fn inputs_of_clouds_have_their_own_types_times_and_limits() {
    let text = "
rate_hz: 100
tf: {}
streams:
  cells:
    type: sensor_msgs/PointCloud2
    max_age_ms: 100
    valid_when: [/rear, /scan]
    t_base_sensor: tf
    expected_rate_hz: 10
    inputs:
      - {topic: /front, deskew: {fixed_frame: odom, sensor: ouster}}
      - {topic: /rear, max_age_ms: 150, t_base_sensor: {translation_m: [1, 2, 3]}}
      - {topic: /scan, type: sensor_msgs/LaserScan, max_age_ms: 20}
    cloud: &cloud
      origin_m: [0, 0, 0]
      size_m: 1
      shape: [2, 2, 2]
      channels: [{reduce: mean, field: intensity}, {reduce: max, feature: range}]
  one:
    type: sensor_msgs/PointCloud2
    max_age_ms: 100
    inputs: [{topic: /front}]
    cloud: *cloud
  short:
    type: sensor_msgs/PointCloud2
    max_age_ms: 100
    valid_when: [/front]
    inputs: [{topic: /front, max_age_ms: 60}]
    cloud: *cloud
  long: {type: sensor_msgs/PointCloud2, max_age_ms: 100, inputs: [{topic: /front, max_age_ms: 160}], cloud: *cloud}
  topic: {type: sensor_msgs/PointCloud2, max_age_ms: 100, topic: /front, cloud: *cloud}
  eight:
    type: sensor_msgs/PointCloud2
    max_age_ms: 100
    valid_when: any
    inputs: [{topic: /a}, {topic: /b}, {topic: /c}, {topic: /d}, {topic: /e}, {topic: /f}, {topic: /g}, {topic: /h}]
    cloud: *cloud
";
    let config = parse(text, "test.yaml").unwrap();
    let [cells, one, short, long, topic, eight] = &config.streams[..] else {
        panic!("six streams")
    };
    let ms = |ms: i64| ms * 1_000_000;
    let merge = |spec: &StreamSpec| spec.merge.clone().unwrap();
    let valid_when = ValidWhen::Listed(6);
    assert_eq!(merge(cells), MergeSpec { max_age_ns: vec![ms(100), ms(150), ms(20)], valid_when });
    assert_eq!(merge(eight).valid_when, ValidWhen::Any);
    // One input is merged with nothing.
    let limits = [(one, 100), (short, 60), (long, 100), (topic, 100)];
    for (spec, max_age_ms) in limits {
        assert_eq!((&spec.merge, spec.rule.max_age_ns), (&None, ms(max_age_ms)), "{}", spec.name);
    }
    assert_eq!((one.bounds.max_points, eight.bounds.max_points), (1 << 20, 1 << 19));
    assert_eq!(eight.of_rows().bounds.max_points, 1 << 22);
    let [front, rear, scan] = &config.inputs[..3] else { panic!("three inputs") };
    let types = [front, rear, scan].map(|input| input.ros_type.as_str());
    let [cloud, laser] = ["sensor_msgs/msg/PointCloud2", "sensor_msgs/msg/LaserScan"];
    assert_eq!(types, [cloud, cloud, laser]);
    let times = [front, rear, scan].map(|input| match &input.selection {
        Selection::Points { time, extra, .. } => (time.as_deref(), extra.len()),
        other => panic!("{other:?}"),
    });
    assert_eq!(times, [(Some("t"), 1), (None, 1), (None, 1)]);
    assert_eq!([front, rear, scan].map(|input| input.in_frame.is_some()), [true, false, true]);
    assert_eq!(rear.t_base_sensor.map(|row| row[3]), [1.0, 2.0, 3.0]);
    assert_eq!(
        [front, rear, scan].map(|input| input.feeds.clone()),
        [0; 3].map(|_| vec![RingId::new(0)])
    );
    // The backend gets points in the grid, whose features are fields.
    let EncoderSpec::Voxels(rows) = &cells.of_rows().encoder else { panic!("voxels") };
    let fields = [Reduction::Mean("0".into()), Reduction::Max("1".into())];
    assert_eq!((rows.grid.origin_m, rows.channels.as_slice()), ([0.0; 3], &fields[..]));
}

#[test]
fn orientations_are_quaternion_lanes_and_slerp() {
    let (spec, vector, _) = vector("sensor_msgs/Imu", &[]);
    assert_eq!(spec.strategy(), Strategy::Slerp);
    assert_eq!(lanes(&vector)[..4], [Lane::Quaternion; 4]);
    assert_eq!(lanes(&vector)[4..], [Lane::Linear; 6]);
    let (spec, vector, _) = self::vector("nav_msgs/Odometry", &["fields: [linear, orientation]"]);
    assert_eq!(spec.strategy(), Strategy::Slerp);
    assert_eq!(lanes(&vector)[..3], [Lane::Linear; 3]);
    assert_eq!(lanes(&vector)[3..], [Lane::Quaternion; 4]);
    let (spec, vector, _) = self::vector("geometry_msgs/PoseStamped", &["fields: [position]"]);
    assert_eq!((spec.strategy(), vector.channels.len()), (Strategy::Linear, 3));
    let (spec, _, _) = self::vector("sensor_msgs/Imu", &["strategy: nearest"]);
    assert_eq!(spec.strategy(), Strategy::Nearest);
}

#[test]
fn defaults_of_an_image_stream() {
    let (spec, image, input) = image("{resize: {width: 32, height: 16}}", &[]);
    assert_eq!((spec.strategy(), spec.ring_rows), (Strategy::Hold, 16));
    assert_eq!(input.qos, qos(Reliability::Auto, 8));
    assert_eq!(spec.encoder.row_shape(), [3, 16, 32]);
    assert_eq!(
        (image.resizes.as_slice(), image.color),
        ([Resize::to(32, 16)].as_slice(), Color::Rgb)
    );
    assert_eq!((image.mean, image.std), ([0.0; 3], [1.0; 3]));
    assert_eq!(spec.bounds.image_px(), [3840, 2160]);
    let (spec, _, _) = self::image(
        "{resize: {width: 2, height: 2}, max_width_px: 640, max_height_px: 16384}",
        &[],
    );
    assert_eq!(spec.bounds.image_px(), [640, 16384]);
}

#[test]
fn a_mono_image_takes_one_number() {
    let (spec, image, input) = image(
        "{resize: {width: 2, height: 2, fit: crop_center}, color: mono, mean: [0.5], std: [0.25], pad_value: 255}",
        &["dtype: f16", "qos: {reliability: reliable, depth: 3}", "fill: last", "required: true"],
    );
    assert_eq!(spec.encoder.row_shape(), [1, 2, 2]);
    assert_eq!((image.mean, image.std), ([0.5; 3], [0.25; 3]));
    assert_eq!((image.pad_value, image.last().fit), (255, Fit::CropCenter));
    assert_eq!((spec.dtype, input.qos), (DType::F16, qos(Reliability::Reliable, 3)));
    assert_eq!((spec.rule.fill, spec.required), (Fill::Last, true));
}

#[test]
fn a_grid_is_channels_z_y_x_and_untransformed_by_default() {
    let (spec, cloud, input) = cloud("");
    assert_eq!(spec.encoder.row_shape(), [2, 6, 5, 4]);
    assert_eq!(cloud.grid, Grid { origin_m: [-3.2, 0.0, 1.0], size_m: 0.1, shape: [4, 5, 6] });
    assert_eq!(cloud.channels, [Reduction::Count, Reduction::Max("intensity".into())]);
    assert_eq!(input.t_base_sensor, IDENTITY);
    assert_eq!(spec.bounds.max_points, 1_048_576);
    assert_eq!(self::cloud("  max_points: 4194304").0.bounds.max_points, 4_194_304);
}

/// Within an ulp or two: the two sides round different formulas.
fn assert_close(found: [[f64; 4]; 3], expected: [[f64; 4]; 3]) {
    for (found, expected) in found.as_flattened().iter().zip(expected.as_flattened()) {
        assert!((found - expected).abs() <= 1.2e-7 * expected.abs().max(0.1), "{found} {expected}");
    }
}

#[test]
fn transforms_are_those_of_scipy() {
    // scipy 1.x: Rotation.from_euler("xyz", [10, -20, 30], degrees=True).as_matrix(), in float32.
    let (_, _, input) =
        cloud("t_base_sensor: {rotation_rpy_deg: [10, -20, 30], translation_m: [0.3, 0, 0.5]}");
    assert_close(
        input.t_base_sensor,
        [
            [0.81379765, -0.54383814, -0.20487413, 0.3],
            [0.4698463, 0.8231729, -0.31879577, 0.0],
            [0.34202015, 0.16317591, 0.9254166, 0.5],
        ],
    );
    // Rotation.from_quat([0.1, 0.2, -0.3, 0.9273618495495704]).as_matrix(). Both sides normalise
    // first, so a length of 1.0005 makes no difference.
    for scale in [1.0, 1.0005] {
        let [x, y, z, w] = [0.1, 0.2, -0.3, 0.9273618495495704].map(|q: f64| q * scale);
        let (_, _, input) = cloud(&format!(
            "t_base_sensor: {{rotation_xyzw: [{x}, {y}, {z}, {w}], translation_m: [1, -2, 3]}}"
        ));
        assert_close(
            input.t_base_sensor,
            [
                [0.74, 0.5964171, 0.31094474, 1.0],
                [-0.5164171, 0.8, -0.30547237, -2.0],
                [-0.43094474, 0.06547237, 0.9, 3.0],
            ],
        );
    }
}

#[test]
fn the_ring_must_cover_lag_history_one_tick_and_a_bracket() {
    let lines = |rows| {
        format!(
            "rate_hz: 100\nlag_ms: 20\nstreams: {{s: {{type: sensor_msgs/Imu, topic: t, \
             max_age_ms: 50, history: {{steps: 16, step_ms: 10}}, expected_rate_hz: 200, \
             ring_rows: {rows}}}}}"
        )
    };
    // (20 + 150 + 10) ms at 200 Hz are 36 rows, and two around the oldest target.
    assert!(parse(&lines(38), "test.yaml").is_ok());
    assert!(parse(&lines(37), "test.yaml").is_err());
    // The stream's own lag counts, and not that of the others.
    let own = |lag: &str| lines(37).replace("topic: t,", &format!("topic: t, lag_ms: {lag},"));
    assert!(parse(&own("15"), "test.yaml").is_ok());
    assert!(parse(&own("25").replace("37", "38"), "test.yaml").is_err());
}

/// The fuzz targets are not built by the tests; their configuration must stay valid.
#[test]
fn the_streams_that_are_fuzzed_are_valid() {
    let definitions = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/definitions");
    let text = include_str!("../../../../fuzz/streams.yaml");
    parse_with(text, "streams.yaml", &Prefixes::new(vec![definitions])).unwrap();
}

#[test]
fn the_reference_configurations_are_what_they_say() {
    let config = parse(REFERENCE, "robocache.yaml").unwrap();
    let names: Vec<_> = config.streams.iter().map(|stream| stream.name.as_str()).collect();
    assert_eq!(names, ["camera_front", "camera_wrist", "lidar", "joints", "wrench", "imu"]);
    assert_eq!(config.rate_hz, 100.0);
    assert!(config.streams.iter().all(|stream| stream.lag_ns == 20_000_000));
    assert!(config.inputs.iter().all(|input| input.qos.reliability == Reliability::Auto));
    let bytes = Layout::new(&config).byte_len();
    assert!((1_050_000..1_150_000).contains(&bytes), "{bytes}");
    let isaac = parse(include_str!("../../../../config/isaac_sim.yaml"), "isaac_sim.yaml").unwrap();
    let names: Vec<_> = isaac.streams.iter().map(|stream| stream.name.as_str()).collect();
    assert_eq!(names, ["rgb", "depth", "point_cloud", "joints", "imu", "odom"]);
    let fast =
        parse(include_str!("../../../../config/joints_1khz.yaml"), "joints_1khz.yaml").unwrap();
    assert_eq!((fast.grid.period_ns(), fast.streams.len()), (1_000_000, 2));
}

/// The reference writes out some defaults. Without these lines the configuration must be the same.
#[test]
fn the_reference_writes_out_true_defaults() {
    let whole = parse(REFERENCE, "robocache.yaml").unwrap();
    let defaults = [
        "timeline: header",
        "base_frame: base_link",
        "topic: fused_tensor",
        "strategy: hold",
        "history: {steps: 1}",
        "fill: zero",
        "required: false",
        "stamp_offset_ms: 0",
        "dtype: bf16",
        "ring_rows: 16",
        "max_gap_ms: 100",
        "filter: pil_bilinear",
        "fit: pad_center",
        "crop_fraction: 1",
        "layout: chw",
        "color: rgb",
        "pad_value: 0",
        "max_width_px: 3840",
        "max_height_px: 2160",
        "max_points: 1048576",
        "rotation_xyzw: [0, 0, 0, 1]",
        "strategy: linear",
        "strategy: slerp",
        "fields: [orientation, angular_velocity, linear_acceleration]",
    ];
    let lines = REFERENCE.lines();
    let mut removed = 0;
    let mut seen_output_dtype = false;
    let shorter: Vec<_> = lines
        .filter(|line| {
            // The first `dtype` is that of the output, which is not at its default.
            let first_dtype = line.trim() == "dtype: bf16" && !seen_output_dtype;
            seen_output_dtype |= first_dtype;
            let is_default = defaults.contains(&line.trim()) && !first_dtype;
            removed += usize::from(is_default);
            !is_default
        })
        .collect();
    assert_eq!(removed, defaults.len() + 1, "`strategy: linear` is there twice");
    assert_eq!(parse(&shorter.join("\n"), "robocache.yaml").unwrap(), whole);
}

#[test]
fn unreadable_files_are_reported() {
    let missing = load(Path::new("no/such/file.yaml")).unwrap_err().to_string();
    assert!(missing.starts_with("no/such/file.yaml: expected a readable"), "{missing}");
    let path = std::env::temp_dir().join(format!("robocache_latin1_{}.yaml", std::process::id()));
    std::fs::write(&path, b"rate_hz: 1\n# \xE4\n").unwrap();
    let error = load(&path).unwrap_err().to_string();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(error, format!("{}:2: expected UTF-8 text, found the byte 0xe4", path.display()));
}

#[test]
fn depth_has_its_own_keys_and_leaves_those_of_colours_in_the_defaults() {
    let text = "
rate_hz: 100
defaults:
  image:
    max_age_ms: 50
    image: {resize: {width: 8, height: 4, fit: crop_center}, mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.5]}
streams:
  plain: {type: sensor_msgs/Image, topic: /a, dtype: f16, image: {depth: {}}}
  near:
    type: sensor_msgs/CompressedImage
    topic: /b
    image: {resize: {width: 5}, depth: {unit_m: 0.0001, min_m: 0.1, max_m: 4, fill_m: -1}}
";
    let config = parse(text, "test.yaml").unwrap_or_else(|error| panic!("{error}"));
    let depth = |at: usize| match &config.streams[at].encoder {
        EncoderSpec::Depth(depth) => depth.clone(),
        other => panic!("{other:?}"),
    };
    let plain = DepthSpec {
        width: 8,
        height: 4,
        fit: Fit::CropCenter,
        unit_m: 0.001,
        min_m: 0.0,
        max_m: 65_504.0,
        fill_m: 0.0,
    };
    assert_eq!(depth(0), plain);
    let near =
        DepthSpec { width: 5, unit_m: 0.0001, min_m: 0.1, max_m: 4.0, fill_m: -1.0, ..plain };
    assert_eq!(depth(1), near);
    assert_eq!(config.streams[0].encoder.row_shape(), [1, 4, 8]);
    let largest_px = [3840, 2160];
    assert!(config.inputs.iter().all(|input| input.selection == Selection::Depth { largest_px }));
}

#[test]
fn the_newest_arrival_counts_where_stamps_do_not_order_messages() {
    let config = parse(
        "rate_hz: 100
streams:
  camera: {type: sensor_msgs/Image, topic: /c, max_age_ms: 50, image: {resize: {width: 2, height: 2}, undistort: {camera_info: /i}}}
  plan: {type: trajectory_msgs/JointTrajectory, topic: /p, max_age_ms: 50, max_gap_ms: 50, joints: [a]}
  wrench: {type: geometry_msgs/WrenchStamped, topic: /w, max_age_ms: 50, in_frame: base}
  map: {type: geometry_msgs/PoseStamped, topic: /m, max_age_ms: 50, timeline: receive, strategy: hold}
",
        "test.yaml",
    )
    .unwrap();
    let by_arrival = config.inputs.iter().filter(|input| input.newest_arrival_counts());
    let topics: Vec<&str> = by_arrival.map(|input| input.topic.as_str()).collect();
    assert_eq!(topics, ["/p", "/m", "/i"]);
}

#[test]
fn a_wait_for_transforms_that_is_not_written_is_the_shortest_lag_that_waits() {
    let config = |top: &str, lags_ms: [u32; 3]| {
        let [lidar, pose, wrench] = lags_ms;
        let text = format!(
            "rate_hz: 100\n{top}\nstreams:\n  lidar: {{type: sensor_msgs/PointCloud2, topic: /points, max_age_ms: 200, \
             lag_ms: {lidar}, t_base_sensor: tf, cloud: {{origin_m: [0, 0, 0], size_m: 1, shape: [2, 2, 2], channels: \
             [{{reduce: count}}]}}}}\n  pose: {{type: geometry_msgs/PoseStamped, topic: /pose, max_age_ms: 50, lag_ms: \
             {pose}, in_frame: map}}\n  wrench: {{type: geometry_msgs/WrenchStamped, topic: /w, max_age_ms: 50, \
             lag_ms: {wrench}}}\n"
        );
        parse(&text, "robot.yaml").unwrap_or_else(|error| panic!("{error}"))
    };
    let wait_ms = |top, lags_ms| config(top, lags_ms).tf.unwrap().wait_ns / 1_000_000;
    assert_eq!(wait_ms("", [60, 80, 5]), 60, "the wrench asks for no frame");
    assert_eq!(wait_ms("", [300, 250, 5]), 200);
    assert_eq!(
        wait_ms("", [0, 80, 5]),
        80,
        "with a wait of 0, each cloud before its transform would be lost"
    );
    assert_eq!(wait_ms("", [0, 0, 5]), 200);
    assert_eq!(wait_ms("tf: {wait_ms: 90}", [60, 80, 5]), 90);
    let none: [String; 0] = [];
    assert_eq!(config("", [60, 0, 5]).source.advice, none);
    assert_eq!(config("tf: {wait_ms: 60}", [60, 80, 5]).source.advice, none);
    let advice = config("\ntf:\n  wait_ms: 90", [60, 80, 5]).source.advice;
    let told = "robot.yaml:4: tf.wait_ms: expected at most 60 ms, the lag of streams.lidar, found 90 ms; a message that \
                waits so long for its transform comes after its tick";
    assert_eq!(advice, [told]);
}
