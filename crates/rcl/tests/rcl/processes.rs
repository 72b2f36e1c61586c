//! Tests between processes: with rclpy, and with a child of this program.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use r2r::rcl_interfaces::msg::{Log, ParameterValue};
use r2r::rcl_interfaces::srv::GetParameters;
use robocache_rcl::{Context, Node, Publisher, Qos, SerializedMessage, Wake};
use robocache_testing::{Lines, some, until};

use super::messages::clock;
use super::{await_publisher, await_wake, ros, take};

/// A child in the domain of its test, which does not outlive the test.
struct Peer {
    child: Child,
    lines: Lines,
}

impl Peer {
    fn start(command: &mut Command, domain: usize) -> Self {
        command.env("ROS_DOMAIN_ID", domain.to_string());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = Lines::of(&mut child);
        Peer { child, lines }
    }

    /// Starts an rclpy script with a node `peer`. Its function `done` waits for a moment, and says whether
    /// [`Peer::end`] was called.
    fn python(script: &str, domain: usize) -> Self {
        let start = "
import select, sys, time, rclpy
def done():
    return select.select([sys.stdin], [], [], 0.02)[0]
rclpy.init()
node = rclpy.create_node('peer')
";
        let end = "\nnode.destroy_node()\nrclpy.shutdown()\n";
        Peer::start(Command::new("python3").arg("-c").arg([start, script, end].concat()), domain)
    }

    /// Starts the test `child` and waits until it has subscribed.
    fn of_this_program(domain: usize) -> Self {
        // If an event does not come to it in time, it says so on its standard error.
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$@\" 2>&1", "sh"]).arg(std::env::current_exe().unwrap());
        command.args(["processes::child", "--exact", "--ignored", "--nocapture"]);
        let peer = Peer::start(&mut command, domain);
        peer.await_line("ready");
        peer
    }

    /// Waits for a line.
    #[track_caller]
    fn await_line(&self, expected: &str) {
        while self.lines.next(expected).expect("the child ended early") != expected {}
    }

    /// The next line, if it is there.
    #[track_caller]
    fn line(&mut self) -> Option<String> {
        let ended = self.child.try_wait().unwrap();
        let line = self.lines.now();
        let failed = ended.is_some_and(|status| !status.success());
        assert!(line.is_some() || !failed, "the child ended early");
        line
    }

    fn signal(&self, name: &str) {
        let kill = Command::new("kill").args([name, &self.child.id().to_string()]).status();
        assert!(kill.unwrap().success());
    }

    /// True if the child stands still after a signal.
    fn is_stopped(&self) -> bool {
        let threads = format!("/proc/{}/task", self.child.id());
        let stat = |thread: std::io::Result<std::fs::DirEntry>| {
            std::fs::read_to_string(thread.unwrap().path().join("stat")).unwrap_or_default()
        };
        std::fs::read_dir(threads).unwrap().all(|thread| stat(thread).contains(") T "))
    }

    /// Closes the input of the child, and waits for its end. Returns the lines that it wrote since the last one that
    /// was waited for.
    #[track_caller]
    fn end(mut self) -> Vec<String> {
        drop(self.child.stdin.take());
        let lines = std::iter::from_fn(|| self.lines.next("the end of the child")).collect();
        let status = some("the end of the child", || self.child.try_wait().unwrap());
        assert!(status.success(), "{lines:?}");
        lines
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_bytes_are_those_that_rclpy_publishes() {
    let (context, domain) = ros("");
    let node = Node::new(&context, "under_test", "").unwrap();
    let subscription = node.subscribe("/imu", "sensor_msgs/msg/Imu", Qos::best_effort(5)).unwrap();
    let script = "
from rclpy.serialization import serialize_message
from sensor_msgs.msg import Imu
message = Imu()
message.header.frame_id, message.linear_acceleration.z = 'imu', 9.81
publisher = node.create_publisher(Imu, '/imu', 5)
while not publisher.get_subscription_count():
    time.sleep(0.01)
while not done():  # the subscription may find the publisher later than the reverse
    publisher.publish(message)
print(bytes(serialize_message(message)).hex())";
    let peer = Peer::python(script, domain);
    let bytes = &take(&subscription, 1)[0].0;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(peer.end(), [hex]);
}

#[test]
fn rclpy_calls_a_service_and_gets_a_message() {
    let (context, domain) = ros("");
    let node = Node::new(&context, "under_test", "").unwrap();
    let mut service = node.serve::<GetParameters::Service>("~/get_parameters").unwrap();
    assert!(service.take_request().unwrap().is_none());
    assert_eq!(service.client_count().unwrap(), 0);
    let log = node.advertise_message::<Log>("log", Qos::reliable(5)).unwrap();
    let wake = Arc::new(Wake::default());
    service.tell(&wake).unwrap();
    assert!(wake.wait(Duration::ZERO) && service.take_request().unwrap().is_none());
    let script = "
from rcl_interfaces.msg import Log
from rcl_interfaces.srv import GetParameters
logs = []
node.create_subscription(Log, '/log', logs.append, 5)
client = node.create_client(GetParameters, '/under_test/get_parameters')
while not client.wait_for_service(1):
    pass
while node.count_publishers('/log') == 0:
    time.sleep(0.01)
future = client.call_async(GetParameters.Request(names=['a', 'b']))
while not (future.done() and logs):
    rclpy.spin_once(node, timeout_sec=0.1)
print([value.string_value for value in future.result().values], logs[0].msg)
print(*[name for name, _ in node.get_publisher_names_and_types_by_node('under_test', '/')])";
    let mut peer = Peer::python(script, domain);
    await_wake(&wake);
    until("the client is found", || service.client_count().unwrap() == 1);
    let (id, request) = service.take_request().unwrap().unwrap();
    let value =
        |name: &String| ParameterValue { string_value: format!("<{name}>"), ..Default::default() };
    let values = request.names.iter().map(value).collect();
    assert!(wake.wait(Duration::ZERO), "another request may wait");
    assert!(service.take_request().unwrap().is_none() && !wake.wait(Duration::ZERO));
    service.respond(id, &GetParameters::Response { values }).unwrap();
    let nul = Log { msg: "a\0b".into(), ..Default::default() };
    assert!(log.publish(&nul).unwrap_err().to_string().contains("without NUL"));
    // The peer may find the publisher later than the reverse.
    let first = some("the answer and a log line", || {
        log.publish(&Log { msg: "seen".into(), ..Default::default() }).unwrap();
        peer.line()
    });
    assert_eq!([vec![first], peer.end()].concat(), ["['<a>', '<b>'] seen", "/log"]);
    until("the client has left", || service.client_count().unwrap() == 0);
}

#[test]
fn parameters_come_from_the_command_line_and_from_files() {
    let file =
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("rcl-{}.yaml", std::process::id()));
    let text = "/**: {ros__parameters: {rate_hz: 30.0, name: all, deep: {flag: true}}}\n\
                /left/fusion: {ros__parameters: {name: mine, list: [1.5, 2.5]}}\n\
                other: {ros__parameters: {name: other, stray: 1}}\n";
    std::fs::write(&file, text).unwrap();
    let arguments = format!(
        "--ros-args -r __ns:=/left -r __node:=fusion --params-file {} -p rate_hz:=50.0 -p words:=[a,b]",
        file.display()
    );
    let (context, _) = ros(&arguments);
    let mut overrides = context.parameter_overrides("under_test").unwrap();
    overrides.sort_by(|(a, _), (b, _)| a.cmp(b));
    use r2r::ParameterValue::*;
    let expected = [
        ("deep.flag", Bool(true)),
        ("list", DoubleArray(vec![1.5, 2.5])),
        ("name", String("mine".into())),
        ("rate_hz", Double(50.0)),
        ("words", StringArray(vec!["a".into(), "b".into()])),
    ];
    assert_eq!(overrides, expected.map(|(name, value)| (name.to_owned(), value)));
    let _ = std::fs::remove_file(file);
}

/// Runs in the child process: takes the messages of `/topic`, and says so after the first one. After a message of
/// [`LAST`], prints the number of messages, of gaps between their numbers, of messages that were lost, and the number of
/// the newest. Then it waits until its input closes.
#[test]
#[ignore = "a part of the tests below"]
fn child() {
    // The arguments of the test harness are not for ROS.
    let context = Context::from_args(["child".into()], None).unwrap();
    let node = Node::new(&context, "child", "").unwrap();
    let qos = Qos { depth: 5000, ..Qos::best_effort(1) };
    let subscription = node.subscribe("topic", "rosgraph_msgs/msg/Clock", qos).unwrap();
    await_publisher(&subscription);
    println!("\nready");
    let mut message = SerializedMessage::default();
    let mut numbers = Vec::new();
    until("the last message", || {
        let before = numbers.len();
        let mut is_last = false;
        while let Some(info) = subscription.take(&mut message).unwrap() {
            numbers.push(info.publication_sequence.unwrap());
            is_last |= message[..] == clock(LAST);
        }
        if before == 0 && !numbers.is_empty() {
            println!("\nfirst");
        }
        is_last
    });
    let gaps: u64 = numbers.windows(2).map(|pair| pair[1] - pair[0] - 1).sum();
    let mut lost = 0;
    until("the event", || {
        lost = subscription.events().lost.as_ref().unwrap().take().unwrap().unwrap().total;
        lost >= gaps
    });
    println!("\n{} {gaps} {lost} {}", numbers.len(), numbers.last().unwrap());
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

/// The content of the last message.
const LAST: i32 = 3001;

/// Publishes the last message until the child has it, and ends the child. Returns the numbers that it prints.
fn end_child(publisher: &Publisher, mut peer: Peer) -> Vec<u64> {
    let numbers = |line: String| line.split(' ').map(|word| word.parse().ok()).collect();
    let found = some("the numbers of the child", || {
        publisher.publish(&clock(LAST)).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        std::iter::from_fn(|| peer.line()).find_map(numbers)
    });
    peer.end();
    found
}

#[test]
fn the_event_and_the_numbers_count_messages_lost_on_the_way() {
    let (context, domain) = ros("");
    let node = Node::new(&context, "under_test", "").unwrap();
    let qos = Qos::best_effort(5000);
    let publisher = node.advertise("topic", "rosgraph_msgs/msg/Clock", qos).unwrap();
    let peer = Peer::of_this_program(domain);
    until("they match", || publisher.subscription_count().unwrap() == 1);
    publisher.publish(&clock(0)).unwrap();
    peer.await_line("first");
    // The queue in shared memory holds fewer messages than this.
    peer.signal("-STOP");
    until("the child stands still", || peer.is_stopped());
    (1..=3000).for_each(|k| publisher.publish(&clock(k)).unwrap());
    peer.signal("-CONT");
    let [received, gaps, lost, newest] = end_child(&publisher, peer)[..] else { unreachable!() };
    assert!(gaps > 500, "{gaps}");
    assert_eq!((received + gaps, lost), (newest, gaps));
}

#[test]
fn no_shared_memory_is_left_behind() {
    let (context, domain) = ros("");
    let node = Node::new(&context, "under_test", "").unwrap();
    let publisher =
        node.advertise("topic", "rosgraph_msgs/msg/Clock", Qos::best_effort(5)).unwrap();
    let peer = Peer::of_this_program(domain);
    until("they match", || publisher.subscription_count().unwrap() == 1);
    publisher.publish(&clock(0)).unwrap();
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", peer.child.id())).unwrap();
    // All domains share the ports from 7000 on.
    let own = |path: &&str| path.contains("/fastrtps_") && !path.contains("_port7");
    let paths = maps.lines().filter_map(|line| line.find("/dev/shm/").map(|at| &line[at..]));
    let mut used: Vec<PathBuf> = paths.filter(own).map(PathBuf::from).collect();
    assert!(!used.is_empty(), "it uses shared memory");
    end_child(&publisher, peer);
    drop((publisher, node, context));
    used.retain(|path| path.exists());
    assert!(used.is_empty(), "{used:?}");
}
