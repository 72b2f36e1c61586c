//! The lead of an episode: the messages whose rows the rings hold when it begins.
//!
//! The rings go on between two episodes. A replay begins with empty rings, so an episode begins with the messages that
//! fill them. The thread that writes keeps these messages in memory, and drops each one when its row has left the ring.
//! Transforms and the numbers of a camera enter no ring: they stay as long as a message may need them that is kept.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;

use super::event::{Gap, RecordingEvent};
use super::file::RecordingWriter;
use super::log_time::LogTime;
use super::queue::Item;
use robocache_core::spec::{Config, InputId, InputSpec};
use robocache_ops::time::{Epoch, NANOS_PER_S, Stamp};
use robocache_runtime::{ClockMessage, Event, MessageOutcome, ReceivedMessage};

/// Rows beyond those of a ring. A tick may be under way while a message replaces what it reads.
const MORE_ROWS: usize = 2;
/// If a message may fill a part of its rings, so many times as many are kept at most.
const PARTS: usize = 64;
/// Most messages of an input whose outcome is not known yet.
const UNDECIDED: usize = 1024;
/// Most transforms, and most messages of fixed transforms or of a camera.
const FRAMES: usize = 1 << 16;
/// Transforms stay for this long after the arrival of the last message that may need them \[ns\]: a message waits for ten
/// seconds at most.
const FRAMES_NS: i64 = 15 * NANOS_PER_S;
/// Messages between two looks for transforms that nothing needs.
const PER_LOOK: u32 = 256;
/// Most resets of a simulator's clock that are kept.
const JUMPS: usize = 4096;

/// The messages that a replay needs before the first tick of an episode.
pub(super) struct Lead {
    inputs: Vec<OfInput>,
    /// Readings of a simulator's clock, each with the number of the newest message before it.
    clocks: VecDeque<(u64, ClockMessage)>,
    /// The last reading of each epoch that is over, and the first of the next: so a replay counts the epochs as the node did.
    jumps: Vec<ClockMessage>,
    /// The number of the newest message.
    newest: u64,
    bytes: usize,
    most_bytes: usize,
    /// Events that were lost: the newest message before them, how many, and when the first was.
    lost: Option<(u64, u64, Option<Stamp>)>,
    /// Messages since the last look for transforms that nothing needs.
    since_look: u32,
}

/// A part of a lead.
pub(super) enum Leading {
    Clock(ClockMessage),
    Message(u64, ReceivedMessage),
    Event(RecordingEvent, Stamp),
}

impl Leading {
    /// The time of the log at which it is written.
    pub(super) fn log_time(&self, time: &mut LogTime) -> Stamp {
        match self {
            Leading::Clock(reading) => time.of(None, reading.at),
            Leading::Message(_, message) => time.of(Some(message.arrival.epoch), message.at),
            Leading::Event(event, at) => time.of(event.epoch(), *at),
        }
    }

    /// Writes it.
    ///
    /// # Errors
    /// The error of the disk.
    pub(super) fn write(&self, writer: &mut RecordingWriter) -> io::Result<()> {
        match self {
            Leading::Clock(reading) => writer.clock(*reading),
            Leading::Message(number, message) => writer.received(*number, message),
            Leading::Event(event, at) => writer.event(event, *at),
        }
    }
}

/// Messages that are kept of an input.
struct OfInput {
    rule: Rule,
    kept: BTreeMap<u64, Kept>,
    /// The messages that became rows, by the stamps of their newest rows.
    rows: BTreeSet<(Stamp, u64)>,
    /// Messages that are missing.
    gap: Option<Gap>,
}

/// How long a message of an input is kept.
enum Rule {
    /// While its row is among the newest.
    Rows {
        most: usize,
        /// If a message may fill a part of the rings, rows of this time are kept too \[ns\].
        span_ns: Option<i64>,
        needs_frames: bool,
    },
    /// For good.
    Fixed,
    /// While a message that is kept may need it.
    Frames,
}

struct Kept {
    message: ReceivedMessage,
    outcomes: Vec<(Event, Stamp)>,
    /// The stamp under which it is among the rows.
    row: Option<Stamp>,
}

impl Lead {
    /// Keeps nothing yet. Messages of at most `most_bytes` bytes are kept.
    pub(super) fn new(config: &Config, most_bytes: usize) -> Self {
        let of = |id: InputId| OfInput::new(config.input(id), config);
        Lead {
            inputs: config.input_ids().map(of).collect(),
            clocks: VecDeque::new(),
            jumps: Vec::new(),
            newest: 0,
            bytes: 0,
            most_bytes,
            lost: None,
            since_look: 0,
        }
    }

    /// Takes what the node received or did at this instant of the system's clock.
    pub(super) fn take(&mut self, item: &Item, at: Stamp) {
        match item {
            Item::Received(number, message) => self.receive(*number, message),
            Item::Clock(reading) => self.clocks.push_back((self.newest, *reading)),
            Item::Event(Event::Epoch(epoch)) => self.begin(*epoch),
            Item::Event(event @ Event::MessageOutcome { number, input, outcome, .. }) => {
                if let Some(of) = self.inputs.get_mut(input.index()) {
                    self.bytes -= of.note(*number, event, outcome, at);
                }
            }
            _ => {}
        }
    }

    /// Notes that the queue had no room for messages.
    pub(super) fn lack(&mut self, gap: Gap) {
        if let Some(of) = self.inputs.get_mut(gap.input.index()) {
            of.lack(gap);
        }
    }

    /// Notes that the queue had no room for events.
    pub(super) fn lack_events(&mut self, events: u64, from: Option<Stamp>) {
        let before = self.lost.map_or((0, None), |(_, events, from)| (events, from));
        self.lost = Some((self.newest, before.0.saturating_add(events), before.1.or(from)));
    }

    /// All of it, in the order in which it came, for an episode that begins at this instant of the system's clock.
    pub(super) fn items(&mut self, at: Stamp) -> Vec<Leading> {
        self.look();
        // Fixed transforms may be hours old. Their arrival does not count, and so the log begins with the first row.
        let moving = self.inputs.iter().filter(|of| !matches!(of.rule, Rule::Fixed));
        let begin = moving.flat_map(|of| of.kept.values()).map(|of| of.message.at).min();
        let begin = begin.unwrap_or(at).min(at);
        let jump = |of: &ClockMessage| Leading::Clock(ClockMessage { at: of.at.max(begin), ..*of });
        let mut items: Vec<Leading> = self.jumps.iter().map(jump).collect();
        let mut kept: Vec<(u64, &Kept)> =
            self.inputs.iter().flat_map(|of| &of.kept).map(|(number, of)| (*number, of)).collect();
        kept.sort_unstable_by_key(|(number, _)| *number);
        let mut clocks = self.clocks.iter().peekable();
        for (number, Kept { message, outcomes, .. }) in kept {
            while let Some((_, reading)) = clocks.next_if(|(after, _)| *after < number) {
                items.push(Leading::Clock(*reading));
            }
            let at = message.at.max(begin);
            items.push(Leading::Message(number, ReceivedMessage { at, ..message.clone() }));
            let event = |(event, at): &(Event, Stamp)| {
                Leading::Event(RecordingEvent::Node(event.clone()), *at)
            };
            items.extend(outcomes.iter().map(event));
        }
        items.extend(clocks.map(|(_, reading)| Leading::Clock(*reading)));
        let first = self.first();
        let lost = self.lost.filter(|(after, ..)| *after >= first);
        let lost = lost.map(|(_, events, from)| RecordingEvent::GapOfEvents { events, from });
        let gaps = self.inputs.iter().filter_map(|of| of.gap).map(RecordingEvent::Gap);
        items.extend(lost.into_iter().chain(gaps).map(|event| Leading::Event(event, at)));
        items
    }

    fn receive(&mut self, number: u64, message: &ReceivedMessage) {
        let Some(of) = self.inputs.get_mut(message.input.index()) else { return };
        self.newest = self.newest.max(number);
        self.bytes += bytes_of(message);
        of.kept.insert(number, Kept { message: message.clone(), outcomes: Vec::new(), row: None });
        self.bytes -= of.bound();
        self.since_look += 1;
        if self.since_look >= PER_LOOK {
            self.look();
        }
        while self.bytes > self.most_bytes {
            let by_size =
                |of: &&mut OfInput| of.kept.values().map(|of| bytes_of(&of.message)).sum::<usize>();
            let Some(largest) = self.inputs.iter_mut().max_by_key(by_size) else { return };
            match largest.remove_first() {
                0 => return,
                removed => self.bytes -= removed,
            }
        }
    }

    /// An epoch of the node's clock begins: the rings forget the rows of those before.
    fn begin(&mut self, epoch: Epoch) {
        for of in self.inputs.iter_mut().filter(|of| !matches!(of.rule, Rule::Fixed)) {
            let is_before = |(_, of): &(&u64, &Kept)| of.message.arrival.epoch.is_before(epoch);
            let before: Vec<u64> = of.kept.iter().filter(is_before).map(|(at, _)| *at).collect();
            self.bytes -= before.into_iter().map(|number| of.remove(number)).sum::<usize>();
            of.gap = of.gap.filter(|gap| !gap.epoch.is_before(epoch));
        }
        // The recorder gets the reading that begins an epoch before the epoch itself.
        if let Some(first) = self.clocks.pop_back() {
            if self.jumps.len() < JUMPS {
                self.jumps.extend(self.clocks.back().map(|(_, last)| *last));
            }
            self.clocks.clear();
            self.clocks.push_back(first);
            if self.jumps.len() < JUMPS {
                self.jumps.push(first.1);
            }
        }
    }

    /// Drops the transforms and the readings of the clock that nothing needs.
    fn look(&mut self) {
        self.since_look = 0;
        let arrival = |of: &Kept| of.message.arrival.stamp;
        let newest =
            self.inputs.iter().filter_map(|of| arrival(of.kept.values().next_back()?)).max();
        let rows = |of: &&OfInput| matches!(of.rule, Rule::Rows { needs_frames: true, .. });
        let oldest = |of: &OfInput| arrival(of.kept.values().next()?);
        let needed = self.inputs.iter().filter(rows).filter_map(oldest).min().or(newest);
        let Some(needed) = needed else { return };
        for of in self.inputs.iter_mut().filter(|of| matches!(of.rule, Rule::Frames)) {
            let from = needed.offset(-FRAMES_NS);
            // The newest before that stays: a camera is true until another one comes.
            while of.kept.values().nth(1).and_then(arrival).is_some_and(|second| second < from) {
                let Some(first) = of.kept.keys().next().copied() else { break };
                self.bytes -= of.remove(first);
            }
            of.gap = of.gap.filter(|gap| gap.from.is_none_or(|missing| missing >= from));
        }
        let first = self.first();
        while self.clocks.get(1).is_some_and(|(after, _)| *after < first) {
            self.clocks.pop_front();
        }
    }

    /// The number of the first message that is kept for its row; the next number if there is none.
    fn first(&self) -> u64 {
        let rows = self.inputs.iter().filter(|of| !matches!(of.rule, Rule::Fixed));
        let first = rows.filter_map(|of| of.kept.keys().next()).min();
        first.copied().unwrap_or(self.newest + 1)
    }
}

impl OfInput {
    fn new(spec: &InputSpec, config: &Config) -> Self {
        let rule = match spec.stream.filter(|_| !spec.feeds.is_empty()) {
            None if spec.feeds_fixed_tree() => Rule::Fixed,
            None => Rule::Frames,
            Some(stream) => {
                let stream = config.stream(stream);
                let oldest_ns = -stream.target_offset_ns(0);
                let rule = &stream.rule;
                let span_ns =
                    oldest_ns.saturating_add(rule.max_age_ns.max(0)).saturating_add(NANOS_PER_S);
                let needs_frames =
                    spec.in_frame.is_some() || spec.deskew.is_some() || spec.is_large();
                Rule::Rows {
                    most: stream.ring_rows + MORE_ROWS,
                    span_ns: (spec.feeds.len() > 1).then_some(span_ns),
                    needs_frames,
                }
            }
        };
        OfInput { rule, kept: BTreeMap::new(), rows: BTreeSet::new(), gap: None }
    }

    /// Notes the outcome of a message. Returns the bytes of the messages that are not kept any more.
    fn note(&mut self, number: u64, event: &Event, outcome: &MessageOutcome, at: Stamp) -> usize {
        /// One that waited for a transform has two.
        const OUTCOMES: usize = 4;
        let Some(kept) = self.kept.get_mut(&number) else { return 0 };
        if kept.outcomes.len() < OUTCOMES {
            kept.outcomes.push((event.clone(), at));
        }
        let Rule::Rows { most, span_ns, .. } = self.rule else {
            let is_dropped = matches!(outcome, MessageOutcome::Dropped(_));
            return if is_dropped { self.remove(number) } else { 0 };
        };
        match outcome {
            MessageOutcome::Waits => 0,
            // If a part of it is a row, it counts.
            MessageOutcome::Dropped(_) | MessageOutcome::Taken { changes: None, .. } => {
                if kept.row.is_some() { 0 } else { self.remove(number) }
            }
            MessageOutcome::Taken { stamp, changes: Some(_) } => {
                // A plan has no stamp: the newest plans count.
                let stamp = stamp.or(kept.message.arrival.stamp).unwrap_or(Stamp::MIN);
                kept.row = Some(stamp);
                self.rows.insert((stamp, number));
                self.trim(stamp, number, most, span_ns)
            }
        }
    }

    /// Drops what is not among the newest rows, now that a message became a row. Returns its bytes.
    fn trim(&mut self, stamp: Stamp, number: u64, most: usize, span_ns: Option<i64>) -> usize {
        let mut removed = 0;
        // A later message with the same stamp has taken the place of the row. If it may have a part of the rows, both count.
        let equal = self.rows.range((stamp, 0)..(stamp, number)).next().copied();
        if let (Some((_, before)), None) = (equal, span_ns) {
            removed += self.remove(before);
        }
        while self.rows.len() > most {
            let (Some(oldest), Some(newest)) = (self.rows.first(), self.rows.last()) else { break };
            let is_near = |span_ns: i64| newest.0.since(oldest.0) <= span_ns;
            if span_ns.is_some_and(is_near) && self.rows.len() <= most.saturating_mul(PARTS) {
                break;
            }
            removed += self.remove(oldest.1);
        }
        if self.rows.len() >= most
            && let Some(first) = self.kept.keys().next()
        {
            self.gap = self.gap.filter(|gap| gap.last >= *first);
        }
        removed
    }

    /// Drops messages beyond the most. They are missing. Returns their bytes.
    fn bound(&mut self) -> usize {
        let (undecided, most) = match self.rule {
            Rule::Rows { .. } => (self.kept.len() - self.rows.len(), UNDECIDED),
            Rule::Fixed | Rule::Frames => (self.kept.len(), FRAMES),
        };
        if undecided <= most {
            return 0;
        }
        let oldest = self.kept.iter().find(|(_, of)| of.row.is_none());
        oldest.map(|(number, _)| *number).map_or(0, |number| self.lose(number))
    }

    /// Drops the oldest message. It is missing. Returns its bytes.
    fn remove_first(&mut self) -> usize {
        self.kept.keys().next().copied().map_or(0, |number| self.lose(number))
    }

    /// Drops a message that is missing from now on. Returns its bytes.
    fn lose(&mut self, number: u64) -> usize {
        if let Some(Kept { message, .. }) = self.kept.get(&number) {
            let input = message.input;
            let arrival = message.arrival;
            let from = arrival.stamp;
            let epoch = arrival.epoch;
            self.lack(Gap { input, messages: 1, first: number, last: number, from, epoch });
        }
        self.remove(number)
    }

    fn lack(&mut self, gap: Gap) {
        self.gap = Some(self.gap.map_or(gap, |before| Gap {
            messages: before.messages.saturating_add(gap.messages),
            first: before.first.min(gap.first),
            last: before.last.max(gap.last),
            ..gap
        }));
    }

    /// Drops a message. Returns its bytes.
    fn remove(&mut self, number: u64) -> usize {
        let Some(Kept { message, row, .. }) = self.kept.remove(&number) else { return 0 };
        row.into_iter().for_each(|stamp| _ = self.rows.remove(&(stamp, number)));
        bytes_of(&message)
    }
}

fn bytes_of(message: &ReceivedMessage) -> usize {
    (*message.bytes).as_ref().len()
}
