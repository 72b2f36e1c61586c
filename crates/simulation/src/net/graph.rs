//! The graph as a connection sees it.

use super::paths::id_of;
use super::{Net, SharedNet};
use robocache_link::{Graph, MiddlewareError};
use robocache_ops::random::Random;
use robocache_ops::sync::lock;
use robocache_runtime::{PublisherId, PublisherSeen};

/// The graph of a connection.
pub(crate) struct SimGraph {
    pub net: SharedNet,
    pub connection: usize,
    /// When the connection was made.
    pub since_ns: u64,
}

/// Changes of a graph: what it had at the last look.
pub(crate) struct SimChanges {
    net: SharedNet,
    connection: usize,
    since_ns: u64,
    seen: Vec<(usize, bool)>,
}

impl Net {
    /// Publishers that a subscription has found and that count for it.
    pub(super) fn found_by(&self, subscription: usize) -> usize {
        let now = self.clock.now_ns();
        let counts = |(publisher, of): &(usize, usize)| {
            *of == subscription
                && self.publishers[*publisher].ended.is_none_or(|(_, known)| now < known)
        };
        let found =
            self.paths.iter().filter(|(key, path)| counts(key) && path.reader_knows_ns <= now);
        found.count()
    }

    /// Publishers that a connection knows, each with whether it knows the node.
    fn known_to(&self, connection: usize, since_ns: u64) -> Vec<(usize, bool)> {
        let now = self.clock.now_ns();
        let known = |publisher: &usize| {
            let of = &self.publishers[*publisher];
            let [reader, _] = self.found_ns(*publisher, connection);
            // The instant at which the later of the two began is that of the paths, if there is one.
            let begun = since_ns.max(of.begun_ns);
            let found = begun + reader <= now && of.ended.is_none_or(|(_, known)| now < known);
            let mut draw = Random::keyed(self.seed ^ 0x0DE, [*publisher as u64, connection as u64]);
            found.then(|| (*publisher, begun + reader + draw.below(300 * super::MS) <= now))
        };
        (0..self.publishers.len()).filter_map(|publisher| known(&publisher)).collect()
    }
}

impl Graph for SimGraph {
    type Changes = SimChanges;

    fn watch(&self) -> Result<SimChanges, MiddlewareError> {
        let net = self.net.clone();
        Ok(SimChanges {
            net,
            connection: self.connection,
            since_ns: self.since_ns,
            seen: Vec::new(),
        })
    }

    fn has_changed(changes: &mut SimChanges) -> Result<bool, MiddlewareError> {
        let known = lock(&changes.net).known_to(changes.connection, changes.since_ns);
        let has_changed = known != changes.seen;
        changes.seen = known;
        Ok(has_changed)
    }

    fn publishers_of(
        &self,
        topic: &str,
    ) -> Result<Vec<(PublisherId, PublisherSeen)>, MiddlewareError> {
        let net = lock(&self.net);
        let known = net.known_to(self.connection, self.since_ns);
        let of =
            known.into_iter().filter(|(publisher, _)| net.publishers[*publisher].topic == topic);
        let seen = of.map(|(publisher, has_node)| {
            let found = &net.publishers[publisher];
            let node = has_node.then(|| format!("/robot_{publisher}"));
            let ros_type = found.ros_type.to_owned();
            (id_of(found), PublisherSeen { node, ros_type, offers: found.offers })
        });
        Ok(seen.collect())
    }

    fn topics(&self) -> Result<Vec<(String, String)>, MiddlewareError> {
        let net = lock(&self.net);
        let known = net.known_to(self.connection, self.since_ns);
        let topic = |(publisher, _)| {
            let of: &super::Publisher = &net.publishers[publisher];
            (of.topic.to_owned(), of.ros_type.to_owned())
        };
        Ok(known.into_iter().map(topic).collect())
    }
}

impl Net {
    /// True if the policy has found the publisher of tensors of a connection.
    pub(crate) fn policy_found(&self, connection: usize, since_ns: u64) -> bool {
        let mut draw = Random::keyed(self.seed ^ 0x901C, [connection as u64, 0]);
        let late = if draw.unit() < self.rules.late_answers { 3 * super::S } else { 0 };
        since_ns + draw.below(200 * super::MS) + late <= self.clock.now_ns()
    }
}
