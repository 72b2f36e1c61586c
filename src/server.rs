//! The thread *serve*: answers the requests for parameters, commands and episodes, and those of a managed node.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::commander::EnableService;
use super::connection::Services;
use super::episodes::EpisodeServices;
use super::lifecycle::{LifecycleServices, TransitionEvents};
use super::requests::Taken;
use robocache_link::{Connector, Handed, Overlap, found_as_many};
use robocache_rcl::Wake;
use robocache_runtime::{Standstills, TimeSource, Witness};

/// The longest wait for a request.
const IDLE: Duration = Duration::from_millis(50);
/// The longest wait for a request while a transition is under way, whose end must be answered. A request to two
/// connections comes to both within this time.
const SHORT: Duration = Duration::from_millis(2);
/// How often the node looks for requests of which it was not told. Fast DDS may not tell of a request that follows a
/// malformed one.
const LOOK: Duration = Duration::from_secs(1);

/// The work of the thread.
pub(crate) struct Server {
    /// Services of the connection in use.
    pub services: Services,
    /// Services of the connection before, until clients and subscribers have found the new ones.
    pub overlap: Overlap<Services>,
    /// Ends the wait when a request comes to any of them.
    pub wake: Arc<Wake>,
    /// Services of the newest connection, until this thread takes them.
    pub parts: Handed<Services>,
    /// Ends what is replaced.
    pub connector: Connector,
    /// Tells that the process runs, while no tick does.
    pub standstills: Arc<Standstills>,
    /// True while ticks run.
    pub ticking: Arc<AtomicBool>,
    /// True if the node ends.
    pub stop: Arc<AtomicBool>,
    pub time: TimeSource,
}

impl Server {
    /// Answers requests until the node ends.
    pub(crate) fn run(mut self) {
        let mut taken = Taken::default();
        let mut look = self.time.monotonic();
        drop(self.services.publish_events());
        while !self.stop.load(Ordering::Relaxed) {
            if !self.ticking.load(Ordering::Relaxed) {
                self.standstills.awake(Witness::Tick);
            }
            let waits = self.all().any(|it| it.waits());
            let came = self.wake.wait(if waits { SHORT } else { IDLE });
            self.all().for_each(Services::proceed);
            if came || self.time.since(look) >= LOOK {
                look = self.time.monotonic();
                self.serve(&mut taken);
            }
            self.follow();
        }
    }

    /// The services of all connections. Clients and subscribers have found those of the one before, so these come first.
    fn all(&mut self) -> impl Iterator<Item = &mut Services> {
        self.overlap.before_mut().into_iter().chain([&mut self.services])
    }

    /// Answers one request of each service.
    fn serve(&mut self, taken: &mut Taken) {
        if self.overlap.before().is_some() {
            // So that the one before answers, and the new one what does not reach it.
            std::thread::sleep(SHORT);
        }
        let first = self.overlap.before().unwrap_or(&self.services);
        let changes = Arc::clone(&first.parameters.changes);
        for Services { parameters, lifecycle, enable, episodes } in self.all() {
            episodes.iter_mut().for_each(|episodes| episodes.serve(taken));
            enable.iter().for_each(|enable| enable.serve(taken));
            parameters.serve(taken, &changes);
            lifecycle.iter_mut().for_each(|lifecycle| lifecycle.serve(taken));
        }
    }

    /// Goes over to a new connection. The one before also serves for a while, and tells what changes.
    fn follow(&mut self) {
        // A request is answered by the service that took it.
        let now = self.time.monotonic();
        let services = &self.services;
        if !self.overlap.before().is_some_and(Services::waits)
            && let Some(before) =
                self.overlap.over(now, |before| services.have_found_as_many_as(before))
        {
            self.connector.end((before, self.services.publish_events()));
        }
        // Of three, one ends.
        let may_end = !self.all().any(|it| it.waits());
        if (may_end || self.overlap.before().is_none())
            && let Some(newer) = self.parts.take()
        {
            let replaced = std::mem::replace(&mut self.services, newer);
            let ended = self.overlap.begin(replaced, now);
            // If that one published the transitions, the one that is kept does from now on.
            let events = self.overlap.before_mut().and_then(Services::publish_events);
            if ended.is_some() {
                self.connector.end((ended, events));
            }
        }
    }
}

impl Services {
    /// True if a request waits for the end of a transition.
    fn waits(&self) -> bool {
        self.lifecycle.as_ref().is_some_and(LifecycleServices::waits)
    }

    /// True if these services have found at least as many clients and subscribers as those of another connection.
    fn have_found_as_many_as(&self, other: &Self) -> bool {
        found_as_many(self.audience(), other.audience())
    }

    /// How many clients of each service, and subscribers of each topic, this connection has found.
    fn audience(&self) -> impl Iterator<Item = usize> {
        let lifecycle = self.lifecycle.iter().flat_map(LifecycleServices::audience);
        let enable = self.enable.iter().map(EnableService::audience);
        let episodes = self.episodes.iter().flat_map(EpisodeServices::audience);
        self.parameters.audience().into_iter().chain(lifecycle).chain(enable).chain(episodes)
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
