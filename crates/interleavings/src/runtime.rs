//! The outbox and the queue of the encode workers.

#[rustfmt::skip] // it is formatted in its crate, and its tests are there
#[path = "../../runtime/src/outbox.rs"]
#[allow(dead_code, unreachable_pub)] // the models use some of it
mod outbox_file;
#[rustfmt::skip]
#[path = "../../runtime/src/queue.rs"]
#[allow(dead_code, unreachable_pub)]
mod queue_file;
#[rustfmt::skip]
#[path = "../../runtime/src/steps.rs"]
#[allow(dead_code, unreachable_pub)]
mod steps;

mod publisher {
    pub(super) use robocache_runtime::PublisherId;
}

use crate::time_source;

/// The tensors on their way from the tick thread to the publishing thread.
pub mod outbox {
    use std::sync::Arc;
    use std::time::Instant;

    use loom::thread;
    use robocache_core::backend::cpu::CpuBackend;
    use robocache_core::layout::Layout;
    use robocache_core::message::TensorMessage;
    use robocache_core::pipeline::Pipeline;
    use robocache_ops::time::Epoch;

    use super::outbox_file::{Finished, Outbox};
    use super::steps::Found;
    use crate::explore::{PREEMPTIONS, explore};

    const CONFIG: &str = "rate_hz: 100\nstreams: {w: {type: geometry_msgs/WrenchStamped, topic: /w, max_age_ms: 50}}";
    const TICKS: i64 = 3;

    fn pipeline() -> Pipeline {
        let config = robocache_core::config::parse(CONFIG, "model.yaml").unwrap();
        let backend = CpuBackend::new(&config, &Layout::new(&config)).unwrap();
        Pipeline::new(config, Arc::new(backend)).unwrap()
    }

    /// Serves a tick. Returns true if its tensor overwrote another one.
    fn serve(outbox: &Outbox, tick: i64, since: Instant) -> bool {
        let message = outbox.free().expect("one message is fused, one waits, one is published");
        let overwritten = outbox.put(Finished { message, tick, epoch: Epoch::default(), since });
        overwritten.map(|of| outbox.give_back(of.message)).is_some()
    }

    /// Publishes until `ends` says so of a tick, or the outbox is closed.
    fn publish(outbox: &Outbox, ends: impl Fn(i64) -> bool) -> Vec<i64> {
        let mut ticks = Vec::new();
        loop {
            match outbox.take() {
                Found::Work(Finished { message, tick, .. }) => {
                    outbox.give_back(message);
                    ticks.push(tick);
                    if ends(tick) {
                        return ticks;
                    }
                }
                Found::Nothing => thread::park(),
                Found::Closed => return ticks,
            }
        }
    }

    /// All messages of an outbox that nobody uses.
    fn messages(outbox: &Outbox) -> Vec<TensorMessage> {
        std::iter::from_fn(|| outbox.free()).collect()
    }

    /// The newest tensor is published, each one before it is published or overwritten, and no message goes astray.
    pub fn the_newest_tensor_is_always_published() {
        let pipeline = Arc::new(pipeline());
        let since = Instant::now();
        explore(PREEMPTIONS, move || {
            let outbox = Arc::new(Outbox::new(|| pipeline.new_message()));
            let publishing = {
                let outbox = Arc::clone(&outbox);
                thread::spawn(move || publish(&outbox, |tick| tick == TICKS))
            };
            let overwritten = (1..=TICKS).filter(|tick| serve(&outbox, *tick, since)).count();
            let published = publishing.join().unwrap();
            assert!(published.is_sorted_by(|a, b| a < b), "{published:?}");
            assert_eq!(published.len() + overwritten, TICKS as usize);
            assert_eq!(messages(&outbox).len(), 3);
        });
    }

    /// If the outbox is closed, the publishing thread ends, wherever it is.
    pub fn a_closed_outbox_ends_the_publishing_thread() {
        let pipeline = Arc::new(pipeline());
        let since = Instant::now();
        explore(PREEMPTIONS, move || {
            let outbox = Arc::new(Outbox::new(|| pipeline.new_message()));
            let publishing = {
                let outbox = Arc::clone(&outbox);
                thread::spawn(move || publish(&outbox, |_| false))
            };
            serve(&outbox, 1, since);
            outbox.close();
            assert!(publishing.join().unwrap().len() <= 1);
        });
    }
}

/// The messages on their way to the encode workers.
pub mod queue {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use loom::thread;
    use robocache_core::pipeline::Arrival;
    use robocache_core::spec::{Config, InputId};
    use robocache_runtime::TimeSource;

    use super::queue_file::{Message, Queue, lanes};
    use super::steps::Found;
    use crate::explore::explore;

    const CONFIG: &str = "rate_hz: 100
streams:
  a: {type: sensor_msgs/Image, topic: /a, max_age_ms: 50, image: {resize: {width: 8, height: 8}}}
  b: {type: sensor_msgs/Image, topic: /b, max_age_ms: 50, image: {resize: {width: 8, height: 8}}}
";
    /// Three threads and two waits: more orders than this take minutes.
    const PREEMPTIONS: usize = 2;

    fn config() -> Config {
        robocache_core::config::parse(CONFIG, "model.yaml").unwrap()
    }

    fn message(input: usize, number: u64) -> Message {
        let publisher = None;
        let again = false;
        let bytes = Box::new([]) as _;
        let arrival = Arrival::default();
        Message { input: InputId::new(input), publisher, number, again, bytes, arrival }
    }

    /// A worker that takes so many messages at most, and then does something else for ever. Returns their numbers. Whoever has
    /// the last one closes the queue.
    fn work(queue: &Queue, busy: &[AtomicBool; 2], left: &AtomicUsize, most: usize) -> Vec<u64> {
        let mut numbers = Vec::new();
        loop {
            match queue.take() {
                Found::Work(taken) => {
                    let lane = &busy[taken.message.input.index()];
                    assert!(!lane.swap(true, Ordering::Relaxed), "one worker at a time per lane");
                    numbers.push(taken.message.number);
                    thread::yield_now();
                    lane.store(false, Ordering::Relaxed);
                    drop(taken);
                    if left.fetch_sub(1, Ordering::Relaxed) == 1 {
                        queue.close();
                    }
                    if numbers.len() == most {
                        return numbers;
                    }
                }
                Found::Nothing => queue.wait(None),
                Found::Closed => return numbers,
            }
        }
    }

    /// Runs two workers and one thread that puts messages of these inputs, numbered from 1.
    fn all_are_encoded(inputs: &'static [usize], back: usize) {
        let config = config();
        explore(PREEMPTIONS, move || {
            let queue = Arc::new(Queue::new(inputs.len(), lanes(&config), TimeSource::real()));
            let shared = Arc::new((Default::default(), AtomicUsize::new(inputs.len())));
            let worker = |most| {
                let queue = Arc::clone(&queue);
                let shared = Arc::clone(&shared);
                thread::spawn(move || work(&queue, &shared.0, &shared.1, most))
            };
            let workers = [worker(1), worker(usize::MAX)];
            let mut messages: Vec<_> =
                inputs.iter().zip(1..).map(|(input, number)| message(*input, number)).collect();
            let put = messages.split_off(back);
            if back > 0 {
                queue.put_back(messages);
            }
            put.into_iter().for_each(|message| assert!(queue.put(message).is_none()));
            let mut numbers: Vec<_> =
                workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect();
            numbers.sort_unstable();
            assert!(numbers.into_iter().eq(1..=inputs.len() as u64));
        });
    }

    /// No message waits for ever, whichever worker is woken.
    pub fn no_message_of_one_lane_or_two_is_forgotten() {
        all_are_encoded(&[0, 1], 0);
        all_are_encoded(&[0, 0], 0);
    }

    /// Messages that are put back wake all workers.
    pub fn messages_that_are_put_back_are_encoded() {
        all_are_encoded(&[0, 1, 0], 2);
    }
}
