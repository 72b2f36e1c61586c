//! Invariants: what holds after each event, whatever goes wrong.

mod commands;
mod ends;
mod tensors;
mod twins;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use crate::clock::WorldClock;
use crate::net::{MS, SharedNet};
use crate::robot::Kind;
use robocache_core::pipeline::Arrival;
use robocache_core::spec::InputId;
use robocache_data::recording::McapRecorder;
use robocache_ops::sync::lock;
use robocache_ops::time::Stamp;
use robocache_runtime::{
    ChunkRecord, ClockMessage, DueTick, Event, MessageOutcome, Observer, OfferedQos,
    ReceivedMessage, Recorder, RecorderStatus, Runtime, SharedBytes,
};

pub(crate) use commands::CommandCheck;
pub(crate) use ends::{all_are_heard, losses_add_up, may_end_ns};
pub(crate) use twins::harm;

/// The message of a row.
#[derive(Clone, Copy, Debug)]
struct RowMessage {
    number: u64,
    /// Which of all rows it is, counted from 1; 0 if it is none yet.
    entered: u64,
}

/// Observations of the node so far.
pub(crate) struct Seen {
    clock: WorldClock,
    /// The kind of each input.
    kinds: Vec<Option<Kind>>,
    grid_ns: i64,
    /// First broken invariant.
    violation: Option<String>,
    /// By input: the messages of each row, by epoch and stamp. Each replaced the one before.
    rows: Vec<BTreeMap<(u64, Stamp), Vec<RowMessage>>>,
    /// Rows so far, and how many there were when the newest tick was fused.
    entered: u64,
    fused: u64,
    /// Messages by the recorder's number.
    numbered: BTreeMap<u64, (usize, RowMessage, u64)>,
    /// By input: the messages that the pipeline was given.
    given: Vec<BTreeSet<(usize, u64)>>,
    /// Latched messages that the pipeline was given, by input, epoch, publisher and number. Each epoch gets each of
    /// them once.
    given_again: BTreeSet<(usize, u64, usize, u64)>,
    /// By input: messages that the pipeline was given.
    pub counts: Vec<u64>,
    /// True if the recorder has no room: then rows are not known.
    pub blind: bool,
    /// Passes of the robot's clock by epoch of the node.
    passes: BTreeMap<u64, u64>,
    /// By pass: what its stamps count from.
    pub bases: Vec<Stamp>,
    /// The newest tick that was published, its epoch, and how many there were.
    newest: Option<(u64, i64)>,
    pub published: u64,
    pub valid: u64,
    /// Newest number of a mark that a tensor had.
    pub mark: Option<(usize, u64)>,
    /// The epoch of the newest tensor, and its first tick.
    began: Option<(u64, Stamp)>,
    /// True if a simulator's messages tell of which pass they are.
    pub tells_publications: bool,
    /// When which loop served which tick.
    due: BTreeMap<&'static str, i64>,
    /// The epoch of the newest command tick that noted anything; the first one of an epoch does.
    command_epoch: u64,
}

/// The observations, which all checks share.
pub(crate) type SharedSeen = Arc<Mutex<Seen>>;

impl Seen {
    pub(crate) fn new(runtime: &Runtime, clock: WorldClock, bases: Vec<Stamp>) -> Self {
        let kind = |id: InputId| {
            let topic = &runtime.input_spec(id).topic;
            Kind::ALL.into_iter().find(|kind| kind.topic().0 == topic)
        };
        let kinds: Vec<_> = runtime.inputs().map(kind).collect();
        let inputs = kinds.len();
        Seen {
            clock,
            kinds,
            grid_ns: runtime.pipeline.config().grid.period_ns(),
            violation: None,
            rows: vec![BTreeMap::new(); inputs],
            entered: 0,
            fused: 0,
            numbered: BTreeMap::new(),
            given: vec![BTreeSet::new(); inputs],
            given_again: BTreeSet::new(),
            counts: vec![0; inputs],
            blind: false,
            passes: BTreeMap::new(),
            bases,
            newest: None,
            published: 0,
            valid: 0,
            mark: None,
            began: None,
            tells_publications: false,
            due: BTreeMap::new(),
            command_epoch: 0,
        }
    }

    /// Begins another life of the node. What was counted stays.
    pub(crate) fn begin_life(&mut self, runtime: &Runtime) {
        let clock = self.clock.clone();
        let bases = std::mem::take(&mut self.bases);
        let violation = self.violation.take();
        let tells_publications = self.tells_publications;
        let published = self.published;
        let valid = self.valid;
        let new = Seen::new(runtime, clock, bases);
        *self = Seen { violation, published, valid, tells_publications, ..new };
    }

    /// Notes a broken invariant. The first one counts.
    pub(crate) fn fail(&mut self, why: String) {
        let at = self.clock.now_ns() as f64 / 1e9;
        self.violation.get_or_insert_with(|| format!("at {at:.6} s: {why}"));
    }

    pub(crate) fn violation(&self) -> Option<&String> {
        self.violation.as_ref()
    }

    /// The invariants that hold after each step of the node.
    pub(crate) fn look(&mut self, runtime: &Runtime, net: &SharedNet) {
        for (at, id) in runtime.inputs().enumerate() {
            let stats = runtime.input_stats(id);
            let received = stats.received.get();
            let waiting = runtime.waiting(id) as u64;
            if received != stats.accepted.get() + stats.dropped_total() {
                let accepted = stats.accepted.get();
                let dropped = stats.dropped_total();
                self.fail(format!(
                    "{:?}: received {received} messages, but accepted {accepted} and dropped {dropped}",
                    self.kinds[at]
                ));
            }
            if waiting > 256 {
                self.fail(format!("{:?}: {waiting} messages wait for a transform", self.kinds[at]));
            }
        }
        let (subscriptions, connections) = lock(net).living();
        // Of each input: the one in use, the one before, and those that linger for a second. A standstill delays that the
        // connection before ends, so that another one may be made until then.
        let most = 6 * (self.kinds.len() + 2);
        if subscriptions > most || connections > 3 {
            self.fail(format!("{subscriptions} subscriptions of {connections} connections exist"));
        }
    }

    fn input_of(&self, kind: Kind) -> Option<usize> {
        self.kinds.iter().position(|of| *of == Some(kind))
    }

    /// The newest message of a publisher that the pipeline was given; 0 if there is none.
    fn newest_of(&self, kind: Kind, publisher: usize) -> u64 {
        if kind == Kind::Mark {
            let is_of = |of: &(usize, u64)| of.0 == publisher;
            return self.mark.filter(is_of).map_or(0, |(_, number)| number);
        }
        let given = self.input_of(kind).map(|input| &self.given[input]);
        let newest =
            given.and_then(|given| given.range((publisher, 0)..(publisher + 1, 0)).next_back());
        newest.map_or(0, |(_, number)| *number)
    }

    /// Notes a message that the pipeline gets.
    fn receive(
        &mut self,
        input: usize,
        taken: Option<(usize, u64)>,
        bytes: &[u8],
        arrival: Arrival,
    ) -> RowMessage {
        let kind = self.kinds[input];
        if kind == Some(Kind::Mark) {
            // Two numbers of it are its identity, as it may be given again.
            let word = |at: usize| bytes.get(at..at + 8).and_then(|of| of.try_into().ok());
            let number = |at| word(at).map_or(0.0, f64::from_le_bytes) as u64;
            let (number, publisher) = (number(36), number(44) as usize);
            let epoch = arrival.epoch.number();
            if !self.given_again.insert((input, epoch, publisher, number)) {
                self.fail(format!("message {number} of mark came twice in epoch {epoch}"));
            }
            return RowMessage { number, entered: 0 };
        }
        let Some((publisher, number)) = taken else {
            self.fail(format!("{kind:?}: a message that was not taken reached the pipeline"));
            return RowMessage { number: 0, entered: 0 };
        };
        if !self.given[input].insert((publisher, number)) {
            self.fail(format!(
                "{kind:?}: message {number} of publisher {publisher} was given twice"
            ));
        }
        RowMessage { number, entered: 0 }
    }
}

/// The recorder of the node, which also shows what it is told.
pub(crate) struct Tap {
    pub inner: Arc<McapRecorder>,
    pub seen: SharedSeen,
    pub net: SharedNet,
    pub topics: Vec<String>,
}

impl Recorder for Tap {
    fn received(&self, message: ReceivedMessage) -> u64 {
        let input = message.input.index();
        let taken = {
            let mut net = lock(&self.net);
            let publishers = &net.publishers;
            let is_of = net.taken.is_some_and(|(of, _)| publishers[of].topic == self.topics[input]);
            if is_of { net.taken.take() } else { None }
        };
        let bytes = Arc::clone(&message.bytes);
        let arrival = message.arrival;
        let number = self.inner.received(message);
        let mut seen = lock(&self.seen);
        seen.counts[input] += 1;
        let row = seen.receive(input, taken, (*bytes).as_ref(), arrival);
        match number {
            0 => seen.blind = true,
            _ => _ = seen.numbered.insert(number, (input, row, arrival.epoch.number())),
        }
        number
    }

    fn clock_set(&self, message: ClockMessage) {
        self.inner.clock_set(message);
    }

    fn offered(&self, input: Option<InputId>, offers: Vec<OfferedQos>) {
        self.inner.offered(input, offers);
    }

    fn chunk(&self, found: ChunkRecord, message: SharedBytes) {
        self.inner.chunk(found, message);
    }

    fn note(&self, event: Event) {
        if let Event::Command(record) = &event {
            lock(&self.seen).command_epoch = record.epoch.number();
        }
        if let Event::MessageOutcome { number, outcome, .. } = &event {
            let mut seen = lock(&self.seen);
            if let MessageOutcome::Taken { stamp: Some(stamp), .. } = outcome
                && let Some((input, row, epoch)) = seen.numbered.get(number).copied()
            {
                seen.entered += 1;
                let row = RowMessage { entered: seen.entered, ..row };
                seen.rows[input].entry((epoch, *stamp)).or_default().push(row);
            }
            if *outcome != MessageOutcome::Waits {
                seen.numbered.remove(number);
            }
        }
        self.inner.note(event);
    }

    fn status(&self) -> RecorderStatus {
        self.inner.status()
    }
}

/// Looks at each tick before it is served, and when it is fused.
pub(crate) struct TickCheck(pub SharedSeen, pub WorldClock, pub bool);

impl Observer for TickCheck {
    fn due(&self, thread: &'static str, due: DueTick) {
        let mut seen = lock(&self.0);
        let period_ns = if thread == "tick" { seen.grid_ns } else { 20 * MS as i64 };
        let newest = due.looked.nanos().div_euclid(period_ns);
        if due.tick != newest {
            seen.fail(format!("{thread} serves tick {}, but tick {newest} is due", due.tick));
        }
        // The clock was read in this very step.
        let late = self.1.system().since(due.looked);
        if !self.2 && !(0..=5_000_000).contains(&late) {
            seen.fail(format!("{thread} serves a tick by a reading that is {late} ns old"));
        }
        seen.due.insert(thread, due.tick);
    }

    fn fused(&self, _: i64, _: &[u8]) {
        let seen = &mut *lock(&self.0);
        seen.fused = seen.entered;
    }
}
