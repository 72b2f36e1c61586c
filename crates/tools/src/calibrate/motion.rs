//! How fast the content of a topic changes.

use super::CalibrateError;
use super::by_arrival;
use robocache_core::codec;
use robocache_core::input::{self, Input, SampleSink, Sink};
use robocache_core::sample::{Header, Sample, SampleKind, Trajectory};
use robocache_core::spec::InputSpec;
use robocache_data::bag::{Bag, Sorted};
use robocache_data::replay::Progress;
use robocache_ops::image::{Encoding, ImageView};
use robocache_ops::time::{NANOS_PER_MS, NANOS_PER_S, Stamp};

/// Vectors are compared over at least this time: a shorter one shows the noise of encoders \[ns\].
const BASE_NS: i64 = 10 * NANOS_PER_MS;
/// Between messages that are further apart nothing is known \[ns\].
const GAP_NS: i64 = NANOS_PER_S / 2;
/// Cells of an image that is compared, along its longer side.
const IMAGE_CELLS: usize = 64;
/// Weight of a turn beside a distance: the speed at this distance from the axis \[m\].
const ARM_M: f64 = 0.5;

/// A stretch of time and how fast the content changed in it, in any unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Piece {
    pub from: Stamp,
    pub to: Stamp,
    pub speed: f64,
}

/// The motion of a topic.
#[derive(Debug, Default)]
pub(super) struct Motion {
    /// In the order of time.
    pub pieces: Vec<Piece>,
    /// Quantity that was compared.
    pub what: &'static str,
    topic: String,
    messages: u64,
    rejected: u64,
    first: Option<String>,
}

impl Motion {
    /// Why there is too little of it.
    pub(super) fn problem(&self) -> Option<String> {
        let why = self.first.as_deref().unwrap_or("its stamps are not set");
        match self {
            Motion { messages: 0, topic, .. } => Some(format!("{topic} has no messages")),
            Motion { messages, rejected, topic, .. } if 2 * rejected > *messages => {
                Some(format!("{rejected} of {messages} messages of {topic} cannot be used: {why}"))
            }
            _ => None,
        }
    }
}

/// Quantity of a sample that is compared.
#[derive(Clone, Debug)]
enum Measure {
    /// Numbers that are speeds, in groups of these lengths with these weights.
    Speeds(Vec<(usize, f64)>),
    /// Numbers whose change is the speed; a quaternion has four and two signs.
    Places(Vec<MotionPart>),
    /// Joints, or any numbers.
    Numbers,
    /// Images.
    Pixels,
}

#[derive(Clone, Copy, Debug)]
enum MotionPart {
    Numbers(usize),
    Quaternion,
}

/// Reads the motions of two inputs in one pass.
pub(super) fn read(
    bag: &Bag,
    inputs: &[InputSpec; 2],
    progress: &dyn Progress,
) -> Result<[Motion; 2], CalibrateError> {
    let [mut one, mut other] = [MotionReader::new(&inputs[0])?, MotionReader::new(&inputs[1])?];
    let topics = inputs.each_ref().map(|input| bag.topic(&input.topic));
    let wanted: Vec<bool> = (0..bag.topics.len()).map(|at| topics.contains(&Some(at))).collect();
    let mut count = 0_u64;
    for message in bag.messages_sorted(&wanted, Sorted::AsWritten)? {
        count += 1;
        if count.is_multiple_of(256) && !progress.at(message.received) {
            break;
        }
        for (reader, topic) in [&mut one, &mut other].into_iter().zip(topics) {
            if topic == Some(message.topic) {
                reader.take(&message.bytes, message.received);
            }
        }
    }
    Ok([one.finish(), other.finish()])
}

pub(super) struct MotionReader {
    input: Box<dyn Input>,
    probe: Probe,
}

impl MotionReader {
    pub(super) fn new(spec: &InputSpec) -> Result<MotionReader, CalibrateError> {
        let wrong = |why: String| CalibrateError::Stream { name: spec.topic.clone(), why };
        let (taken, measure, what) = measure(spec).map_err(wrong)?;
        let input = input::open(&taken).map_err(wrong)?;
        let probe = Probe {
            measure,
            by_arrival: by_arrival(spec),
            offset_ns: spec.stamp_offset_ns,
            received: Stamp::ZERO,
            stamp: Stamp::ZERO,
            last: None,
            image: None,
            pixels: Vec::new(),
            motion: Motion { what, topic: spec.topic.clone(), ..Motion::default() },
        };
        Ok(MotionReader { input, probe })
    }

    pub(super) fn take(&mut self, message: &[u8], received: Stamp) {
        self.probe.motion.messages += 1;
        self.probe.received = received;
        if let Err(why) = self.input.read(message, &mut self.probe) {
            self.probe.motion.rejected += 1;
            self.probe.motion.first.get_or_insert_with(|| why.to_string());
        }
    }

    pub(super) fn finish(mut self) -> Motion {
        // A recorder's clock that was set back mixes two spans of time.
        self.probe.motion.pieces.sort_by_key(|piece| piece.from);
        self.probe.motion
    }
}

/// Returns the input with what is compared of it, how, and what that is called.
fn measure(spec: &InputSpec) -> Result<(InputSpec, Measure, &'static str), String> {
    let is = |name: &str| spec.ros_type == name;
    let names = spec.fields();
    Ok(match spec.gives() {
        Some(SampleKind::Vector) if spec.selects() => {
            (spec.clone(), Measure::Numbers, "speed of change")
        }
        Some(SampleKind::Vector) if !spec.is_plan() => match spec.joint_groups() {
            Some(groups) => {
                let count = groups.first().map_or(0, Vec::len);
                let (field, measure) = match names.iter().any(|field| field == "position") {
                    true => ("position", Measure::Numbers),
                    false => ("velocity", Measure::Speeds(vec![(count, 1.0)])),
                };
                (spec.taking(&[field]), measure, "speed of the joints")
            }
            None if is("sensor_msgs/msg/Imu") => {
                let speeds = Measure::Speeds(vec![(3, 1.0)]);
                (spec.taking(&["angular_velocity"]), speeds, "angular velocity")
            }
            None if is("geometry_msgs/msg/TwistStamped") || is("nav_msgs/msg/Odometry") => {
                let speeds = Measure::Speeds(vec![(3, 1.0), (3, ARM_M)]);
                (spec.taking(&["linear", "angular"]), speeds, "twist")
            }
            None => {
                let part = |name: &String| match name.as_str() {
                    "orientation" => MotionPart::Quaternion,
                    _ => MotionPart::Numbers(3),
                };
                let parts = Measure::Places(names.iter().map(part).collect());
                (spec.clone(), parts, "speed of change")
            }
        },
        Some(SampleKind::Image) => (spec.clone(), Measure::Pixels, "change of the image"),
        _ => {
            return Err(format!(
                "expected joints, numbers or images, found {}: how fast clouds, depth and plans change is not read",
                spec.ros_type
            ));
        }
    })
}

struct Probe {
    measure: Measure,
    by_arrival: bool,
    /// Offset that the configuration adds to the stamps.
    offset_ns: i64,
    received: Stamp,
    /// Of the message that was admitted.
    stamp: Stamp,
    last: Option<(Stamp, Vec<f64>)>,
    /// The sizes of the last image.
    image: Option<[usize; 2]>,
    /// Memory for the pixels of a compressed image.
    pixels: Vec<u8>,
    motion: Motion,
}

impl Sink for Probe {
    fn admit(&mut self, header: &Header<'_>) -> Option<&mut dyn SampleSink> {
        let stamp = if self.by_arrival { Ok(self.received) } else { header.stamp };
        match stamp {
            Ok(stamp) => {
                self.stamp = stamp.offset(self.offset_ns);
                Some(self)
            }
            Err(why) => {
                self.reject(why.to_string());
                None
            }
        }
    }
}

impl SampleSink for Probe {
    fn sample(&mut self, part: usize, sample: Sample<'_>) {
        // Of several groups, the first one.
        if part > 0 {
            return;
        }
        let values = match sample {
            Sample::Vector(values) if values.iter().all(|value| value.is_finite()) => {
                values.to_vec()
            }
            Sample::Vector(_) => return self.reject("a number is NaN or infinite".into()),
            Sample::Image(view) => self.gray(&view),
            Sample::Compressed(image) => {
                let mut pixels = std::mem::take(&mut self.pixels);
                let gray = codec::decode_compressed(&image, &mut pixels);
                let gray = gray.map(|view| self.gray(&view));
                self.pixels = pixels;
                match gray {
                    Ok(gray) => gray,
                    Err(why) => return self.reject(why.to_string()),
                }
            }
            Sample::Depth(_) | Sample::Points(_) | Sample::Map(_) => return,
        };
        self.take(self.stamp, values);
    }

    fn trajectory(&mut self, _: &Trajectory<'_>) {}

    fn incomplete(&mut self, _: usize, _: &str) {}
}

impl Probe {
    fn reject(&mut self, why: String) {
        self.motion.rejected += 1;
        self.motion.first.get_or_insert(why);
    }

    /// A small gray image. If the size has changed, the next difference begins with it.
    fn gray(&mut self, view: &ImageView<'_>) -> Vec<f64> {
        let size = Some([view.width, view.height]);
        if self.image.is_some() && self.image != size {
            self.last = None;
        }
        self.image = size;
        gray(view)
    }

    fn take(&mut self, stamp: Stamp, values: Vec<f64>) {
        let Some((from, before)) = &self.last else {
            self.last = Some((stamp, values));
            return;
        };
        let length = stamp.since(*from);
        let is_image = matches!(self.measure, Measure::Pixels);
        if before.len() != values.len() || !(0..=GAP_NS).contains(&length) {
            self.last = Some((stamp, values));
            return;
        }
        if length == 0 || (!is_image && length < BASE_NS) {
            return;
        }
        let seconds = length as f64 / NANOS_PER_S as f64;
        let speed = match &self.measure {
            // The mean of both ends: what happens between them is between their stamps.
            Measure::Speeds(groups) => f64::midpoint(speed(before, groups), speed(&values, groups)),
            Measure::Places(parts) => way(before, &values, parts) / seconds,
            Measure::Numbers => distance(before, &values, 1.0) / seconds,
            Measure::Pixels => change(before, &values) / seconds,
        };
        self.motion.pieces.push(Piece { from: *from, to: stamp, speed });
        self.last = Some((stamp, values));
    }
}

fn norm(values: &[f64]) -> f64 {
    values.iter().map(|value| value * value).sum::<f64>().sqrt()
}

fn speed(values: &[f64], groups: &[(usize, f64)]) -> f64 {
    let mut rest = values;
    let mut sum = 0.0;
    for (count, weight) in groups {
        let (group, others) = rest.split_at((*count).min(rest.len()));
        sum += weight * norm(group);
        rest = others;
    }
    sum
}

/// The distance of two vectors; the second counts `sign` times.
fn distance(a: &[f64], b: &[f64], sign: f64) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - sign * b).powi(2)).sum::<f64>().sqrt()
}

fn way(a: &[f64], b: &[f64], parts: &[MotionPart]) -> f64 {
    let mut at = 0;
    let mut sum = 0.0;
    for part in parts {
        let count = match part {
            MotionPart::Numbers(count) => *count,
            MotionPart::Quaternion => 4,
        };
        let range = at..(at + count).min(a.len());
        let a = &a[range.clone()];
        let b = &b[range];
        sum += match part {
            MotionPart::Numbers(_) => distance(a, b, 1.0),
            // Both signs are the same turn, whose angle is about twice the distance.
            MotionPart::Quaternion => 2.0 * ARM_M * distance(a, b, 1.0).min(distance(a, b, -1.0)),
        };
        at += count;
    }
    sum
}

/// The mean difference of two images. A change of all pixels alike is the exposure, not a motion.
fn change(a: &[f64], b: &[f64]) -> f64 {
    let count = a.len().max(1) as f64;
    let mean = a.iter().zip(b).map(|(a, b)| b - a).sum::<f64>() / count;
    a.iter().zip(b).map(|(a, b)| (b - a - mean).abs()).sum::<f64>() / count
}

/// A small gray image: the mean of each cell of at least one pixel.
fn gray(view: &ImageView<'_>) -> Vec<f64> {
    let pixel = view.encoding.bytes_per_pixel();
    let edge = view.width.max(view.height).div_ceil(IMAGE_CELLS).max(1);
    let columns = view.width.div_ceil(edge);
    let mut cells = vec![0_u64; columns * view.height.div_ceil(edge)];
    let mut counts = vec![0_u64; cells.len()];
    for (y, line) in view.data.chunks(view.step).take(view.height).enumerate() {
        for (x, pixel) in line.chunks_exact(pixel).take(view.width).enumerate() {
            let at = y / edge * columns + x / edge;
            let light = match view.encoding {
                Encoding::Mono8 => 4 * u64::from(pixel[0]),
                // Green counts twice; red and blue as much, whichever comes first.
                _ => u64::from(pixel[0]) + 2 * u64::from(pixel[1]) + u64::from(pixel[2]),
            };
            cells[at] += light;
            counts[at] += 4;
        }
    }
    cells.iter().zip(&counts).map(|(sum, count)| *sum as f64 / (*count).max(1) as f64).collect()
}
