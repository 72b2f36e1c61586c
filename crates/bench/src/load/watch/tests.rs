use super::*;

#[test]
fn quantiles_are_of_the_sorted_values() {
    let ms = |n: i64| n * 1_000_000;
    let of = quantiles((1..=101).rev().map(ms).collect());
    assert_eq!((of.count, of.p50_ms, of.p99_ms, of.max_ms), (101, 51.0, 100.0, 101.0));
    assert_eq!(quantiles(vec![]).count, 0);
}
