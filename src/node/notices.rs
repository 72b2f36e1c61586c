//! Log lines that must come once or seldom.

use std::time::{Duration, Instant};

use super::health::{CLOCK_PATIENCE, SimClockSeen};
use super::totals::StreamTotals;
use crate::config::StreamSpec;

/// Between two log lines that sum up drops.
const SUMMARY_PERIOD: Duration = Duration::from_secs(10);

/// What has been said already.
pub struct Notices {
    started: Instant,
    clock_missed: bool,
    clock_stood: bool,
    /// By stream: the reason for trouble, while it lasts.
    troubles: Vec<Option<String>>,
    /// When the next sum of losses may be said.
    next_summary: Instant,
    /// By stream: what has been summed up.
    summed_up: Vec<StreamTotals>,
}

impl Notices {
    /// Nothing has been said of this many streams.
    pub fn new(started: Instant, streams: usize) -> Self {
        Notices {
            started,
            clock_missed: false,
            clock_stood: false,
            troubles: vec![None; streams],
            next_summary: started,
            summed_up: vec![StreamTotals::default(); streams],
        }
    }

    /// Says once that there is no clock, or that it stands, and once that it runs again.
    pub fn clock(&mut self, now: Instant, seen: Option<SimClockSeen>) {
        match seen {
            Some(SimClockSeen::Never) => {
                let patient = now.duration_since(self.started) <= CLOCK_PATIENCE;
                if !patient && !self.clock_missed {
                    self.clock_missed = true;
                    tracing::warn!("use_sim_time is set and nothing comes on /clock: no ticks");
                }
            }
            Some(stands) => {
                let trouble = stands.trouble();
                match (&trouble, self.clock_stood) {
                    (Some(words), false) => tracing::warn!("{words}"),
                    (None, true) => tracing::info!("/clock runs again"),
                    _ => {}
                }
                self.clock_stood = trouble.is_some();
            }
            None => {}
        }
    }

    /// Says once when a stream gets into trouble or the reason for it changes, and once when it is
    /// over. `topic` is the full name, `what` its state in words.
    pub fn trouble(
        &mut self,
        (stream, name, topic): (usize, &str, &str),
        what: &str,
        why: Option<String>,
    ) {
        if why == self.troubles[stream] {
            return;
        }
        match &why {
            Some(why) => tracing::warn!("stream '{name}' ({topic}): {what}; {why}"),
            None => tracing::info!("stream '{name}' ({topic}) arrives again"),
        }
        self.troubles[stream] = why;
    }

    /// One line at most every 10 s for all drops and gaps since the one before.
    pub fn losses(&mut self, now: Instant, specs: &[StreamSpec], totals: &[StreamTotals]) {
        if now < self.next_summary {
            return;
        }
        let mut lines = Vec::new();
        for ((spec, after), before) in specs.iter().zip(totals).zip(&mut self.summed_up) {
            lines.extend(losses_of(&spec.name, before, after));
            *before = *after;
        }
        if !lines.is_empty() {
            tracing::warn!("dropped or missing messages: {}", lines.join(", "));
            self.next_summary = now + SUMMARY_PERIOD;
        }
    }
}

/// What a stream lost between two looks, in words.
fn losses_of(name: &str, before: &StreamTotals, after: &StreamTotals) -> Vec<String> {
    let drops = after.drops_since(before).into_iter();
    let mut lines: Vec<_> =
        drops.map(|(reason, n)| format!("{name}: {n} {}", reason.name())).collect();
    if after.missing > before.missing {
        let n = after.missing - before.missing;
        lines.push(format!(
            "{name}: {n} missing by their stamps' period (lost on the way, or never sent)"
        ));
    }
    if after.queue_full > before.queue_full {
        let n = after.queue_full - before.queue_full;
        lines.push(format!(
            "{name}: the middleware's queue was full {n} times and may have lost messages; raise \
             the stream's qos depth or give the node more of the processor"
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::DropReason;

    #[test]
    fn losses_are_those_since_the_last_look() {
        let mut before = StreamTotals { missing: 5, queue_full: 1, ..Default::default() };
        before.dropped[DropReason::Late as usize] = 2;
        assert_eq!(losses_of("arm", &before, &before), [""; 0]);
        // A message out of order takes back what was missing.
        let mut after = StreamTotals { missing: 4, queue_full: 3, ..before };
        after.dropped[DropReason::Late as usize] = 9;
        let lines = losses_of("arm", &before, &after);
        assert_eq!((lines.len(), lines[0].as_str()), (2, "arm: 7 late"));
        assert!(lines[1].starts_with("arm: the middleware's queue was full 2 times"), "{lines:?}");
        let lines = losses_of("arm", &after, &StreamTotals { missing: 6, ..after });
        let expected = "arm: 2 missing by their stamps' period (lost on the way, or never sent)";
        assert_eq!(lines, [expected]);
    }
}
