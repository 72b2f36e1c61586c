//! Subscriptions of the node.

use std::sync::Arc;

use super::paths::id_of;
use super::{Net, SharedNet, Sub, Wakes};
use robocache_link::{
    EventTotals, Making, MessageInfo, MessageMemory, MiddlewareError, Subscription, Wanted,
};
use robocache_ops::sync::lock;
use robocache_runtime::Transit;

/// A subscription of the node. A drop ends it.
pub(crate) struct SimSubscription {
    net: SharedNet,
    id: usize,
}

/// The full name of the topic of chunks of actions.
pub(crate) const CHUNKS: &str = "/action_chunk";

impl Net {
    /// Subscribes through a connection.
    fn subscribe(&mut self, connection: usize, of: &Wanted) -> usize {
        let id = self.subscriptions.len();
        self.subscriptions.push(Sub {
            topic: format!("/{}", of.topic.trim_start_matches('/')),
            ros_type: of.ros_type.clone(),
            asks: of.asks,
            depth: of.depth,
            connection,
            wakes: if of.is_large { Wakes::Large } else { Wakes::Small },
            queue: std::collections::VecDeque::new(),
            begun_ns: self.clock.now_ns(),
            alive: true,
            lost: Vec::new(),
            incompatible: 0,
            events: true,
        });
        self.connections[connection].living += 1;
        for publisher in 0..self.publishers.len() {
            self.meet(publisher, id);
        }
        id
    }
}

impl SimSubscription {
    /// Subscribes through a connection.
    pub(crate) fn new(net: &SharedNet, connection: usize, wanted: &Wanted) -> Self {
        let id = lock(net).subscribe(connection, wanted);
        SimSubscription { net: Arc::clone(net), id }
    }
}

impl Drop for SimSubscription {
    fn drop(&mut self) {
        lock(&self.net).end_subscription(self.id);
    }
}

impl Subscription for SimSubscription {
    fn topic(&self) -> String {
        lock(&self.net).subscriptions[self.id].topic.clone()
    }

    fn may_have(&self) -> bool {
        !lock(&self.net).subscriptions[self.id].queue.is_empty()
    }

    fn take(&self, memory: &mut MessageMemory) -> Result<Option<MessageInfo>, MiddlewareError> {
        let net = &mut *lock(&self.net);
        if net.subscriptions[self.id].queue.is_empty() {
            return Ok(None);
        }
        let work = 2000 + net.draw.below(20_000);
        net.clock.spend(work);
        // Ten failures in a row end the node, and that is right.
        if net.take_failures < 5 && net.draw.unit() < net.rules.take_errors {
            net.take_failures += 1;
            return Err(MiddlewareError("take: a fault of the simulation".into()));
        }
        net.take_failures = 0;
        let sub = &mut net.subscriptions[self.id];
        let Some((sample, arrived_ns)) = sub.queue.pop_front() else { return Ok(None) };
        let mut bytes = match std::mem::take(memory) {
            MessageMemory::Vec(bytes) => bytes,
            MessageMemory::Place(..) => Vec::new(),
        };
        bytes.clear();
        bytes.extend_from_slice(&sample.bytes);
        *memory = MessageMemory::Vec(bytes);
        net.chunks_taken += u64::from(sub.topic == CHUNKS);
        net.taken = Some((sample.publisher, sample.number));
        let is_later = sub.begun_ns > net.publishers[sample.publisher].begun_ns;
        let fates = &mut net.fates[sample.publisher];
        fates.taken.push(sample.number);
        fates.first_by_later = fates.first_by_later.or(is_later.then_some(sample.number));
        Ok(Some(MessageInfo {
            publisher: id_of(&net.publishers[sample.publisher]),
            number: net.rules.numbers.then_some(sample.number),
            transit: Transit {
                published_ns: Some(sample.published_ns),
                arrived_ns: Some(arrived_ns),
            },
        }))
    }

    fn publisher_count(&self) -> Result<usize, MiddlewareError> {
        Ok(lock(&self.net).found_by(self.id))
    }

    fn events(&self) -> Result<EventTotals, MiddlewareError> {
        let net = lock(&self.net);
        let now = net.clock.now_ns();
        let sub = &net.subscriptions[self.id];
        if !sub.events {
            return Ok(EventTotals::default());
        }
        let lost = sub.lost.iter().filter(|(from, _)| *from <= now).map(|(_, count)| count).sum();
        let lost = net.rules.numbers.then_some(lost);
        Ok(EventTotals { lost, incompatible: Some(sub.incompatible) })
    }

    fn end_events(&mut self) {
        lock(&self.net).subscriptions[self.id].events = false;
    }

    fn again(&self, wanted: Wanted) -> Making<Self> {
        let connection = lock(&self.net).subscriptions[self.id].connection;
        let net = Arc::clone(&self.net);
        Box::new(move || Ok(SimSubscription::new(&net, connection, &wanted)))
    }
}
