use std::sync::{Arc, Mutex};

use super::PiMutex;
use crate::sync::{lock, preempted};

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

/// The standard library's mutex shows that the test can tell the difference.
#[test]
fn a_preempted_holder_of_ordinary_priority_runs_at_once_if_a_more_urgent_thread_waits() {
    let (ordinary, inheriting) = (Mutex::new(()), PiMutex::new(()));
    let before = preempted::time_of(
        || drop(lock(&ordinary)),
        |act| {
            let _guard = lock(&ordinary);
            act();
        },
    );
    let after = preempted::time_of(
        || drop(inheriting.lock()),
        |act| {
            let _guard = inheriting.lock();
            act();
        },
    );
    let (Some(before), Some(after)) = (before, after) else { return };
    eprintln!("std::sync::Mutex: {before:?}; PiMutex: {after:?}");
    assert!(before > preempted::BUSY / 2, "the standard library's mutex: {before:?}");
    assert!(after < preempted::BUSY / 4, "{after:?}");
}
