use super::*;
use robocache_ops::random::Random;

#[test]
fn quantiles_are_those_of_the_sorted_durations_to_a_thousandth() {
    let mut random = Random::new(7);
    let mut sketch = Sketch::default();
    let mut all: Vec<i64> = (0..5000)
        .map(|_| (random.between(-1.0, 1.0).powi(5) * 1e9) as i64)
        .chain([i64::MIN, i64::MAX, 0, -1])
        .collect();
    all.iter().for_each(|nanos| sketch.record(*nanos));
    all.sort_unstable();
    for share in [0.0, 0.01, 0.3, 0.5, 0.77, 0.99, 0.999, 1.0] {
        let rank = ((all.len() as f64 * share).ceil() as usize).max(1);
        let exact = all[rank - 1] as f64;
        let found = sketch.quantile(share).unwrap() as f64;
        assert!((found - exact).abs() <= exact.abs() / 1000.0 + 1.0, "{share}: {found} {exact}");
    }
    let longer = all.iter().filter(|nanos| **nanos > 250_000_000).count() as u64;
    assert!(sketch.longer_than(250_000_000).abs_diff(longer) <= 5);
    let told = sketch.distribution().unwrap();
    assert_eq!((told.min_ns, told.max_ns, told.count), (i64::MIN, i64::MAX, all.len() as u64));
    assert_eq!(Sketch::default().distribution(), None);
}
