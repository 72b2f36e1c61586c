//! Real-time priority of the tick thread.

use thread_priority::{
    Error, NormalThreadSchedulePolicy, RealtimeThreadSchedulePolicy, ThreadPriority,
    ThreadSchedulePolicy, set_thread_priority_and_policy, thread_native_id, thread_schedule_policy,
};

/// If the thread serves this many ticks without a wait, their work does not fit into the period.
const RESTLESS: u32 = 10;

/// A niceness of 0 under an ordinary policy: the middle of the library's scale from 0 to 99.
const NICENESS_0: u8 = 48;

/// Moves the calling thread to `SCHED_FIFO` at this priority (1 to 99), so that it runs before
/// every ordinary thread of the machine. 0 leaves it as it is. Returns the priority in effect, 0
/// for ordinary.
///
/// If the system does not permit it, this logs the reason. Ticks may then be late while the machine
/// is busy.
pub fn raise(priority: u8) -> u8 {
    if priority == 0 {
        return 0;
    }
    let policy = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
    match set(priority, policy) {
        Ok(()) => {
            tracing::info!("ticks run at real-time priority {priority} (SCHED_FIFO)");
            priority
        }
        Err(error) => {
            tracing::info!(
                "ticks run at ordinary priority: {error:?} for real-time priority {priority}; to \
                 permit it, give this user an rtprio limit (/etc/security/limits.d) or the \
                 container CAP_SYS_NICE"
            );
            0
        }
    }
}

/// Moves the calling thread back to ordinary priority. Returns whether it has ordinary priority.
pub fn lower() -> bool {
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

/// Detects a tick thread whose work does not fit into its period. A single delay does not count.
#[derive(Debug, Default)]
pub struct Overload {
    in_a_row: u32,
}

impl Overload {
    /// Notes a served tick. Returns true after every tenth tick in a row that the thread served
    /// without a wait before it.
    pub fn served(&mut self) -> bool {
        self.in_a_row = self.in_a_row.saturating_add(1);
        // The first tick of the row came after a wait.
        let restless = self.in_a_row > RESTLESS;
        if restless {
            self.in_a_row = 1;
        }
        restless
    }

    /// Notes that the thread waits for the next tick.
    pub fn rested(&mut self) {
        self.in_a_row = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::read_to_string;

    /// Reads the scheduling policy (1 is SCHED_FIFO, 0 is SCHED_OTHER) and the niceness from the
    /// kernel. They are fields 41 and 19 of the line, counted from 1; field 2 is in parentheses.
    fn policy_and_niceness() -> (i64, i64) {
        let stat = read_to_string("/proc/thread-self/stat").unwrap();
        let fields: Vec<_> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
        let field = |n: usize| fields[n - 3].parse().unwrap();
        (field(41), field(19))
    }

    #[test]
    fn a_raised_thread_comes_down_again() {
        let thread = std::thread::spawn(|| {
            let niceness = policy_and_niceness().1;
            let raised = raise(20);
            // If the system does not permit it, `raise` returns 0.
            assert_eq!(policy_and_niceness().0, i64::from(raised == 20));
            assert!(lower());
            assert_eq!(policy_and_niceness().0, 0);
            assert!(niceness != 0 || policy_and_niceness().1 == 0);
            assert_eq!(raise(0), 0);
        });
        thread.join().unwrap();
    }

    #[test]
    fn only_a_thread_that_never_rests_is_overloaded() {
        let mut overload = Overload::default();
        for _ in 0..100 {
            overload.rested();
            assert!((0..10).all(|_| !overload.served()));
        }
        overload.rested();
        assert_eq!((0..11).filter(|_| overload.served()).count(), 1);
        assert!((0..9).all(|_| !overload.served()));
        assert!(overload.served());
    }
}
