//! What is under test: a backend, beside the oracle.

use robocache::align::Value;
use robocache::backend::cpu::CpuBackend;
use robocache::backend::{Backend, BackendError, EncodeReport, HostBytes, Sample, StepJob};
use robocache::config::{Config, Fill, Qos, Source, Strategy, StreamSpec, Timeline};
use robocache::dtype::DType;
use robocache::layout::Layout;
use robocache::time::TickGrid;

/// Cases per operation.
pub fn cases() -> usize {
    let set = std::env::var("ROBOCACHE_TEST_CASES").ok();
    set.map_or(2000, |text| text.parse().expect("ROBOCACHE_TEST_CASES: a number"))
}

/// A kind of backend to test.
pub enum Kind {
    Cpu,
    #[cfg(feature = "cuda")]
    Cuda(std::sync::Arc<robocache::backend::cuda::Device>),
}

impl Kind {
    /// The GPU, where there is one, and if `small` with work divided as for a small one: that takes other
    /// kernels and launches, if with this GPU's machine code. Says so if there is none.
    pub fn cuda(test: &str, small: bool) -> Option<Kind> {
        #[cfg(feature = "cuda")]
        let skipped = {
            use robocache::backend::cuda::{Device, Limits};
            // As few multiprocessors as embedded chips have, and the shared memory of Turing.
            let least = Limits { multiprocessors: 8, shared_bytes: 65_536, overlap: false };
            match Device::open_within(0, if small { least } else { Limits::NONE }) {
                Ok(device) => return Some(Kind::Cuda(device)),
                Err(reason) => reason.to_string(),
            }
        };
        #[cfg(not(feature = "cuda"))]
        let skipped = "built without the feature `cuda`";
        // Past the capture of the test harness, which would swallow it.
        let module = if small { "cuda_small" } else { "cuda" };
        let line = format!("{module}::{test} was skipped: {skipped}\n");
        std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes()).ok();
        None
    }

    fn backend(&self, config: &Config, layout: &Layout) -> Box<dyn Backend> {
        match self {
            Kind::Cpu => Box::new(CpuBackend::new(config, layout).unwrap()),
            #[cfg(feature = "cuda")]
            Kind::Cuda(device) => {
                let backend = robocache::backend::cuda::CudaBackend::on(device, config, layout);
                Box::new(backend.unwrap())
            }
        }
    }
}

/// A stream with everything that these tests do not vary.
pub fn stream(
    name: &str,
    source: Source,
    strategy: Strategy,
    dtype: DType,
    steps: usize,
    ring_rows: usize,
) -> StreamSpec {
    StreamSpec {
        name: name.into(),
        topic: format!("/{name}"),
        source,
        strategy,
        history_steps: steps,
        history_step_ns: 10_000_000,
        max_age_ns: 50_000_000,
        max_gap_ns: 100_000_000,
        fill: Fill::Zero,
        required: false,
        stamp_offset_ns: 0,
        dtype,
        ring_rows,
        qos: Qos { reliable: true, depth: 8 },
        frame_id: None,
        expected_rate_hz: None,
    }
}

/// The oracle and a backend under test, of the same streams.
pub struct Pair {
    layout: Layout,
    oracle: CpuBackend,
    subject: Box<dyn Backend>,
    /// The subject's output, kept from tick to tick.
    output: Box<dyn HostBytes>,
    last: Vec<StepJob>,
}

impl Pair {
    pub fn new(kind: &Kind, streams: Vec<StreamSpec>, own_output: bool) -> Self {
        let config = Config {
            rate_hz: 100.0,
            grid: TickGrid::from_rate_hz(100.0).unwrap(),
            lag_ns: 0,
            timeline: Timeline::Header,
            base_frame: "base_link".into(),
            output_topic: "fused_tensor".into(),
            streams,
        };
        let layout = Layout::new(&config);
        let subject = kind.backend(&config, &layout);
        // Poisoned, so that what is never written shows; or memory that the backend must copy to.
        let mut output = match own_output {
            true => subject.output_memory(layout.byte_len()).unwrap(),
            false => Box::new(vec![0; layout.byte_len()]),
        };
        output.fill(0xAB);
        let oracle = CpuBackend::new(&config, &layout).unwrap();
        Pair { layout, oracle, subject, output, last: Vec::new() }
    }

    /// Encodes on both; the outcomes must be the same. Errors are compared by their reason.
    pub fn encode(
        &self,
        stream: usize,
        slot: usize,
        sample: Sample<'_>,
        case: &str,
    ) -> Option<EncodeReport> {
        let reason = |error| match error {
            BackendError::Sample(dropped) => dropped.reason,
            fatal => panic!("{case}: {fatal}"),
        };
        let expected = self.oracle.encode(stream, slot, sample).map_err(reason);
        let found = self.subject.encode(stream, slot, sample).map_err(reason);
        assert_eq!(found, expected, "{case}");
        found.ok()
    }

    /// A tick on both; the outputs must be the same.
    pub fn fuse(&mut self, jobs: &[StepJob], changed: impl Fn(&StepJob) -> bool, case: &str) {
        let mut expected = vec![0xCD; self.layout.byte_len()];
        let fresh: Vec<_> = jobs.iter().map(|j| StepJob { unchanged: false, ..*j }).collect();
        self.oracle.fuse(&fresh, &mut expected).unwrap();
        let known = |job: &StepJob| {
            !changed(job)
                && !matches!(job.value, Value::Between { .. })
                && self.last.iter().any(|last| {
                    (last.stream, last.step, last.value) == (job.stream, job.step, job.value)
                })
        };
        let jobs: Vec<_> = jobs.iter().map(|j| StepJob { unchanged: known(j), ..*j }).collect();
        self.subject.fuse(&jobs, &mut self.output).unwrap_or_else(|e| panic!("{case}: {e}"));
        for (at, segment) in self.layout.segments().iter().enumerate() {
            for step in 0..segment.steps {
                let range = segment.step_range(step);
                let (found, expected) = (&self.output[range.clone()], &expected[range]);
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

    /// Reads one slot of stream 0 through a tick and compares it.
    pub fn compare_slot(&mut self, slot: usize, case: &str) {
        let job = StepJob { stream: 0, step: 0, value: Value::Row(slot), unchanged: false };
        self.fuse(&[job], |_| true, case);
    }

    /// The subject's output.
    pub fn output(&self) -> &[u8] {
        &self.output
    }
}
