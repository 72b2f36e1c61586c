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

use robocache_ops::sync::lock;
use robocache_runtime::Runtime;

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

/// What is known of an input at a look.
#[derive(Clone, Copy, Debug, Default)]
pub struct Heard {
    /// Its messages so far.
    pub messages: u64,
    /// True if the graph shows a publisher of its topic.
    pub has_publisher: bool,
}

impl Heard {
    /// Tells of each input of a runtime. The last one is a number that changes when a simulator's clock moves.
    pub fn of(runtime: &Runtime) -> Vec<Heard> {
        let input = |id| Heard {
            messages: runtime.input_stats(id).received.get(),
            has_publisher: lock(&runtime.input(id).publishers)
                .as_ref()
                .is_some_and(|publishers| !publishers.is_empty()),
        };
        let clock = || Heard {
            messages: runtime.clock.now().map_or(0, |now| now.stamp.nanos() as u64),
            has_publisher: !lock(&runtime.clock_publishers).is_empty(),
        };
        let clock = runtime.clock.is_simulated().then(clock);
        runtime.inputs().map(input).chain(clock).collect()
    }
}

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
    /// By input: whether it was regular before. `None` if the node watched other inputs then. In that case an attempt is
    /// made only if no input is heard: one that is heard shows that the connection works.
    regular: Option<Vec<bool>>,
    /// When the last attempt was made, the standstill ended, or these inputs were subscribed to.
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
    /// Says whether a connection must be made now. The caller looks eight times per second. `inputs` is empty while the
    /// node does not work. `stood_still` says whether the process did so before this look.
    pub fn look(&mut self, now: Instant, inputs: &[Heard], stood_still: bool) -> Option<Due> {
        if stood_still {
            self.begin(now, inputs.len());
        }
        self.heard.resize(inputs.len(), (0, 0));
        for ((before, looks), Heard { messages, .. }) in self.heard.iter_mut().zip(inputs) {
            *looks = *looks << 1 | u32::from(messages != before);
            *before = *messages;
        }
        let lately = self.connected.is_some_and(|at| now.saturating_duration_since(at) < APART);
        if stood_still {
            self.connected = if lately { self.connected } else { Some(now) };
            return (!lately).then_some(Due::StoodStill);
        }
        if inputs.is_empty() {
            return None;
        }
        let standstill = self.standstill.as_mut()?;
        let silent = standstill.silent(now, inputs).filter(|_| !lately)?;
        if silent.is_empty() || standstill.attempts == FURTHER.len() {
            self.standstill = None;
            return None;
        }
        standstill.attempts += 1;
        (standstill.attempted, standstill.backlog) = (now, None);
        self.connected = Some(now);
        Some(Due::Silent(silent))
    }

    /// Watches other inputs from now on, or none. The attempts of a standstill go on for them.
    pub fn watch_others(&mut self, now: Instant) {
        self.heard.clear();
        let [.., last] = FURTHER;
        self.standstill.take_if(|it| now.saturating_duration_since(it.ended) >= last);
        if let Some(standstill) = &mut self.standstill {
            standstill.regular = None;
            (standstill.attempted, standstill.backlog) = (now, None);
        }
    }

    /// Begins the attempts of a standstill. An input that has been silent since an earlier one stays regular.
    fn begin(&mut self, now: Instant, inputs: usize) {
        let is = |at: usize| self.heard.get(at).is_some_and(|(_, it)| it.count_ones() >= REGULAR);
        let before = self.standstill.take().map(|before| before.regular);
        let regular = match before {
            Some(None) => None,
            Some(Some(was)) => {
                Some((0..inputs).map(|at| is(at) || was.get(at) == Some(&true)).collect())
            }
            None => Some((0..inputs).map(is).collect()),
        };
        let standstill =
            Standstill { ended: now, attempts: 0, regular, attempted: now, backlog: None };
        self.standstill = Some(standstill);
    }
}

impl Standstill {
    /// The regular inputs from which nothing new has come, when the next attempt, or the end, is due.
    fn silent(&mut self, now: Instant, inputs: &[Heard]) -> Option<Vec<usize>> {
        let since = |earlier: Instant| now.saturating_duration_since(earlier);
        if self.backlog.is_none() && since(self.attempted) >= BACKLOG {
            self.backlog = Some(inputs.iter().map(|input| input.messages).collect());
        }
        let backlog = self.backlog.as_ref()?;
        let next = FURTHER.get(self.attempts).copied().unwrap_or_default();
        if since(self.ended) < next || since(self.attempted) < 2 * BACKLOG {
            return None;
        }
        let is_silent = |at: usize| backlog.get(at) == Some(&inputs[at].messages);
        let hears_none = (0..inputs.len()).all(is_silent);
        let regular = |at: usize| match &self.regular {
            Some(regular) => regular.get(at) == Some(&true),
            None => hears_none && inputs[at].has_publisher,
        };
        let silent = |at: &usize| regular(*at) && is_silent(*at);
        Some((0..inputs.len()).filter(silent).collect())
    }
}

#[cfg(test)]
mod tests;
