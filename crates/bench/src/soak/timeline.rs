//! The instants of a soak.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::BenchError;
use robocache_ops::time::{NANOS_PER_MS, Stamp};
use robocache_runtime::{Clock, TimeSource};
use robocache_sim::Pace;

/// Between two ticks \[ns\].
pub(super) const PERIOD_NS: u64 = NANOS_PER_MS as u64;

/// The soak starts at this instant of its robot \[ms\], which is a tick: what came before warms up.
pub(super) const START_MS: i64 = 1000;

/// When the soak started, and whether it is over. All its times are nanoseconds since the start, and
/// so the tick `n` of the soak is at `n * PERIOD_NS`.
#[derive(Debug)]
pub(super) struct Timeline {
    start: Instant,
    /// The ticks, from number 1.
    pub ticks: i64,
    /// Set when a thread failed.
    stop: AtomicBool,
}

impl Timeline {
    /// A soak of `ticks` ticks that starts soon.
    pub(super) fn new(ticks: i64) -> Self {
        // Threads need a moment to start.
        let start = Instant::now() + Duration::from_millis(100);
        Timeline { start, ticks, stop: AtomicBool::new(false) }
    }

    /// The clock of robot and runtime.
    pub(super) fn clock(&self) -> Clock {
        Clock::steady(Self::start_stamp(), self.start, TimeSource::real())
    }

    /// The start, on that clock.
    pub(super) const fn start_stamp() -> Stamp {
        Stamp::from_nanos(START_MS * NANOS_PER_MS)
    }

    /// Nanoseconds since the start; 0 before it.
    pub(super) fn now(&self) -> u64 {
        self.at(Instant::now())
    }

    /// An instant as nanoseconds since the start.
    pub(super) fn at(&self, instant: Instant) -> u64 {
        instant.saturating_duration_since(self.start).as_nanos() as u64
    }

    /// When the last tick is due.
    pub(super) fn end_ns(&self) -> u64 {
        self.ticks as u64 * PERIOD_NS
    }

    /// Sleeps until an instant.
    pub(super) fn sleep_until(&self, ns: u64) {
        let until = self.start + Duration::from_nanos(ns);
        thread::sleep(until.saturating_duration_since(Instant::now()));
    }

    /// Ends the soak before its time.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// True if a thread has ended the soak.
    pub(super) fn stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// The flag that says so.
    pub(super) fn stop_flag(&self) -> &AtomicBool {
        &self.stop
    }

    /// Runs the body of a thread; an error or a panic of one ends all.
    pub(super) fn run<T>(
        &self,
        body: impl FnOnce() -> Result<T, BenchError>,
    ) -> Result<T, BenchError> {
        let outcome = catch_unwind(AssertUnwindSafe(body));
        if !matches!(outcome, Ok(Ok(_))) {
            self.stop();
        }
        outcome.unwrap_or_else(|panic| resume_unwind(panic))
    }
}

impl Pace for Timeline {
    fn now_ns(&self) -> i64 {
        self.now() as i64
    }

    fn real_ns(&self, ns: i64) -> i64 {
        ns
    }
}

/// Something that took time while ticks went on \[ns since the start\].
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub what: What,
    pub from: u64,
    pub to: u64,
}

/// Work that took time.
#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    /// A push of an image.
    Image { camera: usize, bytes: usize },
    /// A push of a cloud.
    Cloud { bytes: usize },
    /// A comparison with the CPU backend.
    Check,
    /// A look at the free memory.
    Look,
    /// The probe slept too long, and missed this many instants.
    Stall { missed: u64 },
}

/// Memory for `len` numbers whose pages are all touched: they are not counted as growth later.
pub(super) fn touched(len: usize) -> Vec<u32> {
    let mut numbers = vec![1; len];
    numbers.clear();
    numbers
}

/// Nanoseconds as a number of 32 bits, at most 4.3 s.
pub(super) fn short(ns: u64) -> u32 {
    u32::try_from(ns).unwrap_or(u32::MAX)
}
