use super::*;

const MS: Duration = Duration::from_millis(1);

#[test]
fn a_difference_that_lasts_is_due_once_and_both_subscriptions_are_kept_for_a_while() {
    let start = Instant::now();
    let mut handover = Handover::<u8>::default();
    assert!(!handover.is_due(true, start));
    assert!(!handover.is_due(true, start + 99 * MS));
    assert!(!handover.is_due(false, start + 150 * MS), "it was short");
    assert!(!handover.is_due(true, start + 200 * MS));
    let due = start + 300 * MS;
    assert!(handover.is_due(true, due));
    assert_eq!(handover.begin(7, due), None);
    assert_eq!(handover.before(), Some(&7));
    assert!(!handover.is_due(true, due + 500 * MS), "one change after the other");
    let connected = due + 200 * MS;
    assert_eq!(handover.over(due + 100 * MS, |_| false), None);
    assert_eq!(handover.over(connected, |before| *before == 7), None);
    assert_eq!(handover.over(connected + OVERLAP.saturating_sub(MS), |_| true), None);
    assert_eq!(handover.over(connected + OVERLAP, |_| false), Some(7));
    assert!(handover.before().is_none());
    assert_eq!(handover.over(connected + OVERLAP, |_| true), None);
    assert!(handover.is_due(true, connected + OVERLAP));
}

#[test]
fn a_subscription_that_finds_nobody_replaces_the_one_before_in_the_end() {
    let start = Instant::now();
    let mut handover = Handover::default();
    assert_eq!(handover.begin(1, start), None);
    assert_eq!(handover.over(start + LONGEST.saturating_sub(MS), |_| false), None);
    assert_eq!(handover.over(start + LONGEST, |_| false), Some(1));
}

#[test]
fn of_three_subscriptions_the_newest_and_one_that_is_connected_are_kept() {
    let start = Instant::now();
    let mut handover = Handover::default();
    assert_eq!(handover.begin(1, start), None);
    // The second one has found no publisher yet.
    assert_eq!(handover.begin(2, start + MS), Some(2));
    assert_eq!(handover.over(start + 2 * MS, |before| *before == 1), None);
    // The third one has.
    assert_eq!(handover.begin(3, start + 3 * MS), Some(1));
    assert_eq!(handover.before(), Some(&3));
}

#[test]
fn after_a_failure_there_is_a_pause_and_one_warning() {
    let start = Instant::now();
    let mut handover = Handover::<u8>::default();
    handover.is_due(true, start);
    let now = start + SETTLE;
    assert!(handover.is_due(true, now) && handover.failed(now));
    assert!(!handover.is_due(true, now + PAUSE.saturating_sub(MS)));
    assert!(handover.is_due(true, now + PAUSE) && !handover.failed(now + PAUSE));
    // What comes after the difference has ended is another failure.
    let later = now + PAUSE + MS;
    assert!(!handover.is_due(false, later) && !handover.is_due(true, later));
    assert!(handover.is_due(true, later + SETTLE) && handover.failed(later + SETTLE));
}
