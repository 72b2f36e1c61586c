//! A backend that takes its time.

use std::sync::Mutex;

use crate::clock::WorldClock;
use crate::net::MS;
use robocache_core::backend::cpu::CpuBackend;
use robocache_core::backend::{Backend, BackendError, StepJob};
use robocache_core::sample::PlacedSample;
use robocache_core::spec::RingId;
use robocache_ops::align::Slot;
use robocache_ops::device::OutputMut;
use robocache_ops::random::Random;
use robocache_ops::sync::lock;
use robocache_ops::voxelize::PointDrops;

/// The CPU's backend. If it has a clock, one in ten encodings takes long.
pub(crate) struct Slow {
    backend: CpuBackend,
    clock: Option<WorldClock>,
    draw: Mutex<Random>,
}

impl Slow {
    pub(crate) fn new(backend: CpuBackend, clock: Option<WorldClock>, seed: u64) -> Self {
        Slow { backend, clock, draw: Mutex::new(Random::new(seed ^ 0x510)) }
    }
}

impl Backend for Slow {
    fn name(&self) -> &'static str {
        self.backend.name()
    }

    fn encode(
        &self,
        ring: RingId,
        slot: Slot,
        sample: &PlacedSample<'_>,
    ) -> Result<PointDrops, BackendError> {
        if let Some(clock) = &self.clock {
            let mut draw = lock(&self.draw);
            if draw.below(10) == 0 {
                clock.spend(draw.below(20) * MS);
            }
        }
        self.backend.encode(ring, slot, sample)
    }

    fn fuse(&self, jobs: &[StepJob], out: OutputMut<'_>) -> Result<(), BackendError> {
        self.backend.fuse(jobs, out)
    }
}
