//! Commands: within their limits, and none without a policy.

use super::SharedSeen;
use crate::clock::WorldClock;
use crate::net::{MS, S, Shared};
use robocache_core::cdr::Reader;
use robocache_ops::sync::lock;
use robocache_runtime::CommandPublisher;

/// The period of commands, their limits and the watchdog, as configured.
const PERIOD_NS: u64 = 20 * MS;
const VELOCITY: f64 = 2.0;
const ACCELERATION: f64 = 10.0;
const POSITION: f64 = 3.0;
const WATCHDOG_NS: u64 = 600 * MS;
/// Time from the greatest velocity to rest, and two periods.
const REST_NS: u64 = S / 5 + 2 * PERIOD_NS;
/// Rounding of sums of commands.
const ROUNDING: f64 = 1e-9;

/// Takes the commands of the node, and checks them.
pub(crate) struct CommandCheck {
    pub seen: SharedSeen,
    pub net: Shared,
    pub clock: WorldClock,
    /// True if command ticks come when a simulator says so.
    pub simulated: bool,
    /// The last commands, and their instants.
    pub last: Vec<(u64, Vec<f64>)>,
    /// Since when there was a command at each tick.
    pub since_ns: u64,
    /// When a chunk last reached the node, and how many had.
    pub fed: (u64, u64),
    pub sent: std::sync::Arc<std::sync::atomic::AtomicU64>,
}

impl CommandPublisher for CommandCheck {
    fn audience(&mut self, _: usize) -> Option<usize> {
        None
    }

    fn send(&mut self, _: usize, message: &[u8]) {
        let now = self.clock.now_ns();
        self.sent.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let values = read(message);
        let Some(values) = values else {
            return lock(&self.seen).fail("a command cannot be read".to_owned());
        };
        let unfed = now.saturating_sub(self.fed());
        let period = PERIOD_NS as f64 / 1e9;
        let (step, bend) = (VELOCITY * period, ACCELERATION * period * period);
        // Steps of a simulator's clock are not those of this one.
        let simulated = self.simulated;
        let is_next = |(at, _): &(u64, Vec<f64>)| !simulated && now - at < 3 * PERIOD_NS / 2;
        let moved = |k: usize, of: &[f64], before: &[f64]| of[k] - before[k];
        if !self.last.last().is_some_and(is_next) {
            self.since_ns = now;
        }
        // After a gap, the joint comes to rest from the first tick on.
        let moved_ns = unfed.saturating_sub(WATCHDOG_NS).min(now - self.since_ns);
        let mut wrong = None;
        for (k, value) in values.iter().enumerate() {
            if !value.is_finite() || value.abs() > POSITION + ROUNDING {
                wrong = Some(format!("command {value} of joint {k} is out of its limits"));
            }
            let Some(before) = self.last.last().filter(|last| is_next(last)) else { continue };
            let change = moved(k, &values, &before.1);
            if change.abs() > step + ROUNDING {
                wrong = Some(format!("joint {k} moves by {change} in a tick, more than {step}"));
            }
            if moved_ns > REST_NS && change.abs() > ROUNDING {
                wrong = Some(format!("joint {k} moves {} ms after the last chunk", unfed / MS));
            }
            let [.., earlier, _] = &self.last[..] else { continue };
            if before.0 - earlier.0 < 3 * PERIOD_NS / 2 {
                let turned = change - moved(k, &before.1, &earlier.1);
                if turned.abs() > bend + ROUNDING {
                    wrong =
                        Some(format!("joint {k} turns by {turned} in a tick, more than {bend}"));
                }
            }
        }
        if let Some(wrong) = wrong {
            lock(&self.seen).fail(wrong);
        }
        if self.last.len() == 2 {
            self.last.remove(0);
        }
        self.last.push((now, values));
    }

    fn tell(&mut self, _: usize, _: &[u8]) {
        self.fed();
    }
}

impl CommandCheck {
    /// When a chunk last reached the node, at most a command tick too late.
    fn fed(&mut self) -> u64 {
        let taken = lock(&self.net).chunks_taken;
        if taken != self.fed.1 {
            self.fed = (self.clock.now_ns(), taken);
        }
        self.fed.0
    }
}

fn read(message: &[u8]) -> Option<Vec<f64>> {
    let mut reader = Reader::new(message).ok()?;
    // The layout: no dimensions, and no offset.
    reader.u32().ok()?;
    reader.u32().ok()?;
    let values = reader.f64_sequence().ok()?;
    (0..values.len()).map(|at| values.get(at)).collect()
}
