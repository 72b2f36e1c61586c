//! Subject of a test: a backend, beside the oracle.

use std::cell::Cell;
#[cfg(feature = "cuda")]
use std::cell::RefCell;
use std::sync::Arc;

use robocache_core::backend::cpu::CpuBackend;
use robocache_core::backend::{Backend, BackendError, StepJob};
use robocache_core::encoder::EncoderSpec;
use robocache_core::layout::Layout;
use robocache_core::sample::{Bounds, Motion, PlacedSample, Placement, Sample};
use robocache_core::spec::{Config, RingId, Source, StreamSpec};
use robocache_ops::align::{AlignRule, Fill, Slot, Strategy, Value};
#[cfg(feature = "cuda")]
use robocache_ops::device::OutputMut;
use robocache_ops::device::{HostBuffer, Output, RowMemory, TakenMessage};
use robocache_ops::dtype::DType;
use robocache_ops::image::ImageView;
use robocache_ops::packing::ALIGNMENT;
use robocache_ops::time::TickGrid;
use robocache_ops::voxelize::{PointDrops, Sweep};

/// Number of cases of an operation: ROBOCACHE_TEST_CASES, or else the usual one.
pub(crate) fn cases(usual: usize) -> usize {
    let set = std::env::var("ROBOCACHE_TEST_CASES").ok();
    set.map_or(usual, |text| text.parse().expect("ROBOCACHE_TEST_CASES: a number"))
}

/// A kind of backend to test.
pub(crate) enum Kind {
    Cpu,
    /// Rows on the device.
    #[cfg(feature = "cuda")]
    Cuda(Arc<robocache_ops::device::Device>),
    /// Rows on the host, encoded by either processor.
    #[cfg(feature = "cuda")]
    Auto(Arc<robocache_ops::device::Device>),
}

impl Kind {
    /// The kind of a test module. Without a GPU, prints that the test is skipped.
    pub(crate) fn of(module: &str, test: &str) -> Option<Kind> {
        #[cfg(feature = "cuda")]
        let skipped = {
            use robocache_ops::device::{Device, Limits};
            // As few multiprocessors as embedded chips have, and the shared memory of Turing: a small
            // GPU gets other kernels and launches. The machine code is that of this GPU.
            let least = Limits { multiprocessors: 8, shared_bytes: 65_536, overlap: false };
            let limits = if module == "cuda_small" { least } else { Limits::NONE };
            match Device::open_within(0, limits) {
                Ok(device) if module == "auto" => return Some(Kind::Auto(device)),
                Ok(device) => return Some(Kind::Cuda(device)),
                Err(reason) => reason.to_string(),
            }
        };
        #[cfg(not(feature = "cuda"))]
        let skipped = "built without the feature `cuda`";
        // Past the capture of the test harness, which would swallow it.
        let line = format!("{module}::{test} was skipped: {skipped}\n");
        std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes()).ok();
        None
    }

    /// The GPU of this kind, if it has one.
    #[cfg(feature = "cuda")]
    pub(crate) fn device(&self) -> Option<&Arc<robocache_ops::device::Device>> {
        match self {
            Kind::Cpu => None,
            Kind::Cuda(device) | Kind::Auto(device) => Some(device),
        }
    }

    /// True if cores alone compute.
    pub(crate) fn is_cpu(&self) -> bool {
        matches!(self, Kind::Cpu)
    }

    /// True if its rows are on a GPU.
    pub(crate) fn has_rows_on_device(&self) -> bool {
        match self {
            #[cfg(feature = "cuda")]
            Kind::Cuda(_) => true,
            _ => false,
        }
    }

    /// True if it has a GPU that reads memory of the host where it is.
    pub(crate) fn registers(&self) -> bool {
        match self {
            Kind::Cpu => false,
            #[cfg(feature = "cuda")]
            Kind::Cuda(device) | Kind::Auto(device) => device.host_access().registers,
        }
    }

    fn subject(&self, config: &Config, layout: &Layout) -> Subject {
        match self {
            Kind::Cpu => Subject::Any(Box::new(CpuBackend::new(config, layout).unwrap())),
            #[cfg(feature = "cuda")]
            Kind::Cuda(device) => {
                let backend =
                    robocache_core::backend::cuda::CudaBackend::new(device, config, layout);
                Subject::Any(Box::new(backend.unwrap()))
            }
            #[cfg(feature = "cuda")]
            Kind::Auto(device) => {
                let backend = CpuBackend::with_gpu(device, config, layout).unwrap();
                let random = RefCell::new(crate::backends::random::Random::new(90_000));
                Subject::Alternating { backend: Box::new(backend), random }
            }
        }
    }
}

/// The backend under test.
enum Subject {
    Any(Box<dyn Backend>),
    /// Each message goes to a processor at random, or to that of the backend's choice.
    #[cfg(feature = "cuda")]
    Alternating {
        backend: Box<CpuBackend>,
        random: RefCell<crate::backends::random::Random>,
    },
}

impl Subject {
    fn backend(&self) -> &dyn Backend {
        match self {
            Subject::Any(backend) => &**backend,
            #[cfg(feature = "cuda")]
            Subject::Alternating { backend, .. } => &**backend,
        }
    }

    fn encode(
        &self,
        ring: RingId,
        slot: Slot,
        sample: &PlacedSample<'_>,
    ) -> Result<PointDrops, BackendError> {
        match self {
            Subject::Any(backend) => backend.encode(ring, slot, sample),
            #[cfg(feature = "cuda")]
            Subject::Alternating { backend, random } => {
                use robocache_core::backend::Processor;
                let choices = [Some(Processor::Cpu), Some(Processor::Gpu), None];
                let encoded = match random.borrow_mut().choose(&choices) {
                    Some(processor) => backend.encode_on(processor, ring, slot, sample),
                    None => backend.encode(ring, slot, sample),
                };
                assert_eq!(backend.gpu(), robocache_core::backend::GpuUse::InUse);
                encoded
            }
        }
    }
}

/// A sample with the placement that its view has.
pub(crate) fn placed<'a>(sample: &'a Sample<'a>) -> PlacedSample<'a> {
    let none = Placement::NONE;
    let placement = match sample {
        Sample::Image(view) => Placement { table: view.remap, ..none },
        Sample::Points(view) => {
            let motion =
                view.sweep.map(|Sweep { origin, rate, knots, .. }| Motion { origin, rate, knots });
            let transform = &view.t_base_sensor;
            let shapes = view.t_shapes;
            Placement { transform, shapes, motion, ..none }
        }
        Sample::Map(view) => Placement { transform: &view.t_crop_frame, ..none },
        _ => none,
    };
    PlacedSample { sample: *sample, placement }
}

/// Enough for most samples here. A pair reserves memory for them, so more would take time.
pub(crate) const BOUNDS: Bounds =
    Bounds { max_width_px: 700, max_height_px: 700, max_points: 3000, swept: true, jpeg: true };

/// A stream with everything that these tests do not vary.
pub(crate) fn stream(
    name: &str,
    encoder: EncoderSpec,
    strategy: Strategy,
    dtype: DType,
    steps: usize,
    ring_rows: usize,
) -> StreamSpec {
    let max_age_ns = 50_000_000;
    let max_gap_ns = 100_000_000;
    StreamSpec {
        name: name.into(),
        encoder,
        rule: AlignRule { strategy, max_age_ns, max_gap_ns, fill: Fill::Zero },
        lag_ns: 0,
        history_steps: steps,
        history_step_ns: 10_000_000,
        horizon_steps: 1,
        horizon_step_ns: 0,
        max_ahead_ns: robocache_core::pipeline::SENSOR_AHEAD_NS,
        plans: false,
        required: false,
        dtype,
        ring_rows,
        rows_ahead: 0,
        bounds: BOUNDS,
        merge: None,
    }
}

/// A configuration of these streams, without inputs.
pub(crate) fn config(streams: Vec<StreamSpec>) -> Config {
    Config {
        rate_hz: 100.0,
        grid: TickGrid::from_rate_hz(100.0).unwrap(),
        base_frame: "base_link".into(),
        output_topic: "fused_tensor".into(),
        tf: None,
        inputs: vec![],
        streams,
        commands: None,
        source: Source::default(),
    }
}

/// Bytes of a message in front of its image: pixels may begin at any byte.
const IN_FRONT: usize = 77;

/// The oracle and a backend under test, of the same streams.
pub(crate) struct Pair {
    layout: Layout,
    /// Images that the subject's GPU could read where they were.
    in_messages: Cell<usize>,
    oracle: CpuBackend,
    subject: Subject,
    /// The subject's output, kept from tick to tick.
    output: Output,
    last: Vec<StepJob>,
}

impl Pair {
    pub(crate) fn new(kind: &Kind, streams: Vec<StreamSpec>, own_output: bool) -> Self {
        let config = config(streams);
        let layout = Layout::new(&config);
        let subject = kind.subject(&config, &layout);
        // Poisoned, so that what is never written shows; or memory that the backend must copy to.
        let mut output = match own_output {
            true => subject.backend().output_memory(layout.byte_len()).unwrap(),
            false => Output::Host(HostBuffer::new(layout.byte_len())),
        };
        assert_eq!(output.as_ptr() as usize % ALIGNMENT, 0, "an output that is not aligned");
        output.fill(0xAB);
        let oracle = CpuBackend::new(&config, &layout).unwrap();
        for ring in (0..layout.rings().len()).map(RingId::new) {
            subject.backend().messages(ring).iter().for_each(|pool| pool.allow(2, 1 << 25));
        }
        let in_messages = Cell::new(0);
        Pair { layout, in_messages, oracle, subject, output, last: Vec::new() }
    }

    /// Says that every row will be read on the host.
    pub(crate) fn keep_rows(&self) {
        self.subject.backend().keep_rows();
    }

    /// How many images the subject's GPU could read where they were.
    pub(crate) fn in_messages(&self) -> usize {
        self.in_messages.get()
    }

    /// A message with the bytes of an image, in memory that the subject's GPU reads. `None` for other samples, for every
    /// third image, and without a free buffer.
    fn message_of(&self, ring: RingId, sample: &Sample<'_>) -> Option<Arc<TakenMessage>> {
        let Sample::Image(view) = sample else { return None };
        let pool = self.subject.backend().messages(ring)?;
        let len = IN_FRONT + view.data.len();
        let buffer = pool.take().filter(|buffer| buffer.len() >= len && !len.is_multiple_of(3));
        let Some(mut buffer) = buffer else {
            pool.missed(len);
            return None;
        };
        buffer[IN_FRONT..len].copy_from_slice(view.data);
        self.in_messages.set(self.in_messages.get() + 1);
        Some(buffer.into_message(len))
    }

    /// Lets ticks write to memory that the backend adopts, as for a publisher that has its own.
    pub(crate) fn adopt(&mut self, kind: &Kind) {
        let memory = HostBuffer::new(self.layout.byte_len());
        self.output = self.subject.backend().adopt_memory(memory);
        self.output.fill(0xAB);
        #[cfg(feature = "cuda")]
        if let Kind::Cuda(device) = kind {
            let found = matches!(self.output.all_mut(), OutputMut::Pinned(_));
            assert_eq!(found, device.host_access().registers, "whether kernels write to it");
        }
        #[cfg(not(feature = "cuda"))]
        let _ = kind;
    }

    /// Layout of the tensors.
    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Encodes on both; the outcomes must be the same. Errors are compared by their reason. A message of the subject is
    /// dropped at once, so the next one may get its buffer.
    pub(crate) fn encode(
        &self,
        ring: usize,
        slot: usize,
        sample: Sample<'_>,
        case: &str,
    ) -> Option<PointDrops> {
        self.encode_placed(ring, slot, &placed(&sample), case)
    }

    /// As [`Pair::encode`], for a sample whose placement is not in its view.
    pub(crate) fn encode_placed(
        &self,
        ring: usize,
        slot: usize,
        placed: &PlacedSample<'_>,
        case: &str,
    ) -> Option<PointDrops> {
        let ring = RingId::new(ring);
        let slot = Slot::new(slot);
        let reason = |error| match error {
            BackendError::Sample(dropped) => dropped.reason,
            fatal => panic!("{case}: {fatal}"),
        };
        let expected = self.oracle.encode(ring, slot, placed).map_err(reason);
        let message = self.message_of(ring, &placed.sample);
        let sample = match (&message, placed.sample) {
            (Some(message), Sample::Image(view)) => {
                Sample::Image(ImageView { data: &message[IN_FRONT..], ..view })
            }
            (_, sample) => sample,
        };
        let found = self.subject.encode(ring, slot, &PlacedSample { sample, ..*placed });
        let found = found.map_err(reason);
        assert_eq!(found, expected, "{case}");
        found.ok()
    }

    /// A tick on both; the outputs must be the same.
    pub(crate) fn fuse(
        &mut self,
        jobs: &[StepJob],
        changed: impl Fn(&StepJob) -> bool,
        case: &str,
    ) {
        let mut expected = vec![0xCD; self.layout.byte_len()];
        let fresh: Vec<_> = jobs.iter().map(|j| StepJob { unchanged: false, ..*j }).collect();
        self.oracle.fuse(&fresh, expected.as_mut_slice().into()).unwrap();
        let known = |job: &StepJob| {
            !changed(job)
                && !matches!(job.value, Value::Between { .. })
                && self.last.iter().any(|last| {
                    (last.ring, last.step, last.value) == (job.ring, job.step, job.value)
                })
        };
        let jobs: Vec<_> = jobs.iter().map(|j| StepJob { unchanged: known(j), ..*j }).collect();
        let fused = self.subject.backend().fuse(&jobs, self.output.all_mut());
        fused.unwrap_or_else(|e| panic!("{case}: {e}"));
        for (at, segment) in self.layout.segments().iter().enumerate() {
            for step in 0..segment.steps {
                let range = segment.step_range(step);
                let found = &self.output[range.clone()];
                let expected = &expected[range];
                if found != expected {
                    let byte = found.iter().zip(expected).position(|(f, e)| f != e).unwrap();
                    let size = segment.dtype.size();
                    let start = byte / size * size;
                    panic!(
                        "{case}: stream {at} {:?} step {step}, element {}: expected bytes {:?}, found {:?}",
                        segment.dtype,
                        byte / size,
                        &expected[start..start + size],
                        &found[start..start + size]
                    );
                }
            }
        }
        self.last = jobs;
    }

    /// Reads one slot of the first ring, by itself and through a tick, and compares it.
    pub(crate) fn compare_slot(&mut self, slot: usize, case: &str) {
        let expected = read(&self.oracle, slot, case);
        // The second time, no copy of the row is on its way to the host.
        for time in ["first", "second"] {
            let found = read(self.subject.backend(), slot, case);
            let differ = || found.iter().zip(&*expected).position(|(found, right)| found != right);
            let same = *found == *expected;
            assert!(
                same,
                "{case}: read a {time} time, the row differs from byte {:?} on",
                differ()
            );
        }
        let ring = RingId::new(0);
        let value = Value::Row(Slot::new(slot));
        self.fuse(&[StepJob { ring, step: 0, value, unchanged: false }], |_| true, case);
    }

    /// Takes one slot of the first ring, as the subject has it and as it must be.
    pub(crate) fn take_slot(&self, slot: usize, case: &str) -> [RowMemory; 2] {
        [self.subject.backend(), &self.oracle].map(|backend| read(backend, slot, case))
    }

    /// The subject's output.
    pub(crate) fn output(&self) -> &[u8] {
        &self.output
    }
}

/// A row of the first ring.
fn read(backend: &dyn Backend, slot: usize, case: &str) -> RowMemory {
    let mut row = RowMemory::default();
    let read = backend.read_row(RingId::new(0), Slot::new(slot), &mut row);
    read.unwrap_or_else(|error| panic!("{case}: {error}"));
    row
}
