//! Which processor encodes the next message of a ring. Pure: times are given in.
//!
//! # The policy
//!
//! - A processor's *latency* is the median of its last [`RECENT`] times, from hand-over to the row.
//!   So one slow message changes nothing, and three in a row do. The times of different sizes are
//!   not told apart: the images of a topic have one size.
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
//! - A GPU that has had a message for [`CALL_LIMIT_NS`] hangs. The time counts as passed only if
//!   the GPU is still not done [`GRACE_NS`] after somebody noticed: a debugger or a suspend stops
//!   this process too.

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
pub const CALL_LIMIT_NS: u64 = 5_000_000_000;
/// So much later it does \[ns\].
const GRACE_NS: u64 = 500_000_000;

/// What the GPU does for this ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gpu {
    /// Nothing.
    Idle,
    /// It has an earlier message, since this instant \[ns\].
    Busy { since_ns: u64 },
}

/// Who encodes a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
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
pub struct Chooser {
    core: Recent,
    gpu: Recent,
    uses_gpu: bool,
    /// Before this instant there is no probe \[ns\].
    probe_at_ns: u64,
    /// Messages since the last probe.
    since_probe: u32,
    /// Whether the last probe was so good that the next message is one.
    again: bool,
    /// When somebody first noticed that the GPU may hang \[ns\].
    overdue_ns: Option<u64>,
}

impl Chooser {
    /// Says who encodes a message that came at `now_ns`.
    pub fn plan(&mut self, now_ns: u64, gpu: Gpu) -> Plan {
        self.since_probe = self.since_probe.saturating_add(1);
        if let Gpu::Busy { since_ns } = gpu {
            return if self.hangs(now_ns, since_ns) { Plan::Leave } else { Plan::Core };
        }
        self.overdue_ns = None;
        // A core that is overtaken by its shadow would never be known.
        let Some(core_ns) = self.core.latency_ns() else { return Plan::Core };
        match (self.uses_gpu, self.is_probe_due(now_ns)) {
            (false, false) | (true, true) => Plan::Core,
            (false, true) => Plan::Both,
            (true, false) => Plan::Gpu { patience_ns: core_ns.max(LEAST_PATIENCE_NS) },
        }
    }

    /// Notes how long a processor took for a message.
    pub fn took(&mut self, processor: Processor, took_ns: u64, now_ns: u64) {
        let is_gpu = processor == Processor::Gpu;
        if is_gpu { &mut self.gpu } else { &mut self.core }.add(took_ns);
        let (core, gpu) = (self.core.latency_ns(), self.gpu.latency_ns());
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
    pub fn in_use(&self) -> Processor {
        if self.uses_gpu { Processor::Gpu } else { Processor::Cpu }
    }

    /// The latency of a processor \[ns\]; `None` as long as it is not known.
    pub fn latency_ns(&self, processor: Processor) -> Option<u64> {
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
mod tests {
    use super::*;

    const US: u64 = 1_000;
    const MS: u64 = 1_000_000;
    const S: u64 = 1_000_000_000;

    /// A camera at 30 Hz whose core needs `core` and whose GPU needs `gpu`, in a model of one
    /// message after the other.
    struct Camera {
        chooser: Chooser,
        now_ns: u64,
        /// When the GPU will be done, and when it began.
        gpu_busy: Option<(u64, u64)>,
        /// Messages that the GPU was given.
        given: u32,
    }

    impl Camera {
        fn new() -> Self {
            Camera { chooser: Chooser::default(), now_ns: 0, gpu_busy: None, given: 0 }
        }

        /// A message; returns the plan and how long the row took.
        fn message(&mut self, core: u64, gpu: u64) -> (Plan, u64) {
            self.now_ns += 33 * MS;
            let now = self.now_ns;
            if let Some((_, until)) = self.gpu_busy
                && until <= now
            {
                let (since, until) = self.gpu_busy.take().unwrap();
                self.chooser.took(Processor::Gpu, until - since, now);
            }
            let state = self.gpu_busy.map_or(Gpu::Idle, |(since, _)| Gpu::Busy { since_ns: since });
            let plan = self.chooser.plan(now, state);
            let row = match plan {
                Plan::Core | Plan::Leave => core,
                Plan::Both => core.min(gpu),
                Plan::Gpu { patience_ns } if gpu <= patience_ns => gpu,
                Plan::Gpu { patience_ns } => (patience_ns + core).min(gpu),
            };
            if let Plan::Both | Plan::Gpu { .. } = plan {
                self.given += 1;
                if gpu < 33 * MS {
                    self.chooser.took(Processor::Gpu, gpu, now + gpu);
                } else {
                    self.gpu_busy = Some((now, now.saturating_add(gpu)));
                }
            }
            let overtaken = match plan {
                Plan::Core | Plan::Leave => false,
                Plan::Both => gpu < core,
                Plan::Gpu { patience_ns } => gpu <= patience_ns + core,
            };
            if !overtaken {
                self.chooser.took(Processor::Cpu, core, now + row);
            }
            (plan, row)
        }

        fn uses_gpu(&self) -> bool {
            self.chooser.in_use() == Processor::Gpu
        }

        /// Messages of the same times.
        fn messages(&mut self, count: usize, core: u64, gpu: u64) -> Vec<(Plan, u64)> {
            (0..count).map(|_| self.message(core, gpu)).collect()
        }
    }

    #[test]
    fn a_faster_gpu_is_used_after_few_messages() {
        let mut camera = Camera::new();
        let first = camera.messages(8, 600 * US, 200 * US);
        assert_eq!([first[0].0, first[3].0], [Plan::Core, Plan::Both]);
        assert!(camera.uses_gpu(), "{first:?}");
        let later = camera.messages(2000, 600 * US, 200 * US);
        let on_gpu = later.iter().filter(|(plan, _)| matches!(plan, Plan::Gpu { .. })).count();
        assert!(on_gpu >= 1850, "{on_gpu} of 2000");
        assert!(later.iter().all(|(_, row)| *row <= 600 * US));
    }

    #[test]
    fn a_gpu_that_is_as_fast_or_slower_is_not_used_and_is_probed_the_more_rarely_the_worse_it_is() {
        let given = |gpu: u64| {
            let mut camera = Camera::new();
            camera.messages(20, 600 * US, gpu);
            camera.given = 0;
            let rows = camera.messages(3000, 600 * US, gpu);
            assert!(!camera.uses_gpu());
            // A shadow makes no row later.
            assert!(rows.iter().all(|(_, row)| *row <= 600 * US));
            camera.given
        };
        // 3,000 messages are 99 s: one probe a second, every 2 s, every 32 s.
        let (equal, twice, much_worse) = (given(600 * US), given(1200 * US), given(50 * MS));
        assert!((85..=100).contains(&equal), "{equal}");
        assert!((40..=50).contains(&twice), "{twice}");
        assert!((2..=4).contains(&much_worse), "{much_worse}");
    }

    #[test]
    fn a_gpu_that_gets_slow_is_given_up_within_few_messages_and_no_row_is_late_by_more_than_a_core()
    {
        let (core, fast, slow) = (600 * US, 200 * US, 50 * MS);
        let mut camera = Camera::new();
        camera.messages(100, core, fast);
        assert!(camera.uses_gpu());
        let rows = camera.messages(12, core, slow);
        assert!(!camera.uses_gpu(), "{rows:?}");
        let taken_over = rows.iter().filter(|(plan, _)| matches!(plan, Plan::Gpu { .. })).count();
        assert!((1..=4).contains(&taken_over), "{rows:?}");
        assert!(rows.iter().all(|(_, row)| *row <= 2 * core), "{rows:?}");
        let rows = camera.messages(1000, core, slow);
        assert!(rows.iter().all(|(_, row)| *row == core));
    }

    #[test]
    fn one_slow_message_changes_nothing() {
        let mut camera = Camera::new();
        camera.messages(100, 600 * US, 200 * US);
        camera.message(600 * US, 20 * MS);
        camera.messages(3, 600 * US, 200 * US);
        assert!(camera.uses_gpu());
    }

    #[test]
    fn a_gpu_that_recovers_is_used_again() {
        let (core, fast, slow) = (600 * US, 200 * US, 50 * MS);
        let mut camera = Camera::new();
        camera.messages(100, core, fast);
        camera.messages(2000, core, slow);
        assert!(!camera.uses_gpu());
        // The next probe is at most 32 s away, and two more decide.
        let recovered = camera.messages(32 * 30 + 40, core, fast);
        assert!(camera.uses_gpu());
        let both = recovered.iter().filter(|(plan, _)| *plan == Plan::Both).count();
        assert!(both <= 4, "{both}");
    }

    #[test]
    fn a_core_that_becomes_faster_is_used_again() {
        let mut camera = Camera::new();
        camera.messages(100, 6 * MS, MS);
        assert!(camera.uses_gpu());
        // Small images from now on.
        camera.messages(32 * 30, 100 * US, MS);
        assert!(!camera.uses_gpu());
    }

    #[test]
    fn a_gpu_that_is_busy_for_too_long_hangs() {
        let mut chooser = Chooser::default();
        let busy = Gpu::Busy { since_ns: S };
        let mut plan = |now_ns| chooser.plan(now_ns, busy);
        assert_eq!([plan(2 * S), plan(5 * S)], [Plan::Core, Plan::Core]);
        // Noticed, but this process may have been stopped as well.
        assert_eq!([plan(6 * S), plan(6 * S + 400 * MS)], [Plan::Core, Plan::Core]);
        assert_eq!(plan(6 * S + 500 * MS), Plan::Leave);
    }

    #[test]
    fn a_process_that_was_stopped_does_not_take_its_gpu_for_a_hanging_one() {
        let mut chooser = Chooser::default();
        assert_eq!(chooser.plan(100 * S, Gpu::Busy { since_ns: S }), Plan::Core);
        // Shortly after, the GPU is done.
        assert_eq!(chooser.plan(100 * S + 33 * MS, Gpu::Idle), Plan::Core);
        let busy = Gpu::Busy { since_ns: 101 * S };
        assert_eq!(chooser.plan(102 * S, busy), Plan::Core);
        assert_eq!(chooser.plan(106 * S, busy), Plan::Core);
    }
}
