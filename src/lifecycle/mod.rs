//! A managed node of ROS 2: its state, and what clients hear of it.
//!
//! [`states`] has the states and transitions, [`services`] the services by which clients ask. The work of a
//! transition is done elsewhere: a request that is allowed becomes a [`BegunTransition`].

mod services;
mod states;

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

use r2r::lifecycle_msgs::msg::TransitionEvent;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::error::NodeError;
use robocache_ops::sync::lock;
use robocache_rcl::{MessagePublisher, Node, Qos};

pub(crate) use services::LifecycleServices;
pub(crate) use states::{LifecycleState, Transition, Verdict};

/// Events that the middleware keeps for a subscriber that is slow: as `rcl_lifecycle` does.
const EVENTS: usize = 10;

/// The state of a managed node. Several threads share it.
pub(crate) struct Lifecycle {
    /// Every change is one store, so a panic leaves no half change.
    state: Mutex<LifecycleState>,
    /// `None` before the node exists.
    events: Mutex<Option<TransitionEvents>>,
    orders: UnboundedSender<BegunTransition>,
}

/// Publishes the transitions.
pub(crate) type TransitionEvents = MessagePublisher<TransitionEvent>;

/// A transition that a request has begun: its work must be done.
pub(crate) struct BegunTransition {
    /// The state of the work.
    pub work: LifecycleState,
    /// Takes whether the work succeeded. Without an answer it did not.
    pub answer: Sender<bool>,
}

impl Lifecycle {
    /// The state of a node that was just created, and where its orders come.
    pub(crate) fn new() -> (Self, UnboundedReceiver<BegunTransition>) {
        let (orders, ordered) = unbounded_channel();
        let state = Mutex::new(LifecycleState::Unconfigured);
        (Lifecycle { state, events: Mutex::default(), orders }, ordered)
    }

    /// Advertises the transitions.
    fn advertise(node: &Node) -> Result<TransitionEvents, NodeError> {
        Ok(node.advertise_message("~/transition_event", Qos::reliable(EVENTS))?)
    }

    /// Publishes there from now on. Returns the publisher before.
    fn publish_by(&self, events: TransitionEvents) -> Option<TransitionEvents> {
        lock(&self.events).replace(events)
    }

    /// How many subscribers to the transitions have been found.
    fn subscribers(&self) -> robocache_rcl::Result<usize> {
        let events = lock(&self.events);
        events.as_ref().map_or(Ok(0), |events| events.publisher().subscription_count())
    }

    /// The state now.
    pub(crate) fn state(&self) -> LifecycleState {
        *lock(&self.state)
    }

    /// Begins a transition, if it is allowed now. Returns the state of its work, which the caller does.
    pub(crate) fn begin(&self, id: u8, label: &str) -> Option<LifecycleState> {
        self.begin_with(id, label, |_| {})
    }

    /// Orders the transition that a request names, if it is allowed now. Returns where its success comes.
    pub(crate) fn order(&self, id: u8, label: &str) -> Option<Receiver<bool>> {
        let (answer, answered) = channel();
        // Clients hear of it when it is ordered: a signal that comes then finds it under way.
        self.begin_with(id, label, |work| {
            // If the node is ending, the order is dropped with its answer.
            let _ = self.orders.send(BegunTransition { work, answer });
        })?;
        Some(answered)
    }

    fn begin_with(
        &self,
        id: u8,
        label: &str,
        begun: impl FnOnce(LifecycleState),
    ) -> Option<LifecycleState> {
        let events = lock(&self.events);
        let mut state = lock(&self.state);
        let transition = Transition::asked(*state, id, label)?;
        *state = transition.goal;
        drop(state);
        begun(transition.goal);
        tell(events.as_ref(), transition);
        Some(transition.goal)
    }

    /// Ends the work of a transition. Returns the state after it. If no work was under way, nothing changes.
    pub(crate) fn end(&self, verdict: Verdict) -> LifecycleState {
        let events = lock(&self.events);
        let mut state = lock(&self.state);
        let Some(transition) = Transition::ended(*state, verdict) else { return *state };
        *state = transition.goal;
        drop(state);
        tell(events.as_ref(), transition);
        transition.goal
    }
}

/// Publishes a transition, as `rcl_lifecycle` does: without its own name and without a time. The caller has held `events`
/// since before the state changed, so that the events are in order.
fn tell(events: Option<&TransitionEvents>, transition: &Transition) {
    let event = TransitionEvent {
        start_state: services::state_message(transition.start),
        goal_state: services::state_message(transition.goal),
        ..TransitionEvent::default()
    };
    if let Some(Err(error)) = events.map(|events| events.publish(&event)) {
        tracing::warn!("failed to publish the transition to {}: {error}", transition.goal.label());
    }
}

#[cfg(test)]
mod tests;
