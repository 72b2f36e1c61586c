//! The messages of the simulated robot, in real time.

use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use super::note::{Note, Pool, Settled, SharedBuffer, tell};
use super::timeline::Timeline;
use crate::error::BenchError;
use crate::messages::{POINT_STEP, cloud, image, noise, points};
use robocache_core::spec::{Config, InputId};
use robocache_ops::image::Encoding;
use robocache_ops::random::Random;
use robocache_ops::time::Stamp;
use robocache_runtime::{Runtime, Transit};
use robocache_sim::{
    Robot, Schedule, SensorMessage, SentCounts, SimOptions, Stream, drive, drive_messages,
};

/// The usual size of an image, the smallest and the largest.
const USUAL: [u32; 2] = [640, 480];
const SMALLEST: [u32; 2] = [64, 48];
const LARGEST: [u32; 2] = [1280, 960];

const MOST_POINTS: usize = 131_072;

/// Number of places at which pixels and points may start, so that no message is like the one before.
const FIRSTS: usize = 1000;

/// Messages in the hands of the runtime and of the checker, which keeps some 15.
const BUFFERS: usize = 28;

/// A robot in no step with the ticks, as sensors are: a message is up to a tick on its way.
pub(super) fn robot(seconds: u64) -> Result<Robot, BenchError> {
    let duration = seconds as f64;
    let options = SimOptions { send_jitter_ms: 1.0, duration, ..SimOptions::default() };
    Robot::new(options).map_err(|error| BenchError::Soak(error.to_string()))
}

/// The input that takes a stream of the robot.
pub(super) fn input_of(config: &Config, stream: Stream) -> Option<InputId> {
    config.inputs.iter().position(|input| input.topic == stream.topic()).map(InputId::new)
}

/// The inputs of images.
pub(super) fn cameras(config: &Config) -> Vec<InputId> {
    let all = streams(config, true).into_iter().filter(|stream| *stream != Stream::Lidar);
    all.filter_map(|stream| input_of(config, stream)).collect()
}

/// The streams of the robot that a configuration takes: those of small messages, or of large ones.
pub(super) fn streams(config: &Config, large: bool) -> Vec<Stream> {
    let taken = |stream: &Stream| input_of(config, *stream).is_some();
    Stream::ALL.into_iter().filter(|s| s.is_large() == large).filter(taken).collect()
}

/// Images and clouds of any size, full of noise.
pub(super) struct Noise {
    random: Random,
    pixels: Vec<u8>,
    points: Vec<u8>,
}

impl Noise {
    fn new() -> Self {
        let [width, height] = LARGEST;
        Noise {
            random: Random::new(3),
            pixels: noise((3 * width * height) as usize, 1),
            points: points(MOST_POINTS + FIRSTS, POINT_STEP / 4, 14.0),
        }
    }

    fn message(&mut self, event: &SensorMessage, buffer: Vec<u8>) -> Vec<u8> {
        match event.stream {
            Stream::Lidar => self.cloud(event.stamp, buffer),
            _ => self.image(event.stamp, buffer),
        }
    }

    fn image(&mut self, stamp: Stamp, buffer: Vec<u8>) -> Vec<u8> {
        let random = &mut self.random;
        let encodings = [Encoding::Rgb8, Encoding::Bgr8, Encoding::Mono8];
        let encoding = encodings[random.below(3) as usize];
        let side = |i: usize, random: &mut Random| {
            SMALLEST[i] + random.below(u64::from(LARGEST[i] - SMALLEST[i] + 1)) as u32
        };
        let size = match random.below(4) {
            0 => [side(0, random), side(1, random)],
            _ => USUAL,
        };
        let pixels = &self.pixels[random.below(FIRSTS as u64) as usize..];
        image(stamp, encoding, size, pixels, buffer)
    }

    fn cloud(&mut self, stamp: Stamp, buffer: Vec<u8>) -> Vec<u8> {
        let first = self.random.below(FIRSTS as u64) as usize;
        let count = self.random.below(MOST_POINTS as u64 + 1) as usize;
        cloud(stamp, &self.points[first * POINT_STEP..(first + count) * POINT_STEP], buffer)
    }

    fn largest(&self, event: &SensorMessage) -> Vec<u8> {
        match event.stream {
            Stream::Lidar => {
                cloud(event.stamp, &self.points[..POINT_STEP * MOST_POINTS], Vec::new())
            }
            _ => image(event.stamp, Encoding::Rgb8, LARGEST, &self.pixels, Vec::new()),
        }
    }
}

/// Makes the large messages: those of the robot, or noise.
pub(super) struct Large<'a> {
    robot: &'a Robot,
    noise: Option<Noise>,
    /// Memory for them.
    pool: Pool,
}

impl<'a> Large<'a> {
    /// Of random sizes, or all of the usual one.
    pub(super) fn new(robot: &'a Robot, random_sizes: bool) -> Self {
        let [width, height] = if random_sizes { LARGEST } else { USUAL };
        let image_len = (3 * width * height) as usize;
        let cloud_len = 32 * MOST_POINTS;
        // And the header of the message.
        let pool = Pool::new(BUFFERS, image_len.max(cloud_len) + 1024);
        Large { robot, noise: random_sizes.then(Noise::new), pool }
    }

    /// A message of the largest size.
    pub(super) fn largest(&self, stream: Stream, stamp: Stamp) -> Vec<u8> {
        let event =
            SensorMessage { stream, seq: 0, sampled: stamp, stamp, send_at: stamp, due_ns: 0 };
        match &self.noise {
            Some(noise) => noise.largest(&event),
            None => self.robot.message(&event, Vec::new()),
        }
    }
}

/// Counts of images and clouds that came, and of those that did not.
#[derive(Debug, Default)]
pub(super) struct Fed {
    /// Images and clouds that were not received: there was no memory, because the workers lagged
    /// that far behind.
    pub refused: u64,
    /// Images and clouds that the robot made too late, and so did not send.
    pub skipped: u64,
    /// Images and clouds that were received.
    pub large: u64,
    /// Waits for the checker, which gets every message. What came after such a wait was late.
    pub waits: u64,
}

/// Feeds a runtime.
///
/// The checker hears of a message before the runtime does, and so before any tick that serves it.
pub(super) struct Feed<'a> {
    pub timeline: &'a Timeline,
    pub runtime: &'a Runtime,
    pub robot: &'a Robot,
    pub settled: &'a Settled,
    pub notes: SyncSender<Note>,
}

impl Feed<'_> {
    /// Sends the vectors until the end.
    pub(super) fn small(&self) -> Result<Fed, BenchError> {
        let mut fed = Fed::default();
        let config = self.runtime.pipeline.config();
        let stop = self.timeline.stop_flag();
        drive(self.robot, self.schedule(false), self.timeline, stop, |event, bytes| {
            let Some(input) = input_of(config, event.stream) else { return Ok(()) };
            let stamp_ns = event.stamp.nanos();
            let note = Note::Vector { input, stamp_ns, bytes: bytes.to_vec() };
            fed.waits += u64::from(tell(&self.notes, note));
            self.runtime.receive(
                input,
                bytes.to_vec(),
                self.runtime.clock.arrival(Transit::UNKNOWN),
            )?;
            self.settled.note(input, stamp_ns);
            Ok::<_, BenchError>(())
        })?;
        Ok(fed)
    }

    /// Sends images and clouds until the end.
    pub(super) fn large(&self, messages: &mut Large<'_>) -> Result<Fed, BenchError> {
        let mut fed = Fed::default();
        let config = self.runtime.pipeline.config();
        let stop = self.timeline.stop_flag();
        let Large { robot, noise, pool } = messages;
        let make = |event: &SensorMessage, buffer| match noise {
            Some(noise) => noise.message(event, buffer),
            None => robot.message(event, buffer),
        };
        let receive = |event: &SensorMessage, bytes: &[u8]| {
            let Some(input) = input_of(config, event.stream) else { return Ok(()) };
            let Some(message) = pool.copy(bytes).map(Arc::new) else {
                fed.refused += 1;
                return Ok(());
            };
            let stamp_ns = event.stamp.nanos();
            let shared = SharedBuffer(Arc::clone(&message));
            fed.waits += u64::from(tell(&self.notes, Note::Large { input, stamp_ns, message }));
            fed.large += 1;
            Ok::<_, BenchError>(self.runtime.receive(
                input,
                shared,
                self.runtime.clock.arrival(Transit::UNKNOWN),
            )?)
        };
        let schedule = self.schedule(true);
        let report: SentCounts = drive_messages(make, schedule, self.timeline, stop, receive)?;
        fed.skipped = report.values().map(|counts| counts.skipped).sum();
        Ok(fed)
    }

    fn schedule(&self, large: bool) -> Schedule {
        let streams = streams(self.runtime.pipeline.config(), large);
        Schedule::of_streams(self.robot.options(), Timeline::start_stamp(), &streams)
    }
}
