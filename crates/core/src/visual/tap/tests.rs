use super::*;
use robocache_testing::threads::ThreadNumber;
use robocache_testing::{ended, until};
use std::sync::Arc;
use std::time::Duration;

#[test]
fn only_a_message_that_is_wanted_is_copied() {
    let tap = Arc::new(Tap::default());
    tap.offer(b"before");
    assert!(lock(&tap.state).copy.is_none());
    let await_reader = || until("a reader", || tap.wanted.load(Ordering::Relaxed));
    let reader = Arc::clone(&tap);
    let thread = std::thread::spawn(move || reader.next(Vec::with_capacity(100)).unwrap());
    await_reader();
    tap.offer(b"one");
    tap.offer(b"two");
    let first = ended("the first message", thread);
    assert_eq!(first, b"one");
    let place = first.as_ptr().addr();
    let reader = Arc::clone(&tap);
    let thread = std::thread::spawn(move || reader.next(first).unwrap());
    await_reader();
    tap.offer(b"three");
    let second = ended("the second message", thread);
    assert_eq!((second.as_slice(), second.as_ptr().addr()), (&b"three"[..], place));
}

#[test]
fn a_closed_tap_ends_every_wait() {
    let tap = Arc::new(Tap::default());
    assert!(tap.wait_for(Duration::from_millis(5)));
    let long = Duration::from_secs(3600);
    let reader = Arc::clone(&tap);
    let number = Arc::new(ThreadNumber::default());
    let this = Arc::clone(&number);
    let thread = std::thread::spawn(move || {
        this.is_this();
        (reader.wait_for(long), reader.next(Vec::new()))
    });
    number.until_asleep();
    tap.close();
    assert_eq!(ended("both waits", thread), (false, None));
}
