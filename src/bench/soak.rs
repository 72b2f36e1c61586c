//! Ticks at 1 kHz with all streams live: how punctual they are, whether memory stays as it is and
//! whether the bits are right all along.
//!
//! The threads are those of the node, so that what is late here would be late there:
//!
//! - *spin* makes the messages; vectors go straight into their rings, images and clouds to the
//!   encoder. Its messages come at any time within their millisecond, as sensors are in no step
//!   with the ticks.
//! - *encode* pushes images and clouds.
//! - *tick* sleeps to the next tick and fuses, at real-time priority where that is permitted.
//!
//! and beside them:
//!
//! - *probe* sleeps to the same instants as *tick*, at a higher priority, and does nothing else.
//!   What it misses, a thread misses without any work of ours ([`probe`]).
//! - *check* compares ticks with the CPU backend ([`check`]).

mod check;
mod probe;
mod report;
mod spin;
mod tick;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::mpsc;
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use self::check::Checker;
use self::report::Parts;
pub use self::report::SoakReport;
use self::spin::{Job, Robot};
use super::messages::{LIDAR, ROBOT, vectors};
use super::pair::{Pair, push};
use super::{BenchError, Options, Report};
use crate::backend::BackendError;
use crate::pipeline::Pipeline;
use crate::time::NANOS_PER_MS;

/// Priority of the thread that ticks: the node's default.
const TICK_PRIORITY: u8 = 20;

/// Between two ticks \[ns\].
const PERIOD_NS: u64 = NANOS_PER_MS as u64;

/// The soak starts at this instant of its robot \[ms\]: what came before warms up.
const START_MS: i64 = 1000;

/// Between two looks at the free memory, which cost a call of the driver each.
const LOOK: Duration = Duration::from_secs(10);

/// Notes that may wait for the checker: three seconds of all streams.
const NOTES: usize = 4096;

/// What the threads share.
struct Soak<'a> {
    subject: &'a Pipeline,
    /// Instant 0 of all times below.
    start: Instant,
    ticks: i64,
    /// Set when a thread failed.
    stop: AtomicBool,
    /// By stream: the stamp up to which its messages are in their ring \[ns\].
    settled: Vec<AtomicI64>,
}

impl Soak<'_> {
    /// Nanoseconds since the start.
    fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    fn sleep_until(&self, ns: u64) {
        let until = self.start + Duration::from_nanos(ns);
        thread::sleep(until.saturating_duration_since(Instant::now()));
    }

    fn stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn end_ns(&self) -> u64 {
        self.ticks as u64 * PERIOD_NS
    }

    /// Gives a message to the subject, and notes that it is there.
    fn push(&self, stream: usize, stamp_ns: i64, message: &[u8]) -> Result<(), BenchError> {
        push(self.subject, stream, message)?;
        self.settled[stream].store(stamp_ns, Ordering::Release);
        Ok(())
    }

    /// Runs a thread; an error or a panic of one ends all.
    fn run<T>(&self, body: impl FnOnce() -> Result<T, BenchError>) -> Result<T, BenchError> {
        let outcome = catch_unwind(AssertUnwindSafe(body));
        if !matches!(outcome, Ok(Ok(_))) {
            self.stop.store(true, Ordering::Relaxed);
        }
        outcome.unwrap_or_else(|panic| resume_unwind(panic))
    }
}

/// Something that took time while ticks went on \[ns since the start\].
#[derive(Clone, Copy, Debug)]
struct Span {
    what: What,
    from: u64,
    to: u64,
}

/// What took time.
#[derive(Clone, Copy, Debug)]
enum What {
    /// A push of an image.
    Image { camera: usize, size: [u32; 2] },
    /// A push of a cloud.
    Cloud { points: u32 },
    /// A comparison with the CPU backend.
    Check,
    /// A look at the free memory.
    Look,
    /// The probe slept too long, and missed this many instants.
    Stall { missed: u64 },
}

/// Runs the ticks and notes how they went.
///
/// # Errors
/// [`BenchError::Backend`] and [`BenchError::Dropped`] end the run. What a run found that lasted
/// to its end is in [`SoakReport::problems`].
pub fn run(options: &Options, report: &mut Report) -> Result<(), BenchError> {
    let text = ROBOT.replace("rate_hz: 100\n", "rate_hz: 1000\n");
    let pair = Pair::new(&text, options, report)?;
    let robot = Robot::new(options.random_sizes);
    let gpu = Gpu::open(options, report)?;
    warm_up(&pair, &robot)?;
    let streams = pair.subject.config().streams.len();
    let soak = Soak {
        subject: &pair.subject,
        // Threads need a moment to start.
        start: Instant::now() + Duration::from_millis(100),
        ticks: options.soak_s as i64 * 1000,
        stop: AtomicBool::new(false),
        settled: (0..streams).map(|_| AtomicI64::new(i64::MIN)).collect(),
    };
    let parts = run_threads(&soak, &pair.oracle, robot, &gpu)?;
    report.soak = Some(SoakReport::new(options, parts));
    Ok(())
}

/// Messages of the largest size for all rows, and ticks, so that whatever is reserved, loaded or
/// touched on first use is there. Both pipelines are in the same state after it.
fn warm_up(pair: &Pair, robot: &Robot) -> Result<(), BenchError> {
    let mut frame = pair.subject.new_frame();
    let rows = pair.subject.config().streams[LIDAR].ring_rows as i64;
    for ms in 1..START_MS / 2 {
        if ms <= rows + 1 {
            for (stream, message) in robot.largest(ms) {
                pair.push(stream, &message, true)?;
            }
        }
        vectors(ms, |stream, message| pair.push(stream, &message, true).map(|_| ()))?;
        pair.subject.tick(ms, &mut frame)?;
    }
    Ok(())
}

fn run_threads(
    soak: &Soak<'_>,
    oracle: &Pipeline,
    mut robot: Robot,
    gpu: &Gpu,
) -> Result<Parts, BenchError> {
    let (jobs_in, jobs) = mpsc::channel();
    let (notes_in, notes) = mpsc::sync_channel(NOTES);
    let ticker_notes = notes_in.clone();
    // Lives until all looks at the memory are done.
    let robot = &mut robot;
    thread::scope(|scope| {
        let probe = scope.spawn(|| Ok(probe::run(soak)));
        let check = scope.spawn(|| soak.run(|| Checker::new(soak, oracle).run(notes)));
        let encode = scope.spawn(|| soak.run(|| encode(soak, jobs)));
        let spin = scope.spawn(|| soak.run(move || spin::run(soak, robot, jobs_in, notes_in)));
        let tick = scope.spawn(|| soak.run(move || tick::run(soak, &ticker_notes)));
        let memory = soak.run(|| watch(soak, gpu));
        // Spin and tick end on their own, and then the others, for want of messages.
        Ok(Parts {
            tick: joined(tick)?,
            spun: joined(spin)?,
            pushes: joined(encode)?,
            probe: joined(probe)?,
            checked: joined(check)?,
            memory: memory?,
        })
    })
}

fn joined<T>(thread: ScopedJoinHandle<'_, Result<T, BenchError>>) -> Result<T, BenchError> {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}

/// Pushes images and clouds until there are no more.
fn encode(soak: &Soak<'_>, jobs: mpsc::Receiver<Job>) -> Result<Vec<Span>, BenchError> {
    let mut spans = Vec::new();
    // Pages that are touched now are not counted as growth later.
    spans.resize(soak.ticks as usize / 10 + 100, Span { what: What::Look, from: 1, to: 1 });
    spans.clear();
    for Job { stream, stamp_ns, what, message } in jobs {
        let from = soak.now();
        soak.push(stream, stamp_ns, &message.bytes)?;
        spans.push(Span { what, from, to: soak.now() });
    }
    Ok(spans)
}

/// Memory at the start, in between and at the end \[bytes\].
#[derive(Clone, Copy, Debug)]
struct Memory {
    /// Free on the whole GPU; the least is that of any look.
    device: Option<[usize; 3]>,
    /// Resident in this process; the middle one is the most of any look.
    resident: Option<[usize; 3]>,
}

/// Looks at the memory now and then until the soak is over.
fn watch(soak: &Soak<'_>, gpu: &Gpu) -> Result<(Memory, Vec<Span>), BenchError> {
    // The threads have reserved what they need by then.
    soak.sleep_until(0);
    let (device, host) = (gpu.free_bytes()?, resident_bytes());
    let mut memory =
        Memory { device: device.map(|free| [free; 3]), resident: host.map(|bytes| [bytes; 3]) };
    let mut spans = Vec::new();
    let mut last = Instant::now();
    let mut over = false;
    while !over {
        thread::sleep(Duration::from_millis(20));
        over = soak.stopping() || soak.now() >= soak.end_ns();
        if last.elapsed() < LOOK && !over {
            continue;
        }
        last = Instant::now();
        let from = soak.now();
        if let (Some([_, least, end]), Some(free)) = (&mut memory.device, gpu.free_bytes()?) {
            (*least, *end) = (free.min(*least), free);
        }
        if let (Some([_, most, end]), Some(bytes)) = (&mut memory.resident, resident_bytes()) {
            (*most, *end) = (bytes.max(*most), bytes);
        }
        spans.push(Span { what: What::Look, from, to: soak.now() });
    }
    Ok((memory, spans))
}

/// What of this process is in memory (proc(5)); `None` where the system does not tell.
fn resident_bytes() -> Option<usize> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: usize = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib * 1024)
}

/// The GPU of the subject, if it is on one.
struct Gpu {
    #[cfg(feature = "cuda")]
    device: Option<std::sync::Arc<crate::backend::cuda::Device>>,
}

impl Gpu {
    #[cfg(feature = "cuda")]
    fn open(options: &Options, report: &mut Report) -> Result<Self, BackendError> {
        if report.backend != "cuda" {
            return Ok(Gpu { device: None });
        }
        let device = crate::backend::cuda::Device::open(options.device)?;
        device.name().clone_into(&mut report.device);
        Ok(Gpu { device: Some(device) })
    }

    #[cfg(not(feature = "cuda"))]
    fn open(_: &Options, _: &mut Report) -> Result<Self, BackendError> {
        Ok(Gpu {})
    }

    fn free_bytes(&self) -> Result<Option<usize>, BackendError> {
        #[cfg(feature = "cuda")]
        let free = self.device.as_ref().map(|device| device.free_bytes()).transpose();
        #[cfg(not(feature = "cuda"))]
        let free = Ok(None);
        free
    }
}
