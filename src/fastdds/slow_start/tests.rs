use super::*;

#[test]
fn a_slow_start_is_warned_of_and_a_fast_one_is_not() {
    let (warned, warnings) = channel();
    let second = warned.clone();
    let fast = watch_for(Duration::from_secs(60), move || second.send("fast").unwrap());
    drop(fast);
    let slow = watch_for(Duration::from_millis(1), move || warned.send("slow").unwrap());
    assert_eq!(warnings.recv_timeout(Duration::from_secs(20)), Ok("slow"));
    drop(slow);
    // Both senders are gone: the fast start's watcher has ended without a warning.
    assert_eq!(warnings.recv_timeout(Duration::from_secs(20)), Err(RecvTimeoutError::Disconnected));
}
