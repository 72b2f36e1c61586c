use super::*;

#[test]
fn rows_wait_for_room_and_memory_serves_again() {
    let pool = Arc::new(RowPool::new(100));
    pool.begin(70, || false);
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| pool.begin(40, || false));
        assert!(!waits.is_finished());
        pool.end(70);
        waits.join().unwrap();
    });
    // A row that is larger than the pool passes alone. No thread waits for threads that failed.
    pool.begin(1000, || true);
    pool.end(1000);
    pool.end(40);
    pool.begin(1000, || false);
    pool.end(1000);
    let mut memory = pool.memory(60);
    memory.extend([1; 60]);
    let at = memory.as_ptr();
    drop(Row::new(RowMemory::Own(memory), &pool));
    let again = pool.memory(60);
    assert_eq!((again.as_ptr(), again.len()), (at, 0));
    drop(Row::new(RowMemory::Own(Vec::with_capacity(101)), &pool));
    assert!(pool.free.take(|_| true).is_none());
}
