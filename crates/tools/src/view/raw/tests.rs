use super::*;

#[test]
fn the_difference_is_that_to_the_line_between_neighbours() {
    let at = |ms: i64| Stamp::from_nanos(1_795_000_000_000_000_000 + ms * 1_000_000);
    let compared = Compared {
        name: "j".into(),
        raw: vec![(at(10), 1.0), (at(0), 0.0), (at(3000), 9.0)],
        aligned: vec![(at(4), 0.5, -6), (at(5), 0.7, 5), (at(20), 9.0, 0), (at(6), f64::NAN, 0)],
    };
    let overlap = compared.overlap().unwrap();
    assert_eq!((overlap.raw.len(), overlap.aligned.len(), overlap.held()), (2, 2, 1));
    let errors = overlap.errors();
    assert_eq!(errors.len(), 1);
    assert!((errors[0].1 - 0.1).abs() < 1e-12, "{errors:?}");
    let apart = Compared { aligned: vec![(at(5000), 1.0, 0)], ..compared };
    assert!(apart.overlap().is_none());
}
