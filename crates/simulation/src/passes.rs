//! The clock that the robot stamps by: that of its machine, or a simulator's.

use crate::clock::{START, WorldClock};
use crate::net::S;
use crate::robot::{MessageSource, UNIT_NS};
use robocache_ops::time::Stamp;

/// First reading of a simulator's clock.
const SIM_START: Stamp = Stamp::from_nanos(1000 * S as i64);

/// The node has heard a simulator that begins again within this time, also if its messages are late.
const NEWS_NS: u64 = S / 2;

/// The passes of the robot's clock. Another pass begins when it jumps back.
pub(crate) struct Passes {
    /// True if a simulator has the clock.
    pub simulated: bool,
    /// By pass: what its stamps count from.
    pub bases: Vec<Stamp>,
    /// When the pass began by the simulator's clock, pauses left out [ns].
    since_ns: u64,
    /// When the simulator was paused.
    pub paused_ns: Option<u64>,
    /// When it began again \[ns\].
    begun_again_ns: Option<u64>,
}

impl Passes {
    /// The first pass.
    pub(crate) fn new(simulated: bool) -> Self {
        let bases = vec![if simulated { SIM_START } else { START }];
        Passes { simulated, bases, since_ns: 0, paused_ns: None, begun_again_ns: None }
    }

    /// The present pass, and what its stamps count from.
    pub(crate) fn present(&self) -> (u64, Stamp) {
        let base = if self.simulated { SIM_START } else { START };
        (self.bases.len() as u64 - 1, base)
    }

    /// The reading of a simulator's clock.
    pub(crate) fn reading(&self, now_ns: u64) -> Stamp {
        let now_ns = self.paused_ns.unwrap_or(now_ns);
        SIM_START.offset((now_ns - self.since_ns) as i64)
    }

    /// The stamp of what a source measures now.
    pub(crate) fn stamp(&self, source: &MessageSource, clock: &WorldClock) -> Stamp {
        let now = clock.now_ns();
        let stamp = match self.simulated {
            true => self.reading(now),
            false if source.is_remote() => START.offset(now as i64),
            false => clock.system(),
        };
        Stamp::from_nanos(stamp.nanos().div_euclid(UNIT_NS) * UNIT_NS)
    }

    /// The simulator begins again.
    pub(crate) fn begin_again(&mut self, now_ns: u64) {
        self.bases.push(SIM_START);
        (self.since_ns, self.paused_ns) = (now_ns, None);
        self.begun_again_ns = Some(now_ns);
    }

    /// True if the simulator began again so lately that the node may not have heard it.
    pub(crate) fn is_news(&self, now_ns: u64) -> bool {
        self.begun_again_ns.is_some_and(|begun_ns| now_ns < begun_ns + NEWS_NS)
    }

    /// The system's clock was set back.
    pub(crate) fn set_back(&mut self) {
        self.bases.push(START);
    }

    /// The simulator goes on after a pause.
    pub(crate) fn play(&mut self, now_ns: u64) {
        if let Some(paused) = self.paused_ns.take() {
            self.since_ns += now_ns - paused;
        }
    }
}
