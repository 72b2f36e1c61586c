//! The thread *serve*: answers the requests for parameters, and those of a managed node.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::connection::Services;
use super::error::NodeError;
use super::fastdds::{Connector, Handed};
use super::lifecycle::{LifecycleServices, TransitionEvents};
use super::param_services::Changes;
use super::requests::Taken;
use robocache_rcl::Waitable;
use robocache_runtime::{Standstills, Witness};

/// The longest wait for a request.
const IDLE: Duration = Duration::from_millis(50);
/// The same while a transition is under way, whose end must be answered, and while two connections serve.
const SHORT: Duration = Duration::from_millis(2);
/// How long the connection before also serves: clients and subscribers find the new one within this time.
const OVERLAP: Duration = Duration::from_secs(2);

/// The work of the thread.
pub struct Server {
    /// What it answers by.
    pub services: Services,
    /// The same of the connection before, for a while, and since when.
    pub before: Option<(Services, Instant)>,
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
        let mut taken = Taken::default();
        drop(self.services.publish_events());
        while !self.stop.load(Ordering::Relaxed) {
            if !self.ticking.load(Ordering::Relaxed) {
                self.standstills.awake(Witness::Tick);
            }
            self.round(&mut taken)?;
            self.follow();
        }
        Ok(())
    }

    /// Waits for requests, and answers one of each service.
    fn round(&mut self, taken: &mut Taken) -> Result<(), NodeError> {
        let Server { services, before, .. } = self;
        let Some((before, _)) = before else {
            let idle = if services.is_changing() { SHORT } else { IDLE };
            let changes = Arc::clone(&services.parameters.changes);
            return services.round(idle, taken, &changes);
        };
        // Clients and subscribers have found the one before. So it answers first, and the new one what does not reach it.
        let changes = Arc::clone(&before.parameters.changes);
        before.round(SHORT, taken, &changes)?;
        services.round(Duration::ZERO, taken, &changes)
    }

    /// Goes over to a new connection. The one before also serves for a while, and tells what changes.
    fn follow(&mut self) {
        // A request is answered by the service that took it.
        let is_over = |(before, since): &mut (Services, Instant)| {
            since.elapsed() >= OVERLAP && !before.is_changing()
        };
        if let Some((before, _)) = self.before.take_if(is_over) {
            self.connector.end((before, self.services.publish_events()));
        }
        if self.before.is_none()
            && let Some(newer) = self.parts.take()
        {
            self.before = Some((std::mem::replace(&mut self.services, newer), Instant::now()));
        }
    }
}

impl Services {
    fn is_changing(&self) -> bool {
        self.lifecycle.as_ref().is_some_and(LifecycleServices::is_changing)
    }

    /// Publishes transitions through this connection from now on. Returns the publisher before.
    fn publish_events(&mut self) -> Option<TransitionEvents> {
        self.lifecycle.as_mut().and_then(LifecycleServices::publish_events)
    }

    /// Waits this long for requests, and answers one of each service. Tells changes of parameters by `changes`.
    fn round(
        &mut self,
        idle: Duration,
        taken: &mut Taken,
        changes: &Changes,
    ) -> Result<(), NodeError> {
        let Services { wait_set, parameters, lifecycle } = self;
        let for_parameters = parameters.waitables();
        let for_lifecycle = lifecycle.iter().flat_map(|lifecycle| lifecycle.waitables());
        let waitables: Vec<Waitable<'_>> =
            for_parameters.into_iter().chain(for_lifecycle).collect();
        let ready = wait_set.wait(waitables, idle)?;
        parameters.serve(|service| ready.is(service), taken, changes);
        if let Some(lifecycle) = lifecycle {
            lifecycle.serve(|service| ready.is(for_parameters.len() + service), taken);
        }
        Ok(())
    }
}
