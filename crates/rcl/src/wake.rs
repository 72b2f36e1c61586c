//! Ends the wait of a thread when something has come for it.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nix::libc::{self, time_t, timespec};
use r2r_rcl::{RCL_RET_OK, rcl_ret_t};

use super::error::ignore;

/// What one thread waits for, and other threads end: mostly those of the middleware. One wait ends for each wake, also
/// if the wake comes first. Several wakes before a wait end one.
///
/// It takes no lock. So a waiting thread of high priority never waits for one of low priority that wakes it.
#[derive(Debug, Default)]
pub struct Wake {
    /// 1 if the next wait ends at once. The system compares it, so it is not a `bool`.
    pending: AtomicU32,
}

impl Wake {
    /// Ends the wait.
    pub fn wake(&self) {
        if self.pending.swap(1, Ordering::SeqCst) == 0 {
            let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
            // SAFETY: the number is alive, and the system only looks for threads that wait at its address.
            unsafe { libc::syscall(libc::SYS_futex, self.pending.as_ptr(), operation, 1) };
        }
    }

    /// Waits for a wake, at most for `timeout`. Returns whether there was one.
    pub fn wait(&self, timeout: Duration) -> bool {
        let mut end = None;
        loop {
            if self.pending.swap(0, Ordering::SeqCst) == 1 {
                return true;
            }
            let now = Instant::now();
            let left = end.get_or_insert(now + timeout).saturating_duration_since(now);
            if left.is_zero() {
                return false;
            }
            self.sleep(left);
        }
    }

    /// Sleeps until the next wake, if there was none. It may also return for no reason.
    fn sleep(&self, time: Duration) {
        let tv_sec = time_t::try_from(time.as_secs()).unwrap_or(time_t::MAX);
        let time = timespec { tv_sec, tv_nsec: time.subsec_nanos().into() };
        let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the number and the time are alive during the call. The system only reads them.
        unsafe {
            libc::syscall(libc::SYS_futex, self.pending.as_ptr(), operation, 0, &raw const time)
        };
    }
}

/// Whether something waits in an entity, as far as the middleware has told. Its address goes to the middleware, which may
/// use it until the entity has ended.
pub(super) struct News {
    may_wait: AtomicBool,
    wake: Arc<Wake>,
}

impl News {
    /// Tells `wake` of what comes.
    pub(super) fn new(wake: &Arc<Wake>) -> Arc<Self> {
        Arc::new(News { may_wait: AtomicBool::new(false), wake: Arc::clone(wake) })
    }

    /// Ends with the entity, whose end has returned `ret`. If the entity has not ended, the middleware may still use the
    /// address, so the memory stays.
    pub(super) fn end(news: Option<Arc<Self>>, ret: rcl_ret_t) {
        if ret != RCL_RET_OK as rcl_ret_t {
            std::mem::forget(news);
        }
        ignore(ret);
    }

    /// The callback for rcl. It runs on a thread of the middleware, so it waits for nothing and cannot panic. rcl's number of
    /// what has come is no guarantee: a full queue replaces.
    pub(super) unsafe extern "C" fn callback(news: *const c_void, _count: usize) {
        // SAFETY: rcl has got the address of a `News` that is alive.
        let news = unsafe { &*news.cast::<News>() };
        news.tell();
    }

    /// Notes that something may wait, and ends the wait of the thread that takes it.
    pub(super) fn tell(&self) {
        self.may_wait.store(true, Ordering::SeqCst);
        self.wake.wake();
    }

    /// Whether something may wait.
    pub(super) fn may_wait(&self) -> bool {
        self.may_wait.load(Ordering::SeqCst)
    }

    /// Notes before a take whether more may wait after it. What comes during the take notes itself again.
    pub(super) fn set(&self, may_wait: bool) {
        self.may_wait.store(may_wait, Ordering::SeqCst);
    }
}
