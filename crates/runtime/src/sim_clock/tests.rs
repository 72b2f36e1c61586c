use std::sync::{Arc, Mutex, OnceLock, Weak};

use super::*;
use crate::{
    ChunkRecord, Event, OfferedQos, ReceivedMessage, Recorder, RecorderStatus, SharedBytes,
    TimeSource,
};
use robocache_core::backend::cpu::CpuBackend;
use robocache_core::layout::Layout;
use robocache_core::pipeline::Pipeline;
use robocache_core::spec::InputId;
use robocache_ops::sync::lock;

/// Readings of the clock when the recorder was told of each of its messages.
#[derive(Default)]
struct Readings {
    runtime: OnceLock<Weak<Runtime>>,
    read: Mutex<Vec<(Stamp, Option<Stamp>)>>,
}

impl Recorder for Readings {
    fn received(&self, _: ReceivedMessage) -> u64 {
        0
    }

    fn clock_set(&self, message: ClockMessage) {
        let runtime = self.runtime.get().and_then(Weak::upgrade).unwrap();
        lock(&self.read).push((message.stamp, runtime.clock.now().map(|now| now.stamp)));
    }

    fn offered(&self, _: Option<InputId>, _: Vec<OfferedQos>) {}

    fn chunk(&self, _: ChunkRecord, _: SharedBytes) {}

    fn note(&self, _: Event) {}

    fn status(&self) -> RecorderStatus {
        RecorderStatus::default()
    }
}

#[test]
fn a_recorder_is_told_before_a_tick_can_be_due() {
    let config = "rate_hz: 100\nstreams: {w: {type: geometry_msgs/WrenchStamped, topic: /w, strategy: hold, max_age_ms: 100, dtype: f32}}";
    let config = robocache_core::config::parse(config, "test.yaml").unwrap();
    let grid = config.grid;
    let backend = CpuBackend::new(&config, &Layout::new(&config)).unwrap();
    let clock = Clock::simulated(grid, TimeSource::real());
    let mut runtime = Runtime::new(Pipeline::new(config, Arc::new(backend)).unwrap(), clock);
    let readings = Arc::new(Readings::default());
    runtime.recorder = Some(Arc::clone(&readings) as Arc<dyn Recorder>);
    let runtime = Arc::new(runtime);
    readings.runtime.set(Arc::downgrade(&runtime)).unwrap();
    let [first, second, back] = [5, 10, 1].map(Stamp::from_nanos);
    for stamp in [first, second, back] {
        runtime.sim_clock().unwrap().set(stamp, Transit::UNKNOWN);
    }
    assert_eq!(*lock(&readings.read), [(first, None), (second, Some(first)), (back, Some(second))]);
}
