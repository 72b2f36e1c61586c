//! The states of a managed node and the transitions between them: those of `rcl_lifecycle`.
//!
//! Source: the design "Managed nodes" of ROS 2, and `lifecycle_msgs`. `tests/ros/test_lifecycle.py` compares them with
//! those of a node of rclpy.

use LifecycleState::{
    Activating, Active, CleaningUp, Configuring, Deactivating, ErrorProcessing, Finalized,
    Inactive, ShuttingDown, Unconfigured, Unknown,
};

/// A state of a managed node. Its number is that of `lifecycle_msgs/msg/State`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum LifecycleState {
    /// No node is in it.
    Unknown = 0,
    /// The node has no configuration.
    Unconfigured = 1,
    /// The node has all that its configuration needs, and does not work.
    Inactive = 2,
    /// The node works.
    Active = 3,
    /// The node only waits for its end.
    Finalized = 4,
    /// On the way from unconfigured to inactive.
    Configuring = 10,
    /// On the way from inactive to unconfigured.
    CleaningUp = 11,
    /// On the way to finalized.
    ShuttingDown = 12,
    /// On the way from inactive to active.
    Activating = 13,
    /// On the way from active to inactive.
    Deactivating = 14,
    /// The node gives back what a failed transition has left.
    ErrorProcessing = 15,
}

impl LifecycleState {
    /// All states, in the order in which a client gets them.
    pub(crate) const ALL: [Self; 11] = [
        Unknown,
        Unconfigured,
        Inactive,
        Active,
        Finalized,
        Configuring,
        CleaningUp,
        ShuttingDown,
        Activating,
        Deactivating,
        ErrorProcessing,
    ];

    /// The name that clients and people read.
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Unknown => "unknown",
            Unconfigured => "unconfigured",
            Inactive => "inactive",
            Active => "active",
            Finalized => "finalized",
            Configuring => "configuring",
            CleaningUp => "cleaningup",
            ShuttingDown => "shuttingdown",
            Activating => "activating",
            Deactivating => "deactivating",
            ErrorProcessing => "errorprocessing",
        }
    }

    /// True if a request can begin a transition in this state. The other states end by themselves.
    pub(crate) const fn is_primary(self) -> bool {
        (self as u8) < Configuring as u8
    }

    /// The transitions from this state.
    pub(crate) fn transitions(self) -> impl Iterator<Item = &'static Transition> {
        Transition::ALL.iter().filter(move |transition| transition.start == self)
    }
}

/// How the work of a transition ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is done.
    Success,
    /// It was not done, and nothing is left of it.
    Failure,
    /// It went wrong.
    Error,
}

impl Verdict {
    const fn label(self) -> &'static str {
        match self {
            Verdict::Success => "transition_success",
            Verdict::Failure => "transition_failure",
            Verdict::Error => "transition_error",
        }
    }
}

/// A transition between two states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transition {
    /// The number of `lifecycle_msgs/msg/Transition`.
    pub id: u8,
    /// Its name. Those of several transitions are equal, but not of two from one state.
    pub label: &'static str,
    /// The state before it.
    pub start: LifecycleState,
    /// The state after it.
    pub goal: LifecycleState,
}

/// A transition that a request begins.
const fn asked(
    id: u8,
    label: &'static str,
    start: LifecycleState,
    goal: LifecycleState,
) -> Transition {
    Transition { id, label, start, goal }
}

/// A transition that ends the work of another one.
const fn ended(
    id: u8,
    verdict: Verdict,
    start: LifecycleState,
    goal: LifecycleState,
) -> Transition {
    Transition { id, label: verdict.label(), start, goal }
}

impl Transition {
    /// All transitions, in the order in which a client gets them.
    pub(crate) const ALL: [Self; 25] = [
        asked(1, "configure", Unconfigured, Configuring),
        ended(10, Verdict::Success, Configuring, Inactive),
        ended(11, Verdict::Failure, Configuring, Unconfigured),
        ended(12, Verdict::Error, Configuring, ErrorProcessing),
        asked(2, "cleanup", Inactive, CleaningUp),
        ended(20, Verdict::Success, CleaningUp, Unconfigured),
        ended(21, Verdict::Failure, CleaningUp, Inactive),
        ended(22, Verdict::Error, CleaningUp, ErrorProcessing),
        asked(3, "activate", Inactive, Activating),
        ended(30, Verdict::Success, Activating, Active),
        ended(31, Verdict::Failure, Activating, Inactive),
        ended(32, Verdict::Error, Activating, ErrorProcessing),
        asked(4, "deactivate", Active, Deactivating),
        ended(40, Verdict::Success, Deactivating, Inactive),
        ended(41, Verdict::Failure, Deactivating, Active),
        ended(42, Verdict::Error, Deactivating, ErrorProcessing),
        asked(5, "shutdown", Unconfigured, ShuttingDown),
        asked(6, "shutdown", Inactive, ShuttingDown),
        asked(7, "shutdown", Active, ShuttingDown),
        ended(50, Verdict::Success, ShuttingDown, Finalized),
        ended(51, Verdict::Failure, ShuttingDown, Finalized),
        ended(52, Verdict::Error, ShuttingDown, ErrorProcessing),
        ended(60, Verdict::Success, ErrorProcessing, Unconfigured),
        ended(61, Verdict::Failure, ErrorProcessing, Finalized),
        ended(62, Verdict::Error, ErrorProcessing, Finalized),
    ];

    /// The transition from `state` that a request names: by its label, or by its number if the label is empty. `None`
    /// if a request cannot begin it in this state.
    pub(crate) fn asked(state: LifecycleState, id: u8, label: &str) -> Option<&'static Self> {
        let is_named = |it: &&Self| if label.is_empty() { it.id == id } else { it.label == label };
        state.transitions().find(is_named).filter(|_| state.is_primary())
    }

    /// The transition that ends the work in `state`. `None` if that is no state of work.
    pub(crate) fn ended(state: LifecycleState, verdict: Verdict) -> Option<&'static Self> {
        let is_so = |it: &&Self| it.label == verdict.label();
        state.transitions().find(is_so)
    }
}

#[cfg(test)]
mod tests;
