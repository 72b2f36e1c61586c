use super::*;

#[test]
fn the_search_finds_what_a_search_from_the_start_finds() {
    let stamps: Vec<i64> = (0..70).map(|i| i * i).collect();
    for len in 0..stamps.len() {
        let stamps = &stamps[..len];
        for from in 0..=len {
            for target in [-1, 0, 1, 2, 8, 9, 10, 500, 4600, 4761, 4762, i64::MAX] {
                let mut cursor = Cursor { stamps, after: from };
                cursor.seek(target);
                let expected = stamps.partition_point(|stamp| *stamp <= target);
                assert_eq!(cursor.after, expected, "{len} stamps, from {from} to {target}");
            }
        }
    }
}
