//! The loops that take every message from the middleware. One takes images and clouds. The other takes all else.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::connector::{Connector, Handed};
use super::error::LinkError;
use super::intake::{Intake, Subscriptions};
use super::middleware::{Middleware, Subscription};
use robocache_runtime::{Next, Runtime, Steps};

/// The longest wait for a message, and the time between two looks at what changes slowly.
const IDLE: Duration = Duration::from_millis(50);

/// Takes the messages of the large inputs, or those of the others. A message wakes it.
pub struct Spinner<S> {
    runtime: Arc<Runtime>,
    intake: Intake<S>,
    /// When to look again at what changes slowly.
    look: Instant,
}

impl<S: Subscription> Spinner<S> {
    /// Takes the messages of the large inputs or of the others: those of `first`, and those of each connection that `parts`
    /// has from then on.
    pub fn new(
        large: bool,
        first: Subscriptions<S>,
        parts: Handed<Subscriptions<S>>,
        runtime: Arc<Runtime>,
        middleware: &Middleware,
        connector: Connector,
    ) -> Self {
        let intake = Intake::new(&runtime, large, first, parts, middleware, connector);
        let look = runtime.time.monotonic();
        Spinner { runtime, intake, look }
    }
}

impl<S: Subscription> Steps for Spinner<S> {
    type Error = LinkError;

    /// Takes what waits, and looks now and then at what changes slowly.
    fn step(&mut self) -> Result<Next, LinkError> {
        self.intake.drain(&self.runtime)?;
        let now = self.runtime.time.monotonic();
        if now >= self.look {
            self.look = now + IDLE;
            self.intake.look(&self.runtime, now);
        }
        Ok(match self.runtime.stopping() {
            true => Next::Done,
            // A queue that was longer than a drain takes is not empty.
            false if self.intake.may_have() => Next::At(now),
            false => Next::At(now + IDLE),
        })
    }
}
