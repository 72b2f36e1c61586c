use super::*;

#[test]
fn a_publication_counts_only_if_both_machines_agree_on_the_time() {
    let published = |published_ns, arrived_ns| {
        Transit { published_ns: Some(published_ns), arrived_ns: Some(arrived_ns) }.published()
    };
    assert_eq!(published(NANOS_PER_S, NANOS_PER_S + 5), Some(NANOS_PER_S));
    assert_eq!(published(NANOS_PER_S, NANOS_PER_S - NANOS_PER_MS), Some(NANOS_PER_S));
    assert_eq!(published(NANOS_PER_S, NANOS_PER_S - NANOS_PER_MS - 1), None);
    assert_eq!(published(0, 2 * NANOS_PER_S + 1), None);
    assert_eq!(Transit { published_ns: Some(1), arrived_ns: None }.published(), None);
    assert_eq!(Transit::UNKNOWN.published(), None);
}

#[test]
fn jumps_are_logged_once_in_a_while_and_counted_meanwhile() {
    let mut log = JumpLog::default();
    let start = Instant::now();
    let mut note = |seconds| {
        let from = Stamp::from_nanos(9);
        let to = Stamp::from_nanos(5);
        log.note(start + Duration::from_secs(seconds), from, to).map(|jumped| jumped.unsaid)
    };
    assert_eq!([0, 1, 9, 10, 11, 20].map(&mut note), [Some(0), None, None, Some(2), None, Some(1)]);
}
