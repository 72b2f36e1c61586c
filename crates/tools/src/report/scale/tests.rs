use super::*;

#[test]
fn numbers_are_readable() {
    assert_eq!(number(-1.25, 1), "\u{2212}1.2");
    assert_eq!((number(-0.001, 2), number(f64::NAN, 2)), ("0.00".into(), "\u{2013}".into()));
    let texts = [1234.5, 0.012345, 2.0, 0.0, -3.2e-9, 1.5e12].map(|value| significant(value, 3));
    assert_eq!(texts, ["1234", "0.0123", "2", "0", "\u{2212}3.20e\u{2212}9", "1.50e12"]);
    assert_eq!(significant(f64::INFINITY, 3), "\u{2013}");
}

#[test]
fn ticks_are_round_and_inside() {
    let texts = |range, count| -> Vec<String> {
        ticks(range, count).into_iter().map(|(_, text)| text).collect()
    };
    assert_eq!(texts((0.0, 10.0), 5), ["0", "2", "4", "6", "8", "10"]);
    assert_eq!(texts((-0.31, 0.3), 3), ["\u{2212}0.2", "0.0", "0.2"]);
    assert_eq!(texts((1e9, 1e9 + 4.0), 4).len(), 5);
    assert_eq!(texts((3.0, 3.0), 5), ["3"]);
    assert_eq!(texts((f64::NAN, 1.0), 5), ["\u{2013}"]);
    for (low, high) in [(1e-30, 2e-30), (-1e300, 1e300), (1e17, 1e17 + 16.0), (0.0, f64::MAX)] {
        let made = ticks((low, high), 5);
        assert!((1..=12).contains(&made.len()), "{low} {high}: {made:?}");
        let slack = (high - low) * 1e-6;
        assert!(made.iter().all(|(at, _)| *at >= low - slack && *at <= high + slack));
    }
}

#[test]
fn a_range_has_a_width() {
    assert_eq!(padded(range([1.0, f64::NAN, 3.0]), 0.5), (0.0, 4.0));
    assert_eq!(padded(range([]), 0.1), (0.0, 1.0));
    let (low, high) = padded(range([0.0]), 0.1);
    assert!(low < 0.0 && high > 0.0);
}
