use super::*;
use robocache_ops::time::NANOS_PER_MS;

/// The readings \[ms\] by messages (topic, stamp \[ms\], receive stamp \[ms\]).
fn readings(messages: &[(usize, i64, i64)]) -> Vec<Option<i64>> {
    let mut clock = StampClock::default();
    let ms = |ms: i64| Stamp::from_nanos(ms * NANOS_PER_MS);
    let take = |&(topic, stamp, received): &(usize, i64, i64)| {
        let reading = clock.take(topic, ms(stamp), ms(received))?;
        Some(reading.nanos() / NANOS_PER_MS)
    };
    messages.iter().map(take).collect()
}

#[test]
fn the_clock_is_at_the_newest_stamp_of_all_topics() {
    // The second topic is 2.5 s behind: that is no reset.
    let messages = [(0, 9000, 0), (1, 6500, 1), (0, 9010, 2), (1, 6600, 3), (0, 9005, 4)];
    assert_eq!(readings(&messages), [Some(9000), None, Some(9010), None, None]);
}

#[test]
fn the_stamps_of_a_topic_that_go_back_begin_an_epoch() {
    let messages = [
        (0, 90_000, 0),
        (1, 89_900, 1),
        (0, 100, 20),
        // From before the reset.
        (1, 89_950, 30),
        (0, 120, 40),
        // Its own stamps go back, and it sets the clock again.
        (1, 110, 45),
        (1, 130, 50),
        // A topic that is heard for the first time.
        (2, 140, 60),
    ];
    let expected = [Some(90_000), None, Some(100), None, Some(120), None, Some(130), Some(140)];
    assert_eq!(readings(&messages), expected);
}

#[test]
fn a_reset_is_one_if_several_topics_show_it_and_the_next_one_is_another() {
    let messages = [(0, 9000, 0), (1, 9001, 1), (0, 100, 2), (1, 200, 3), (0, 5000, 4)];
    assert_eq!(readings(&messages), [Some(9000), Some(9001), Some(100), Some(200), Some(5000)]);
    let again = [(1, 5001, 5), (0, 300, 6), (1, 310, 7)];
    let all = [&messages[..], &again[..]].concat();
    assert_eq!(readings(&all)[5..], [Some(5001), Some(300), Some(310)]);
}

#[test]
fn a_single_old_stamp_does_not_silence_the_other_topics_for_ever() {
    let messages =
        [(0, 9000, 0), (1, 9001, 1), (0, 50, 2), (1, 9002, 3), (1, 9003, 4999), (1, 14_004, 5002)];
    let expected = [Some(9000), Some(9001), Some(50), None, None, Some(14_004)];
    assert_eq!(readings(&messages), expected);
}
