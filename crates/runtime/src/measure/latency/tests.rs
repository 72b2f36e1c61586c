use super::*;
use robocache_core::histogram::WindowReader;
use std::time::Duration;

#[test]
fn a_negative_latency_counts_as_zero() {
    let latency = Latency::default();
    latency.record(-3);
    let window = WindowReader::default().read(latency.histogram(), Duration::ZERO).window;
    assert_eq!((window.count, window.p50_ns, window.max_ns), (1, 0, 0));
}
