//! The events of a subscription, and which of them count losses exactly.

use std::time::Duration;

use robocache_rcl::{
    Context, EventStatuses, Guard, MessagesLost, Node, Qos, Subscription, WaitSet, Waitable,
};

use super::messages::clock;
use super::{await_publisher, connect, node, ros, take, until};

const TYPE: &str = "rosgraph_msgs/msg/Clock";

fn wait_for_event(context: &Context, subscription: &Subscription) {
    let mut set = WaitSet::new(context).unwrap();
    let ready = set.wait([Waitable::from(subscription)], Duration::from_secs(20)).unwrap();
    assert!(ready.has_events(0) && !ready.is(0));
}

#[test]
fn an_event_reports_an_incompatible_publisher() {
    let (context, _) = ros("");
    let node = Node::new(&context, "under_test", "").unwrap();
    let subscription = node.subscribe("topic", TYPE, Qos::reliable(1)).unwrap();
    let _publisher = node.advertise("topic", TYPE, Qos::best_effort(1)).unwrap();
    let incompatible = subscription.events().incompatible.as_ref().unwrap();
    wait_for_event(&context, &subscription);
    assert_eq!(incompatible.take().unwrap().unwrap().total, 1);
}

#[test]
fn a_guard_ends_one_wait_also_if_it_is_triggered_before() {
    let (context, _) = ros("");
    let guard = Guard::new(&context).unwrap();
    let mut set = WaitSet::new(&context).unwrap();
    let mut wait = |milliseconds| {
        let waitable = [Waitable::from(&guard)];
        set.wait(waitable, Duration::from_millis(milliseconds)).unwrap().is(0)
    };
    guard.trigger().unwrap();
    assert!(wait(20_000));
    assert!(!wait(20));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(50));
            guard.trigger().unwrap();
        });
        assert!(wait(20_000));
    });
}

#[test]
fn events_that_have_ended_end_no_wait_and_messages_still_come() {
    let (context, _) = ros("");
    let node = Node::new(&context, "under_test", "").unwrap();
    let mut subscription = node.subscribe("topic", TYPE, Qos::reliable(1)).unwrap();
    let publisher = node.advertise("topic", TYPE, Qos::reliable(1)).unwrap();
    let _incompatible = node.advertise("topic", TYPE, Qos::best_effort(1)).unwrap();
    wait_for_event(&context, &subscription);
    subscription.end_events();
    assert_eq!(subscription.events().take(), Ok(EventStatuses::default()));
    let mut set = WaitSet::new(&context).unwrap();
    let mut wait = |milliseconds| {
        let timeout = Duration::from_millis(milliseconds);
        let ready = set.wait([Waitable::from(&subscription)], timeout).unwrap();
        (ready.is(0), ready.has_events(0))
    };
    assert_eq!(wait(50), (false, false), "the event that nobody took ends no wait");
    until("they match", || publisher.subscription_count().unwrap() == 1);
    publisher.publish(&clock(1)).unwrap();
    assert_eq!(wait(20_000), (true, false));
    assert_eq!(take(&subscription, 1).len(), 1);
}

#[test]
fn overwritten_messages_leave_gaps_and_no_event() {
    for qos in [Qos::best_effort(100), Qos::reliable(100)] {
        let node = node();
        let (publisher, subscription) = connect(&node, TYPE, 5, qos);
        (1..=40).for_each(|k| publisher.publish(&clock(k)).unwrap());
        let taken = take(&subscription, 5);
        let numbers: Vec<u64> = taken.iter().map(|(_, number)| *number).collect();
        assert_eq!(numbers, [36, 37, 38, 39, 40]);
        let lost = subscription.events().lost.as_ref().unwrap().take().unwrap();
        assert_eq!(lost, Some(MessagesLost { total: 0 }));
        publisher.publish(&clock(41)).unwrap();
        assert_eq!(take(&subscription, 1)[0].1, 41);
    }
}

#[test]
fn messages_before_the_subscription_are_not_lost() {
    for qos in [Qos::best_effort(100), Qos::reliable(100)] {
        let node = node();
        let (publisher, early) = connect(&node, TYPE, 100, qos);
        (1..=10).for_each(|k| publisher.publish(&clock(k)).unwrap());
        let late = node.subscribe("topic", TYPE, qos).unwrap();
        until("it matches", || publisher.subscription_count().unwrap() == 2);
        await_publisher(&late);
        publisher.publish(&clock(11)).unwrap();
        assert_eq!(take(&late, 1)[0].1, 11);
        let lost = late.events().lost.as_ref().unwrap().take().unwrap();
        assert_eq!(lost.unwrap().total, 0);
        assert_eq!(take(&early, 11).len(), 11);
    }
}
