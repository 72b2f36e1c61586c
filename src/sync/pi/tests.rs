use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use thread_priority::{
    RealtimeThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy,
    set_thread_priority_and_policy, thread_native_id,
};

use super::PiMutex;
use crate::sync::lock;

#[test]
fn one_thread_at_a_time_has_the_value_and_a_panic_leaves_it_to_the_others() {
    let count = Arc::new(PiMutex::<u64>::default());
    let add = |threads: usize| {
        let add = || (0..10_000).for_each(|_| *count.lock() += 1);
        std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(add))));
    };
    add(4);
    let panicking = Arc::clone(&count);
    let panicked = std::thread::spawn(move || {
        let _guard = panicking.lock();
        panic!("as the test has it");
    });
    assert!(panicked.join().is_err());
    add(2);
    assert_eq!(*count.lock(), 60_000);
}

/// How long the threads of middle priority keep the processor.
const BUSY: Duration = Duration::from_millis(200);

/// The processor of all threads of the test.
fn one_processor() -> CpuSet {
    let all = sched_getaffinity(Pid::from_raw(0)).unwrap();
    let first = (0..CpuSet::count()).find(|cpu| all.is_set(*cpu).unwrap()).unwrap();
    let mut one = CpuSet::new();
    one.set(first).unwrap();
    one
}

/// Moves the calling thread to that processor, and to a real-time priority unless it is 0. Returns
/// whether the system permits it.
fn place(priority: u8) -> bool {
    let number = ThreadPriority::Crossplatform(priority.try_into().unwrap());
    let policy = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
    let set = || set_thread_priority_and_policy(thread_native_id(), number, policy).is_ok();
    let permitted = priority == 0 || set();
    sched_setaffinity(Pid::from_raw(0), &one_processor()).unwrap();
    permitted
}

/// Returns how long a thread of priority 10 waits for a lock whose holder has ordinary priority,
/// while a thread of priority 5 keeps their processor busy. `None` if the system permits no real-time
/// priority. `with` takes the lock, calls the function and unlocks.
fn wait_for(with: impl Fn(&dyn Fn()) + Sync) -> Option<Duration> {
    let placed = Barrier::new(3);
    let [held, busy, wanted] = [(); 3].map(|()| AtomicBool::new(false));
    let place = |priority| {
        let permitted = place(priority);
        placed.wait();
        permitted
    };
    let wait = |flag: &AtomicBool| {
        while !flag.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            place(0);
            with(&|| {
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
            while permitted && began.elapsed() < BUSY {
                std::hint::spin_loop();
            }
        });
        let urgent = scope.spawn(|| {
            let permitted = place(10);
            wait(&busy);
            wanted.store(true, Ordering::Release);
            let began = Instant::now();
            with(&|| {});
            permitted.then(|| began.elapsed())
        });
        urgent.join().unwrap()
    })
}

#[test]
fn a_holder_of_ordinary_priority_runs_at_once_if_a_more_urgent_thread_waits() {
    let (ordinary, inheriting) = (Mutex::new(()), PiMutex::new(()));
    let before = wait_for(|act| {
        let _guard = lock(&ordinary);
        act();
    });
    let after = wait_for(|act| {
        let _guard = inheriting.lock();
        act();
    });
    let (Some(before), Some(after)) = (before, after) else {
        eprintln!("skipped: the system permits no real-time priority (SCHED_FIFO)");
        return;
    };
    eprintln!("std::sync::Mutex: {before:?}; PiMutex: {after:?}");
    assert!(before > BUSY / 2, "the standard library's mutex: {before:?}");
    assert!(after < BUSY / 4, "{after:?}");
}
