//! Processors and real-time priority of a thread.

use std::time::{Duration, Instant};

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::mman::{MlockAllFlags, mlockall, munlockall};
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};
use nix::unistd::{Pid, geteuid};
use thread_priority::{
    Error, NormalThreadSchedulePolicy, RealtimeThreadSchedulePolicy, ThreadPriority,
    ThreadSchedulePolicy, set_thread_priority_and_policy, thread_native_id, thread_schedule_policy,
};

use super::time_source::TimeSource;

/// If the thread works for this long without a wait, its work does not fit into the period.
const RESTLESS: Duration = Duration::from_millis(100);
/// And if it serves at least this many ticks meanwhile: a process that was stopped for a while is
/// not overloaded.
const RESTLESS_TICKS: u32 = 10;
/// If the thread at ordinary priority was never restless for this long, its work fits again.
const CALM: Duration = Duration::from_secs(1);
/// Each time that the thread is overloaded, it must be calm for twice as long as before, at most
/// for this long. So a thread that is always near the limit seldom changes.
const MOST_CALM: Duration = Duration::from_secs(60);

/// A niceness of 0 under an ordinary policy: the middle of the library's scale from 0 to 99.
const NICENESS_0: u8 = 48;

/// Processors and real-time priority of a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// Real-time priority (`SCHED_FIFO`, 1 to 99), so that the thread runs before every ordinary
    /// thread of the machine; 0 for ordinary priority.
    pub priority: u8,
    /// The processors that may run the thread, by number; empty for all.
    pub cpus: Vec<usize>,
}

impl Placement {
    /// Places the calling thread; `name` is what the log calls its work. Returns the real-time
    /// priority in effect, 0 for ordinary.
    ///
    /// If the system does not permit it, this logs the reason. The thread may then be late while
    /// the machine is busy.
    pub fn apply(&self, name: &str) -> u8 {
        if !self.cpus.is_empty() {
            match pin(&self.cpus) {
                Ok(missing) if missing.is_empty() => {
                    tracing::info!("{name} on the processors {:?}", self.cpus);
                }
                Ok(missing) => tracing::warn!(
                    "{name} on the processors {:?} without {missing:?}: this machine does not have these, or \
                     forbids them",
                    self.cpus
                ),
                Err(error) => {
                    tracing::warn!("{name} on every processor, not {:?}: {error}", self.cpus);
                }
            }
        }
        if self.priority == 0 {
            return 0;
        }
        match set_realtime(self.priority) {
            Ok(()) => {
                tracing::info!("{name} at real-time priority {} (SCHED_FIFO)", self.priority);
                self.priority
            }
            Err(error) => {
                tracing::info!(
                    "{name} at ordinary priority: {} for real-time priority {}; to permit it, give this \
                     user an rtprio limit (/etc/security/limits.d) or the container CAP_SYS_NICE",
                    in_words(&error),
                    self.priority
                );
                0
            }
        }
    }
}

/// Lets only these processors run the calling thread. Returns those that cannot: if at least one can, Linux leaves the
/// others out without an error.
fn pin(cpus: &[usize]) -> nix::Result<Vec<usize>> {
    let this_thread = Pid::from_raw(0);
    let mut set = CpuSet::new();
    cpus.iter().try_for_each(|cpu| set.set(*cpu))?;
    sched_setaffinity(this_thread, &set)?;
    // Without an answer, none is known to be missing.
    let Ok(allowed) = sched_getaffinity(this_thread) else { return Ok(Vec::new()) };
    Ok(cpus.iter().copied().filter(|cpu| !allowed.is_set(*cpu).unwrap_or(false)).collect())
}

/// Why the memory is not locked.
#[derive(Debug, thiserror::Error)]
pub enum LockMemoryError {
    /// The limit is finite. Locked memory that grows past it would end the process.
    #[error(
        "expected no limit for locked memory, found {limit} bytes; give this user `memlock \
         unlimited` (/etc/security/limits.d) or the container CAP_IPC_LOCK and \
         --ulimit memlock=-1"
    )]
    Limit {
        /// The limit \[bytes\].
        limit: u64,
    },
    /// The system's error.
    #[error("{0}")]
    System(#[from] nix::Error),
}

/// All memory of the process is kept in RAM. A drop ends that.
#[derive(Debug)]
pub struct LockedMemory(());

impl Drop for LockedMemory {
    fn drop(&mut self) {
        // The call fails only if the process never could lock memory.
        let _ = munlockall();
    }
}

/// Keeps all memory of the process in RAM, now and later (`mlockall`).
///
/// # Errors
/// [`LockMemoryError`]
pub fn lock_memory() -> Result<LockedMemory, LockMemoryError> {
    let (limit, _) = getrlimit(Resource::RLIMIT_MEMLOCK)?;
    // The limit does not hold for root.
    if limit != RLIM_INFINITY && !geteuid().is_root() {
        return Err(LockMemoryError::Limit { limit });
    }
    mlockall(MlockAllFlags::MCL_CURRENT | MlockAllFlags::MCL_FUTURE)?;
    Ok(LockedMemory(()))
}

/// Moves the calling thread to `SCHED_FIFO` at this priority (1 to 99).
fn set_realtime(priority: u8) -> Result<(), Error> {
    set(priority, ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo))
}

/// The library prints an error of the system as its number.
fn in_words(error: &Error) -> String {
    match error {
        Error::OS(code) => std::io::Error::from_raw_os_error(*code).to_string(),
        other => other.to_string(),
    }
}

/// Moves the calling thread back to ordinary priority. Returns whether it has ordinary priority.
fn lower() -> bool {
    // This sets the policy before the niceness. The second step fails if the thread started with a
    // higher niceness and may not lower it to 0.
    let _ = set(NICENESS_0, ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Other));
    matches!(thread_schedule_policy(), Ok(ThreadSchedulePolicy::Normal(_)))
}

fn set(number: u8, policy: ThreadSchedulePolicy) -> Result<(), Error> {
    let number = number.try_into().map_err(|_| Error::Priority("expected at most 99"))?;
    let priority = ThreadPriority::Crossplatform(number);
    set_thread_priority_and_policy(thread_native_id(), priority, policy)
}

/// Detects a tick thread whose work does not fit into its period, and when it fits again.
#[derive(Debug)]
struct Overload {
    /// When the work without a wait began, and the ticks since then.
    streak: Option<(Instant, u32)>,
    /// Since when the thread is calm, if it was overloaded.
    calm: Option<Instant>,
    /// How long the thread must be calm.
    patience: Duration,
}

/// A change of the tick thread's priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// Give up the real-time priority.
    Lower,
    /// Take it again.
    Raise,
}

impl Default for Overload {
    fn default() -> Self {
        Overload { streak: None, calm: None, patience: CALM }
    }
}

impl Overload {
    /// Notes a tick that was served from `began` to `now`.
    fn served(&mut self, began: Instant, now: Instant) -> Option<Change> {
        let (since, ticks) = self.streak.unwrap_or((began, 0));
        self.streak = Some((since, ticks + 1));
        if ticks + 1 < RESTLESS_TICKS || now.saturating_duration_since(since) < RESTLESS {
            return None;
        }
        self.streak = None;
        let first = self.calm.replace(now).is_none();
        first.then_some(Change::Lower)
    }

    /// Notes that the thread stays at ordinary priority, so that it asks again later.
    fn keep(&mut self, now: Instant) {
        self.calm = Some(now);
    }

    /// Notes that the thread is about to wait for the next tick.
    fn rests(&mut self, now: Instant) -> Option<Change> {
        self.streak = None;
        let since = self.calm?;
        if now.saturating_duration_since(since) < self.patience {
            return None;
        }
        self.calm = None;
        self.patience = (2 * self.patience).min(MOST_CALM);
        Some(Change::Raise)
    }
}

/// Work of a thread in the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorkWords {
    /// Its name, after "the work".
    pub name: &'static str,
    /// Advice to the user: a change after which it takes less time.
    pub relief: &'static str,
}

/// The real-time priority of a thread that must not keep a processor from the whole machine: it
/// gives the priority up while its work does not fit into the period, and takes it again after.
#[derive(Debug)]
pub(crate) struct Urgency {
    work: WorkWords,
    /// The priority that the thread has when its work fits; 0 for ordinary.
    priority: u8,
    /// The priority in effect.
    current: u8,
    overload: Overload,
    time: TimeSource,
}

impl Urgency {
    /// The calling thread, which has this priority now.
    pub(crate) fn new(priority: u8, work: WorkWords, time: TimeSource) -> Self {
        Urgency { work, priority, current: priority, overload: Overload::default(), time }
    }

    /// The real-time priority in effect, 0 for ordinary.
    pub(crate) fn current(&self) -> u8 {
        self.current
    }

    /// Notes work that began at an instant and is done now.
    pub(crate) fn served(&mut self, began: Instant) {
        let now = self.time.monotonic();
        if self.overload.served(began, now).is_none() || self.current == 0 || !lower() {
            return;
        }
        self.current = 0;
        let WorkWords { name, relief } = self.work;
        tracing::warn!(
            "the work {name} does not fit into the period: it goes on at ordinary priority, so that \
             other threads can run; {relief}"
        );
    }

    /// Notes that the thread is about to wait.
    pub(crate) fn rests(&mut self) {
        let now = self.time.monotonic();
        if self.overload.rests(now).is_none() || self.priority == 0 || self.current > 0 {
            return;
        }
        if set_realtime(self.priority).is_ok() {
            self.current = self.priority;
            let name = self.work.name;
            let priority = self.priority;
            tracing::info!("the work {name} fits again: it goes on at priority {priority}");
        } else {
            self.overload.keep(now);
        }
    }
}

#[cfg(test)]
mod tests;
