//! The messages of the robot, in real time.

use std::mem;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender, SyncSender, TrySendError};

use super::check::Note;
use super::{PERIOD_NS, START_MS, Soak, What};
use crate::bench::BenchError;
use crate::bench::messages::{
    CAMERA_MS, CAMERAS, LIDAR, LIDAR_MS, POINT_STEP, cloud, image, noise, points, vectors,
};
use crate::decode::image::Encoding;
use crate::random::Random;
use crate::time::{NANOS_PER_MS, Stamp};

/// The usual size of an image, the smallest and the largest.
const USUAL: [u32; 2] = [640, 480];
const SMALLEST: [u32; 2] = [64, 48];
const LARGEST: [u32; 2] = [1280, 960];

const MOST_POINTS: usize = 131_072;

/// Pixels and points start at any of so many places, so that no message is like the one before.
const FIRSTS: usize = 1000;

/// Messages in the hands of the encoder and of the checker, which keeps some 15.
const BUFFERS: usize = 28;

/// Memory of a message, which returns to where it came from.
pub struct Buffer {
    /// The message.
    pub bytes: Vec<u8>,
    home: Sender<Vec<u8>>,
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // Nobody waits for it once the soak is over.
        let _ = self.home.send(mem::take(&mut self.bytes));
    }
}

/// Memory for a number of messages, all of it touched.
pub struct Pool {
    spare: Receiver<Vec<u8>>,
    home: Sender<Vec<u8>>,
}

impl Pool {
    /// Memory for `count` messages of `len` bytes.
    pub fn new(count: usize, len: usize) -> Self {
        let (home, spare) = mpsc::channel();
        // The receiver is here, so that this cannot fail.
        (0..count).for_each(|_| drop(home.send(vec![1; len])));
        Pool { spare, home }
    }

    /// Memory for a message, unless all of it is out. `fill` makes the message in it.
    pub fn fill(&self, fill: impl FnOnce(Vec<u8>) -> Vec<u8>) -> Option<Buffer> {
        let bytes = fill(self.spare.try_recv().ok()?);
        Some(Buffer { bytes, home: self.home.clone() })
    }
}

/// An image or a cloud on its way to the encoder.
pub struct Job {
    pub stream: usize,
    pub stamp_ns: i64,
    pub what: What,
    /// Shared with the checker.
    pub message: Arc<Buffer>,
}

/// What the robot's messages are made of.
pub struct Robot {
    random_sizes: bool,
    random: Random,
    pixels: Vec<u8>,
    points: Vec<u8>,
    pool: Pool,
}

impl Robot {
    /// A robot whose images and clouds are of any size, or all of the usual one.
    pub fn new(random_sizes: bool) -> Self {
        let [width, height] = if random_sizes { LARGEST } else { USUAL };
        let image_len = (3 * width * height) as usize;
        let cloud_len = POINT_STEP * MOST_POINTS;
        // And the header of the message.
        let pool = Pool::new(BUFFERS, image_len.max(cloud_len) + 1024);
        Robot {
            random_sizes,
            random: Random::new(3),
            pixels: noise(image_len, 1),
            points: points(MOST_POINTS + FIRSTS, POINT_STEP / 4, 14.0),
            pool,
        }
    }

    /// A message of the largest size for each large stream.
    pub fn largest(&self, ms: i64) -> impl Iterator<Item = (usize, Vec<u8>)> {
        let stamp = Stamp::from_nanos(ms * NANOS_PER_MS);
        let size = if self.random_sizes { LARGEST } else { USUAL };
        let image =
            move |camera| (camera, image(stamp, Encoding::Rgb8, size, &self.pixels, Vec::new()));
        let points = &self.points[..POINT_STEP * MOST_POINTS];
        let cloud = (LIDAR, cloud(stamp, points, Vec::new()));
        CAMERAS.into_iter().map(image).chain([cloud])
    }

    /// An image; `None` if there is no memory for it.
    fn image(&mut self, camera: usize, ms: i64) -> Option<Job> {
        let random = &mut self.random;
        let (mut size, mut encoding) = (USUAL, Encoding::Rgb8);
        if self.random_sizes {
            let encodings = [Encoding::Rgb8, Encoding::Bgr8, Encoding::Mono8];
            encoding = encodings[random.below(3) as usize];
        }
        if self.random_sizes && random.below(4) == 0 {
            let side = |i: usize, random: &mut Random| {
                SMALLEST[i] + random.below(u64::from(LARGEST[i] - SMALLEST[i] + 1)) as u32
            };
            size = [side(0, random), side(1, random)];
        }
        let stamp_ns = ms * NANOS_PER_MS;
        let pixels = &self.pixels[random.below(FIRSTS as u64) as usize..];
        let make = |buffer| image(Stamp::from_nanos(stamp_ns), encoding, size, pixels, buffer);
        let message = Arc::new(self.pool.fill(make)?);
        Some(Job { stream: camera, stamp_ns, what: What::Image { camera, size }, message })
    }

    fn cloud(&mut self, ms: i64) -> Option<Job> {
        let first = self.random.below(FIRSTS as u64) as usize;
        let count = match self.random_sizes {
            true => self.random.below(MOST_POINTS as u64 + 1) as usize,
            false => MOST_POINTS,
        };
        let stamp_ns = ms * NANOS_PER_MS;
        let points = &self.points[first * POINT_STEP..(first + count) * POINT_STEP];
        let make = |buffer| cloud(Stamp::from_nanos(stamp_ns), points, buffer);
        let message = Arc::new(self.pool.fill(make)?);
        let what = What::Cloud { points: count as u32 };
        Some(Job { stream: LIDAR, stamp_ns, what, message })
    }

    /// The large messages that are stamped in a millisecond, and `None` for each for which there
    /// is no memory.
    pub fn large(&mut self, ms: i64) -> impl Iterator<Item = Option<Job>> {
        let images = CAMERAS.into_iter().filter(move |_| ms % CAMERA_MS == 0);
        let clouds = [LIDAR].into_iter().filter(move |_| ms % LIDAR_MS == 0);
        images.chain(clouds).map(move |stream| match stream {
            LIDAR => self.cloud(ms),
            camera => self.image(camera, ms),
        })
    }
}

/// What did not go as planned.
#[derive(Debug, Default)]
pub struct Spun {
    /// Images and clouds that were not sent: there was no memory, because the encoder lagged that far
    /// behind.
    pub refused: u64,
    /// Waits for the checker, which every message is told of: what came after them was late.
    pub waits: u64,
}

/// Sends messages until the end.
///
/// The checker hears of a message before the subject does, and so before any tick that serves it.
pub fn run(
    soak: &Soak<'_>,
    robot: &mut Robot,
    jobs: Sender<Job>,
    notes: SyncSender<Note>,
) -> Result<Spun, BenchError> {
    let mut spun = Spun::default();
    let mut phase = Random::new(11);
    // A checker or an encoder that is gone has failed, and says so itself.
    for ms in START_MS + 1..=START_MS + soak.ticks {
        soak.sleep_until((ms - START_MS) as u64 * PERIOD_NS + phase.below(PERIOD_NS));
        if soak.stopping() {
            break;
        }
        let stamp_ns = ms * NANOS_PER_MS;
        vectors(ms, |stream, bytes| {
            let note = Note::Vector { stream, stamp_ns, bytes: bytes.clone() };
            spun.waits += u64::from(tell(&notes, note));
            soak.push(stream, stamp_ns, &bytes)
        })?;
        for job in robot.large(ms) {
            let Some(job) = job else {
                spun.refused += 1;
                continue;
            };
            let Job { stream, stamp_ns, .. } = job;
            let note = Note::Large { stream, stamp_ns, message: job.message.clone() };
            spun.waits += u64::from(tell(&notes, note));
            let _ = jobs.send(job);
        }
    }
    Ok(spun)
}

/// Sends a note; says whether it had to wait for the checker.
fn tell(notes: &SyncSender<Note>, note: Note) -> bool {
    match notes.try_send(note) {
        Err(TrySendError::Full(note)) => {
            let _ = notes.send(note);
            true
        }
        _ => false,
    }
}
