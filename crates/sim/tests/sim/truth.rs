//! Derivatives are right, and bounds hold and are tight enough to matter.

use super::EPOCH;
use robocache_ops::time::{NANOS_PER_MS, Stamp};
use robocache_sim::{GRAVITY, JOINTS, Truth};

/// Instants over some seconds, on no grid.
fn instants(count: i64) -> impl Iterator<Item = Stamp> {
    (0..count).map(|i| EPOCH.offset(i * 7_919_993))
}

/// All scalar signals at an instant, in the order of [`curvatures`].
fn signals(truth: &Truth, t: Stamp) -> Vec<f64> {
    let joints = truth.joints(t);
    let imu = truth.imu(t);
    let odometry = truth.odometry(t);
    let twist = truth.twist(t);
    [
        &joints.position[..],
        &joints.velocity,
        &joints.effort,
        &truth.wrench(t),
        &imu.angular_velocity,
        &imu.linear_acceleration,
        &truth.pose(t).position,
        &twist.linear,
        &twist.angular,
        &odometry.0.position,
        &odometry.1.linear,
        &odometry.1.angular,
    ]
    .concat()
}

fn curvatures(truth: &Truth) -> Vec<f64> {
    let c = truth.curvature();
    [
        &c.joints.position[..],
        &c.joints.velocity,
        &c.joints.effort,
        &c.wrench,
        &c.imu_angular_velocity,
        &c.imu_linear_acceleration,
        &c.pose_position,
        &c.twist.linear,
        &c.twist.angular,
        &c.odometry_position,
        &c.odometry_twist.linear,
        &c.odometry_twist.angular,
    ]
    .concat()
}

#[test]
fn joint_velocity_is_the_derivative_of_position_at_stamps_of_this_century() {
    let truth = Truth::new(3);
    const HALF: i64 = 50_000; // 50 us
    for t in instants(500) {
        let before = truth.joints(t.offset(-HALF));
        let now = truth.joints(t);
        let after = truth.joints(t.offset(HALF));
        for i in 0..JOINTS {
            let slope = (after.position[i] - before.position[i]) / (2.0 * HALF as f64 * 1e-9);
            assert!((slope - now.velocity[i]).abs() < 1e-5, "joint {i} at {t}");
        }
    }
}

#[test]
fn a_robot_in_bursts_has_the_derivatives_of_its_positions_and_stops_at_times() {
    let truth = Truth::in_bursts(3);
    const HALF: i64 = 50_000;
    let mut slowest = f64::MAX;
    let mut fastest = 0.0_f64;
    for t in instants(3000) {
        let before = truth.joints(t.offset(-HALF));
        let now = truth.joints(t);
        let after = truth.joints(t.offset(HALF));
        for i in 0..JOINTS {
            let slope = (after.position[i] - before.position[i]) / (2.0 * HALF as f64 * 1e-9);
            // The tempo's time is in whole nanoseconds.
            assert!((slope - now.velocity[i]).abs() < 2e-4, "joint {i} at {t}");
        }
        let speed = now.velocity.iter().map(|v| v * v).sum::<f64>().sqrt();
        (slowest, fastest) = (slowest.min(speed), fastest.max(speed));
    }
    assert!(slowest < 0.2 * fastest, "{slowest} to {fastest}");
}

#[test]
fn twists_are_the_derivatives_of_poses_and_imu_rates_of_its_orientation() {
    let truth = Truth::new(4);
    const HALF: i64 = 100_000;
    let seconds = 2.0 * HALF as f64 * 1e-9;
    for t in instants(300) {
        let a = t.offset(-HALF);
        let b = t.offset(HALF);
        let pose = truth.pose(t);
        let twist = truth.twist(t);
        let pose_a = truth.pose(a);
        let pose_b = truth.pose(b);
        let slope = difference(pose_b.position, pose_a.position).map(|d| d / seconds);
        assert_near(slope, twist.linear, 1e-6);
        // Small turn from a to b, in the body's frame: 2 * vec(conj(qa) * qb).
        let turn = |qa, qb| rotation_vector(product(conjugate(qa), qb)).map(|d| d / seconds);
        let body = turn(pose_a.orientation, pose_b.orientation);
        assert_near(rotate(pose.orientation, body), twist.angular, 1e-6);

        let imu = truth.imu(t);
        let rates = turn(truth.imu(a).orientation, truth.imu(b).orientation);
        assert_near(rates, imu.angular_velocity, 1e-6);

        let ((odom_a, _), (odom, twist), (odom_b, _)) =
            (truth.odometry(a), truth.odometry(t), truth.odometry(b));
        let slope = difference(odom_b.position, odom_a.position).map(|d| d / seconds);
        assert_near(slope, rotate(odom.orientation, twist.linear), 1e-6);
        assert_near(turn(odom_a.orientation, odom_b.orientation), twist.angular, 1e-6);
    }
}

#[test]
fn the_accelerometer_feels_gravity_upwards() {
    let truth = Truth::new(5);
    for t in instants(300) {
        let imu = truth.imu(t);
        let norm = imu.orientation.iter().map(|v| v * v).sum::<f64>();
        assert!((norm - 1.0).abs() < 1e-12);
        let world = rotate(imu.orientation, imu.linear_acceleration);
        // The rest is the sensor's own motion: 5 cm at 1.5 Hz at most.
        let motion = 0.05 * (std::f64::consts::TAU * 1.5).powi(2);
        assert_near(world, [0.0, 0.0, GRAVITY], motion);
    }
}

#[test]
fn linear_interpolation_errs_within_the_curvature_bounds_of_bursts() {
    let truth = Truth::in_bursts(6);
    let bounds = curvatures(&truth);
    const GAP: i64 = 20 * NANOS_PER_MS;
    let scale = (GAP as f64 * 1e-9).powi(2) / 8.0;
    for t in instants(1000) {
        let a = signals(&truth, t);
        let b = signals(&truth, t.offset(GAP));
        let middle = signals(&truth, t.offset(GAP / 2));
        for (i, bound) in bounds.iter().enumerate() {
            let error = (0.5 * (a[i] + b[i]) - middle[i]).abs();
            assert!(error <= scale * bound + 1e-7, "signal {i}: {error} > {}", scale * bound);
        }
    }
}

#[test]
fn linear_interpolation_errs_within_the_curvature_bounds_and_they_are_tight() {
    let truth = Truth::new(6);
    let bounds = curvatures(&truth);
    const GAP: i64 = 20 * NANOS_PER_MS;
    let scale = (GAP as f64 * 1e-9).powi(2) / 8.0;
    let mut worst = vec![0.0f64; bounds.len()];
    for t in instants(4000) {
        let a = signals(&truth, t);
        let b = signals(&truth, t.offset(GAP));
        let middle = signals(&truth, t.offset(GAP / 2));
        for (i, worst) in worst.iter_mut().enumerate() {
            *worst = worst.max((0.5 * (a[i] + b[i]) - middle[i]).abs());
        }
    }
    for (i, (worst, bound)) in worst.iter().zip(&bounds).enumerate() {
        assert!(*worst <= scale * bound + 1e-12, "signal {i}: {worst} > {}", scale * bound);
        // A bound far above the actual errors would let wrong values pass.
        let constant = *bound < 1e-12;
        assert!(constant || *worst >= 0.03 * scale * bound, "signal {i}: {worst}, {bound}");
    }
}

#[test]
fn slerp_errs_within_the_angular_acceleration_bound() {
    let truth = Truth::new(7);
    let curvature = truth.curvature();
    const GAP: i64 = 20 * NANOS_PER_MS;
    let scale = (GAP as f64 * 1e-9).powi(2) / 8.0;
    let errors = |orientation: &dyn Fn(Stamp) -> [f64; 4]| {
        instants(3000).fold(0.0f64, |worst, t| {
            // Half way, slerp is the normalised sum.
            let a = orientation(t);
            let b = orientation(t.offset(GAP));
            let sum: [f64; 4] = std::array::from_fn(|i| a[i] + b[i]);
            let norm = sum.iter().map(|v| v * v).sum::<f64>().sqrt();
            let middle = orientation(t.offset(GAP / 2));
            let error = rotation_vector(product(conjugate(middle), sum.map(|v| v / norm)));
            worst.max(error.iter().map(|v| v * v).sum::<f64>().sqrt())
        })
    };
    for (worst, bound) in [
        (errors(&|t| truth.imu(t).orientation), curvature.imu_orientation),
        (errors(&|t| truth.pose(t).orientation), curvature.pose_orientation),
        (errors(&|t| truth.odometry(t).0.orientation), curvature.odometry_orientation),
    ] {
        assert!(worst <= 1.01 * scale * bound, "{worst} > {}", scale * bound);
        assert!(worst >= 0.03 * scale * bound, "{worst} is far below {}", scale * bound);
    }
}

#[test]
fn the_wrench_stays_within_its_limits_and_gets_near_them() {
    let truth = Truth::new(8);
    let limits = truth.wrench_limits();
    let mut worst = [0.0f64; 6];
    for t in instants(5000) {
        for (worst, value) in worst.iter_mut().zip(truth.wrench(t)) {
            *worst = worst.max(value.abs());
        }
    }
    for (worst, limit) in worst.iter().zip(limits) {
        assert!(*worst <= limit && *worst > 0.8 * limit, "{worst} of {limit}");
    }
}

fn difference(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    std::array::from_fn(|i| a[i] - b[i])
}

fn assert_near(a: [f64; 3], b: [f64; 3], tolerance: f64) {
    let near = difference(a, b).iter().all(|d| d.abs() <= tolerance);
    assert!(near, "{a:?} is not {b:?} within {tolerance}");
}

fn conjugate([x, y, z, w]: [f64; 4]) -> [f64; 4] {
    [-x, -y, -z, w]
}

/// Hamilton's product.
fn product([ax, ay, az, aw]: [f64; 4], [bx, by, bz, bw]: [f64; 4]) -> [f64; 4] {
    [
        aw * bx + ax * bw + ay * bz - az * by,
        aw * by - ax * bz + ay * bw + az * bx,
        aw * bz + ax * by - ay * bx + az * bw,
        aw * bw - ax * bx - ay * by - az * bz,
    ]
}

/// The rotation vector of a small rotation.
fn rotation_vector([x, y, z, w]: [f64; 4]) -> [f64; 3] {
    [x, y, z].map(|v| 2.0 * v * w.signum())
}

fn rotate(q: [f64; 4], [x, y, z]: [f64; 3]) -> [f64; 3] {
    let [x, y, z, _] = product(product(q, [x, y, z, 0.0]), conjugate(q));
    [x, y, z]
}
