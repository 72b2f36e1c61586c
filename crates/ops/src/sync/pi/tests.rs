use std::sync::Arc;

use super::PiMutex;
use robocache_testing::threads::check_inherited;

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

#[test]
fn a_holder_of_ordinary_priority_inherits_that_of_a_more_urgent_thread_that_waits() {
    let mutex = PiMutex::new(());
    check_inherited(
        || drop(mutex.lock()),
        |act| {
            let _guard = mutex.lock();
            act();
        },
    );
}
