use super::*;
use robocache_ops::time::NANOS_PER_S;

const CONFIG: &str = "
rate_hz: 100
streams:
  w: {type: geometry_msgs/WrenchStamped, topic: /w, max_age_ms: 50}
";

#[test]
fn a_lost_message_of_the_clock_has_no_effect_on_what_was_long_before() {
    let mut gaps = Gaps::new(&robocache_core::config::parse(CONFIG, "test.yaml").unwrap());
    let at = |s: i64| Stamp::from_nanos(s * NANOS_PER_S);
    gaps.add_clock(Some((Epoch::numbered(1), at(100))));
    let effect = |epoch, s| gaps.have_an_effect((epoch, 0), at(s));
    assert_eq!([effect(0, 500), effect(1, 80), effect(1, 95)], [false, false, true]);
    assert_eq!([effect(1, 1000), effect(2, 0)], [true; 2]);
}

#[test]
fn effects_that_overlap_are_one() {
    let mut gaps = Gaps::new(&robocache_core::config::parse(CONFIG, "test.yaml").unwrap());
    let at = |s: i64| (0, Stamp::from_nanos(s));
    for (from, until) in [(10, 20), (40, 50), (15, 30), (25, 42)] {
        gaps.end(at(from), at(until));
    }
    assert_eq!(gaps.ended, [(at(10), at(50))]);
    let effect = |s| gaps.have_an_effect((0, 0), at(s).1);
    assert_eq!([9, 10, 50, 51].map(effect), [false, true, true, false]);
}
