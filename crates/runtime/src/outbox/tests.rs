use super::*;
use robocache_core::backend::cpu::CpuBackend;
use robocache_core::layout::Layout;
use robocache_core::pipeline::Pipeline;
use robocache_testing::threads::check_inherited;
use robocache_testing::{ended, until};
use std::sync::Arc;

fn outbox() -> Outbox {
    let config = "rate_hz: 100\nstreams: {w: {type: geometry_msgs/WrenchStamped, topic: /w, \
                  max_age_ms: 50}}";
    let config = robocache_core::config::parse(config, "test.yaml").unwrap();
    let backend = Arc::new(CpuBackend::new(&config, &Layout::new(&config)).unwrap());
    let pipeline = Pipeline::new(config, backend).unwrap();
    Outbox::new(|| pipeline.new_message())
}

fn finished(message: TensorMessage, tick: i64) -> Finished {
    Finished { message, tick, epoch: Epoch::default(), since: Instant::now() }
}

fn put(outbox: &Outbox, tick: i64) -> bool {
    let message = outbox.free().unwrap();
    let overwritten = outbox.put(finished(message, tick));
    let message = overwritten.map(|overwritten| outbox.give_back(overwritten.message));
    message.is_some()
}

/// Waits for a tensor; `None` if the outbox is closed.
fn take(outbox: &Outbox) -> Option<Finished> {
    loop {
        match outbox.take() {
            Found::Work(finished) => return Some(finished),
            // It may also return for no reason.
            Found::Nothing => std::thread::park(),
            Found::Closed => return None,
        }
    }
}

#[test]
fn the_newest_tensor_waits_and_those_that_it_overwrites_are_told() {
    let outbox = outbox();
    assert_eq!([put(&outbox, 1), put(&outbox, 2), put(&outbox, 3)], [false, true, true]);
    let taken = take(&outbox).unwrap();
    assert_eq!(taken.tick, 3);
    // While it is being published, ticks go on.
    assert_eq!([put(&outbox, 4), put(&outbox, 5)], [false, true]);
    outbox.give_back(taken.message);
    assert_eq!(take(&outbox).unwrap().tick, 5);
    assert!(matches!(outbox.take(), Found::Nothing));
}

#[test]
fn a_reader_that_waits_is_woken_by_a_tensor_and_by_the_end() {
    let outbox = Arc::new(outbox());
    let reader = Arc::clone(&outbox);
    let read = move || std::iter::from_fn(|| take(&reader)).map(|taken| taken.tick).collect();
    let thread = std::thread::spawn(read);
    for tick in 1..=3 {
        // The reader waits, for the first one or again.
        until("the reader waits", || outbox.state.lock().reader.is_some());
        // What wakes it for no reason changes nothing.
        thread.thread().unpark();
        let message = outbox.free().unwrap();
        assert!(outbox.put(finished(message, tick)).is_none());
    }
    until("the reader takes the last one", || outbox.is_empty());
    outbox.close();
    let taken: Vec<i64> = ended("the reader", thread);
    assert_eq!(taken, [1, 2, 3]);
}

#[test]
fn a_thread_that_looks_into_the_outbox_inherits_the_priority_of_the_tick() {
    let outbox = outbox();
    check_inherited(
        || assert!(!put(&outbox, 1)),
        |act| {
            let _state = outbox.state.lock();
            act();
        },
    );
}
