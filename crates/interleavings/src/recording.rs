//! The queue of a recording, whose senders never wait.

#[rustfmt::skip] // it is formatted in its crate, and its tests are there
#[path = "../../data/src/recording/lost.rs"]
#[allow(dead_code, unreachable_pub)] // the models use some of it
mod lost;
#[rustfmt::skip]
#[path = "../../data/src/recording/queue.rs"]
#[allow(dead_code, unreachable_pub)]
mod queue;

use std::path::PathBuf;
use std::sync::Arc;

use loom::thread;
use robocache_core::pipeline::Arrival;
use robocache_core::spec::{Config, InputId};
use robocache_ops::time::{Epoch, Stamp};
use robocache_runtime::{Event, ReceivedMessage, TimeSource};

use crate::explore::{PREEMPTIONS, explore};
use crate::sync;
use lost::Lost;
use queue::{Item, Queue, QueueRoom, Waiting};

mod event {
    pub(super) use robocache_data::recording::Gap;
}

mod request {
    /// Nobody asks for anything here.
    pub(super) enum Request {}
}

const CONFIG: &str =
    "rate_hz: 100\nstreams: {w: {type: geometry_msgs/WrenchStamped, topic: /w, max_age_ms: 50}}";
const INPUT: InputId = InputId::new(0);
/// Bytes of a message.
const BYTES: usize = 800;
/// Room for one of them: an eighth is for transforms.
const ROOM: usize = 1000;
/// Messages that may wait.
const MESSAGES: usize = 8;

/// An arrival, told apart by its epoch and its instant.
fn arrival(number: i64) -> Arrival {
    Arrival { stamp: Some(Stamp::from_nanos(number)), ..Arrival::default() }
}

fn receive(queue: &Queue, bytes: &Arc<Vec<u8>>) -> bool {
    let bytes = Arc::clone(bytes) as _;
    let at = Stamp::ZERO;
    let arrival = arrival(5);
    queue.receive(ReceivedMessage { input: INPUT, bytes, arrival, at, published: None }) > 0
}

/// Takes what waits, as the writer does: what was lost, and then an item. Returns how many messages came, and how many were
/// lost.
fn write(queue: &Queue, waiting: &Waiting) -> (u64, u64) {
    let lost = if queue.has_lost() { lost_of(queue) } else { 0 };
    let mut came = 0;
    while let Some((item, _)) = waiting.next() {
        came += u64::from(matches!(item, Item::Received(..)));
        queue.left(&item);
    }
    (came, lost)
}

fn lost_of(queue: &Queue) -> u64 {
    queue
        .lost_messages()
        .map(|gap| {
            assert!(gap.first <= gap.last && gap.last <= 3, "{gap:?}");
            assert!((gap.first..=gap.last).count() as u64 >= gap.messages, "{gap:?}");
            assert_eq!((gap.from, gap.epoch), (Some(Stamp::from_nanos(5)), Epoch::default()));
            gap.messages
        })
        .sum()
}

fn config() -> Config {
    robocache_core::config::parse(CONFIG, "model.yaml").unwrap()
}

fn queue(config: &Config, bytes: usize) -> (Queue, Waiting) {
    let recorded = vec![true; config.inputs.len()];
    let room = QueueRoom { messages: MESSAGES, bytes };
    Queue::new(PathBuf::new(), config, recorded, room, TimeSource::real())
}

/// Each message is written or counted as lost, once, and in the end there is as much room as in the beginning.
pub fn each_message_is_written_or_lost() {
    let config = config();
    let bytes = Arc::new(vec![0; BYTES]);
    explore(PREEMPTIONS, move || {
        let (queue, waiting) = queue(&config, ROOM);
        let queue = Arc::new(queue);
        let sender = |count: usize| {
            let queue = Arc::clone(&queue);
            let bytes = Arc::clone(&bytes);
            thread::spawn(move || (0..count).filter(|_| receive(&queue, &bytes)).count() as u64)
        };
        let senders = [sender(1), sender(1)];
        let (came, lost) = write(&queue, &waiting);
        let taken: u64 = senders.into_iter().map(|sender| sender.join().unwrap()).sum();
        let (last, last_lost) = write(&queue, &waiting);
        assert_eq!((came + last, lost + last_lost), (taken, 2 - taken));
        assert!(!queue.has_lost());
        // There is room for one again.
        assert!(receive(&queue, &bytes) && !receive(&queue, &bytes));
    });
}

/// Events have a room of their own. Who tells one never waits, and it is in the queue afterwards.
pub fn events_come_while_messages_are_lost() {
    let config = config();
    let bytes = Arc::new(vec![0; BYTES]);
    explore(PREEMPTIONS, move || {
        let (queue, waiting) = queue(&config, BYTES / 2);
        let queue = Arc::new(queue);
        let other = {
            let queue = Arc::clone(&queue);
            thread::spawn(move || {
                queue.tell(Item::Event(Event::Overruns { before: 1, ticks: 1 }));
            })
        };
        assert!(!receive(&queue, &bytes), "it is larger than the room");
        let (_, lost) = write(&queue, &waiting);
        other.join().unwrap();
        assert_eq!(lost, 1);
        let (_, lost) = write(&queue, &waiting);
        assert_eq!((lost, queue.lost_events(), queue.status().lost), (0, None, 1));
    });
}

/// Losses that threads add while the writer takes them out are taken out now or the next time, and whole.
pub fn what_is_lost_is_counted_once() {
    explore(PREEMPTIONS, || {
        let lost = Arc::new(Lost::default());
        let adder = |number: u64| {
            let lost = Arc::clone(&lost);
            // The numbers are the same, so that a half-counted message shows.
            thread::spawn(move || lost.add(number, arrival(number as i64)))
        };
        let adders = [adder(1), adder(2)];
        let first = lost.take(INPUT);
        adders.into_iter().for_each(|adder| adder.join().unwrap());
        let gaps: Vec<_> = first.into_iter().chain(lost.take(INPUT)).collect();
        assert_eq!(gaps.iter().map(|gap| gap.messages).sum::<u64>(), 2, "{gaps:?}");
        for gap in &gaps {
            assert_eq!(gap.last - gap.first + 1, gap.messages, "{gap:?}");
            assert_eq!(gap.from, Some(Stamp::from_nanos(gap.first as i64)), "{gap:?}");
        }
        assert_eq!(lost.take(INPUT), None);
    });
}
