//! The messages of a recording in the order of their arrivals, each as soon as its outcome is known.
//!
//! A message that the node dropped because its encoders were too slow must not be pushed: so the outcome comes
//! first. It is in the recording a moment after the message.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::pipeline::{Arrival, DropReason};
use crate::replay::bag::Recorded;
use crate::replay::recording::REMEMBERED;
use crate::runtime::{Outcome, Received};
use crate::spec::InputId;
use crate::time::{NANOS_PER_S, Stamp};

/// If nothing says for this long what became of a message, the recording does not \[ns\].
const PATIENCE_NS: i64 = 10 * NANOS_PER_S;

/// What the player is given next.
pub(super) enum Next {
    Clock {
        stamp: Stamp,
        received: Received,
    },
    Message {
        number: u64,
        input: InputId,
        arrival: Arrival,
        received: Received,
        bytes: Arc<Vec<u8>>,
        /// Whether the node dropped it because its encoders were too slow.
        overload: bool,
    },
}

/// The bytes of a message that several inputs may have.
pub(super) struct Bytes(pub Arc<Vec<u8>>);

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

#[derive(Default)]
pub(super) struct Order {
    /// Messages and readings of the clock, in the order of the log.
    items: VecDeque<Item>,
    /// What is known of the messages in `items`.
    outcomes: HashMap<u64, Option<Outcome>>,
    /// A message whose bytes come next.
    announced: Option<(u64, InputId, Arrival)>,
    /// The latest messages of topics with several inputs, by topic.
    recent: HashMap<String, VecDeque<Known>>,
    /// The topic of each input, if it has several.
    shared: Vec<Option<String>>,
    /// Messages up to this number are not waited for.
    released: u64,
    newest: u64,
    problems: Vec<String>,
    others: u64,
}

/// The number of a message, its bytes, and when it was received.
type Known = (u64, Arc<Vec<u8>>, Received);

enum Item {
    Clock(Stamp, Received),
    Message(Message),
}

struct Message {
    number: u64,
    input: InputId,
    arrival: Arrival,
    received: Received,
    bytes: Arc<Vec<u8>>,
}

impl Order {
    pub fn new(topics: &[String]) -> Self {
        let several = |topic: &String| topics.iter().filter(|other| *other == topic).count() > 1;
        let shared = topics.iter().map(|topic| several(topic).then(|| topic.clone())).collect();
        Order { shared, ..Order::default() }
    }

    /// A message was received. Its bytes come next, or came with the message `bytes_of`.
    pub fn received(&mut self, number: u64, (input, arrival): (InputId, Arrival), bytes_of: u64) {
        self.newest = self.newest.max(number);
        if bytes_of == number {
            if let Some((number, ..)) = self.announced.replace((number, input, arrival)) {
                self.tell(format!("message {number}: expected its bytes, found none"));
            }
            return;
        }
        let topic = self.shared.get(input.index()).and_then(Option::as_ref);
        let recent = topic.and_then(|topic| self.recent.get(topic));
        let known = recent.and_then(|recent| recent.iter().find(|(of, ..)| *of == bytes_of));
        match known {
            Some((_, bytes, received)) => {
                let (bytes, received) = (Arc::clone(bytes), *received);
                self.push(Message { number, input, arrival, received, bytes });
            }
            None => self.tell(format!("message {number}: expected the bytes of {bytes_of}")),
        }
    }

    /// The bytes of the message that was announced.
    pub fn bytes(&mut self, topic: &str, recorded: Recorded) {
        let Some((number, input, arrival)) = self.announced.take() else {
            self.tell(format!("{topic}: expected an event in front of each message"));
            return;
        };
        let received = Received { at: recorded.received, published: recorded.published };
        let bytes = Arc::new(recorded.bytes);
        if self.shared.get(input.index()).is_some_and(Option::is_some) {
            let recent = self.recent.entry(topic.to_owned()).or_default();
            if recent.len() == REMEMBERED {
                recent.pop_front();
            }
            recent.push_back((number, Arc::clone(&bytes), received));
        }
        self.push(Message { number, input, arrival, received, bytes });
    }

    fn push(&mut self, message: Message) {
        self.outcomes.insert(message.number, None);
        self.items.push_back(Item::Message(message));
    }

    pub fn clock(&mut self, stamp: Stamp, received: Received) {
        self.items.push_back(Item::Clock(stamp, received));
    }

    pub fn outcome(&mut self, number: u64, outcome: Outcome) {
        // A message that has waited was taken before.
        if let Some(known) = self.outcomes.get_mut(&number) {
            *known = Some(outcome);
        }
    }

    /// Waits for no outcome of the messages so far: it may be missing.
    pub fn release(&mut self) {
        self.released = self.newest;
    }

    /// Returns what comes next, unless its outcome is yet to come. With `all` none is waited for.
    pub fn next(&mut self, all: bool, now: Stamp) -> Option<Next> {
        let known = match self.items.front()? {
            Item::Clock(..) => true,
            Item::Message(message) => {
                all || message.number <= self.released
                    || self.outcomes.get(&message.number).is_some_and(Option::is_some)
                    || now.since(message.received.at) > PATIENCE_NS
            }
        };
        if !known {
            return None;
        }
        Some(match self.items.pop_front()? {
            Item::Clock(stamp, received) => Next::Clock { stamp, received },
            Item::Message(Message { number, input, arrival, received, bytes }) => {
                let outcome = self.outcomes.remove(&number).flatten();
                let overload = outcome == Some(Outcome::Dropped(DropReason::Overload));
                Next::Message { number, input, arrival, received, bytes, overload }
            }
        })
    }

    /// An event that cannot be read.
    pub fn unreadable(&mut self, why: &str) {
        self.tell(format!("an event of the recording: {why}"));
    }

    fn tell(&mut self, what: String) {
        const MOST: usize = 20;
        if self.problems.len() < MOST {
            self.problems.push(what);
        } else {
            self.others += 1;
        }
    }

    /// What was not as a recorder writes it.
    pub fn problems(mut self) -> Vec<String> {
        if self.others > 0 {
            self.problems.push(format!("and {} more like these", self.others));
        }
        self.problems
    }
}
