//! Tests of the wrapper of rcl with a real middleware, in this process and with rclpy processes.
//!
//! Every test has ROS domains of its own.

mod events;
mod messages;
mod processes;

use std::cell::RefCell;
use std::ffi::OsString;
use std::process::{Child, Command, Stdio};

use robocache_rcl::{Context, Node, Publisher, Qos, SerializedMessage, Subscription, Wake};
use robocache_testing::{Lines, Wait, until};

thread_local! {
    /// The domains of this test. Each test has a thread.
    static DOMAINS: RefCell<Vec<Domain>> = const { RefCell::new(Vec::new()) };
}

/// A domain, and the process that claims it.
struct Domain(Child);

impl Drop for Domain {
    fn drop(&mut self) {
        // It waits for the end of its input.
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// Returns a free domain, from the script that all tests use. It belongs to this test until the end of the test.
fn free_domain() -> usize {
    let script = "import sys; sys.path.insert(0, 'scripts'); import domains; \
                  print(domains.free_domain(), flush=True); sys.stdin.read()";
    let mut python = Command::new("python3");
    python.args(["-c", script]).current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let mut child = python.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let lines = Lines::of(&mut child);
    DOMAINS.with_borrow_mut(|domains| domains.push(Domain(child)));
    let domain = lines.next("a free domain").expect("a free domain").parse().unwrap();
    remove_ports(domain);
    domain
}

/// Removes what killed processes have left of the ports of a domain, as tests/private_domain.py does: no process uses it.
fn remove_ports(domain: usize) {
    let first = 7400 + 250 * domain + 10;
    for port in first..first + 100 {
        for kind in ["fastrtps", "fastdds"] {
            let _ = std::fs::remove_file(format!("/dev/shm/{kind}_port{port}"));
        }
    }
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
    let mut taken = Vec::new();
    let mut message = SerializedMessage::default();
    until("messages come", || {
        while let Some(info) = subscription.take(&mut message).unwrap() {
            taken.push((message.to_vec(), info.publication_sequence.unwrap()));
        }
        taken.len() >= count
    });
    taken
}

/// Waits for a wake.
#[track_caller]
fn await_wake(wake: &Wake) {
    let mut wait = Wait::new("a wake");
    while !wake.wait(wait.slice()) {
        wait.check();
    }
}
