//! A command tick that takes chunks allocates nothing. In a program of its own, because an allocator is that of the whole
//! program.

#![allow(unsafe_code)] // an allocator; its blocks say why they are sound

use std::alloc::{GlobalAlloc, Layout as Block, System};
use std::cell::Cell;

use robocache_core::command::ActionChunk;
use robocache_ops::time::Stamp;
use robocache_shared::{ActionWriter, Answered, ChunkReader};

thread_local! {
    /// Allocations of this thread.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

struct Counting;

// SAFETY: each call is passed to the system's allocator as it is. `realloc` and `alloc_zeroed` call `alloc`.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, block: Block) -> *mut u8 {
        // A thread that ends has no such value any more.
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(block) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, block: Block) {
        // SAFETY: `memory` is of `alloc`, with this block.
        unsafe { System.dealloc(memory, block) }
    }
}

#[test]
fn a_tick_takes_chunks_without_an_allocation() {
    let service = format!("robocache_test/allocation/{}", std::process::id());
    let mut reader = ChunkReader::new(&service).unwrap();
    let joints = ["a", "b"].map(str::to_owned);
    let mut writer = ActionWriter::new(&service, "arm", &joints).unwrap();
    let mut taken = 0;
    let mut of_ticks = Vec::with_capacity(100);
    for tick in 0..100 {
        let answered = Answered { run: 1, epoch: 0, stamp: Stamp::from_nanos(tick), tick };
        writer.send(answered, &[0.0; 10], &[]).unwrap();
        let before = ALLOCATIONS.get();
        reader.take(&mut |message, _| taken += ActionChunk::read(message).unwrap().rows).unwrap();
        of_ticks.push(ALLOCATIONS.get() - before);
    }
    assert_eq!(taken, 100 * 5);
    // The first tick finds the writer.
    assert!(of_ticks[0] > 0, "allocations are counted");
    assert_eq!(of_ticks[1..].iter().sum::<u64>(), 0, "{of_ticks:?}");
}
