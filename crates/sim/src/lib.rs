//! A reproducible synthetic robot for demos, tests and benchmarks.
//!
//! Every signal is an analytic function of time: [`Truth`], and the moving scenes of [`Robot`]. So
//! the truth at any instant is known, and with it what a fused tensor must hold. A [`Schedule`]
//! says when each message is sampled, stamped and sent. It adds the faults of the [`SimOptions`]:
//! jitter, drops, reordering, a skewed clock, a jump back in time. [`Robot::message`] makes an
//! [`SensorMessage`]'s CDR bytes, and [`drive()`] sends them in real time. A second arm, the [`Follower`],
//! is no function of time: it follows commands.
//!
//! Nominal samples are at whole multiples of the stream's period on the robot's clock. Contents and
//! faults follow from the seed, the stream and the number of the sample alone. So two runs have the
//! same messages at the instants that both cover.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod camera;
mod drive;
mod follower;
mod lidar;
mod motion;
mod options;
mod robot;
mod schedule;
mod stream;
mod truth;
mod wave;

pub use camera::{Shape, View};
pub use drive::{Counts, Pace, SentCounts, drive, drive_messages};
pub use follower::{FOLLOWER_STEP_NS, Followed, Follower, FollowerCounts, FollowerModel};
pub use lidar::{Boxed, Scene};
pub use options::{OptionError, Reliability, SimOptions, without_ros_arguments};
pub use robot::Robot;
pub use schedule::{Faults, Schedule, SensorMessage};
pub use stream::Stream;
pub use truth::{Curvature, GRAVITY, Inertial, JOINT_NAMES, JOINTS, Joints, Pose, Truth, Twist};
pub use wave::Wave;
