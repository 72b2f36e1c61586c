//! The thread *serve*: answers the requests for parameters, and those of a managed node.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::connection::Services;
use super::fastdds::{Connector, Handed};
use super::lifecycle::{LifecycleServices, TransitionEvents};
use super::requests::Taken;
use robocache_rcl::Wake;
use robocache_runtime::{Standstills, Witness};

/// The longest wait for a request.
const IDLE: Duration = Duration::from_millis(50);
/// The same while a transition is under way, whose end must be answered. A request to two connections comes to both within
/// this time.
const SHORT: Duration = Duration::from_millis(2);
/// The node looks for a request this often, although the middleware tells of each: after a malformed request, Fast DDS may
/// not tell of the next one.
const LOOK: Duration = Duration::from_secs(1);
/// How long the connection before also serves: clients and subscribers find the new one within this time.
const OVERLAP: Duration = Duration::from_secs(2);

/// The work of the thread.
pub struct Server {
    /// What it answers by.
    pub services: Services,
    /// The same of the connection before, for a while, and since when.
    pub before: Option<(Services, Instant)>,
    /// Ends the wait when a request comes to any of them.
    pub wake: Arc<Wake>,
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
    pub fn run(mut self) {
        let mut taken = Taken::default();
        let mut look = Instant::now();
        drop(self.services.publish_events());
        while !self.stop.load(Ordering::Relaxed) {
            if !self.ticking.load(Ordering::Relaxed) {
                self.standstills.awake(Witness::Tick);
            }
            let waits = self.all().any(|it| it.waits());
            let came = self.wake.wait(if waits { SHORT } else { IDLE });
            self.all().for_each(Services::proceed);
            if came || look.elapsed() >= LOOK {
                look = Instant::now();
                self.serve(&mut taken);
            }
            self.follow();
        }
    }

    /// The services of all connections. Clients and subscribers have found those of the one before, so these come first.
    fn all(&mut self) -> impl Iterator<Item = &mut Services> {
        self.before.iter_mut().map(|(before, _)| before).chain([&mut self.services])
    }

    /// Answers one request of each service.
    fn serve(&mut self, taken: &mut Taken) {
        if self.before.is_some() {
            // So that the one before answers, and the new one what does not reach it.
            std::thread::sleep(SHORT);
        }
        let first = self.before.as_ref().map_or(&self.services, |(before, _)| before);
        let changes = Arc::clone(&first.parameters.changes);
        for Services { parameters, lifecycle } in self.all() {
            parameters.serve(taken, &changes);
            lifecycle.iter_mut().for_each(|lifecycle| lifecycle.serve(taken));
        }
    }

    /// Goes over to a new connection. The one before also serves for a while, and tells what changes.
    fn follow(&mut self) {
        // A request is answered by the service that took it.
        let is_over = |(before, since): &mut (Services, Instant)| {
            since.elapsed() >= OVERLAP && !before.waits()
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
    /// Whether a request waits for the end of a transition.
    fn waits(&self) -> bool {
        self.lifecycle.as_ref().is_some_and(LifecycleServices::waits)
    }

    /// Publishes transitions through this connection from now on. Returns the publisher before.
    fn publish_events(&mut self) -> Option<TransitionEvents> {
        self.lifecycle.as_mut().and_then(LifecycleServices::publish_events)
    }

    /// Answers what no longer waits.
    fn proceed(&mut self) {
        self.lifecycle.iter_mut().for_each(LifecycleServices::proceed);
    }
}
