use std::sync::LazyLock;

use super::*;

const MS: i64 = 1_000_000;

/// A look so long after the start of the watch. The system's clock is at this instant plus a second.
fn look(ms: i64) -> Look {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    let at = *START + Duration::from_millis(ms as u64);
    Look { boot_ns: (ms * MS) as u64, system_ns: 1000 * MS + ms * MS, at }
}

/// Published and received at these instants of the system's clock.
fn transit(published_ms: i64, arrived_ms: i64) -> Transit {
    let at = |ms: i64| Some(1000 * MS + ms * MS);
    Transit { published_ns: at(published_ms), arrived_ns: at(arrived_ms) }
}

/// A thread that stood still from 1000 to 4000 ms, at a look after that.
fn stood_still(now_ms: i64) -> StandstillWatch {
    let mut watch = StandstillWatch::default();
    let before = [0, 500, 1000].into_iter();
    before
        .chain((4000..now_ms).step_by(500))
        .chain([now_ms])
        .for_each(|ms| watch.look(Some(look(ms))));
    watch
}

#[test]
fn what_waited_for_the_process_is_told_from_what_was_received_in_time() {
    let watch = stood_still(4001);
    let has_waited = |published, arrived| watch.has_waited(transit(published, arrived), true);
    // Published while the process stood still, received afterwards.
    assert!(has_waited(1001, 4000) && has_waited(2500, 4001) && has_waited(3980, 4000));
    // Received before, and taken afterwards: its stamp is true.
    assert!(!has_waited(990, 1000) && !has_waited(500, 999));
    // The thread alone stood still, and the middleware received.
    assert!(!has_waited(2000, 2001));
    // On its way at the end, or published after it.
    assert!(!has_waited(3999, 4001) && !has_waited(4001, 4001));
}

#[test]
fn without_a_common_clock_all_is_in_doubt_for_a_second() {
    let at = |now_ms| {
        // A publisher whose clock is an hour ahead, and one that does not tell.
        let ahead = transit(3_600_000 + now_ms, now_ms);
        let untold = Transit { published_ns: None, ..ahead };
        let of = [ahead, untold].map(|it| stood_still(now_ms).has_waited(it, false));
        assert_eq!(of[0], of[1]);
        of[0]
    };
    assert!(at(4001) && at(4999) && !at(5000));
}

#[test]
fn if_the_clock_was_set_meanwhile_all_is_in_doubt_for_a_second() {
    let at = |now_ms| {
        let mut watch = StandstillWatch::default();
        let set_back = |ms: i64| Look { system_ns: (ms - 7000) * MS, ..look(ms) };
        for look in [look(0), look(500), set_back(3500), set_back(now_ms)] {
            watch.look(Some(look));
        }
        // Received after the standstill, although before the last look by the clock of then.
        let received_ns = Some((now_ms - 7000) * MS);
        let transit = Transit { published_ns: Some(0), arrived_ns: received_ns };
        watch.has_waited(transit, true)
    };
    assert!(at(3501) && at(4300) && !at(4600));
}

#[test]
fn nothing_is_in_doubt_without_a_standstill_and_long_after_one() {
    let mut watch = StandstillWatch::default();
    (0..100).for_each(|k| watch.look(Some(look(899 * k))));
    assert!(!watch.has_waited(transit(0, 899 * 99), true));
    assert!(!watch.has_waited(Transit::UNKNOWN, false));
    // The system's clock may have been set back since.
    assert!(!stood_still(9000).has_waited(transit(3000, 9000), true));
    assert!(stood_still(8999).has_waited(transit(3000, 8999), true));
}
