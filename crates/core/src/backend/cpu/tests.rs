//! Both processors of a ring, with a mock in place of the GPU: a thread that encodes on the CPU,
//! and that is slow, fails, hangs or panics on demand. No GPU is used here.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::gpu_thread::Doing;
use super::*;
use crate::encoder::EncoderSpec;
use crate::rejected::{DropReason, Rejected};
use robocache_ops::image::cpu::ImageEncoder;
use robocache_ops::image::{Encoding, ImageView};
use robocache_ops::voxelize::{FieldAt, FieldType, IDENTITY, PointsView};

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

/// What the mock does with a message.
#[derive(Clone, Copy)]
#[repr(u8)]
enum Mode {
    Encode,
    /// After half a second.
    Slow,
    Fail,
    /// Until the test ends.
    Hang,
    Panic,
    Refuse,
}

/// The test's side of the mock.
struct Control {
    mode: AtomicU8,
    runs: AtomicU64,
    abandoned: AtomicBool,
    /// Ends a hang, when it is dropped.
    release: Mutex<Option<Sender<()>>>,
}

impl Control {
    fn set(&self, mode: Mode) {
        self.mode.store(mode as u8, Ordering::SeqCst);
    }
}

/// A mock of a GPU.
struct Mock {
    control: Arc<Control>,
    encoder: ImageEncoder,
    staged: Vec<u8>,
    row: HostBuffer,
    released: Arc<Mutex<Receiver<()>>>,
    hangs: bool,
}

impl GpuEncoder for Mock {
    fn stage(&mut self, sample: &Sample<'_>) -> bool {
        let Sample::Image(view) = sample else { return false };
        self.staged.clear();
        self.staged.extend_from_slice(view.data);
        true
    }

    fn run(&mut self) -> Result<PointDrops, BackendError> {
        self.control.runs.fetch_add(1, Ordering::SeqCst);
        let mode = self.control.mode.load(Ordering::SeqCst);
        if mode == Mode::Slow as u8 {
            std::thread::sleep(Duration::from_millis(500));
        } else if mode == Mode::Fail as u8 {
            let (operation, detail) = ("encode", "a mock of a failure".into());
            return Err(BackendError::Failed { backend: "mock", operation, detail });
        } else if mode == Mode::Hang as u8 {
            self.hangs = true;
            let _ = self.released.lock().unwrap().recv();
        } else if mode == Mode::Panic as u8 {
            panic!("a mock of a panic");
        } else if mode == Mode::Refuse as u8 {
            return Err(Rejected::new(DropReason::OutOfRange, "a mock".to_owned()).into());
        }
        self.encoder.encode(&view(&self.staged), &mut self.row);
        self.hangs = false;
        Ok(PointDrops::default())
    }

    fn row(&mut self) -> Option<&mut HostBuffer> {
        (!self.hangs).then_some(&mut self.row)
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
        let (release, released) = channel();
        let control = Arc::new(Control {
            mode: AtomicU8::new(mode as u8),
            runs: AtomicU64::new(0),
            abandoned: AtomicBool::new(false),
            release: Mutex::new(Some(release)),
        });
        let abandoned = Arc::clone(&control);
        let gpu = Gpu::new(move || {
            assert!(!abandoned.abandoned.swap(true, Ordering::SeqCst), "abandoned twice");
        });
        let released = Arc::new(Mutex::new(released));
        let encoder = |spec: &StreamSpec| -> Result<Option<Box<dyn GpuEncoder>>, BackendError> {
            let EncoderSpec::Image(image) = &spec.encoder else {
                return Ok(Some(Box::new(Unused)));
            };
            Ok(Some(Box::new(Mock {
                control: Arc::clone(&control),
                encoder: ImageEncoder::new(image, spec.dtype),
                staged: Vec::new(),
                row: HostBuffer::new(spec.encoder.row_len() * spec.dtype.size()),
                released: Arc::clone(&released),
                hangs: false,
            })))
        };
        let subject = CpuBackend::with_encoders(&config, &layout, gpu, encoder).unwrap();
        let oracle = CpuBackend::new(&config, &layout).unwrap();
        Subject { subject: Some(subject), oracle, layout, control, number: 0 }
    }

    fn backend(&self) -> &CpuBackend {
        self.subject.as_ref().unwrap()
    }

    /// Encodes another image on both and compares the rows.
    fn message(&mut self) {
        self.encode(|backend, slot, sample| backend.encode(CAMERA, slot, sample));
    }

    fn encode(
        &mut self,
        encode: impl Fn(&CpuBackend, Slot, Sample<'_>) -> Result<PointDrops, BackendError>,
    ) {
        self.number += 1;
        let byte = |at: usize| (at * 31 + self.number * 17) as u8;
        let data: Vec<u8> = (0..3 * SIZE[0] * SIZE[1]).map(byte).collect();
        let slot = Slot::new(self.number % 2);
        let sample = Sample::Image(view(&data));
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
        // The mock's own hang ends, so that the test leaves no thread behind.
        drop(self.control.release.lock().unwrap().take());
    }
}

/// For a ring that the tests do not use.
struct Unused;

impl GpuEncoder for Unused {
    fn stage(&mut self, _: &Sample<'_>) -> bool {
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
    subject.messages(60);
    let forced = |backend: &CpuBackend, slot: Slot, sample: Sample<'_>| {
        let processor = if slot.index() == 0 { Processor::Gpu } else { Processor::Cpu };
        backend.encode_on(processor, CAMERA, slot, sample)
    };
    (0..20).for_each(|_| subject.encode(forced));
    let encodes = subject.encodes();
    assert_eq!(encodes.by_cpu + encodes.by_gpu, 80);
    assert!(encodes.by_gpu >= 10 && encodes.by_cpu >= 10, "{encodes:?}");
    assert_eq!(subject.left(), None);
}

#[test]
fn a_row_that_nobody_waited_for_is_not_taken_for_that_of_the_next_sample() {
    let subject = Subject::new(Mode::Encode);
    let thread = &subject.backend().rings[CAMERA.index()].hybrid.as_ref().unwrap().thread;
    let data = vec![7; 3 * SIZE[0] * SIZE[1]];
    let sample = Sample::Image(view(&data));
    assert!(thread.hand_over(&sample, Instant::now()));
    let end = Instant::now() + Duration::from_secs(20);
    while !thread.ready().load(Ordering::SeqCst) {
        assert!(Instant::now() < end);
        std::thread::sleep(Duration::from_millis(1));
    }
    // The thread still has the row of the first sample.
    assert!(!thread.hand_over(&sample, Instant::now()));
    let (took, doing) = thread.poll();
    assert!(took.is_some() && doing == Doing::Nothing);
    assert!(!thread.ready().load(Ordering::SeqCst));
    assert!(thread.hand_over(&sample, Instant::now()));
    assert!(thread.wait(end).is_some());
}

#[test]
fn a_slow_gpu_is_a_shadow_that_delays_nothing() {
    let mut subject = Subject::new(Mode::Slow);
    let start = Instant::now();
    while subject.control.runs.load(Ordering::SeqCst) < 3 {
        subject.message();
        assert!(start.elapsed() < Duration::from_secs(30));
    }
    let encodes = subject.encodes();
    assert_eq!((encodes.by_gpu, encodes.in_use, encodes.takeovers), (0, Processor::Cpu, 0));
    assert_eq!(encodes.by_cpu, subject.number as u64);
    // While the mock slept, rows came from the core, one after the other.
    assert!(encodes.by_cpu > 10, "{encodes:?}");
}

/// Tells the chooser that the GPU is the faster one by far, so that the next message goes there. The
/// worker waits for it as long as a core is said to take: here so long that even a busy machine runs
/// the mock in time.
fn prefer_the_gpu(subject: &Subject) {
    prefer_the_gpu_to(subject, Duration::from_secs(1));
}

fn prefer_the_gpu_to(subject: &Subject, core: Duration) {
    let either = subject.backend().rings[CAMERA.index()].hybrid.as_ref().unwrap();
    either.prefer_gpu_to(core);
    assert_eq!(subject.encodes().in_use, Processor::Gpu);
}

#[test]
fn coefficients_are_for_a_gpu_in_use() {
    let subject = Subject::new(Mode::Encode);
    assert!(!subject.backend().takes_coefficients(CAMERA));
    prefer_the_gpu(&subject);
    assert!(subject.backend().takes_coefficients(CAMERA));
    subject.backend().gpu.as_ref().unwrap().leave(|| "a test".to_owned());
    assert!(!subject.backend().takes_coefficients(CAMERA));
    assert!(!subject.oracle.takes_coefficients(CAMERA));
}

#[test]
fn a_core_takes_over_from_a_gpu_that_gets_slow() {
    let mut subject = Subject::new(Mode::Encode);
    prefer_the_gpu(&subject);
    subject.messages(2);
    assert_eq!(subject.encodes().by_gpu, 2, "{:?}", subject.encodes());
    subject.control.set(Mode::Slow);
    prefer_the_gpu_to(&subject, Duration::from_millis(5));
    subject.messages(1);
    let encodes = subject.encodes();
    assert_eq!((encodes.by_gpu, encodes.by_cpu, encodes.takeovers), (2, 1, 1));
    // The thread still sleeps; its row is not used, and later rows do not wait for it.
    subject.messages(4);
    assert_eq!(subject.encodes().by_cpu, 5);
    assert_eq!(subject.left(), None);
}

#[test]
fn a_gpu_that_fails_is_left_and_its_message_is_not_lost() {
    for mode in [Mode::Fail, Mode::Panic] {
        let mut subject = Subject::new(Mode::Encode);
        prefer_the_gpu(&subject);
        subject.messages(2);
        subject.control.set(mode);
        subject.messages(5);
        let expected = match mode {
            Mode::Fail => "backend mock: failed to encode: a mock of a failure",
            _ => "its thread panicked",
        };
        // Its thread may print a backtrace first, while a core has long taken over.
        let end = Instant::now() + Duration::from_secs(20);
        while subject.left().is_none() {
            assert!(Instant::now() < end);
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(subject.left().unwrap(), expected);
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
    let start = Instant::now();
    while subject.left().is_none() {
        subject.message();
        assert!(start.elapsed() < Duration::from_secs(30));
    }
    assert_eq!(subject.encodes().by_cpu, subject.number as u64);
}

#[test]
fn a_sample_that_the_gpu_refuses_is_refused_and_the_gpu_stays() {
    let mut subject = Subject::new(Mode::Encode);
    prefer_the_gpu(&subject);
    subject.messages(1);
    subject.control.set(Mode::Refuse);
    let data = vec![1; 3 * SIZE[0] * SIZE[1]];
    let refused = subject.backend().encode(CAMERA, Slot::new(0), Sample::Image(view(&data)));
    let Err(BackendError::Sample(rejected)) = refused else { panic!("{refused:?}") };
    assert_eq!(rejected.reason, DropReason::OutOfRange);
    subject.control.set(Mode::Encode);
    subject.messages(3);
    assert_eq!((subject.left(), subject.encodes().by_gpu), (None, 4));
}

#[test]
fn a_gpu_that_hangs_delays_one_row_by_little_and_does_not_keep_the_end_waiting() {
    let mut subject = Subject::new(Mode::Encode);
    prefer_the_gpu(&subject);
    subject.messages(2);
    subject.control.set(Mode::Hang);
    subject.messages(20);
    let encodes = subject.encodes();
    assert_eq!((encodes.by_gpu, encodes.by_cpu, encodes.takeovers), (2, 20, 1));
    // It may still be slow and no more.
    assert_eq!(subject.left(), None);
    let start = Instant::now();
    subject.subject = None;
    let took = start.elapsed();
    assert!(took < Duration::from_secs(8), "{took:?}");
    assert!(subject.control.abandoned.load(Ordering::SeqCst));
}

#[test]
fn a_gpu_that_hangs_is_left_while_messages_come() {
    let mut subject = Subject::new(Mode::Encode);
    prefer_the_gpu(&subject);
    subject.control.set(Mode::Hang);
    let start = Instant::now();
    while subject.left().is_none() {
        subject.message();
        std::thread::sleep(Duration::from_millis(20));
        assert!(start.elapsed() < Duration::from_secs(60));
    }
    assert!(start.elapsed() > Duration::from_secs(5), "{:?}", start.elapsed());
    assert_eq!(subject.left().unwrap(), "it did not encode a message within 5 s");
    subject.messages(5);
    assert_eq!(subject.encodes().by_cpu, subject.number as u64);
    // The mock's call returns after all. Its row goes nowhere.
    drop(subject.control.release.lock().unwrap().take());
    subject.messages(5);
    assert_eq!(subject.encodes().by_gpu, 0);
}

#[test]
fn without_a_gpu_nothing_is_measured() {
    let subject = Subject::new(Mode::Encode);
    assert_eq!((subject.oracle.gpu(), subject.oracle.encodes(CAMERA)), (GpuUse::None, None));
    let data = vec![1; 3 * SIZE[0] * SIZE[1]];
    let forced =
        subject.oracle.encode_on(Processor::Gpu, CAMERA, Slot::new(0), Sample::Image(view(&data)));
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
    let (pixels, points) = (vec![9; 3 * SIZE[0] * SIZE[1]], points());
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
        let memory = &subject.backend().rings[ring];
        for slot in [0, 1].map(Slot::new) {
            let stopped = memory.encode(slot, &sample, Some(&overtaken)).unwrap();
            assert_eq!(stopped, None);
            let drops = memory.encode(slot, &sample, Some(&AtomicBool::new(false))).unwrap();
            assert_eq!(
                drops,
                Some(subject.oracle.encode(RingId::new(ring), slot, sample).unwrap())
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
