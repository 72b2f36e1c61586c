use super::*;
use robocache_ops::time::Epoch;

/// Readings each millisecond from `start`, whose stamps are those of [`stamp`].
fn newest(start: Instant, readings: u64) -> Newest {
    let mut newest = Newest::default();
    for k in 0..readings {
        let since = start + Duration::from_millis(k);
        newest.note(Reading { stamp: stamp(k), since, epoch: Epoch::default() });
    }
    newest
}

fn stamp(reading: u64) -> Stamp {
    Stamp::from_nanos(10 * reading as i64)
}

#[test]
fn a_second_of_readings_is_exact_and_an_older_latency_is_never_too_short() {
    let start = Instant::now();
    let readings = 5000;
    let newest = newest(start, readings);
    let exact = readings - NEWEST as u64;
    for k in 0..readings {
        for asked in [stamp(k), stamp(k).offset(-9)] {
            let found = newest.reached(asked).unwrap() - start;
            let true_time = Duration::from_millis(k);
            let most = if k < exact { THINNED } else { Duration::ZERO };
            assert!(found <= true_time && found + most >= true_time, "{k}: {found:?}");
        }
    }
    assert_eq!(newest.reached(stamp(readings)), None, "the clock has not been there");
}

#[test]
fn readings_are_forgotten_after_ten_seconds_and_need_bounded_memory() {
    let start = Instant::now();
    let readings = 60_000;
    let newest = newest(start, readings);
    let kept = newest.older.len() + newest.all.len();
    assert!(kept <= NEWEST + 2 + LATEST.div_duration_f64(THINNED) as usize, "{kept}");
    let end = start + Duration::from_millis(readings - 1);
    for (forgotten, exact) in [(0, false), (30_000, false), (readings - 10_000, true)] {
        let found = end - newest.reached(stamp(forgotten)).unwrap();
        assert!(found + Duration::from_millis(1) >= LATEST, "{forgotten}: {found:?}");
        assert!(!exact || found <= LATEST + THINNED, "{forgotten}: {found:?}");
    }
}
