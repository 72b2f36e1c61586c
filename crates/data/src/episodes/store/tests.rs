use super::*;

#[test]
fn blocks_have_all_rows_in_their_order() {
    let ranges = [3..10, 10..10, 0..2, 20..45];
    for each in [1, 2, 7, 100] {
        let found = blocks(&ranges, each);
        let rows = |ranges: &[Range<u64>]| ranges.iter().cloned().flatten().collect::<Vec<_>>();
        let all: Vec<u64> = found.iter().flat_map(|block| rows(block)).collect();
        assert_eq!(all, rows(&ranges), "{each}");
        let last = found.len() - 1;
        assert!(found[..last].iter().all(|block| rows(block).len() as u64 == each), "{each}");
    }
    assert!(blocks(&[], 9).is_empty());
}
