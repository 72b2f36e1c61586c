//! The CPU backend, and what a test does before its calls.

use std::sync::PoisonError;

use robocache_ops::align::Value;

use super::*;

/// Action of a test before a call. It may panic, or fail the call.
#[derive(Default)]
pub(super) struct Hook(Mutex<Option<Act>>);

/// Runs in place of a call of the backend; an error is that of the call.
type Act = Box<dyn FnMut() -> Result<(), BackendError> + Send>;

impl Hook {
    /// Acts before every call from now on.
    pub(super) fn set(&self, act: impl FnMut() -> Result<(), BackendError> + Send + 'static) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(act));
    }

    /// Acts before the next call alone.
    pub(super) fn once(&self, act: impl FnOnce() -> Result<(), BackendError> + Send + 'static) {
        let mut act = Some(act);
        self.set(move || act.take().map_or(Ok(()), |act| act()));
    }

    fn run(&self) -> Result<(), BackendError> {
        let mut act = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        act.as_mut().map_or(Ok(()), |act| act())
    }
}

/// The CPU backend with hooks before its calls.
pub(super) struct Hooked {
    cpu: CpuBackend,
    pub(super) encode: Hook,
    pub(super) blend: Hook,
    pub(super) fuse: Hook,
}

impl Backend for Hooked {
    fn name(&self) -> &'static str {
        "hooked"
    }

    fn encode(
        &self,
        at: RingId,
        to: Slot,
        of: &PlacedSample<'_>,
    ) -> Result<PointDrops, BackendError> {
        self.encode.run()?;
        self.cpu.encode(at, to, of)
    }

    fn blend(&self, at: RingId, value: Value<Slot>, to: Slot) -> Result<(), BackendError> {
        self.blend.run()?;
        self.cpu.blend(at, value, to)
    }

    fn fuse(&self, jobs: &[StepJob], out: OutputMut<'_>) -> Result<(), BackendError> {
        self.fuse.run()?;
        self.cpu.fuse(jobs, out)
    }
}

/// Makes a pipeline of the same configuration on a backend with hooks.
pub(super) fn hooked(pipeline: &Pipeline) -> (Arc<Pipeline>, Arc<Hooked>) {
    let config = pipeline.config().clone();
    let cpu = CpuBackend::new(&config, &Layout::new(&config)).unwrap();
    let [encode, blend, fuse] = Default::default();
    let backend = Arc::new(Hooked { cpu, encode, blend, fuse });
    let pipeline = Arc::new(Pipeline::new(config, Arc::clone(&backend) as _).unwrap());
    (pipeline, backend)
}
