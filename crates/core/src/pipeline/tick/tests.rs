use std::sync::Arc;

use super::*;
use crate::backend::cpu::CpuBackend;
use robocache_testing::threads::check_inherited;

#[test]
fn a_thread_that_holds_the_rings_inherits_the_priority_of_the_tick() {
    let config = "rate_hz: 100\nstreams: {w: {type: geometry_msgs/WrenchStamped, topic: /w, \
                  max_age_ms: 50}}";
    let config = crate::config::parse(config, "test.yaml").unwrap();
    let backend = Arc::new(CpuBackend::new(&config, &Layout::new(&config)).unwrap());
    let pipeline = Pipeline::new(config, backend).unwrap();
    let mut message = pipeline.new_message();
    let mut tick = || pipeline.tick(1, Epoch::default(), &mut message).unwrap();
    check_inherited(
        || assert_eq!(tick(), TickOutcome::Ready),
        |act| {
            let _rings = pipeline.lock_rings();
            act();
        },
    );
    // As a push does that waits for the end of the tick.
    check_inherited(
        || assert_eq!(tick(), TickOutcome::Ready),
        |act| {
            let _ticker = pipeline.ticker.lock();
            act();
        },
    );
}
