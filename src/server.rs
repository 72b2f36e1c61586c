//! The thread *serve*: answers the requests for parameters, and those of a managed node.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::connection::Services;
use super::error::NodeError;
use super::fastdds::{Connector, Handed};
use super::lifecycle::LifecycleServices;
use robocache_rcl::Waitable;
use robocache_runtime::{Standstills, Witness};

/// The longest wait for a request.
const IDLE: Duration = Duration::from_millis(50);
/// The same while a transition is under way, whose end must be answered.
const CHANGING: Duration = Duration::from_millis(2);

/// The work of the thread.
pub struct Server {
    /// What it answers by.
    pub services: Services,
    /// Those of new connections.
    pub parts: Handed<Services>,
    /// Ends what is replaced.
    pub connector: Connector,
    /// Tells that the process runs, while no tick does.
    pub standstills: Arc<Standstills>,
    /// Whether ticks run.
    pub ticking: Arc<AtomicBool>,
    /// Whether the node ends.
    pub stop: Arc<AtomicBool>,
}

impl Server {
    /// Answers requests until the node ends.
    ///
    /// # Errors
    /// The middleware cannot wait for requests.
    pub fn run(mut self) -> Result<(), NodeError> {
        while !self.stop.load(Ordering::Relaxed) {
            if !self.ticking.load(Ordering::Relaxed) {
                self.standstills.awake(Witness::Tick);
            }
            self.services.round()?;
            // A request is answered by the service that took it.
            if !self.services.is_changing()
                && let Some(newer) = self.parts.take()
            {
                self.connector.end(std::mem::replace(&mut self.services, newer));
            }
        }
        Ok(())
    }
}

impl Services {
    fn is_changing(&self) -> bool {
        self.lifecycle.as_ref().is_some_and(LifecycleServices::is_changing)
    }

    /// Waits for requests, and answers one of each service.
    fn round(&mut self) -> Result<(), NodeError> {
        let idle = if self.is_changing() { CHANGING } else { IDLE };
        let Services { wait_set, parameters, lifecycle } = self;
        let for_parameters = parameters.waitables();
        let for_lifecycle = lifecycle.iter().flat_map(|lifecycle| lifecycle.waitables());
        let waitables: Vec<Waitable<'_>> =
            for_parameters.into_iter().chain(for_lifecycle).collect();
        let ready = wait_set.wait(waitables, idle)?;
        parameters.serve(|service| ready.is(service));
        if let Some(lifecycle) = lifecycle {
            lifecycle.serve(|service| ready.is(for_parameters.len() + service));
        }
        Ok(())
    }
}
