use super::*;

#[test]
fn lines_that_come_now_and_then_are_all_logged_and_a_flood_is_thinned_out() {
    let mut pace = Pace::default();
    let mut logged = |times_ms: &[u64]| -> Vec<u64> {
        let logged = |ms: &&u64| pace.asks(Duration::from_millis(**ms));
        times_ms.iter().filter(logged).copied().collect()
    };
    assert_eq!(logged(&[0, 1_000, 2_500, 4_000]), [0, 1_000, 2_500, 4_000]);
    let flood: Vec<u64> = (40..4_000).map(|tenth| 100 * tenth).collect();
    let seconds: Vec<u64> = logged(&flood).iter().map(|ms| ms / 1_000).collect();
    assert_eq!(seconds, [5, 7, 11, 19, 35, 67, 131, 195, 259, 323, 387]);
    let calm = [500_000, 501_000, 502_500];
    assert_eq!(logged(&calm), calm, "as at first");
}

#[test]
fn a_line_that_is_only_late_does_not_slow_down_the_next_ones() {
    let mut pace = Pace::default();
    let ms = Duration::from_millis;
    assert!(pace.asks(ms(0)) && !pace.asks(ms(300)));
    let again: Vec<u64> =
        (30..120).map(|at| 10 * at).filter(|at| pace.asks_again(ms(*at))).collect();
    assert_eq!(again, [1_000]);
    assert!(pace.asks(ms(2_000)));
    // Two were refused, and only one of them is told.
    assert!(!pace.asks(ms(2_300)) && !pace.asks(ms(2_600)));
    assert!(pace.asks_again(ms(3_000)) && !pace.asks(ms(4_900)) && pace.asks(ms(5_000)));
}
