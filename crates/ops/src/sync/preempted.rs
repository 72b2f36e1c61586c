//! For tests: what a thread waits for if the holder of a lock is preempted.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use thread_priority::{
    RealtimeThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy,
    set_thread_priority_and_policy, thread_native_id,
};

/// How long the thread of middle priority keeps the processor, unless the urgent one is done.
pub(crate) const BUSY: Duration = Duration::from_millis(800);

/// Returns how long `urgent` takes on a thread of priority 10. A thread of ordinary priority holds a
/// lock meanwhile, and a thread of priority 5 keeps their processor busy. `None` if the system permits
/// no real-time priority.
///
/// `hold` takes the lock, calls the function that it is given, and unlocks.
pub(crate) fn time_of(
    urgent: impl FnOnce() + Send,
    hold: impl FnOnce(&dyn Fn()) + Send,
) -> Option<Duration> {
    let placed = Barrier::new(3);
    let [held, busy, wanted, done] = [(); 4].map(|()| AtomicBool::new(false));
    let place = |priority| {
        let permitted = place(priority);
        placed.wait();
        permitted
    };
    let took = std::thread::scope(|scope| {
        scope.spawn(|| {
            place(0);
            hold(&|| {
                held.store(true, Ordering::Release);
                while !wanted.load(Ordering::Acquire) {
                    std::hint::spin_loop();
                }
            });
        });
        scope.spawn(|| {
            let permitted = place(5);
            wait(&held);
            let began = Instant::now();
            busy.store(true, Ordering::Release);
            while permitted && began.elapsed() < BUSY && !done.load(Ordering::Acquire) {
                std::hint::spin_loop();
            }
        });
        let urgent = scope.spawn(|| {
            let permitted = place(10);
            wait(&busy);
            wanted.store(true, Ordering::Release);
            let began = Instant::now();
            urgent();
            let took = began.elapsed();
            done.store(true, Ordering::Release);
            permitted.then_some(took)
        });
        urgent.join().unwrap()
    });
    if took.is_none() {
        eprintln!("skipped: the system permits no real-time priority (SCHED_FIFO)");
    }
    took
}

/// Checks that `urgent` does not wait for the thread of middle priority, as [`time_of`] has it.
pub(crate) fn check(urgent: impl FnOnce() + Send, hold: impl FnOnce(&dyn Fn()) + Send) {
    if let Some(took) = time_of(urgent, hold) {
        assert!(took < BUSY / 4, "{took:?}");
    }
}

fn wait(flag: &AtomicBool) {
    while !flag.load(Ordering::Acquire) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Moves the calling thread to a real-time priority, unless it is 0, and to one processor for all.
/// Returns whether the system permits the priority.
fn place(priority: u8) -> bool {
    let number = ThreadPriority::Crossplatform(priority.try_into().unwrap());
    let policy = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
    let set = || set_thread_priority_and_policy(thread_native_id(), number, policy).is_ok();
    let permitted = priority == 0 || set();
    let all = sched_getaffinity(Pid::from_raw(0)).unwrap();
    let first = (0..CpuSet::count()).find(|cpu| all.is_set(*cpu).unwrap()).unwrap();
    let mut one = CpuSet::new();
    one.set(first).unwrap();
    sched_setaffinity(Pid::from_raw(0), &one).unwrap();
    permitted
}
