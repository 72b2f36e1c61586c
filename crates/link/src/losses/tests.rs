//! Tests of [`Losses`] with made-up numbers.

use super::*;
use robocache_runtime::{PublisherId, Transit};

fn message(publisher: u16, number: Option<u64>, source_ns: Option<i64>) -> MessageInfo {
    let [low, high] = publisher.to_le_bytes();
    let mut id = [low; 16];
    id[0] = high;
    let transit = Transit { published_ns: source_ns, arrived_ns: None };
    MessageInfo { publisher: PublisherId(id), number, transit }
}

/// Notes a message of the newest subscription, or of the one before. Returns true if it is new.
fn take(losses: &mut Losses, message: &MessageInfo, from_before: bool) -> bool {
    let by = losses.subscription() - u32::from(from_before);
    losses.note(message, by)
}

/// Notes messages of one publisher with these numbers.
fn note(losses: &mut Losses, publisher: u16, numbers: impl IntoIterator<Item = u64>) {
    for number in numbers {
        take(losses, &message(publisher, Some(number), None), false);
    }
}

/// Replaces the subscription. Its overlap with the one before is over at once.
fn subscribe_again(losses: &mut Losses, now: Instant) {
    losses.overlap(Some(0));
    losses.overlap_ended(Some(0), now);
}

/// Explains until nothing is left to wait for.
fn explain(losses: &mut Losses, counted: Option<u64>) -> Lost {
    let mut sum = Lost::default();
    for k in 0..4 {
        let lost = losses.explain(counted, Instant::now() + SETTLE * 2 * k);
        sum.on_the_way += lost.on_the_way;
        sum.overwritten += lost.overwritten;
    }
    assert!(!losses.has_gaps());
    sum
}

#[test]
fn gaps_without_an_event_were_overwritten() {
    let mut losses = Losses::default();
    note(&mut losses, 1, [500, 501, 502]);
    assert!(!losses.has_gaps(), "messages before the subscription are not lost");
    assert_eq!(explain(&mut losses, Some(0)), Lost::default());
    note(&mut losses, 1, [510, 511, 513]);
    assert!(losses.has_gaps());
    assert_eq!(explain(&mut losses, Some(0)), Lost { on_the_way: 0, overwritten: 8 });
    note(&mut losses, 1, [520]);
    assert_eq!(explain(&mut losses, Some(4)), Lost { on_the_way: 4, overwritten: 2 });
}

#[test]
fn a_publisher_may_begin_again_under_its_identity() {
    let mut losses = Losses::default();
    let mut is_new = |number: u64, published_ns: i64| {
        take(&mut losses, &message(1, Some(number), Some(published_ns)), false)
    };
    assert_eq!([7, 8, 9].map(|number| is_new(number, 10 * number as i64)), [true; 3]);
    assert!(!is_new(8, 80), "the same message comes twice");
    assert_eq!([1, 2, 2].map(|number| is_new(number, 100 + number as i64)), [true, true, false]);
    assert!(is_new(9, 190), "it was the number of a message from before");
    assert!(is_new(10, 95), "it was on its way from before");
    assert_eq!(explain(&mut losses, Some(6)), Lost { on_the_way: 6, overwritten: 0 });
    losses.look(Instant::now());
    assert_eq!(losses.publishers.len(), 1);
    assert_eq!(losses.publishers[0].newest, 9);
}

#[test]
fn a_publisher_that_begins_again_in_an_overlap_is_heard_at_once() {
    let of = |number, published_ns| message(1, Some(number), Some(published_ns));
    let mut losses = Losses::default();
    for number in 1..=9 {
        assert!(take(&mut losses, &of(number, 10 * number as i64), false));
    }
    losses.overlap(Some(0));
    // Only the new subscription hears the one that begins again.
    assert!(take(&mut losses, &of(1, 100), false));
    assert!(take(&mut losses, &of(2, 110), false));
    // The subscription before gives what was published last, and what the other one has given.
    assert!(!take(&mut losses, &of(9, 90), true));
    assert!(take(&mut losses, &of(10, 95), true));
    assert!(!take(&mut losses, &of(2, 110), true));
    assert!(take(&mut losses, &of(3, 120), true));
    assert!(!take(&mut losses, &of(3, 120), false));
    losses.overlap_ended(Some(0), Instant::now());
    assert!(take(&mut losses, &of(4, 130), false));
    assert_eq!(explain(&mut losses, Some(0)), Lost::default());
}

#[test]
fn a_publisher_that_begins_again_in_an_overlap_may_have_numbers_from_before_its_first_one() {
    let of = |number, published_ns| message(1, Some(number), Some(published_ns));
    let mut losses = Losses::new(true);
    losses.overlap(Some(0));
    for number in 80..=85 {
        assert!(take(&mut losses, &of(number, number as i64), true));
    }
    // The one before loses 31, and the new one lags behind.
    for (number, from_before) in [(30, true), (32, true), (30, false), (31, false), (80, true)] {
        let is_new = (number, from_before) != (30, false);
        assert_eq!(take(&mut losses, &of(number, 1_000 + number as i64), from_before), is_new);
    }
    assert!(!take(&mut losses, &of(32, 1_032), false));
    assert!(!take(&mut losses, &of(80, 1_080), false));
}

#[test]
fn a_clock_that_is_set_back_after_a_publisher_began_again_in_an_overlap_refuses_nothing() {
    let of = |number, published_ns| message(1, Some(number), Some(published_ns));
    let mut losses = Losses::default();
    for number in 1..=9 {
        assert!(take(&mut losses, &of(number, 1_000 + number as i64), false));
    }
    losses.overlap(Some(0));
    assert!(take(&mut losses, &of(1, 2_000), true));
    assert!(!take(&mut losses, &of(1, 2_000), false));
    // From here on by the clock that was set back.
    for number in 2..=5 {
        assert!(take(&mut losses, &of(number, 500 + number as i64), true), "{number}");
        assert!(!take(&mut losses, &of(number, 500 + number as i64), false), "{number}");
    }
    losses.overlap_ended(Some(0), Instant::now());
    assert!(take(&mut losses, &of(6, 506), false));
    assert_eq!(explain(&mut losses, Some(0)), Lost::default());
}

#[test]
fn the_next_numbers_of_a_publisher_that_began_again_are_its_own_after_a_step_back() {
    let of = |number, published_ns| message(1, Some(number), Some(published_ns));
    let mut losses = Losses::new(true);
    losses.overlap(Some(0));
    for number in 54..=195 {
        assert!(take(&mut losses, &of(number, 1_000 + number as i64), false));
    }
    for number in 8..=42 {
        assert!(take(&mut losses, &of(number, 5_000 + number as i64), false));
    }
    // From here on by the clock that was set back. One message comes late, and one twice.
    for (number, is_new) in [(43, true), (44, true), (46, true), (45, true), (46, false)] {
        assert_eq!(take(&mut losses, &of(number, number as i64), false), is_new, "{number}");
    }
    assert!(take(&mut losses, &of(47, 47), false));
}

#[test]
fn what_seemed_to_be_of_the_time_before_a_publishers_first_message_is_new_once() {
    let of = |number, published_ns| message(1, Some(number), Some(published_ns));
    let mut losses = Losses::new(true);
    losses.overlap(Some(0));
    for number in 82..=85 {
        assert!(take(&mut losses, &of(number, 1_000 + number as i64), true));
    }
    // It begins again, and its clock was set back. The new subscription lags behind.
    for number in 78..=82 {
        assert!(take(&mut losses, &of(number, number as i64), true));
    }
    for number in 78..=82 {
        assert!(!take(&mut losses, &of(number, number as i64), false), "{number}");
    }
}

#[test]
fn a_publisher_that_begins_again_after_its_clock_was_set_back_is_heard_at_once() {
    for (newest, overlaps) in [(9, false), (9, true), (1_000, false), (1_000, true)] {
        let of = |number, published_ns| message(1, Some(number), Some(published_ns));
        let mut losses = Losses::default();
        for number in 1..newest {
            assert!(take(&mut losses, &of(number, 1_000 + number as i64), false));
        }
        if overlaps {
            losses.overlap(Some(0));
        }
        assert!(take(&mut losses, &of(newest, 1_000 + newest as i64), false));
        for number in 1..=3 {
            assert!(take(&mut losses, &of(number, 500 + number as i64), false), "{number}");
        }
        // The last ones of before may come once more.
        for number in newest - 8..=newest {
            assert!(!take(&mut losses, &of(number, 1_000 + number as i64), overlaps), "{number}");
        }
        assert!(take(&mut losses, &of(4, 504), false));
    }
}

#[test]
fn a_message_that_comes_twice_after_its_clock_was_set_back_shows_no_new_publisher() {
    let of = |number, published_ns| message(1, Some(number), Some(published_ns));
    let mut losses = Losses::default();
    for (number, published_ns) in [(34, 1_000), (35, 1_010), (36, 500), (37, 510)] {
        assert!(take(&mut losses, &of(number, published_ns), false));
    }
    for (number, published_ns) in [(35, 1_010), (36, 500), (37, 510)] {
        assert!(!take(&mut losses, &of(number, published_ns), false), "{number}");
    }
    assert!(take(&mut losses, &of(38, 520), false));
}

#[test]
fn an_event_after_an_overlap_counts_what_a_publisher_lost_that_began_again() {
    let of = |number, published_ns| message(1, Some(number), Some(published_ns));
    let mut losses = Losses::new(true);
    let now = Instant::now();
    take(&mut losses, &of(1, 10), false);
    losses.overlap(Some(0));
    for (number, from_before) in [(2, false), (3, true), (4, true)] {
        take(&mut losses, &of(number, 10 * number as i64), from_before);
    }
    // It begins again, and only the new subscription hears it.
    take(&mut losses, &of(1, 100), false);
    losses.overlap_ended(Some(0), now);
    assert_eq!(losses.explain(Some(0), now), Lost::default());
    // The event comes before the message behind the gap.
    let next = now + 2 * SETTLE;
    assert_eq!(losses.explain(Some(2), next), Lost { on_the_way: 2, overwritten: 0 });
    take(&mut losses, &of(4, 130), false);
    assert_eq!(explain(&mut losses, Some(2)), Lost::default());
}

#[test]
fn a_clock_that_is_set_back_in_an_overlap_shows_no_new_publisher() {
    let of = |number, published_ns| message(1, Some(number), Some(published_ns));
    let mut losses = Losses::default();
    losses.overlap(Some(0));
    assert!(take(&mut losses, &of(1, 1_000), true));
    assert!(take(&mut losses, &of(2, 500), true));
    assert!(take(&mut losses, &of(3, 510), true));
    // All come once more from the other subscription, also those from before the step.
    for (number, published_ns) in [(1, 1_000), (2, 500), (3, 510)] {
        assert!(!take(&mut losses, &of(number, published_ns), false), "{number}");
    }
    assert!(take(&mut losses, &of(4, 520), false));
}

#[test]
fn what_came_while_the_thread_did_not_run_may_be_repeated_after_that() {
    let mut losses = Losses::default();
    let start = Instant::now();
    losses.overlap(Some(0));
    assert!(is_new(&mut losses, 1_000, true));
    losses.overlap_ended(None, start);
    let resumed = start + 3 * REPEATS;
    // The first step after that takes what waits, and then looks.
    assert!(!is_new(&mut losses, 1_000, false));
    losses.slept(3 * REPEATS, resumed);
    losses.look(resumed);
    assert!(!is_new(&mut losses, 990, false), "it was on its way");
    losses.look(resumed + REPEATS);
    assert!(is_new(&mut losses, 995, false), "a clock was set back");
}

#[test]
fn without_numbers_what_two_subscriptions_before_give_is_new_once() {
    let mut losses = Losses::default();
    let first = losses.subscription();
    losses.overlap(Some(0));
    // The second one gives a message, and is replaced before it is connected: the first one is kept.
    let second = losses.subscription();
    losses.overlap(Some(0));
    assert!(losses.note(&message(1, None, Some(1_000)), second));
    assert!(!losses.note(&message(1, None, Some(1_000)), first));
    assert!(!losses.note(&message(1, None, Some(1_000)), losses.subscription()));
}

#[test]
fn a_loss_whose_event_comes_before_its_gap_counts_once() {
    let mut losses = Losses::default();
    note(&mut losses, 1, [1]);
    assert_eq!(explain(&mut losses, Some(5)), Lost { on_the_way: 5, overwritten: 0 });
    note(&mut losses, 1, [7]);
    assert_eq!(explain(&mut losses, Some(5)), Lost { on_the_way: 0, overwritten: 5 });
    assert_eq!(explain(&mut losses, Some(8)), Lost { on_the_way: 3, overwritten: 0 });
    note(&mut losses, 1, [11]);
    assert_eq!(explain(&mut losses, Some(8)), Lost::default());
}

#[test]
fn publishers_number_their_own_messages() {
    let mut losses = Losses::default();
    note(&mut losses, 1, [1, 2, 3]);
    note(&mut losses, 2, [100, 101]);
    note(&mut losses, 1, [4]);
    note(&mut losses, 2, [102]);
    assert!(!losses.has_gaps());
}

#[test]
fn of_too_many_publishers_the_one_heard_longest_ago_is_forgotten() {
    let mut losses = Losses::default();
    let most = PUBLISHERS as u16;
    (0..most).for_each(|publisher| note(&mut losses, publisher, [7]));
    note(&mut losses, 0, [8]);
    note(&mut losses, most, [7]);
    assert_eq!(losses.publishers.len(), PUBLISHERS);
    assert_eq!(new_of(&mut losses, 0, [8], false), [0; 0], "the first one is still known");
    assert_eq!(new_of(&mut losses, 1, [7], false), [7], "the second one is not");
    assert_eq!(losses.publishers.len(), PUBLISHERS);
}

#[test]
fn without_the_event_all_gaps_count_as_lost_on_the_way() {
    let mut losses = Losses::default();
    note(&mut losses, 1, [1, 5, 4, 6]);
    assert_eq!(explain(&mut losses, None), Lost { on_the_way: 2, overwritten: 0 });
}

#[test]
fn messages_between_two_subscriptions_are_lost_on_the_way() {
    let mut losses = Losses::default();
    note(&mut losses, 1, [1, 2, 3]);
    note(&mut losses, 2, [50]);
    assert_eq!(explain(&mut losses, Some(7)), Lost { on_the_way: 7, overwritten: 0 });
    subscribe_again(&mut losses, Instant::now());
    assert!(!losses.has_gaps());
    note(&mut losses, 1, [104, 105]);
    assert!(losses.has_gaps());
    assert_eq!(explain(&mut losses, Some(0)), Lost { on_the_way: 100, overwritten: 0 });
    note(&mut losses, 1, [108]);
    assert_eq!(explain(&mut losses, Some(1)), Lost { on_the_way: 1, overwritten: 1 });
    // The other publisher comes later; its last message comes once more.
    note(&mut losses, 2, [50]);
    note(&mut losses, 2, [61]);
    assert_eq!(explain(&mut losses, Some(1)), Lost { on_the_way: 10, overwritten: 0 });
}

#[test]
fn what_the_new_subscription_counts_of_that_gap_counts_once() {
    let mut losses = Losses::default();
    note(&mut losses, 1, [1]);
    explain(&mut losses, Some(0));
    subscribe_again(&mut losses, Instant::now());
    // No gap shows yet what the event counts.
    assert_eq!(losses.explain(Some(5), Instant::now()), Lost::default());
    note(&mut losses, 1, [102]);
    assert_eq!(explain(&mut losses, Some(5)), Lost { on_the_way: 100, overwritten: 0 });
    subscribe_again(&mut losses, Instant::now());
    note(&mut losses, 1, [203]);
    assert_eq!(explain(&mut losses, Some(5)), Lost { on_the_way: 100, overwritten: 0 });
    subscribe_again(&mut losses, Instant::now());
    note(&mut losses, 1, [214]);
    assert_eq!(explain(&mut losses, None), Lost { on_the_way: 10, overwritten: 0 });
}

#[test]
fn a_gap_between_two_subscriptions_waits_for_the_event_that_counts_it_too() {
    let mut losses = Losses::default();
    let start = Instant::now();
    note(&mut losses, 1, [1]);
    explain(&mut losses, Some(0));
    subscribe_again(&mut losses, start);
    note(&mut losses, 1, [10]);
    assert_eq!(losses.explain(Some(0), start), Lost::default());
    assert_eq!(losses.explain(Some(8), start), Lost { on_the_way: 8, overwritten: 0 });
    note(&mut losses, 1, [14]);
    assert_eq!(explain(&mut losses, Some(8)), Lost { on_the_way: 0, overwritten: 3 });
}

#[test]
fn a_gap_waits_for_its_event() {
    let mut losses = Losses::default();
    let start = Instant::now();
    note(&mut losses, 1, [1, 12]);
    assert_eq!(losses.explain(Some(0), start), Lost::default());
    note(&mut losses, 1, [15]);
    assert_eq!(losses.explain(Some(0), start + SETTLE), Lost::default());
    let lost = losses.explain(Some(10), start + SETTLE + SETTLE / 2);
    assert_eq!(lost, Lost { on_the_way: 10, overwritten: 0 });
    let lost = losses.explain(Some(10), start + SETTLE * 2);
    assert_eq!(lost, Lost { on_the_way: 0, overwritten: 2 });
    assert!(!losses.has_gaps());
    // A message that comes late was not missing.
    note(&mut losses, 1, [17]);
    losses.explain(Some(10), start + SETTLE * 3);
    losses.explain(Some(10), start + SETTLE * 4);
    note(&mut losses, 1, [16]);
    assert!(!losses.has_gaps());
    assert_eq!(losses.explain(Some(10), start + SETTLE * 6), Lost::default());
}

#[test]
fn a_publisher_is_new_only_until_the_next_explanation() {
    let mut losses = Losses::default();
    note(&mut losses, 1, [1]);
    assert!(losses.is_pending() && !losses.has_gaps());
    assert_eq!(losses.explain(Some(0), Instant::now()), Lost::default());
    assert!(!losses.is_pending());
    note(&mut losses, 1, [2]);
    // The event comes first.
    let lost = losses.explain(Some(5), Instant::now());
    assert_eq!(lost, Lost { on_the_way: 5, overwritten: 0 });
    note(&mut losses, 1, [8]);
    assert_eq!(explain(&mut losses, Some(5)), Lost::default());
}

#[test]
fn while_messages_behind_the_first_one_wait_their_losses_are_not_explained() {
    let mut losses = Losses::default();
    assert!(!losses.follow_newcomer(3));
    note(&mut losses, 1, [5, 6]);
    assert!(losses.follow_newcomer(3) && !losses.follow_newcomer(1));
    // The event has counted 7, and 8 waits.
    note(&mut losses, 1, [8]);
    assert!(losses.follow_newcomer(3));
    note(&mut losses, 1, [9]);
    assert!(!losses.follow_newcomer(3), "as many have come as the queue holds");
    assert_eq!(explain(&mut losses, Some(1)), Lost { on_the_way: 1, overwritten: 0 });
    note(&mut losses, 1, [10]);
    assert!(!losses.follow_newcomer(3), "the publisher is known");
}

/// Which of these numbers are new.
fn new_of(
    losses: &mut Losses,
    publisher: u16,
    numbers: impl IntoIterator<Item = u64>,
    from_before: bool,
) -> Vec<u64> {
    let mut is_new =
        |number: &u64| take(losses, &message(publisher, Some(*number), None), from_before);
    numbers.into_iter().filter(|number| is_new(number)).collect()
}

#[test]
fn while_two_subscriptions_overlap_each_message_is_new_once() {
    let mut losses = Losses::default();
    note(&mut losses, 1, 1..=10);
    explain(&mut losses, Some(3));
    losses.overlap(Some(0));
    // The threads of the two subscriptions are apart, so either may be ahead.
    assert_eq!(new_of(&mut losses, 1, [12, 13], false), [12, 13]);
    assert_eq!(new_of(&mut losses, 1, [11, 12, 13], true), [11]);
    assert_eq!(new_of(&mut losses, 1, [14, 16], true), [14, 16]);
    assert_eq!(new_of(&mut losses, 1, [13, 14, 15, 16, 19], false), [15, 19]);
    assert!(!losses.is_pending(), "17 and 18 may still come");
    assert_eq!(new_of(&mut losses, 1, [18], true), [18]);
    losses.overlap_ended(Some(9), Instant::now());
    assert_eq!(explain(&mut losses, Some(9)), Lost { on_the_way: 1, overwritten: 0 });
    note(&mut losses, 1, [22]);
    assert_eq!(explain(&mut losses, Some(10)), Lost { on_the_way: 1, overwritten: 1 });
}

#[test]
fn what_a_new_subscription_misses_before_it_is_connected_is_lost_on_the_way() {
    let mut losses = Losses::default();
    note(&mut losses, 1, [1]);
    note(&mut losses, 2, [1]);
    explain(&mut losses, Some(0));
    losses.overlap(Some(0));
    // The old one still hears both, and the new one only the first publisher.
    assert_eq!(new_of(&mut losses, 1, [2], true), [2]);
    assert_eq!(new_of(&mut losses, 2, [2], true), [2]);
    assert_eq!(new_of(&mut losses, 1, [3], false), [3]);
    losses.overlap_ended(Some(0), Instant::now());
    note(&mut losses, 2, [8]);
    note(&mut losses, 1, [5]);
    assert_eq!(explain(&mut losses, Some(0)), Lost { on_the_way: 5, overwritten: 1 });
}

#[test]
fn latched_messages_are_new_once() {
    for takes_history in [false, true] {
        let mut losses = Losses::new(takes_history);
        note(&mut losses, 1, [500, 501]);
        losses.overlap(Some(0));
        let history: Vec<u64> = if takes_history { (400..500).collect() } else { Vec::new() };
        assert_eq!(new_of(&mut losses, 1, 400..=501, false), history);
        losses.overlap_ended(Some(0), Instant::now());
        assert_eq!(new_of(&mut losses, 1, [502], false), [502]);
        losses.overlap(Some(0));
        assert_eq!(new_of(&mut losses, 1, 400..=502, false), [0; 0]);
        losses.overlap_ended(Some(0), Instant::now());
        assert_eq!(explain(&mut losses, Some(0)), Lost::default());
    }
    // Too long ago to be known one by one.
    let mut losses = Losses::default();
    note(&mut losses, 1, 1..=1000);
    subscribe_again(&mut losses, Instant::now());
    assert_eq!(new_of(&mut losses, 1, 1..=1001, false), [1001]);
    assert_eq!(explain(&mut losses, Some(0)), Lost::default());
}

#[test]
fn without_numbers_the_time_of_publication_tells_what_comes_once_more() {
    let mut losses = Losses::default();
    let new = |losses: &mut Losses, ns| take(losses, &message(1, None, ns), false);
    assert!(new(&mut losses, Some(10)) && new(&mut losses, Some(20)));
    assert!(new(&mut losses, Some(15)), "a clock was set back");
    subscribe_again(&mut losses, Instant::now());
    assert!(!new(&mut losses, Some(10)) && !new(&mut losses, Some(15)));
    assert!(new(&mut losses, Some(30)) && new(&mut losses, Some(25)));
    subscribe_again(&mut losses, Instant::now());
    assert!(new(&mut losses, None) && !losses.is_pending());
}

/// Notes a message without a number. Returns true if it is new.
fn is_new(losses: &mut Losses, ns: i64, from_before: bool) -> bool {
    take(losses, &message(1, None, Some(ns)), from_before)
}

#[test]
fn a_publisher_without_numbers_whose_clock_was_set_back_is_heard_again_after_a_second() {
    let mut losses = Losses::default();
    let start = Instant::now();
    assert!(is_new(&mut losses, 1_000, false));
    subscribe_again(&mut losses, start);
    assert!(!is_new(&mut losses, 10, false));
    losses.look(start + Duration::from_millis(999));
    assert!(!is_new(&mut losses, 20, false));
    losses.look(start + Duration::from_secs(1));
    assert!(is_new(&mut losses, 30, false));
    assert!(is_new(&mut losses, 40, false));
}

#[test]
fn without_numbers_a_clock_that_is_set_back_in_an_overlap_refuses_nothing() {
    let mut losses = Losses::default();
    assert!(is_new(&mut losses, 1_000, false));
    losses.overlap(Some(0));
    assert!(is_new(&mut losses, 1_010, true));
    assert!(!is_new(&mut losses, 1_010, false));
    // Both subscriptions give each message.
    for ns in [500, 510, 520] {
        assert!(is_new(&mut losses, ns, true), "{ns}");
        assert!(!is_new(&mut losses, ns, false), "{ns}");
    }
}

#[test]
fn without_numbers_what_waited_on_both_sides_of_a_step_back_is_new_once() {
    let mut losses = Losses::default();
    assert!(is_new(&mut losses, 990, false));
    losses.overlap(Some(0));
    // After a standstill, all that waited comes from the one subscription, and then from the other one.
    for ns in [1_000, 1_010, 500, 510] {
        assert!(is_new(&mut losses, ns, true), "{ns}");
    }
    for ns in [1_000, 1_010, 500, 510] {
        assert!(!is_new(&mut losses, ns, false), "{ns}");
    }
    // A coarse clock gives two messages one instant.
    assert!(is_new(&mut losses, 520, false) && is_new(&mut losses, 520, false));
}

#[test]
fn without_numbers_the_last_message_of_the_subscription_before_is_new_once() {
    let mut losses = Losses::default();
    assert!(is_new(&mut losses, 1_000, false));
    losses.overlap(Some(0));
    assert!(is_new(&mut losses, 1_010, true));
    losses.overlap_ended(None, Instant::now());
    assert!(!is_new(&mut losses, 1_010, false));
    assert!(is_new(&mut losses, 1_020, false));
}

#[test]
fn without_numbers_a_third_subscription_at_once_makes_nothing_of_the_first_new() {
    let mut losses = Losses::default();
    let start = Instant::now();
    losses.overlap(Some(0));
    assert!(is_new(&mut losses, 1_000, true));
    losses.overlap_ended(None, start);
    losses.overlap(Some(0));
    // The second one, now the one before, gives it too.
    assert!(!is_new(&mut losses, 1_000, true));
    assert!(!is_new(&mut losses, 1_000, false));
    assert!(is_new(&mut losses, 1_010, true));
}

#[test]
fn without_numbers_a_silent_publisher_whose_clock_was_set_back_is_heard_in_a_later_overlap() {
    let mut losses = Losses::default();
    let start = Instant::now();
    assert!(is_new(&mut losses, 1_000, false));
    subscribe_again(&mut losses, start);
    losses.look(start + Duration::from_secs(10));
    losses.overlap(Some(0));
    assert!(is_new(&mut losses, 500, true));
    assert!(!is_new(&mut losses, 500, false));
}

#[test]
fn the_first_message_of_a_publisher_that_comes_in_an_overlap_is_new_once() {
    for number in [None, Some(70)] {
        for first_from_before in [false, true] {
            let mut losses = Losses::default();
            losses.overlap(Some(0));
            let first = message(1, number, Some(10));
            let mut new =
                |message: &MessageInfo, from_before| take(&mut losses, message, from_before);
            assert!(new(&first, first_from_before));
            assert!(!new(&first, !first_from_before));
            let second = message(1, number.map(|it| it + 1), Some(20));
            assert!(new(&second, !first_from_before));
            assert!(!new(&second, first_from_before));
            losses.overlap_ended(Some(0), Instant::now());
            assert!(take(&mut losses, &message(1, number.map(|it| it + 2), Some(30)), false));
            assert!(!losses.has_gaps());
        }
    }
}

#[test]
fn a_late_event_of_an_overlap_counts_nothing_that_the_other_subscription_gave() {
    let mut losses = Losses::new(true);
    let now = Instant::now();
    note(&mut losses, 1, 1..=5);
    assert_eq!(losses.explain(Some(0), now), Lost::default());
    losses.overlap(Some(0));
    // The new subscription loses 7, and the one before gives it.
    for (number, from_before) in [(6, false), (7, true), (8, false)] {
        take(&mut losses, &message(1, Some(number), None), from_before);
    }
    losses.overlap_ended(Some(0), now);
    assert_eq!(losses.explain(Some(1), now + SETTLE / 6), Lost::default());
    // Later losses count as ever.
    note(&mut losses, 1, [9, 11]);
    let lost = losses.explain(Some(2), now + 2 * SETTLE);
    assert_eq!((lost.on_the_way, lost.overwritten), (1, 0));
    assert_eq!(explain(&mut losses, Some(2)), Lost::default());
}

#[test]
fn an_event_that_comes_after_the_thread_did_not_run_is_one_of_the_overlap() {
    let mut losses = Losses::new(true);
    let now = Instant::now();
    note(&mut losses, 1, [1]);
    assert_eq!(losses.explain(Some(0), now), Lost::default());
    losses.overlap(Some(0));
    for (number, from_before) in [(2, false), (3, true), (4, false)] {
        take(&mut losses, &message(1, Some(number), None), from_before);
    }
    losses.overlap_ended(Some(0), now);
    let resumed = now + 2 * NEXT;
    losses.slept(2 * NEXT, resumed);
    // The gap makes it ask for the events at once. One of these losses is that of the overlap.
    note(&mut losses, 1, [6]);
    assert_eq!(losses.explain(Some(2), resumed), Lost { on_the_way: 1, overwritten: 0 });
}

#[test]
fn an_event_after_an_overlap_does_not_count_what_the_subscription_before_gave_last() {
    let mut losses = Losses::new(true);
    let now = Instant::now();
    note(&mut losses, 1, 1..=5);
    assert_eq!(losses.explain(Some(0), now), Lost::default());
    losses.overlap(Some(0));
    for (number, from_before) in [(6, false), (7, true)] {
        take(&mut losses, &message(1, Some(number), None), from_before);
    }
    losses.overlap_ended(Some(0), now);
    // The new subscription lost 7 and 8.
    let next = now + 2 * SETTLE;
    take(&mut losses, &message(1, Some(9), None), false);
    assert_eq!(losses.explain(Some(2), next), Lost { on_the_way: 1, overwritten: 0 });
    assert_eq!(explain(&mut losses, Some(2)), Lost::default());
}

#[test]
fn what_the_subscription_before_lost_last_is_lost_only_if_the_new_one_does_not_give_it() {
    for (shows_gap, is_given) in [(true, true), (true, false), (false, true), (false, false)] {
        let mut losses = Losses::default();
        let now = Instant::now();
        note(&mut losses, 1, 1..=6);
        assert_eq!(losses.explain(Some(0), now), Lost::default());
        if shows_gap {
            note(&mut losses, 1, [8]);
        }
        // The new subscription was made before 7 was lost, and is taken after that.
        assert_eq!(losses.overlap(Some(1)), Lost::default());
        let given: &[u64] = if is_given { &[7, 8] } else { &[8] };
        note(&mut losses, 1, given.iter().copied());
        losses.overlap_ended(Some(0), now);
        note(&mut losses, 1, [9]);
        let on_the_way = u64::from(!is_given);
        let lost = explain(&mut losses, Some(0));
        assert_eq!(lost, Lost { on_the_way, overwritten: 0 }, "{shows_gap} {is_given}");
    }
}

#[test]
fn before_a_new_subscription_a_loss_that_was_told_and_one_that_was_overwritten_count_once() {
    let mut losses = Losses::default();
    let now = Instant::now();
    note(&mut losses, 1, [1]);
    assert_eq!(losses.explain(Some(0), now), Lost::default());
    // The event of 2 comes before its gap.
    assert_eq!(losses.explain(Some(1), now), Lost { on_the_way: 1, overwritten: 0 });
    note(&mut losses, 1, [3, 6]);
    // It counts 4 as well. The queue has overwritten 5.
    assert_eq!(losses.overlap(Some(2)), Lost::default());
    note(&mut losses, 1, [7]);
    losses.overlap_ended(Some(0), now);
    assert_eq!(explain(&mut losses, Some(0)), Lost { on_the_way: 1, overwritten: 1 });
}

#[test]
fn without_an_event_what_was_missing_before_a_new_subscription_may_still_come() {
    let mut losses = Losses::default();
    note(&mut losses, 1, [1, 4]);
    assert_eq!(losses.overlap(None), Lost::default());
    note(&mut losses, 1, [3, 5]);
    losses.overlap_ended(None, Instant::now());
    assert_eq!(explain(&mut losses, None), Lost { on_the_way: 1, overwritten: 0 });
}

#[test]
fn without_numbers_the_event_alone_tells_what_was_lost_before_a_new_subscription() {
    let mut losses = Losses::default();
    assert!(is_new(&mut losses, 1_000, false));
    assert_eq!(losses.overlap(Some(2)), Lost { on_the_way: 2, overwritten: 0 });
}
