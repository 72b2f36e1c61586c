//! Tests of [`Arrivals`] with made-up stamps.

mod jitter;

use super::*;

const EPOCH: i64 = 1_795_000_000_000_000_000;

fn arrivals(stamps: impl IntoIterator<Item = i64>) -> Arrivals {
    let start = Duration::ZERO;
    let mut arrivals = Arrivals::new(start);
    for stamp in stamps {
        arrivals.note(start, Epoch::default(), Stamp::from_nanos(EPOCH + stamp));
    }
    arrivals
}

/// Adds jitter of up to a twentieth of the period, the same on every run.
fn jittered(k: i64, period: i64) -> i64 {
    k * period + (k * 7919 % 201 - 100) * period / 2000
}

#[test]
fn a_complete_stream_misses_nothing() {
    let share = arrivals((0..100).map(|k| jittered(k, 33_333_333))).missing_share();
    assert!(share.unwrap().abs() < 0.05, "{share:?}");
}

#[test]
fn a_stream_misses_three_quarters_if_a_quarter_arrives() {
    // 27 of 100 messages, as from a publisher with the middleware's default segment.
    let kept = (0..300i64).filter(|k| k * 7919 % 100 < 27);
    let share = arrivals(kept.map(|k| jittered(k, 33_333_333))).missing_share().unwrap();
    assert!((share - 0.73).abs() < 0.1, "{share}");
}

#[test]
fn a_gap_counts_its_missing_messages() {
    let kept = |k: &i64| !(200..3200).contains(k) && *k != 3300;
    let gap = arrivals((0..3400).filter(kept).map(|k| jittered(k, 1_000_000)));
    // The period comes from the last few stamps, so it is only as exact as their jitter
    // permits.
    assert!(gap.missing().abs_diff(3001) < 30, "{}", gap.missing());
    assert_eq!(arrivals((0..3400).map(|k| jittered(k, 1_000_000))).missing(), 0);
}

#[test]
fn a_backlog_that_lost_most_messages_does_not_hide_the_loss() {
    // Stopped for two seconds; every third to fifth message of the backlog is left.
    let start = Duration::ZERO;
    let mut ms = 0;
    let at = |ms: i64| start + Duration::from_millis(ms as u64);
    let mut arrivals = Arrivals::new(start);
    let note = |arrivals: &mut Arrivals, arrival: i64, ms: i64| {
        arrivals.note(at(arrival), Epoch::default(), Stamp::from_nanos(EPOCH + ms * 1_000_000));
    };
    let mut expected = 0;
    // Three times: between them, the old period is first doubted and then confirmed.
    for _ in 0..3 {
        for _ in 0..3000 {
            note(&mut arrivals, ms, ms);
            ms += 1;
        }
        assert_eq!(arrivals.missing(), expected);
        let first = ms;
        let mut kept = 0;
        while ms < first + 2000 {
            note(&mut arrivals, first + 2000, ms);
            kept += 1;
            ms += [3, 5, 4, 5][kept as usize % 4];
        }
        note(&mut arrivals, ms, ms);
        expected += (ms - first) as u64 - kept;
        ms += 1;
    }
    (0..20).for_each(|k| note(&mut arrivals, ms + k, ms + k));
    assert_eq!(arrivals.missing(), expected);
}

#[test]
fn after_a_burst_of_stamps_later_messages_are_not_missing() {
    let pause = |k: i64| if k < 1000 { k * 1_000_000 } else { (k + 200) * 1_000_000 };
    let burst = |k: i64| pause(1000) + k * 20_000;
    let after = |k: i64| burst(100) + k * 1_000_000;
    let stamps = (0..1001).map(pause).chain((1..100).map(burst)).chain((1..5000).map(after));
    let start = Duration::ZERO;
    let mut arrivals = Arrivals::new(start);
    for stamp in stamps {
        let at = start + Duration::from_nanos(stamp as u64);
        arrivals.note(at, Epoch::default(), Stamp::from_nanos(EPOCH + stamp));
    }
    assert!((100..=105).contains(&arrivals.missing()), "{}", arrivals.missing());
}

#[test]
fn a_slower_period_counts_soon() {
    let start = Duration::ZERO;
    let mut arrivals = Arrivals::new(start);
    let mut note = |ms: u64| {
        let at = start + Duration::from_millis(ms);
        arrivals.note(at, Epoch::default(), Stamp::from_nanos(EPOCH + ms as i64 * 1_000_000));
        arrivals.missing()
    };
    assert_eq!((0..500).map(|k| note(k * 10)).max(), Some(0));
    let slower: Vec<_> = (0..500).map(|k| note(5000 + k * 40)).collect();
    assert!((60..300).contains(&slower[499]), "{}", slower[499]);
    assert_eq!(slower[120], slower[499], "nothing is missing any more");
}

#[test]
fn a_message_out_of_order_is_not_missing_and_a_jump_starts_again() {
    // Every tenth message changes places with its successor.
    let place = |k: i64| k + i64::from(k % 10 == 5) - i64::from(k % 10 == 6);
    let swapped = (0..40).chain((40..400).map(place));
    let mut arrivals = arrivals(swapped.map(|k| k * 2_000_000));
    assert_eq!(arrivals.missing(), 0);
    let epoch = Epoch::default().next(None);
    arrivals.begin(Duration::ZERO, epoch);
    let later = Stamp::from_nanos(1_795_000_900_000_000_000);
    arrivals.note(Duration::ZERO, epoch, later);
    // A message from before the jump does not count among the stamps after it.
    arrivals.note(Duration::ZERO, Epoch::default(), later.offset(1_000_000_000));
    arrivals.note(Duration::ZERO, epoch, later.offset(90_000_000));
    assert_eq!(arrivals.missing(), 0);
}

#[test]
fn stamps_without_a_period_and_short_streams_say_nothing() {
    let irregular = (1..80i64).map(|k| k * k * 1_300_000 + k * 7_919_317 % 10_000_019);
    assert_eq!(arrivals(irregular).missing_share(), None);
    assert_eq!(arrivals((0..10).map(|k| k * 1000)).missing_share(), None);
}

#[test]
fn silence_counts_from_the_start_and_then_from_the_newest_message() {
    let start = Duration::ZERO;
    let mut arrivals = Arrivals::new(start);
    let second = Duration::from_secs(1);
    assert_eq!(arrivals.silence(start + second), (false, second));
    arrivals.note_dropped(start + second, Epoch::default(), DropReason::Malformed);
    assert_eq!(arrivals.silence(start + 3 * second), (true, 2 * second));
}

#[test]
fn after_a_jump_of_the_clock_silence_counts_from_the_jump() {
    let second = Duration::from_secs(1);
    let mut arrivals = Arrivals::new(Duration::ZERO);
    arrivals.note_dropped(second, Epoch::default(), DropReason::Malformed);
    arrivals.begin(10 * second, Epoch::default().next(None));
    assert_eq!(arrivals.silence(12 * second), (true, 2 * second));
}

#[test]
fn a_dropped_message_is_not_missing() {
    let start = Duration::ZERO;
    let stamp = |k: i64| Stamp::from_nanos(EPOCH + jittered(k, 33_333_333));
    let mut arrivals = Arrivals::new(start);
    (0..64).for_each(|k| arrivals.note(start, Epoch::default(), stamp(k)));
    // Two of three are dropped, and a drop is noted some messages before its gap.
    for k in (64..364).step_by(3) {
        arrivals.note_dropped(start, Epoch::default(), DropReason::Malformed);
        arrivals.note_dropped(start, Epoch::default(), DropReason::Overload);
        arrivals.note(start, Epoch::default(), stamp(k));
    }
    assert_eq!(arrivals.missing(), 0);
    assert!(arrivals.missing_share().unwrap() < 0.05);
    // A late message was missing until it came.
    (364..464).for_each(|k| arrivals.note(start, Epoch::default(), stamp(k)));
    (467..490).for_each(|k| arrivals.note(start, Epoch::default(), stamp(k)));
    assert_eq!(arrivals.missing(), 3);
    arrivals.note_dropped(start, Epoch::default(), DropReason::Late);
    assert_eq!(arrivals.missing(), 2);
    // A gap that has not settled yet.
    arrivals.note(start, Epoch::default(), stamp(491));
    arrivals.note_dropped(start, Epoch::default(), DropReason::Late);
    (492..520).for_each(|k| arrivals.note(start, Epoch::default(), stamp(k)));
    assert_eq!(arrivals.missing(), 2);
    // Drops that left no gap do not hide later losses.
    (0..5).for_each(|_| arrivals.note_dropped(start, Epoch::default(), DropReason::Ahead));
    (520..620).for_each(|k| arrivals.note(start, Epoch::default(), stamp(k)));
    (624..650).for_each(|k| arrivals.note(start, Epoch::default(), stamp(k)));
    assert_eq!(arrivals.missing(), 6);
}

#[test]
fn a_leap_of_the_stamps_is_no_gap() {
    let mut arrivals = arrivals((0..100).map(|k| k * 1_000_000));
    // A clock is set from 1970 to now, or back.
    for leap in [3 * EPOCH, EPOCH / 1000, EPOCH] {
        for k in 0..100 {
            arrivals.note(
                Duration::ZERO,
                Epoch::default(),
                Stamp::from_nanos(leap + k * 1_000_000),
            );
        }
    }
    assert_eq!(arrivals.missing(), 0);
    for k in 102..130 {
        let stamp = Stamp::from_nanos(EPOCH + k * 1_000_000);
        arrivals.note(Duration::ZERO, Epoch::default(), stamp);
    }
    assert_eq!(arrivals.missing(), 2, "and later gaps count");
}

#[test]
fn the_usual_interval_is_learnt_and_a_pause_does_not_change_it() {
    let start = Duration::ZERO;
    let second = Duration::from_secs(1);
    let mut arrivals = Arrivals::new(start);
    let stamp = |k: u32| Stamp::from_nanos(EPOCH + i64::from(k) * 10_000_000_000);
    arrivals.note(start, Epoch::default(), stamp(0));
    arrivals.note(start + 10 * second, Epoch::default(), stamp(1));
    assert_eq!(arrivals.usual_interval(), None);
    for k in 2..6 {
        arrivals.note(start + 10 * k * second, Epoch::default(), stamp(k));
    }
    arrivals.note(start + 150 * second, Epoch::default(), stamp(7));
    assert_eq!(arrivals.usual_interval(), Some(10 * second));
}

/// Notes the messages of two publishers in the order of their arrival. Each message has a publisher
/// and a stamp \[ms\].
#[test]
fn the_rest_of_an_interval_after_a_standstill_or_a_jump_is_no_interval() {
    let second = Duration::from_secs(1);
    let mut arrivals = Arrivals::new(Duration::ZERO);
    let at = |seconds: u32| seconds * second;
    // A map comes every ten seconds. Each time, the process has just stood still, or the clock has just jumped.
    for k in 0..6_u32 {
        arrivals.excuse(at(10 * k) + second / 2);
        arrivals.begin(at(10 * k) + second / 2, Epoch::numbered(u64::from(k)));
        arrivals.note_without_stamp(at(10 * k + 1));
    }
    assert_eq!(arrivals.usual_interval(), None);
    for k in 7..10 {
        arrivals.note_without_stamp(at(10 * k));
    }
    assert_eq!(arrivals.usual_interval(), Some(10 * second));
}

fn from_publishers(messages: impl IntoIterator<Item = (u8, i64)>) -> Arrivals {
    let start = Duration::ZERO;
    let mut arrivals = Arrivals::new(start);
    for (publisher, ms) in messages {
        let at = start + Duration::from_millis(ms as u64);
        arrivals.next_is_from(Some(PublisherId([publisher; 16])));
        arrivals.note(at, Epoch::default(), Stamp::from_nanos(EPOCH + ms * 1_000_000));
    }
    arrivals
}

#[test]
fn two_complete_publishers_of_one_input_miss_nothing() {
    // Both publish at 100 Hz, the second one a tenth of the period later.
    let both = from_publishers((0..500).flat_map(|k| [(1, k * 10), (2, k * 10 + 1)]));
    assert_eq!((both.missing(), both.missing_share()), (0, None));
    // The second one publishes at 1 Hz.
    let slow = |k: i64| (k % 100 == 50).then_some((2, k * 10 + 1));
    let both = from_publishers((0..500).flat_map(|k| [Some((1, k * 10)), slow(k)]).flatten());
    assert_eq!((both.missing(), both.missing_share()), (0, Some(0.0)));
}

#[test]
fn a_drop_of_another_publisher_explains_no_gap() {
    let mut arrivals = from_publishers((0..100).map(|k| (1, k * 10)));
    arrivals.next_is_from(Some(PublisherId([2; 16])));
    (0..9).for_each(|_| {
        arrivals.note_dropped(Duration::ZERO, Epoch::default(), DropReason::Malformed);
    });
    arrivals.next_is_from(Some(PublisherId([1; 16])));
    for k in (100..120).chain(125..200) {
        let stamp = Stamp::from_nanos(EPOCH + k * 10_000_000);
        arrivals.note(Duration::ZERO, Epoch::default(), stamp);
    }
    assert_eq!(arrivals.missing(), 5);
}

#[test]
fn an_input_in_bursts_has_a_usual_pause_and_a_failure_is_none() {
    // Twenty messages in a tenth of a second, then a pause, which is not quite even.
    let bursts = |count: u64, pause: u64| {
        let of = move |k| (0..20).map(move |n| k * (95 + pause) + n * 5 + 20 * (k % 2));
        (0..count).flat_map(of)
    };
    let paused = |times: &mut dyn Iterator<Item = u64>| {
        let mut arrivals = Arrivals::new(Duration::ZERO);
        times.for_each(|ms| arrivals.note_without_stamp(Duration::from_millis(ms)));
        arrivals.usual_pause().map(|pause| pause.as_millis())
    };
    assert_eq!(paused(&mut bursts(3, 1905)), None, "two pauses");
    assert_eq!(paused(&mut bursts(9, 1905)), Some(1925));
    assert_eq!(paused(&mut bursts(40, 905)), Some(925));
    // It is even again, for long enough.
    let even = (0..1200).map(|k| 16_000 + 10 * k);
    assert_eq!(paused(&mut bursts(8, 1905).chain(even.clone())), None);
    assert_eq!(paused(&mut even.clone()), None);
    // A slow input is even as well, also if one message is lost or it fails for a moment.
    for lost in [12..13, 8..20] {
        let mut slow = (0..25).filter(|k| !lost.contains(k)).map(|k| 500 * k);
        assert_eq!(paused(&mut slow), None);
    }
    assert_eq!(paused(&mut even.clone().chain(even.map(|at| at + 18_000))), None, "6 s");
}
