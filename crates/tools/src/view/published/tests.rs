use super::*;
use robocache_ops::align::NO_AGE;

#[test]
fn the_part_begins_where_the_streams_change_most() {
    let at = |ms: i64| Stamp::from_nanos(1_795_000_000_000_000_000 + ms * 1_000_000);
    // Still, but for one second from 6 s on.
    let value = |ms: i64| ((ms - 6000) as f32 / 1000.0).clamp(0.0, 1.0);
    let times = || (0..10_000).step_by(100);
    let segment = Segment {
        name: "j".into(),
        shape: vec![1, 1],
        dtype: "f32",
        place: (0, 4),
        present: 0,
        valid_steps: Vec::new(),
        state: Vec::new(),
        age_ns: times().map(|_| NO_AGE).collect(),
        target: times().map(at).collect(),
        rows: times().map(value).collect(),
        curves: 1,
    };
    let mut track = Track::new(None);
    track.ticks = times().map(|ms| (ms as u64 / 100, at(ms))).collect();
    track.segments = vec![segment];
    let start = liveliest(&track);
    assert!((at(4900)..=at(6100)).contains(&start), "{start}");
    // What a simulator plays again is not looked at: its stamps are there twice.
    let again: Vec<_> = track.ticks.iter().map(|(tick, at)| (*tick, at.offset(-1))).collect();
    track.ticks.extend(again);
    assert_eq!(liveliest(&track), start);
}
