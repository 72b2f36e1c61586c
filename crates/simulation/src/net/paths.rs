//! Paths: a message's way from a publisher to a subscription.

use std::sync::Arc;

use super::{Connection, Fates, MS, Net, PORT, Publisher, S, Sample, Sub, Transport};
use robocache_ops::random::Random;
use robocache_runtime::PublisherId;

/// It is chance on which side of an instant a message comes that is nearer than this: work of the node moves it.
pub(super) const EDGE_NS: u64 = 150 * MS;

/// The way from a publisher to a subscription.
#[derive(Clone, Debug)]
pub(crate) struct Path {
    /// When the subscription has found the publisher.
    pub reader_knows_ns: u64,
    /// When the publisher has found the subscription.
    pub writer_knows_ns: u64,
    /// When the last message comes: none overtakes it.
    last_ns: u64,
    /// When the last message is received that came before the subscription had found the publisher.
    held_ns: u64,
    /// The number that the reader expects next.
    expected: Option<u64>,
}

/// Time from one message that waits at a port to the next.
const PORT_NS: u64 = 5000;

/// The identity of a publisher in the whole network.
pub(crate) fn id_of(publisher: &Publisher) -> PublisherId {
    let mut id = [0xAB; 16];
    id[..8].copy_from_slice(&(publisher.identity as u64 + 1).to_le_bytes());
    PublisherId(id)
}

impl Net {
    /// When a connection and a publisher find each other: the instants of the connection and of the publisher.
    pub(super) fn found_ns(&self, publisher: usize, connection: usize) -> [u64; 2] {
        // For who begins later it is no matter of chance which connection is there.
        let is_later = self.publishers[publisher].begun_ns > self.connections[connection].begun_ns;
        let of = if is_later { 0 } else { self.connections[connection].key + 1 };
        let mut draw = Random::keyed(self.seed ^ 0xF1D, [publisher as u64, of]);
        let mut both = [0, 0].map(|_: u64| 5 * MS + draw.below(150 * MS));
        if draw.unit() < self.rules.late_answers {
            // Who begins drops the answer of the other one.
            both[usize::from(is_later)] += S / 2 + draw.below(5 * S / 2);
        }
        if draw.unit() < self.rules.late_answers {
            // The other one needs less than the time for which a node listens to two connections after it has found all.
            both[usize::from(!is_later)] += draw.below(4 * S / 5);
        }
        both
    }

    /// Lets a publisher and a subscription find each other, if they fit.
    pub(super) fn meet(&mut self, publisher: usize, subscription: usize) {
        let of = &self.publishers[publisher];
        let sub = &self.subscriptions[subscription];
        if of.topic != sub.topic || of.ros_type != sub.ros_type || of.ended.is_some() || !sub.alive
        {
            return;
        }
        if !sub.asks.fits(of.offers) {
            self.subscriptions[subscription].incompatible += 1;
            return;
        }
        let now = self.clock.now_ns();
        // Participants find each other from the instant on at which the later one begins. Those that know each other find new
        // parts of each other soon.
        let met_ns = of.begun_ns.max(self.connections[sub.connection].begun_ns);
        let mut found = self.found_ns(publisher, sub.connection).map(|ns| met_ns + ns);
        if now > met_ns {
            found = found.map(|at| at.max(now + 2 * MS + self.draw.below(20 * MS)));
        }
        let [reader_knows_ns, writer_knows_ns] = found;
        let held_ns = reader_knows_ns;
        let path = Path { reader_knows_ns, writer_knows_ns, last_ns: 0, held_ns, expected: None };
        self.paths.insert((publisher, subscription), path);
        self.due.push((writer_knows_ns, Transport::Found { publisher, subscription }));
    }

    /// Sends a message to a subscription that its publisher has found.
    pub(super) fn send(&mut self, subscription: usize, sample: &Arc<Sample>, now: u64) {
        let publisher = sample.publisher;
        let number = sample.number;
        let connection = self.subscriptions[subscription].connection;
        let of = &self.publishers[publisher];
        let reliable = self.subscriptions[subscription].asks.reliable;
        // Connections lose messages of their own. When a message comes that is sent once more is the same for all: else it
        // would be chance which of them has it before a standstill.
        let key = if reliable { 0 } else { self.connections[connection].key + 1 };
        let mut draw = Random::keyed(self.seed ^ 0x5E9D, [(publisher as u64) << 40 | key, number]);
        let is_lost = draw.unit() < self.rules.loss;
        // For all connections, so that it is not chance which of them is quicker.
        let mut draw = Random::keyed(self.seed ^ 0xDE1A, [publisher as u64, number]);
        let mut at = now + 200_000 + draw.below(2 * MS);
        if self.rules.delay_ns > 0 {
            at += (draw.unit().powi(3) * self.rules.delay_ns as f64) as u64;
        }
        let to = &self.connections[connection];
        let is_broken = to.broken.is_some_and(|(from, until)| (from..until).contains(&now));
        if !of.remote && (to.cut_off || is_broken) {
            let is_edge = to.is_edge(now);
            return self.fates[publisher].lose(number, is_edge);
        }
        match (is_lost, reliable) {
            (true, false) => return self.fates[publisher].lose(number, true),
            (true, true) => at += 5 * MS + draw.below(200 * MS),
            (false, _) => {}
        }
        let swaps = self.rules.swaps && !reliable;
        let Some(path) = self.paths.get_mut(&(publisher, subscription)) else { return };
        if reliable {
            path.expected.get_or_insert(number);
        }
        if !swaps {
            at = at.max(path.last_ns + 1);
            path.last_ns = at;
        }
        let sample = Arc::clone(sample);
        self.due.push((at, Transport::Deliver { subscription, sample }));
    }

    /// Does what the agenda says.
    pub(crate) fn carry(&mut self, transport: Transport) {
        match transport {
            Transport::Found { publisher, subscription } => {
                self.give_history(publisher, subscription);
            }
            Transport::Deliver { subscription, sample } => self.deliver(subscription, sample),
            Transport::Port { connection } => self.look_at_port(connection),
        }
    }

    fn give_history(&mut self, publisher: usize, subscription: usize) {
        let asks = self.subscriptions[subscription].asks;
        if !asks.transient_local || !self.paths.contains_key(&(publisher, subscription)) {
            return;
        }
        let now = self.clock.now_ns();
        // The newest may have been published at this very instant, and is on its way.
        let history: Vec<_> = self.publishers[publisher].history.iter().cloned().collect();
        let first = self.paths[&(publisher, subscription)].expected;
        for sample in history.into_iter().filter(|it| first.is_none_or(|first| it.number < first)) {
            if let Some(path) = self.paths.get_mut(&(publisher, subscription)) {
                path.expected = Some(path.expected.unwrap_or(sample.number).min(sample.number));
            }
            self.send(subscription, &sample, now);
        }
    }

    fn deliver(&mut self, subscription: usize, sample: Arc<Sample>) {
        let sub = &self.subscriptions[subscription];
        let port = &mut self.connections[sub.connection].port;
        if !sub.alive {
            return;
        }
        // None overtakes those that wait.
        match self.stopped || !port.is_empty() {
            true if port.len() < PORT => port.push_back((subscription, sample)),
            true => self.fates[sample.publisher].lose(sample.number, false),
            false => self.receive(subscription, sample),
        }
    }

    /// Receives a message that waits at a port. The next one follows.
    fn look_at_port(&mut self, connection: usize) {
        let port = &mut self.connections[connection].port;
        let Some((subscription, sample)) = (!self.stopped).then(|| port.pop_front()).flatten()
        else {
            return;
        };
        if !port.is_empty() {
            let next = self.clock.now_ns() + PORT_NS;
            self.due.push((next, Transport::Port { connection }));
        }
        self.receive(subscription, sample);
    }

    fn receive(&mut self, subscription: usize, sample: Arc<Sample>) {
        let now = self.clock.now_ns();
        let publisher = sample.publisher;
        let number = sample.number;
        let sub = &mut self.subscriptions[subscription];
        let connection = &self.connections[sub.connection];
        if !sub.alive {
            return;
        }
        if connection.cut_off && !self.publishers[publisher].remote {
            return self.fates[publisher].lose(number, connection.is_edge(now));
        }
        let Some(path) = self.paths.get_mut(&(publisher, subscription)) else { return };
        if now < path.reader_knows_ns {
            match sub.asks.reliable {
                true => {
                    // In their order, and before those that come later.
                    path.held_ns += 1;
                    self.due.push((path.held_ns, Transport::Deliver { subscription, sample }));
                }
                false => {
                    let is_edge = path.reader_knows_ns < now + EDGE_NS;
                    self.fates[publisher].lose(number, is_edge);
                }
            }
            return;
        }
        let missing = path.expected.map_or(0, |expected| number.saturating_sub(expected));
        if path.expected.is_some_and(|expected| number < expected) {
            // It was overtaken: the reader has counted it as lost.
            return self.fates[publisher].lose(number, true);
        }
        path.expected = Some(number + 1);
        if missing > 0 {
            sub.lost.push((now + self.draw.below(50 * MS), missing));
        }
        let arrived_ns = self.clock.system().nanos();
        let mut draw = Random::keyed(self.seed ^ 0xD0B1, [publisher as u64, number]);
        if self.rules.doubles > 0.0 && draw.unit() < self.rules.doubles {
            sub.push((Arc::clone(&sample), arrived_ns), &mut self.fates);
        }
        sub.push((sample, arrived_ns), &mut self.fates);
        self.wakes.push(sub.wakes);
    }

    /// Returns the fates of a publisher's messages in this life of the node.
    pub(crate) fn fates_of(&self, publisher: usize) -> &Fates {
        &self.fates[publisher]
    }
}

impl Connection {
    /// True if it begins or ends about now that messages are lost.
    fn is_edge(&self, now: u64) -> bool {
        let edges = self.broken.map(|(from, until)| [from, until]);
        edges.into_iter().flatten().any(|edge| edge.abs_diff(now) < EDGE_NS)
    }
}

impl Fates {
    /// Notes a message that the network lost. `is_drawn`: true if that was chance, and not because of the connection.
    fn lose(&mut self, number: u64, is_drawn: bool) {
        self.lost.push(number);
        self.drawn.extend(is_drawn.then_some(number));
    }
}

impl Sub {
    /// Queues a message. A full queue overwrites its oldest one.
    fn push(&mut self, arrived: (Arc<Sample>, i64), fates: &mut [Fates]) {
        if self.queue.len() == self.depth
            && let Some((old, _)) = self.queue.pop_front()
        {
            fates[old.publisher].overwritten.push(old.number);
        }
        self.queue.push_back(arrived);
    }
}
