//! The values of the parameters. Requests may change those of a managed node while it is unconfigured.

use std::sync::{Arc, Mutex};

use r2r::ParameterValue;

use super::lifecycle::{Lifecycle, LifecycleState};
use super::params::{self, Declared, MANAGED};
use robocache_ops::sync::lock;

const READ_ONLY: &str = "read-only: set it at start (--ros-args -p NAME:=VALUE) and restart";

/// The parameters with their values. Several threads share it.
pub(crate) struct ParameterStore {
    /// Every change is one store, so a panic leaves no half change.
    declared: Mutex<Vec<Declared>>,
    /// `None` if no parameter changes.
    lifecycle: Option<Arc<Lifecycle>>,
}

impl ParameterStore {
    /// Holds these parameters. With a `lifecycle` they may change.
    pub(crate) fn new(declared: Vec<Declared>, lifecycle: Option<Arc<Lifecycle>>) -> Self {
        ParameterStore { declared: Mutex::new(declared), lifecycle }
    }

    /// The parameters now.
    pub(crate) fn declared(&self) -> Vec<Declared> {
        lock(&self.declared).clone()
    }

    /// True if requests may change parameters.
    pub(crate) fn may_change(&self) -> bool {
        self.lifecycle.is_some()
    }

    /// True if no request may change this parameter, in any state.
    pub(crate) fn is_fixed(&self, name: &str) -> bool {
        self.lifecycle.is_none() || name == MANAGED
    }

    /// Sets all of these parameters, or none of them. Returns their new values: an integer that was given for a double
    /// is one.
    ///
    /// # Errors
    /// Says why a parameter cannot have its value, or why none can be set now.
    pub(crate) fn set(&self, given: &[(String, ParameterValue)]) -> Result<Vec<Declared>, String> {
        let mut declared = lock(&self.declared);
        for (name, _) in given {
            if !declared.iter().any(|declared| declared.name == name) {
                return Err("not a parameter of this node".to_owned());
            }
            if self.is_fixed(name) {
                return Err(READ_ONLY.to_owned());
            }
        }
        let state = self.lifecycle.as_ref().map(|lifecycle| lifecycle.state());
        if let Some(state) = state.filter(|state| *state != LifecycleState::Unconfigured) {
            let remedy = match state {
                LifecycleState::Inactive => ": clean it up before",
                LifecycleState::Active => ": deactivate it and clean it up before",
                _ => "",
            };
            return Err(format!(
                "expected an unconfigured node, found one that is {}{remedy}",
                state.label()
            ));
        }
        let mut changed = declared.clone();
        let named = given.iter().map(|(name, value)| (name, value));
        params::override_declared(&mut changed, named).map_err(|error| error.to_string())?;
        params::settings(&changed).map_err(|error| error.to_string())?;
        declared.clone_from(&changed);
        changed.retain(|declared| given.iter().any(|(name, _)| declared.name == name));
        Ok(changed)
    }
}

#[cfg(test)]
mod tests;
