//! Options of the simulated robot: what it publishes, and what goes wrong with it.

use super::follower::{Followed, FollowerModel};
use super::stream::Stream;
use robocache_ops::time::{NANOS_PER_MS, NANOS_PER_S, TickGrid};
use std::ffi::OsString;
use std::path::PathBuf;

/// Everything that can be chosen; each field is also an option of `sensor_sim`.
#[derive(Clone, Debug, PartialEq, clap::Args)]
// The comments are the --help text, where a unit in brackets must not be escaped.
#[allow(rustdoc::broken_intra_doc_links)]
#[allow(clippy::struct_excessive_bools)] // each is an option of the command line
pub struct SimOptions {
    /// Which robot: its signals, scene and faults all follow from this number.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,

    /// Rate of /camera_front/image_raw [Hz]; 0: none.
    #[arg(long, value_name = "HZ", default_value_t = 30.0)]
    pub camera_front_hz: f64,
    /// Rate of /camera_wrist/image_raw [Hz]; 0: none.
    #[arg(long, value_name = "HZ", default_value_t = 30.0, default_value_if("isaac", "true", "0"))]
    pub camera_wrist_hz: f64,
    /// Rate of /lidar/points [Hz]; 0: none.
    #[arg(long, value_name = "HZ", default_value_t = 10.0)]
    pub lidar_hz: f64,
    /// Rate of /joint_states [Hz]; 0: none.
    #[arg(
        long,
        value_name = "HZ",
        default_value_t = 500.0,
        default_value_if("isaac", "true", "60")
    )]
    pub joints_hz: f64,
    /// Rate of /wrench [Hz]; 0: none.
    #[arg(
        long,
        value_name = "HZ",
        default_value_t = 500.0,
        default_value_if("isaac", "true", "0")
    )]
    pub wrench_hz: f64,
    /// Rate of /imu/data [Hz]; 0: none.
    #[arg(
        long,
        value_name = "HZ",
        default_value_t = 200.0,
        default_value_if("isaac", "true", "60")
    )]
    pub imu_hz: f64,
    /// Rate of /pose [Hz]; 0: none. 50 is usual.
    #[arg(long, value_name = "HZ", default_value_t = 0.0)]
    pub pose_hz: f64,
    /// Rate of /twist [Hz]; 0: none. 50 is usual.
    #[arg(long, value_name = "HZ", default_value_t = 0.0)]
    pub twist_hz: f64,
    /// Rate of /odom [Hz]; 0: none. 50 is usual.
    #[arg(long, value_name = "HZ", default_value_t = 0.0, default_value_if("isaac", "true", "60"))]
    pub odom_hz: f64,

    /// Rate of /depth [Hz], what the front camera sees as 32FC1 [m]; 0: none.
    #[arg(long, value_name = "HZ", default_value_t = 0.0, default_value_if("isaac", "true", "30"))]
    pub depth_hz: f64,
    /// Rate of /tf [Hz], where the lidar is on the robot; 0: none.
    #[arg(long, value_name = "HZ", default_value_t = 0.0, default_value_if("isaac", "true", "60"))]
    pub tf_hz: f64,

    /// Move in bursts: all that moves speeds up and slows down together, irregularly, at times to a stop.
    /// `robocache calibrate` needs such a motion.
    #[arg(long)]
    pub bursts: bool,

    /// Width of the images [px], 16 to 4096.
    #[arg(long, value_name = "PX", default_value_t = 640)]
    pub image_width: u32,
    /// Height of the images [px], 16 to 4096.
    #[arg(long, value_name = "PX", default_value_t = 480)]
    pub image_height: u32,
    /// Rings of the lidar, 1 to 256: the rows of its clouds.
    #[arg(long, value_name = "N", default_value_t = 128)]
    pub lidar_rings: u32,
    /// Points per ring of the lidar, 1 to 8192.
    #[arg(long, value_name = "N", default_value_t = 1024)]
    pub lidar_columns: u32,

    /// Greatest delay between a message's sampling and its sending [ms]. A stream's messages
    /// stay in order.
    #[arg(long, value_name = "MS", default_value_t = 0.0)]
    pub send_jitter_ms: f64,
    /// Greatest distance of a sampling instant from its nominal one [ms], at most 0.45 of the
    /// stream's period. Stamp and content move together, so the message stays true.
    #[arg(long, value_name = "MS", default_value_t = 0.0)]
    pub stamp_jitter_ms: f64,
    /// Share of messages that are never sent [0 to below 1].
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    pub drop_share: f64,
    /// Share of messages that are sent after their successor [0 to 1].
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    pub reorder_share: f64,
    /// The sensor whose clock is wrong, by --skew-ms and --skew-ppm.
    #[arg(long, value_enum)]
    pub skew_stream: Option<Stream>,
    /// How far the skewed sensor's stamps are ahead of the truth [ms].
    #[arg(long, value_name = "MS", default_value_t = 0.0, allow_hyphen_values = true)]
    pub skew_ms: f64,
    /// How fast the skewed sensor's clock gains [parts per million, from the start of the run].
    #[arg(long, value_name = "PPM", default_value_t = 0.0, allow_hyphen_values = true)]
    pub skew_ppm: f64,

    /// Publish /clock and stamp in simulated time instead of the system's.
    #[arg(long, default_value_if("isaac", "true", "true"))]
    pub clock: bool,
    /// Rate of /clock [Hz of simulated time].
    #[arg(
        long,
        value_name = "HZ",
        default_value_t = 1000.0,
        default_value_if("isaac", "true", "60")
    )]
    pub clock_hz: f64,
    /// Simulated time at the start [whole s], at most 2100000000 (stamps hold seconds in 32 bits).
    #[arg(long, value_name = "S", default_value_t = 10, default_value_if("isaac", "true", "0"))]
    pub clock_start_s: i64,
    /// Simulated seconds per second; other than 1 needs --clock.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    pub speed: f64,
    /// Simulated seconds after the start at which /clock jumps back; needs --clock [default:
    /// never].
    #[arg(long, value_name = "S", requires = "clock")]
    pub jump_back_at: Option<f64>,
    /// How far /clock jumps back [s].
    #[arg(long, value_name = "S", default_value_t = 2.0)]
    pub jump_back_by: f64,

    /// Simulated seconds after which the simulation stops. When it plays again, its clock starts
    /// again, and the robot moves on; needs --clock. 0: it plays for ever.
    #[arg(long, value_name = "S", default_value_t = 0.0)]
    pub play_s: f64,
    /// How long the simulation is stopped before it plays again [s of real time].
    #[arg(long, value_name = "S", default_value_t = 1.0)]
    pub stopped_s: f64,
    /// Be like the ROS 2 bridge of Isaac Sim: /clock from zero, /rgb, /depth, /point_cloud (points
    /// of 12 bytes: x, y, z), /joint_states, /imu, /odom and /tf, at rates of its steps of 1/60 s. Other
    /// options change that.
    #[arg(long)]
    pub isaac: bool,

    /// Add a second arm with the same joints, all at 0 at the start. It follows commands, and publishes
    /// /follower/joint_states. All other signals stay functions of time.
    #[arg(long)]
    pub follow: bool,
    /// Topic of its commands [default: /follower/commands].
    #[arg(long, value_name = "TOPIC", requires = "follow")]
    pub follow_topic: Option<String>,
    /// Messages that it follows: positions of all joints in order (std_msgs/msg/Float64MultiArray), or a
    /// trajectory_msgs/msg/JointTrajectory with one point. Other messages are counted as refused.
    #[arg(long, value_enum, default_value_t = Followed::Values)]
    pub follow_type: Followed,
    /// Rate of /follower/joint_states [Hz].
    #[arg(long, value_name = "HZ", default_value_t = 500.0)]
    pub follower_hz: f64,
    /// Time from the arrival of a command until it acts [ms]. Then each joint moves as a system of second
    /// order, critically damped at 50 rad/s, with at most 6 rad/s, 100 rad/s^2 and 3 rad from 0.
    #[arg(long, value_name = "MS", default_value_t = 10.0)]
    pub follower_delay_ms: f64,

    /// End after this long [s on the robot's clock]; 0: run until stopped.
    #[arg(long, value_name = "S", default_value_t = 0.0)]
    pub duration: f64,
    /// Quality of service of all sensor topics. A best_effort publisher reaches no reliable
    /// subscriber.
    #[arg(long, value_enum, default_value_t = Reliability::Reliable)]
    pub reliability: Reliability,
    /// Messages that the middleware keeps per topic.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub depth: usize,
    /// Begin when every topic has this many subscribers. A subscriber may know the publisher only some
    /// seconds later: see --begin-when.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub wait_subscribers: usize,
    /// Begin when this file exists. So a program that sees when the subscribers know the publishers can
    /// let each get the first messages.
    #[arg(long, value_name = "FILE")]
    pub begin_when: Option<PathBuf>,
    /// Send each message, however late. Otherwise a message that is over 100 ms late is not sent.
    #[arg(long)]
    pub no_skip: bool,
}

impl Default for SimOptions {
    /// The options of an empty command line.
    fn default() -> Self {
        #[derive(clap::Parser)]
        struct CommandLine {
            #[command(flatten)]
            options: SimOptions,
        }
        let parsed = <CommandLine as clap::Parser>::try_parse_from(["sensor_sim"]);
        parsed.expect("sensor_sim: an empty command line is right").options
    }
}

/// Quality of service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Reliability {
    /// Lost messages stay lost.
    BestEffort,
    /// Lost messages are sent again.
    Reliable,
}

/// An option with an impossible value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("--{option}: expected {expected}, found {found}")]
pub struct OptionError {
    /// Name of the option.
    pub option: String,
    /// Allowed values.
    pub expected: &'static str,
    /// The value that was given.
    pub found: String,
}

/// Longest time that an option may name \[s\]: a year. Keeps every sum of times within `i64`.
const LONGEST_S: f64 = 366.0 * 86_400.0;

impl SimOptions {
    /// Checks each option, and that they are possible together.
    pub fn check(&self) -> Result<(), OptionError> {
        for stream in Stream::ALL {
            let hz = self.rate_hz(stream);
            let possible = hz == 0.0 || (0.01..=20_000.0).contains(&hz);
            let name = format!("{}-hz", stream.name().replace('_', "-"));
            require(possible, &name, "0, or 0.01 to 20000 Hz", hz)?;
        }
        let sides = 16..=4096;
        require(sides.contains(&self.image_width), "image-width", "16 to 4096", self.image_width)?;
        let height = self.image_height;
        require(sides.contains(&height), "image-height", "16 to 4096", height)?;
        let rings = self.lidar_rings;
        let columns = self.lidar_columns;
        require((1..=256).contains(&rings), "lidar-rings", "1 to 256", rings)?;
        require((1..=8192).contains(&columns), "lidar-columns", "1 to 8192", columns)?;
        let hz = self.follower_hz;
        let delay = self.follower_delay_ms;
        require((0.01..=1000.0).contains(&hz), "follower-hz", "0.01 to 1000 Hz", hz)?;
        require((0.0..=1000.0).contains(&delay), "follower-delay-ms", "0 to 1000 ms", delay)?;
        self.check_faults()?;
        self.check_clock()
    }

    fn check_faults(&self) -> Result<(), OptionError> {
        let delay = 0.0..=60_000.0;
        let send = self.send_jitter_ms;
        let stamp = self.stamp_jitter_ms;
        require(delay.contains(&send), "send-jitter-ms", "0 to 60000 ms", send)?;
        require(delay.contains(&stamp), "stamp-jitter-ms", "0 to 60000 ms", stamp)?;
        let drop = self.drop_share;
        let reorder = self.reorder_share;
        require((0.0..1.0).contains(&drop), "drop-share", "0 to below 1", drop)?;
        require((0.0..=1.0).contains(&reorder), "reorder-share", "0 to 1", reorder)?;
        let year = 1e3 * LONGEST_S;
        require(self.skew_ms.abs() <= year, "skew-ms", "at most a year", self.skew_ms)?;
        require(self.skew_ppm.abs() <= 1e5, "skew-ppm", "-100000 to 100000", self.skew_ppm)?;
        let skewed = self.skew_stream.is_some() || (self.skew_ms == 0.0 && self.skew_ppm == 0.0);
        require(skewed, "skew-stream", "the stream that the skew is for", "none")?;
        let sensor = self.skew_stream != Some(Stream::Clock);
        require(sensor, "skew-stream", "a sensor", "clock")
    }

    fn check_clock(&self) -> Result<(), OptionError> {
        let span = 0.0..=LONGEST_S;
        require(span.contains(&self.duration), "duration", "0 to a year", self.duration)?;
        let start = self.clock_start_s;
        require((0..=2_100_000_000).contains(&start), "clock-start-s", "0 to 2100000000", start)?;
        require(!self.clock || self.clock_hz > 0.0, "clock-hz", "more than 0 Hz", self.clock_hz)?;
        let speed = self.speed;
        require((0.001..=1000.0).contains(&speed), "speed", "0.001 to 1000", speed)?;
        require(self.clock || speed == 1.0, "speed", "1 without --clock", speed)?;
        let play = self.play_s;
        let stopped = self.stopped_s;
        require(span.contains(&play), "play-s", "0 to a year", play)?;
        require(self.clock || play == 0.0, "play-s", "0 without --clock", play)?;
        let jumps = self.jump_back_at.is_some();
        require(play == 0.0 || !jumps, "play-s", "0 beside --jump-back-at", play)?;
        require((0.0..=3600.0).contains(&stopped), "stopped-s", "0 to 3600 s", stopped)?;
        let Some(at) = self.jump_back_at else { return Ok(()) };
        require(self.clock, "jump-back-at", "--clock beside it", "none")?;
        let by = self.jump_back_by;
        require(span.contains(&at) && at > 0.0, "jump-back-at", "more than 0 s", at)?;
        let furthest = at + start as f64;
        require(by > 0.0 && by <= furthest, "jump-back-by", "no further than time 0", by)
    }

    /// Rate of a stream \[Hz\]; 0 if it does not exist.
    pub fn rate_hz(&self, stream: Stream) -> f64 {
        match stream {
            Stream::Clock if !self.clock => 0.0,
            Stream::Clock => self.clock_hz,
            Stream::Joints => self.joints_hz,
            Stream::Wrench => self.wrench_hz,
            Stream::Imu => self.imu_hz,
            Stream::Pose => self.pose_hz,
            Stream::Twist => self.twist_hz,
            Stream::Odom => self.odom_hz,
            Stream::CameraFront => self.camera_front_hz,
            Stream::CameraWrist => self.camera_wrist_hz,
            Stream::Lidar => self.lidar_hz,
            Stream::Depth => self.depth_hz,
            Stream::Tf => self.tf_hz,
        }
    }

    /// Properties of the second arm.
    pub fn follower(&self) -> FollowerModel {
        FollowerModel { delay_ns: nanos_of_ms(self.follower_delay_ms), ..FollowerModel::ARM }
    }

    /// Topic of the second arm's commands, before remapping.
    pub fn follow_topic(&self) -> &str {
        self.follow_topic.as_deref().unwrap_or("/follower/commands")
    }

    /// Options of a robot whose joints are published when those of the second arm are, without faults.
    pub fn as_follower(&self) -> Self {
        SimOptions {
            joints_hz: self.follower_hz,
            send_jitter_ms: 0.0,
            stamp_jitter_ms: 0.0,
            drop_share: 0.0,
            reorder_share: 0.0,
            skew_stream: None,
            skew_ms: 0.0,
            skew_ppm: 0.0,
            ..self.clone()
        }
    }

    /// How long the simulation plays before it is stopped \[ns\]; `None`: for ever.
    pub fn play_ns(&self) -> Option<i64> {
        (self.play_s > 0.0).then(|| nanos_of_s(self.play_s))
    }

    /// Topic of a stream, before remapping.
    pub fn topic(&self, stream: Stream) -> &'static str {
        match stream {
            Stream::CameraFront if self.isaac => "/rgb",
            Stream::Lidar if self.isaac => "/point_cloud",
            Stream::Imu if self.isaac => "/imu",
            stream => stream.topic(),
        }
    }

    /// Returns the bytes of one message of every large stream together.
    pub fn large_bytes(&self) -> usize {
        /// More than what a message has beside its pixels or points.
        const HEAD: usize = 1024;
        let pixels = self.image_width as usize * self.image_height as usize;
        let cloud = self.lidar_rings as usize * self.lidar_columns as usize * 20;
        let bytes = |stream: Stream| match stream {
            Stream::Lidar => cloud,
            Stream::Depth => 4 * pixels,
            _ => 3 * pixels,
        };
        let large = Stream::ALL.into_iter().filter(|stream| stream.is_large());
        let there = large.filter(|stream| self.grid(*stream).is_some());
        there.map(|stream| HEAD + bytes(stream)).sum()
    }

    /// The nominal sampling instants of a stream, or `None` if it does not exist.
    pub fn grid(&self, stream: Stream) -> Option<TickGrid> {
        TickGrid::from_rate_hz(self.rate_hz(stream))
    }
}

/// A checked option in seconds as nanoseconds.
pub(super) fn nanos_of_s(seconds: f64) -> i64 {
    (seconds * NANOS_PER_S as f64).round() as i64
}

/// A checked option in milliseconds as nanoseconds.
pub(super) fn nanos_of_ms(milliseconds: f64) -> i64 {
    (milliseconds * NANOS_PER_MS as f64).round() as i64
}

fn require(
    possible: bool,
    option: &str,
    expected: &'static str,
    found: impl ToString,
) -> Result<(), OptionError> {
    let error = || OptionError { option: option.to_owned(), expected, found: found.to_string() };
    if possible { Ok(()) } else { Err(error()) }
}

/// The program's own arguments: all but those between `--ros-args` and `--`, which `rcl_init`
/// reads itself.
pub fn without_ros_arguments(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut in_ros = false;
    let own = |argument: &OsString| {
        let opens = argument == "--ros-args";
        let closes = in_ros && argument == "--";
        let ours = !in_ros && !opens;
        in_ros = (in_ros || opens) && !closes;
        ours
    };
    arguments.into_iter().filter(own).collect()
}
