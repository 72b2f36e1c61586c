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

#[test]
fn rows_that_find_no_room_are_an_error() {
    assert!(check_room(9_000_000_000, 9_000_000_000, false).is_ok());
    // The system does not say what is left.
    assert!(check_room(u64::MAX, 0, false).is_ok());
    let error =
        |packed| check_room(352_000_000_000, 64_000_000_000, packed).unwrap_err().to_string();
    let said = "rows: expected at most the 64.0 GB of memory that are left, found 352.0 GB: give ";
    assert_eq!(error(false), format!("{said}compressed=True, or fewer streams or episodes"));
    assert_eq!(error(true), format!("{said}fewer streams or episodes"));
    let small = check_room(2_400_000, 640_000, true).unwrap_err().to_string();
    assert!(small.contains("at most the 0.6 MB of memory that are left, found 2.4 MB:"), "{small}");
}
