//! The events of a subscription, and which of them count losses exactly.

use robocache_rcl::{EventStatuses, MessagesLost, Qos, Subscription};
use robocache_testing::until;

use super::messages::clock;
use super::{await_publisher, connect, node, take};

const TYPE: &str = "rosgraph_msgs/msg/Clock";

fn incompatible(subscription: &Subscription) -> u64 {
    subscription.events().take().unwrap().incompatible.map_or(0, |event| event.total)
}

#[test]
fn an_event_reports_an_incompatible_publisher() {
    let node = node();
    let mut subscription = node.subscribe("topic", TYPE, Qos::reliable(1)).unwrap();
    let _publisher = node.advertise("topic", TYPE, Qos::best_effort(1)).unwrap();
    until("the event comes", || incompatible(&subscription) == 1);
    assert_eq!(incompatible(&subscription), 1, "the total stays");
    subscription.end_events();
    assert_eq!(subscription.events().take(), Ok(EventStatuses::default()));
}

#[test]
fn overwritten_messages_leave_gaps_and_no_event() {
    for qos in [Qos::best_effort(100), Qos::reliable(100)] {
        let node = node();
        let (publisher, subscription) = connect(&node, TYPE, 5, qos);
        let all = node.subscribe("topic", TYPE, Qos { depth: 100, ..qos }).unwrap();
        until("it matches", || publisher.subscription_count().unwrap() == 2);
        await_publisher(&all);
        (1..=40).for_each(|k| publisher.publish(&clock(k)).unwrap());
        assert_eq!(take(&all, 40).len(), 40);
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
