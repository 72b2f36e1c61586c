use super::*;
use crate::command::chunk::SentChunk;
use crate::command::group::tests::{STEP_NS, group_of, joint};
use crate::spec::JointSpec;
use robocache_ops::operators::Operator;

/// The plan of a chunk for one joint, rows from the instant 0 on.
fn plan(joint: JointSpec, values: &[f32], reference: &[f32]) -> Result<Plan, Refusal> {
    let names = vec![joint.name.clone()];
    let spec = group_of(vec![joint]);
    let sent = SentChunk {
        run: 0,
        epoch: 0,
        stamp: Stamp::ZERO,
        tick: 0,
        sequence: 1,
        group: "arm",
        names: &names,
        values,
        reference,
    };
    let message = sent.to_cdr(Vec::new());
    let mut plan = Plan::of(&spec);
    plan.fill(&spec, &ActionChunk::read(&message).unwrap()).map(|()| plan)
}

fn value(plan: &Plan, how: Interpolate, at_ns: i64) -> f64 {
    let at = Stamp::from_nanos(at_ns);
    let Place::Row(row) = plan.place(at) else { panic!("{:?}", plan.place(at)) };
    plan.value(0, how, row, at)
}

#[test]
fn a_row_is_for_its_instant() {
    let plan = plan(joint("a"), &[1.0, 3.0, 2.0], &[]).unwrap();
    for (at, expected) in [(0, 1.0), (STEP_NS, 3.0), (2 * STEP_NS, 2.0)] {
        for how in [Interpolate::Hold, Interpolate::Linear, Interpolate::Cubic] {
            assert_eq!(value(&plan, how, at), expected);
        }
    }
    assert_eq!(value(&plan, Interpolate::Hold, STEP_NS - 1), 1.0);
    assert_eq!(value(&plan, Interpolate::Linear, STEP_NS / 4), 1.5);
    assert_eq!(plan.place(Stamp::from_nanos(-1)), Place::Before);
    assert_eq!(plan.place(Stamp::from_nanos(2 * STEP_NS + 1)), Place::After);
    assert_eq!(plan.rows_before(Stamp::from_nanos(STEP_NS)), 1);
}

#[test]
fn a_cubic_is_a_parabola_on_a_parabola_and_smooth() {
    let parabola = |at: f64| 2.0 - 3.0 * at + 0.5 * at * at;
    let rows: Vec<f32> = (0..6).map(|row| parabola(f64::from(row)) as f32).collect();
    let plan = plan(joint("a"), &rows, &[]).unwrap();
    // Central differences are exact on a parabola, and the first and the last row have none.
    for at in (STEP_NS..4 * STEP_NS).step_by(777_777) {
        let expected = parabola(at as f64 / STEP_NS as f64);
        assert!((value(&plan, Interpolate::Cubic, at) - expected).abs() < 1e-12);
    }
    let slope = |at: i64| {
        let [before, after] = [at, at + 10].map(|at| value(&plan, Interpolate::Cubic, at));
        after - before
    };
    for row in 1..5 {
        let [before, after] = [slope(row * STEP_NS - 10), slope(row * STEP_NS)];
        assert!((before - after).abs() < 1e-12, "{row}: {before} {after}");
    }
}

#[test]
fn a_later_row_changes_no_earlier_command() {
    let rows = [0.0, 1.0, -1.0, 0.5, 2.0, -3.0];
    let one = plan(joint("a"), &rows, &[]).unwrap();
    let other = plan(joint("a"), &[0.0, 1.0, -1.0, 0.5, 9.0, 9.0], &[]).unwrap();
    for at in (0..2 * STEP_NS).step_by(999_999) {
        assert_eq!(value(&one, Interpolate::Cubic, at), value(&other, Interpolate::Cubic, at));
    }
}

#[test]
fn the_operators_of_the_training_are_taken_back_and_the_reference_added_once() {
    let operators = vec![
        Operator::Affine { shift: 0.5, scale: 4.0, offset: 0.0 },
        Operator::Clamp { low: -1.0, high: 1.0 },
        Operator::Affine { shift: 0.0, scale: 0.5, offset: 2.0 },
    ];
    let of = JointSpec { operators: operators.clone(), ..joint("a") };
    let rows = [1.75f32, 2.25];
    let forward = |x: f64| operators.iter().fold(x, |x, operator| operator.apply(x)) as f32;
    let plain = plan(of.clone(), &rows, &[]).unwrap();
    for (at, row) in rows.iter().enumerate() {
        assert_eq!(forward(value(&plain, Interpolate::Hold, at as i64 * STEP_NS)), *row);
    }
    let relative = plan(JointSpec { relative: true, ..of }, &rows, &[10.0]).unwrap();
    for at in [0, STEP_NS] {
        let [plain, relative] = [&plain, &relative].map(|of| value(of, Interpolate::Hold, at));
        assert_eq!(relative, plain + 10.0);
    }
}

#[test]
fn an_angle_goes_the_short_way_from_row_to_row() {
    let angle = JointSpec { angular: true, ..joint("a") };
    let plan = plan(angle, &[3.0, -3.0, 3.1], &[]).unwrap();
    let middle = value(&plan, Interpolate::Linear, STEP_NS / 2);
    assert!((middle - std::f64::consts::PI).abs() < 1e-6, "{middle}");
    assert!((value(&plan, Interpolate::Hold, 2 * STEP_NS) - 3.1).abs() < 1e-6);
}

#[test]
fn a_value_that_is_no_number_refuses_the_whole() {
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        assert_eq!(plan(joint("a"), &[0.0, bad, 1.0], &[]).err(), Some(Refusal::NonFinite));
        let relative = JointSpec { relative: true, ..joint("a") };
        assert_eq!(plan(relative, &[0.0, 1.0], &[bad]).err(), Some(Refusal::NonFinite));
    }
    let tiny = Operator::Affine { shift: 0.0, scale: 1e-300, offset: 0.0 };
    let of = JointSpec { operators: vec![tiny], ..joint("a") };
    assert_eq!(plan(of, &[f32::MAX], &[]).err(), Some(Refusal::NonFinite));
}
