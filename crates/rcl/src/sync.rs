//! Atomic numbers of [`Wake`](super::Wake), which `crates/interleavings` compiles again, with types that try all orders of
//! threads.

use std::sync::atomic::AtomicU32;
pub(super) use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::libc::{self, time_t, timespec};

/// A number that a thread may sleep at, until another thread wakes it.
#[derive(Debug, Default)]
pub(super) struct Futex(AtomicU32);

impl Futex {
    /// Exchanges the number.
    pub(super) fn swap(&self, number: u32) -> u32 {
        self.0.swap(number, Ordering::SeqCst)
    }

    /// Wakes a thread that sleeps here, if one does.
    pub(super) fn wake_one(&self) {
        let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the number is alive, and the system only looks for threads that wait at its address.
        unsafe { libc::syscall(libc::SYS_futex, self.0.as_ptr(), operation, 1) };
    }

    /// Sleeps until another thread wakes this one, if the number is the expected one. It may also return for no reason.
    pub(super) fn sleep_at(&self, expected: u32, time: Duration) {
        let tv_sec = time_t::try_from(time.as_secs()).unwrap_or(time_t::MAX);
        let time = timespec { tv_sec, tv_nsec: time.subsec_nanos().into() };
        let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the number and the time are alive during the call. The system only reads them.
        unsafe {
            libc::syscall(libc::SYS_futex, self.0.as_ptr(), operation, expected, &raw const time)
        };
    }
}
