use super::*;
use crate::health::Level;
use crate::health::assess::SimClockSeen;
use crate::health::report::{Status, of_loop};

#[test]
fn a_loop_is_judged_by_the_overruns_of_the_window() {
    let mut seen = LoopSeen::default();
    let stats = GridStats::default();
    let mut second = 0;
    let mut report = || {
        second += 1;
        let Status { part, level, message, values } =
            of_loop("count", &seen.read(&stats, Duration::from_secs(second), 0), None);
        assert_eq!(part, "loop count");
        (level, message, values)
    };
    stats.served.add(7);
    stats.overruns.add(3);
    stats.woken.record(2_000_000);
    stats.priority.store(20, Ordering::Relaxed);
    let (level, message, values) = report();
    assert_eq!((level, message.as_str()), (Level::Warn, "3 overruns"));
    let values: Vec<_> = values.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    assert_eq!(
        [values[0], values[1], values[5]],
        [("served", "7"), ("overruns", "3"), ("realtime_priority", "20")]
    );
    assert_eq!(values[4], ("woken_latency_max_ms", "2.000"));
    let (level, message, values) = report();
    assert_eq!((level, message.as_str()), (Level::Ok, "no overruns"));
    assert_eq!(values[1].1, "3", "all of them since the start");
}

#[test]
fn a_loop_that_serves_nothing_is_an_error_and_one_whose_clock_does_not_run_is_stale() {
    let mut seen = LoopSeen::default();
    let stats = GridStats::default();
    let start = Instant::now();
    let mut report = |ms: u64, tick: Option<i64>, sim_clock| {
        let since = Duration::from_millis(ms);
        let unserved = seen.unserved(start + since, tick, stats.served.get());
        let Status { level, message, .. } =
            of_loop("count", &seen.read(&stats, since, unserved), sim_clock);
        (level, message)
    };
    let fine = (Level::Ok, "no overruns".to_owned());
    let stuck = |ticks| (Level::Error, format!("{ticks} ticks due since the last one served"));
    assert_eq!(report(0, Some(5), None), fine);
    // It has never served one.
    assert_eq!(report(400, Some(45), None), fine, "a short delay");
    assert_eq!(report(1000, Some(105), None), stuck(100));
    stats.served.add(1);
    assert_eq!(report(2000, Some(205), None), fine);
    assert_eq!(report(3000, Some(207), None), fine, "the tick in work, and the next one");
    assert_eq!(report(4000, Some(208), None), stuck(3));
    stats.overruns.add(2);
    let (level, message) = report(5000, Some(305), None);
    assert_eq!(
        (level, &*message),
        (Level::Error, "2 overruns; 100 ticks due since the last one served")
    );
    // A jump back begins again.
    assert_eq!(report(6000, Some(3), None), fine);
    let never = report(7000, None, Some(SimClockSeen::Never));
    assert_eq!(never, (Level::Stale, "no message on /clock yet: no ticks".to_owned()));
    let stands = |s| Some(SimClockSeen::Stands(Duration::from_secs(s)));
    assert_eq!(report(8000, Some(3), stands(2)), fine);
    assert_eq!(report(9000, Some(3), stands(4)).0, Level::Stale);
}
