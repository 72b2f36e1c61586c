use super::*;
use robocache_core::backend::StepJob;
use robocache_core::sample::PlacedSample;
use robocache_core::spec::RingId;
use robocache_ops::align::Slot;
use robocache_ops::device::OutputMut;
use robocache_ops::voxelize::PointDrops;

struct Mock(GpuUse);

impl Backend for Mock {
    fn name(&self) -> &'static str {
        "mock"
    }

    fn gpu(&self) -> GpuUse {
        self.0.clone()
    }

    fn encode(&self, _: RingId, _: Slot, _: &PlacedSample<'_>) -> Result<PointDrops, BackendError> {
        Ok(PointDrops::default())
    }

    fn fuse(&self, _: &[StepJob], _: OutputMut<'_>) -> Result<(), BackendError> {
        Ok(())
    }
}

fn config(rows: usize) -> Config {
    let stream =
        format!("{{type: sensor_msgs/Imu, topic: /imu, max_age_ms: 50, ring_rows: {rows}}}");
    robocache_core::config::parse(&format!("rate_hz: 100\nstreams: {{imu: {stream}}}"), "a.yaml")
        .unwrap()
}

fn made(gpu: GpuUse) -> Arc<dyn Backend> {
    Arc::new(Mock(gpu))
}

#[test]
fn a_backend_serves_the_next_episode_unless_its_memory_or_its_gpu_is_another() {
    let mut kept = KeptBackend::default();
    let first = kept.take(&config(64), || Ok(made(GpuUse::InUse))).unwrap();
    kept.keep(config(64), Arc::clone(&first));
    let again = kept.take(&config(64), || panic!("there is one")).unwrap();
    assert!(Arc::ptr_eq(&first, &again));
    // The caller still has it: an episode that failed gives nothing back.
    let other = kept.take(&config(64), || Ok(made(GpuUse::InUse))).unwrap();
    assert!(!Arc::ptr_eq(&first, &other));
    kept.keep(config(64), other);
    let larger = kept.take(&config(65), || Ok(made(GpuUse::InUse))).unwrap();
    kept.keep(config(65), larger);
    kept.take(&config(65), || panic!("there is one")).unwrap();
    let left = made(GpuUse::Left { reason: "it hangs".into() });
    kept.keep(config(65), Arc::clone(&left));
    let retried = kept.take(&config(65), || Ok(made(GpuUse::InUse))).unwrap();
    assert_eq!(retried.gpu(), GpuUse::InUse);
}
