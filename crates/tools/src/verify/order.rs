//! Order of the messages that a node took and of its acts, each as soon as its outcome is known.
//!
//! A thread may be late to tell the recorder. So messages and ticks wait for a moment, and come in the order of
//! their epochs and instants. With a simulator's clock, they come in the order of the log.
//!
//! A message that the node dropped because its encoders were too slow must not be pushed: so the outcome comes
//! first. It is in the recording a moment after the message.

use std::collections::{BTreeMap, HashMap, VecDeque};

use bytes::Bytes;

use robocache_core::pipeline::Arrival;
use robocache_core::spec::InputId;
use robocache_data::bag::Recorded;
use robocache_data::recording::REMEMBERED;
use robocache_ops::time::{NANOS_PER_S, Stamp, TickGrid};
use robocache_runtime::{MessageOutcome, Received, TickRecord};

/// If the outcome of a message is missing for this long, the recording lacks it \[ns\].
pub(super) const PATIENCE_NS: i64 = 10 * NANOS_PER_S;
/// A thread tells the recorder of a message or a tick within this time of the log \[ns\].
const LATE_NS: i64 = 3 * NANOS_PER_S;
/// At most this many messages, and messages of at most `MOST_BYTES` bytes, wait for an outcome.
const MOST_WAITING: usize = 1 << 16;
const MOST_BYTES: usize = 1 << 30;

/// The next thing that the player is given.
pub(super) enum Step {
    Clock {
        stamp: Stamp,
        received: Received,
    },
    /// A message, and its outcome, if the recording has it.
    Message(Message, Option<MessageOutcome>),
    Tick(TickRecord),
}

/// Sorting key: the epoch, the instant, messages before ticks, and the order of the log.
type OrderKey = (u64, Stamp, bool, u64);

pub(super) struct Order {
    grid: TickGrid,
    /// True if a simulator's clock makes the log the order.
    simulated: bool,
    /// Messages, ticks and readings of the clock, with the time of the log.
    items: BTreeMap<OrderKey, (Stamp, Item)>,
    /// How many items there were.
    count: u64,
    /// Bytes of the messages in `items`.
    len: usize,
    /// The time of the log.
    now: Stamp,
    /// Known outcomes of the messages in `items`.
    outcomes: HashMap<u64, Option<MessageOutcome>>,
    /// A message whose bytes come next.
    announced: Option<(u64, InputId, Arrival)>,
    /// The latest messages of topics with several inputs, by topic.
    recent: HashMap<String, VecDeque<KnownMessage>>,
    /// The topic of each input, if it has several.
    shared: Vec<Option<String>>,
    /// By input: epoch and arrival of its newest message.
    latest: Vec<(u64, Stamp)>,
    problems: Vec<String>,
    others: u64,
}

/// The number of a message, its bytes, and when it was received.
type KnownMessage = (u64, Bytes, Received);

enum Item {
    Clock(Stamp, Received),
    Message(Message),
    Tick(TickRecord),
}

/// A message that the node received.
pub(super) struct Message {
    pub number: u64,
    pub input: InputId,
    pub arrival: Arrival,
    pub received: Received,
    pub bytes: Bytes,
}

impl Order {
    pub(super) fn new(topics: &[String], grid: TickGrid, simulated: bool) -> Self {
        let several = |topic: &String| topics.iter().filter(|other| *other == topic).count() > 1;
        let shared = topics.iter().map(|topic| several(topic).then(|| topic.clone())).collect();
        Order {
            grid,
            simulated,
            items: BTreeMap::new(),
            count: 0,
            len: 0,
            now: Stamp::MIN,
            outcomes: HashMap::new(),
            announced: None,
            recent: HashMap::new(),
            shared,
            latest: vec![(0, Stamp::MIN); topics.len()],
            problems: Vec::new(),
            others: 0,
        }
    }

    /// The time of the log has come.
    pub(super) fn at(&mut self, now: Stamp) {
        self.now = now;
    }

    /// A message was received. Its bytes come next, or came with the message `bytes_of`. Returns its number
    /// if it is whole.
    pub(super) fn received(
        &mut self,
        number: u64,
        input: InputId,
        arrival: Arrival,
        bytes_of: u64,
    ) -> Option<u64> {
        if bytes_of == number {
            if let Some((number, ..)) = self.announced.replace((number, input, arrival)) {
                self.note_problem(format!("message {number}: expected its bytes, found none"));
            }
            return None;
        }
        let topic = self.shared.get(input.index()).and_then(Option::as_ref);
        let recent = topic.and_then(|topic| self.recent.get(topic));
        let known = recent.and_then(|recent| recent.iter().find(|(of, ..)| *of == bytes_of));
        match known {
            Some((_, bytes, received)) => {
                let bytes = bytes.clone();
                let received = *received;
                Some(self.push(Message { number, input, arrival, received, bytes }))
            }
            None => {
                self.note_problem(format!("message {number}: expected the bytes of {bytes_of}"));
                None
            }
        }
    }

    /// The bytes of the message that was announced. Returns its number.
    pub(super) fn bytes(&mut self, topic: &str, recorded: Recorded) -> Option<u64> {
        let Some((number, input, arrival)) = self.announced.take() else {
            self.note_problem(format!("{topic}: expected an event in front of each message"));
            return None;
        };
        // The arrival says how long it waited.
        let received =
            Received { published: recorded.published, ..Received::at(recorded.received) };
        let bytes = recorded.bytes;
        if self.shared.get(input.index()).is_some_and(Option::is_some) {
            let recent = self.recent.entry(topic.to_owned()).or_default();
            if recent.len() == REMEMBERED {
                recent.pop_front();
            }
            recent.push_back((number, bytes.clone(), received));
        }
        Some(self.push(Message { number, input, arrival, received, bytes }))
    }

    fn push(&mut self, mut message: Message) -> u64 {
        let number = message.number;
        self.outcomes.insert(number, None);
        self.len += message.bytes.len();
        let mut at = (message.arrival.epoch.number(), message.received.at);
        if let (Some(stamp), false) = (message.arrival.stamp, self.simulated) {
            // An input's messages keep their order, also if the clock is slightly corrected.
            at.1 = stamp;
            if let Some(latest) = self.latest.get_mut(message.input.index()) {
                at.1 = if latest.0 == at.0 { stamp.max(latest.1) } else { stamp };
                *latest = at;
            }
            message.received.at = at.1;
        }
        self.add(at.0, at.1, false, Item::Message(message));
        number
    }

    pub(super) fn clock(&mut self, stamp: Stamp, received: Received) {
        self.add(0, received.at, false, Item::Clock(stamp, received));
    }

    /// The node served a tick, on a clock that is not a simulator's.
    pub(super) fn tick(&mut self, tick: TickRecord) {
        let stamp = self.grid.stamp_of(tick.tick);
        self.add(tick.epoch.number(), stamp, true, Item::Tick(tick));
    }

    fn add(&mut self, epoch: u64, stamp: Stamp, is_tick: bool, item: Item) {
        self.count += 1;
        let key = match self.simulated {
            true => (0, Stamp::MIN, false, self.count),
            false => (epoch, stamp, is_tick, self.count),
        };
        self.items.insert(key, (self.now, item));
    }

    pub(super) fn outcome(&mut self, number: u64, outcome: MessageOutcome) {
        // A message that has waited was taken before.
        if let Some(known) = self.outcomes.get_mut(&number) {
            *known = Some(outcome);
        }
    }

    /// Returns what comes next, unless its outcome or something before it is yet to come. With `all` nothing
    /// is waited for.
    pub(super) fn next(&mut self, all: bool) -> Option<Step> {
        let waiting = self.items.len();
        let (_, (logged, item)) = self.items.first_key_value()?;
        let waited_ns = self.now.since(*logged);
        let told = match item {
            Item::Message(message) => {
                self.outcomes.get(&message.number).is_some_and(Option::is_some)
                    || waited_ns > PATIENCE_NS
            }
            Item::Clock(..) | Item::Tick(_) => true,
        };
        let in_order = self.simulated || waited_ns > LATE_NS;
        let full = waiting > MOST_WAITING || self.len > MOST_BYTES;
        if !(told && in_order || all || full) {
            return None;
        }
        let (_, (_, item)) = self.items.pop_first()?;
        Some(match item {
            Item::Clock(stamp, received) => Step::Clock { stamp, received },
            Item::Tick(tick) => Step::Tick(tick),
            Item::Message(message) => {
                self.len -= message.bytes.len();
                let outcome = self.outcomes.remove(&message.number).flatten();
                Step::Message(message, outcome)
            }
        })
    }

    /// An event that cannot be read.
    pub(super) fn unreadable(&mut self, why: &str) {
        self.note_problem(format!("an event of the recording: {why}"));
    }

    fn note_problem(&mut self, what: String) {
        const MOST: usize = 20;
        if self.problems.len() < MOST {
            self.problems.push(what);
        } else {
            self.others += 1;
        }
    }

    /// Problems of the recording: what was not as a recorder writes it.
    pub(super) fn problems(mut self) -> Vec<String> {
        if self.others > 0 {
            self.problems.push(format!("and {} more like these", self.others));
        }
        self.problems
    }
}
