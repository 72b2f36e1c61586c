//! Source of all time: the clocks of the machine, or those that a test or a simulation moves.
//!
//! Each part that needs the time is given a [`TimeSource`] when it is made. So a whole node can run on
//! [`VirtualTime`], and a test needs no sleep. A wait asks the source how long it may last ([`TimeSource::until`]). The
//! wait itself is one of the machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::time::{ClockId, clock_gettime};
use robocache_ops::time::Stamp;

/// Source of the three clocks that the node reads. A clone is cheap, and reads the same clocks.
#[derive(Clone, Debug)]
pub struct TimeSource(Option<VirtualTime>);

impl TimeSource {
    /// The clocks of the machine.
    pub const fn real() -> Self {
        TimeSource(None)
    }

    /// Reads the monotonic clock. It stands still in a suspend, and nobody sets it.
    #[inline]
    pub fn monotonic(&self) -> Instant {
        match &self.0 {
            None => Instant::now(),
            Some(time) => time.monotonic(),
        }
    }

    /// Reads the time since the boot \[ns\], suspends included; `None` if the system does not tell.
    #[inline]
    pub fn boot_ns(&self) -> Option<u64> {
        match &self.0 {
            None => {
                let since = Duration::from(clock_gettime(ClockId::CLOCK_BOOTTIME).ok()?);
                u64::try_from(since.as_nanos()).ok()
            }
            Some(time) => Some(time.0.boot_ns.load(Ordering::SeqCst)),
        }
    }

    /// Reads the system's clock, which a user or a service may set.
    #[inline]
    pub fn system(&self) -> Stamp {
        match &self.0 {
            None => {
                // A clock before 1970 is wrong. It counts as zero, which means "not set".
                let nanos =
                    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos());
                Stamp::from_nanos(i64::try_from(nanos).unwrap_or(i64::MAX))
            }
            Some(time) => Stamp::from_nanos(time.0.system_ns.load(Ordering::SeqCst)),
        }
    }

    /// Draws the number of a run of a node, which is not 0. It is the instant, so that no other start or activation has it.
    pub fn draw_run(&self) -> u64 {
        self.system().nanos().unsigned_abs().max(1)
    }

    /// Returns the time since an instant; zero if it is still to come.
    #[inline]
    pub fn since(&self, begin: Instant) -> Duration {
        self.monotonic().saturating_duration_since(begin)
    }

    /// Returns the time until an instant; zero if it has passed.
    #[inline]
    pub fn until(&self, end: Instant) -> Duration {
        end.saturating_duration_since(self.monotonic())
    }
}

/// Time that moves only when its owner moves it. Its clones share it.
#[derive(Clone, Debug)]
pub struct VirtualTime(Arc<VirtualClocks>);

#[derive(Debug)]
struct VirtualClocks {
    /// An instant of the machine, because there is no other way to make one.
    start: Instant,
    since_start_ns: AtomicU64,
    boot_ns: AtomicU64,
    system_ns: AtomicI64,
    readings: AtomicU64,
}

impl VirtualTime {
    /// Time since the boot at the start. It is not zero, which stands for "never" elsewhere.
    const BOOTED_NS: u64 = 60_000_000_000;

    /// Begins at this instant of the system's clock, a minute after the boot.
    pub fn starting_at(system: Stamp) -> Self {
        VirtualTime(Arc::new(VirtualClocks {
            start: Instant::now(),
            since_start_ns: AtomicU64::new(0),
            boot_ns: AtomicU64::new(Self::BOOTED_NS),
            system_ns: AtomicI64::new(system.nanos()),
            readings: AtomicU64::new(0),
        }))
    }

    /// Source that reads this time.
    pub fn source(&self) -> TimeSource {
        TimeSource(Some(self.clone()))
    }

    /// Moves all clocks ahead.
    pub fn advance(&self, by: Duration) {
        self.0.since_start_ns.fetch_add(nanos(by), Ordering::SeqCst);
        self.suspend(by);
    }

    /// Moves the clocks ahead that run in a suspend of the machine: all but the monotonic one.
    pub fn suspend(&self, by: Duration) {
        self.0.boot_ns.fetch_add(nanos(by), Ordering::SeqCst);
        self.0.system_ns.fetch_add(nanos(by) as i64, Ordering::SeqCst);
    }

    /// Sets the system's clock, as a user or a service may.
    pub fn set_system(&self, stamp: Stamp) {
        self.0.system_ns.store(stamp.nanos(), Ordering::SeqCst);
    }

    /// Returns how often the monotonic clock was read. A thread that looks at it again and again shows by this that it runs.
    pub fn readings(&self) -> u64 {
        self.0.readings.load(Ordering::SeqCst)
    }

    fn monotonic(&self) -> Instant {
        self.0.readings.fetch_add(1, Ordering::SeqCst);
        self.0.start + Duration::from_nanos(self.0.since_start_ns.load(Ordering::SeqCst))
    }
}

/// Nanoseconds of a time of at most 292 years.
fn nanos(time: Duration) -> u64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX) as u64
}

#[cfg(test)]
mod tests;
