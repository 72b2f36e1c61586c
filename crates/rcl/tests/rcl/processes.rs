//! Tests between processes: with rclpy, and with a child of this program.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use r2r::rcl_interfaces::msg::{Log, ParameterValue};
use r2r::rcl_interfaces::srv::GetParameters;
use robocache_rcl::{Context, Node, Qos, SerializedMessage, Wake};

use super::messages::clock;
use super::{PATIENCE, await_publisher, ros, take, until};

/// Starts an rclpy script with a node `peer` in the domain.
fn python(script: &str, domain: usize) -> Child {
    let start = "import sys, time, rclpy\nrclpy.init()\nnode = rclpy.create_node('peer')\n";
    let end = "\nnode.destroy_node()\nrclpy.shutdown()\n";
    let mut command = Command::new("timeout");
    command.args(["30", "python3", "-c"]).arg([start, script, end].concat());
    command.env("ROS_DOMAIN_ID", domain.to_string()).stdout(Stdio::piped()).spawn().unwrap()
}

fn output(child: Child) -> String {
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
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
for _ in range(20):  # the subscription may find the publisher later than the reverse
    publisher.publish(message)
    time.sleep(0.1)
print(bytes(serialize_message(message)).hex())";
    let child = python(script, domain);
    let bytes = &take(&subscription, 1)[0].0;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(output(child), hex);
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
assert client.wait_for_service(20)
while node.count_publishers('/log') == 0:
    time.sleep(0.01)
time.sleep(0.5)
future = client.call_async(GetParameters.Request(names=['a', 'b']))
while not (future.done() and logs):
    rclpy.spin_once(node, timeout_sec=0.1)
print([value.string_value for value in future.result().values], logs[0].msg)
print(*[name for name, _ in node.get_publisher_names_and_types_by_node('under_test', '/')])";
    let child = python(script, domain);
    assert!(wake.wait(PATIENCE));
    until("the client is found", || service.client_count().unwrap() == 1);
    let (id, request) = service.take_request().unwrap().unwrap();
    let value =
        |name: &String| ParameterValue { string_value: format!("<{name}>"), ..Default::default() };
    let values = request.names.iter().map(value).collect();
    assert!(wake.wait(Duration::ZERO), "another request may wait");
    assert!(service.take_request().unwrap().is_none() && !wake.wait(Duration::from_millis(20)));
    service.respond(id, &GetParameters::Response { values }).unwrap();
    until("they match", || log.publisher().subscription_count().unwrap() == 1);
    log.publish(&Log { msg: "seen".into(), ..Default::default() }).unwrap();
    let nul = Log { msg: "a\0b".into(), ..Default::default() };
    assert!(log.publish(&nul).unwrap_err().to_string().contains("without NUL"));
    assert_eq!(output(child), "['<a>', '<b>'] seen\n/log");
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

/// Runs in the child process: prints the numbers of `/topic`'s messages until its input closes.
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
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    let (mut message, mut numbers) = (SerializedMessage::default(), Vec::new());
    while let Some(info) = subscription.take(&mut message).unwrap() {
        numbers.push(info.publication_sequence.unwrap());
    }
    let gaps: u64 = numbers.windows(2).map(|pair| pair[1] - pair[0] - 1).sum();
    let lost = subscription.events().lost.as_ref().unwrap().take().unwrap().unwrap();
    println!("\n{} {gaps} {}", numbers.len(), lost.total);
}

/// Starts `child` in the domain and waits until it has subscribed.
fn start_child(domain: usize) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["processes::child", "--exact", "--ignored", "--nocapture"]);
    command.env("ROS_DOMAIN_ID", domain.to_string());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while line.trim() != "ready" {
        line.clear();
        assert!(output.read_line(&mut line).unwrap() > 0, "the child ended early");
    }
    (child, output)
}

/// Ends the child and returns the numbers that it prints.
fn end_child((mut child, output): (Child, BufReader<std::process::ChildStdout>)) -> Vec<u64> {
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    let lines: Vec<String> = output.lines().map_while(Result::ok).collect();
    assert!(child.wait().unwrap().success(), "{lines:?}");
    let numbers = |line: &String| line.split(' ').map(|word| word.parse().ok()).collect();
    lines.iter().find_map(numbers).unwrap()
}

fn signal(child: &Child, name: &str) {
    let kill = Command::new("kill").args([name, &child.id().to_string()]).status();
    assert!(kill.unwrap().success());
}

#[test]
fn the_event_and_the_numbers_count_messages_lost_on_the_way() {
    let (context, domain) = ros("");
    let node = Node::new(&context, "under_test", "").unwrap();
    let qos = Qos::best_effort(5000);
    let publisher = node.advertise("topic", "rosgraph_msgs/msg/Clock", qos).unwrap();
    let child = start_child(domain);
    until("they match", || publisher.subscription_count().unwrap() == 1);
    publisher.publish(&clock(0)).unwrap();
    std::thread::sleep(Duration::from_millis(200));
    // The queue in shared memory holds fewer messages than this.
    signal(&child.0, "-STOP");
    (1..=3000).for_each(|k| publisher.publish(&clock(k)).unwrap());
    signal(&child.0, "-CONT");
    std::thread::sleep(Duration::from_millis(300));
    publisher.publish(&clock(3001)).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let [received, gaps, lost] = end_child(child)[..] else { unreachable!() };
    assert!(gaps > 500, "{gaps}");
    assert_eq!((received + gaps, lost), (3002, gaps));
}

#[test]
fn no_shared_memory_is_left_behind() {
    let (context, domain) = ros("");
    let node = Node::new(&context, "under_test", "").unwrap();
    let publisher =
        node.advertise("topic", "rosgraph_msgs/msg/Clock", Qos::best_effort(5)).unwrap();
    let child = start_child(domain);
    until("they match", || publisher.subscription_count().unwrap() == 1);
    publisher.publish(&clock(0)).unwrap();
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", child.0.id())).unwrap();
    // All domains share the ports from 7000 on.
    let own = |path: &&str| path.contains("/fastrtps_") && !path.contains("_port7");
    let paths = maps.lines().filter_map(|line| line.find("/dev/shm/").map(|at| &line[at..]));
    let mut used: Vec<PathBuf> = paths.filter(own).map(PathBuf::from).collect();
    assert!(!used.is_empty(), "it uses shared memory");
    end_child(child);
    drop((publisher, node, context));
    used.retain(|path| path.exists());
    assert!(used.is_empty(), "{used:?}");
}
