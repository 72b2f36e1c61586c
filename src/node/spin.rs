//! The spin thread: owns the node, takes every message off the middleware and hands it on.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{FutureExt, Stream, StreamExt};
use r2r::qos::ReliabilityPolicy;
use r2r::{Node, QosProfile};

use super::clock::{Advance, NodeClock, decode_clock};
use super::error::{NodeError, RosContext};
use super::inbox::Message;
use super::param_services::ParameterServices;
use super::publishers::PublisherSeen;
use super::shared::Shared;
use crate::config::{Qos, StreamSpec};
use crate::sync::lock;
use crate::time::Stamp;

/// The longest wait for a message: the thread looks for the end of the node in between.
const IDLE: Duration = Duration::from_millis(50);
/// Between two looks at the graph for all streams' publishers.
const GRAPH_PERIOD: Duration = Duration::from_secs(1);
/// Messages of `/clock` that may wait; at 1 kHz, a tenth of a second.
const CLOCK_DEPTH: usize = 100;

type Bytes = Pin<Box<dyn Stream<Item = Vec<u8>> + Send>>;

/// The node and what it listens to.
pub struct Spinner {
    node: Node,
    shared: Arc<Shared>,
    parameters: ParameterServices,
    clock: Option<Bytes>,
    streams: Vec<Subscription>,
    graph: GraphWatch,
    coarse_clock: u32,
}

struct Subscription {
    messages: Bytes,
    burst: Burst,
}

/// Messages that came without the queue being seen empty in between.
///
/// In order, a queue cannot lose messages unnoticed here: when it does, as many as it holds are yet
/// to be taken. Where a publisher sends anew what got lost on the way, newer messages already stand
/// in the queue, cannot be taken before the older ones have come, and push them out: then it may be
/// that only the stamps tell ([`Arrivals::missing`](super::arrivals::Arrivals::missing)). The
/// middleware's own count, the event `MESSAGE_LOST`, cannot be asked for through r2r 0.9.
struct Burst {
    depth: usize,
    length: usize,
}

impl Burst {
    /// Notes whether a look found a message; says each time that as many as the queue holds have
    /// come since it was last seen empty, so that it may have been full.
    fn note(&mut self, delivered: bool) -> bool {
        self.length = if delivered { self.length + 1 } else { 0 };
        let full = self.length == self.depth;
        if full {
            self.length = 0;
        }
        full
    }
}

impl Spinner {
    /// Subscribes to all streams, and to `/clock` where it is the node's clock. `topics` are the
    /// full names by stream index.
    pub fn new(
        mut node: Node,
        shared: Arc<Shared>,
        parameters: ParameterServices,
        topics: Vec<String>,
    ) -> Result<Self, NodeError> {
        let mut streams = Vec::with_capacity(topics.len());
        for spec in &shared.pipeline.config().streams {
            streams.push(subscribe_stream(&mut node, spec)?);
        }
        let clock = match shared.clock {
            NodeClock::System => None,
            NodeClock::Sim(_) => {
                let qos = QosProfile::default().keep_last(CLOCK_DEPTH).best_effort();
                Some(subscribe(&mut node, "/clock", "rosgraph_msgs/msg/Clock", qos)?)
            }
        };
        let graph = GraphWatch::new(topics);
        Ok(Spinner { node, shared, parameters, clock, streams, graph, coarse_clock: 0 })
    }

    /// Spins until the node stops, then drops it here, on the thread that used it: a process that
    /// ends without that leaves its shared-memory segment behind.
    pub fn run(mut self) -> Result<(), NodeError> {
        let mut busy = false;
        while !self.shared.stopping() {
            // After a message the next look does not wait: what it finds has been queueing, which
            // is how a full queue is told from a fast stream.
            self.node.spin_once(if busy { Duration::ZERO } else { IDLE });
            busy = self.drain()?;
            if !busy {
                self.parameters.serve();
                self.graph.look(&self.node, &self.shared);
            }
        }
        Ok(())
    }

    /// Empties r2r's channels, which hold 10 messages and then drop the newest; a spin adds at
    /// most one to each, so none is ever near its limit. Says whether a stream had a message.
    fn drain(&mut self) -> Result<bool, NodeError> {
        while let Some(message) = self.clock.as_mut().and_then(next) {
            set_clock(&self.shared, &mut self.coarse_clock, &message);
        }
        let mut any = false;
        let mut receive = None;
        for (stream, subscription) in self.streams.iter_mut().enumerate() {
            let mut delivered = false;
            while let Some(bytes) = next(&mut subscription.messages) {
                // Before the first message of a simulator's clock there is no time to stamp with.
                let now = || self.shared.clock.now().map_or(Stamp::ZERO, |now| now.stamp);
                let receive = *receive.get_or_insert_with(now);
                self.shared.receive(Message { stream, bytes, receive })?;
                delivered = true;
            }
            any |= delivered;
            if subscription.burst.note(delivered) {
                self.shared.streams[stream].queue_full.add(1);
            }
        }
        Ok(any)
    }
}

fn next(messages: &mut Bytes) -> Option<Vec<u8>> {
    messages.next().now_or_never().flatten()
}

fn subscribe_stream(node: &mut Node, spec: &StreamSpec) -> Result<Subscription, NodeError> {
    let Qos { reliable, depth } = spec.qos;
    let qos = QosProfile::default().keep_last(depth).volatile();
    let qos = if reliable { qos.reliable() } else { qos.best_effort() };
    let messages = subscribe(node, &spec.topic, spec.source.ros_type(), qos)?;
    Ok(Subscription { messages, burst: Burst { depth, length: 0 } })
}

fn subscribe(
    node: &mut Node,
    topic: &str,
    ros_type: &str,
    qos: QosProfile,
) -> Result<Bytes, NodeError> {
    let messages = node
        .subscribe_raw(topic, ros_type, qos)
        .during(|| format!("subscribe to {topic} ({ros_type})"))?;
    Ok(Box::pin(messages))
}

/// Sets a simulator's clock from a message on `/clock`.
fn set_clock(shared: &Shared, coarse: &mut u32, message: &[u8]) {
    let NodeClock::Sim(clock) = &shared.clock else { return };
    let Ok(Some(stamp)) = decode_clock(message) else {
        tracing::warn!("a malformed message on /clock is ignored");
        return;
    };
    let period_ns = shared.pipeline.config().grid.period_ns();
    match shared.set_clock(clock, stamp) {
        Advance::Back(_) => {}
        Advance::Started => tracing::info!("/clock runs, from {stamp}"),
        Advance::Forward(by) => warn_of_coarse_clock(coarse, by, period_ns),
    }
}

/// Says once that the clock's steps are longer than a tick, after a few of them in a row: one
/// alone may be a hiccup.
fn warn_of_coarse_clock(coarse: &mut u32, step_ns: i64, period_ns: i64) {
    const IN_A_ROW: u32 = 5;
    if *coarse >= IN_A_ROW {
        return;
    }
    *coarse = if step_ns > period_ns { *coarse + 1 } else { 0 };
    if *coarse == IN_A_ROW {
        tracing::warn!(
            "/clock is too coarse for the rate of the ticks: it advances by {} ms at a time, a \
             tick is {} ms; only the newest tick of each step is served",
            step_ns as f64 / 1e6,
            period_ns as f64 / 1e6,
        );
    }
}

/// Looks at the publishers of one stream after the other: a look takes the middleware a fraction
/// of a millisecond, and all at once would be felt.
struct GraphWatch {
    topics: Vec<String>,
    stream: usize,
    due: Instant,
}

impl GraphWatch {
    fn new(topics: Vec<String>) -> Self {
        GraphWatch { topics, stream: 0, due: Instant::now() }
    }

    fn look(&mut self, node: &Node, shared: &Shared) {
        let now = Instant::now();
        let Some(topic) = self.topics.get(self.stream).filter(|_| now >= self.due) else { return };
        match node.get_publishers_info_by_topic(topic, false) {
            Ok(publishers) => {
                let seen = publishers.into_iter().map(|p| PublisherSeen {
                    node: format!("{}/{}", p.node_namespace.trim_end_matches('/'), p.node_name),
                    ros_type: p.topic_type,
                    reliable: p.qos_profile.reliability == ReliabilityPolicy::Reliable,
                });
                *lock(&shared.streams[self.stream].publishers) = Some(seen.collect());
            }
            Err(error) => tracing::debug!("the publishers of {topic} cannot be listed: {error}"),
        }
        self.stream = (self.stream + 1) % self.topics.len();
        self.due = now + GRAPH_PERIOD / self.topics.len() as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_full_queue_of_a_burst_is_counted_and_a_fast_stream_is_not() {
        let mut burst = Burst { depth: 10, length: 0 };
        let full = (0..35).filter(|_| burst.note(true)).count();
        assert_eq!(full, 3);
        assert!(!burst.note(false));
        let full = (0..100).filter(|k| burst.note(k % 10 != 9)).count();
        assert_eq!(full, 0);
    }
}
