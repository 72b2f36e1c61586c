//! Rows in their final form, for those who keep them.

use std::sync::Mutex;

use common::trajectory;
use robocache::pipeline::{FinalRow, RowSink};
use robocache::ring::UntilNext;

use super::clouds::cloud;
use super::*;

/// A row: epoch, stamp \[ms\], first value, what follows it, and until when each cloud may be used \[ms\].
type Kept = (u64, i64, f32, UntilNext, Vec<Option<i64>>);

#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<Kept>>>);

impl RowSink for Sink {
    fn row(&mut self, row: &FinalRow<'_>) {
        let value = f32::from_le_bytes(*row.bytes.first_chunk().unwrap());
        let until = row.until.iter().map(|until| until.map(|until| until.nanos() / MS)).collect();
        let FinalRow { entry, epoch, .. } = row;
        let kept = (epoch.number(), entry.stamp.nanos() / MS, value, entry.until_next, until);
        self.0.lock().unwrap().push(kept);
    }
}

fn keep(pipeline: &mut Pipeline) -> Sink {
    let sink = Sink::default();
    pipeline.keep_rows(Box::new(sink.clone()));
    sink
}

impl Sink {
    fn taken(&self) -> Vec<Kept> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }

    /// Epoch, stamp and value of each row.
    fn rows(&self) -> Vec<(u64, i64, f32)> {
        self.taken().into_iter().map(|(epoch, ms, value, ..)| (epoch, ms, value)).collect()
    }
}

#[test]
fn a_row_is_given_once_when_no_message_can_change_it_any_more() {
    let mut pipeline = one_joint("max_age_ms: 50\nring_rows: 2\ndtype: f32", "");
    let sink = keep(&mut pipeline);
    let push = |ms: i64, value: f64, epoch: Epoch| {
        let message = joint_state(Stamp::from_nanos(ms * MS), &["a"], &[value]);
        pipeline.push(FIRST, &message, Arrival { epoch, ..Arrival::default() })
    };
    let first = Epoch::default();
    push(10, 1.0, first).unwrap();
    push(30, 3.0, first).unwrap();
    // Behind the newest: the oldest leaves. Then an equal stamp replaces, and one is too late.
    push(20, 2.0, first).unwrap();
    assert_eq!(sink.rows(), [(0, 10, 1.0)]);
    push(20, 2.5, first).unwrap();
    assert!(push(5, 0.5, first).is_err());
    assert!(sink.rows().is_empty());
    // Another epoch: what is in the ring is final.
    let next = first.next(Some(Stamp::from_nanos(30 * MS)));
    push(7, 7.0, next).unwrap();
    assert_eq!(sink.rows(), [(0, 20, 2.5), (0, 30, 3.0)]);
    pipeline.finish_rows();
    assert_eq!(sink.rows(), [(1, 7, 7.0)]);
    assert!(pipeline.rows_failed().is_none());
    // All slots are spare again.
    for ms in 40..60 {
        push(ms, 0.0, next).unwrap();
    }
    assert_eq!(sink.rows().len(), 18);
}

#[test]
fn points_of_a_plan_that_another_replaces_are_not_kept() {
    let mut pipeline = pipeline(
        "rate_hz: 100
streams:
  plan:
    type: trajectory_msgs/msg/JointTrajectory
    topic: /plan
    joints: [a]
    max_age_ms: 20
    max_gap_ms: 200
    dtype: f32
    horizon: {steps: 4, step_ms: 25}
",
    );
    let sink = keep(&mut pipeline);
    for (start_ms, first) in [(0, 1.0), (100, 5.0)] {
        let points: Vec<_> = (1..=3).map(|k| (50 * k * MS, vec![first + k as f64])).collect();
        let message = trajectory(Stamp::from_nanos(start_ms * MS), &["a"], &points);
        pipeline.push(FIRST, &message, at(Stamp::from_nanos(start_ms * MS))).unwrap();
    }
    pipeline.finish_rows();
    // The points of the first plan up to 100 ms; then those of the second.
    assert_eq!(
        sink.rows(),
        [(0, 50, 2.0), (0, 100, 3.0), (0, 150, 6.0), (0, 200, 7.0), (0, 250, 8.0)]
    );
    // A stop after a jump: the plan before is held, and nothing follows.
    let points = [(0, vec![1.0]), (50 * MS, vec![2.0])];
    let plan = trajectory(Stamp::from_nanos(1000 * MS), &["a"], &points);
    pipeline.push(FIRST, &plan, at(Stamp::from_nanos(1000 * MS))).unwrap();
    let next = trajectory(Stamp::from_nanos(1200 * MS), &["a"], &[(0, vec![3.0])]);
    pipeline.push(FIRST, &next, at(Stamp::from_nanos(1200 * MS))).unwrap();
    pipeline.finish_rows();
    let follows: Vec<_> = sink.taken().into_iter().map(|(_, ms, _, next, _)| (ms, next)).collect();
    use UntilNext::{Held, Strategy};
    assert_eq!(follows, [(1000, Strategy), (1050, Held), (1200, Strategy)]);
}

#[test]
fn a_merged_row_is_the_one_that_the_last_cloud_made() {
    let mut pipeline = pipeline(
        "rate_hz: 100
streams:
  cells:
    type: sensor_msgs/PointCloud2
    max_age_ms: 30
    dtype: f32
    inputs: [{topic: /front}, {topic: /rear}]
    cloud: {origin_m: [0, 0, 0], size_m: 1, shape: [1, 1, 1], channels: [{reduce: count}]}
",
    );
    let sink = keep(&mut pipeline);
    // Two points of the front at 100 and 120 ms; three of the rear at 110 ms come last.
    for (input, ms, points) in [(0, 100, 2), (0, 120, 2), (1, 110, 3)] {
        let message = cloud(Stamp::from_nanos(ms * MS), &vec![[0.5; 4]; points]);
        pipeline.push(InputId::new(input), &message, Arrival::default()).unwrap();
    }
    pipeline.finish_rows();
    use UntilNext::Strategy;
    assert_eq!(
        sink.taken(),
        [
            (0, 100, 2.0, Strategy, vec![Some(130), None]),
            (0, 110, 5.0, Strategy, vec![Some(130), Some(140)]),
            (0, 120, 5.0, Strategy, vec![Some(150), Some(140)]),
        ]
    );
}
