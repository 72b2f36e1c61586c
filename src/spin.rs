//! The spin threads, which take every message from the middleware. One takes images and clouds. The
//! other takes all else.

use std::sync::Arc;
use std::time::Duration;

use super::error::NodeError;
use super::fastdds::{Connector, Handed};
use super::intake::{Intake, Subscriptions};
use robocache_rcl::Wake;
use robocache_runtime::Runtime;

/// The longest wait for a message, and the time between two looks at what changes slowly.
const IDLE: Duration = Duration::from_millis(50);

/// The work of a spin thread.
pub(crate) struct Spinner {
    /// Ends a wait.
    wake: Arc<Wake>,
    runtime: Arc<Runtime>,
    intake: Intake,
    parts: Handed<Subscriptions>,
}

impl Spinner {
    /// Takes the messages of the large inputs or of the others: those of `first`, and those of each connection that `parts`
    /// has from then on.
    pub(crate) fn new(
        large: bool,
        (first, parts): (Subscriptions, Handed<Subscriptions>),
        runtime: Arc<Runtime>,
        wake: Arc<Wake>,
        connector: Connector,
    ) -> Self {
        let intake = Intake::new(&runtime, large, first, (Arc::clone(&wake), connector));
        Spinner { wake, runtime, intake, parts }
    }

    /// Spins until the runtime stops.
    pub(crate) fn run(mut self) -> Result<(), NodeError> {
        let mut look = self.runtime.time.monotonic();
        while !self.runtime.stopping() {
            // A queue that was longer than a drain takes is not empty.
            let idle = if self.intake.may_have() { Duration::ZERO } else { IDLE };
            self.wake.wait(idle);
            self.intake.drain(&self.runtime)?;
            let now = self.runtime.time.monotonic();
            if now >= look {
                look = now + IDLE;
                self.intake.look(&self.runtime, now);
                if let Some(subscriptions) = self.parts.take() {
                    self.intake.move_to(&self.runtime, subscriptions);
                }
            }
        }
        Ok(())
    }
}
