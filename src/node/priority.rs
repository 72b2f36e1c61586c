//! Real-time priority of the tick thread.

use thread_priority::{
    RealtimeThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy,
    set_thread_priority_and_policy, thread_native_id,
};

/// Moves the calling thread to `SCHED_FIFO` at this priority (1 to 99), so that it runs before any
/// ordinary thread of the machine as soon as its tick is due; 0 leaves it as it is.
///
/// Where the system does not permit it the node runs on without and says so: ticks are then as
/// punctual as the machine is idle.
pub fn raise(priority: u8) {
    if priority == 0 {
        return;
    }
    let wanted = match priority.try_into() {
        Ok(wanted) => ThreadPriority::Crossplatform(wanted),
        Err(_) => ThreadPriority::Max,
    };
    let policy = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
    match set_thread_priority_and_policy(thread_native_id(), wanted, policy) {
        Ok(()) => tracing::info!("ticks run at real-time priority {priority} (SCHED_FIFO)"),
        Err(error) => tracing::info!(
            "ticks run at ordinary priority: {error:?} for real-time priority {priority}; to \
             permit it, give this user an rtprio limit (/etc/security/limits.d) or the container \
             CAP_SYS_NICE"
        ),
    }
}
