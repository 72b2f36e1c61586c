//! The robot: its truth as messages.

use super::camera::{Camera, View};
use super::lidar::{FIELDS, Lidar, POINT_STEP, Scene};
use super::options::{OptionError, SimOptions};
use super::schedule::{Schedule, SensorMessage};
use super::stream::Stream;
use super::truth::{self, JOINT_NAMES, Truth};
use robocache_core::cdr::messages;
use robocache_ops::random::Random;
use robocache_ops::time::{NANOS_PER_S, Stamp, TickGrid};

/// Place of the lidar on the robot \[m\].
const LIDAR_PLACE_M: [f64; 3] = [0.25, 0.0, 0.5];

/// A synthetic robot. The same options give the same bytes, always.
#[derive(Clone, Debug)]
pub struct Robot {
    options: SimOptions,
    truth: Truth,
    front: Camera,
    wrist: Camera,
    lidar: Lidar,
}

impl Robot {
    /// Checks the options and draws the scene, which takes some milliseconds.
    pub fn new(options: SimOptions) -> Result<Self, OptionError> {
        options.check()?;
        let width = options.image_width;
        let height = options.image_height;
        let turn_ns = options.grid(Stream::Lidar).map_or(NANOS_PER_S / 10, TickGrid::period_ns);
        // A simulator sees all points at one instant.
        let scan_ns = if options.isaac { 0 } else { turn_ns };
        // One generator per part, so that the size of an image does not change what the lidar sees.
        let part = |part| Random::keyed(options.seed, [u64::MAX, part]);
        let mut robot = Robot {
            truth: Truth::new(options.seed),
            front: Camera::front(&mut part(0), width, height),
            wrist: Camera::wrist(&mut part(1), width, height),
            lidar: Lidar::new(&mut part(2), options.lidar_rings, options.lidar_columns, scan_ns),
            options,
        };
        if robot.options.bursts {
            let tempo = truth::tempo(robot.options.seed);
            robot.truth = Truth::in_bursts(robot.options.seed);
            robot.front.follow(&tempo);
            robot.wrist.follow(&tempo);
            robot.lidar.follow(&tempo);
        }
        Ok(robot)
    }

    /// The options that it was made with.
    pub fn options(&self) -> &SimOptions {
        &self.options
    }

    /// The signals.
    pub fn truth(&self) -> &Truth {
        &self.truth
    }

    /// All events from `start` on the robot's clock.
    pub fn schedule(&self, start: Stamp) -> Schedule {
        Schedule::new(&self.options, start)
    }

    /// Moving content of the front camera's image.
    pub fn view_front(&self, t: Stamp) -> View {
        self.front.view(t)
    }

    /// Moving content of the wrist camera's image.
    pub fn view_wrist(&self, t: Stamp) -> View {
        self.wrist.view(t)
    }

    /// Places of the moving objects that the lidar sees. A point of a scan shows them at the scan's stamp plus the
    /// point's `time`.
    pub fn scene(&self, t: Stamp) -> Scene {
        self.lidar.scene(t)
    }

    /// The CDR bytes of an event's message, written into the memory of `buffer`.
    pub fn message(&self, event: &SensorMessage, buffer: Vec<u8>) -> Vec<u8> {
        let stamp = event.stamp;
        let t = event.sampled;
        let frame_id = event.stream.frame_id();
        match event.stream {
            Stream::Clock => messages::Clock { clock: stamp }.to_cdr(buffer),
            Stream::Joints => {
                let joints = self.truth.joints(t);
                let name = &JOINT_NAMES[..];
                let position = &joints.position[..];
                let velocity = &joints.velocity[..];
                let effort = &joints.effort[..];
                messages::JointState { stamp, frame_id, name, position, velocity, effort }
                    .to_cdr(buffer)
            }
            Stream::Wrench => {
                let [fx, fy, fz, tx, ty, tz] = self.truth.wrench(t);
                let force = [fx, fy, fz];
                let torque = [tx, ty, tz];
                messages::WrenchStamped { stamp, frame_id, force, torque }.to_cdr(buffer)
            }
            Stream::Imu => {
                let imu = self.truth.imu(t);
                messages::Imu {
                    stamp,
                    frame_id,
                    orientation: imu.orientation,
                    angular_velocity: imu.angular_velocity,
                    linear_acceleration: imu.linear_acceleration,
                }
                .to_cdr(buffer)
            }
            Stream::Pose | Stream::Twist | Stream::Odom => self.motion_message(event, buffer),
            Stream::CameraFront => self.image_message(&self.front, event, buffer),
            Stream::CameraWrist => self.image_message(&self.wrist, event, buffer),
            Stream::Depth => self.depth_message(event, buffer),
            Stream::Tf => messages::TfMessage {
                stamp,
                frame_id,
                child_frame_id: Stream::Lidar.frame_id(),
                translation: LIDAR_PLACE_M,
                rotation: [0.0, 0.0, 0.0, 1.0],
            }
            .to_cdr(buffer),
            Stream::Lidar if self.options.isaac => self.plain_cloud_message(event, buffer),
            Stream::Lidar => self.cloud_message(event, buffer),
        }
    }

    fn motion_message(&self, event: &SensorMessage, buffer: Vec<u8>) -> Vec<u8> {
        let stamp = event.stamp;
        let t = event.sampled;
        let frame_id = event.stream.frame_id();
        match event.stream {
            Stream::Pose => {
                let pose = self.truth.pose(t);
                let position = pose.position;
                let orientation = pose.orientation;
                messages::PoseStamped { stamp, frame_id, position, orientation }.to_cdr(buffer)
            }
            Stream::Twist => {
                let twist = self.truth.twist(t);
                let linear = twist.linear;
                let angular = twist.angular;
                messages::TwistStamped { stamp, frame_id, linear, angular }.to_cdr(buffer)
            }
            _ => {
                let (pose, twist) = self.truth.odometry(t);
                messages::Odometry {
                    stamp,
                    frame_id,
                    child_frame_id: "base",
                    position: pose.position,
                    orientation: pose.orientation,
                    linear: twist.linear,
                    angular: twist.angular,
                }
                .to_cdr(buffer)
            }
        }
    }

    fn image_message(&self, camera: &Camera, event: &SensorMessage, buffer: Vec<u8>) -> Vec<u8> {
        let width = self.options.image_width;
        let height = self.options.image_height;
        messages::Image {
            stamp: event.stamp,
            frame_id: event.stream.frame_id(),
            height,
            width,
            encoding: "rgb8",
            step: 3 * width,
        }
        .to_cdr(buffer, |data| camera.render(event.sampled, data))
    }

    fn depth_message(&self, event: &SensorMessage, buffer: Vec<u8>) -> Vec<u8> {
        let width = self.options.image_width;
        let height = self.options.image_height;
        messages::Image {
            stamp: event.stamp,
            frame_id: event.stream.frame_id(),
            height,
            width,
            encoding: "32FC1",
            step: 4 * width,
        }
        .to_cdr(buffer, |data| self.front.render_depth(event.sampled, data))
    }

    /// The cloud as points of 12 bytes, in no order.
    fn plain_cloud_message(&self, event: &SensorMessage, buffer: Vec<u8>) -> Vec<u8> {
        const STEP: usize = 12;
        let (height, width) = self.lidar.size();
        let points = height * width;
        messages::PointCloud2 {
            stamp: event.stamp,
            frame_id: event.stream.frame_id(),
            height: 1,
            width: points,
            fields: &FIELDS[..3],
            is_bigendian: false,
            point_step: STEP as u32,
            row_step: STEP as u32 * points,
            is_dense: true,
        }
        .to_cdr(buffer, |data| {
            let start = data.len();
            self.lidar.scan(event.sampled, data);
            for point in 0..points as usize {
                let from = start + point * POINT_STEP as usize;
                data.copy_within(from..from + STEP, start + point * STEP);
            }
            data.truncate(start + points as usize * STEP);
        })
    }

    fn cloud_message(&self, event: &SensorMessage, buffer: Vec<u8>) -> Vec<u8> {
        let (height, width) = self.lidar.size();
        messages::PointCloud2 {
            stamp: event.stamp,
            frame_id: event.stream.frame_id(),
            height,
            width,
            fields: &FIELDS,
            is_bigendian: false,
            point_step: POINT_STEP,
            row_step: POINT_STEP * width,
            is_dense: true,
        }
        .to_cdr(buffer, |data| self.lidar.scan(event.sampled, data))
    }
}
