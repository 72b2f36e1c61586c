//! How punctual a thread is that only sleeps.
//!
//! A stall of one core delays the thread that sleeps on it. So a stall of the tick thread may miss the probe. Compare
//! their numbers over a whole run.

use super::timeline::{PERIOD_NS, Span, Timeline, What, short, touched};
use robocache_runtime::Placement;

/// How punctual a bare thread was.
#[derive(Debug)]
pub(super) struct Probe {
    /// Its real-time priority, above that of the ticks; 0 where none is permitted. What it misses
    /// then may be due to any other process.
    pub priority: u8,
    /// How late it woke \[ns\].
    pub late: Vec<u32>,
    /// Instants that it missed by a whole period, by the rule of the ticks.
    pub missed: u64,
    /// When it woke late by a good part of a period: the first 10,000 times.
    pub stalls: Vec<Span>,
}

const MOST_STALLS: usize = 10_000;

/// Later than this it did not wake without a reason \[ns\].
const STALL_NS: u64 = PERIOD_NS / 5;

/// Sleeps from one tick's instant to the next until the end, at this real-time priority where it is
/// permitted.
pub(super) fn run(soak: &Timeline, priority: u8) -> Probe {
    let priority = Placement { priority, cpus: vec![] }.apply("the probe runs");
    let late = touched(soak.ticks as usize);
    let mut probe = Probe { priority, late, missed: 0, stalls: Vec::with_capacity(MOST_STALLS) };
    let mut last = 0;
    while !soak.stopping() && last < soak.ticks as u64 {
        let due = (last + 1) * PERIOD_NS;
        soak.sleep_until(due);
        let now = soak.now();
        let late = now.saturating_sub(due);
        probe.late.push(short(late));
        let missed = late / PERIOD_NS;
        probe.missed += missed;
        if late > STALL_NS && probe.stalls.len() < MOST_STALLS {
            probe.stalls.push(Span { what: What::Stall { missed }, from: due, to: now });
        }
        last += 1 + missed;
    }
    probe
}
