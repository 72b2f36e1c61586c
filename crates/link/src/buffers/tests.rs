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
    let first = buffers.lend(MessageMemory::Vec(Vec::with_capacity(1000)));
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
    drop(buffers.lend(MessageMemory::Vec(Vec::with_capacity(1001))));
    assert_eq!(free(&buffers), 3, "a huge one does not come back");
    let lent = [(); 2 * Buffers::PER_INPUT].map(|()| buffers.lend(buffers.take()));
    drop(lent);
    assert_eq!(free(&buffers), Buffers::PER_INPUT, "nor do too many");
}

/// A message of `len` bytes as it is taken: into the buffer, if that has room.
fn taken(buffers: &Buffers, len: usize) -> Lent {
    match buffers.take() {
        MessageMemory::Place(buffer, _) if buffer.len() >= len => {
            Lent(Place::ReadByGpu(buffer.into_message(len)))
        }
        _ => buffers.lend(MessageMemory::Vec(vec![0; len])),
    }
}

#[test]
fn an_input_that_a_gpu_encodes_has_buffers_of_its_own() {
    let buffers = Buffers::new(1000, 1);
    let pool = MessagePool::new(|_| Ok(()));
    let own = buffers.with(Some(Arc::clone(&pool)), 1000);
    let first = taken(&own, 100);
    assert!(pool.hold(first.as_ref()).is_none());
    // The encoder makes a buffer.
    pool.supply();
    let second = taken(&own, 100);
    let held = pool.hold(second.as_ref()).unwrap();
    assert_eq!(held.as_ptr(), second.as_ref().as_ptr());
    let place = held.as_ptr();
    drop((first, second));
    assert!(matches!(own.take(), MessageMemory::Vec(_)), "it is still read");
    drop(held);
    let again = taken(&own, 60);
    assert_eq!((again.as_ref().as_ptr(), again.as_ref().len()), (place, 60));
    // Other inputs do not get it, and a message that is too large goes elsewhere.
    drop(again);
    assert!(matches!(buffers.take(), MessageMemory::Vec(_)));
    drop(taken(&own, 1001));
    pool.supply();
    assert_eq!(taken(&own, 100).as_ref().as_ptr(), place);
}
