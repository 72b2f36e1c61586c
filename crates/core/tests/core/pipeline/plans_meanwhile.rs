//! Ticks and epochs while a plan is cut: the backend interpolates without the lock of the rings.

use std::sync::mpsc::channel;
use std::thread;

use common::trajectory;
use robocache_testing::received;

use super::hooked::{Hooked, hooked};
use super::plans::planned;
use super::*;

/// A plan of one joint, from 0 at 100 ms to 100 at 200 ms, and the backend of its pipeline.
fn one_planned() -> (Arc<Pipeline>, Arc<Hooked>) {
    let rest = "joints: [a]\n    ring_rows: 5\n    horizon: {steps: 2, step_ms: 25}";
    let (pipeline, backend) = hooked(&planned(rest));
    push(&pipeline, 100, &[(0, 0.0), (100, 100.0)]).unwrap();
    (pipeline, backend)
}

fn push(pipeline: &Pipeline, ms: i64, points: &[(i64, f64)]) -> Result<u32, DropReason> {
    let points: Vec<_> = points.iter().map(|(ms, at)| (ms * MS, vec![*at])).collect();
    let start = Stamp::from_nanos(ms * MS);
    match pipeline.push(FIRST, &trajectory(start, &["a"], &points), at(start)) {
        Ok(accepted) => Ok(accepted.rows),
        Err(NotTaken::Dropped(rejected)) => Err(rejected.reason),
        Err(error) => panic!("{error}"),
    }
}

fn ticked(pipeline: &Pipeline, tick: i64, epoch: Epoch) -> Vec<f32> {
    let mut message = pipeline.new_message();
    assert_eq!(pipeline.tick(tick, epoch, &mut message).unwrap(), TickOutcome::Ready);
    values(pipeline, &message, SEGMENT)
}

#[test]
fn a_tick_waits_for_no_plan_and_sees_the_one_before_whole() {
    let (pipeline, backend) = one_planned();
    let (found, seen) = channel();
    let ticking = Arc::downgrade(&pipeline);
    backend.blend.set(move || {
        let pipeline = ticking.upgrade().unwrap();
        let found = found.clone();
        let (done, tick) = channel();
        thread::spawn(move || done.send(ticked(&pipeline, 15, Epoch::default())));
        found.send(received("the tick", &tick)).unwrap();
        Ok(())
    });
    assert_eq!(push(&pipeline, 150, &[(10, 0.0)]), Ok(1));
    assert_eq!(received("the values", &seen), [50.0, 75.0]);
    assert_eq!(ticked(&pipeline, 15, Epoch::default()), [50.0, 0.0]);
}

#[test]
fn a_plan_whose_epoch_ends_meanwhile_changes_nothing_and_loses_no_row() {
    let (pipeline, backend) = one_planned();
    let next = Epoch::default().next(Some(Stamp::from_nanos(150 * MS)));
    let other = Arc::downgrade(&pipeline);
    backend.blend.set(move || {
        other.upgrade().unwrap().begin(next);
        Ok(())
    });
    let of_epoch = |start_ms: i64, points: &[(i64, f64)]| {
        let points: Vec<_> = points.iter().map(|(ms, at)| (ms * MS, vec![*at])).collect();
        let start = Stamp::from_nanos(start_ms * MS);
        let arrival = Arrival { epoch: next, ..at(start) };
        pipeline.push(FIRST, &trajectory(start, &["a"], &points), arrival).unwrap().rows
    };
    assert_eq!(push(&pipeline, 150, &[(10, 0.0)]), Err(DropReason::Cleared));
    // Rows for the longest plan are still there, again and again.
    for _ in 0..5 {
        assert_eq!(of_epoch(160, &[(0, 1.0), (10, 2.0), (20, 3.0)]), 3);
    }
    assert_eq!(ticked(&pipeline, 16, next), [1.0, 3.0]);
}
