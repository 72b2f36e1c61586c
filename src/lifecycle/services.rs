//! The services of a managed node, by which clients read its state and change it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};

use r2r::WrappedServiceTypeSupport;
use r2r::lifecycle_msgs::msg::{
    State as StateMessage, Transition as TransitionMessage, TransitionDescription,
};
use r2r::lifecycle_msgs::srv::{
    ChangeState, GetAvailableStates, GetAvailableTransitions, GetState,
};

use super::{Lifecycle, LifecycleState, Transition, TransitionEvents};
use crate::error::NodeError;
use crate::requests::{Offerer, Taken, log_failure};
use robocache_rcl::{RequestId, Service};

/// Requests that are held at most. The middleware keeps ten more of each service.
const HELD: usize = 16;

/// The services, and the request whose work is under way.
pub(crate) struct LifecycleServices {
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
    /// Requests that were taken and wait for the end of a transition, the oldest first.
    held: VecDeque<HeldRequest>,
}

/// A request that was taken.
enum HeldRequest {
    Change(RequestId, TransitionMessage),
    State(RequestId),
    States(RequestId),
    Transitions(RequestId),
    Graph(RequestId),
}

impl LifecycleServices {
    /// Advertises the services and the transitions under the node's name.
    pub(crate) fn new(offerer: Offerer<'_>, lifecycle: Arc<Lifecycle>) -> Result<Self, NodeError> {
        Ok(LifecycleServices {
            lifecycle,
            events: Some(Lifecycle::advertise(offerer.node)?),
            change: offerer.offer("change_state")?,
            state: offerer.offer("get_state")?,
            states: offerer.offer("get_available_states")?,
            transitions: offerer.offer("get_available_transitions")?,
            graph: offerer.offer("get_transition_graph")?,
            changing: None,
            held: VecDeque::new(),
        })
    }

    /// Publishes the transitions through this connection from now on. Returns the publisher before.
    pub(crate) fn publish_events(&mut self) -> Option<TransitionEvents> {
        self.events.take().and_then(|events| self.lifecycle.publish_by(events))
    }

    /// How many clients of each service, and subscribers to the transitions, this connection has found.
    pub(crate) fn audience(&self) -> [usize; 6] {
        let subscribers = match &self.events {
            Some(events) => events.publisher().subscription_count(),
            None => self.lifecycle.subscribers(),
        };
        [
            self.change.client_count(),
            self.state.client_count(),
            self.states.client_count(),
            self.transitions.client_count(),
            self.graph.client_count(),
            subscribers,
        ]
        .map(Result::unwrap_or_default)
    }

    /// True if a request waits: for the end of its work, or of a transition.
    pub(crate) fn waits(&self) -> bool {
        self.changing.is_some() || !self.held.is_empty()
    }

    /// Takes one request of each service, and answers those that need not wait.
    pub(crate) fn serve(&mut self, taken: &mut Taken) {
        if self.held.len() < HELD {
            self.held.extend(take(&self.change, taken, |id, asked| {
                HeldRequest::Change(id, asked.transition)
            }));
            self.held.extend(take(&self.state, taken, |id, _| HeldRequest::State(id)));
            self.held.extend(take(&self.states, taken, |id, _| HeldRequest::States(id)));
            self.held.extend(take(&self.transitions, taken, |id, _| HeldRequest::Transitions(id)));
            self.held.extend(take(&self.graph, taken, |id, _| HeldRequest::Graph(id)));
        }
        self.proceed();
    }

    /// Answers what no longer waits. During a transition all requests wait for its end, as in a node of rclcpp.
    pub(crate) fn proceed(&mut self) {
        self.answer_change();
        while self.lifecycle.state().is_primary()
            && let Some(held) = self.held.pop_front()
        {
            self.answer(held).unwrap_or_else(|error| log_failure(&error));
        }
    }

    fn answer(&mut self, held: HeldRequest) -> robocache_rcl::Result<()> {
        let state = self.lifecycle.state();
        let described = |transitions: Vec<TransitionDescription>| {
            GetAvailableTransitions::Response { available_transitions: transitions }
        };
        match held {
            HeldRequest::Change(id, asked) => {
                self.change_state(id, asked);
                Ok(())
            }
            HeldRequest::State(id) => {
                let response = GetState::Response { current_state: state_message(state) };
                self.state.respond(id, &response)
            }
            HeldRequest::States(id) => {
                let available_states = LifecycleState::ALL.into_iter().map(state_message).collect();
                self.states.respond(id, &GetAvailableStates::Response { available_states })
            }
            HeldRequest::Transitions(id) => {
                let response = described(state.transitions().map(description).collect());
                self.transitions.respond(id, &response)
            }
            HeldRequest::Graph(id) => {
                let response = described(Transition::ALL.iter().map(description).collect());
                self.graph.respond(id, &response)
            }
        }
    }

    /// Begins the transition that a request asks for, or refuses it.
    fn change_state(
        &mut self,
        id: RequestId,
        TransitionMessage { id: number, label }: TransitionMessage,
    ) {
        let Some(answered) = self.lifecycle.order(number, &label) else {
            let named = if label.is_empty() { number.to_string() } else { label };
            let state = self.lifecycle.state();
            let allowed: Vec<_> = state.transitions().map(|transition| transition.label).collect();
            let remedy = match allowed.as_slice() {
                [] => "start the process again".to_owned(),
                allowed => format!("expected {}", allowed.join(" or ")),
            };
            let state = state.label();
            tracing::warn!(
                "the transition {named} is not allowed while the node is {state}: {remedy}"
            );
            return self.respond(id, false);
        };
        // The work of the request before has ended, or this one would not be allowed: its answer comes at once.
        if let Some((before, answered)) = self.changing.replace((id, answered)) {
            let success = answered.recv().unwrap_or(false);
            self.respond(before, success);
        }
    }

    /// Answers the request whose work has ended.
    fn answer_change(&mut self) {
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

/// Takes a request of this service that is new.
fn take<T: WrappedServiceTypeSupport>(
    service: &Service<T>,
    taken: &mut Taken,
    held: impl FnOnce(RequestId, T::Request) -> HeldRequest,
) -> Option<HeldRequest> {
    match taken.take(service) {
        Ok(request) => request.map(|(id, request)| held(id, request)),
        Err(error) => {
            log_failure(&error);
            None
        }
    }
}

/// A state as a message.
pub(super) fn state_message(state: LifecycleState) -> StateMessage {
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
