//! Publishes what many cameras, a lidar and an arm send.
//!
//! Each sensor has a thread, as in a process that composes drivers. Its message is made once. Then
//! each publication has only another stamp, so that the load is that of the messages and not that of
//! a simulator.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::Args;
use robocache_core::cdr::messages::{CompressedImage, Image, JointState, PointCloud2, PointField};
use robocache_ops::random::Random;
use robocache_ops::time::Stamp;
use robocache_rcl::{Node, Publisher, Qos};
use serde::Serialize;

use super::{LoadError, node};

/// How long the sensors wait for their subscribers.
const PATIENCE: Duration = Duration::from_secs(30);
/// Offset of the stamp in a message \[bytes\]: after the encapsulation header.
const STAMP_AT: usize = 4;
/// Bytes of a point: x, y, z and intensity.
const POINT_STEP: u32 = 16;

/// The sensors.
#[derive(Args)]
pub(crate) struct RigOptions {
    /// Number of cameras, on /camera_0 and so on; rgb8 unless --compressed is given
    #[arg(long, default_value_t = 6)]
    cameras: usize,
    /// Width of an image [px]
    #[arg(long, default_value_t = 1920)]
    width: u32,
    /// Height of an image [px]
    #[arg(long, default_value_t = 1080)]
    height: u32,
    /// A JPEG or PNG file that each camera sends as CompressedImage in place of rgb8
    #[arg(long)]
    compressed: Option<PathBuf>,
    /// Damage the file of --compressed in one message of N, of each camera; 0 for none
    #[arg(long, value_name = "N", default_value_t = 0, requires = "compressed")]
    damage_one_in: u64,
    /// Images per second of each camera
    #[arg(long, default_value_t = 30.0)]
    camera_hz: f64,
    /// Points of a cloud on /points; 0 for no lidar
    #[arg(long, default_value_t = 131_072)]
    points: u32,
    /// Clouds per second
    #[arg(long, default_value_t = 10.0)]
    lidar_hz: f64,
    /// Messages per second on /joint_states
    #[arg(long, default_value_t = 500.0)]
    joints_hz: f64,
    /// How long to publish [s]
    #[arg(long, default_value_t = 60.0)]
    seconds: f64,
    /// Reliable delivery of images and clouds in place of best effort
    #[arg(long)]
    reliable: bool,
}

/// Messages that a sensor sent.
#[derive(Debug, Serialize)]
struct Sent {
    topic: String,
    sent: u64,
    /// Messages among them whose file was damaged.
    damaged: u64,
    /// Messages that were not sent because the sensor's thread was late.
    skipped: u64,
}

/// One sensor: a topic, its message and its rate.
struct Sensor {
    publisher: Publisher,
    message: Vec<u8>,
    period: Duration,
    damage: Option<Damage>,
}

/// Damage to some files of a camera: bits change, or the end is missing.
struct Damage {
    file: Vec<u8>,
    one_in: u64,
    random: Random,
}

/// Publishes for the given time.
pub(crate) fn run(options: &RigOptions) -> Result<(), LoadError> {
    let node = node("robocache_rig")?;
    let sensors = sensors(&node, options)?;
    for Sensor { publisher, .. } in &sensors {
        await_subscriber(&node, &publisher.topic())?;
    }
    let start = Instant::now() + Duration::from_millis(200);
    let end = start + Duration::from_secs_f64(options.seconds);
    let failed = Arc::new(AtomicBool::new(false));
    let threads: Vec<_> = sensors
        .into_iter()
        .map(|sensor| {
            let failed = Arc::clone(&failed);
            thread::spawn(move || {
                let sent = sensor.run(start, end, &failed);
                failed.fetch_or(sent.is_err(), Ordering::Relaxed);
                sent
            })
        })
        .collect();
    let sent = threads
        .into_iter()
        .map(|thread| thread.join().map_err(|_| LoadError::Panicked)?)
        .collect::<Result<Vec<Sent>, _>>()?;
    println!("{}", serde_json::to_string(&sent)?);
    Ok(())
}

fn await_subscriber(node: &Node, topic: &str) -> Result<(), LoadError> {
    let end = Instant::now() + PATIENCE;
    while node.count_subscriptions(topic)? == 0 {
        if Instant::now() > end {
            return Err(LoadError::Alone { topic: topic.to_owned(), patience: PATIENCE });
        }
        thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

fn sensors(node: &Node, options: &RigOptions) -> Result<Vec<Sensor>, LoadError> {
    let mut random = Random::new(1);
    let qos = |depth| match options.reliable {
        true => Qos::reliable(depth),
        false => Qos::best_effort(depth),
    };
    let mut sensors = Vec::new();
    let file = options.compressed.as_deref().map(|path| {
        let read = |source| LoadError::Image { path: path.to_owned(), source };
        std::fs::read(path).map_err(read)
    });
    let file = file.transpose()?;
    for camera in 0..options.cameras {
        let topic = format!("/camera_{camera}");
        let (kind, message) = match &file {
            Some(file) => ("sensor_msgs/msg/CompressedImage", compressed(file)),
            None => ("sensor_msgs/msg/Image", image(options, &mut random)),
        };
        let publisher = node.advertise(&topic, kind, qos(5))?;
        let damage = file.as_ref().filter(|_| options.damage_one_in > 0).map(|file| Damage {
            file: file.clone(),
            one_in: options.damage_one_in,
            random: Random::new(2 + camera as u64),
        });
        sensors.push(Sensor { publisher, message, period: period(options.camera_hz), damage });
    }
    if options.points > 0 {
        let publisher = node.advertise("/points", "sensor_msgs/msg/PointCloud2", qos(5))?;
        let message = cloud(options.points, &mut random);
        sensors.push(Sensor { publisher, message, period: period(options.lidar_hz), damage: None });
    }
    if options.joints_hz > 0.0 {
        let kind = "sensor_msgs/msg/JointState";
        let publisher = node.advertise("/joint_states", kind, Qos::reliable(50))?;
        let period = period(options.joints_hz);
        sensors.push(Sensor { publisher, message: joints(), period, damage: None });
    }
    Ok(sensors)
}

fn period(hz: f64) -> Duration {
    Duration::from_secs_f64(1.0 / hz.max(0.001))
}

fn image(options: &RigOptions, random: &mut Random) -> Vec<u8> {
    let width = options.width;
    let height = options.height;
    let frame_id = "camera";
    let encoding = "rgb8";
    let step = 3 * width;
    let image = Image { stamp: Stamp::ZERO, frame_id, height, width, encoding, step };
    image.to_cdr(Vec::new(), |data| {
        let bytes = (step * height) as usize;
        data.extend((0..bytes.div_ceil(8)).flat_map(|_| random.bits().to_le_bytes()));
        data.truncate(data.len() - (bytes.next_multiple_of(8) - bytes));
    })
}

/// A message of this file.
fn compressed(file: &[u8]) -> Vec<u8> {
    let format = if file.starts_with(b"\x89PNG") { "png" } else { "jpeg" };
    let image = CompressedImage { stamp: Stamp::ZERO, frame_id: "camera", format };
    image.to_cdr(Vec::new(), |data| data.extend_from_slice(file))
}

fn cloud(points: u32, random: &mut Random) -> Vec<u8> {
    let field = |name, offset| PointField { name, offset, datatype: 7, count: 1 };
    let fields = [field("x", 0), field("y", 4), field("z", 8), field("intensity", 12)];
    let cloud = PointCloud2 {
        stamp: Stamp::ZERO,
        frame_id: "lidar",
        height: 1,
        width: points,
        fields: &fields,
        is_bigendian: false,
        point_step: POINT_STEP,
        row_step: POINT_STEP * points,
        is_dense: true,
    };
    cloud.to_cdr(Vec::new(), |data| {
        for _ in 0..points {
            let point = [
                random.float(-20.0, 20.0),
                random.float(-20.0, 20.0),
                random.float(-2.0, 4.0),
                random.float(0.0, 1.0),
            ];
            data.extend(point.iter().flat_map(|value| value.to_le_bytes()));
        }
    })
}

fn joints() -> Vec<u8> {
    let names: Vec<String> = (0..14).map(|joint| format!("joint_{joint}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let values = [0.5; 14];
    let joints = JointState {
        stamp: Stamp::ZERO,
        frame_id: "",
        name: &names,
        position: &values,
        velocity: &values,
        effort: &values,
    };
    joints.to_cdr(Vec::new())
}

impl Sensor {
    /// Publishes at each multiple of the period until `end`, or until another sensor has failed.
    fn run(mut self, start: Instant, end: Instant, failed: &AtomicBool) -> Result<Sent, LoadError> {
        let mut due = start;
        let mut sent = 0;
        let mut damaged = 0;
        let mut skipped = 0;
        while due < end && !failed.load(Ordering::Relaxed) {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            match self.damage.as_mut().and_then(Damage::message) {
                Some(mut message) => {
                    stamp(&mut message);
                    self.publisher.publish(&message)?;
                    damaged += 1;
                }
                None => {
                    stamp(&mut self.message);
                    self.publisher.publish(&self.message)?;
                }
            }
            sent += 1;
            due += self.period;
            while due + self.period < Instant::now() {
                due += self.period;
                skipped += 1;
            }
        }
        Ok(Sent { topic: self.publisher.topic(), sent, damaged, skipped })
    }
}

impl Damage {
    /// A damaged message if it is this one's turn.
    fn message(&mut self) -> Option<Vec<u8>> {
        let random = &mut self.random;
        if random.below(self.one_in) > 0 {
            return None;
        }
        let mut file = self.file.clone();
        if random.below(4) == 0 {
            file.truncate(random.below(file.len() as u64) as usize);
            return Some(compressed(&file));
        }
        // Mostly in the codes, because they are most of the file.
        for _ in 0..=random.below(4) {
            let at = random.below(file.len() as u64) as usize;
            file[at] ^= 1 << random.below(8);
        }
        Some(compressed(&file))
    }
}

/// Stamps the message with the present instant.
fn stamp(message: &mut [u8]) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let sec = now.as_secs() as i32;
    let nanosec = now.subsec_nanos();
    message[STAMP_AT..STAMP_AT + 4].copy_from_slice(&sec.to_le_bytes());
    message[STAMP_AT + 4..STAMP_AT + 8].copy_from_slice(&nanosec.to_le_bytes());
}
