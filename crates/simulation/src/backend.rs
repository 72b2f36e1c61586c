//! A backend that takes its time, and fails.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::clock::WorldClock;
use crate::faults::Fault;
use crate::net::MS;
use crate::plan::Plan;
use robocache_core::backend::cpu::CpuBackend;
use robocache_core::backend::{Backend, BackendError, StepJob};
use robocache_core::sample::PlacedSample;
use robocache_core::spec::RingId;
use robocache_ops::align::Slot;
use robocache_ops::device::OutputMut;
use robocache_ops::random::Random;
use robocache_ops::sync::lock;
use robocache_ops::voxelize::PointDrops;

/// The CPU's backend, with the faults of a seed.
pub(crate) struct FaultyBackend {
    backend: CpuBackend,
    clock: WorldClock,
    /// True if one in ten encodings takes long.
    is_slow: bool,
    /// Set while it fails.
    is_broken: Arc<AtomicBool>,
    draw: Mutex<Random>,
}

impl FaultyBackend {
    pub(crate) fn new(
        backend: CpuBackend,
        plan: &Plan,
        clock: &WorldClock,
        is_broken: &Arc<AtomicBool>,
    ) -> Self {
        FaultyBackend {
            backend,
            clock: clock.clone(),
            is_slow: plan.has(Fault::SlowEncoder),
            is_broken: Arc::clone(is_broken),
            draw: Mutex::new(Random::new(plan.seed ^ 0x510)),
        }
    }

    fn check(&self, operation: &'static str) -> Result<(), BackendError> {
        match self.is_broken.load(Ordering::Relaxed) {
            true => Err(BackendError::Failed {
                backend: self.backend.name(),
                operation,
                detail: "a fault of the simulation".to_owned(),
            }),
            false => Ok(()),
        }
    }
}

impl Backend for FaultyBackend {
    fn name(&self) -> &'static str {
        self.backend.name()
    }

    fn encode(
        &self,
        ring: RingId,
        slot: Slot,
        sample: &PlacedSample<'_>,
    ) -> Result<PointDrops, BackendError> {
        self.check("encode a sample")?;
        if self.is_slow {
            let draw = &mut *lock(&self.draw);
            if draw.below(10) == 0 {
                self.clock.spend(draw.below(20) * MS);
            }
        }
        self.backend.encode(ring, slot, sample)
    }

    fn fuse(&self, jobs: &[StepJob], out: OutputMut<'_>) -> Result<(), BackendError> {
        self.check("fuse")?;
        self.backend.fuse(jobs, out)
    }
}
