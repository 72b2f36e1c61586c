//! The subscriptions: takes every waiting message, hands it to the runtime, and counts the lost
//! messages.

use super::after_standstill::{Look, StandstillWatch};
use super::buffers::Buffers;
use super::error::NodeError;
use super::fastdds::Connector;
use super::handover::{Handover, LONGEST, Switch};
use super::losses::Losses;
use robocache_core::spec::{InputId, InputSpec, Timeline};
use robocache_ops::time::Stamp;
use robocache_rcl::{
    self, EventStatuses, MessageInfo, Middleware, Node, Qos, SerializedMessage, Subscription, Wake,
};
use robocache_runtime::{OfferedQos, Origin, PublisherId, Runtime, Transit, decode_clock};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The topic of a simulator's clock, before remapping.
pub(crate) const CLOCK_TOPIC: &str = "/clock";
/// Queue depth of `/clock`: a tenth of a second at 1 kHz.
const CLOCK_DEPTH: usize = 100;
/// If the middleware fails this often in a row to give a message of one subscription, the node
/// ends.
const FAILURES: u32 = 10;

/// Some of the subscriptions, which one thread takes messages from.
///
/// The runtime handles a small message at once, and a large one goes to the encode workers. Still,
/// an image takes a millisecond to copy. So one thread takes the small messages and the clock, and
/// another one the images and clouds.
pub(crate) struct Intake {
    clock: Option<Clock>,
    inputs: Vec<Input>,
    /// Tells when the thread stood still.
    standstills: StandstillWatch,
    /// Inputs that may have a message, during a drain.
    ready: Vec<usize>,
    /// Ends the wait of the thread.
    wake: Arc<Wake>,
    /// Ends what is replaced.
    connector: Connector,
}

/// The subscription to the clock of a simulator.
struct Clock {
    subscription: Switch<Subscription>,
    takes: Takes,
}

/// The subscription of one input.
struct Input {
    id: InputId,
    depth: usize,
    subscription: Subscription,
    flow: Flow,
    handover: Handover,
    buffers: Buffers,
    takes: Takes,
    losses: Losses,
    /// Whether a row's instant is that of its arrival.
    is_of_arrival: bool,
    /// Whether the clock of the publisher of the newest message agrees with that of this machine.
    clocks_agree: bool,
}

/// Subscriptions that one thread waits for.
pub(crate) struct Subscriptions {
    /// The clock of a simulator, if that is the node's clock and this the thread of the small messages.
    pub clock: Option<Subscription>,
    /// In the order of the inputs.
    pub inputs: Vec<Subscribed>,
}

/// A subscription of an input, and what it asks for.
pub(crate) struct Subscribed {
    pub subscription: Subscription,
    pub asks: OfferedQos,
    pub flow: Flow,
}

/// Who receives large messages inside the middleware.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// A thread of their own.
    Own,
    /// The thread that receives all messages.
    Shared,
}

impl Intake {
    /// Takes the messages of these subscriptions: those of the large inputs or those of the others, and the
    /// clock's. Subscriptions that replace them end the waits of `wake`, as these do.
    pub(crate) fn new(
        runtime: &Runtime,
        large: bool,
        Subscriptions { clock, inputs }: Subscriptions,
        (wake, connector): (Arc<Wake>, Connector),
    ) -> Self {
        let ids = runtime.inputs().filter(|id| runtime.input_spec(*id).is_large() == large);
        let ids: Vec<InputId> = ids.collect();
        let largest = ids.iter().map(|id| largest_buffer(runtime, runtime.input_spec(*id))).max();
        let buffers = Buffers::new(largest.unwrap_or(0), ids.len());
        let inputs = ids.into_iter().zip(inputs);
        let inputs = inputs.map(|(id, subscribed)| Input::new(id, runtime, subscribed, &buffers));
        let clock = clock.map(|subscription| Clock {
            subscription: Switch::new(subscription),
            takes: Takes::default(),
        });
        let (inputs, standstills) = (inputs.collect(), StandstillWatch::default());
        Intake { clock, inputs, standstills, ready: Vec::new(), wake, connector }
    }

    /// Whether a message may wait.
    pub(crate) fn may_have(&self) -> bool {
        self.clock.as_ref().is_some_and(|clock| clock.subscription.current.may_have())
            || self.inputs.iter().any(Input::may_have)
    }

    /// Takes the waiting messages: in turns one of each subscription, so that none waits for all of
    /// another, but from each at most as many as its queue holds. Messages that come meanwhile are
    /// left for the next call.
    pub(crate) fn drain(&mut self, runtime: &Runtime) -> Result<(), NodeError> {
        self.standstills.look(Look::now(&runtime.time));
        self.ready.clear();
        self.ready.extend((0..self.inputs.len()).filter(|k| self.inputs[*k].may_have()));
        for round in 0.. {
            if let Some(clock) = &mut self.clock {
                clock.drain(runtime)?;
            }
            let mut at = 0;
            while let Some(k) = self.ready.get(at) {
                let input = &mut self.inputs[*k];
                if round < input.depth && input.take(runtime, &mut self.standstills)? {
                    at += 1;
                } else {
                    self.ready.remove(at);
                }
            }
            if self.ready.is_empty() {
                break;
            }
        }
        self.inputs.iter_mut().filter(|input| input.losses.is_pending()).for_each(|input| {
            input.count_losses(runtime);
        });
        Ok(())
    }

    /// Counts what the middleware has lost, ends overlaps, and subscribes again to an input whose publishers offer another
    /// quality of service than before. The caller calls this several times per second, after a drain.
    pub(crate) fn look(&mut self, runtime: &Runtime, now: Instant) {
        for input in &mut self.inputs {
            if let Some(before) = input.end_overlap(now) {
                self.connector.end(before);
            }
            input.count_losses(runtime);
        }
        // One in a call: the middleware takes a while to make a subscription.
        let ends = (&self.wake, &self.connector);
        let _ = self.inputs.iter_mut().any(|input| input.adapt(runtime, now, ends));
        if let Some(clock) = &mut self.clock
            && let Some(before) = clock.follow(runtime, now)
        {
            self.connector.end(before);
        }
    }

    /// Takes the subscriptions of a new connection.
    pub(crate) fn move_to(
        &mut self,
        runtime: &Runtime,
        Subscriptions { clock, inputs }: Subscriptions,
    ) {
        let now = runtime.time.monotonic();
        for (input, subscribed) in self.inputs.iter_mut().zip(inputs) {
            input.replace(runtime, subscribed, now, &self.connector);
            runtime.input(input.id).resubscribed.add(1);
        }
        if let (Some(clock), Some(next)) = (&mut self.clock, clock)
            && let Some(unused) = clock.subscription.begin(next, now)
        {
            self.connector.end(unused);
        }
    }
}

impl Input {
    fn new(id: InputId, runtime: &Runtime, subscribed: Subscribed, buffers: &Buffers) -> Self {
        let spec = runtime.input_spec(id);
        let Subscribed { subscription, asks, flow } = subscribed;
        let state = runtime.input(id);
        state.asks.set(asks);
        state.tells_lost.store(Middleware::in_use().numbers_messages(), Ordering::Relaxed);
        Input {
            id,
            depth: spec.qos.depth,
            subscription,
            flow,
            handover: Handover::default(),
            buffers: buffers.with(runtime.pipeline.messages(id), largest_buffer(runtime, spec)),
            takes: Takes::default(),
            losses: Losses::new(!spec.newest_arrival_counts()),
            is_of_arrival: spec.timeline == Timeline::Receive,
            clocks_agree: false,
        }
    }

    fn may_have(&self) -> bool {
        self.subscription.may_have()
            || self.handover.overlap.before().is_some_and(Subscription::may_have)
    }

    /// Subscribes again if the publishers offer another quality of service than the subscription
    /// asks for. Returns whether it has tried to.
    fn adapt(
        &mut self,
        runtime: &Runtime,
        now: Instant,
        (wake, connector): (&Arc<Wake>, &Connector),
    ) -> bool {
        let (spec, state) = (runtime.input_spec(self.id), runtime.input(self.id));
        let (asks, wants) = (state.asks.get(), state.wants.get());
        if !self.handover.is_due(asks != wants, now) {
            return false;
        }
        match subscribe((&self.subscription.node(), wake), spec, wants, self.flow) {
            Ok(subscribed) => {
                self.replace(runtime, subscribed, now, connector);
                state.adapted.add(1);
                tracing::info!(
                    "{}: subscribed again with {wants} instead of {asks}, because its publishers \
                     have changed",
                    name_of(spec)
                );
            }
            Err(error) => {
                if self.handover.failed(now) {
                    tracing::warn!("{}: not subscribed with {wants}: {error}", name_of(spec));
                }
            }
        }
        true
    }

    /// Takes the messages of another subscription from now on, and for a while also those of this one.
    fn replace(
        &mut self,
        runtime: &Runtime,
        Subscribed { subscription, asks, .. }: Subscribed,
        now: Instant,
        connector: &Connector,
    ) {
        let state = runtime.input(self.id);
        self.count_losses(runtime);
        let before = std::mem::replace(&mut self.subscription, subscription);
        self.handover.begin(before, now).into_iter().for_each(|unused| connector.end(unused));
        self.losses.overlap(now);
        state.asks.set(asks);
        state.incompatible.store(0, Ordering::Relaxed);
    }

    /// Takes a message and hands its buffer to the runtime without a copy. Returns `false` if no
    /// message waits, or if the middleware failed to give it.
    fn take(
        &mut self,
        runtime: &Runtime,
        standstills: &mut StandstillWatch,
    ) -> Result<bool, NodeError> {
        let mut message = self.buffers.take();
        let state = runtime.input(self.id);
        let before = self.handover.overlap.before().map(|before| before.take(&mut message));
        let from_before = matches!(before, Some(Ok(Some(_))));
        let taken = match before {
            Some(taken) if from_before || taken.is_err() => taken,
            _ => self.subscription.take(&mut message),
        };
        if taken.is_err() {
            state.take_failed.add(1);
        }
        let Some(info) = self.takes.note(taken)? else {
            self.buffers.give_back(message);
            return Ok(false);
        };
        let publisher = Some(PublisherId(info.publisher.0));
        let published = info.source_ns.map(Stamp::from_nanos);
        let (origin, transit) = (Origin { publisher, published }, transit(&info));
        if !self.losses.note(&info, from_before, runtime.time.monotonic()) {
            // While two subscriptions overlap, that is no news.
            state.repeated.add(u64::from(!self.losses.overlaps()));
            match state.asks.get().transient_local {
                true => {
                    let message = self.buffers.lend(message);
                    runtime.keep_repeated(origin, self.id, message, transit);
                }
                false => self.buffers.give_back(message),
            }
            return Ok(true);
        }
        if self.is_of_arrival && !state.asks.get().transient_local {
            standstills.look(Look::now(&runtime.time));
            if standstills.has_waited(transit, self.clocks_agree) {
                runtime.drop_waited(self.id, publisher);
                self.buffers.give_back(message);
                return Ok(true);
            }
            self.clocks_agree = transit.agrees();
        }
        let arrival = runtime.arrival(self.id, transit);
        runtime.receive_from(origin, self.id, self.buffers.lend(message), arrival)?;
        Ok(true)
    }

    /// Returns the subscription before when only the new one is needed.
    fn end_overlap(&mut self, now: Instant) -> Option<Subscription> {
        let publishers = |subscription: &Subscription| subscription.publisher_count().unwrap_or(0);
        let new = &self.subscription;
        let before =
            self.handover.overlap.over(now, |before| publishers(new) >= publishers(before))?;
        let told = new.events().take().unwrap_or_default();
        self.losses.overlap_ended(told.lost.map(|lost| lost.total), now);
        Some(before)
    }

    /// Counts the lost messages. If the events cannot be taken, the input goes on without them.
    fn count_losses(&mut self, runtime: &Runtime) {
        let told = self.subscription.events().take().unwrap_or_else(|error| {
            let topic = self.subscription.topic();
            tracing::warn!(
                "{topic}: {error}; from now on the events of this subscription are not read"
            );
            self.subscription.end_events();
            EventStatuses::default()
        });
        if let Some(incompatible) = told.incompatible {
            runtime.input(self.id).incompatible.store(incompatible.total, Ordering::Relaxed);
        }
        if self.losses.overlaps() {
            return;
        }
        let lost = self.losses.explain(told.lost.map(|lost| lost.total), runtime.time.monotonic());
        let state = runtime.input(self.id);
        state.lost.add(lost.on_the_way);
        state.queue_full.add(lost.overwritten);
    }
}

/// Returns the largest buffer that an input keeps \[bytes\]: one of the largest message that the
/// node takes, with usual points.
fn largest_buffer(runtime: &Runtime, spec: &InputSpec) -> usize {
    const SMALL: usize = 1 << 20;
    const POINT: usize = 64;
    let bounds = spec.stream.map(|stream| runtime.stream_spec(stream).bounds);
    let large = bounds
        .filter(|_| spec.is_large())
        .map(|bounds| spec.largest_message(bounds).unwrap_or(POINT * bounds.max_points));
    SMALL + large.unwrap_or(0)
}

/// When a message was published, and when it arrived.
fn transit(info: &MessageInfo) -> Transit {
    Transit { published_ns: info.source_ns, arrived_ns: info.received_ns }
}

/// Subscribes to the topic of an input. Its messages end the waits of `wake`.
///
/// # Errors
/// The middleware refuses.
pub(crate) fn subscribe(
    (node, wake): (&Node, &Arc<Wake>),
    spec: &InputSpec,
    asks: OfferedQos,
    flow: Flow,
) -> robocache_rcl::Result<Subscribed> {
    let OfferedQos { reliable, transient_local } = asks;
    let qos = Qos { reliable, transient_local, ..Qos::best_effort(spec.qos.depth) };
    // The middleware copies an image of 6 MB for a millisecond before it is complete. Six cameras
    // made joints 1.6 ms older on one thread.
    let mut subscription = match flow {
        Flow::Own if spec.is_large() => node.subscribe_apart(&spec.topic, &spec.ros_type, qos),
        _ => node.subscribe(&spec.topic, &spec.ros_type, qos),
    }?;
    subscription.tell(wake)?;
    Ok(Subscribed { subscription, asks, flow })
}

/// The name of an input in the log.
fn name_of(spec: &InputSpec) -> String {
    format!("stream '{}' ({})", spec.name, spec.topic)
}

/// Subscribes to the clock of a simulator.
///
/// # Errors
/// The middleware refuses.
pub(crate) fn subscribe_to_clock(
    node: &Node,
    wake: &Arc<Wake>,
) -> robocache_rcl::Result<Subscription> {
    let qos = Qos::best_effort(CLOCK_DEPTH);
    let mut subscription = node.subscribe(CLOCK_TOPIC, "rosgraph_msgs/msg/Clock", qos)?;
    subscription.tell(wake)?;
    Ok(subscription)
}

impl Clock {
    /// Goes over to the subscription of a new connection when it is connected. Returns the one before.
    ///
    /// Two at once would set the clock back: the same instants come from both, and the second queue is
    /// emptied after the first.
    fn follow(&mut self, runtime: &Runtime, now: Instant) -> Option<Subscription> {
        let publishers = |subscription: &Subscription| subscription.publisher_count().unwrap_or(0);
        let is_connected = |next: &_, before: &_| publishers(next) >= publishers(before);
        // At once: if the old connection is cut off, its clock stands.
        let before = self.subscription.over(now, (Duration::ZERO, LONGEST), is_connected)?;
        // Most of these instants came from the one before, too. The newest counts if it is ahead.
        let (mut message, mut newest) = (SerializedMessage::default(), None);
        while let Ok(Some(info)) = self.subscription.current.take(&mut message) {
            newest = Some((decode_clock(&message), transit(&info)));
        }
        if let Some((Ok(Some(stamp)), transit)) = newest
            && runtime.clock.now().is_none_or(|now| stamp > now.stamp)
            && let Some(clock) = runtime.sim_clock()
        {
            clock.set(stamp, transit);
        }
        Some(before)
    }

    /// Sets the clock from each waiting message.
    fn drain(&mut self, runtime: &Runtime) -> robocache_rcl::Result<()> {
        let mut message = SerializedMessage::default();
        for _ in 0..CLOCK_DEPTH {
            let taken = self.subscription.current.take(&mut message);
            let Some(info) = self.takes.note(taken)? else { break };
            match (decode_clock(&message), runtime.sim_clock()) {
                (Ok(Some(stamp)), Some(clock)) => clock.set(stamp, transit(&info)),
                _ => tracing::warn!("ignored a malformed message on /clock"),
            }
        }
        Ok(())
    }
}

/// Watches the takes of one subscription: a failure is logged once, and only repeated failures end
/// the node.
#[derive(Default)]
struct Takes {
    /// Failures since the last take that succeeded.
    in_a_row: u32,
    logged: bool,
}

impl Takes {
    /// Notes the outcome of a take, and returns what was taken. A failure counts as nothing taken.
    ///
    /// # Errors
    /// This was the last of [`FAILURES`] failures in a row.
    fn note<T>(
        &mut self,
        taken: robocache_rcl::Result<Option<T>>,
    ) -> robocache_rcl::Result<Option<T>> {
        let error = match taken {
            Ok(taken) => {
                self.in_a_row = 0;
                return Ok(taken);
            }
            Err(error) => error,
        };
        self.in_a_row += 1;
        if self.in_a_row == FAILURES {
            return Err(error);
        }
        if !self.logged {
            self.logged = true;
            tracing::warn!(
                "{error}; the node stops working if this happens {FAILURES} times in a row"
            );
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests;
