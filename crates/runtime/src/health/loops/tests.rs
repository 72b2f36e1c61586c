use super::*;
use crate::health::Level;
use crate::health::report::{Status, of_loop};

#[test]
fn a_loop_is_judged_by_the_overruns_of_the_window() {
    let (mut seen, stats) = (LoopSeen::default(), GridStats::default());
    let mut second = 0;
    let mut report = || {
        second += 1;
        let Status { part, level, message, values } =
            of_loop("count", &seen.read(&stats, Duration::from_secs(second)));
        assert_eq!(part, "count");
        (level, message, values)
    };
    stats.overruns.add(3);
    stats.woken.record(2_000_000);
    stats.priority.store(20, Ordering::Relaxed);
    let (level, message, values) = report();
    assert_eq!((level, message.as_str()), (Level::Warn, "3 overruns"));
    let values: Vec<_> = values.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    assert_eq!([values[0], values[4]], [("overruns", "3"), ("realtime_priority", "20")]);
    assert_eq!(values[3], ("woken_latency_max_ms", "2.000"));
    let (level, message, values) = report();
    assert_eq!((level, message.as_str()), (Level::Ok, "no overruns"));
    assert_eq!(values[0].1, "3", "all of them since the start");
}
