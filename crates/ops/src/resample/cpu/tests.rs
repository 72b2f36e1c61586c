use super::*;

/// Golden values by scipy; `tests/golden/make_slerp_golden.py` made the file.
#[test]
fn slerp_is_that_of_scipy() {
    let golden = include_str!("../../../../../tests/golden/slerp.txt");
    let mut cases = 0;
    for line in golden.lines().filter(|line| !line.starts_with('#')) {
        let numbers: Vec<f64> = line.split(' ').map(|n| n.parse().unwrap()).collect();
        let quad = |at: usize| std::array::from_fn(|i| numbers[at + i] as f32);
        let got = slerp(&quad(0), &quad(4), numbers[8] as f32);
        for (got, expected) in got.iter().zip(&numbers[9..13]) {
            assert!((f64::from(*got) - expected).abs() < 6e-7, "{line}: {got:?}");
        }
        cases += 1;
    }
    assert_eq!(cases, 300);
}

#[test]
fn angles_take_the_shorter_arc_and_stay_in_their_turn() {
    assert!((angular(3.0, -3.0, 0.5).abs() - PI).abs() < 1e-6);
    let near = angular(3.1, -3.1, 0.75);
    assert!((near - (-3.1 - 0.25 * (TAU - 6.2))).abs() < 1e-6, "{near}");
    assert_eq!(angular(0.5, 1.5, 0.25), 0.75);
    // A joint that has turned three times goes on from there.
    let turned = 3.0 * TAU;
    assert!((angular(turned, turned + 0.2, 0.5) - (turned + 0.1)).abs() < 1e-5);
}

#[test]
fn lanes_are_interpolated_each_in_its_way() {
    let lanes = [Lane::Linear, Lane::Angular, Lane::Held, Lane::Linear];
    let mut out = [0.0; 4];
    Interpolator::new(&lanes).between(&[0.0, 3.0, 1.0, 2.0], &[4.0, -3.0, 2.0, 2.0], 0.5, &mut out);
    assert_eq!((out[0], out[2], out[3]), (2.0, 1.0, 2.0));
    assert!(out[1].abs() > 3.1);
    // The weight of a target just before the later row may round to 1.
    Interpolator::new(&lanes).between(&[0.0, 3.0, 1.0, 2.0], &[4.0, -3.0, 2.0, 2.0], 1.0, &mut out);
    assert_eq!(out[2], 1.0);
}
