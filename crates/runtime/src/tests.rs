//! Tests of the runtime without ROS: its threads, a simulated clock and a recording publisher.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::health::{Level, Monitor, Names};
use super::{
    Clock, Message, Observer, Publisher, Refused, Runtime, RuntimeError, ThreadOptions, Threads,
    TimeSource, Transit, VirtualTime,
};
use robocache_core::backend::cpu::CpuBackend;
use robocache_core::backend::{Backend, BackendError, StepJob};
use robocache_core::cdr::Writer;
use robocache_core::cdr::messages::Image;
use robocache_core::config;
use robocache_core::layout::Layout;
use robocache_core::message::TensorMessage;
use robocache_core::pipeline::Pipeline;
use robocache_core::rejected::DropReason;
use robocache_core::sample::PlacedSample;
use robocache_core::spec::{InputId, RingId, StreamId};
use robocache_ops::align::Slot;
use robocache_ops::device::OutputMut;
use robocache_ops::sync::lock;
use robocache_ops::time::{NANOS_PER_MS, NANOS_PER_S, Stamp, TickGrid};
use robocache_ops::voxelize::PointDrops;
use robocache_testing::{Wait, until};

const CONFIG: &str = "
rate_hz: 100
streams:
  wrench: {type: geometry_msgs/WrenchStamped, topic: /wrench, max_age_ms: 50, strategy: hold}
  camera: {type: sensor_msgs/Image, topic: /image, max_age_ms: 50, image: {resize: {width: 8, height: 8}}}
";
const WRENCH: InputId = InputId::new(0);
const CAMERA: InputId = InputId::new(1);

/// Stamps of the tensors that were published. While a test holds the lock, the publication waits.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Vec<Stamp>>>);

/// Gives itself back at the end of its thread.
struct GivenBack(std::sync::mpsc::Sender<GivenBack>);

impl Publisher for GivenBack {
    fn publish(&self, _: &mut TensorMessage) -> Result<(), Refused> {
        Ok(())
    }

    fn end(self) {
        let home = self.0.clone();
        home.send(self).unwrap();
    }
}

#[test]
fn at_the_end_of_its_thread_a_publisher_can_go_to_the_next_runtime() {
    let (home, given_back) = std::sync::mpsc::channel();
    let mut publisher = GivenBack(home);
    let config = config::parse(CONFIG, "test.yaml").unwrap();
    let backend: Arc<dyn Backend> =
        Arc::new(CpuBackend::new(&config, &Layout::new(&config)).unwrap());
    for _ in 0..2 {
        let clock = Clock::simulated(config.grid, TimeSource::real());
        let pipeline = Pipeline::new(config.clone(), Arc::clone(&backend)).unwrap();
        let runtime = Arc::new(Runtime::new(pipeline, clock));
        let threads: Threads<RuntimeError> =
            Threads::start(&runtime, publisher, None, ThreadOptions::default()).unwrap();
        assert!(given_back.try_recv().is_err());
        threads.stop().unwrap();
        publisher = given_back.try_recv().unwrap();
    }
}

impl Publisher for Recorder {
    fn publish(&self, message: &mut TensorMessage) -> Result<(), Refused> {
        let message = message.message();
        let word = |at: usize| message[at..at + 4].try_into().unwrap();
        let sec = i32::from_le_bytes(word(4));
        let nanosec = u32::from_le_bytes(word(8));
        lock(&self.0).push(Stamp::from_sec_nanosec(sec, nanosec).unwrap());
        Ok(())
    }
}

pub(super) fn ms(ms: i64) -> Stamp {
    Stamp::from_nanos(ms * NANOS_PER_MS)
}

fn wrench(stamp: Stamp) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.header(stamp, "tool");
    writer.f64_array(&[1.0; 6]);
    writer.finish()
}

pub(super) fn image(stamp: Stamp) -> Vec<u8> {
    let frame_id = "camera";
    let encoding = "mono8";
    let image = Image { stamp, frame_id, height: 2, width: 2, encoding, step: 2 };
    image.to_cdr(Vec::new(), |data| data.extend_from_slice(&[7; 4]))
}

struct Running {
    runtime: Arc<Runtime>,
    threads: Threads<RuntimeError>,
    recorder: Recorder,
}

impl Running {
    fn start(observer: Arc<dyn Observer>) -> Self {
        let config = config::parse(CONFIG, "test.yaml").unwrap();
        let backend = Arc::new(CpuBackend::new(&config, &Layout::new(&config)).unwrap());
        Self::on(backend, observer)
    }

    fn on(backend: Arc<dyn Backend>, observer: Arc<dyn Observer>) -> Self {
        Self::with(CONFIG, backend, observer, Recorder::default(), ThreadOptions::default())
    }

    fn with(
        config: &str,
        backend: Arc<dyn Backend>,
        observer: Arc<dyn Observer>,
        recorder: Recorder,
        options: ThreadOptions,
    ) -> Self {
        let config = config::parse(config, "test.yaml").unwrap();
        let clock = Clock::simulated(config.grid, TimeSource::real());
        let runtime = Runtime::observed(Pipeline::new(config, backend).unwrap(), clock, observer);
        let runtime = Arc::new(runtime);
        let threads = Threads::start(&runtime, recorder.clone(), None, options).unwrap();
        Running { runtime, threads, recorder }
    }

    /// Sets the clock to an instant at which a tick is due, and waits for the tick.
    fn tick(&self, at: Stamp) {
        let before = lock(&self.recorder.0).len();
        self.runtime.sim_clock().unwrap().set(at, Transit::UNKNOWN);
        until("a tick", || lock(&self.recorder.0).len() > before);
    }

    fn send(&self, input: InputId, message: Vec<u8>) {
        self.runtime.receive(input, message, self.runtime.clock.arrival(Transit::UNKNOWN)).unwrap();
    }

    fn steps_valid(&self) -> u64 {
        self.runtime.stream_stats(StreamId::new(0)).steps_valid.get()
    }

    /// Stops, and checks that all threads have ended. Returns the stamps of the published tensors.
    fn stop(self) -> Vec<Stamp> {
        self.threads.stop().unwrap();
        assert_eq!(Arc::strong_count(&self.runtime), 1, "all threads have ended");
        assert_eq!(Arc::strong_count(&self.recorder.0), 1);
        std::mem::take(&mut *lock(&self.recorder.0))
    }
}

#[test]
fn the_newest_due_tick_is_served_at_its_instant() {
    let running = Running::start(Arc::new(()));
    let clock = |at: i64| running.runtime.sim_clock().unwrap().set(ms(at), Transit::UNKNOWN);
    clock(995);
    running.send(WRENCH, wrench(ms(995)));
    running.tick(ms(1000));
    assert_eq!(running.steps_valid(), 1);
    // No tick is due at 1003 and 1009 ms. The step to 1055 ms misses three ticks.
    clock(1003);
    clock(1009);
    running.tick(ms(1010));
    running.tick(ms(1055));
    assert_eq!(running.runtime.ticks.grid.overruns.get(), 3);
    until("the count", || running.runtime.ticks.published.get() == 3);
    assert_eq!(running.stop(), [ms(1000), ms(1010), ms(1050)]);
}

#[test]
fn a_jump_back_clears_the_rings_and_ticks_go_on() {
    let running = Running::start(Arc::new(()));
    running.runtime.sim_clock().unwrap().set(ms(59_995), Transit::UNKNOWN);
    running.send(WRENCH, wrench(ms(59_995)));
    let before = running.runtime.clock.arrival(Transit::UNKNOWN);
    running.tick(ms(60_000));
    assert_eq!(running.steps_valid(), 1);

    running.tick(ms(500));
    assert_eq!(running.steps_valid(), 1, "the row from before the jump is gone");
    assert_eq!(running.runtime.pipeline.clock_jumps(), 1);
    // A small and a large message that were on their way during the jump.
    running.runtime.receive(WRENCH, wrench(ms(500)), before).unwrap();
    running.runtime.receive(CAMERA, image(ms(500)), before).unwrap();
    let cleared = |input| running.runtime.input_stats(input).dropped(DropReason::Cleared);
    assert_eq!(cleared(WRENCH), 1);
    until("the image is refused", || cleared(CAMERA) == 1);
    running.send(WRENCH, wrench(ms(505)));
    running.tick(ms(510));
    assert_eq!(running.steps_valid(), 2);
    assert_eq!(running.runtime.ticks.grid.overruns.get(), 0);
    assert_eq!(running.runtime.pipeline.clock_jumps(), 1);
    assert_eq!(running.stop(), [ms(60_000), ms(500), ms(510)]);
}

#[test]
fn a_publication_that_takes_long_delays_no_tick_and_the_newest_tensor_is_next() {
    let running = Running::start(Arc::new(()));
    let ticks = &running.runtime.ticks;
    running.runtime.sim_clock().unwrap().set(ms(995), Transit::UNKNOWN);
    running.tick(ms(1000));
    let slow = lock(&running.recorder.0);
    for tick in 101..=110 {
        running.runtime.sim_clock().unwrap().set(ms(10 * tick), Transit::UNKNOWN);
        until("a tick", || ticks.newest.load(Ordering::Relaxed) == tick);
        // The first tensor is with the publisher, before the second one waits for it.
        until("the publisher", || tick > 101 || running.runtime.outbox.is_empty());
    }
    drop(slow);
    until("the newest tensor", || ticks.published.get() == 3);
    assert_eq!((ticks.unsent.get(), ticks.grid.overruns.get()), (8, 0));
    assert_eq!(running.stop(), [ms(1000), ms(1010), ms(1100)]);
}

#[test]
fn a_driver_on_another_clock_before_the_simulator_starts_blocks_nothing() {
    let running = Running::start(Arc::new(()));
    let today = Stamp::from_nanos(1_795_000_000 * NANOS_PER_S);
    // Twice as many as the ring has rows, before the first message on /clock.
    for k in 0..2048 {
        running.send(WRENCH, wrench(today.offset(k * NANOS_PER_MS)));
    }
    running.runtime.sim_clock().unwrap().set(ms(995), Transit::UNKNOWN);
    running.send(WRENCH, wrench(today));
    running.send(WRENCH, wrench(ms(998)));
    running.tick(ms(1000));
    let dropped = |reason| running.runtime.input_stats(WRENCH).dropped(reason);
    assert_eq!((running.steps_valid(), dropped(DropReason::Late)), (1, 0));
    assert_eq!(dropped(DropReason::Ahead), 1);
    assert_eq!(running.runtime.pipeline.clock_jumps(), 0);
    running.stop();
}

const CAMERAS: &str = "
rate_hz: 100
streams:
  slow: {type: sensor_msgs/Image, topic: /slow, max_age_ms: 50, image: {resize: {width: 8, height: 8}}}
  fast: {type: sensor_msgs/Image, topic: /fast, max_age_ms: 50, image: {resize: {width: 8, height: 8}}}
";

/// The CPU backend, but ring 0 waits until `open` is unlocked.
struct Gate {
    backend: CpuBackend,
    open: Arc<Mutex<()>>,
}

impl Backend for Gate {
    fn name(&self) -> &'static str {
        "gate"
    }

    fn encode(
        &self,
        r: RingId,
        slot: Slot,
        s: &PlacedSample<'_>,
    ) -> Result<PointDrops, BackendError> {
        let _wait = (r.index() == 0).then(|| lock(&self.open));
        self.backend.encode(r, slot, s)
    }

    fn fuse(&self, jobs: &[StepJob], out: OutputMut<'_>) -> Result<(), BackendError> {
        self.backend.fuse(jobs, out)
    }
}

#[test]
fn a_slow_stream_delays_no_other_and_keeps_its_order() {
    let config = config::parse(CAMERAS, "test.yaml").unwrap();
    let open = Arc::default();
    let backend = CpuBackend::new(&config, &Layout::new(&config)).unwrap();
    let backend = Arc::new(Gate { backend, open: Arc::clone(&open) });
    let rows = Arc::default();
    let options = ThreadOptions { encode_threads: Some(2), ..ThreadOptions::default() };
    let observer = Arc::new(Pushed(Arc::clone(&rows)));
    let running = Running::with(CAMERAS, backend, observer, Recorder::default(), options);
    let [slow, fast] = [0, 1].map(InputId::new);
    running.runtime.sim_clock().unwrap().set(ms(100), Transit::UNKNOWN);
    let gate = lock(&open);
    for stamp in [91, 92, 93] {
        running.send(slow, image(ms(stamp)));
    }
    // More than the queue of an input holds, one after the other.
    for stamp in 80..90 {
        running.send(fast, image(ms(stamp)));
        until("the fast stream", || lock(&rows).last() == Some(&(fast, Some(ms(stamp)))));
    }
    lock(&rows).clear();
    drop(gate);
    until("the slow stream", || lock(&rows).len() == 3);
    assert_eq!(*lock(&rows), [91, 92, 93].map(|stamp| (slow, Some(ms(stamp)))));
    running.stop();
}

/// Inputs and stamps of the rows that the workers made.
struct Pushed(Arc<Mutex<Vec<InputRow>>>);

/// An input, and the stamp of the row that its message became.
type InputRow = (InputId, Option<Stamp>);

impl Observer for Pushed {
    fn pushed(&self, message: &Message, row: Option<Stamp>, _: Instant) {
        lock(&self.0).push((message.input, row));
    }
}

/// Stamps of the rows that a worker made.
struct RowStamps(Arc<Mutex<Vec<Option<Stamp>>>>);

impl Observer for RowStamps {
    fn pushed(&self, message: &Message, row: Option<Stamp>, since: Instant) {
        assert_eq!(message.input, CAMERA);
        assert!(since <= Instant::now());
        lock(&self.0).push(row);
    }
}

#[test]
fn a_worker_pushes_the_large_messages() {
    let rows = Arc::default();
    let running = Running::start(Arc::new(RowStamps(Arc::clone(&rows))));
    running.runtime.sim_clock().unwrap().set(ms(100), Transit::UNKNOWN);
    running.send(CAMERA, image(ms(95)));
    running.send(WRENCH, wrench(ms(95)));
    running.send(CAMERA, vec![1]);
    until("both images", || lock(&rows).len() == 2);
    assert_eq!(*lock(&rows), [Some(ms(95)), None]);
    let stats = running.runtime.input_stats(CAMERA);
    assert_eq!((stats.received.get(), stats.accepted.get()), (2, 1));
    running.stop();
}

const FRAMES: &str = "
rate_hz: 100
tf: {wait_ms: 50}
streams:
  goal: {type: geometry_msgs/PoseStamped, topic: /goal, strategy: hold, in_frame: map, max_age_ms: 50}
";

/// A message that notes the name of the thread that drops it.
struct Told(Vec<u8>, Arc<Mutex<String>>);

impl AsRef<[u8]> for Told {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        std::thread::current().name().unwrap_or_default().clone_into(&mut lock(&self.1));
    }
}

/// Starts a runtime in which a message waits for a transform. Returns the thread that drops it after
/// `act` for this reason.
fn dropped_by(
    clock: fn(TickGrid, TimeSource) -> Clock,
    reason: DropReason,
    act: fn(&Runtime),
) -> String {
    let config = config::parse(FRAMES, "test.yaml").unwrap();
    let backend = Arc::new(CpuBackend::new(&config, &Layout::new(&config)).unwrap());
    let clock = clock(config.grid, TimeSource::real());
    let runtime = Arc::new(Runtime::new(Pipeline::new(config, backend).unwrap(), clock));
    let recorder = Recorder::default();
    let threads: Threads<RuntimeError> =
        Threads::start(&runtime, recorder, None, ThreadOptions::default()).unwrap();
    match &runtime.clock {
        Clock::Recorded(clock) => drop(clock.set(ms(995))),
        _ => runtime.sim_clock().unwrap().set(ms(995), Transit::UNKNOWN),
    }
    let mut pose = Writer::new();
    pose.header(ms(995), "base");
    pose.f64_array(&[0.0, 0.0, 0.0]);
    pose.f64_array(&[0.0, 0.0, 0.0, 1.0]);
    let by = Arc::default();
    let message = Told(pose.finish(), Arc::clone(&by));
    let goal = InputId::new(0);
    runtime.receive(goal, message, runtime.clock.arrival(Transit::UNKNOWN)).unwrap();
    assert_eq!(runtime.waiting(goal), 1);
    act(&runtime);
    until("the drop", || runtime.input_stats(goal).dropped(reason) == 1);
    threads.stop().unwrap();
    assert_eq!(runtime.waiting(goal), 0);
    lock(&by).clone()
}

#[test]
fn the_tick_thread_frees_no_message_that_waited() {
    let given_up = dropped_by(Clock::simulated, DropReason::NoTransform, |runtime| {
        // The wait is over, and so is the time in which the transform may be on its way.
        runtime.sim_clock().unwrap().set(ms(1200), Transit::UNKNOWN);
    });
    // A clock that is set back, and no message says so.
    let cleared = dropped_by(Clock::recorded, DropReason::Cleared, |runtime| {
        let Clock::Recorded(clock) = &runtime.clock else { panic!("another clock") };
        clock.set(ms(10));
    });
    assert_eq!([given_up, cleared], ["encode", "encode"]);
}

/// A backend that always fails.
pub(super) struct Failing;

impl Failing {
    pub(super) fn error() -> BackendError {
        BackendError::Unavailable { backend: "failing", detail: "out of memory".into() }
    }
}

impl Backend for Failing {
    fn name(&self) -> &'static str {
        "failing"
    }

    fn encode(&self, _: RingId, _: Slot, _: &PlacedSample<'_>) -> Result<PointDrops, BackendError> {
        Err(Failing::error())
    }

    fn fuse(&self, _: &[StepJob], _: OutputMut<'_>) -> Result<(), BackendError> {
        Err(Failing::error())
    }
}

/// Drives a runtime whose backend fails, and returns the failure.
fn failure(drive: impl FnOnce(&Runtime)) -> String {
    let mut running = Running::on(Arc::new(Failing), Arc::new(()));
    drive(&running.runtime);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let mut wait = Wait::new("the failure");
    let failure = runtime.block_on(async {
        let failure = running.threads.failure();
        tokio::pin!(failure);
        loop {
            match tokio::time::timeout(wait.slice(), &mut failure).await {
                Ok(failure) => break failure,
                Err(_) => wait.check(),
            }
        }
    });
    assert!(running.threads.failed().is_none(), "one failure is one error");
    running.stop();
    failure.to_string()
}

#[test]
fn a_failing_backend_ends_a_thread_with_the_error() {
    let error = failure(|runtime| {
        runtime.sim_clock().unwrap().set(ms(1000), Transit::UNKNOWN);
        runtime.sim_clock().unwrap().set(ms(1010), Transit::UNKNOWN);
    });
    assert!(error.starts_with("fuse tick 10"), "{error}");
    assert!(error.ends_with(": backend failing: out of memory"), "{error}");
    let error = failure(|runtime| {
        runtime.receive(CAMERA, image(ms(5)), runtime.clock.arrival(Transit::UNKNOWN)).unwrap();
    });
    assert_eq!(error, "encode a message of stream 'camera': backend failing: out of memory");
}

#[test]
fn a_thread_that_panics_is_a_failure_and_the_others_are_joined() {
    let mut running = Running::start(Arc::new(()));
    running.threads.spawn("spin", || panic!("as the test has it")).unwrap();
    let error = running.threads.stop().unwrap_err();
    assert_eq!(error.to_string(), "the spin thread panicked");
    assert_eq!(Arc::strong_count(&running.runtime), 1);
}

#[test]
fn the_report_names_ticks_and_streams() {
    let running = Running::start(Arc::new(()));
    let topics = vec!["/left/wrench".to_owned(), "/left/image".to_owned()];
    let [middleware, remedy] = ["rmw_test", "Enlarge its shared memory"].map(str::to_owned);
    let names = Names { topics, middleware, remedy };
    let mut monitor = Monitor::new(Arc::clone(&running.runtime), names);
    assert_eq!(monitor.report().stamp, None);
    // No tick is due yet.
    running.runtime.sim_clock().unwrap().set(ms(1005), Transit::UNKNOWN);
    running.send(WRENCH, wrench(ms(1005)));
    running.tick(ms(1010));
    let report = monitor.report();
    assert_eq!(report.stamp, Some(ms(1010)));
    let parts: Vec<_> = report.parts.iter().map(|part| part.part.as_str()).collect();
    let other_loops = running.runtime.loops().skip(1).map(|(name, ..)| format!("loop {name}"));
    let expected = ["tick", "wrench", "camera"].map(str::to_owned).into_iter().chain(other_loops);
    assert_eq!(parts, expected.collect::<Vec<_>>());
    let [tick, wrench, camera, ..] = &report.parts[..] else { unreachable!() };
    assert_eq!((tick.level, wrench.level, camera.level), (Level::Ok, Level::Ok, Level::Ok));
    assert_eq!(camera.message, "waiting for the first message");
    let value = |key: &str| wrench.values.iter().find(|(k, _)| k == key).unwrap().1.as_str();
    assert_eq!((value("topic"), value("received"), value("rows")), ("/left/wrench", "1", "1"));
    drop(monitor);
    running.stop();
}

/// A message that arrived at this instant \[ns\].
fn arrived(nanos: i64) -> Transit {
    Transit { published_ns: None, arrived_ns: Some(nanos) }
}

#[test]
fn a_burst_that_is_taken_late_has_rows_at_its_receive_stamps() {
    let text = CONFIG.replace("topic: /wrench", "topic: /wrench, timeline: receive");
    let config = config::parse(&text, "test.yaml").unwrap();
    let backend = Arc::new(CpuBackend::new(&config, &Layout::new(&config)).unwrap());
    let began = ms(1_000_000);
    let time = VirtualTime::starting_at(began);
    let clock = Clock::system(config.grid, time.source());
    let runtime = Runtime::new(Pipeline::new(config, backend).unwrap(), clock);
    time.advance(Duration::from_millis(30));
    let take = |transit| {
        time.advance(Duration::from_micros(10));
        let arrival = runtime.arrival(WRENCH, transit);
        runtime.receive(WRENCH, wrench(Stamp::ZERO), arrival).unwrap();
        arrival
    };
    let received = |transit| take(transit).received.unwrap();
    // Two have one receive stamp, and another one came in between by the middleware's account.
    let ago = |ago: i64| arrived(began.nanos() + (30 - ago) * NANOS_PER_MS);
    let same = ago(20);
    let first = received(same);
    assert_eq!(first.nanos(), same.arrived_ns.unwrap());
    assert_eq!(received(same), first.offset(1));
    assert_eq!(received(ago(25)), first.offset(2));
    let next = ago(5);
    assert_eq!(received(next).nanos(), next.arrived_ns.unwrap());
    // In the future, before the clock was first read, and none.
    let early = arrived(began.offset(-NANOS_PER_S).nanos());
    let mut newest = next.arrived_ns.map(Stamp::from_nanos).unwrap();
    for insane in [ago(-3_600_000), early, arrived(0), Transit::UNKNOWN] {
        let arrival = take(insane);
        assert_eq!(arrival.received, arrival.stamp, "the time of taking");
        assert!(arrival.stamp.unwrap() > newest);
        newest = arrival.stamp.unwrap();
    }
    let stats = runtime.stream_stats(StreamId::new(0));
    assert_eq!((stats.rows.get(), stats.replaced.get(), stats.reordered.get()), (8, 0, 0));
    let before = |stamp| runtime.pipeline.row_before(StreamId::new(0), stamp);
    assert_eq!(before(first.offset(2)), Some(first.offset(1)));
    assert_eq!(before(first.offset(1)), Some(first));
}
