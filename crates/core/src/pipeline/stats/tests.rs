use super::*;

#[test]
fn every_reason_has_its_own_counter() {
    for (index, reason) in DropReason::ALL.into_iter().enumerate() {
        assert_eq!(reason as usize, index);
        let stats = InputStats::default();
        stats.drop(reason);
        assert_eq!((stats.dropped(reason), stats.dropped_total()), (1, 1));
        stats.drop_parts(reason, 2);
        assert_eq!((stats.parts_dropped(reason), stats.parts_dropped_total()), (2, 2));
        assert_eq!(stats.dropped_total(), 1);
    }
}
