//! Aligned values, compared with the truth. The simulated robot's signals are analytic functions of
//! time. A value is interpolated between samples `h` apart. It may differ from the function at its
//! target by `h^2 / 8 * max|f''|` and the rounding of `f32`, and by nothing else.

use crate::common::{pipeline, values};
use robocache_core::pipeline::{Arrival, TickOutcome};
use robocache_core::spec::{InputId, SegmentId};
use robocache_ops::time::{Epoch, Stamp};
use robocache_sim::{Robot, Schedule, SimOptions, Stream};

const CONFIG: &str = "
rate_hz: 100
lag_ms: 60
streams:
  joints:
    type: sensor_msgs/msg/JointState
    topic: /joint_states
    joints: [joint_0, joint_1, joint_2, joint_3, joint_4, joint_5, joint_6, joint_7, joint_8,
             joint_9, joint_10, joint_11, joint_12, joint_13]
    fields: [position, velocity]
    history: {steps: 4, step_ms: 7.3}
    max_age_ms: 50
    max_gap_ms: 40
    stamp_offset_ms: OFFSET
  wrench:
    type: geometry_msgs/msg/WrenchStamped
    topic: /wrench
    max_age_ms: 50
    max_gap_ms: 40
  imu:
    type: sensor_msgs/msg/Imu
    topic: /imu/data
    max_age_ms: 50
    max_gap_ms: 40
";
const STREAMS: [Stream; 3] = [Stream::Joints, Stream::Wrench, Stream::Imu];

/// Findings of a run, over all streams.
#[derive(Debug, Default)]
struct Findings {
    steps: usize,
    valid: usize,
    interpolated: usize,
    /// Valid values further from the truth than the bound.
    wrong: usize,
    /// The greatest error, as a share of its bound.
    worst: f64,
}

fn options() -> SimOptions {
    SimOptions {
        seed: 11,
        joints_hz: 200.0,
        wrench_hz: 150.0,
        imu_hz: 100.0,
        stamp_jitter_ms: 2.0,
        send_jitter_ms: 6.0,
        drop_share: 0.05,
        reorder_share: 0.1,
        ..SimOptions::default()
    }
}

/// Values at their target and the greatest second derivative of each.
fn truth(robot: &Robot, stream: Stream, t: Stamp) -> Vec<(f64, f64)> {
    let truth = robot.truth();
    let bend = robot.truth().curvature();
    match stream {
        Stream::Joints => {
            let joints = truth.joints(t);
            let position = joints.position.into_iter().zip(bend.joints.position);
            position.chain(joints.velocity.into_iter().zip(bend.joints.velocity)).collect()
        }
        Stream::Wrench => truth.wrench(t).into_iter().zip(bend.wrench).collect(),
        _ => {
            let imu = truth.imu(t);
            let turn = imu.orientation.into_iter().zip([bend.imu_orientation; 4]);
            let rates = imu.angular_velocity.into_iter().zip(bend.imu_angular_velocity);
            let pushes = imu.linear_acceleration.into_iter().zip(bend.imu_linear_acceleration);
            turn.chain(rates).chain(pushes).collect()
        }
    }
}

/// Distance of the samples around `target` [ns]; 0 on a sample, `None` if there are not two.
fn bracket(stamps: &[i64], target: i64) -> Option<i64> {
    let before = stamps.iter().filter(|s| **s <= target).max()?;
    if *before == target {
        return Some(0);
    }
    Some(stamps.iter().filter(|s| **s > target).min()? - before)
}

fn check_step(
    robot: &Robot,
    stream: Stream,
    target: i64,
    gap_ns: i64,
    got: &[f32],
    found: &mut Findings,
) {
    let gap = gap_ns as f64 * 1e-9;
    let mut expected = truth(robot, stream, Stamp::from_nanos(target));
    assert_eq!(got.len(), expected.len());
    if stream == Stream::Imu {
        // q and -q are the same rotation.
        let dot: f64 = (0..4).map(|i| expected[i].0 * f64::from(got[i])).sum();
        (0..4).for_each(|i| expected[i].0 *= dot.signum());
    }
    for (got, (expected, bend)) in got.iter().zip(expected) {
        // Three roundings of f32, and for slerp the error of its polynomial, 2e-7.
        let rounding = 3.0 * f64::from(f32::EPSILON) * expected.abs().max(1.0);
        let bound = 1.02 * gap * gap / 8.0 * bend + rounding;
        let error = (f64::from(*got) - expected).abs();
        found.worst = found.worst.max(error / bound);
        found.wrong += usize::from(error > bound);
    }
}

/// Runs the simulated robot through a pipeline for some seconds and checks every valid value.
fn run(options: SimOptions, offset_ms: f64) -> Findings {
    let pipeline = pipeline(&CONFIG.replace("OFFSET", &offset_ms.to_string()));
    let robot = Robot::new(options.clone()).unwrap();
    let start = Stamp::from_nanos(1_795_000_000_000_000_000);
    let mut message = pipeline.new_message();
    let mut found = Findings::default();
    let mut stamps: [Vec<i64>; 3] = Default::default();
    let mut bytes = Vec::new();
    let grid = pipeline.config().grid;
    let mut tick = grid.tick_at(start) + 50;
    for event in Schedule::of_streams(&options, start, &STREAMS) {
        let now = start.offset(event.due_ns);
        while grid.stamp_of(tick) <= now {
            assert_eq!(
                pipeline.tick(tick, Epoch::default(), &mut message).unwrap(),
                TickOutcome::Ready
            );
            for (index, stream) in STREAMS.into_iter().enumerate() {
                let spec = &pipeline.config().streams[index];
                let all = values(&pipeline, &message, SegmentId::new(index));
                let rows = all.chunks_exact(all.len() / spec.history_steps);
                for (step, (row, state)) in
                    rows.zip(message.steps(SegmentId::new(index))).enumerate()
                {
                    let back = (spec.history_steps - 1 - step) as i64 * spec.history_step_ns;
                    let target = grid.stamp_of(tick).nanos() - 60_000_000 - back;
                    found.steps += 1;
                    if !state.valid {
                        assert!(row.iter().all(|v| *v == 0.0), "invalid steps are zeros");
                        continue;
                    }
                    let gap = bracket(&stamps[index], target).expect("a valid step has a bracket");
                    found.valid += 1;
                    found.interpolated += usize::from(gap > 0);
                    check_step(&robot, stream, target, gap, row, &mut found);
                }
            }
            tick += 1;
        }
        if event.due_ns > 20_000_000_000 {
            break;
        }
        let index = STREAMS.iter().position(|s| *s == event.stream).unwrap();
        bytes = robot.message(&event, bytes);
        let arrival = Arrival { stamp: Some(now), ..Arrival::default() };
        let accepted = pipeline.push(InputId::new(index), &bytes, arrival).unwrap();
        stamps[index].push(accepted.stamp.unwrap().nanos());
    }
    found
}

#[test]
fn every_valid_value_is_the_function_at_its_target_within_the_bound() {
    let found = run(options(), 0.0);
    assert_eq!(found.wrong, 0, "{found:?}");
    // The test can fail: most steps are valid and interpolated, and the bound is tight.
    assert!(found.steps > 11_000 && found.valid * 100 > found.steps * 97, "{found:?}");
    assert!(found.interpolated * 100 > found.valid * 99, "{found:?}");
    assert!(found.worst > 0.5, "{found:?}");
}

#[test]
fn a_stream_that_is_shifted_by_five_milliseconds_fails_the_bound() {
    let skewed = SimOptions { skew_stream: Some(Stream::Joints), skew_ms: 5.0, ..options() };
    let found = run(skewed.clone(), 0.0);
    assert!(found.wrong > found.valid, "{found:?}");
    // The configured offset corrects the shift.
    let mended = run(skewed, -5.0);
    assert_eq!(mended.wrong, 0, "{mended:?}");
}
