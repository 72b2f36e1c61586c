//! Both processors of a ring, with a mock in place of the GPU: a thread that encodes on the CPU,
//! and that waits, fails or panics on demand. No GPU is used here. Time passes only when a test says so.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use super::choice::CALL_LIMIT_NS;
use super::gpu_thread::{Doing, GpuThread};
use super::*;
use crate::encoder::EncoderSpec;
use crate::rejected::{DropReason, Rejected};
use robocache_ops::image::cpu::ImageEncoder;
use robocache_ops::image::{Encoding, ImageView};
use robocache_ops::voxelize::{FieldAt, FieldType, IDENTITY, PointsView};
use robocache_testing::threads::ThreadNumber;
use robocache_testing::{Finally, until};

const CONFIG: &str = "
rate_hz: 100
streams:
  camera: {type: sensor_msgs/Image, topic: /camera, max_age_ms: 50, image: {resize: {width: 64, height: 48}}}
  lidar:
    type: sensor_msgs/PointCloud2
    topic: /lidar
    max_age_ms: 50
    cloud:
      origin_m: [0, 0, 0]
      size_m: 1.0
      shape: [8, 8, 4]
      channels: [{reduce: count}]
";

const CAMERA: RingId = RingId::new(0);
const SIZE: [usize; 2] = [320, 240];

/// Action of the mock on a message.
#[derive(Clone, Copy)]
#[repr(u8)]
enum Mode {
    Encode,
    /// After the test lets it go on, or has ended.
    Wait,
    Fail,
    Panic,
    Refuse,
    LeaveToCore,
}

/// The test's side of the mock.
struct Control {
    mode: AtomicU8,
    staged: AtomicU64,
    runs: AtomicU64,
    abandoned: AtomicBool,
    /// Lets the mock go on once for each message, and always after it is dropped.
    go_on: Mutex<Option<Sender<()>>>,
    began: Instant,
    /// Time that has passed \[ns\].
    passed_ns: AtomicU64,
}

impl Control {
    fn set(&self, mode: Mode) {
        self.mode.store(mode as u8, Ordering::SeqCst);
    }

    fn now(&self) -> Instant {
        self.began + Duration::from_nanos(self.passed_ns.load(Ordering::SeqCst))
    }

    fn pass(&self, time: Duration) {
        self.passed_ns.fetch_add(time.as_nanos() as u64, Ordering::SeqCst);
    }

    /// Ends every wait of the mock, now and later.
    fn end_waits(&self) {
        drop(lock(&self.go_on).take());
    }

    /// Acts on another thread. While that sleeps, because it waits for the mock, time passes.
    fn while_time_passes<T: Send>(&self, act: impl FnOnce() -> T + Send) -> T {
        let number = ThreadNumber::default();
        thread::scope(|scope| {
            let _ends = Finally(|| {
                if thread::panicking() {
                    self.end_waits();
                }
            });
            let acts = scope.spawn(|| {
                number.is_this();
                act()
            });
            until("the thread that waits for the GPU goes on", || {
                if number.is_asleep() {
                    self.pass(Duration::from_millis(1));
                }
                acts.is_finished()
            });
            acts.join().unwrap()
        })
    }
}

/// A mock of a GPU.
struct Mock {
    control: Arc<Control>,
    encoder: ImageEncoder,
    staged: Vec<u8>,
    row: HostBuffer,
    may_go_on: Arc<Mutex<Receiver<()>>>,
    waits: bool,
}

impl GpuEncoder for Mock {
    fn stage(&mut self, placed: &PlacedSample<'_>) -> bool {
        self.control.staged.fetch_add(1, Ordering::SeqCst);
        let Sample::Image(view) = &placed.sample else { return false };
        self.staged.clear();
        self.staged.extend_from_slice(view.data);
        true
    }

    fn run(&mut self) -> Result<PointDrops, BackendError> {
        self.control.runs.fetch_add(1, Ordering::SeqCst);
        let mode = self.control.mode.load(Ordering::SeqCst);
        if mode == Mode::Wait as u8 {
            self.waits = true;
            let _ = self.may_go_on.lock().unwrap().recv();
        } else if mode == Mode::Fail as u8 {
            let operation = "encode";
            let detail = "a mock of a failure".into();
            return Err(BackendError::Failed { backend: "mock", operation, detail });
        } else if mode == Mode::LeaveToCore as u8 {
            return Err(BackendError::ForCore);
        } else if mode == Mode::Panic as u8 {
            panic!("a mock of a panic");
        } else if mode == Mode::Refuse as u8 {
            return Err(Rejected::new(DropReason::OutOfRange, "a mock".to_owned()).into());
        }
        self.encoder.encode(&view(&self.staged), &mut self.row);
        self.waits = false;
        Ok(PointDrops::default())
    }

    fn row(&mut self) -> Option<&mut HostBuffer> {
        (!self.waits).then_some(&mut self.row)
    }
}

fn view(data: &[u8]) -> ImageView<'_> {
    let [width, height] = SIZE;
    ImageView { encoding: Encoding::Rgb8, width, height, step: 3 * width, data, remap: None }
}

/// A backend with a mock beside the oracle.
struct Subject {
    subject: Option<CpuBackend>,
    oracle: CpuBackend,
    layout: Layout,
    control: Arc<Control>,
    number: usize,
}

impl Subject {
    fn new(mode: Mode) -> Self {
        let config = crate::config::parse(CONFIG, "test.yaml").unwrap();
        let layout = Layout::new(&config);
        let (go_on, may_go_on) = channel();
        let control = Arc::new(Control {
            mode: AtomicU8::new(mode as u8),
            staged: AtomicU64::new(0),
            runs: AtomicU64::new(0),
            abandoned: AtomicBool::new(false),
            go_on: Mutex::new(Some(go_on)),
            began: Instant::now(),
            passed_ns: AtomicU64::new(0),
        });
        let [abandoned, clock] = [&control, &control].map(Arc::clone);
        let abandon = move || {
            assert!(!abandoned.abandoned.swap(true, Ordering::SeqCst), "abandoned twice");
        };
        let gpu = Gpu::timed(abandon, move || clock.now());
        let may_go_on = Arc::new(Mutex::new(may_go_on));
        let encoder = |spec: &StreamSpec| -> Result<Option<Box<dyn GpuEncoder>>, BackendError> {
            let EncoderSpec::Image(image) = &spec.encoder else {
                return Ok(Some(Box::new(Unused)));
            };
            Ok(Some(Box::new(Mock {
                control: Arc::clone(&control),
                encoder: ImageEncoder::new(image, spec.dtype),
                staged: Vec::new(),
                row: HostBuffer::new(spec.encoder.row_len() * spec.dtype.size()),
                may_go_on: Arc::clone(&may_go_on),
                waits: false,
            })))
        };
        let subject = CpuBackend::with_encoders(&config, &layout, gpu, encoder).unwrap();
        let oracle = CpuBackend::new(&config, &layout).unwrap();
        Subject { subject: Some(subject), oracle, layout, control, number: 0 }
    }

    fn backend(&self) -> &CpuBackend {
        self.subject.as_ref().unwrap()
    }

    fn hybrid(&self) -> &HybridEncoder {
        self.backend().rings[CAMERA.index()].hybrid.as_ref().unwrap()
    }

    fn thread(&self) -> &GpuThread {
        &self.hybrid().thread
    }

    /// Tells the chooser that the GPU is the faster one by far, so that the next message goes there.
    fn prefer_the_gpu(&self) {
        self.hybrid().prefer_gpu_to(Duration::from_millis(5));
        assert_eq!(self.encodes().in_use, Processor::Gpu);
    }

    /// Encodes images until the mock has one more. It has it in a shadow, because a core is in use.
    fn messages_until_the_mock_has_one(&mut self) {
        let before = self.control.staged.load(Ordering::SeqCst);
        while self.control.staged.load(Ordering::SeqCst) == before {
            self.message();
            self.control.pass(Duration::from_secs(1));
            assert!(self.number < 1000, "{:?}", self.encodes());
        }
    }

    /// Encodes an image that a core takes over from the mock.
    fn message_that_is_taken_over(&mut self) {
        let control = Arc::clone(&self.control);
        control.while_time_passes(|| self.message());
    }

    /// Encodes another image on both and compares the rows.
    fn message(&mut self) {
        self.encode(|backend, slot, sample| backend.encode(CAMERA, slot, sample));
    }

    fn encode(
        &mut self,
        encode: impl Fn(&CpuBackend, Slot, &PlacedSample<'_>) -> Result<PointDrops, BackendError>,
    ) {
        self.number += 1;
        let byte = |at: usize| (at * 31 + self.number * 17) as u8;
        let data: Vec<u8> = (0..3 * SIZE[0] * SIZE[1]).map(byte).collect();
        let slot = Slot::new(self.number % 2);
        let sample = &Sample::Image(view(&data)).into();
        encode(self.backend(), slot, sample).unwrap();
        self.oracle.encode(CAMERA, slot, sample).unwrap();
        let value = Value::Row(slot);
        let job = StepJob { ring: CAMERA, step: 0, value, unchanged: false };
        let [mut found, mut expected] =
            [vec![0xAB; self.layout.byte_len()], vec![0xAB; self.layout.byte_len()]];
        self.backend().fuse(&[job], found.as_mut_slice().into()).unwrap();
        self.oracle.fuse(&[job], expected.as_mut_slice().into()).unwrap();
        assert!(found == expected, "image {}: other bits", self.number);
    }

    fn messages(&mut self, count: usize) {
        (0..count).for_each(|_| self.message());
    }

    fn encodes(&self) -> Encodes {
        self.backend().encodes(CAMERA).unwrap()
    }

    fn left(&self) -> Option<String> {
        match self.backend().gpu() {
            GpuUse::Left { reason } => Some(reason),
            GpuUse::InUse => None,
            GpuUse::None => panic!("a GPU is expected"),
        }
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        // So that the test leaves no thread behind.
        self.control.end_waits();
    }
}

/// For a ring that the tests do not use.
struct Unused;

impl GpuEncoder for Unused {
    fn stage(&mut self, _: &PlacedSample<'_>) -> bool {
        false
    }

    fn run(&mut self) -> Result<PointDrops, BackendError> {
        unreachable!("nothing was staged")
    }

    fn row(&mut self) -> Option<&mut HostBuffer> {
        None
    }
}

#[test]
fn each_row_has_the_bits_of_the_cpu_whoever_was_first() {
    let mut subject = Subject::new(Mode::Encode);
    for k in 0..60 {
        if k == 30 {
            subject.prefer_the_gpu();
        }
        subject.message();
        subject.control.pass(Duration::from_millis(33));
    }
    let forced = |backend: &CpuBackend, slot: Slot, sample: &PlacedSample<'_>| {
        let processor = if slot.index() == 0 { Processor::Gpu } else { Processor::Cpu };
        backend.encode_on(processor, CAMERA, slot, sample)
    };
    (0..20).for_each(|_| subject.encode(forced));
    let encodes = subject.encodes();
    assert_eq!(encodes.by_cpu + encodes.by_gpu, 80);
    assert!(encodes.by_gpu >= 10 && encodes.by_cpu >= 10, "{encodes:?}");
    assert_eq!((encodes.takeovers, subject.left()), (0, None));
}

#[test]
fn a_row_that_nobody_waited_for_is_not_taken_for_that_of_the_next_sample() {
    let subject = Subject::new(Mode::Encode);
    let thread = subject.thread();
    let now = subject.control.now();
    let data = vec![7; 3 * SIZE[0] * SIZE[1]];
    let sample = Sample::Image(view(&data)).into();
    assert!(thread.hand_over(&sample, now));
    until("the row", || thread.ready().load(Ordering::SeqCst));
    // The thread still has the row of the first sample.
    assert!(!thread.hand_over(&sample, now));
    let (took, doing) = thread.poll();
    assert!(took.is_some() && doing == Doing::Nothing);
    assert!(!thread.ready().load(Ordering::SeqCst));
    assert!(thread.hand_over(&sample, now));
    assert!(thread.wait(now + Duration::from_secs(1)).is_some());
}

#[test]
fn a_slow_gpu_is_a_shadow_that_delays_nothing() {
    let mut subject = Subject::new(Mode::Wait);
    for run in 1..=3 {
        subject.messages_until_the_mock_has_one();
        let control = Arc::clone(&subject.control);
        until("the mock begins", || control.runs.load(Ordering::SeqCst) == run);
        // Meanwhile, rows come from the core, one after the other.
        subject.messages(10);
        control.pass(Duration::from_millis(500));
        lock(&control.go_on).as_ref().unwrap().send(()).unwrap();
        until("its row", || subject.thread().ready().load(Ordering::SeqCst));
    }
    subject.messages(1);
    let encodes = subject.encodes();
    assert_eq!((encodes.by_gpu, encodes.in_use, encodes.takeovers), (0, Processor::Cpu, 0));
    assert_eq!(encodes.by_cpu, subject.number as u64);
    assert!(encodes.gpu_ns.unwrap() >= 500_000_000, "{encodes:?}");
    assert_eq!(subject.left(), None);
}

#[test]
fn a_core_takes_over_from_a_gpu_that_gets_slow() {
    let mut subject = Subject::new(Mode::Encode);
    subject.prefer_the_gpu();
    subject.messages(2);
    assert_eq!(subject.encodes().by_gpu, 2, "{:?}", subject.encodes());
    subject.control.set(Mode::Wait);
    subject.message_that_is_taken_over();
    let encodes = subject.encodes();
    assert_eq!((encodes.by_gpu, encodes.by_cpu, encodes.takeovers), (2, 1, 1));
    // The mock still has that message. Later rows do not wait for it.
    subject.messages(4);
    assert_eq!(subject.encodes().by_cpu, 5);
    // And its row is not used.
    subject.control.end_waits();
    until("its row", || subject.thread().ready().load(Ordering::SeqCst));
    subject.messages(1);
    let encodes = subject.encodes();
    assert_eq!((encodes.by_gpu + encodes.by_cpu, encodes.takeovers), (8, 1));
    assert_eq!(subject.left(), None);
}

#[test]
fn a_gpu_that_fails_is_left_and_its_message_is_not_lost() {
    for mode in [Mode::Fail, Mode::Panic] {
        let mut subject = Subject::new(Mode::Encode);
        subject.prefer_the_gpu();
        subject.messages(2);
        subject.control.set(mode);
        subject.messages(5);
        let expected = match mode {
            Mode::Fail => "backend mock: failed to encode: a mock of a failure",
            _ => "its thread panicked",
        };
        assert_eq!(subject.left().as_deref(), Some(expected));
        assert!(subject.control.abandoned.load(Ordering::SeqCst));
        let encodes = subject.encodes();
        assert_eq!((encodes.by_gpu, encodes.by_cpu, encodes.takeovers), (2, 5, 1));
        assert_eq!(encodes.in_use, Processor::Cpu);
        // Two messages before, and the one that failed.
        assert_eq!(subject.control.runs.load(Ordering::SeqCst), 3);
    }
}

#[test]
fn a_failure_in_the_shadow_leaves_the_gpu_too() {
    let mut subject = Subject::new(Mode::Fail);
    subject.messages_until_the_mock_has_one();
    until("the GPU is left", || subject.left().is_some());
    subject.messages(5);
    let encodes = subject.encodes();
    assert_eq!((encodes.by_gpu, encodes.by_cpu), (0, subject.number as u64));
    assert_eq!(subject.control.runs.load(Ordering::SeqCst), 1);
}

#[test]
fn a_sample_that_the_gpu_refuses_is_refused_and_the_gpu_stays() {
    let mut subject = Subject::new(Mode::Encode);
    subject.prefer_the_gpu();
    subject.messages(1);
    subject.control.set(Mode::Refuse);
    let data = vec![1; 3 * SIZE[0] * SIZE[1]];
    let refused =
        subject.backend().encode(CAMERA, Slot::new(0), &Sample::Image(view(&data)).into());
    let Err(BackendError::Sample(rejected)) = refused else { panic!("{refused:?}") };
    assert_eq!(rejected.reason, DropReason::OutOfRange);
    subject.control.set(Mode::Encode);
    subject.messages(3);
    assert_eq!((subject.left(), subject.encodes().by_gpu), (None, 4));
}

#[test]
fn a_core_encodes_what_the_gpu_leaves_to_it() {
    let mut subject = Subject::new(Mode::Encode);
    subject.prefer_the_gpu();
    subject.messages(1);
    subject.control.set(Mode::LeaveToCore);
    subject.messages(1);
    let encodes = subject.encodes();
    assert_eq!((encodes.by_gpu, encodes.by_cpu, encodes.takeovers), (1, 1, 0));
    subject.control.set(Mode::Encode);
    subject.messages(2);
    assert_eq!(subject.left(), None);
}

#[test]
fn a_core_is_not_overtaken_by_a_gpu_that_leaves_the_sample_to_it() {
    let subject = Subject::new(Mode::LeaveToCore);
    subject.prefer_the_gpu();
    let thread = subject.thread();
    let data = vec![7; 3 * SIZE[0] * SIZE[1]];
    let sample = Sample::Image(view(&data)).into();
    for _ in 0..3 {
        let since = subject.control.now();
        subject.control.pass(Duration::from_micros(1));
        assert!(thread.hand_over(&sample, since));
        until("the mock is done", || thread.is_done());
        assert!(!thread.ready().load(Ordering::SeqCst));
        subject.hybrid().plan(subject.control.now());
    }
    // It takes as long as the core, and what it took to say so.
    assert_eq!(subject.encodes().in_use, Processor::Cpu, "{:?}", subject.encodes());
}

#[test]
fn a_gpu_that_hangs_delays_one_row_by_little_and_does_not_keep_the_end_waiting() {
    let mut subject = Subject::new(Mode::Encode);
    subject.prefer_the_gpu();
    subject.messages(2);
    subject.control.set(Mode::Wait);
    subject.message_that_is_taken_over();
    subject.messages(19);
    let encodes = subject.encodes();
    assert_eq!((encodes.by_gpu, encodes.by_cpu, encodes.takeovers), (2, 20, 1));
    // It may still be slow and no more.
    assert_eq!(subject.left(), None);
    let backend = subject.subject.take();
    let control = Arc::clone(&subject.control);
    control.while_time_passes(|| drop(backend));
    assert!(control.abandoned.load(Ordering::SeqCst));
}

#[test]
fn a_gpu_that_hangs_is_left_while_messages_come() {
    let mut subject = Subject::new(Mode::Encode);
    subject.prefer_the_gpu();
    subject.control.set(Mode::Wait);
    subject.message_that_is_taken_over();
    let Doing::Encoding(since) = subject.thread().poll().1 else { panic!("it encodes") };
    let moment = Duration::from_nanos(1);
    let just_before = Duration::from_nanos(CALL_LIMIT_NS - 1);
    let control = Arc::clone(&subject.control);
    control.pass((since + just_before).duration_since(control.now()));
    subject.messages(1);
    control.pass(moment);
    // The time is over. A thread notices that, and half a second later it counts.
    subject.messages(1);
    control.pass(Duration::from_nanos(499_999_999));
    subject.messages(1);
    assert_eq!(subject.left(), None);
    control.pass(moment);
    subject.messages(1);
    assert_eq!(subject.left().unwrap(), "it did not encode a message within 5 s");
    subject.messages(5);
    assert_eq!(subject.encodes().by_cpu, subject.number as u64);
    // The mock's call returns after all. Its row goes nowhere.
    control.end_waits();
    subject.messages(5);
    assert_eq!(subject.encodes().by_gpu, 0);
}

#[test]
fn without_a_gpu_nothing_is_measured() {
    let subject = Subject::new(Mode::Encode);
    assert_eq!((subject.oracle.gpu(), subject.oracle.encodes(CAMERA)), (GpuUse::None, None));
    let data = vec![1; 3 * SIZE[0] * SIZE[1]];
    let forced = subject.oracle.encode_on(
        Processor::Gpu,
        CAMERA,
        Slot::new(0),
        &Sample::Image(view(&data)).into(),
    );
    assert!(matches!(forced, Err(BackendError::Unavailable { .. })));
}

/// Points on a diagonal of the grid.
fn points() -> Vec<u8> {
    let point = |i: u16| [f32::from(i) / 1000.0; 3];
    (0..4000).flat_map(|i| point(i).into_iter().flat_map(f32::to_le_bytes)).collect()
}

#[test]
fn a_core_that_is_overtaken_stops_and_its_next_row_is_right() {
    let mut subject = Subject::new(Mode::Encode);
    let fields = [0, 4, 8].map(|offset| FieldAt { offset, kind: FieldType::Float32 });
    let pixels = vec![9; 3 * SIZE[0] * SIZE[1]];
    let points = points();
    let cloud = PointsView {
        width: points.len() / 12,
        height: 1,
        point_step: 12,
        row_step: points.len(),
        big_endian: false,
        fields: &fields,
        t_base_sensor: IDENTITY,
        t_shapes: &[],
        sweep: None,
        data: &points,
    };
    let overtaken = AtomicBool::new(true);
    for (ring, sample) in [(0, Sample::Image(view(&pixels))), (1, Sample::Points(cloud))] {
        let sample = PlacedSample::from(sample);
        let memory = &subject.backend().rings[ring];
        for slot in [0, 1].map(Slot::new) {
            let stopped = memory.encode(slot, &sample, Some(&overtaken)).unwrap();
            assert_eq!(stopped, None);
            let drops = memory.encode(slot, &sample, Some(&AtomicBool::new(false))).unwrap();
            assert_eq!(
                drops,
                Some(subject.oracle.encode(RingId::new(ring), slot, &sample).unwrap())
            );
            let rows = [memory, &subject.oracle.rings[ring]].map(|memory| {
                let Rows::Pages(slots) = &memory.rows else { panic!("pages are expected") };
                lock(&slots[slot.index()]).to_vec()
            });
            assert!(rows[0] == rows[1] && rows[0].iter().any(|byte| *byte != 0));
        }
    }
    subject.messages(3);
}
