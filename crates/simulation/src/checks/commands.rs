//! Commands: within their limits, and none without a policy.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::SharedSeen;
use crate::net::{MS, SharedNet};
use robocache_core::cdr::Reader;
use robocache_ops::sync::lock;
use robocache_runtime::CommandPublisher;

/// The period of commands, their limits and the watchdog, as configured.
const PERIOD_NS: u64 = 20 * MS;
const VELOCITY: f64 = 2.0;
const ACCELERATION: f64 = 10.0;
const POSITION: f64 = 3.0;
const WATCHDOG_TICKS: i64 = 30;
/// Ticks from the greatest velocity to rest, and two more.
const REST_TICKS: i64 = 12;
/// Rounding of sums of commands.
const ROUNDING: f64 = 1e-9;

/// Takes the commands of the node, and checks them. Its time is the command tick, so that a simulator's clock is judged
/// as well.
pub(crate) struct CommandCheck {
    seen: SharedSeen,
    net: SharedNet,
    /// The last two commands, and their ticks.
    last: Vec<(i64, Vec<f64>)>,
    /// The epoch of the last command. Each counts its ticks anew.
    epoch: u64,
    /// The tick since which there was a command at each.
    since: i64,
    /// The tick at which a chunk last reached the node, and how many had.
    fed: (i64, u64),
    sent: Arc<AtomicU64>,
}

impl CommandPublisher for CommandCheck {
    fn audience(&mut self, _: usize) -> Option<usize> {
        None
    }

    fn send(&mut self, _: usize, message: &[u8]) {
        self.sent.fetch_add(1, Ordering::Relaxed);
        let checked = match read(message) {
            Some(values) => self.check(values),
            None => Err("a command cannot be read".to_owned()),
        };
        if let Err(wrong) = checked {
            lock(&self.seen).fail(wrong);
        }
    }

    fn tell(&mut self, _: usize, _: &[u8]) {
        self.feed();
    }
}

impl CommandCheck {
    pub(crate) fn new(seen: &SharedSeen, net: &SharedNet, sent: &Arc<AtomicU64>) -> Self {
        let seen = Arc::clone(seen);
        let net = Arc::clone(net);
        let sent = Arc::clone(sent);
        CommandCheck { seen, net, last: Vec::new(), epoch: 0, since: 0, fed: (0, 0), sent }
    }

    /// Notes whether a chunk has reached the node, at most a command tick too late. Returns the present tick.
    fn feed(&mut self) -> i64 {
        let tick = lock(&self.seen).due.get("command").copied().unwrap_or_default();
        let taken = lock(&self.net).chunks_taken;
        if taken != self.fed.1 {
            self.fed = (tick, taken);
        }
        tick
    }

    /// Checks a command against its limits, those before and the watchdog.
    fn check(&mut self, values: Vec<f64>) -> Result<(), String> {
        let tick = self.feed();
        let epoch = lock(&self.seen).command_epoch;
        // The same number plus one in another epoch is no next tick.
        if std::mem::replace(&mut self.epoch, epoch) != epoch {
            self.last.clear();
        }
        let period = PERIOD_NS as f64 / 1e9;
        let step = VELOCITY * period;
        let bend = ACCELERATION * period * period;
        let before = self.last.last().filter(|(at, _)| tick == at + 1).map(|(_, values)| values);
        if before.is_none() {
            self.since = tick;
        }
        let unfed = tick - self.fed.0;
        // After a gap, the joint comes to rest from the first tick on.
        let rests = (unfed - WATCHDOG_TICKS).min(tick - self.since) > REST_TICKS;
        let earlier = match &self.last[..] {
            [earlier, last] if last.0 == earlier.0 + 1 => Some(&earlier.1),
            _ => None,
        };
        for (k, value) in values.iter().enumerate() {
            if !value.is_finite() || value.abs() > POSITION + ROUNDING {
                return Err(format!("command {value} of joint {k} is out of its limits"));
            }
            let Some(before) = before else { continue };
            let change = value - before[k];
            if change.abs() > step + ROUNDING {
                return Err(format!("joint {k} moves by {change} in a tick, more than {step}"));
            }
            if rests && change.abs() > ROUNDING {
                return Err(format!("joint {k} moves {unfed} ticks after the last chunk"));
            }
            let Some(earlier) = earlier else { continue };
            let turned = change - (before[k] - earlier[k]);
            if turned.abs() > bend + ROUNDING {
                return Err(format!("joint {k} turns by {turned} in a tick, more than {bend}"));
            }
        }
        if self.last.len() == 2 {
            self.last.remove(0);
        }
        self.last.push((tick, values));
        Ok(())
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
