use super::*;
use crate::OfferedQos;
use robocache_core::rejected::DropReason;

#[test]
fn publishers_are_named_when_their_nodes_are_known_or_stay_unknown() {
    let start = Instant::now();
    let mut notices = Notices::new(start, 2, 0);
    let publisher = |node: Option<&str>| PublisherSeen {
        node: node.map(str::to_owned),
        ros_type: "a/msg/B".into(),
        offers: OfferedQos::default(),
    };
    let known = publisher(Some("/driver"));
    let unknown = publisher(None);
    let both = [known.clone(), unknown];
    let mut may_name = |ms, input, seen: &[PublisherSeen]| {
        notices.may_name(start + Duration::from_millis(ms), InputId::new(input), seen)
    };
    assert!(may_name(0, 0, &[]) && may_name(0, 0, &both[..1]));
    assert!(!may_name(100, 0, &both) && !may_name(2_000, 0, &both));
    assert!(may_name(2_100, 0, &both), "it stays unknown: a program without ROS");
    // The other input has its own patience, and a name that comes begins it again.
    assert!(!may_name(2_100, 1, &both));
    assert!(may_name(2_200, 0, &[known]) && !may_name(2_300, 0, &both));
}

#[test]
fn a_cause_is_logged_once_when_it_lasts_and_again_after_a_change() {
    let start = Instant::now();
    let mut second = 0;
    let mut causes = Causes::default();
    // Which of the next windows log a line; one per second.
    let mut note = |kind, windows: usize| -> Vec<usize> {
        let mut window = || {
            second += 1;
            causes.note(start + Duration::from_secs(second), kind)
        };
        (1..=windows).filter(|_| window()).collect()
    };
    assert_eq!(note(Some(CauseKind::RingShort), 2), [0; 0], "shorter than three windows");
    assert_eq!(note(None, 1), [0; 0]);
    assert_eq!(note(Some(CauseKind::RingShort), 100), [3]);
    // For a moment, and for good.
    assert_eq!(note(Some(CauseKind::LagShort), 2), [0; 0]);
    assert_eq!(note(Some(CauseKind::RingShort), 5), [0; 0]);
    assert_eq!(note(Some(CauseKind::LagShort), 20), [3]);
    assert_eq!(note(None, 9), [0; 0]);
    assert_eq!(note(Some(CauseKind::LagShort), 5), [0; 0], "a short calm is no end");
    assert_eq!(note(None, 10), [0; 0]);
    assert_eq!(note(Some(CauseKind::LagShort), 5), [3]);
    // Two lines are at least ten seconds apart.
    assert_eq!(note(Some(CauseKind::GapShort), 20), [8]);
    assert_eq!(note(Some(CauseKind::Moment), 20), [0; 0], "nobody has to do anything");
}

#[test]
fn publishers_of_the_clock_are_logged_once_and_when_they_change() {
    let start = Instant::now();
    let said = Some(("a and b".to_owned(), start));
    let repeats = |s, words| repeats(said.as_ref(), start + Duration::from_secs(s), words);
    assert!(repeats(100, "a and b") && repeats(9, "a and c"));
    assert!(!repeats(10, "a and c") && !super::repeats(None, start, "a and b"));
}

#[test]
fn frames_that_made_room_are_told_once() {
    let mut notices = Notices::new(Instant::now(), 0, 0);
    let mut words = |count| notices.frames_words(&Forgotten { count, newest: "person_7".into() });
    assert_eq!(words(0), None);
    let said = words(3).unwrap();
    assert!(said.contains("so 3 that") && said.contains("such as \"person_7\""), "{said}");
    assert_eq!(words(9), None);
}

#[test]
fn losses_are_those_since_the_last_summary() {
    let mut before = InputTotals { missing: 5, queue_full: 1, ..Default::default() };
    before.dropped[DropReason::Late as usize] = 2;
    assert_eq!(losses_of("arm", &before, &before), [""; 0]);
    // A message out of order lowers the count of missing messages.
    let mut after = InputTotals { missing: 4, queue_full: 3, ..before };
    after.dropped[DropReason::Late as usize] = 9;
    let lines = losses_of("arm", &before, &after);
    assert_eq!((lines.len(), lines[0].as_str()), (2, "arm: 7 late"));
    assert!(
        lines[1].starts_with("arm: the middleware's queue was full and dropped 2;"),
        "{lines:?}"
    );
    let lines = losses_of("arm", &after, &InputTotals { missing: 6, ..after });
    let expected =
        "arm: 2 probably missing by their stamps' period (lost on the way, or never sent)";
    assert_eq!(lines, [expected]);
}

#[test]
fn a_loss_that_the_middleware_tells_is_summed_up_once() {
    let before = InputTotals { missing: 5, lost: Some(1), ..Default::default() };
    let mut after = InputTotals { missing: 9, lost: Some(5), ..before };
    assert_eq!(losses_of("arm", &before, &after), ["arm: 4 lost on the way"]);
    // The middleware tells it from the first message on.
    let before = InputTotals { lost: None, ..before };
    assert_eq!(losses_of("arm", &before, &after), ["arm: 5 lost on the way"]);
    after = before;
    after.parts_dropped[DropReason::NonFinite as usize] = 2;
    (after.groups_incomplete, after.take_failed) = (3, 1);
    let expected = [
        "arm: 2 groups non_finite",
        "arm: 3 groups incomplete",
        "arm: 1 not given by the middleware",
    ];
    assert_eq!(losses_of("arm", &before, &after), expected);
}
