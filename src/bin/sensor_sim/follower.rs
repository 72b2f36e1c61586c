//! The second arm: its commands come by a subscription, and its joints go to a topic of their own.

use robocache_ops::sync::lock;
use robocache_ops::time::Stamp;
use robocache_rcl::{Node, Publisher, Qos, Result, SerializedMessage, Subscription, Wake};
use robocache_sim::{
    Counts, Follower, Pace, Reliability, Schedule, SimOptions, Stream, drive_messages,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Topic of its joints, before remapping.
pub(crate) const JOINTS_TOPIC: &str = "/follower/joint_states";
/// Commands that wait to be taken at most.
const DEPTH: usize = 16;
/// Longest wait for a command, so that a stop takes effect in time.
const NAP: Duration = Duration::from_millis(100);

/// The commands that come. One thread takes them.
pub(crate) struct Commands {
    subscription: Subscription,
    wake: Arc<Wake>,
}

/// The arm, and the topic of its joints.
pub(crate) struct Arm {
    /// Publishes its joints.
    pub(crate) joints: Publisher,
    follower: Mutex<Follower>,
}

impl Arm {
    /// The arm of these options and what commands it, if they ask for one.
    ///
    /// # Errors
    /// The middleware refuses.
    pub(crate) fn of(options: &SimOptions, node: &Node) -> Result<Option<(Self, Commands)>> {
        if !options.follow {
            return Ok(None);
        }
        let reliable = options.reliability == Reliability::Reliable;
        let qos = Qos { reliable, ..Qos::best_effort(options.depth) };
        let joints = node.advertise(JOINTS_TOPIC, Stream::Joints.ros_type(), qos)?;
        let topic = options.follow_topic();
        let followed = options.follow_type;
        let asks = Qos::best_effort(DEPTH);
        let mut subscription = node.subscribe(topic, followed.ros_type(), asks)?;
        let wake = Arc::new(Wake::default());
        subscription.tell(&wake)?;
        let follower = Mutex::new(Follower::new(options.follower(), followed));
        Ok(Some((Arm { joints, follower }, Commands { subscription, wake })))
    }

    /// Gives the arm each command when it comes, until `stop` is set.
    ///
    /// # Errors
    /// The middleware fails.
    pub(crate) fn follow(
        &self,
        commands: &Commands,
        pace: &impl Pace,
        stop: &AtomicBool,
    ) -> Result<()> {
        let mut message = SerializedMessage::<Box<[u8]>>::default();
        while !stop.load(Ordering::Relaxed) {
            commands.wake.wait(NAP);
            while commands.subscription.take(&mut message)?.is_some() {
                lock(&self.follower).take(pace.now_ns(), &message);
            }
        }
        Ok(())
    }

    /// Publishes its joints until the schedule ends or `stop` is set. Returns what it sent, and the numbers of commands.
    ///
    /// # Errors
    /// The middleware fails.
    pub(crate) fn publish(
        &self,
        options: &SimOptions,
        start: Stamp,
        pace: &impl Pace,
        stop: &AtomicBool,
    ) -> Result<serde_json::Value> {
        let schedule = Schedule::of_streams(&options.as_follower(), start, &[Stream::Joints]);
        let mut buffer = Vec::new();
        // Made when it is due: commands may come until then.
        let report = drive_messages(
            |_, empty| empty,
            schedule,
            pace,
            stop,
            |event, _| {
                let mut follower = lock(&self.follower);
                follower.advance(event.due_ns);
                buffer = follower.message(event.stamp, std::mem::take(&mut buffer));
                drop(follower);
                self.joints.publish(&buffer)
            },
        )?;
        let Counts { sent, late, skipped, .. } =
            report.get(Stream::Joints.name()).copied().unwrap_or_default();
        let counts = lock(&self.follower).counts();
        Ok(serde_json::json!({
            "sent": sent, "late": late, "skipped": skipped,
            "commands": counts.commands, "refused": counts.refused,
        }))
    }
}
