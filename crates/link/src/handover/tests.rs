use super::*;

const MS: Duration = Duration::from_millis(1);

#[test]
fn a_difference_that_lasts_is_due_once_and_both_subscriptions_are_kept_for_a_while() {
    let start = Instant::now();
    let mut handover = Handover::<u8>::default();
    assert!(!handover.is_due(true, |_| true, start));
    assert!(!handover.is_due(true, |_| true, start + 99 * MS));
    assert!(!handover.is_due(false, |_| true, start + 150 * MS), "it was short");
    assert!(!handover.is_due(true, |_| true, start + 200 * MS));
    let due = start + 300 * MS;
    assert!(handover.is_due(true, |_| true, due));
    assert_eq!(handover.begin(7, due, false), None);
    assert_eq!(handover.overlap.before(), Some(&7));
    assert!(!handover.is_due(true, |_| true, due + 500 * MS), "one change after the other");
    let connected = due + 200 * MS;
    assert_eq!(handover.overlap.over(due + 100 * MS, |_| false), None);
    assert_eq!(handover.overlap.over(connected, |before| *before == 7), None);
    assert_eq!(handover.overlap.over(connected + OVERLAP.saturating_sub(MS), |_| true), None);
    assert_eq!(handover.overlap.over(connected + OVERLAP, |_| true), Some(7));
    assert!(handover.overlap.before().is_none());
    assert_eq!(handover.overlap.over(connected + OVERLAP, |_| true), None);
    assert!(handover.is_due(true, |_| true, connected + OVERLAP));
}

#[test]
fn a_publisher_that_only_the_subscription_before_fits_is_heard_all_the_time() {
    let start = Instant::now();
    let mut handover = Handover::<u8>::default();
    assert_eq!(handover.begin(1, start, false), None);
    // The second subscription never finds as many.
    assert_eq!(handover.overlap.over(start + MS, |_| false), None);
    assert!(!handover.is_due(true, |_| true, start + MS));
    assert!(!handover.is_due(true, |_| true, start + OVERLAP), "the overlap may end by itself");
    let due = start + OVERLAP + MS;
    assert!(handover.is_due(true, |_| true, due));
    assert_eq!(handover.begin(2, due, false), Some(2), "the first one is kept");
    assert_eq!(handover.overlap.before(), Some(&1));
    assert_eq!(handover.overlap.over(due + MS, |before| *before == 1), None);
    assert_eq!(handover.overlap.over(due + MS + OVERLAP, |_| true), Some(1));
}

#[test]
fn a_publisher_that_neither_subscription_fits_waits_for_none() {
    let start = Instant::now();
    let mut handover = Handover::<u8>::default();
    assert_eq!(handover.begin(1, start, false), None);
    assert!(!handover.is_due(true, |_| false, start + MS));
    assert!(!handover.is_due(true, |before| *before == 1, start + MS + SETTLE));
    assert!(handover.is_due(true, |_| false, start + MS + SETTLE));
    assert_eq!(handover.begin(2, start + MS + SETTLE, false), Some(2), "the first one is kept");
}

#[test]
fn a_part_that_finds_nobody_replaces_the_one_before_in_the_end() {
    let start = Instant::now();
    let mut overlap = Overlap::default();
    assert_eq!(overlap.begin(1, start), None);
    assert_eq!(overlap.over(start + LONGEST.saturating_sub(MS), |_| false), None);
    assert_eq!(overlap.over(start + LONGEST, |_| false), Some(1));
}

#[test]
fn of_three_parts_the_newest_and_one_that_is_connected_are_kept() {
    let start = Instant::now();
    let mut overlap = Overlap::default();
    assert_eq!(overlap.begin(1, start), None);
    // The second one has found nobody yet.
    assert_eq!(overlap.begin(2, start + MS), Some(2));
    assert_eq!(overlap.over(start + 2 * MS, |before| *before == 1), None);
    // The third one has.
    assert_eq!(overlap.begin(3, start + 3 * MS), Some(1));
    assert_eq!(overlap.before_mut(), Some(&mut 3));
    // Those that the third one has not found have ended, or it would have found them.
    assert_eq!(overlap.begin(4, start + 3 * MS + DISCOVERY), Some(3));
}

#[test]
fn one_that_fits_all_is_kept_although_it_lacks_a_publisher_that_was_killed() {
    let start = Instant::now();
    let mut handover = Handover::<u8>::default();
    assert_eq!(handover.begin(1, start, true), None);
    let soon = start + OVERLAP.saturating_sub(MS);
    assert_eq!(handover.overlap.over(soon, |_| false), None);
    // The second one had time to find all others.
    assert_eq!(handover.begin(2, start + OVERLAP, false), Some(1));
    assert_eq!(handover.overlap.before(), Some(&2));
}

#[test]
fn the_only_one_that_fits_a_new_publisher_is_kept_however_long_the_newer_one_is_there() {
    let start = Instant::now();
    let late = start + DISCOVERY + OVERLAP;
    for is_wider in [false, true] {
        let mut handover = Handover::<u8>::default();
        assert_eq!(handover.begin(1, start, false), None);
        assert_eq!(handover.overlap.over(late.checked_sub(MS).unwrap(), |_| true), None);
        // A publisher has begun that the second one does not fit.
        handover.overlap.lacks(late);
        assert_eq!(handover.begin(2, late, is_wider), Some(2));
        assert_eq!(handover.overlap.before(), Some(&1));
        assert_eq!(handover.overlap.over(late, |_| true), None);
        assert_eq!(handover.overlap.over(late + OVERLAP, |_| true), Some(1));
    }
}

#[test]
fn one_that_fits_all_is_not_found_before_its_connection() {
    let start = Instant::now();
    let mut handover = Handover::<u8>::default();
    assert_eq!(handover.begin(1, start, false), None);
    // The second one is of a new connection, and so is the third one.
    assert_eq!(handover.begin(2, start + MS, true), Some(2));
    assert_eq!(handover.begin(3, start + 2 * OVERLAP, false), Some(3), "the first one is kept");
    let mut handover = Handover::<u8>::default();
    assert_eq!(handover.begin(1, start, false), None);
    assert_eq!(handover.begin(2, start + MS, true), Some(2));
    assert_eq!(handover.begin(3, start + DISCOVERY, false), Some(1));
}

#[test]
fn if_the_one_before_finds_somebody_first_both_are_needed_again() {
    let start = Instant::now();
    let mut overlap = Overlap::default();
    assert_eq!(overlap.begin(1, start), None);
    assert_eq!(overlap.over(start + MS, |_| true), None);
    assert_eq!(overlap.over(start + OVERLAP, |_| false), None);
    let found = start + OVERLAP + MS;
    assert_eq!(overlap.over(found, |_| true), None);
    assert_eq!(overlap.over(found + OVERLAP.saturating_sub(MS), |_| true), None);
    assert_eq!(overlap.over(found + OVERLAP, |_| true), Some(1));
}

#[test]
fn after_a_failure_there_is_a_pause_and_one_warning() {
    let start = Instant::now();
    let mut handover = Handover::<u8>::default();
    handover.is_due(true, |_| true, start);
    let now = start + SETTLE;
    assert!(handover.is_due(true, |_| true, now) && handover.failed(now));
    assert!(!handover.is_due(true, |_| true, now + PAUSE.saturating_sub(MS)));
    assert!(handover.is_due(true, |_| true, now + PAUSE) && !handover.failed(now + PAUSE));
    // What comes after the difference has ended is another failure.
    let later = now + PAUSE + MS;
    assert!(!handover.is_due(false, |_| true, later) && !handover.is_due(true, |_| true, later));
    assert!(handover.is_due(true, |_| true, later + SETTLE) && handover.failed(later + SETTLE));
}

#[test]
fn a_newer_part_is_in_use_when_it_has_been_connected_for_a_while_or_in_the_end() {
    let start = Instant::now();
    let at_once = Duration::ZERO;
    let mut switch = Switch::new(1);
    assert_eq!(switch.over(start, at_once, LONGEST, |_, _| true), None, "there is no other");
    assert_eq!(switch.begin(2, start), None);
    assert_eq!(switch.over(start + MS, at_once, LONGEST, |next, before| next < before), None);
    assert_eq!(switch.current, 1);
    // The second one was never in use.
    assert_eq!(switch.begin(3, start + 2 * MS), Some(2));
    let found = |next: &_, before: &_| (*next, *before) == (3, 1);
    assert_eq!(switch.over(start + 3 * MS, 2 * MS, LONGEST, found), None);
    assert_eq!(switch.over(start + 5 * MS, 2 * MS, LONGEST, found), Some(1));
    assert_eq!(switch.current, 3);
    let start = start + 6 * MS;
    assert_eq!(switch.begin(4, start), None);
    assert_eq!(
        switch.over(start + LONGEST.saturating_sub(MS), at_once, LONGEST, |_, _| false),
        None
    );
    assert_eq!(switch.over(start + LONGEST, at_once, LONGEST, |_, _| false), Some(3));
    // The fifth one had time to be found when the sixth one comes.
    assert_eq!(switch.begin(5, start), None);
    assert_eq!(switch.begin(6, start + DISCOVERY), Some(4));
    assert_eq!(switch.current, 5);
    assert_eq!(switch.into_newest(), (6, Some(5)));
    let mut switch = Switch::new(1);
    assert_eq!(switch.begin(2, start), None);
    assert_eq!(switch.into_newest(), (2, Some(1)));
}

#[test]
fn losses_wait_for_a_new_subscription_but_not_for_long() {
    let mut handover = Handover::<u32>::default();
    let start = Instant::now();
    assert!(!handover.holds_losses(false, start));
    assert!(handover.holds_losses(true, start));
    assert!(handover.holds_losses(true, start + HELD / 2));
    assert!(!handover.holds_losses(true, start + HELD));
    // That of the next one is another wait.
    assert!(!handover.holds_losses(false, start + HELD));
    assert!(handover.holds_losses(true, start + HELD));
}
