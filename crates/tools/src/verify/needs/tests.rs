use super::*;

fn row(needs_ns: i64) -> SlowRow {
    SlowRow { input: String::new(), stamp_ns: 0, arrived_ns: 0, ready_ns: 0, needs_ns }
}

fn most(needs: &LagNeeds) -> (Option<i64>, u64) {
    let (row, left_out) = needs.most();
    (row.map(|row| row.needs_ns), left_out)
}

#[test]
fn an_old_row_asks_for_nothing_unless_the_lag_lets_ticks_use_it() {
    let mut needs = LagNeeds::new(20);
    assert_eq!(most(&needs), (None, 0));
    for k in 0..10 {
        needs.add(-30, row(60 + k));
    }
    assert_eq!(most(&needs), (Some(69), 0));
    // A latched image: no tick could use it with less than 19,500.
    needs.add(19_500, row(20_070));
    assert_eq!(most(&needs), (Some(69), 1));
    // With 69 a tick could use this one, and with 85 the next.
    needs.add(65, row(85));
    assert_eq!(most(&needs), (Some(85), 2));
    needs.add(80, row(90));
    assert_eq!(most(&needs), (Some(90), 3));
}

#[test]
fn if_most_rows_are_too_old_the_lag_is_to_blame() {
    let mut needs = LagNeeds::new(20);
    needs.add(-10, row(15));
    (0..9).for_each(|k| needs.add(50, row(100 + k)));
    assert_eq!(most(&needs), (Some(108), 0));
}

#[test]
fn few_bounds_are_kept_and_the_result_is_the_same() {
    let mut needs = LagNeeds::new(0);
    (0..10_000).for_each(|_| needs.add(-1, row(5)));
    for k in 0..4000 {
        needs.add(10 + 20 * k, row(11 + 20 * k));
        needs.add(11 + 20 * k, row(3));
    }
    assert!(needs.too_old.len() <= MOST_STEPS, "{}", needs.too_old.len());
    assert_eq!(most(&needs), (Some(5), 8000));
    needs.add(0, row(10));
    assert_eq!(most(&needs).0, Some(11));
}
