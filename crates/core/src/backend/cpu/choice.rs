//! Which processor encodes the next message of a ring. Pure: times are given in.
//!
//! # The policy
//!
//! - A processor's *latency* is the median of its last [`RECENT`] times, from hand-over to the row. So one slow message
//!   changes nothing, and three in a row do. It does not distinguish times by size, because the images of a topic have
//!   one size.
//! - The ring uses a core at first, alone until its latency is known. It changes to the GPU if the GPU's latency is at least a fifth
//!   shorter, and back as soon as it is longer.
//! - If the GPU takes longer for a message than a core would, a core takes the message over. So a
//!   row is at most one encode of a core later than without a GPU, whatever the GPU does.
//! - If the GPU still has an earlier message, a core encodes the message.
//! - The processor that is not in use is *probed*. A probe of the GPU is a shadow: a core encodes the
//!   same message, and the row that is ready first enters. A probe of a core is a message that the
//!   core encodes alone.
//! - Between two probes are at least [`PROBE_MESSAGES`] messages and [`PROBE_NS`], times the ratio
//!   of both latencies, at most [`LONGEST_PROBE_NS`]. So the worse a processor is, the more rarely
//!   it costs anything. If a processor was faster in its last probe, it is probed with the next
//!   message. The same holds while fewer than [`FEWEST`] of its times are known.
//! - A GPU that has had a message for [`CALL_LIMIT_NS`] hangs. The time counts as passed only if the GPU is still not
//!   done [`GRACE_NS`] after a thread noticed: a debugger or a suspend stops this process too.

use crate::backend::Processor;

/// Times per processor that are kept.
const RECENT: usize = 5;
/// With fewer times a processor has no latency.
const FEWEST: usize = 3;
/// Messages between two probes, at least.
const PROBE_MESSAGES: u32 = 16;
/// Time between two probes of a processor that is as fast as the other \[ns\].
const PROBE_NS: u64 = 1_000_000_000;
/// Time between two probes, at most \[ns\].
const LONGEST_PROBE_NS: u64 = 32 * PROBE_NS;
/// A core waits for the GPU at least this long before it takes a message over \[ns\]. Threads do not
/// wake faster.
const LEAST_PATIENCE_NS: u64 = 250_000;
/// If the GPU has had a message for this long, it may hang \[ns\].
pub(super) const CALL_LIMIT_NS: u64 = 5_000_000_000;
/// The GPU counts as hung this long after a thread noticed that it may hang \[ns\].
const GRACE_NS: u64 = 500_000_000;

/// State of the GPU for this ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gpu {
    /// Nothing.
    Idle,
    /// It has an earlier message, since this instant \[ns\].
    Busy { since_ns: u64 },
}

/// Who encodes a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// A core alone.
    Core,
    /// A core, and the GPU in its shadow.
    Both,
    /// The GPU; a core takes over after this time \[ns\].
    Gpu { patience_ns: u64 },
    /// A core, because the GPU hangs: it must be left.
    Leave,
}

/// Chooses for one ring.
#[derive(Clone, Debug, Default)]
pub(super) struct Chooser {
    core: Recent,
    gpu: Recent,
    uses_gpu: bool,
    /// Before this instant there is no probe \[ns\].
    probe_at_ns: u64,
    /// Messages since the last probe.
    since_probe: u32,
    /// True if the last probe was so good that the next message is one.
    again: bool,
    /// When a thread first noticed that the GPU may hang \[ns\].
    overdue_ns: Option<u64>,
}

impl Chooser {
    /// Says who encodes a message that came at `now_ns`.
    pub(super) fn plan(&mut self, now_ns: u64, gpu: Gpu) -> Decision {
        self.since_probe = self.since_probe.saturating_add(1);
        if let Gpu::Busy { since_ns } = gpu {
            return if self.hangs(now_ns, since_ns) { Decision::Leave } else { Decision::Core };
        }
        self.overdue_ns = None;
        // A core that is overtaken by its shadow would never be known.
        let Some(core_ns) = self.core.latency_ns() else { return Decision::Core };
        match (self.uses_gpu, self.is_probe_due(now_ns)) {
            (false, false) | (true, true) => Decision::Core,
            (false, true) => Decision::Both,
            (true, false) => Decision::Gpu { patience_ns: core_ns.max(LEAST_PATIENCE_NS) },
        }
    }

    /// Notes how long a processor took for a message.
    pub(super) fn took(&mut self, processor: Processor, took_ns: u64, now_ns: u64) {
        let is_gpu = processor == Processor::Gpu;
        if is_gpu { &mut self.gpu } else { &mut self.core }.add(took_ns);
        let core = self.core.latency_ns();
        let gpu = self.gpu.latency_ns();
        let was_probe = is_gpu != self.uses_gpu;
        if let (Some(core), Some(gpu)) = (core, gpu) {
            // A fifth apart, so that two equal processors do not take turns.
            self.uses_gpu = if self.uses_gpu { gpu <= core } else { gpu < core - core / 5 };
        }
        if was_probe {
            let (used, other) = if self.uses_gpu { (gpu, core) } else { (core, gpu) };
            self.again = other.is_none() || used.is_none_or(|used_ns| took_ns < used_ns);
            self.since_probe = 0;
            let ratio = match (used, other) {
                (Some(used), Some(other)) => other as f64 / used.max(1) as f64,
                _ => 1.0,
            };
            let pause_ns = (PROBE_NS as f64 * ratio.max(1.0)) as u64;
            self.probe_at_ns = now_ns.saturating_add(pause_ns.min(LONGEST_PROBE_NS));
        }
    }

    /// The processor in use.
    pub(super) fn in_use(&self) -> Processor {
        if self.uses_gpu { Processor::Gpu } else { Processor::Cpu }
    }

    /// The latency of a processor \[ns\]; `None` until measured.
    pub(super) fn latency_ns(&self, processor: Processor) -> Option<u64> {
        match processor {
            Processor::Cpu => self.core.latency_ns(),
            Processor::Gpu => self.gpu.latency_ns(),
        }
    }

    fn is_probe_due(&self, now_ns: u64) -> bool {
        let other = if self.uses_gpu { &self.core } else { &self.gpu };
        let paused = self.since_probe <= PROBE_MESSAGES || now_ns < self.probe_at_ns;
        other.latency_ns().is_none() || self.again || !paused
    }

    fn hangs(&mut self, now_ns: u64, since_ns: u64) -> bool {
        if now_ns.saturating_sub(since_ns) < CALL_LIMIT_NS {
            self.overdue_ns = None;
            return false;
        }
        let noticed_ns = *self.overdue_ns.get_or_insert(now_ns);
        now_ns.saturating_sub(noticed_ns) >= GRACE_NS
    }
}

/// The last times of a processor \[ns\].
#[derive(Clone, Debug, Default)]
struct Recent {
    times: [u64; RECENT],
    /// How many there are, and how many there ever were.
    len: usize,
    count: usize,
}

impl Recent {
    fn add(&mut self, took_ns: u64) {
        self.times[self.count % RECENT] = took_ns;
        self.count = (self.count + 1) % RECENT;
        self.len = (self.len + 1).min(RECENT);
    }

    /// Their median; the greater of two.
    fn latency_ns(&self) -> Option<u64> {
        let mut times = self.times;
        let times = &mut times[..self.len];
        times.sort_unstable();
        (self.len >= FEWEST).then(|| times[self.len / 2])
    }
}

#[cfg(test)]
mod tests;
