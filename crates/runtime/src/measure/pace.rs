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
    /// How many lines were refused since the last one that was not.
    refused: u32,
    /// When the newest of them was.
    refused_at: Duration,
}

impl Pace {
    /// Asks for a line at `now`. Returns whether to log it.
    pub(crate) fn asks(&mut self, now: Duration) -> bool {
        if now < self.next {
            self.refused = self.refused.saturating_add(1);
            self.refused_at = now;
            return false;
        }
        let is_crowded = self.refused > 0 && now.saturating_sub(self.refused_at) < self.wait;
        self.wait = match is_crowded {
            true => (2 * self.wait).min(LONGEST),
            false => SHORTEST,
        };
        self.refused = 0;
        self.next = now + self.wait;
        true
    }

    /// Asks again for the line that was refused last. One that is only late makes no crowd, and another refusal does not
    /// count.
    pub(crate) fn asks_again(&mut self, now: Duration) -> bool {
        if now < self.next {
            return false;
        }
        self.refused = self.refused.saturating_sub(1);
        self.asks(now)
    }
}

#[cfg(test)]
mod tests;
