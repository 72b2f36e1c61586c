//! A recording gives the same bits as before: every kind of stream, strategy, element type and
//! fill.
//!
//! `tests/golden/digests.txt` has a digest per segment. If a change must alter bits, write the file
//! again with `ROBOCACHE_WRITE_DIGESTS=1 cargo test --test digests`, and say why in the commit.

use std::fmt::Write as _;
use std::sync::Arc;

use robocache_core::backend::Backend;
use robocache_core::backend::cpu::CpuBackend;
use robocache_core::config;
use robocache_core::layout::Layout;
use robocache_core::pipeline::{Arrival, Pipeline, TickOutcome};
use robocache_core::spec::{Config, InputId, SegmentId};
use robocache_ops::time::{Epoch, NANOS_PER_S, Stamp};
use robocache_sim::{Robot, Schedule, SimOptions, Stream};

const GOLDEN: &str = "tests/golden/digests.txt";
const START: Stamp = Stamp::from_nanos(1_795_000_000_000_000_000);
/// Length of the recording \[ns\].
const LENGTH_NS: i64 = NANOS_PER_S;

/// A stream of the configuration: its type's keys, its topic and its kind's strategies.
struct Kind {
    name: &'static str,
    ros_type: &'static str,
    stream: Stream,
    keys: &'static str,
    strategies: &'static [&'static str],
}

const LINEAR: &[&str] = &["hold", "nearest", "linear"];
const SLERP: &[&str] = &["hold", "nearest", "slerp"];
const ROWS: &[&str] = &["hold", "nearest"];

const KINDS: [Kind; 14] = [
    Kind {
        name: "joints",
        ros_type: "sensor_msgs/msg/JointState",
        stream: Stream::Joints,
        keys: "fields: [velocity, position, effort], joints: [joint_3, joint_0, joint_13, joint_7]",
        strategies: LINEAR,
    },
    Kind {
        name: "turning",
        ros_type: "sensor_msgs/msg/JointState",
        stream: Stream::Joints,
        keys: "joints: [joint_1, joint_2, joint_3], angular: [joint_2]",
        strategies: &["linear"],
    },
    Kind {
        name: "wrench",
        ros_type: "geometry_msgs/msg/WrenchStamped",
        stream: Stream::Wrench,
        keys: "fields: [torque, force]",
        strategies: LINEAR,
    },
    Kind {
        name: "imu",
        ros_type: "sensor_msgs/msg/Imu",
        stream: Stream::Imu,
        keys: "fields: [linear_acceleration, orientation, angular_velocity]",
        strategies: SLERP,
    },
    Kind {
        name: "pose",
        ros_type: "geometry_msgs/msg/PoseStamped",
        stream: Stream::Pose,
        keys: "fields: [position, orientation]",
        strategies: SLERP,
    },
    Kind {
        name: "twist",
        ros_type: "geometry_msgs/msg/TwistStamped",
        stream: Stream::Twist,
        keys: "fields: [linear, angular]",
        strategies: LINEAR,
    },
    Kind {
        name: "odom",
        ros_type: "nav_msgs/msg/Odometry",
        stream: Stream::Odom,
        keys: "fields: [angular, position, orientation, linear]",
        strategies: SLERP,
    },
    Kind {
        name: "pad",
        ros_type: "sensor_msgs/msg/Image",
        stream: Stream::CameraFront,
        keys: "image: {resize: {width: 56, height: 48}, mean: [0.485, 0.456, 0.406], \
               std: [0.229, 0.224, 0.225], pad_value: 7}",
        strategies: ROWS,
    },
    Kind {
        name: "stretch",
        ros_type: "sensor_msgs/msg/Image",
        stream: Stream::CameraWrist,
        keys: "image: {resize: {width: 33, height: 71, fit: stretch}, color: bgr}",
        strategies: ROWS,
    },
    Kind {
        name: "crop",
        ros_type: "sensor_msgs/msg/Image",
        stream: Stream::CameraFront,
        keys: "image: {resize: {width: 40, height: 40, fit: crop_center}, color: mono, mean: [0.5], std: [0.25]}",
        strategies: ROWS,
    },
    Kind {
        name: "bytes",
        ros_type: "sensor_msgs/msg/Image",
        stream: Stream::CameraWrist,
        keys: "dtype: u8, image: {resize: {width: 57, height: 31}, color: bgr, pad_value: 9}",
        strategies: ROWS,
    },
    Kind {
        name: "counts",
        ros_type: "sensor_msgs/msg/PointCloud2",
        stream: Stream::Lidar,
        keys: "cloud: {origin_m: [-6.4, -6.4, -1.6], size_m: 0.4, shape: [32, 31, 16], \
               channels: [{reduce: count}, {reduce: occupancy}]}",
        strategies: ROWS,
    },
    Kind {
        name: "means",
        ros_type: "sensor_msgs/msg/PointCloud2",
        stream: Stream::Lidar,
        keys: "t_base_sensor: {translation_m: [0.3, 0, 0.5], rotation_rpy_deg: [1, -2, 30]}, \
               cloud: {origin_m: [-6.4, -6.4, -1.6], size_m: 0.2, shape: [64, 64, 32], \
               channels: [{reduce: mean, field: intensity}, {reduce: mean, field: z}]}",
        strategies: ROWS,
    },
    Kind {
        name: "greatest",
        ros_type: "sensor_msgs/msg/PointCloud2",
        stream: Stream::Lidar,
        keys: "cloud: {origin_m: [-5, -5, -1], size_m: 0.5, shape: [20, 20, 6], \
               channels: [{reduce: max, field: intensity}, {reduce: max, field: x}, \
               {reduce: mean, field: y}, {reduce: count}]}",
        strategies: &["hold"],
    },
];

/// All kinds with all their strategies, as `dtype`, and the robot's stream that feeds each.
fn configuration(dtype: &str, fill: &str) -> (Config, Vec<Stream>) {
    let mut yaml = format!("rate_hz: 50\nlag_ms: 12.5\noutput: {{dtype: {dtype}}}\nstreams:\n");
    let mut fed_by = Vec::new();
    for kind in &KINDS {
        for strategy in kind.strategies {
            let Kind { name, ros_type, stream, keys, .. } = kind;
            let topic = stream.topic();
            writeln!(
                yaml,
                "  {name}_{strategy}: {{type: {ros_type}, topic: {topic}, strategy: {strategy}, \
                 history: {{steps: 3, step_ms: 15}}, max_age_ms: 18, fill: {fill}, {keys}}}"
            )
            .unwrap();
            fed_by.push(*stream);
        }
    }
    (config::parse(&yaml, "digests.yaml").unwrap_or_else(|e| panic!("{e}\n{yaml}")), fed_by)
}

/// FNV-1a, 64 bits: <http://www.isthe.com/chongo/tech/comp/fnv/>.
fn digest(into: &mut u64, bytes: &[u8]) {
    for byte in bytes {
        *into = (*into ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
}

/// A message of the robot: when it is due \[ns\], its stream and its bytes.
type DueMessage = (i64, Stream, Vec<u8>);

/// All messages, and some that are due after the end.
fn recording() -> Vec<DueMessage> {
    let options = SimOptions {
        seed: 11,
        send_jitter_ms: 8.0,
        drop_share: 0.03,
        reorder_share: 0.05,
        pose_hz: 50.0,
        twist_hz: 50.0,
        odom_hz: 50.0,
        ..SimOptions::default()
    };
    let robot = Robot::new(options.clone()).unwrap();
    let mut streams = KINDS.map(|kind| kind.stream).to_vec();
    streams.sort_by_key(|stream| stream.topic());
    streams.dedup();
    Schedule::of_streams(&options, START, &streams)
        .take_while(|event| event.due_ns <= LENGTH_NS + NANOS_PER_S / 10)
        .map(|event| (event.due_ns, event.stream, robot.message(&event, Vec::new())))
        .collect()
}

/// Replays the recording; a line per segment.
fn replay(case: &str, pipeline: &Pipeline, fed_by: &[Stream], recording: &[DueMessage]) -> String {
    let grid = pipeline.config().grid;
    let mut tick = grid.tick_at(START) + 1;
    let mut message = pipeline.new_message();
    let mut digests = vec![0xcbf2_9ce4_8422_2325u64; fed_by.len()];
    for (due_ns, stream, bytes) in recording {
        while grid.stamp_of(tick) <= START.offset(*due_ns) {
            assert_eq!(
                pipeline.tick(tick, Epoch::default(), &mut message).unwrap(),
                TickOutcome::Ready
            );
            for (at, into) in digests.iter_mut().enumerate() {
                for step in message.steps(SegmentId::new(at)) {
                    digest(into, &[u8::from(step.valid)]);
                    digest(into, &step.age_ns.to_le_bytes());
                }
                digest(into, message.segment_data(SegmentId::new(at)));
            }
            tick += 1;
        }
        if *due_ns > LENGTH_NS {
            break;
        }
        for at in (0..fed_by.len()).filter(|at| fed_by[*at] == *stream) {
            // A late message is dropped and counted, as in a live node.
            let _ = pipeline.push(InputId::new(at), bytes, Arrival::default());
        }
    }
    let mut lines = String::new();
    for (segment, digest) in pipeline.layout().segments().iter().zip(digests) {
        writeln!(lines, "{case} {} {digest:016x}", segment.name).unwrap();
    }
    lines
}

fn all(backend: impl Fn(&Config, &Layout) -> Arc<dyn Backend>) -> String {
    let recording = recording();
    let mut lines = String::new();
    for dtype in ["f32", "f16", "bf16"] {
        for fill in ["zero", "last"] {
            let (config, fed_by) = configuration(dtype, fill);
            let backend = backend(&config, &Layout::new(&config));
            let pipeline = Pipeline::new(config, backend).unwrap();
            lines += &replay(&format!("{dtype} {fill}"), &pipeline, &fed_by, &recording);
        }
    }
    lines
}

/// If segments differ, prints these alone.
fn compare(found: &str) {
    let kept = include_str!("../../../../tests/golden/digests.txt");
    let kept: Vec<_> = kept.lines().filter(|line| !line.starts_with('#')).collect();
    let differ: Vec<_> = found.lines().filter(|line| !kept.contains(line)).collect();
    assert_eq!(differ, [""; 0]);
    assert_eq!(found.lines().count(), kept.len());
}

#[test]
fn the_cpu_backend_gives_the_kept_bits() {
    let found = all(|config, layout| Arc::new(CpuBackend::new(config, layout).unwrap()));
    if std::env::var_os("ROBOCACHE_WRITE_DIGESTS").is_some() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(GOLDEN);
        let head = "# dtype, fill, segment, digest of every tick's validity, age and data\n";
        std::fs::write(path, head.to_owned() + &found).unwrap();
        return;
    }
    compare(&found);
}

/// A GPU encodes, and rows are on the host or on the device.
#[cfg(feature = "cuda")]
mod on_the_gpu {
    use std::sync::Arc;

    use robocache_core::backend::Backend;
    use robocache_core::backend::cpu::CpuBackend;
    use robocache_core::backend::cuda::CudaBackend;
    use robocache_core::layout::Layout;
    use robocache_core::spec::Config;
    use robocache_ops::device::{Device, Limits};

    use super::{all, compare};

    fn check<B: Backend + 'static>(
        test: &str,
        backend: impl Fn(&Arc<Device>, &Config, &Layout) -> B,
    ) {
        match Device::open_within(0, Limits::NONE) {
            Ok(device) => {
                compare(&all(|config, layout| Arc::new(backend(&device, config, layout))));
            }
            Err(reason) => {
                let line = format!("on_the_gpu::{test} was skipped: {reason}\n");
                std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes()).ok();
            }
        }
    }

    #[test]
    fn rows_on_the_device_have_the_kept_bits() {
        check("rows_on_the_device_have_the_kept_bits", |device, config, layout| {
            CudaBackend::new(device, config, layout).unwrap()
        });
    }

    #[test]
    fn rows_on_the_host_have_the_kept_bits() {
        check("rows_on_the_host_have_the_kept_bits", |device, config, layout| {
            CpuBackend::with_gpu(device, config, layout).unwrap()
        });
    }
}
