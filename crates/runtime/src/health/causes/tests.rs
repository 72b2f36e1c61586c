//! Tests of [`cause`] with made-up evidence.

use super::*;

const MS: i64 = NANOS_PER_MS;

/// A stream at 100 Hz ticks.
fn stream(keys: &str) -> StreamSpec {
    let config = format!(
        "rate_hz: 100\nstreams: {{w: {{type: geometry_msgs/WrenchStamped, topic: /w, {keys}}}}}"
    );
    robocache_core::config::parse(&config, "test.yaml").unwrap().streams.remove(0)
}

/// Evidence of 200 Hz messages that arrive 4 to 5 ms after their stamps.
fn evidence(spec: &StreamSpec) -> Evidence<'_> {
    let delay =
        Quantiles { count: 100, p50_ns: 4 * MS, p99_ns: 5 * MS, p999_ns: 5 * MS, max_ns: 5 * MS };
    Evidence {
        spec,
        period_ns: 10 * MS,
        simulated: false,
        invalid: [0; InvalidReason::ALL.len()],
        held_share: 0.0,
        spacings: Some(Spacings { mean_ns: 5 * MS, longest_ns: 6 * MS }),
        suggested_lag_ms: Some(11.0),
        inputs: vec![InputEvidence {
            delay,
            rate_hz: 200.0,
            interval: Some(Duration::from_millis(5)),
            received: 40,
            ..InputEvidence::default()
        }],
    }
}

/// The cause if steps are invalid for this reason.
fn because(
    reason: InvalidReason,
    spec: &StreamSpec,
    change: impl FnOnce(&mut Evidence<'_>),
) -> Option<Cause> {
    let mut evidence = evidence(spec);
    evidence.invalid[reason as usize] = 10;
    change(&mut evidence);
    cause(&evidence)
}

fn told(cause: Option<Cause>) -> (CauseKind, String) {
    let Cause { kind, words } = cause.unwrap();
    (kind, words)
}

fn delay(p50_ns: i64) -> Quantiles {
    Quantiles { count: 9, p50_ns, p99_ns: p50_ns, p999_ns: p50_ns, max_ns: p50_ns }
}

#[test]
fn a_sensor_whose_stamps_are_ahead_of_their_arrival_is_named_although_all_its_values_are_valid() {
    let spec = stream("max_age_ms: 50");
    let ahead = |p50_ns, change: fn(&mut Evidence<'_>)| {
        let mut evidence = evidence(&spec);
        evidence.inputs[0].delay = delay(p50_ns);
        change(&mut evidence);
        cause(&evidence).map(|cause| (cause.kind, cause.words))
    };
    let (kind, words) = ahead(-298_500_000, |_| ()).unwrap();
    assert_eq!(kind, CauseKind::ClockAhead);
    assert!(words.starts_with("stamps are 0.298 s ahead of the node's clock: "), "{words}");
    assert!(words.contains("set stamp_offset_ms to -299,"), "{words}");
    assert!(ahead(-2 * MS - 1, |_| ()).is_some() && ahead(-2 * MS, |_| ()).is_none());
    // A simulator's clock moves in steps.
    assert_eq!(ahead(-20 * MS, |evidence| evidence.simulated = true), None);
    // Who allows stamps that are ahead has them.
    let spec = stream("max_age_ms: 50, max_ahead_ms: 400");
    let mut allowed = evidence(&spec);
    allowed.inputs[0].delay = delay(-300 * MS);
    assert_eq!(cause(&allowed), None);
}

#[test]
fn a_long_delay_that_hardly_changes_is_a_clock_that_is_behind_rather_than_a_lag() {
    let spec = stream("max_age_ms: 50, strategy: hold");
    let late = |p50_ns, p99_ns| {
        let told = because(InvalidReason::Delayed, &spec, |evidence| {
            let delay = Quantiles { p50_ns, p99_ns, ..delay(p50_ns) };
            let topic = "/w".to_owned();
            let input = evidence.inputs.remove(0);
            evidence.inputs = vec![InputEvidence { delay, topic, ..input }];
            evidence.suggested_lag_ms = Some(230.0);
        });
        told.unwrap().words
    };
    let words = late(201_300_000, 204 * MS);
    let advice = "/w always comes 201 ms after its stamps, so its clock is probably behind: synchronise the clocks \
                  (chrony, ptp), or set stamp_offset_ms to 201; only if messages take that long, set this stream's \
                  lag_ms to 230";
    assert!(words.ends_with(advice), "{words}");
    // What varies is a way, and what is short is one too.
    for (p50_ns, p99_ns) in [(201 * MS, 230 * MS), (90 * MS, 91 * MS)] {
        let words = late(p50_ns, p99_ns);
        assert!(words.ends_with("the delay; set this stream's lag_ms to 230"), "{words}");
    }
}

#[test]
fn what_is_planned_has_no_lag_to_set_and_no_clock_to_blame() {
    let spec = stream("max_age_ms: 50, horizon: {steps: 4, step_ms: 100}");
    for reason in [InvalidReason::TooOld, InvalidReason::NotFilled] {
        let (kind, words) = told(because(reason, &spec, |_| ()));
        assert_eq!((kind, kind.has_remedy()), (CauseKind::NotCovered, false));
        assert_eq!(
            words,
            "what is planned does not cover all targets, from 0 to 300 ms after the tick: there is no \
             plan, or it begins later or ends earlier"
        );
    }
}

#[test]
fn a_short_ring_gets_the_rows_that_the_measured_rate_needs() {
    let spec =
        stream("max_age_ms: 50, lag_ms: 20, ring_rows: 64, history: {steps: 11, step_ms: 100}");
    let (kind, words) = told(because(InvalidReason::RingShort, &spec, |_| ()));
    assert_eq!(kind, CauseKind::RingShort);
    // 1030 ms at 5 ms, a tenth more, and two.
    assert!(words.ends_with("raise ring_rows to 229"), "{words}");
    assert!(words.contains("its 64 rows reach back 320 ms, and lag and history need 1020 ms"));
    let (_, words) = told(because(InvalidReason::RingShort, &spec, |e| e.spacings = None));
    assert!(words.ends_with("raise ring_rows to 229"), "by the rate of messages: {words}");
}

#[test]
fn a_lag_shorter_than_the_delay_gets_the_suggested_lag() {
    let spec = stream("max_age_ms: 2, max_gap_ms: 50");
    let (kind, words) = told(because(InvalidReason::Delayed, &spec, |_| ()));
    assert_eq!(kind, CauseKind::LagShort);
    assert!(words.contains("up to 5 ms after their stamps"), "{words}");
    assert!(words.ends_with("set this stream's lag_ms to 11"), "{words}");
    let enough = stream("max_age_ms: 2, max_gap_ms: 50, lag_ms: 11");
    assert_eq!(told(because(InvalidReason::Delayed, &enough, |_| ())).0, CauseKind::Moment);
}

#[test]
fn a_clock_that_is_behind_gets_an_offset_or_decades_in_words() {
    let spec = stream("max_age_ms: 50");
    let behind = |by_ns: i64| {
        told(because(InvalidReason::ClockBehind, &spec, |e| {
            (e.inputs[0].delay, e.inputs[0].stamp_offset_ns) = (delay(by_ns), 500 * MS);
        }))
    };
    let (kind, words) = behind(60_000 * MS);
    assert_eq!(kind, CauseKind::ClockBehind);
    assert_eq!(
        words,
        "stamps are 60.000 s behind the node's clock: synchronise the clocks (chrony, ptp), set \
         stamp_offset_ms to 60500, or use timeline: receive"
    );
    let (_, words) = behind(1_795_000_000 * NANOS_PER_S);
    assert_eq!(
        words,
        "stamps are 56.9 years behind the node's clock: if a simulator sends them, set the parameter \
         use_sim_time; otherwise synchronise the clocks (chrony, ptp), or use timeline: receive"
    );
}

#[test]
fn a_clock_that_is_ahead_is_found_by_rows_and_by_drops() {
    let spec = stream("max_age_ms: 50");
    let expected = "stamps are 0.900 s ahead of the node's clock: synchronise the clocks (chrony, \
                    ptp), set stamp_offset_ms to -900, or use timeline: receive";
    let ahead = |e: &mut Evidence<'_>| e.inputs[0].delay = delay(-900 * MS);
    let (kind, words) = told(because(InvalidReason::Ahead, &spec, ahead));
    assert_eq!((kind, words.as_str()), (CauseKind::ClockAhead, expected));
    let (kind, words) = told(because(InvalidReason::NoRow, &spec, |e| {
        e.inputs[0].delay = delay(-3000 * MS);
        e.inputs[0].dropped = vec![(DropReason::Ahead, 30), (DropReason::Late, 1)];
    }));
    assert_eq!(kind, CauseKind::ClockAhead);
    assert!(words.contains("set stamp_offset_ms to -3000"), "{words}");
}

#[test]
fn a_clock_that_is_ahead_hides_no_other_cause_of_invalid_steps() {
    let ahead = |e: &mut Evidence<'_>| e.inputs[0].delay = delay(-3 * MS);
    let clock = "; stamps are 0.003 s ahead of the node's clock: synchronise the clocks (chrony, ptp), set \
                 stamp_offset_ms to -3, or use timeline: receive";
    let both = |reason, spec: &StreamSpec, change: fn(&mut Evidence<'_>)| {
        let (kind, alone) = told(because(reason, spec, change));
        let (kind_of_both, words) = told(because(reason, spec, |e| {
            change(e);
            ahead(e);
        }));
        assert_eq!(words, format!("{alone}{clock}"), "{reason:?}");
        (kind, kind_of_both)
    };
    let ring =
        stream("max_age_ms: 50, lag_ms: 20, ring_rows: 64, history: {steps: 11, step_ms: 100}");
    let kinds = both(InvalidReason::RingShort, &ring, |_| ());
    assert_eq!(kinds, (CauseKind::RingShort, CauseKind::RingShort));
    let gaps = stream("max_age_ms: 50, max_gap_ms: 5, strategy: linear");
    let kinds = both(InvalidReason::Gap, &gaps, |_| ());
    assert_eq!(kinds, (CauseKind::GapShort, CauseKind::GapShort));
    // Another input is dropped.
    let drops = |e: &mut Evidence<'_>| {
        let dropped = vec![(DropReason::WrongFrame, 30)];
        e.inputs.push(InputEvidence { dropped, ..e.inputs[0].clone() });
    };
    let spec = stream("max_age_ms: 50");
    let kinds = both(InvalidReason::NoRow, &spec, drops);
    assert_eq!(kinds, (CauseKind::Dropped, CauseKind::Dropped));
    // Nobody can do anything about the one, so that the log is about the other.
    let kinds = both(InvalidReason::TooOld, &spec, |_| ());
    assert_eq!(kinds, (CauseKind::Moment, CauseKind::ClockAhead));
    // Rows from before the clock was set ahead, and values that are only held.
    let (kind, words) = told(because(InvalidReason::ClockBehind, &spec, ahead));
    assert_eq!((kind, format!("; {words}").as_str()), (CauseKind::ClockAhead, clock));
    let (kind, words) = told(because(InvalidReason::Ahead, &spec, ahead));
    assert_eq!((kind, format!("; {words}").as_str()), (CauseKind::ClockAhead, clock));
}

#[test]
fn without_rows_the_drops_say_why_and_silence_is_told_elsewhere() {
    let spec = stream("max_age_ms: 50");
    assert_eq!(because(InvalidReason::NoRow, &spec, |_| ()), None);
    let (kind, words) = told(because(InvalidReason::NoRow, &spec, |e| {
        e.inputs[0].dropped = vec![(DropReason::WrongFrame, 30)];
    }));
    assert_eq!(kind, CauseKind::Dropped);
    assert_eq!(words, "30 of 40 messages were dropped: wrong_frame");
    // The line has the detail itself: another line may be of an older drop.
    let (_, words) = told(because(InvalidReason::NoRow, &spec, |e| {
        e.inputs[0].dropped = vec![(DropReason::Late, 1), (DropReason::WrongFrame, 30)];
        e.inputs[0].details = vec![
            (DropReason::Late, "older than the ring".into()),
            (DropReason::WrongFrame, "expected tool, found tool_2".into()),
        ];
    }));
    let expected = "30 of 40 messages were dropped: wrong_frame: expected tool, found tool_2";
    assert_eq!(words, expected);
    // Rows in the ring get old while all newer messages are dropped.
    let (kind, _) = told(because(InvalidReason::TooOld, &spec, |e| {
        e.inputs[0].dropped = vec![(DropReason::WrongFrame, 30)];
    }));
    assert_eq!(kind, CauseKind::Dropped);
    let few = because(InvalidReason::TooOld, &spec, |e| {
        e.inputs[0].dropped = vec![(DropReason::WrongFrame, 20)];
    });
    assert_eq!(told(few).0, CauseKind::Moment);
}

#[test]
fn an_old_row_asks_for_lag_or_age_or_is_a_moment() {
    let too_old = |keys: &str, change: fn(&mut Evidence<'_>)| {
        because(InvalidReason::TooOld, &stream(keys), change)
    };
    // 5 ms of delay and 6 ms between two messages: up to 11 ms.
    let (kind, words) = told(too_old("max_age_ms: 10", |_| ()));
    assert_eq!(kind, CauseKind::LagShort);
    assert_eq!(
        words,
        "a message comes every 6 ms and up to 5 ms after its stamp: lag_ms is too short; set \
         this stream's lag_ms to 11"
    );
    // With `hold` no lag makes a row younger than the distance of two.
    let (kind, words) = told(too_old("max_age_ms: 3, strategy: hold", |_| ()));
    assert_eq!(kind, CauseKind::AgeShort);
    assert!(words.ends_with("raise max_age_ms to 11"), "{words}");
    let (kind, words) = told(too_old("max_age_ms: 7, strategy: hold", |e| {
        e.suggested_lag_ms = Some(5.0);
    }));
    assert_eq!(kind, CauseKind::LagShort);
    assert!(words.ends_with("set this stream's lag_ms to 5"), "{words}");
    assert_eq!(told(too_old("max_age_ms: 11", |_| ())).0, CauseKind::Moment);
    assert_eq!(too_old("max_age_ms: 1", |e| e.inputs[0].silent = true), None);
    // The sensor's clock was set back: its rows enter the ring behind those from before.
    let (kind, _) = told(too_old("max_age_ms: 50", |e| e.inputs[0].delay = delay(60_000 * MS)));
    assert_eq!(kind, CauseKind::ClockBehind);
}

#[test]
fn a_gap_asks_for_the_key_of_its_strategy() {
    let gap = |keys: &str| told(because(InvalidReason::Gap, &stream(keys), |_| ()));
    let (kind, words) = gap("max_age_ms: 50, max_gap_ms: 4");
    assert_eq!(kind, CauseKind::GapShort);
    assert_eq!(words, "messages are 6 ms apart, and max_gap_ms is 4; raise max_gap_ms to 6");
    let (kind, words) = gap("max_age_ms: 4, strategy: hold");
    assert_eq!(kind, CauseKind::AgeShort);
    assert!(words.ends_with("raise max_age_ms to 6"), "{words}");
    assert_eq!(gap("max_age_ms: 50").0, CauseKind::Moment);
    // No limit brings lost messages.
    let lossy = |e: &mut Evidence<'_>| e.inputs[0].lost = 5;
    let spec = stream("max_age_ms: 50, max_gap_ms: 4");
    assert_eq!(told(because(InvalidReason::Gap, &spec, lossy)).0, CauseKind::Moment);
    let spec = stream("max_age_ms: 3, strategy: hold");
    assert_eq!(told(because(InvalidReason::TooOld, &spec, lossy)).0, CauseKind::Moment);
}

#[test]
fn values_that_are_mostly_held_ask_for_lag_if_a_longer_one_helps() {
    let spec = stream("max_age_ms: 50, lag_ms: 3");
    let held = |share, suggested| {
        cause(&Evidence { held_share: share, suggested_lag_ms: suggested, ..evidence(&spec) })
    };
    assert_eq!(held(0.4, Some(11.0)), None);
    assert_eq!(held(1.0, Some(3.0)), None);
    assert_eq!(held(1.0, None), None);
    let (kind, words) = told(held(0.96, Some(11.0)));
    assert_eq!(kind, CauseKind::LagShort);
    assert!(words.starts_with("96 % of the newest values are held"), "{words}");
    assert!(words.ends_with("set this stream's lag_ms to 11"), "{words}");
}

#[test]
fn the_reason_of_most_steps_is_the_cause_and_of_two_the_more_fundamental() {
    let spec = stream("max_age_ms: 50, history: {steps: 2, step_ms: 900}, ring_rows: 16");
    let mixed = |short, filled| {
        let mut evidence = evidence(&spec);
        evidence.invalid[InvalidReason::RingShort as usize] = short;
        evidence.invalid[InvalidReason::NotFilled as usize] = filled;
        cause(&evidence).map(|cause| cause.kind)
    };
    assert_eq!(mixed(4, 5), Some(CauseKind::NotFilled));
    assert_eq!(mixed(5, 5), Some(CauseKind::RingShort));
    assert_eq!(mixed(0, 0), None);
}

#[test]
fn clouds_that_a_row_lacks_are_those_of_the_silent_input() {
    let text = "
rate_hz: 100
streams:
  cells:
    type: sensor_msgs/PointCloud2
    max_age_ms: 50
    inputs: [{topic: /front}, {topic: /rear, max_age_ms: 150}]
    cloud: {origin_m: [0, 0, 0], size_m: 1, shape: [2, 2, 2], channels: [{reduce: count}]}
";
    let spec = robocache_core::config::parse(text, "test.yaml").unwrap().streams.remove(0);
    let incomplete = |rear: InputEvidence| {
        told(because(InvalidReason::Incomplete, &spec, |evidence| {
            evidence.inputs[0].topic = "/front".into();
            evidence.inputs.push(InputEvidence { topic: "/rear".into(), ..rear });
        }))
    };
    let silent = InputEvidence { silent: true, ..Default::default() };
    let words = "rows lack the clouds of /rear";
    assert_eq!(incomplete(silent), (CauseKind::CloudsMissing, words.into()));
    let interval = Some(Duration::from_millis(200));
    let slow = InputEvidence { interval, delay: delay(10 * MS), ..Default::default() };
    let words = "a cloud of /rear comes every 200 ms and up to 10 ms after its stamp: raise its \
                 max_age_ms to 210";
    assert_eq!(incomplete(slow), (CauseKind::AgeShort, words.into()));
    let pausing = InputEvidence { delay: delay(10 * MS), ..Default::default() };
    assert_eq!(incomplete(pausing).0, CauseKind::Moment);
    let losing = InputEvidence { interval, received: 1, lost: 1, ..Default::default() };
    assert_eq!(incomplete(losing).0, CauseKind::Moment);
}

/// When a lidar stops, its rate falls from window to window. That is no slow lidar.
#[test]
fn an_input_that_has_stopped_is_called_so_and_gets_no_longer_max_age() {
    let text = "
rate_hz: 100
streams:
  cells:
    type: sensor_msgs/PointCloud2
    max_age_ms: 150
    valid_when: VALID_WHEN
    inputs: [{topic: /front}, {topic: /rear}]
    cloud: {origin_m: [0, 0, 0], size_m: 1, shape: [2, 2, 2], channels: [{reduce: count}]}
";
    let stopped = |valid_when: &str, reason, silence_ms: u64, silent| {
        let text = text.replace("VALID_WHEN", valid_when);
        let spec = robocache_core::config::parse(&text, "test.yaml").unwrap().streams.remove(0);
        let of = |topic: &str, rate_hz| InputEvidence {
            delay: delay(40 * MS),
            rate_hz,
            interval: Some(Duration::from_millis(100)),
            topic: topic.into(),
            ..Default::default()
        };
        because(reason, &spec, |evidence| {
            let silence = Duration::from_millis(silence_ms);
            let rear = InputEvidence { silence, silent, ..of("/rear", 1.25) };
            evidence.inputs = vec![of("/front", 10.0), rear];
        })
    };
    for valid_when in ["all", "any", "[/front]", "[/rear]"] {
        let (kind, words) = told(stopped(valid_when, InvalidReason::Incomplete, 800, false));
        assert_eq!((kind, kind.has_remedy()), (CauseKind::Stopped, false));
        assert_eq!(words, "nothing comes from /rear (stopped 0.8 s ago)", "{valid_when}");
        // Jitter, and a cloud that was late for a moment.
        let (kind, _) = told(stopped(valid_when, InvalidReason::Incomplete, 290, false));
        assert_eq!(kind, CauseKind::Moment, "{valid_when}");
        assert_eq!(
            told(stopped(valid_when, InvalidReason::TooOld, 800, false)).0,
            CauseKind::Stopped
        );
    }
    let (kind, words) = told(stopped("all", InvalidReason::Incomplete, 3500, true));
    assert_eq!(kind, CauseKind::CloudsMissing);
    assert_eq!(words, "rows lack the clouds of /rear (stopped 3.5 s ago)");
    // The input's own status says it.
    assert_eq!(stopped("all", InvalidReason::TooOld, 3500, true), None);
    let kind = told(stopped("any", InvalidReason::Incomplete, 3500, true)).0;
    assert_eq!(kind, CauseKind::Moment, "others make up for it");
}

/// A lag of half a second for a battery would be one for what is said about the robot's state.
#[test]
fn a_slow_stream_may_hold_instead_of_a_long_lag() {
    let slow = |evidence: &mut Evidence<'_>| {
        let distance_ns = 500 * MS;
        evidence.spacings = Some(Spacings { mean_ns: distance_ns, longest_ns: distance_ns });
        evidence.inputs[0].interval = Some(Duration::from_millis(500));
        evidence.suggested_lag_ms = Some(510.0);
    };
    let held = |keys: &str| {
        let spec = stream(keys);
        let mut evidence = evidence(&spec);
        slow(&mut evidence);
        evidence.held_share = 1.0;
        told(cause(&evidence))
    };
    let offer = "set this stream's lag_ms to 510, or its strategy to hold";
    let (_, words) = held("max_age_ms: 2000, strategy: nearest");
    assert!(words.ends_with(offer), "{words}");
    let offer = format!("{offer} (without max_gap_ms)");
    for gap in ["", ", max_gap_ms: 4000", ", max_gap_ms: 600"] {
        let (kind, words) = held(&format!("max_age_ms: 2000{gap}"));
        assert_eq!(kind, CauseKind::LagShort);
        assert!(words.ends_with(&offer), "{words}");
    }
    // What is offered is a configuration.
    stream("max_age_ms: 510, strategy: hold");
    let longer = format!("{offer} and its max_age_ms to 510");
    assert!(held("max_age_ms: 100").1.ends_with(&longer));
    let spec = stream("max_age_ms: 100, max_gap_ms: 600");
    let (kind, words) = told(because(InvalidReason::TooOld, &spec, slow));
    assert_eq!(kind, CauseKind::LagShort);
    assert!(words.ends_with(&longer), "{words}");
}

/// `hold` has no angles.
#[test]
fn a_slow_stream_of_angles_is_not_told_to_hold() {
    let text = "
rate_hz: 100
streams:
  w: {type: sensor_msgs/JointState, topic: /w, joints: [a, b], max_age_ms: 2000, angular: [b]KEYS}
";
    let parse =
        |keys: &str| robocache_core::config::parse(&text.replace("KEYS", keys), "test.yaml");
    assert!(parse(", strategy: hold").is_err());
    let spec = parse("").unwrap().streams.remove(0);
    let spacings = Some(Spacings { mean_ns: 500 * MS, longest_ns: 500 * MS });
    let suggested_lag_ms = Some(510.0);
    let (_, words) =
        told(cause(&Evidence { spacings, suggested_lag_ms, held_share: 1.0, ..evidence(&spec) }));
    assert!(words.ends_with("set this stream's lag_ms to 510"), "{words}");
}

/// The values of a sensor that has stopped are held as well.
#[test]
fn what_is_held_since_a_sensor_stopped_asks_for_no_lag() {
    let spec = stream("max_age_ms: 2000, lag_ms: 3");
    let held = |silence_ms, silent| {
        let mut evidence = Evidence { held_share: 1.0, ..evidence(&spec) };
        evidence.inputs[0].silence = Duration::from_millis(silence_ms);
        evidence.inputs[0].silent = silent;
        cause(&evidence)
    };
    assert_eq!(told(held(200, false)).0, CauseKind::LagShort);
    assert_eq!(told(held(1000, false)).0, CauseKind::Stopped);
    assert_eq!(held(3500, true), None, "the input's own status says it");
}

/// Only inputs that `valid_when` needs are blamed.
#[test]
fn clouds_that_a_row_may_lack_are_no_cause() {
    let silent = || InputEvidence { silent: true, ..Default::default() };
    let useless = || InputEvidence {
        received: 10,
        dropped: vec![(DropReason::Malformed, 10)],
        ..Default::default()
    };
    let interval = Some(Duration::from_millis(200));
    let slow = || InputEvidence { interval, delay: delay(10 * MS), ..Default::default() };
    let incomplete = |valid_when: &str, front: InputEvidence, rear: InputEvidence| {
        let text = format!(
            "
rate_hz: 100
streams:
  cells:
    type: sensor_msgs/PointCloud2
    max_age_ms: 50
    valid_when: {valid_when}
    inputs: [{{topic: /front}}, {{topic: /rear}}]
    cloud: {{origin_m: [0, 0, 0], size_m: 1, shape: [2, 2, 2], channels: [{{reduce: count}}]}}
"
        );
        let spec = robocache_core::config::parse(&text, "test.yaml").unwrap().streams.remove(0);
        told(because(InvalidReason::Incomplete, &spec, |evidence| {
            evidence.inputs = vec![
                InputEvidence { topic: "/front".into(), ..front },
                InputEvidence { topic: "/rear".into(), ..rear },
            ];
        }))
    };
    let of_front = "a cloud of /front comes every 200 ms and up to 10 ms after its stamp: raise its \
                    max_age_ms to 210";
    for unneeded in [silent(), useless()] {
        let found = incomplete("[/front]", slow(), unneeded.clone());
        assert_eq!(found, (CauseKind::AgeShort, of_front.into()));
        assert_eq!(incomplete("any", slow(), unneeded), (CauseKind::AgeShort, of_front.into()));
    }
    let lack =
        |topics: &str| (CauseKind::CloudsMissing, format!("rows lack the clouds of {topics}"));
    assert_eq!(incomplete("[/rear]", slow(), silent()), lack("/rear"));
    assert_eq!(incomplete("[/front]", silent(), silent()), lack("/front"));
    assert_eq!(incomplete("any", silent(), silent()), lack("/front and /rear"));
    assert_eq!(incomplete("any", useless(), silent()), lack("/rear"));
    assert_eq!(incomplete("[/front]", useless(), silent()).0, CauseKind::Dropped);
}
