//! Ticks at 1 kHz with all streams live: how punctual they are, whether memory stays as it is and
//! whether the bits are right all along.
//!
//! The [`runtime`](robocache_runtime) is the node's, so that what is late here would be late there. The
//! simulated robot feeds it ([`feed`]), and a publisher and observer notes how it works ([`tick`]).
//! Beside them:
//!
//! - *probe* sleeps to the same instants as the ticks, at a higher priority, and does nothing else.
//!   What it misses, a thread misses without any work of ours ([`probe`]).
//! - *check* compares ticks with the CPU backend ([`check`]).

mod check;
mod feed;
mod memory;
mod note;
mod probe;
mod report;
mod tick;
mod timeline;

use std::panic::resume_unwind;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use self::check::Checker;
use self::feed::{Fed, Feed, Large};
use self::memory::Gpu;
use self::note::{Note, Settled, tell};
pub(crate) use self::report::SoakReport;
use self::report::{Processors, ThreadNotes};
use self::tick::{LeftTensors, Recorder};
use self::timeline::{START_MS, Timeline};
use crate::error::BenchError;
use crate::messages::ROBOT;
use crate::options::Options;
use crate::pair::{Hardware, PipelinePair};
use robocache_core::pipeline::Pipeline;
use robocache_core::rejected::DropReason;
use robocache_ops::time::{Epoch, NANOS_PER_MS, Stamp};
use robocache_runtime::{Placement, Runtime, RuntimeError, ThreadOptions, Threads};
use robocache_sim::{Robot, Schedule, Stream};

/// Priority of the thread that ticks: the node's default.
const TICK_PRIORITY: u8 = 20;

/// Notes that may wait for the checker: three seconds of all streams.
const NOTES: usize = 4096;

/// So long after the end the last tick and the last pushes must be done.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs the ticks and returns how they went. Notes in `hardware` where they ran.
///
/// # Errors
/// [`BenchError::Backend`], [`BenchError::Runtime`] and [`BenchError::Dropped`] end the run. What a
/// run found that lasted to its end is in [`SoakReport::problems`].
pub(crate) fn run(options: &Options, hardware: &mut Hardware) -> Result<SoakReport, BenchError> {
    let text = ROBOT.replace("rate_hz: 100\n", "rate_hz: 1000\n");
    let pair = PipelinePair::new(&text, options, hardware)?;
    let robot = feed::robot(options.soak_s)?;
    let mut large = Large::new(&robot, options.random_sizes);
    let gpu = Gpu::open(options, hardware)?;
    warm_up(&pair, &robot, &large)?;
    let (notes_in, notes) = mpsc::sync_channel(NOTES);
    let PipelinePair { subject, oracle } = pair;
    let soak = Soak::new(options, subject, notes_in);
    let parts = soak.run(&oracle, &robot, &mut large, notes, &gpu)?;
    Ok(SoakReport::new(options, parts))
}

/// Messages of the largest size for all rows, and ticks, so that whatever is reserved, loaded or
/// touched on first use is there. Both pipelines are in the same state after it.
fn warm_up(pair: &PipelinePair, robot: &Robot, large: &Large<'_>) -> Result<(), BenchError> {
    let config = pair.subject.config();
    let mut message = pair.subject.new_message();
    let ms = |ms: i64| Stamp::from_nanos(ms * NANOS_PER_MS);
    let both = |stream: Stream, message: &[u8]| -> Result<(), BenchError> {
        feed::input_of(config, stream)
            .map_or(Ok(()), |input| pair.push(input.index(), message, true).map(|_| ()))
    };
    for stream in feed::streams(config, true) {
        let rows =
            feed::input_of(config, stream).map_or(0, |at| config.streams[at.index()].ring_rows);
        for at in 1..=rows as i64 + 1 {
            both(stream, &large.largest(stream, ms(at)))?;
        }
    }
    let small = feed::streams(config, false);
    let mut events = Schedule::of_streams(robot.options(), ms(1), &small).peekable();
    for tick in 1..START_MS / 2 {
        while let Some(event) = events.next_if(|event| event.send_at <= ms(tick)) {
            both(event.stream, &robot.message(&event, Vec::new()))?;
        }
        pair.subject.tick(tick, Epoch::default(), &mut message)?;
    }
    Ok(())
}

/// A runtime that is listened to.
struct Soak {
    timeline: Arc<Timeline>,
    settled: Arc<Settled>,
    recorder: Arc<Recorder>,
    runtime: Arc<Runtime>,
    notes: SyncSender<Note>,
}

impl Soak {
    fn new(options: &Options, subject: Pipeline, notes: SyncSender<Note>) -> Self {
        let timeline = Arc::new(Timeline::new(options.soak_s as i64 * 1000));
        let config = subject.config();
        let settled = Arc::new(Settled::new(config.inputs.len()));
        let recorder = Arc::new(Recorder::new(
            Arc::clone(&timeline),
            Arc::clone(&settled),
            notes.clone(),
            feed::cameras(config),
            feed::input_of(config, Stream::Lidar),
            subject.new_message().message().len(),
        ));
        let runtime = Runtime::observed(subject, timeline.clock(), recorder.clone());
        Soak { timeline, settled, recorder, runtime: Arc::new(runtime), notes }
    }

    fn run(
        &self,
        oracle: &Pipeline,
        robot: &Robot,
        large: &mut Large<'_>,
        notes: Receiver<Note>,
        gpu: &Gpu,
    ) -> Result<ThreadNotes, BenchError> {
        let timeline = &*self.timeline;
        let feed = Feed {
            timeline,
            runtime: &self.runtime,
            robot,
            settled: &self.settled,
            notes: self.notes.clone(),
        };
        thread::scope(|scope| {
            let probe = scope.spawn(|| Ok(probe::run(timeline, TICK_PRIORITY + 1)));
            let check = scope.spawn(|| timeline.run(|| Checker::new(timeline, oracle).run(notes)));
            let small = scope.spawn(|| timeline.run(|| feed.small()));
            let large = scope.spawn(|| timeline.run(|| feed.large(large)));
            let work = timeline.run(|| self.work(gpu, small, large));
            tell(&self.notes, Note::End);
            let probe = joined(probe)?;
            let checked = joined(check)?;
            let (memory, fed, priority) = work?;
            let (tick, pushes) = self.recorder.take();
            Ok(ThreadNotes {
                tick,
                processors: Processors::read(&self.runtime.pipeline),
                priority,
                refused: fed.refused + self.dropped(DropReason::Overload),
                skipped: fed.skipped,
                waits: fed.waits,
                pushes,
                probe,
                checked,
                memory,
            })
        })
    }

    /// Lets the runtime work until the robot has sent all and it is done.
    fn work(
        &self,
        gpu: &Gpu,
        small: ScopedJoinHandle<'_, Result<Fed, BenchError>>,
        large: ScopedJoinHandle<'_, Result<Fed, BenchError>>,
    ) -> Result<Worked, BenchError> {
        let tick = Placement { priority: TICK_PRIORITY, cpus: vec![] };
        let options = ThreadOptions { tick, ..ThreadOptions::default() };
        let mut threads =
            Threads::<RuntimeError>::start(&self.runtime, LeftTensors, None, options)?;
        let priority = || self.runtime.ticks.grid.priority.load(Ordering::Relaxed);
        self.timeline.sleep_until(0);
        let first = priority();
        let memory = memory::watch(&self.timeline, gpu, || threads.failed().map(BenchError::from))?;
        let small = joined(small)?;
        let large = joined(large)?;
        let end = Instant::now() + PATIENCE;
        let done = |large: &Fed| {
            let pushed = self.recorder.push_count() as u64 + self.dropped(DropReason::Overload);
            self.recorder.is_over() && pushed >= large.large
        };
        while !done(&large) && !self.timeline.stopping() && Instant::now() < end {
            thread::sleep(Duration::from_millis(5));
        }
        let priority = [first, priority()];
        threads.stop()?;
        self.nothing_dropped()?;
        Ok((memory, Fed { waits: small.waits + large.waits, ..large }, priority))
    }

    /// Messages of all inputs that were dropped for a reason.
    fn dropped(&self, reason: DropReason) -> u64 {
        let inputs = self.runtime.inputs();
        inputs.map(|input| self.runtime.input_stats(input).dropped(reason)).sum()
    }

    /// All messages are good: none may be dropped, except because time was short.
    fn nothing_dropped(&self) -> Result<(), BenchError> {
        for input in self.runtime.inputs() {
            let reasons = DropReason::ALL.into_iter().filter(|r| *r != DropReason::Overload);
            for reason in reasons {
                let dropped = self.runtime.input_stats(input).dropped(reason);
                if dropped > 0 {
                    let case = self.runtime.input_spec(input).name.clone();
                    let found = format!("{dropped} dropped: {}", reason.name());
                    return Err(BenchError::Dropped { case, found });
                }
            }
        }
        Ok(())
    }
}

/// The memory, what was fed, and the priority of the tick thread at the start and at the end.
type Worked = ((memory::MemoryUse, Vec<timeline::Span>), Fed, [u8; 2]);

fn joined<T>(thread: ScopedJoinHandle<'_, Result<T, BenchError>>) -> Result<T, BenchError> {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}

/// Locks a list of notes, also after a panic elsewhere: that panic ends the soak, which reports no
/// note then.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
