use super::*;

fn drops(too_few: u64, voxels_beyond: u64) -> PointDrops {
    PointDrops { too_few, voxels_beyond, ..PointDrops::default() }
}

#[test]
fn a_row_counts_the_most_that_it_left_out() {
    let mut rows = LeftOut::new(2);
    let mut note = |ns, given, again| rows.note(Stamp::from_nanos(ns), given, again);
    assert_eq!(note(5, drops(2, 0), false), drops(2, 0));
    assert_eq!(note(5, drops(1, 300), true), drops(0, 300));
    assert_eq!(note(5, drops(4, 200), true), drops(2, 0));
    assert_eq!(note(5, drops(4, 300), true), drops(0, 0));
    // The sensor's correction is another cloud.
    assert_eq!(note(5, drops(1, 1), false), drops(1, 1));
    // Only the newest rows are known, as the ring has no others.
    assert_eq!(note(7, drops(1, 0), false), drops(1, 0));
    assert_eq!(note(6, drops(1, 0), false), drops(1, 0));
    let stamps: Vec<_> = rows.rows.iter().map(|(stamp, _)| stamp.nanos()).collect();
    assert_eq!((stamps, rows.rows.capacity() >= 3), (vec![6, 7], true));
    rows.clear();
    assert_eq!(rows.note(Stamp::from_nanos(6), drops(1, 0), true), drops(1, 0));
}
