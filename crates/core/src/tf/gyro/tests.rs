use super::*;

fn ms(ms: i64) -> Stamp {
    Stamp::from_nanos(ms * NANOS_PER_MS)
}

const TURN: [f64; 3] = [1.0, 0.0, 0.0];

/// The stamps of a result \[ms\], and its last transform.
fn turned(gyro: &mut Gyro, at: i64, rate: [f64; 3]) -> (Vec<i64>, Option<Transform>) {
    let turned = gyro.turn(gyro.epoch, ms(at), rate).unwrap();
    let stamps = turned.iter().flatten().map(|(stamp, _)| stamp.nanos() / NANOS_PER_MS);
    (stamps.collect(), turned[1].map(|(_, transform)| transform))
}

/// The matrix of the rotation from the start, integrated in tiny steps of a product of matrices.
fn reference(rate: impl Fn(f64) -> [f64; 3], seconds: f64) -> [[f64; 3]; 3] {
    let steps = 400_000;
    let mut m = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
    let h = seconds / f64::from(steps);
    for step in 0..steps {
        let [x, y, z] = rate((f64::from(step) + 0.5) * h).map(|value| value * h);
        // exp of a skew matrix, to the second order.
        let a = x * x;
        let b = y * y;
        let c = z * z;
        let e = [
            [1.0 - 0.5 * (b + c), x * y / 2.0 - z, x * z / 2.0 + y],
            [x * y / 2.0 + z, 1.0 - 0.5 * (a + c), y * z / 2.0 - x],
            [x * z / 2.0 - y, y * z / 2.0 + x, 1.0 - 0.5 * (a + b)],
        ];
        let cell = |i: usize, j: usize| (0..3).map(|k| m[i][k] * e[k][j]).sum::<f64>();
        m = std::array::from_fn(|i| std::array::from_fn(|j| cell(i, j)));
    }
    m
}

#[test]
fn the_sum_of_a_gyro_is_the_rotation_of_its_axes() {
    // A robot that pitches and turns: its axes do not stay where they are.
    let rate = |t: f64| [0.4 * (9.0 * t).sin(), -0.9 * (4.0 * t).cos(), 1.5 + 2.0 * t];
    let mut gyro = Gyro::default();
    let mut found = Transform::IDENTITY;
    for step in 0..=100 {
        let t = f64::from(step) * 0.005;
        let (_, last) = turned(&mut gyro, 1000 + i64::from(step) * 5, rate(t));
        found = last.unwrap_or(found);
    }
    let got = found.inverse().matrix();
    let expected = reference(rate, 0.5);
    let angle = (0..3)
        .flat_map(|i| (0..3).map(move |j| (i, j)))
        .map(|(i, j)| (got[i][j] - expected[i][j]).abs())
        .fold(0.0, f64::max);
    assert!(angle < 2e-5, "{angle}");
    assert!((got[0][0] - 1.0).abs() > 0.2, "it has turned");
}

#[test]
fn a_constant_rate_is_exact() {
    let mut gyro = Gyro::default();
    let rate = [0.6, -0.8, 0.0].map(|axis| axis * 3.0);
    let turns = [0, 7, 20, 51, 100].map(|at| turned(&mut gyro, at, rate).1);
    let half: f64 = 0.1 * 3.0 / 2.0;
    let [x, y, z, w] = turns[4].unwrap().inverse().rotation;
    for (got, expected) in
        [x, y, z, w].into_iter().zip([0.6 * half.sin(), -0.8 * half.sin(), 0.0, half.cos()])
    {
        assert!((got - expected).abs() < 1e-14, "{got} {expected}");
    }
}

#[test]
fn messages_must_be_in_order_and_an_epoch_begins_again() {
    let mut gyro = Gyro::default();
    let still = Epoch::default();
    assert!(turned(&mut gyro, 90, TURN).0.is_empty());
    let again = BadTurn::NotInOrder { stamp: ms(90), newest: ms(90) };
    assert_eq!(gyro.turn(still, ms(90), TURN), Err(again));
    assert_eq!(turned(&mut gyro, 100, TURN).0, [90, 100]);
    for at in [100, 99] {
        let error = BadTurn::NotInOrder { stamp: ms(at), newest: ms(100) };
        assert_eq!(gyro.turn(still, ms(at), TURN), Err(error));
    }
    let (stamps, last) = turned(&mut gyro, 110, TURN);
    assert_eq!(stamps, [110]);
    assert_ne!(last.unwrap().rotation, Transform::IDENTITY.rotation);
    let later = still.next(Some(ms(110)));
    assert_eq!(gyro.turn(later, ms(5), TURN), Ok([None, None]));
    let begun = gyro.turn(later, ms(9), TURN).unwrap()[0].unwrap();
    assert_eq!((begun.0, begun.1.rotation[3]), (ms(5), 1.0));
}

#[test]
fn absurd_rates_leave_the_sum_as_it_was() {
    let mut gyro = Gyro::default();
    let mut undisturbed = Gyro::default();
    for at in (0..100).step_by(5) {
        for absurd in [1e200, -1e6, 101.0] {
            let turn = gyro.turn(Epoch::default(), ms(at + 1), [0.0, absurd, 0.0]);
            assert!(matches!(turn, Err(BadTurn::TooFast { .. })), "{turn:?}");
        }
        assert_eq!(turned(&mut gyro, at, TURN), turned(&mut undisturbed, at, TURN), "{at}");
    }
    let far = gyro.turn(Epoch::default(), ms(95 + 50), [0.0, 0.0, 50.0]);
    assert!(matches!(far, Err(BadTurn::TooFar { found }) if (1.2..1.3).contains(&found)));
    assert_eq!(turned(&mut gyro, 100, TURN), turned(&mut undisturbed, 100, TURN));
}

#[test]
fn a_single_message_of_the_future_makes_no_transform_and_none_late() {
    let mut gyro = Gyro::default();
    let mut undisturbed = Gyro::default();
    for at in (0..1500).step_by(5) {
        assert_eq!(turned(&mut gyro, at, TURN), turned(&mut undisturbed, at, TURN), "{at}");
        if at == 100 {
            assert_eq!(turned(&mut gyro, 1092, TURN), (vec![], None));
        }
    }
    // Two of them confirm each other. The sum goes on when the true messages have come so far.
    assert!(turned(&mut gyro, 2300, TURN).0.is_empty());
    assert_eq!(turned(&mut gyro, 2302, TURN).0, [2300, 2302]);
    for at in (1500..2300).step_by(5) {
        let late = BadTurn::NotInOrder { stamp: ms(at), newest: ms(2302) };
        assert_eq!(gyro.turn(Epoch::default(), ms(at), TURN), Err(late));
    }
    assert_eq!(turned(&mut gyro, 2305, TURN).0, [2305]);
    // As the first message, and behind a gap.
    let mut gyro = Gyro::default();
    for from in [0, 300] {
        assert!(turned(&mut gyro, from + 900, TURN).0.is_empty());
        assert!(turned(&mut gyro, from, TURN).0.is_empty());
        assert_eq!(turned(&mut gyro, from + 5, TURN).0, [from, from + 5]);
    }
}
