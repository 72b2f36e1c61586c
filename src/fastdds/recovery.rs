//! Decides when the node makes a new connection to the middleware.
//!
//! Fast DDS may cut a process off from the shared memory of its publishers for good, if the process
//! stood still for more than a second: it was stopped, or the machine was suspended. Then nothing
//! comes any more, although the graph shows the publishers. Only a new connection (a context with a
//! node) hears them again.
//!
//! Silence alone is no reason, because an idle publisher is silent too. So each attempt belongs to a
//! standstill of the process: one at its end, and up to three more while an input stays silent that was
//! heard regularly before it.

use std::time::{Duration, Instant};

/// When the further attempts follow, after the end of a standstill.
const FURTHER: [Duration; 3] =
    [Duration::from_secs(4), Duration::from_secs(8), Duration::from_secs(16)];
/// Two connections are at least this far apart: making one is work for a machine that may be short of it.
const APART: Duration = Duration::from_secs(4);
/// Messages that waited while the process stood still, or while a new connection was made, come within this
/// time. They do not show that new ones will.
const BACKLOG: Duration = Duration::from_secs(1);
/// An input is regular if new messages had come at three or more of the last 32 looks, which are four seconds.
const REGULAR: u32 = 3;

/// Watches which inputs are heard.
#[derive(Debug, Default)]
pub struct Recovery {
    /// By input: its messages at the last look, and whether new ones had come at each of the last looks.
    heard: Vec<(u64, u32)>,
    standstill: Option<Standstill>,
    /// When the newest connection was due.
    connected: Option<Instant>,
}

/// A standstill that is over, while further attempts may follow.
#[derive(Debug)]
struct Standstill {
    ended: Instant,
    /// The further attempts so far.
    attempts: usize,
    /// By input: whether it was regular before.
    regular: Vec<bool>,
    /// When the last attempt was made, or the standstill ended.
    attempted: Instant,
    /// The messages of each input, [`BACKLOG`] after that; `None` before.
    backlog: Option<Vec<u64>>,
}

/// Why a new connection must be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Due {
    /// The process stood still.
    StoodStill,
    /// These inputs have been silent since the process stood still.
    Silent(Vec<usize>),
}

impl Recovery {
    /// Says whether a connection must be made now. The caller looks eight times per second. `messages` are the
    /// messages of each input so far, and `stood_still` says whether the process did so before this look.
    pub fn look(&mut self, now: Instant, messages: &[u64], stood_still: bool) -> Option<Due> {
        if stood_still {
            self.begin(now, messages.len());
        }
        self.heard.resize(messages.len(), (0, 0));
        for ((before, looks), messages) in self.heard.iter_mut().zip(messages) {
            *looks = *looks << 1 | u32::from(messages != before);
            *before = *messages;
        }
        if stood_still {
            let lately = self.connected.is_some_and(|at| now.saturating_duration_since(at) < APART);
            self.connected = if lately { self.connected } else { Some(now) };
            return (!lately).then_some(Due::StoodStill);
        }
        let silent = self.standstill.as_mut()?.silent(now, messages)?;
        let standstill = self.standstill.as_mut()?;
        if silent.is_empty() || standstill.attempts == FURTHER.len() {
            self.standstill = None;
            return None;
        }
        standstill.attempts += 1;
        (standstill.attempted, standstill.backlog) = (now, None);
        self.connected = Some(now);
        Some(Due::Silent(silent))
    }

    /// Begins the attempts of a standstill. An input that has been silent since an earlier one stays regular.
    fn begin(&mut self, now: Instant, inputs: usize) {
        let before = self.standstill.take();
        let was = |at: usize| before.as_ref().is_some_and(|it| it.regular.get(at) == Some(&true));
        let is = |at: usize| self.heard.get(at).is_some_and(|(_, it)| it.count_ones() >= REGULAR);
        let regular = (0..inputs).map(|at| was(at) || is(at)).collect();
        let standstill =
            Standstill { ended: now, attempts: 0, regular, attempted: now, backlog: None };
        self.standstill = Some(standstill);
    }
}

impl Standstill {
    /// The regular inputs from which nothing new has come, when the next attempt, or the end, is due.
    fn silent(&mut self, now: Instant, messages: &[u64]) -> Option<Vec<usize>> {
        let since = |earlier: Instant| now.saturating_duration_since(earlier);
        if self.backlog.is_none() && since(self.attempted) >= BACKLOG {
            self.backlog = Some(messages.to_vec());
        }
        let backlog = self.backlog.as_ref()?;
        let due = FURTHER
            .get(self.attempts)
            .copied()
            .unwrap_or(self.attempted - self.ended + 2 * BACKLOG);
        if since(self.ended) < due {
            return None;
        }
        let silent = |at: &usize| {
            self.regular.get(*at) == Some(&true) && backlog.get(*at) == messages.get(*at)
        };
        Some((0..messages.len()).filter(silent).collect())
    }
}

#[cfg(test)]
mod tests;
