use super::*;
use crate::inspect::sketch::Sketch;

#[test]
fn rates_have_three_digits() {
    let rate = |usual_ns| {
        let timeline = Timeline::Header;
        let why = None;
        let usual_delay_ns = None;
        let long_ns = 0;
        let long_share = 99;
        let delay_ns = 0;
        let offset_ns = 0;
        let delays = Timing {
            timeline,
            why,
            usual_ns,
            long_ns,
            long_share,
            delay_ns,
            usual_delay_ns,
            offset_ns,
        };
        let of = delays;
        of.rate_hz().to_string()
    };
    assert_eq!(
        [20_048_000, 33_366_700, 1_000_000, 3_000_000_000].map(rate),
        ["49.9", "30", "1000", "0.333"]
    );
}

#[test]
fn a_few_gaps_do_not_make_intervals_long() {
    let usual = 100 * NANOS_PER_MS;
    let gap = 1000 * NANOS_PER_MS;
    let of = |count, gaps| {
        let mut sketch = Sketch::default();
        (0..count - gaps).for_each(|_| sketch.record(usual));
        (0..gaps).for_each(|_| sketch.record(gap));
        let (long_ns, share) = long(sketch.distribution().unwrap(), gaps);
        (long_ns > 2 * usual, share)
    };
    assert_eq!(of(76, 1), (false, 95));
    assert_eq!(of(1000, 3), (false, 95));
    // Then it is how the topic is.
    assert_eq!(of(76, 10), (true, 99));
    assert_eq!(of(76, 0), (false, 99));
}

#[test]
fn times_are_rounded_up_to_round_numbers() {
    let ms = |ms: f64| milliseconds(rounded_up((ms * 1e6) as i64));
    assert_eq!(
        ["7", "20", "25", "100", "110", "1100"],
        [6.2, 19.1, 21.0, 96.0, 101.0, 1001.0].map(ms)[..]
    );
    assert_eq!(milliseconds(1_234_567), "1.235");
}
