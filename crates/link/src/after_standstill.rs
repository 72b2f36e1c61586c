//! Messages that a standstill of the process made older than they seem.
//!
//! While a process is stopped, or its machine is suspended, publishers go on. The middleware receives what they sent when
//! the process runs again, so the receive stamp says "now". Under `timeline: receive`, a value of a minute ago would count
//! as fresh. Such a message is dropped. A latched one is kept: it is true until another one is published.

use robocache_runtime::{STILL, TimeSource, Transit};
use std::time::{Duration, Instant};

/// A message that was received so long after its publication \[ns\], across a standstill, waited for the process.
const WAITED_NS: i64 = 10_000_000;
/// So long after a standstill, the middleware has received all that waited.
const CAUGHT_UP: Duration = Duration::from_secs(5);
/// If the system's clock and that since the boot differ by more about a standstill \[ns\], the former was set.
const SET_NS: u64 = 500_000_000;
/// Time after a standstill in which messages are dropped if the publisher's clock does not tell how long they waited.
/// Fresh messages are lost, too.
const CAUGHT_UP_BLIND: Duration = Duration::from_secs(1);

/// The looks of a thread, which show that it stood still.
#[derive(Debug, Default)]
pub(crate) struct StandstillWatch {
    newest: Option<Look>,
    standstill: Option<Standstill>,
}

/// The clocks at a look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    /// Time since the boot \[ns\]. It runs in a suspend, and nobody sets it.
    boot_ns: u64,
    /// The system's clock \[ns\].
    system_ns: i64,
    at: Instant,
}

/// The newest standstill.
#[derive(Clone, Copy, Debug)]
struct Standstill {
    /// The last look before it.
    last: Look,
    /// The first one after it.
    noticed: Look,
}

impl Look {
    /// A look now; `None` if the system does not tell.
    pub(crate) fn now(time: &TimeSource) -> Option<Look> {
        let boot_ns = time.boot_ns()?;
        Some(Look { boot_ns, system_ns: time.system().nanos(), at: time.monotonic() })
    }
}

impl StandstillWatch {
    /// Notes that the thread runs. It calls this several times in each [`STILL`].
    pub(crate) fn look(&mut self, now: Option<Look>) {
        let (Some(now), Some(last)) = (now, std::mem::replace(&mut self.newest, now)) else {
            return;
        };
        if Duration::from_nanos(now.boot_ns.saturating_sub(last.boot_ns)) >= STILL {
            self.standstill = Some(Standstill { last, noticed: now });
        }
    }

    /// True if a message that is taken at the newest look waited for the process while it stood still. `has_agreed`:
    /// true if the publisher's clock has agreed with that of this machine before.
    pub(crate) fn has_waited(&self, transit: Transit, has_agreed: bool) -> bool {
        let (Some(Standstill { last, noticed }), Some(now)) = (self.standstill, self.newest) else {
            return false;
        };
        let since = now.at.saturating_duration_since(noticed.at);
        let received_ns = transit.arrived_ns.unwrap_or(now.system_ns);
        // Somebody set the system's clock meanwhile, as at the end of a suspend: then the two stamps tell nothing.
        let on_boot_ns = noticed.boot_ns.saturating_sub(last.boot_ns) as i64;
        let was_set = (noticed.system_ns - last.system_ns).abs_diff(on_boot_ns) > SET_NS;
        match transit.published_ns.filter(|_| has_agreed && !was_set) {
            // What was received before has a true stamp.
            Some(_) if received_ns <= last.system_ns => false,
            Some(published_ns) => {
                let waited_ns = received_ns.saturating_sub(published_ns);
                since < CAUGHT_UP && published_ns < noticed.system_ns && waited_ns > WAITED_NS
            }
            None if !was_set && received_ns <= last.system_ns => false,
            None => since < CAUGHT_UP_BLIND,
        }
    }
}

#[cfg(test)]
mod tests;
