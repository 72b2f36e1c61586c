//! The services of a managed node, by which clients read its state and change it.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};

use r2r::lifecycle_msgs::msg::{
    State as StateMessage, Transition as TransitionMessage, TransitionDescription,
};
use r2r::lifecycle_msgs::srv::{
    ChangeState, GetAvailableStates, GetAvailableTransitions, GetState,
};

use super::{Lifecycle, LifecycleState, Order, Transition, TransitionEvents};
use crate::error::NodeError;
use crate::requests::{Offerer, Taken, answer, log_failure};
use robocache_rcl::{RequestId, Service};

/// The services, and the request whose work is under way.
pub struct LifecycleServices {
    lifecycle: Arc<Lifecycle>,
    /// Publishes the transitions. `None` when the lifecycle has it.
    events: Option<TransitionEvents>,
    change: Service<ChangeState::Service>,
    state: Service<GetState::Service>,
    states: Service<GetAvailableStates::Service>,
    transitions: Service<GetAvailableTransitions::Service>,
    graph: Service<GetAvailableTransitions::Service>,
    /// The request to change the state that waits for its answer.
    changing: Option<(RequestId, Receiver<bool>)>,
    /// Whether a transition was under way when requests were looked for last.
    postponed: bool,
}

impl LifecycleServices {
    /// Advertises the services and the transitions under the node's name.
    pub fn new(offerer: Offerer<'_>, lifecycle: Arc<Lifecycle>) -> Result<Self, NodeError> {
        Ok(LifecycleServices {
            lifecycle,
            events: Some(Lifecycle::advertise(offerer.node)?),
            change: offerer.offer("change_state")?,
            state: offerer.offer("get_state")?,
            states: offerer.offer("get_available_states")?,
            transitions: offerer.offer("get_available_transitions")?,
            graph: offerer.offer("get_transition_graph")?,
            changing: None,
            postponed: false,
        })
    }

    /// Publishes the transitions through this connection from now on. Returns the publisher before.
    pub fn publish_events(&mut self) -> Option<TransitionEvents> {
        self.events.take().and_then(|events| self.lifecycle.publish_by(events))
    }

    /// Whether requests wait: for the end of a transition, or one for its answer.
    pub fn waits(&self) -> bool {
        self.postponed || self.is_changing()
    }

    /// Whether a request waits for the end of its work.
    pub fn is_changing(&self) -> bool {
        self.changing.is_some()
    }

    /// Answers one request of each service. During a transition requests wait for its end, as in a node of rclcpp.
    pub fn serve(&mut self, taken: &mut Taken) {
        if self.lifecycle.state().is_primary() {
            self.change_state(taken);
        }
        let state = self.lifecycle.state();
        self.postponed = !state.is_primary();
        if self.postponed {
            return;
        }
        answer(&self.state, taken, |_| GetState::Response { current_state: state_message(state) });
        answer(&self.states, taken, |_| GetAvailableStates::Response {
            available_states: LifecycleState::ALL.into_iter().map(state_message).collect(),
        });
        answer(&self.transitions, taken, |_| GetAvailableTransitions::Response {
            available_transitions: state.transitions().map(description).collect(),
        });
        answer(&self.graph, taken, |_| GetAvailableTransitions::Response {
            available_transitions: Transition::ALL.iter().map(description).collect(),
        });
    }

    /// Begins the transition that a request asks for, or refuses it.
    fn change_state(&mut self, taken: &mut Taken) {
        let (id, request) = match taken.take(&self.change) {
            Ok(Some(taken)) => taken,
            Ok(None) => return,
            Err(error) => return log_failure(&error),
        };
        let TransitionMessage { id: number, label } = request.transition;
        let Some(work) = self.lifecycle.begin(number, &label) else {
            let named = if label.is_empty() { number.to_string() } else { label };
            let state = self.lifecycle.state().label();
            tracing::warn!("the transition {named} is not allowed while the node is {state}");
            return self.respond(id, false);
        };
        // The work of the request before has ended, or this one would not be allowed: its answer comes at once.
        if let Some((before, answered)) = self.changing.take() {
            let success = answered.recv().unwrap_or(false);
            self.respond(before, success);
        }
        let (answer, answered) = channel();
        self.changing = Some((id, answered));
        // If the node is ending, the order is dropped with its answer.
        let _ = self.lifecycle.orders.send(Order { work, answer });
    }

    /// Answers the request whose work has ended.
    pub fn answer_change(&mut self) {
        let Some((id, answered)) = &self.changing else { return };
        let success = match answered.try_recv() {
            Ok(success) => success,
            Err(TryRecvError::Empty) => return,
            Err(TryRecvError::Disconnected) => false,
        };
        let id = *id;
        self.changing = None;
        self.respond(id, success);
    }

    fn respond(&self, id: RequestId, success: bool) {
        let responded = self.change.respond(id, &ChangeState::Response { success });
        responded.unwrap_or_else(|error| log_failure(&error));
    }
}

/// A state as a message.
pub fn state_message(state: LifecycleState) -> StateMessage {
    StateMessage { id: state as u8, label: state.label().to_owned() }
}

fn description(transition: &Transition) -> TransitionDescription {
    let Transition { id, label, start, goal } = *transition;
    TransitionDescription {
        transition: TransitionMessage { id, label: label.to_owned() },
        start_state: state_message(start),
        goal_state: state_message(goal),
    }
}
