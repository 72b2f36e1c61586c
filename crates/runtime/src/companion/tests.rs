use super::*;
use std::sync::{Arc, Barrier};

/// The processors that may run a thread.
fn processors_of(thread: Pid) -> Vec<usize> {
    let set = sched_getaffinity(thread).unwrap();
    (0..CpuSet::count()).filter(|cpu| set.is_set(*cpu).unwrap()).collect()
}

#[test]
fn the_publishing_thread_follows_while_it_waits_and_the_tick_thread_is_urgent() {
    let companion = Arc::new(Companion::default());
    let steps = Arc::new(Barrier::new(2));
    let follower = Arc::clone(&companion);
    let reached = Arc::clone(&steps);
    let thread = std::thread::spawn(move || {
        follower.follow();
        reached.wait();
        reached.wait();
    });
    steps.wait();
    let follower = companion.thread.get().unwrap().0;
    let all = processors_of(follower);
    companion.call(true);
    assert_eq!(processors_of(follower), all, "it works");
    companion.waits(false);
    companion.call(true);
    assert_eq!(processors_of(follower), all, "it does not follow");
    companion.waits(true);
    // This thread stays where it is.
    let mut here = CpuSet::new();
    here.set(all[0]).unwrap();
    let before = sched_getaffinity(Pid::from_raw(0)).unwrap();
    sched_setaffinity(Pid::from_raw(0), &here).unwrap();
    companion.call(true);
    assert_eq!(processors_of(follower), [all[0]]);
    companion.works();
    companion.call(false);
    assert_eq!(processors_of(follower), [all[0]], "it works");
    companion.waits(true);
    companion.call(false);
    assert_eq!(processors_of(follower), all);
    sched_setaffinity(Pid::from_raw(0), &before).unwrap();
    steps.wait();
    thread.join().unwrap();
}

#[test]
fn without_a_follower_nothing_is_called() {
    let companion = Companion::default();
    companion.waits(true);
    companion.call(true);
    assert_eq!(companion.place.load(Ordering::Relaxed), ANYWHERE);
}
