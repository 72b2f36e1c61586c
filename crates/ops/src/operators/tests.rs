use super::*;
use std::f64::consts::{PI, TAU};

fn golden(name: &str) -> Vec<Vec<f64>> {
    let text = include_str!("../../../../tests/golden/operators.txt");
    let lines = text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let numbers = lines.map(|line| line.split(' ').map(|n| n.parse().unwrap()).collect());
    let numbers: Vec<Vec<f64>> = numbers.collect();
    assert!(numbers.len() >= 100, "{name}");
    numbers
}

/// `tests/golden/make_operators_golden.py` made the file.
#[test]
fn rotations_are_those_of_scipy() {
    for numbers in golden("rotation") {
        let quaternion = numbers[..4].try_into().unwrap();
        for (i, expected) in numbers[4..].iter().enumerate() {
            let got = rotation_entry(quaternion, i / 3, i % 3);
            assert!((got - expected).abs() < 1e-14, "{numbers:?}: {got} at {i}");
        }
    }
}

#[test]
fn angles_are_unwrapped_as_by_numpy_from_the_anchor_on() {
    for numbers in golden("unwrap") {
        let (angles, expected) = numbers[1..].split_at((numbers.len() - 1) / 2);
        let mut steps: Vec<Option<f64>> = angles.iter().copied().map(Some).collect();
        unwrap(&mut steps, numbers[0] as usize);
        for (got, expected) in steps.iter().zip(expected) {
            assert!((got.unwrap() - expected).abs() < 1e-12, "{numbers:?}: {steps:?}");
        }
    }
}

#[test]
fn steps_without_a_value_are_passed_over() {
    let mut steps = [None, Some(-3.0), None, Some(3.0), None];
    unwrap(&mut steps, 4);
    assert_eq!(steps, [None, Some(-3.0 + TAU), None, Some(3.0), None]);
    let mut steps = [None, None, Some(3.0), Some(-3.0)];
    unwrap(&mut steps, 1);
    assert_eq!(steps, [None, None, Some(3.0), Some(-3.0 + TAU)]);
    unwrap(&mut [None, None], 1);
    unwrap(&mut [], 0);
}

#[test]
fn the_result_does_not_depend_on_where_the_window_begins() {
    let mut random = crate::random::Random::new(3);
    let angles: Vec<f64> = (0..40).map(|_| random.between(-PI, PI)).collect();
    let unwrapped = |from: usize| {
        let mut steps: Vec<_> = angles[from..].iter().copied().map(Some).collect();
        let anchor = steps.len() - 1;
        unwrap(&mut steps, anchor);
        steps
    };
    let all = unwrapped(0);
    for from in 1..40 {
        assert_eq!(unwrapped(from), all[from..]);
    }
}
