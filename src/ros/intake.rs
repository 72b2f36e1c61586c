//! The subscriptions: takes every waiting message, hands it to the runtime, and counts the lost
//! messages.

use super::buffers::Buffers;
use super::error::NodeError;
use super::losses::Losses;
use super::rcl::{
    self, EventStatuses, MessageInfo, Node, Qos, Ready, SerializedMessage, Subscription, Waitable,
};
use crate::runtime::{PublisherId, Runtime, Transit, decode_clock};
use crate::spec::{InputId, InputSpec, Selection};
use std::sync::atomic::Ordering;

/// The topic of a simulator's clock, before remapping.
pub const CLOCK_TOPIC: &str = "/clock";
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
pub struct Intake {
    clock: Option<Clock>,
    inputs: Vec<Input>,
    /// Inputs that may have a message, during a drain.
    ready: Vec<usize>,
}

/// The subscription to the clock of a simulator.
struct Clock {
    subscription: Subscription,
    takes: Takes,
}

/// The subscription of one input.
struct Input {
    id: InputId,
    depth: usize,
    subscription: Subscription,
    buffers: Buffers,
    takes: Takes,
    losses: Losses,
}

impl Intake {
    /// Subscribes to the inputs of vectors, and to `/clock` if that is the node's clock.
    pub fn small(node: &Node, runtime: &Runtime) -> Result<Self, NodeError> {
        let qos = Qos::best_effort(CLOCK_DEPTH);
        let subscribe = || -> rcl::Result<Clock> {
            let mut subscription = node.subscribe(CLOCK_TOPIC, "rosgraph_msgs/msg/Clock", qos)?;
            // Nobody reads them, and an event that nobody takes ends every wait.
            subscription.end_events();
            Ok(Clock { subscription, takes: Takes::default() })
        };
        let clock = runtime.clock.is_simulated().then(subscribe).transpose()?;
        Ok(Intake { clock, inputs: Self::subscribe(node, runtime, false)?, ready: Vec::new() })
    }

    /// Subscribes to the inputs of images and clouds.
    pub fn large(node: &Node, runtime: &Runtime) -> Result<Self, NodeError> {
        Ok(Intake { clock: None, inputs: Self::subscribe(node, runtime, true)?, ready: Vec::new() })
    }

    fn subscribe(node: &Node, runtime: &Runtime, large: bool) -> Result<Vec<Input>, NodeError> {
        let ids = runtime.inputs().filter(|id| runtime.input_spec(*id).is_large() == large);
        ids.map(|id| Input::new(node, id, runtime)).collect()
    }

    /// Whether there is nothing to take.
    pub fn is_empty(&self) -> bool {
        self.clock.is_none() && self.inputs.is_empty()
    }

    /// Returns the subscriptions for a wait: the clock, if it is simulated, then the inputs.
    pub fn waitables(&self) -> impl Iterator<Item = Waitable<'_>> {
        let clock = self.clock.iter().map(|clock| Waitable::from(&clock.subscription));
        clock.chain(self.inputs.iter().map(|input| Waitable::from(&input.subscription)))
    }

    /// Takes the waiting messages: in turns one of each subscription, so that none waits for all of
    /// another, but from each at most as many as its queue holds. Messages that come meanwhile are
    /// left for the next call. `first` is the place of the first subscription in the wait.
    pub fn drain(
        &mut self,
        runtime: &Runtime,
        ready: Ready<'_>,
        first: usize,
    ) -> Result<(), NodeError> {
        let inputs = first + usize::from(self.clock.is_some());
        self.ready.clear();
        let is_ready = |k: &usize| ready.is(inputs + k);
        self.ready.extend((0..self.inputs.len()).filter(is_ready));
        for round in 0.. {
            if let Some(clock) = self.clock.as_mut().filter(|_| round > 0 || ready.is(first)) {
                clock.drain(runtime)?;
            }
            let mut at = 0;
            while let Some(k) = self.ready.get(at) {
                let input = &mut self.inputs[*k];
                if round < input.depth && input.take(runtime)? {
                    at += 1;
                } else {
                    self.ready.remove(at);
                }
            }
            if self.ready.is_empty() {
                break;
            }
        }
        for (k, input) in self.inputs.iter_mut().enumerate() {
            input.count_losses(runtime, ready.has_events(inputs + k));
        }
        Ok(())
    }
}

impl Input {
    fn new(node: &Node, id: InputId, runtime: &Runtime) -> Result<Self, NodeError> {
        let (spec, state) = (runtime.input_spec(id), runtime.input(id));
        let depth = spec.qos.depth;
        let qos = if spec.qos.reliable { Qos::reliable(depth) } else { Qos::best_effort(depth) };
        let subscription = node.subscribe(&spec.topic, spec.ros_type, qos)?;
        state.tells_lost.store(subscription.events().lost.is_some(), Ordering::Relaxed);
        let buffers = Buffers::new(largest_buffer(runtime, spec));
        let (takes, losses) = (Takes::default(), Losses::default());
        Ok(Input { id, depth, subscription, buffers, takes, losses })
    }

    /// Takes a message and hands its buffer to the runtime without a copy. Returns `false` if no
    /// message waits, or if the middleware failed to give it.
    fn take(&mut self, runtime: &Runtime) -> Result<bool, NodeError> {
        let mut message = self.buffers.take();
        let (taken, state) = (self.subscription.take(&mut message), runtime.input(self.id));
        if taken.is_err() {
            state.take_failed.add(1);
        }
        let Some(info) = self.takes.note(taken)? else {
            self.buffers.give_back(message);
            return Ok(false);
        };
        self.losses.note(&info);
        if info.publication_sequence.is_some() {
            state.tells_lost.store(true, Ordering::Relaxed);
        }
        let publisher = Some(PublisherId(info.publisher.0));
        let arrival = runtime.clock.arrival(transit(&info));
        runtime.receive_from(publisher, self.id, self.buffers.lend(message), arrival)?;
        Ok(true)
    }

    /// Counts the lost messages, if there was a gap or an event. If the events cannot be taken, the
    /// input goes on without them.
    fn count_losses(&mut self, runtime: &Runtime, has_events: bool) {
        if !has_events && !self.losses.has_gaps() {
            return;
        }
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
        let lost = self.losses.explain(told.lost.map(|lost| lost.total));
        let state = runtime.input(self.id);
        state.lost.add(lost.on_the_way);
        state.queue_full.add(lost.overwritten);
    }
}

/// Returns the largest buffer that an input keeps \[bytes\]: one of the largest message that the
/// node takes, with usual points.
fn largest_buffer(runtime: &Runtime, spec: &InputSpec) -> usize {
    const SMALL: usize = 1 << 20;
    const PIXEL: usize = 4;
    const POINT: usize = 64;
    let bounds = spec.stream.map(|stream| runtime.stream_spec(stream).bounds);
    let large = bounds.map(|bounds| match spec.selection {
        Selection::Image => PIXEL * bounds.max_width_px * bounds.max_height_px,
        Selection::Points { .. } => POINT * bounds.max_points,
        Selection::Fields(_) | Selection::Joints { .. } => 0,
    });
    SMALL + large.unwrap_or(0)
}

/// When a message was published, and when it arrived.
fn transit(info: &MessageInfo) -> Transit {
    Transit { published_ns: info.source_ns, arrived_ns: info.received_ns }
}

impl Clock {
    /// Sets the clock from each waiting message.
    fn drain(&mut self, runtime: &Runtime) -> rcl::Result<()> {
        let mut message = SerializedMessage::default();
        for _ in 0..CLOCK_DEPTH {
            let taken = self.subscription.take(&mut message);
            let Some(info) = self.takes.note(taken)? else { break };
            set_clock(runtime, &message, transit(&info));
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
    fn note<T>(&mut self, taken: rcl::Result<Option<T>>) -> rcl::Result<Option<T>> {
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
            tracing::warn!("{error}; the node ends if this happens {FAILURES} times in a row");
        }
        Ok(None)
    }
}

/// Sets the clock from one message on `/clock`.
fn set_clock(runtime: &Runtime, message: &[u8], transit: Transit) {
    match decode_clock(message) {
        Ok(Some(stamp)) => runtime.set_clock(stamp, transit),
        _ => tracing::warn!("ignored a malformed message on /clock"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ros::rcl::RclError;

    fn failure() -> rcl::Result<Option<u8>> {
        Err(RclError { operation: "take a message of /a".into(), detail: "out of memory".into() })
    }

    #[test]
    fn only_repeated_failures_of_a_take_end_the_node() {
        let mut takes = Takes::default();
        for _ in 0..3 {
            for _ in 1..FAILURES {
                assert_eq!(takes.note(failure()), Ok(None));
            }
            assert_eq!(takes.note(Ok(Some(7))), Ok(Some(7)), "a success ends the row");
        }
        for _ in 1..FAILURES {
            assert_eq!(takes.note(failure()), Ok(None));
        }
        let error = takes.note(failure()).unwrap_err().to_string();
        assert_eq!(error, "take a message of /a: out of memory");
    }
}
