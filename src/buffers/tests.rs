use super::*;
use robocache_ops::sync::lock;

#[test]
fn a_buffer_comes_back_and_is_used_again() {
    let buffers = Buffers::new(1000, 1);
    let first = buffers.lend(SerializedMessage::from(Vec::with_capacity(1000)));
    let place = first.as_ref().as_ptr();
    drop(first);
    let again = buffers.take();
    assert_eq!(again.as_ptr(), place);
    buffers.give_back(again);
    assert_eq!(lock(&buffers.free).len(), 1);
    let lent = [(); 3].map(|()| buffers.lend(buffers.take()));
    assert!(lock(&buffers.free).is_empty());
    drop(lent);
    assert_eq!(lock(&buffers.free).len(), 3);
    drop(buffers.lend(SerializedMessage::from(Vec::with_capacity(1001))));
    assert_eq!(lock(&buffers.free).len(), 3, "a huge one does not come back");
    let lent = [(); 2 * Buffers::PER_INPUT].map(|()| buffers.lend(buffers.take()));
    drop(lent);
    assert_eq!(lock(&buffers.free).len(), Buffers::PER_INPUT, "nor do too many");
}
#[test]
fn nobody_waits_for_a_buffer() {
    let buffers = Buffers::new(1000, 1);
    drop(buffers.lend(SerializedMessage::from(Vec::with_capacity(100))));
    let held = lock(&buffers.free);
    // Would hang if it waited: the lock is not recursive.
    drop(buffers.lend(buffers.take()));
    assert_eq!(held.len(), 1);
}
