//! Tests of status and log about drops, held back ticks and names that nobody has.

use super::*;
use crate::fuse;
use crate::health::holding;
use robocache_core::pipeline::TickOutcome;

const FRAMES: &str = "max_age_ms: 50, strategy: hold, frame_id: tool";
const ARMS: &str = "rate_hz: 100
streams:
  arms:
    type: sensor_msgs/JointState
    inputs: [{topic: /left, joints: [elbow, wrist]}, {topic: /right, joints: [elbow, wrist]}]
    max_age_ms: 50
    lag_ms: 10
    required: true
";

impl Robot {
    /// Sends a wrench of this frame every 10 ms, for a time.
    fn run_in_frame(&mut self, frame: &str, time: i64) {
        for _ in 0..time / 10 {
            self.set_clock(self.now + 10);
            let mut writer = Writer::new();
            writer.header(ms(self.now), frame);
            writer.f64_array(&[1.0; 6]);
            self.runtime.receive(WRENCH, writer.finish(), self.arrival()).unwrap();
            self.tick();
        }
    }

    /// Sends joints of these arms every 10 ms, for a time. Returns what the ticks became.
    fn run_arms(&mut self, arms: [&[&str]; 2], time: i64) -> Vec<TickOutcome> {
        let outcomes = (0..time / 10).map(|_| {
            self.set_clock(self.now + 10);
            for (input, names) in arms.iter().enumerate().filter(|(_, names)| !names.is_empty()) {
                let mut writer = Writer::new();
                writer.header(ms(self.now), "");
                writer.u32(names.len() as u32);
                names.iter().for_each(|name| writer.string(name));
                writer.f64_sequence(&vec![1.0; names.len()]);
                writer.f64_sequence(&[]);
                writer.f64_sequence(&[]);
                let input = InputId::new(input);
                self.runtime.receive(input, writer.finish(), self.arrival()).unwrap();
            }
            self.tick()
        });
        outcomes.collect()
    }

    fn tick(&mut self) -> TickOutcome {
        let due = self.runtime.clock.now().unwrap();
        let outcome = fuse::fuse(&self.runtime, self.tick, due.epoch, &mut self.tensor).unwrap();
        holding::log(&self.runtime);
        self.runtime.ticks.published.add(u64::from(outcome == TickOutcome::Ready));
        outcome
    }
}

#[test]
fn the_newest_drop_is_told_and_not_the_first_one() {
    let mut robot = Robot::with(FRAMES);
    robot.run_in_frame("tool_at_start", 30);
    robot.run_in_frame("tool", 8_000);
    let status = robot.status(1);
    let first = r#"expected "tool", found "tool_at_start""#;
    assert!(value(&status, "last_drop").contains(first), "{}", value(&status, "last_drop"));
    assert!(status.message.contains(first), "{}", status.message);
    robot.run_in_frame("tool", 1_000);
    let status = robot.status(1);
    assert_eq!(status.level, Level::Ok, "{}", status.message);
    // The frame is renamed 8 s later: status, cause and log name the new one.
    robot.run_in_frame("tool_renamed", 1_000);
    let status = robot.status(1);
    let renamed = r#"found "tool_renamed""#;
    assert!(value(&status, "last_drop").ends_with(renamed), "{}", value(&status, "last_drop"));
    let told = "100 of 100 messages were dropped: wrong_frame: header.frame_id: ";
    assert!(status.message.contains(told), "{}", status.message);
    assert_eq!(status.message.matches(renamed).count(), 1, "{}", status.message);
    assert!(!status.message.contains(first), "{}", status.message);
}

#[test]
fn a_required_stream_that_holds_ticks_back_is_told_with_the_input_that_keeps_it() {
    let mut robot = Robot::new(ARMS);
    let both = ["elbow", "wrist"];
    let why = |robot: &Robot| holding::why_not_valid(&robot.runtime, STREAM).unwrap_or_default();
    assert!(matches!(robot.run_arms([&both, &[]], 500)[49], TickOutcome::HeldBack { .. }));
    assert_eq!(why(&robot), "no message on /right yet");
    assert_eq!(robot.run_arms([&both, &both], 500)[49], TickOutcome::Ready);
    // The loss comes 8 s later.
    robot.run_arms([&both, &both], 8_000);
    robot.monitor.report();
    assert!(matches!(robot.run_arms([&both, &[]], 500)[49], TickOutcome::HeldBack { .. }));
    assert_eq!(why(&robot), "nothing has come on /right for 0.50 s");
    let tick = robot.status(0);
    let told = "held back by 'arms'; nothing has come on /right for 0.50 s";
    assert!(tick.message.contains(told), "{}", tick.message);
    robot.run_arms([&both, &["wrist"]], 500);
    let told = "messages on /right are dropped, missing_field: name: elbow is missing";
    assert_eq!(why(&robot), told);
    robot.monitor.report();
    robot.run_arms([&both, &["wrist"]], 1_000);
    let arms = robot.status(1);
    assert!(arms.message.contains("/right: 100 dropped: missing_field"), "{}", arms.message);
}

#[test]
fn the_tick_thread_only_notes_that_ticks_are_held_back_and_the_monitor_takes_the_lines() {
    let mut robot = Robot::new(ARMS);
    robot.set_clock(robot.now + 10);
    let due = robot.runtime.clock.now().unwrap();
    let noted = |robot: &Robot| lock(&robot.runtime.ticks.holding).waiting();
    let outcome = fuse::fuse(&robot.runtime, robot.tick, due.epoch, &mut robot.tensor).unwrap();
    assert!(matches!(outcome, TickOutcome::HeldBack { .. }));
    assert_eq!(noted(&robot), 1);
    robot.monitor.log_held_back();
    assert_eq!(noted(&robot), 0);
    // Without threads, the caller of a tick logs.
    let both = ["elbow", "wrist"];
    robot.run_arms([&both, &both], 2_000);
    assert_eq!(noted(&robot), 0);
}

#[test]
fn a_missing_joint_is_not_hidden_in_a_list_of_all() {
    let mut robot = Robot::new(ARMS);
    robot.run_arms([&["elbow", "wrist"], &["wrist"]], 1_000);
    let arms = robot.status(1);
    let told = "no message so far gave all joints of a group: /right: name: elbow is missing";
    assert!(arms.message.ends_with(told), "{}", arms.message);
}

#[test]
fn a_topic_that_nobody_publishes_is_told_with_one_that_somebody_does() {
    let robot = Robot::new(
        "rate_hz: 100\nstreams: {w: {type: geometry_msgs/WrenchStamped, topic: /arm/ft, max_age_ms: 50}}",
    );
    assert_eq!(robot.monitor.near_topic(WRENCH), None);
    let topic = |name: &str, ros_type: &str| (name.to_owned(), ros_type.to_owned());
    *lock(&robot.runtime.topics) = vec![
        // This node's own subscription, and another type.
        topic("/arm/ft", "geometry_msgs/msg/WrenchStamped"),
        topic("/arm/ft_", "geometry_msgs/msg/Wrench"),
        topic("/arm/left/ft", "geometry_msgs/msg/WrenchStamped"),
    ];
    let found = robot.monitor.near_topic(WRENCH);
    assert_eq!(found.as_deref(), Some("did you mean /arm/left/ft?"));
}
