use super::*;

fn drop(detail: &str) -> Rejected {
    Rejected::new(DropReason::NoTransform, detail)
}

fn at(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn a_detail_is_logged_again_when_it_changes() {
    let mut details = DropDetails::default();
    let mut note = |ms, detail: &str| details.note(at(ms), &drop(detail), || None);
    let first = "frame \"lidar_1\": expected in tf";
    let second = "frame \"lidar_2\": expected in tf";
    assert_eq!(note(0, first).as_deref(), Some(first));
    assert_eq!(note(7_900, first), None);
    assert_eq!(note(8_000, second).as_deref(), Some(second));
    assert_eq!(note(8_100, second), None);
    assert_eq!(details.last(), Some(format!("no_transform: {second}")));
    assert_eq!(details.of(DropReason::Late), None);
}

#[test]
fn other_numbers_are_no_other_detail_and_a_flood_of_details_is_thinned_out() {
    let mut details = DropDetails::default();
    let mut note = |ms, detail: &str| details.note(at(ms), &drop(detail), || None).is_some();
    assert!(note(0, "expected at most 1.5 s, found 3.25 s"));
    assert!(!note(5_000, "expected at most 1.5 s, found 3.5 s"));
    assert!(note(6_000, "expected at most 1.5 s, found none"));
    let lines = (60..4_000).filter(|tenth| note(100 * tenth, &format!("frame \"f{tenth}\"")));
    assert!(lines.count() < 12);
}

#[test]
fn a_suggestion_is_looked_for_at_most_once_a_second_and_told_when_it_is_known() {
    let mut details = DropDetails::default();
    let mut looked = 0;
    let mut note = |ms, known: &str| {
        details.note(at(ms), &drop("frame \"lidr\": expected in tf"), || {
            looked += 1;
            (!known.is_empty()).then(|| format!("did you mean \"{known}\"?"))
        })
    };
    assert_eq!(note(0, "").as_deref(), Some("frame \"lidr\": expected in tf"));
    assert_eq!(note(500, "lidar"), None);
    let told = "frame \"lidr\": expected in tf; did you mean \"lidar\"?";
    assert_eq!(note(1_500, "lidar").as_deref(), Some(told));
    assert_eq!(note(1_600, "lidar"), None);
    assert_eq!(looked, 2);
    assert_eq!(details.last().as_deref(), Some(&*format!("no_transform: {told}")));
}
