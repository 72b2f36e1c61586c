//! Rows that have left their rings, for those who keep them.

use std::sync::Mutex;

use common::trajectory;
use robocache_core::pipeline::{LeftRow, RowSink};
use robocache_core::ring::UntilNext;
use robocache_ops::device::RowMemory;

use super::clouds::cloud;
use super::*;

/// A row: epoch, stamp \[ms\], first value, what follows it, and until when each cloud may be used \[ms\].
type KeptRow = (u64, i64, f32, UntilNext, Vec<Option<i64>>);

/// From when to when ticks saw a row \[ms\], and whether it was replaced.
type Seen = (i64, i64, bool);

#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<(KeptRow, Seen)>>>);

impl RowSink for Sink {
    fn row(&self, row: &LeftRow<'_>, bytes: &mut RowMemory) {
        let value = f32::from_le_bytes(*bytes.first_chunk().unwrap());
        let until = row.until.iter().map(|until| until.map(|until| until.nanos() / MS)).collect();
        let LeftRow { entry, epoch, left, replaced, .. } = row;
        let kept = (epoch.number(), entry.stamp.nanos() / MS, value, entry.until_next, until);
        let ms = |at: Stamp| match at {
            Stamp::MIN | Stamp::MAX => at.nanos(),
            at => at.nanos() / MS,
        };
        let seen = (ms(entry.received), ms(*left), *replaced);
        self.0.lock().unwrap().push((kept, seen));
    }
}

fn keep(pipeline: &mut Pipeline) -> Sink {
    let sink = Sink::default();
    pipeline.keep_rows(Box::new(sink.clone()));
    sink
}

impl Sink {
    fn taken(&self) -> Vec<(KeptRow, Seen)> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }

    /// Epoch, stamp and value of each row, and when ticks saw it.
    fn rows(&self) -> Vec<(u64, i64, f32, Seen)> {
        let all = self.taken().into_iter();
        all.map(|((epoch, ms, value, ..), seen)| (epoch, ms, value, seen)).collect()
    }
}

const LAST: i64 = i64::MAX;

#[test]
fn a_row_says_when_ticks_saw_it() {
    let mut pipeline = one_joint("max_age_ms: 50\nring_rows: 2\ndtype: f32", "");
    let sink = keep(&mut pipeline);
    let push = |ms: i64, received_ms: i64, value: f64, epoch: Epoch| {
        let message = joint_state(Stamp::from_nanos(ms * MS), &["a"], &[value]);
        let arrival = at(Stamp::from_nanos(received_ms * MS));
        pipeline.push(FIRST, &message, Arrival { epoch, ..arrival })
    };
    let first = Epoch::default();
    push(10, 11, 1.0, first).unwrap();
    push(30, 31, 3.0, first).unwrap();
    // Behind the newest: the oldest leaves. Then a row with an equal stamp replaces one, and an older row is refused.
    push(20, 35, 2.0, first).unwrap();
    assert_eq!(sink.rows(), [(0, 10, 1.0, (11, 35, false))]);
    push(20, 40, 2.5, first).unwrap();
    assert_eq!(sink.rows(), [(0, 20, 2.0, (35, 40, true))]);
    assert!(push(5, 41, 0.5, first).is_err());
    assert!(sink.rows().is_empty());
    // Another epoch: no tick of the one before sees its end.
    let next = first.next(Some(Stamp::from_nanos(30 * MS)));
    push(7, 8, 7.0, next).unwrap();
    assert_eq!(sink.rows(), [(0, 20, 2.5, (40, LAST, false)), (0, 30, 3.0, (31, LAST, false))]);
    pipeline.finish_rows();
    assert_eq!(sink.rows(), [(1, 7, 7.0, (8, LAST, false))]);
    assert!(pipeline.rows_failed().is_none());
    // All slots are spare again.
    for ms in 40..60 {
        push(ms, ms, 0.0, next).unwrap();
    }
    assert_eq!(sink.rows().len(), 18);
    // A message that waited is seen later than it arrived.
    let message = joint_state(Stamp::from_nanos(60 * MS), &["a"], &[6.0]);
    let seen_from = Some(Stamp::from_nanos(69 * MS));
    let arrival = Arrival { epoch: next, seen_from, ..at(Stamp::from_nanos(61 * MS)) };
    pipeline.push(FIRST, &message, arrival).unwrap();
    pipeline.finish_rows();
    let last = sink.rows();
    assert_eq!(last[0], (1, 58, 0.0, (58, 69, false)));
    assert_eq!(last.last(), Some(&(1, 60, 6.0, (69, LAST, false))));
}

#[test]
fn points_of_a_plan_that_another_replaces_are_kept_as_replaced() {
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
    for (start_ms, first) in [(1000, 1.0), (1100, 5.0)] {
        let points: Vec<_> = (1..=3).map(|k| (50 * k * MS, vec![first + k as f64])).collect();
        let message = trajectory(Stamp::from_nanos(start_ms * MS), &["a"], &points);
        pipeline.push(FIRST, &message, at(Stamp::from_nanos((start_ms + 1) * MS))).unwrap();
    }
    assert_eq!(sink.rows(), [(0, 1150, 4.0, (1001, 1101, true))]);
    pipeline.finish_rows();
    let old = (1001, LAST, false);
    let new = (1101, LAST, false);
    let expected = [(1050, 2.0, old), (1100, 3.0, old), (1150, 6.0, new), (1200, 7.0, new)];
    let found: Vec<_> =
        sink.rows().into_iter().map(|(_, ms, value, seen)| (ms, value, seen)).collect();
    assert_eq!((&found[..4], found.len()), (&expected[..], 5));
    // A stop after a jump: the plan before is held, and nothing follows.
    let points = [(0, vec![1.0]), (50 * MS, vec![2.0])];
    let plan = trajectory(Stamp::from_nanos(2000 * MS), &["a"], &points);
    pipeline.push(FIRST, &plan, at(Stamp::from_nanos(2000 * MS))).unwrap();
    let next = trajectory(Stamp::from_nanos(2200 * MS), &["a"], &[(0, vec![3.0])]);
    pipeline.push(FIRST, &next, at(Stamp::from_nanos(2200 * MS))).unwrap();
    pipeline.finish_rows();
    let follows = sink.taken().into_iter().map(|((_, ms, _, next, _), seen)| (ms, next, seen));
    use UntilNext::{Held, Strategy};
    // What follows a row may change: then there are two versions of it.
    assert_eq!(
        follows.collect::<Vec<_>>(),
        [
            (2050, Strategy, (2000, 2200, true)),
            (2000, Strategy, (2000, LAST, false)),
            (2050, Held, (2200, LAST, false)),
            (2200, Strategy, (2200, LAST, false)),
        ]
    );
}

#[test]
fn a_merged_row_that_was_made_again_is_kept_twice() {
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
    for (input, ms, received_ms, points) in [(0, 100, 101, 2), (0, 120, 121, 2), (1, 110, 130, 3)] {
        let message = cloud(Stamp::from_nanos(ms * MS), &vec![[0.5; 4]; points]);
        let arrival = at(Stamp::from_nanos(received_ms * MS));
        pipeline.push(InputId::new(input), &message, arrival).unwrap();
    }
    pipeline.finish_rows();
    use UntilNext::Strategy;
    assert_eq!(
        sink.taken(),
        [
            ((0, 120, 2.0, Strategy, vec![Some(150), None]), (121, 130, true)),
            ((0, 100, 2.0, Strategy, vec![Some(130), None]), (101, LAST, false)),
            ((0, 110, 5.0, Strategy, vec![Some(130), Some(140)]), (130, LAST, false)),
            ((0, 120, 5.0, Strategy, vec![Some(150), Some(140)]), (130, LAST, false)),
        ]
    );
}
