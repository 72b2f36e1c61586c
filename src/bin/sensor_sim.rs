//! `sensor_sim`: the synthetic robot of [`robocache_sim`] as a ROS 2 node.

#[path = "sensor_sim/follower.rs"]
mod follower;

use clap::Parser;
use follower::{Arm, Commands};
use robocache_ops::time::{NANOS_PER_S, Stamp};
use robocache_rcl::{Context, Node, Publisher, Qos};
use robocache_sim::{
    Pace, Reliability, Robot, Schedule, SensorMessage, SentCounts, SimOptions, Stream, Truth,
    drive, without_ros_arguments,
};
use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

/// A reproducible synthetic robot that publishes real ROS 2 messages.
///
/// Every signal is an analytic function of time, so a test can compare a consumer's results with
/// the truth. The same seed and options give the same messages. ROS arguments are accepted too:
/// `sensor_sim --lidar-hz 0 --ros-args -r __ns:=/robot`.
///
/// Prints its topics, and runs until SIGINT, SIGTERM or the end of `--duration`. Then waits until all
/// reliable subscribers have the last messages: half a second at least, and 10 s at most. Another
/// signal ends the wait. At last prints the counts of each stream as one line of JSON: `sent`;
/// `dropped` and `reordered`, as the options ask; `late` (more than 2 ms after their instant);
/// `skipped` (over 100 ms late, so not sent; none with `--no-skip`). With `--follow`, `follower` has the
/// numbers of the second arm: also `commands` that it follows, and `refused` messages.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(flatten)]
    options: SimOptions,
    /// Print the joints, the IMU and the odometry at these instants of the robot [ns], and end. A
    /// value that is interpolated between samples h seconds apart differs by at most h^2 / 8 times
    /// `bend`, the bound of its second derivative.
    #[arg(long, value_name = "NS", value_delimiter = ',', allow_hyphen_values = true)]
    truth_at: Vec<i64>,
}

/// Time between two looks: at the subscribers, at the file that begins the run, at what has arrived.
const NAP: Duration = Duration::from_millis(20);
/// Time from the last message to the end of the publishers, at least. Best-effort messages are never acknowledged. Those
/// that have not arrived by then are lost.
const LINGER: Duration = Duration::from_millis(500);
/// The longest such time. A reliable subscriber that was killed acknowledges nothing.
const LONGEST_LINGER: Duration = Duration::from_secs(10);

/// Error of a thread that has panicked. Its panic has said more.
const PANICKED: &str = "a thread of the robot panicked";

/// The message types are loaded by their names, so the program is not linked with their packages.
type Publishers = Vec<(Stream, Publisher)>;

fn main() -> ExitCode {
    let cli = Cli::parse_from(without_ros_arguments(std::env::args_os()));
    if !cli.truth_at.is_empty() {
        let seed = cli.options.seed;
        let truth = if cli.options.bursts { Truth::in_bursts(seed) } else { Truth::new(seed) };
        say(&truth_at(&truth, &cli.truth_at));
        return ExitCode::SUCCESS;
    }
    robocache::ensure_profile();
    match run(cli.options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sensor_sim: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The truth at these instants as JSON: per instant the channels of joints, IMU and odometry, in the
/// order of their fields; and the `bend` of each channel.
fn truth_at(truth: &Truth, instants: &[i64]) -> String {
    let of = |ns: &i64| {
        let t = Stamp::from_nanos(*ns);
        let (joints, imu, (pose, twist)) = (truth.joints(t), truth.imu(t), truth.odometry(t));
        let inertial = [&imu.orientation[..], &imu.angular_velocity, &imu.linear_acceleration];
        let odometry = [&pose.position[..], &pose.orientation, &twist.linear, &twist.angular];
        channels([joints.position, joints.velocity].concat(), &inertial, &odometry)
    };
    let bend = truth.curvature();
    let joints = [bend.joints.position, bend.joints.velocity].concat();
    let orientation = [bend.imu_orientation; 4];
    let twist = bend.odometry_twist;
    let inertial = [&orientation[..], &bend.imu_angular_velocity, &bend.imu_linear_acceleration];
    let position = bend.odometry_position;
    let orientation = [bend.odometry_orientation; 4];
    let odometry = [&position[..], &orientation, &twist.linear, &twist.angular];
    let bend = channels(joints, &inertial, &odometry);
    let instants: Vec<_> = instants.iter().map(of).collect();
    serde_json::json!({"instants": instants, "bend": bend}).to_string()
}

/// The channels by stream.
fn channels(joints: Vec<f64>, imu: &[&[f64]], odom: &[&[f64]]) -> serde_json::Value {
    serde_json::json!({"joints": joints, "imu": imu.concat(), "odom": odom.concat()})
}

fn run(options: SimOptions) -> Result<(), Box<dyn Error>> {
    let mut signals = Signals::new()?;
    let robot = Robot::new(options)?;
    // Dropped at the end of this function, also after an error: else the middleware's shared memory
    // outlives the process. Nothing here needs to spin.
    let node = create_node(robot.options())?;
    let publishers = create_publishers(&node, robot.options())?;
    let second = Arm::of(robot.options(), &node)?;
    let (arm, commands) = second.unzip();
    let of_arm = arm.iter().map(|arm| &arm.joints);
    let all: Vec<_> = publishers.iter().map(|(_, publisher)| publisher).chain(of_arm).collect();
    if !signals.wait_for_subscribers(&all, robot.options().wait_subscribers)?
        || !signals.wait_for_file(robot.options().begin_when.as_deref())
    {
        return Ok(());
    }
    let second = arm.as_ref().zip(commands);
    let report = publish_until_stopped(&robot, &publishers, second, &mut signals)?;
    signals.linger(&all)?;
    say(&report.to_string());
    Ok(())
}

/// Creates the node, with shared memory for all large messages of the robot.
fn create_node(options: &SimOptions) -> Result<Node, Box<dyn Error>> {
    let context = Context::new()?;
    let largest = options.large_bytes();
    let (node, warning) = robocache::begin_node(&context, "sensor_sim", largest)?;
    let lost = robocache::segment_warning("the robot's images and clouds", largest);
    for warning in warning.iter().chain(&lost) {
        eprintln!("sensor_sim: {warning}");
    }
    Ok(node)
}

fn create_publishers(node: &Node, options: &SimOptions) -> robocache_rcl::Result<Publishers> {
    let streams = Stream::ALL.into_iter().filter(|stream| options.grid(*stream).is_some());
    let publisher = |stream: Stream| {
        // A subscriber of /clock may ask for reliable delivery.
        let reliable = stream == Stream::Clock || options.reliability == Reliability::Reliable;
        let qos = Qos { reliable, ..Qos::best_effort(options.depth) };
        Ok((stream, node.advertise(options.topic(stream), stream.ros_type(), qos)?))
    };
    streams.map(publisher).collect()
}

/// The system's clock or, with `--clock`, a simulated one.
#[derive(Clone, Copy)]
enum RobotClock {
    System { start: Stamp },
    Simulated { started: Instant, speed: f64 },
}

impl RobotClock {
    /// Returns the clock and its current stamp.
    fn start(options: &SimOptions) -> (Self, Stamp) {
        if options.clock {
            let start = Stamp::from_nanos(options.clock_start_s * NANOS_PER_S);
            (RobotClock::Simulated { started: Instant::now(), speed: options.speed }, start)
        } else {
            let start = system_now();
            (RobotClock::System { start }, start)
        }
    }
}

impl Pace for RobotClock {
    fn now_ns(&self) -> i64 {
        match self {
            RobotClock::System { start } => system_now().since(*start),
            // f64 holds nanoseconds exactly for 104 days, and later to microseconds.
            RobotClock::Simulated { started, speed } => {
                (started.elapsed().as_nanos() as f64 * speed) as i64
            }
        }
    }

    fn real_ns(&self, ns: i64) -> i64 {
        match self {
            RobotClock::System { .. } => ns,
            RobotClock::Simulated { speed, .. } => (ns as f64 / speed) as i64,
        }
    }
}

fn system_now() -> Stamp {
    // A clock before 1970 counts as 1970: its stamps are wrong anyway.
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Stamp::from_nanos(i64::try_from(since_epoch.as_nanos()).unwrap_or(i64::MAX))
}

/// Publishes until the schedules end or a signal comes. Returns the counts of each stream. Small
/// messages have one thread and large messages another, so that drawing and sending a cloud delays no
/// joint state. A second arm has two of its own.
fn publish_until_stopped(
    robot: &Robot,
    publishers: &[(Stream, Publisher)],
    second: Option<(&Arm, Commands)>,
    signals: &mut Signals,
) -> Result<serde_json::Value, Box<dyn Error>> {
    let stop = &AtomicBool::new(false);
    let (clock, start) = RobotClock::start(robot.options());
    announce(robot, start);
    let (reports, follower) = std::thread::scope(|scope| {
        let (running, all_ended) = mpsc::channel::<()>(1);
        let (arm, commands) = second.unzip();
        let clock = &clock;
        let follows = arm.zip(commands);
        let follows = follows.map(|(arm, it)| scope.spawn(move || arm.follow(&it, clock, stop)));
        let moves = arm.map(|arm| {
            let running = running.clone();
            scope.spawn(move || {
                let _running = running; // as below
                arm.publish(robot.options(), start, clock, stop)
            })
        });
        let threads = [false, true].map(|large| {
            let running = running.clone();
            scope.spawn(move || {
                let _running = running; // dropped when the thread ends, also after a panic
                let streams: Vec<_> =
                    Stream::ALL.into_iter().filter(|s| s.is_large() == large).collect();
                let schedule = Schedule::of_streams(robot.options(), start, &streams);
                drive(robot, schedule, clock, stop, |event, message| {
                    publish(publishers, event, message)
                })
            })
        });
        drop(running);
        signals.wait_or(all_ended);
        stop.store(true, Ordering::Relaxed);
        let follower = (follows.map(ScopedJoinHandle::join), moves.map(ScopedJoinHandle::join));
        (threads.map(ScopedJoinHandle::join), follower)
    });
    let mut all = SentCounts::new();
    for report in reports {
        all.extend(report.map_err(|_| PANICKED)??);
    }
    let mut all = serde_json::to_value(all)?;
    let (follows, moves) = follower;
    follows.transpose().map_err(|_| PANICKED)?.transpose()?;
    if let Some(counts) = moves.transpose().map_err(|_| PANICKED)?.transpose()? {
        all["follower"] = counts;
    }
    Ok(all)
}

/// SIGINT and SIGTERM.
struct Signals {
    runtime: tokio::runtime::Runtime,
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let inside = runtime.enter();
        let interrupt = signal(SignalKind::interrupt())?;
        let terminate = signal(SignalKind::terminate())?;
        drop(inside);
        Ok(Signals { runtime, interrupt, terminate })
    }

    /// Returns true when every topic has `wanted` subscribers, false if a signal comes first.
    fn wait_for_subscribers(
        &mut self,
        publishers: &[&Publisher],
        wanted: usize,
    ) -> robocache_rcl::Result<bool> {
        while fewest_subscribers(publishers)? < wanted {
            if !self.sleep(NAP) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns when a signal comes, or when all senders of `all_ended` are dropped. A signal before
    /// the call counts.
    fn wait_or(&mut self, mut all_ended: mpsc::Receiver<()>) {
        self.runtime.block_on(async {
            tokio::select! {
                _ = self.interrupt.recv() => {}
                _ = self.terminate.recv() => {}
                _ = all_ended.recv() => {}
            }
        });
    }

    /// Returns true when the file exists or there is none, false if a signal comes first.
    fn wait_for_file(&mut self, file: Option<&Path>) -> bool {
        let Some(file) = file else { return true };
        while !file.exists() {
            if !self.sleep(NAP) {
                return false;
            }
        }
        true
    }

    /// Waits for the last messages to arrive. A signal ends the wait.
    fn linger(&mut self, publishers: &[&Publisher]) -> robocache_rcl::Result<()> {
        let ended = Instant::now();
        for publisher in publishers {
            while ended.elapsed() < LONGEST_LINGER
                && !publisher.wait_for_acknowledgements(Duration::ZERO)?
            {
                if !self.sleep(NAP) {
                    return Ok(());
                }
            }
        }
        self.sleep(LINGER.saturating_sub(ended.elapsed()));
        Ok(())
    }

    /// Sleeps. Returns false if a signal comes first.
    fn sleep(&mut self, time: Duration) -> bool {
        self.runtime.block_on(async {
            tokio::select! {
                _ = self.interrupt.recv() => false,
                _ = self.terminate.recv() => false,
                () = tokio::time::sleep(time) => true,
            }
        })
    }
}

fn fewest_subscribers(publishers: &[&Publisher]) -> robocache_rcl::Result<usize> {
    let counts = publishers.iter().map(|publisher| publisher.subscription_count());
    counts.reduce(|a, b| Ok(a?.min(b?))).unwrap_or(Ok(usize::MAX))
}

fn publish(
    publishers: &[(Stream, Publisher)],
    event: &SensorMessage,
    message: &[u8],
) -> robocache_rcl::Result<()> {
    let of_stream = publishers.iter().find(|(stream, _)| *stream == event.stream);
    of_stream.map_or(Ok(()), |(_, publisher)| publisher.publish(message))
}

/// Prints one line: the topics with their rates, and the clock.
fn announce(robot: &Robot, start: Stamp) {
    let options = robot.options();
    let rate = |stream: Stream| {
        let hz = options.rate_hz(stream);
        (hz > 0.0).then(|| format!("{} {hz} Hz", options.topic(stream)))
    };
    let follower = options.follow.then(|| {
        let topic = options.follow_topic();
        let hz = options.follower_hz;
        format!("{} {hz} Hz, an arm that follows {topic}", follower::JOINTS_TOPIC)
    });
    let topics: Vec<_> = Stream::ALL.into_iter().filter_map(rate).chain(follower).collect();
    let clock = if options.clock { "simulated" } else { "system" };
    say(&format!(
        "sensor_sim: seed {}, {clock} clock from {start} s: {}",
        options.seed,
        topics.join(", ")
    ));
}

/// Prints a line to standard output. It is no failure if the reader has ended.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
