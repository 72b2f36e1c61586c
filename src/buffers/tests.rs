use super::*;

/// How many buffers are free. They stay so.
fn free(buffers: &Buffers) -> usize {
    let free: Vec<_> = std::iter::from_fn(|| buffers.free.take(|_| true)).collect();
    let count = free.len();
    free.into_iter().for_each(|bytes| buffers.keep(bytes));
    count
}

#[test]
fn a_buffer_comes_back_and_is_used_again() {
    let buffers = Buffers::new(1000, 1);
    let first = buffers.lend(SerializedMessage::from(Vec::with_capacity(1000)));
    let place = first.as_ref().as_ptr();
    drop(first);
    let again = buffers.take();
    assert_eq!(again.as_ptr(), place);
    buffers.give_back(again);
    assert_eq!(free(&buffers), 1);
    let lent = [(); 3].map(|()| buffers.lend(buffers.take()));
    assert_eq!(free(&buffers), 0);
    drop(lent);
    assert_eq!(free(&buffers), 3);
    drop(buffers.lend(SerializedMessage::from(Vec::with_capacity(1001))));
    assert_eq!(free(&buffers), 3, "a huge one does not come back");
    let lent = [(); 2 * Buffers::PER_INPUT].map(|()| buffers.lend(buffers.take()));
    drop(lent);
    assert_eq!(free(&buffers), Buffers::PER_INPUT, "nor do too many");
}
