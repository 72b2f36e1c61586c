//! Times and states of this process's threads, from Linux.

use std::fs::read_to_string;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::thread;
use std::time::Duration;

use nix::unistd::gettid;
use thread_priority::{
    RealtimeThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy,
    set_thread_priority_and_policy, thread_native_id,
};

use super::evidence::stat_field;
use super::{Finally, until};

/// Real-time priority of the urgent thread.
const URGENT: u8 = 10;
/// The priority of a thread that inherits that, in the numbers of [`priority`].
const INHERITED: i64 = -1 - URGENT as i64;

/// The number of a thread. Others see by it what the thread does.
#[derive(Debug, Default)]
pub struct ThreadNumber(AtomicI32);

impl ThreadNumber {
    /// Notes that it is the calling thread.
    pub fn is_this(&self) {
        self.0.store(gettid().as_raw(), Ordering::Release);
    }

    /// Waits until the thread is known, and sleeps or has ended. If it sleeps, it waits for a lock, an event or a time.
    ///
    /// # Panics
    /// It did neither in time.
    #[track_caller]
    pub fn until_asleep(&self) {
        let is_known = || self.0.load(Ordering::Acquire) != 0;
        until("a thread sleeps", || is_known() && self.field(3).is_none_or(|state| state == "S"));
    }

    /// True if the thread is known and sleeps.
    pub fn is_asleep(&self) -> bool {
        self.field(3).as_deref() == Some("S")
    }

    /// The priority by which Linux schedules the thread, with what it inherits: 0 or more for ordinary threads, and -1
    /// minus the real-time priority for others. `None` if the thread is unknown or has ended.
    pub fn priority(&self) -> Option<i64> {
        self.field(18)?.parse().ok()
    }

    /// A field of the thread's `stat`, counted as in proc(5).
    fn field(&self, number: usize) -> Option<String> {
        let thread = self.0.load(Ordering::Acquire);
        let stat = read_to_string(format!("/proc/self/task/{thread}/stat")).ok()?;
        stat_field(&stat, number).map(str::to_owned)
    }
}

/// The priority of a thread that holds a lock while an urgent thread waits for the lock, in the numbers of
/// [`ThreadNumber::priority`]. `None` if the system permits no real-time priority.
///
/// `hold` takes the lock, calls the function that it is given, and unlocks. `urgent` takes the lock on a thread of
/// real-time priority.
///
/// # Panics
/// `urgent` did not wait for the lock.
pub fn priority_of_holder(
    urgent: impl FnOnce() + Send,
    hold: impl FnOnce(&dyn Fn()) + Send,
) -> Option<i64> {
    let holder = ThreadNumber::default();
    let waiter = ThreadNumber::default();
    let release = AtomicBool::new(false);
    let found = thread::scope(|scope| {
        let _releases = Finally(|| release.store(true, Ordering::Release));
        scope.spawn(|| {
            hold(&|| {
                holder.is_this();
                while !release.load(Ordering::Acquire) {
                    thread::sleep(Duration::from_millis(1));
                }
            });
        });
        until("a thread holds the lock", || holder.priority().is_some());
        let urgent = scope.spawn(|| {
            let permitted = become_urgent();
            if permitted {
                waiter.is_this();
                urgent();
            }
            permitted
        });
        until("the urgent thread waits", || waiter.is_asleep() || urgent.is_finished());
        if urgent.is_finished() {
            let permitted = urgent.join().unwrap();
            assert!(!permitted, "expected a wait for the lock");
            return None;
        }
        holder.priority()
    });
    if found.is_none() {
        eprintln!("skipped: the system permits no real-time priority (SCHED_FIFO)");
    }
    found
}

/// Checks that the holder of a lock inherits the priority of the urgent thread, as [`priority_of_holder`] has them. So
/// no thread between both can keep the urgent one waiting.
///
/// # Panics
/// It does not.
#[track_caller]
pub fn check_inherited(urgent: impl FnOnce() + Send, hold: impl FnOnce(&dyn Fn()) + Send) {
    if let Some(found) = priority_of_holder(urgent, hold) {
        assert_eq!(found, INHERITED, "the priority of the thread that holds the lock");
    }
}

/// Gives the calling thread real-time priority. Returns whether the system permits that.
fn become_urgent() -> bool {
    let number = ThreadPriority::Crossplatform(URGENT.try_into().unwrap());
    let policy = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
    set_thread_priority_and_policy(thread_native_id(), number, policy).is_ok()
}
