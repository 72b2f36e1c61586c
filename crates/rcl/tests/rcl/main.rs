//! Tests of the wrapper of rcl with a real middleware, in this process and with rclpy processes.
//!
//! Every test has its own ROS domain. Every wait has a time limit.

mod events;
mod messages;
mod processes;

use std::ffi::OsString;
use std::process::Command;
use std::time::{Duration, Instant};

use robocache_rcl::{Context, Node, Publisher, Qos, SerializedMessage, Subscription};

/// Longer than discovery takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// Returns a free domain, from the script that all tests use.
fn free_domain() -> usize {
    let script = "import sys; sys.path.insert(0, 'scripts'); import domains; \
                  print(domains.free_domain())";
    let mut python = Command::new("python3");
    python.args(["-c", script]).current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let output = python.output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
}

/// Starts ROS in a free domain, with these ROS arguments.
fn ros(arguments: &str) -> (Context, usize) {
    let range = std::env::var("ROS_AUTOMATIC_DISCOVERY_RANGE");
    assert_eq!(range.as_deref(), Ok("LOCALHOST"), "tests stay on this machine: source .ros/env.sh");
    let domain = free_domain();
    let arguments = ["test"].into_iter().chain(arguments.split_whitespace()).map(OsString::from);
    (Context::from_args(arguments, Some(domain)).unwrap(), domain)
}

/// Creates a node in a free domain.
fn node() -> Node {
    Node::new(&ros("").0, "under_test", "").unwrap()
}

/// Creates a publisher and a subscription, and waits until they have found each other.
fn connect(node: &Node, ros_type: &str, depth: usize, qos: Qos) -> (Publisher, Subscription) {
    let subscription = node.subscribe("topic", ros_type, Qos { depth, ..qos }).unwrap();
    let publisher = node.advertise("topic", ros_type, qos).unwrap();
    until("they match", || publisher.subscription_count().unwrap() == 1);
    await_publisher(&subscription);
    (publisher, subscription)
}

/// Waits until the subscription has found its publisher, which may be later than the reverse.
fn await_publisher(subscription: &Subscription) {
    until("they match", || subscription.publisher_count().unwrap() == 1);
}

/// Takes messages until `count` have come. Returns their bytes and publication numbers.
fn take(subscription: &Subscription, count: usize) -> Vec<(Vec<u8>, u64)> {
    let (mut taken, mut message) = (Vec::new(), SerializedMessage::default());
    until("messages come", || {
        while let Some(info) = subscription.take(&mut message).unwrap() {
            taken.push((message.to_vec(), info.publication_sequence.unwrap()));
        }
        taken.len() >= count
    });
    taken
}

/// Waits until the condition holds. Panics if it does not hold in time.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
