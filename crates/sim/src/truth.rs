//! Truth of every sensor of the robot at any instant: what it would measure.

use super::motion::Motion;
use super::wave::{Bound, Wave};
use robocache_ops::random::Random;
use robocache_ops::time::Stamp;
use std::sync::Arc;

/// Number of joints.
pub const JOINTS: usize = 14;
/// Names of the joints, in the order of every joint message.
pub const JOINT_NAMES: [&str; JOINTS] = [
    "joint_0", "joint_1", "joint_2", "joint_3", "joint_4", "joint_5", "joint_6", "joint_7",
    "joint_8", "joint_9", "joint_10", "joint_11", "joint_12", "joint_13",
];
/// Standard gravity \[m/s^2\].
pub const GRAVITY: f64 = 9.80665;

/// State of the joints, or bounds of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Joints {
    /// \[rad\]
    pub position: [f64; JOINTS],
    /// \[rad/s\], the derivative of the position.
    pub velocity: [f64; JOINTS],
    /// \[N m\]
    pub effort: [f64; JOINTS],
}

/// Measurement of the IMU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Inertial {
    /// x, y, z, w: sensor to world frame.
    pub orientation: [f64; 4],
    /// In the sensor's frame \[rad/s\].
    pub angular_velocity: [f64; 3],
    /// In the sensor's frame, gravity included: +9.81 upwards at rest (REP 145) \[m/s^2\].
    pub linear_acceleration: [f64; 3],
}

/// A pose.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pose {
    /// \[m\]
    pub position: [f64; 3],
    /// x, y, z, w.
    pub orientation: [f64; 4],
}

/// A velocity, or bounds of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Twist {
    /// \[m/s\]
    pub linear: [f64; 3],
    /// \[rad/s\]
    pub angular: [f64; 3],
}

/// Bounds `M` of the magnitude of every signal's second derivative by time \[unit/s^2\].
///
/// Between two samples `h` seconds apart, linear interpolation of a signal errs by at most `h^2 / 8
/// * M` (the remainder of linear interpolation, any text on numerical analysis). To leading order
/// the same holds for the angle between an orientation and its slerp. Then `M` is the greatest
/// angular acceleration, and the corrections are of order `h^3`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Curvature {
    /// Of [`Truth::joints`].
    pub joints: Joints,
    /// Of [`Truth::wrench`].
    pub wrench: [f64; 6],
    /// Of the IMU's `angular_velocity`.
    pub imu_angular_velocity: [f64; 3],
    /// Of the IMU's `linear_acceleration`.
    pub imu_linear_acceleration: [f64; 3],
    /// Greatest angular acceleration of the IMU's orientation \[rad/s^2\].
    pub imu_orientation: f64,
    /// Of the position in [`Truth::pose`].
    pub pose_position: [f64; 3],
    /// Greatest angular acceleration of the orientation in [`Truth::pose`] \[rad/s^2\].
    pub pose_orientation: f64,
    /// Of [`Truth::twist`].
    pub twist: Twist,
    /// Of the position in [`Truth::odometry`].
    pub odometry_position: [f64; 3],
    /// Greatest angular acceleration of the orientation in [`Truth::odometry`] \[rad/s^2\].
    pub odometry_orientation: f64,
    /// Of the twist in [`Truth::odometry`].
    pub odometry_twist: Twist,
}

/// A joint: its position, and the effort that moves it.
#[derive(Clone, Debug)]
struct Joint {
    position: Wave,
    /// \[kg m^2\]
    inertia: f64,
    /// \[N m s/rad\]
    damping: f64,
    /// \[N m\]
    load: f64,
}

/// All signals of a robot as functions of time. The seed chooses the functions.
#[derive(Clone, Debug)]
pub struct Truth {
    joints: Vec<Joint>,
    wrench: [Wave; 6],
    imu: Motion,
    tool: Motion,
    base: Motion,
}

impl Truth {
    /// The signals of a seed.
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let r = &mut random;
        Truth {
            joints: (0..JOINTS).map(|_| Joint::random(r)).collect(),
            wrench: std::array::from_fn(|i| {
                let size = if i < 3 { 20.0 } else { 2.0 };
                let offset = r.between(-size, size);
                Wave::random(r, offset, &[(size, 0.2, 1.0), (0.2 * size, 1.0, 3.0)])
            }),
            imu: Motion {
                position: [0, 1, 2].map(|_| Wave::random(r, 0.0, &[(0.05, 0.3, 1.5)])),
                angles: [0.3, 0.3, 0.8].map(|a| Wave::random(r, 0.0, &[(a, 0.1, 0.8)])),
            },
            tool: Motion {
                position: [0.5, 0.0, 0.4].map(|at| Wave::random(r, at, &[(0.2, 0.1, 0.7)])),
                angles: [0.5, 0.5, 1.5].map(|a| Wave::random(r, 0.0, &[(a, 0.1, 0.5)])),
            },
            base: Motion {
                position: [3.0, 3.0, 0.0].map(|a| Wave::random(r, 0.0, &[(a, 0.05, 0.15)])),
                angles: [0.0, 0.0, 1.2].map(|a| Wave::random(r, 0.0, &[(a, 0.1, 0.3)])),
            },
        }
    }

    /// The signals of a seed, of a robot that moves in bursts: all of them follow one tempo.
    pub fn in_bursts(seed: u64) -> Self {
        let mut truth = Truth::new(seed);
        truth.follow(&tempo(seed));
        truth
    }

    fn follow(&mut self, tempo: &Arc<Wave>) {
        self.joints.iter_mut().for_each(|joint| joint.position.follow(tempo));
        self.wrench.iter_mut().for_each(|wave| wave.follow(tempo));
        for motion in [&mut self.imu, &mut self.tool, &mut self.base] {
            motion.follow(tempo);
        }
    }

    /// The joints.
    pub fn joints(&self, t: Stamp) -> Joints {
        let mut state =
            Joints { position: [0.0; JOINTS], velocity: [0.0; JOINTS], effort: [0.0; JOINTS] };
        for (i, joint) in self.joints.iter().enumerate() {
            let [position, velocity, acceleration] = joint.position.jet(t);
            state.position[i] = position;
            state.velocity[i] = velocity;
            state.effort[i] = joint.load + joint.inertia * acceleration + joint.damping * velocity;
        }
        state
    }

    /// Force \[N\] and torque \[N m\] at the wrist: fx, fy, fz, tx, ty, tz.
    pub fn wrench(&self, t: Stamp) -> [f64; 6] {
        self.wrench.each_ref().map(|wave| wave.value(t))
    }

    /// The greatest magnitudes that [`Truth::wrench`] takes \[N, N m\].
    pub fn wrench_limits(&self) -> [f64; 6] {
        self.wrench.each_ref().map(|wave| wave.bound(0))
    }

    /// The IMU.
    pub fn imu(&self, t: Stamp) -> Inertial {
        let state = self.imu.state(t);
        Inertial {
            orientation: self.imu.orientation(t),
            angular_velocity: state.rates_body(),
            linear_acceleration: state.specific_force(GRAVITY),
        }
    }

    /// Pose of the tool in the base's frame.
    pub fn pose(&self, t: Stamp) -> Pose {
        let position = self.tool.state(t).position;
        Pose { position, orientation: self.tool.orientation(t) }
    }

    /// Velocity of the tool, in the base's frame: the derivative of [`Truth::pose`].
    pub fn twist(&self, t: Stamp) -> Twist {
        let state = self.tool.state(t);
        Twist { linear: state.velocity_fixed(), angular: state.rates_fixed() }
    }

    /// Pose of the base in the odometry frame, and its velocity in its own frame.
    pub fn odometry(&self, t: Stamp) -> (Pose, Twist) {
        let state = self.base.state(t);
        let pose = Pose { position: state.position, orientation: self.base.orientation(t) };
        (pose, Twist { linear: state.velocity_body(), angular: state.rates_body() })
    }

    /// Bounds of the second derivatives.
    pub fn curvature(&self) -> Curvature {
        let second = |bounds: [Bound; 3]| bounds.map(|bound| bound.0[2]);
        let [imu, tool, base] = [&self.imu, &self.tool, &self.base].map(Motion::bounds);
        let joint = |f: fn(&Joint) -> f64| std::array::from_fn(|i| f(&self.joints[i]));
        Curvature {
            joints: Joints {
                position: joint(|j| j.position.bound(2)),
                velocity: joint(|j| j.position.bound(3)),
                effort: joint(|j| {
                    j.inertia * j.position.bound(4) + j.damping * j.position.bound(3)
                }),
            },
            wrench: self.wrench.each_ref().map(|wave| wave.bound(2)),
            imu_angular_velocity: second(imu.rates_body()),
            imu_linear_acceleration: second(imu.specific_force(Bound([GRAVITY, 0.0, 0.0]))),
            imu_orientation: imu.angular_acceleration(),
            pose_position: second(tool.position),
            pose_orientation: tool.angular_acceleration(),
            twist: Twist {
                linear: second(tool.velocity_fixed()),
                angular: second(tool.rates_fixed()),
            },
            odometry_position: second(base.position),
            odometry_orientation: base.angular_acceleration(),
            odometry_twist: Twist {
                linear: second(base.velocity_body()),
                angular: second(base.rates_body()),
            },
        }
    }
}

/// The tempo of a seed's robot, for all that moves.
pub(super) fn tempo(seed: u64) -> Arc<Wave> {
    Arc::new(Wave::random_tempo(&mut Random::keyed(seed, [u64::MAX, 3])))
}

impl Joint {
    fn random(random: &mut Random) -> Self {
        let offset = random.between(-1.0, 1.0);
        Joint {
            position: Wave::random(random, offset, &[(0.8, 0.1, 0.6), (0.1, 1.0, 3.0)]),
            inertia: random.between(0.05, 0.5),
            damping: random.between(0.1, 1.0),
            load: random.between(-10.0, 10.0),
        }
    }
}
