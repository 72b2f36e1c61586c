//! How often a log line may repeat.

use std::time::Duration;

/// Shortest time between two lines.
const SHORTEST: Duration = Duration::from_secs(1);
/// Longest time between two lines.
const LONGEST: Duration = Duration::from_secs(64);

/// Decides when a line may be logged again. Two lines are at least a second apart. While there is more to say than lines,
/// the time between two of them doubles, up to about a minute.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    /// When the next line may be logged.
    next: Duration,
    wait: Duration,
    /// When a line was refused, since the last one that was not.
    refused: Option<Duration>,
}

impl Pace {
    /// Asks for a line at `now`. Returns whether to log it.
    pub(crate) fn asks(&mut self, now: Duration) -> bool {
        if now < self.next {
            self.refused = Some(now);
            return false;
        }
        let is_crowded = |refused| now.saturating_sub(refused) < self.wait;
        self.wait = match self.refused.take().is_some_and(is_crowded) {
            true => (2 * self.wait).min(LONGEST),
            false => SHORTEST,
        };
        self.next = now + self.wait;
        true
    }
}

#[cfg(test)]
mod tests;
