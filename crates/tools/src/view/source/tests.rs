use super::which;

#[test]
fn some_ticks_along_the_whole_and_a_stretch() {
    assert_eq!(which(5, 5), [0, 1, 2, 3, 4]);
    for (count, most) in [(1000, 100), (7, 1), (u64::from(u32::MAX), 1000), (10, 9)] {
        let ticks = which(count, most);
        assert!(ticks.len() as u64 <= most && !ticks.is_empty());
        assert!(ticks.is_sorted_by(|a, b| a < b) && ticks.iter().all(|tick| *tick < count));
    }
    let ticks = which(1000, 100);
    assert!(ticks[0] == 0 && ticks[ticks.len() - 1] > 900);
    let neighbours = ticks.windows(2).filter(|pair| pair[1] == pair[0] + 1).count();
    assert!(neighbours >= 70, "{neighbours}");
}
