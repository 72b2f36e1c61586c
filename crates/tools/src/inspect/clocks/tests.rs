use super::*;

const MS: i64 = 1_000_000;

/// Two topics at 10 Hz; `clock` says what the recorder's clock reads at a true time.
fn record(clock: impl Fn(i64) -> i64, is_there: impl Fn(i64) -> bool) -> RecorderReport {
    let mut recorder = RecorderClock::new(2);
    for tick in 0..200 {
        let truth = 1000 * NANOS_PER_S + tick * 100 * MS;
        if is_there(tick) {
            for topic in 0..2 {
                let received = clock(truth + 5 * MS);
                // The sensors have another clock.
                let delay = received - truth;
                recorder.take(topic as usize, Stamp::from_nanos(received), Some(delay));
            }
        }
    }
    recorder.finish()
}

#[test]
fn a_silence_and_a_clock_that_was_set_are_told_apart() {
    let middle = 1010 * NANOS_PER_S;
    let quiet = record(|truth| truth, |tick| !(50..80).contains(&tick));
    let ahead = record(|t| if t > middle { t + 7 * NANOS_PER_S } else { t }, |_| true);
    let back = record(|t| if t > middle { t - 3 * NANOS_PER_S } else { t }, |_| true);
    let [quiet, ahead, back] = [quiet, ahead, back].map(|mut report| {
        assert_eq!((report.events.len(), report.more_events), (1, 0));
        report.events.remove(0)
    });
    assert!(matches!(quiet, ClockEvent::Silence { length_ns, .. } if length_ns == 3100 * MS));
    assert!(matches!(ahead, ClockEvent::SetAhead { by_ns, .. } if by_ns == 7 * NANOS_PER_S));
    assert!(matches!(back, ClockEvent::SetBack { by_ns, .. } if by_ns == 2900 * MS));
    assert_eq!(record(|truth| truth, |_| true), RecorderReport::default());
}

#[test]
fn the_resets_and_the_speed_of_a_simulator_are_told() {
    let mut clock = SimulatedClock::default();
    for k in 0..100 {
        let reading = Stamp::from_nanos(20 * MS * (k % 50));
        clock.take(reading, Stamp::from_nanos(NANOS_PER_S + 10 * MS * k));
    }
    let report = clock.report().unwrap();
    assert_eq!((report.readings.backwards, report.readings.furthest_back_ns), (1, 980 * MS));
    assert!((report.speed.unwrap() - 98.0 * 20.0 / 990.0).abs() < 1e-9);
    assert_eq!(SimulatedClock::default().report(), None);
}
