//! Sleeps until an instant, and wakes in time for it.

use std::time::{Duration, Instant};

/// The longest busy wait before an instant.
const MOST: Duration = Duration::from_micros(500);
/// And at most this part of a period: 1 in 20. So a core is busy with waiting for 5 % of the time
/// at most.
const SHARE: u32 = 20;
/// A later wake-up than usual makes the busy wait longer by this part of the difference.
const RISE: u32 = 8;
/// An earlier one makes it shorter by this part. So the busy wait covers most wake-ups, and a single very late one
/// costs little processor time afterwards.
const FADE: u32 = 64;
/// The shortest sleep.
const MOMENT: Duration = Duration::from_nanos(1);
/// Time that the system may add to a sleep of this thread, at ordinary priority, to wake several threads at once
/// \[ns\]. Its default is 50,000.
const SLACK_NS: u64 = 1;

/// Sleeps of one thread that must be awake at each of many instants.
///
/// A thread that sleeps wakes late: by some microseconds with real-time priority, by up to half a
/// millisecond without it. So the sleep is asked to end earlier, by as much as the last wake-ups were
/// late, and the rest of the time is a busy wait.
#[derive(Debug)]
pub struct Sleeper {
    /// The end of a sleep before the instant.
    early: Duration,
    most: Duration,
}

impl Sleeper {
    /// Makes the sleeper of the calling thread, for instants that are at least `period` apart.
    pub fn of_this_thread(period: Duration) -> Self {
        if let Err(error) = nix::sys::prctl::set_timerslack(SLACK_NS) {
            tracing::debug!("sleeps may end 0.05 ms late: {error}");
        }
        Self { early: Duration::ZERO, most: MOST.min(period / SHARE) }
    }

    /// Waits for `left`, at most for a sleep of `slice`; after such a sleep the caller asks again.
    ///
    /// Each call sleeps, if only for a moment. So a thread with real-time priority leaves its processor
    /// to others, also if it is always short of time.
    pub(super) fn wait(&mut self, left: Duration, slice: Duration) {
        let began = Instant::now();
        let sleep = self.sleep_of(left);
        if sleep > slice {
            std::thread::sleep(slice);
            return;
        }
        std::thread::sleep(sleep);
        self.woke(began.elapsed().saturating_sub(sleep));
        while began.elapsed() < left {
            std::hint::spin_loop();
        }
    }

    /// How long to sleep if this time is left.
    fn sleep_of(&self, left: Duration) -> Duration {
        left.saturating_sub(self.early).max(MOMENT)
    }

    /// Notes how late a sleep ended.
    fn woke(&mut self, late: Duration) {
        let late = late.min(self.most);
        let later = late.saturating_sub(self.early) / RISE;
        let earlier = self.early.saturating_sub(late) / FADE;
        self.early = (self.early + later).saturating_sub(earlier);
    }
}

#[cfg(test)]
mod tests;
