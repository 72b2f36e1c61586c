//! Messages in this process: their bytes and infos, the wait set, and drops of handles.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use robocache_core::cdr::Writer;
use robocache_ops::time::Stamp;
use robocache_rcl::{Node, Qos, SerializedMessage, WaitSet, Waitable};

use super::{await_publisher, connect, node, ros, take, until};

/// A `rosgraph_msgs/msg/Clock`.
pub fn clock(sec: i32) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.i32(sec);
    writer.u32(7);
    writer.finish()
}

#[test]
fn a_taken_message_has_the_published_bytes() {
    let node = node();
    let (publisher, subscription) = connect(&node, "sensor_msgs/msg/Image", 10, Qos::reliable(10));
    assert_eq!(subscription.topic(), "/topic");
    let mut message = SerializedMessage::default();
    assert_eq!(subscription.take(&mut message).unwrap(), None);
    for size in [0, 1, 1 << 20, 5] {
        let image = image(size);
        publisher.publish(&image).unwrap();
        let taken = take(&subscription, 1);
        assert_eq!(taken.len(), 1);
        assert!(taken[0].0 == image, "{size} bytes of pixels");
    }
}

/// A `sensor_msgs/msg/Image` with one line of `size` pixels.
fn image(size: usize) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.header(Stamp::from_nanos(5), "camera");
    writer.u32(1);
    writer.u32(size as u32);
    writer.string("mono8");
    writer.u8(0);
    writer.u32(size as u32);
    writer.u32(size as u32);
    let mut bytes = writer.finish();
    bytes.extend((0..size).map(|k| k as u8));
    bytes
}

#[test]
fn a_message_has_its_publisher_its_times_and_its_number() {
    let node = node();
    let (publisher, subscription) =
        connect(&node, "rosgraph_msgs/msg/Clock", 10, Qos::best_effort(10));
    let ns = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64;
    let start = ns();
    let mut message = SerializedMessage::default();
    for sequence in 1..4 {
        publisher.publish(&clock(sequence as i32)).unwrap();
        let mut info = None;
        until("it comes", || {
            info = subscription.take(&mut message).unwrap();
            info.is_some()
        });
        let info = info.unwrap();
        assert_eq!(info.publication_sequence, Some(sequence));
        let (sent, came) = (info.source_ns.unwrap(), info.received_ns.unwrap());
        assert!(start <= sent && sent <= came && came <= ns());
        let publishers = node.publishers_of("/topic").unwrap();
        assert_eq!(publishers.len(), 1);
        assert_eq!(
            (publishers[0].gid, publishers[0].node.as_deref()),
            (info.publisher, Some("/under_test"))
        );
        assert_eq!(publishers[0].ros_type, "rosgraph_msgs/msg/Clock");
        assert!(!publishers[0].reliable);
    }
}

#[test]
fn a_wait_says_what_is_ready() {
    let (context, _) = ros("");
    let node = Node::new(&context, "under_test", "").unwrap();
    let subscription =
        node.subscribe("topic", "rosgraph_msgs/msg/Clock", Qos::reliable(10)).unwrap();
    let publisher = node.advertise("topic", "rosgraph_msgs/msg/Clock", Qos::reliable(10)).unwrap();
    let silent = node.subscribe("silent", "rosgraph_msgs/msg/Clock", Qos::reliable(1)).unwrap();
    let mut set = WaitSet::new(&context).unwrap();
    let waitables = || [Waitable::from(&silent), (&subscription).into()];
    let mut wait = |ms| {
        let ready = set.wait(waitables(), Duration::from_millis(ms)).unwrap();
        ([0, 1].map(|place| ready.is(place)), [0, 1].map(|place| ready.has_events(place)))
    };
    let nothing = ([false; 2], [false; 2]);

    await_publisher(&subscription);
    until("they match", || publisher.subscription_count().unwrap() == 1);
    for _ in 0..3 {
        publisher.publish(&clock(1)).unwrap();
        assert_eq!(wait(20_000), ([false, true], [false; 2]));
        assert_eq!(take(&subscription, 1).len(), 1);
        let start = Instant::now();
        assert_eq!(wait(30), nothing);
        assert!(start.elapsed() >= Duration::from_millis(29), "nothing ends the wait early");
    }
    // A publisher that offers less than the subscription asks for is an event of it.
    let _other = node.advertise("silent", "rosgraph_msgs/msg/Clock", Qos::best_effort(1)).unwrap();
    assert_eq!(wait(20_000), ([false; 2], [true, false]));
}

#[test]
fn a_wait_for_nothing_sleeps() {
    let mut set = WaitSet::new(&ros("").0).unwrap();
    let (start, timeout) = (Instant::now(), Duration::from_millis(30));
    set.wait([], timeout).unwrap();
    assert!(start.elapsed() >= timeout);
}

#[test]
fn a_subscription_without_messages_ends_when_it_is_dropped() {
    let node = node();
    let subscribe =
        || node.subscribe("silent", "rosgraph_msgs/msg/Clock", Qos::reliable(1)).unwrap();
    let other = Node::new(&ros("").0, "elsewhere", "").unwrap();
    for _ in 0..3 {
        let subscription = subscribe();
        assert_eq!(node.count_subscriptions("/silent").unwrap(), 1);
        drop(subscription);
        assert_eq!(node.count_subscriptions("/silent").unwrap(), 0);
    }
    let publisher = node.advertise("silent", "rosgraph_msgs/msg/Clock", Qos::reliable(1)).unwrap();
    assert_eq!(node.publishers_of("/silent").unwrap().len(), 1);
    drop(publisher);
    assert_eq!(node.publishers_of("/silent").unwrap().len(), 0);
    assert_eq!(other.count_subscriptions("/silent").unwrap(), 0, "another domain");
}

#[test]
fn handles_may_be_dropped_in_any_order() {
    let (context, _) = ros("");
    let node = Node::new(&context, "under_test", "").unwrap();
    let mut set = WaitSet::new(&context).unwrap();
    let (publisher, subscription) =
        connect(&node, "rosgraph_msgs/msg/Clock", 10, Qos::reliable(10));
    drop(context);
    drop(node);
    publisher.publish(&clock(1)).unwrap();
    let waitables = [Waitable::from(&subscription)];
    assert!(set.wait(waitables, Duration::from_secs(20)).unwrap().is(0));
    drop(publisher);
    assert_eq!(take(&subscription, 1)[0].0, clock(1));
    drop(subscription);
}

#[test]
fn names_are_resolved_and_checked_by_rcl() {
    let remaps = "--ros-args -r __ns:=/left -r __node:=fusion -r joints:=/arm/joints -r \
                  other:/imu:=/wrong -r fusion:/imu:=imu_raw";
    let (context, _) = ros(remaps);
    let node = Node::new(&context, "under_test", "").unwrap();
    let names = (node.name(), node.namespace(), node.fully_qualified_name(), node.logger_name());
    let expected = ("fusion", "/left", "/left/fusion", "left.fusion");
    assert_eq!((&*names.0, &*names.1, &*names.2, &*names.3), expected);
    let resolve = |topic| node.resolve_topic(topic).unwrap();
    assert_eq!(resolve("joints"), "/arm/joints");
    assert_eq!(resolve("/joints"), "/joints");
    assert_eq!(resolve("~/raw"), "/left/fusion/raw");
    assert_eq!(resolve("/imu"), "/left/imu_raw");
    for wrong in ["", "a b", "a\0b", "~~"] {
        assert!(node.resolve_topic(wrong).is_err(), "{wrong:?}");
        let subscription = node.subscribe(wrong, "rosgraph_msgs/msg/Clock", Qos::reliable(1));
        assert!(subscription.is_err(), "{wrong:?}");
    }
    assert!(Node::new(&context, "a\0b", "").is_err());
    let error = node.subscribe("a", "my_msgs/msg/Own", Qos::reliable(1)).err().unwrap().to_string();
    assert!(error.contains("install ros-$ROS_DISTRO-my-msgs"), "{error}");
}

#[test]
fn ros_arguments_that_cannot_be_read_are_an_error() {
    let start = |arguments: &[&str]| {
        let arguments = ["test", "--ros-args"].iter().chain(arguments).map(|arg| (*arg).into());
        robocache_rcl::Context::from_args(arguments, Some(1)).map(|_| ())
    };
    let error = start(&["-r", "a:=b:=c"]).unwrap_err();
    assert_eq!(error.operation, "start ROS");
    assert!(error.detail.contains("a:=b:=c"), "{error}");
    assert!(start(&["-p", "a\0:=b"]).unwrap_err().to_string().contains("without NUL"));
    assert!(start(&["--log-level", "loud"]).is_err());
}
