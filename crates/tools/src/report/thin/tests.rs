use super::*;

#[test]
fn extremes_first_and_last_stay() {
    let spike = |at: usize| if at == 51_234 { 9.0 } else { (at % 7) as f64 / 7.0 };
    let made = runs((0..100_000).map(|at| (at as f64 / 1000.0, spike(at))), 100);
    let [run] = &made[..] else { panic!("{} runs", made.len()) };
    assert!(run.len() <= 400);
    assert_eq!((run[0], run[run.len() - 1].0), ((0.0, 0.0), 99.999));
    assert!(run.contains(&(51.234, 9.0)));
    assert!(run.is_sorted_by(|a, b| a.0 < b.0));
}

#[test]
fn few_points_stay_as_they_are() {
    let points = [(0.0, 1.0), (0.2, 3.0), (0.4, 2.0), (5.0, 2.0)];
    assert_eq!(runs(points, 10), [points.to_vec()]);
    assert!(runs([], 10).is_empty());
    assert!(runs([(f64::NAN, 1.0), (99.0, 1.0), (1.0, f64::NAN)], 10).is_empty());
}

#[test]
fn a_gap_ends_a_run() {
    let points = [(0.0, 1.0), (1.0, 1.0), (2.0, f64::NAN), (3.0, 1.0), (3.1, f64::NAN)];
    let two = [vec![(0.0, 1.0), (1.0, 1.0)], vec![(3.0, 1.0)]];
    assert_eq!(runs(points, 10), two);
    // A missing step, whose target is unknown.
    let missing = [(0.0, 1.0), (1.0, 1.0), (-1e12, f64::NAN), (3.0, 1.0)];
    assert_eq!(runs(missing, 10), two);
}
