//! Messages in this process: their bytes and infos, the wait set, and drops of handles.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use robocache_core::cdr::Writer;
use robocache_ops::time::Stamp;
use robocache_rcl::{Node, Qos, SerializedMessage, Wake};
use robocache_testing::threads::ThreadNumber;
use robocache_testing::{Finally, until};

use super::{await_publisher, await_wake, connect, node, ros, take};

const CLOCK: &str = "rosgraph_msgs/msg/Clock";

/// A `rosgraph_msgs/msg/Clock`.
pub(crate) fn clock(sec: i32) -> Vec<u8> {
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
    let (publisher, subscription) = connect(&node, CLOCK, 10, Qos::best_effort(10));
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
        let sent = info.source_ns.unwrap();
        let came = info.received_ns.unwrap();
        assert!(start <= sent && sent <= came && came <= ns());
        let publishers = node.publishers_of("/topic").unwrap();
        assert_eq!(publishers.len(), 1);
        assert_eq!(
            (publishers[0].gid, publishers[0].node.as_deref()),
            (info.publisher, Some("/under_test"))
        );
        assert_eq!(publishers[0].ros_type, CLOCK);
        assert!(!publishers[0].reliable);
    }
}

#[test]
fn a_message_ends_the_wait_of_its_thread() {
    let node = node();
    let (publisher, mut subscription) = connect(&node, CLOCK, 10, Qos::reliable(10));
    let mut silent = node.subscribe("silent", CLOCK, Qos::reliable(1)).unwrap();
    assert!(silent.may_have(), "nobody tells of its messages");
    let wake = Arc::new(Wake::default());
    subscription.tell(&wake).unwrap();
    silent.tell(&wake).unwrap();
    let mut message = SerializedMessage::default();
    for subscription in [&silent, &subscription] {
        assert!(subscription.may_have(), "what came before is not known");
        assert_eq!(subscription.take(&mut message), Ok(None));
    }
    assert!(wake.wait(Duration::ZERO));
    for sec in 0..3 {
        publisher.publish(&clock(sec)).unwrap();
        await_wake(&wake);
        assert_eq!((silent.may_have(), subscription.may_have()), (false, true));
        assert!(subscription.take(&mut message).unwrap().is_some());
        assert_eq!(message[..], clock(sec));
        assert!(subscription.may_have(), "until a take finds none");
        assert_eq!(subscription.take(&mut message), Ok(None));
        assert!(!subscription.may_have() && !silent.may_have());
        assert!(!wake.wait(Duration::ZERO), "one wake for one message");
    }
}

#[test]
fn messages_that_came_before_are_told() {
    let node = node();
    let (publisher, mut subscription) = connect(&node, CLOCK, 10, Qos::reliable(10));
    let other = node.subscribe("topic", CLOCK, Qos::reliable(10)).unwrap();
    until("it matches", || publisher.subscription_count().unwrap() == 2);
    await_publisher(&other);
    (0..4).for_each(|sec| publisher.publish(&clock(sec)).unwrap());
    assert_eq!(take(&other, 4).len(), 4);
    let wake = Arc::new(Wake::default());
    subscription.tell(&wake).unwrap();
    assert!(wake.wait(Duration::ZERO));
    assert_eq!(take(&subscription, 4).len(), 4);
}

#[test]
fn every_message_is_told_and_a_full_queue_holds_the_newest() {
    const COUNT: i32 = 5000;
    let node = node();
    let (publisher, mut subscription) = connect(&node, CLOCK, 7, Qos::reliable(7));
    let wake = Arc::new(Wake::default());
    subscription.tell(&wake).unwrap();
    let mut message = SerializedMessage::default();
    let mut newest = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| (1..=COUNT).for_each(|sec| publisher.publish(&clock(sec)).unwrap()));
        while newest != clock(COUNT) {
            await_wake(&wake);
            while subscription.take(&mut message).unwrap().is_some() {
                newest = message.to_vec();
            }
        }
    });
}

#[test]
fn a_wake_ends_one_wait_also_if_it_comes_before() {
    let wake = Wake::default();
    wake.wake();
    wake.wake();
    await_wake(&wake);
    let start = Instant::now();
    assert!(!wake.wait(Duration::from_millis(30)));
    assert!(start.elapsed() >= Duration::from_millis(30));
    let waiter = ThreadNumber::default();
    waiter.is_this();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            waiter.until_asleep();
            wake.wake();
        });
        await_wake(&wake);
    });
}

#[test]
fn a_subscription_may_end_while_messages_come() {
    let node = node();
    let publisher = node.advertise("topic", CLOCK, Qos::best_effort(10)).unwrap();
    let wake = Arc::new(Wake::default());
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stops = Finally(|| stop.store(true, Ordering::Relaxed));
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                publisher.publish(&clock(1)).unwrap();
            }
        });
        for _ in 0..20 {
            let mut subscription = node.subscribe("topic", CLOCK, Qos::best_effort(10)).unwrap();
            subscription.tell(&wake).unwrap();
            await_wake(&wake);
            assert!(!take(&subscription, 1).is_empty());
            // Another wake replaces the first one.
            subscription.tell(&Arc::new(Wake::default())).unwrap();
        }
    });
    assert_eq!(Arc::strong_count(&wake), 1, "nothing is left");
}

#[test]
fn a_change_of_the_graph_is_told_once() {
    let node = node();
    let mut changes = node.graph_changes().unwrap();
    while changes.any().unwrap() {}
    let subscription = node.subscribe("topic", CLOCK, Qos::reliable(1)).unwrap();
    until("it is told", || changes.any().unwrap());
    until("what was told is told no more", || !changes.any().unwrap());
    drop(subscription);
    until("the end is told", || changes.any().unwrap());
}

#[test]
fn a_subscription_without_messages_ends_when_it_is_dropped() {
    let node = node();
    let subscribe = || node.subscribe("silent", CLOCK, Qos::reliable(1)).unwrap();
    let other = Node::new(&ros("").0, "elsewhere", "").unwrap();
    for _ in 0..3 {
        let subscription = subscribe();
        assert_eq!(node.count_subscriptions("/silent").unwrap(), 1);
        drop(subscription);
        assert_eq!(node.count_subscriptions("/silent").unwrap(), 0);
    }
    let publisher = node.advertise("silent", CLOCK, Qos::reliable(1)).unwrap();
    assert_eq!(node.publishers_of("/silent").unwrap().len(), 1);
    drop(publisher);
    assert_eq!(node.publishers_of("/silent").unwrap().len(), 0);
    assert_eq!(other.count_subscriptions("/silent").unwrap(), 0, "another domain");
}

#[test]
fn handles_may_be_dropped_in_any_order() {
    let (context, _) = ros("");
    let node = Node::new(&context, "under_test", "").unwrap();
    let (publisher, mut subscription) = connect(&node, CLOCK, 10, Qos::reliable(10));
    let wake = Arc::new(Wake::default());
    let mut changes = node.graph_changes().unwrap();
    subscription.tell(&wake).unwrap();
    drop(context);
    drop(node);
    changes.any().unwrap();
    wake.wait(Duration::ZERO);
    publisher.publish(&clock(1)).unwrap();
    await_wake(&wake);
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
        let subscription = node.subscribe(wrong, CLOCK, Qos::reliable(1));
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
