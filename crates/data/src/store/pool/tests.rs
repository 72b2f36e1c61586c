use super::*;
use robocache_testing::ended;
use robocache_testing::threads::ThreadNumber;

#[test]
fn rows_wait_for_room_and_memory_serves_again() {
    let pool = Arc::new(RowPool::new(100));
    pool.begin(70, || false);
    let number = ThreadNumber::default();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| {
            number.is_this();
            pool.begin(40, || false);
        });
        number.until_asleep();
        assert!(!waits.is_finished());
        pool.end(70);
        ended("the row", waits);
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
