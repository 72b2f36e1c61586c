//! Decides when the node makes a new connection to the middleware.
//!
//! Fast DDS may cut a process off from the shared memory of its publishers for good, if its receiving threads did not run
//! for more than a second. Then nothing comes any more, although the graph shows the publishers. Only a new connection (a
//! context with a node) hears them again.
//!
//! Silence is no reason, because an idle publisher is silent too, and a standstill is none, because it rarely cuts off. The
//! evidence is a port of the process that no publisher finds any more.

use std::time::{Duration, Instant};

/// Time between two looks. The middleware itself replaces a port in a third of it.
const LOOK: Duration = Duration::from_secs(1);
/// Time between two connections, while the evidence lasts: one of them takes up to ten seconds to replace the one before.
const RETRY: Duration = Duration::from_secs(30);

/// A port of this process that no publisher finds any more. No other port of the machine has its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostPort(pub u64);

/// Watches the ports of the process.
#[derive(Debug, Default)]
pub struct Recovery {
    /// The newest look, and the ports that were lost then.
    newest: Option<(Instant, Vec<LostPort>)>,
    /// When the newest connection was due.
    connected: Option<Instant>,
}

impl Recovery {
    /// Says whether a connection must be made now: a port is lost at two looks, a second apart. The caller may call it
    /// often. `lost` lists the ports that are lost now.
    ///
    /// # Errors
    /// `lost` failed.
    pub fn look<E>(
        &mut self,
        now: Instant,
        lost: impl FnOnce() -> Result<Vec<LostPort>, E>,
    ) -> Result<bool, E> {
        let since = self.newest.as_ref().map(|(at, _)| now.saturating_duration_since(*at));
        if since.is_some_and(|since| since < LOOK) {
            return Ok(false);
        }
        let (_, before) = self.newest.replace((now, lost()?)).unwrap_or((now, Vec::new()));
        // If the process stood still between the two, its middleware had no time to replace the port.
        let in_a_row = since.is_some_and(|since| since < 2 * LOOK);
        let lost = self.newest.iter().flat_map(|(_, lost)| lost);
        let is_cut_off = in_a_row && lost.into_iter().any(|port| before.contains(port));
        let waits = self.connected.is_some_and(|at| now < at + RETRY);
        if !is_cut_off || waits {
            return Ok(false);
        }
        self.connected = Some(now);
        Ok(true)
    }
}

#[cfg(test)]
mod tests;
