//! Decides when the node makes a new connection to the middleware.
//!
//! Fast DDS may cut a process off from the shared memory of its publishers for good, if its receiving threads did not run
//! for more than a second. Then nothing comes any more, although the graph shows the publishers. Only a new connection (a
//! context with a node) hears them again.
//!
//! Silence is no reason, because an idle publisher is silent too, and a standstill is none, because it rarely cuts off. The
//! evidence is a port of the process that no publisher finds any more.

use std::time::{Duration, Instant};

use super::connector::Connector;
use super::handover;

/// Time between two looks. The middleware itself replaces a port in a third of it.
const LOOK: Duration = Duration::from_secs(1);
/// Longest time between two looks in a row. If the machine is overloaded, the looks are late.
const LONGEST: Duration = Duration::from_secs(10);
/// Time from an order to the next one for a port that is lost since: the connection before the ordered one has ended by
/// then, so the port is not one of its own.
const ENDED: Duration = handover::LONGEST.saturating_add(Duration::from_secs(2));
/// Time from an order to the next one for the ports that the order answered. It doubles each time, because a connection that
/// does not end keeps its lost ports, and each new one takes memory.
const RETRY: Duration = Duration::from_secs(30);
const LONGEST_RETRY: Duration = Duration::from_secs(600);

/// A port of this process that no publisher finds any more. No other port of the machine has its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostPort(pub u64);

/// Watches the ports of the process.
#[derive(Debug, Default)]
pub struct Recovery {
    /// The newest look, and the ports that were lost then.
    newest: Option<(Instant, Vec<LostPort>)>,
    /// Number of looks in a row that failed.
    failed: u32,
    /// The newest order.
    order: Option<Order>,
}

/// An order of a connection.
#[derive(Debug)]
struct Order {
    at: Instant,
    /// Ports that were lost then.
    answered: Vec<LostPort>,
    /// Time to the next order for the same ports.
    retry: Duration,
}

impl Recovery {
    /// Asks for a new connection if a port is lost at two looks in a row. Returns true if it asked. The caller may call it
    /// often. `lost` lists the ports that are lost now. `stood_still`: true if the process stood still since, so its
    /// middleware had no time to replace a port.
    ///
    /// # Errors
    /// `lost` failed at two looks in a row. That is told once, until a look succeeds.
    pub fn heal<E>(
        &mut self,
        now: Instant,
        stood_still: bool,
        connector: &Connector,
        lost: impl FnOnce() -> Result<Vec<LostPort>, E>,
    ) -> Result<bool, E> {
        if stood_still {
            self.newest = None;
        }
        Ok(self.look(now, lost)? && connector.connect())
    }

    /// True if a connection must be made now.
    fn look<E>(
        &mut self,
        now: Instant,
        lost: impl FnOnce() -> Result<Vec<LostPort>, E>,
    ) -> Result<bool, E> {
        let since = self.newest.as_ref().map(|(at, _)| now.saturating_duration_since(*at));
        if since.is_some_and(|since| since < LOOK) {
            return Ok(false);
        }
        let (lost, error) =
            lost().map_or_else(|error| (Vec::new(), Some(error)), |lost| (lost, None));
        self.failed = if error.is_some() { self.failed.saturating_add(1) } else { 0 };
        let (_, before) = self.newest.replace((now, lost.clone())).unwrap_or((now, Vec::new()));
        if let Some(error) = error.filter(|_| self.failed == 2) {
            return Err(error);
        }
        let in_a_row = since.is_some_and(|since| since <= LONGEST);
        let mut cut_off = lost.iter().filter(|port| in_a_row && before.contains(port)).peekable();
        if cut_off.peek().is_none() {
            return Ok(false);
        }
        let retry = match &self.order {
            None => RETRY,
            Some(order) => {
                let is_answered = cut_off.all(|port| order.answered.contains(port));
                let (wait, retry) = match is_answered {
                    true => (order.retry, (2 * order.retry).min(LONGEST_RETRY)),
                    false => (ENDED, RETRY),
                };
                if now < order.at + wait {
                    return Ok(false);
                }
                retry
            }
        };
        self.order = Some(Order { at: now, answered: lost, retry });
        Ok(true)
    }
}

#[cfg(test)]
mod tests;
