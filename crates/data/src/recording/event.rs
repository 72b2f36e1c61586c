//! The events of a recording as messages of `robocache_ros/msg/RecordingEvent`.

use super::marks::Mark;
use robocache_core::cdr::{CdrError, Reader, Writer};
use robocache_core::command::Disabling;
use robocache_core::pipeline::{Arrival, MAX_AHEAD_NS};
use robocache_core::rejected::DropReason;
use robocache_core::spec::{InputId, StreamId};
use robocache_ops::time::{Epoch, Stamp};
use robocache_runtime::{
    ChunkRecord, CommandFact, CommandRecord, Event, MessageOutcome, StartValues, TickFate,
    TickRecord,
};

/// Their type.
pub const EVENT_TYPE: &str = "robocache_ros/msg/RecordingEvent";
/// Its definition.
pub(super) const EVENT_DEFINITION: &str = include_str!("../../../../msg/RecordingEvent.msg");

/// An event of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordingEvent {
    /// The recording begins.
    Start {
        /// The node's clock; `None` if it does not run yet.
        at: Option<Stamp>,
    },
    /// A message was received.
    Received {
        /// Its number.
        number: u64,
        /// Its input.
        input: InputId,
        /// The arrival that the pipeline used.
        arrival: Arrival,
        /// The number of the message with its bytes: its own, if they follow.
        bytes_of: u64,
    },
    /// A command tick has found a chunk, whose message follows.
    Chunk(ChunkRecord),
    /// Something that the node did.
    Node(Event),
    /// Messages are missing.
    Gap(Gap),
    /// Events are missing.
    GapOfEvents {
        /// How many.
        events: u64,
        /// When the first was reported, on the system's clock.
        from: Option<Stamp>,
    },
    /// A person or a program notes something.
    Mark(Mark),
    /// The recording is complete.
    End,
}

/// Messages of an input that are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The input.
    pub input: InputId,
    /// How many.
    pub messages: u64,
    /// The number of the first.
    pub first: u64,
    /// The number of the last.
    pub last: u64,
    /// The arrival of the first, on the node's clock.
    pub from: Option<Stamp>,
    /// Its epoch.
    pub epoch: Epoch,
}

/// Why an event cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum EventError {
    /// It is no such message.
    #[error(transparent)]
    Cdr(#[from] CdrError),
    /// It says something that no recorder writes.
    #[error("expected {expected}, found {found}")]
    Content {
        /// Expected content.
        expected: &'static str,
        /// Content that was found.
        found: String,
    },
}

/// The members of the message.
#[derive(Default)]
struct Fields {
    kind: u8,
    number: u64,
    count: u64,
    epoch: u64,
    input: u32,
    stamp: Option<Stamp>,
    at: Option<Stamp>,
    max_ahead_ns: i64,
    zero_is_an_instant: bool,
    first: u64,
    last: u64,
    digest: u64,
    reason: String,
    in_doubt_from: Option<Stamp>,
    values: StartValues,
    name: String,
}

const START: u8 = 1;
const RECEIVED: u8 = 2;
const TAKEN: u8 = 3;
const DROPPED: u8 = 4;
const WAITS: u8 = 5;
const PUBLISHED: u8 = 6;
const HELD_BACK: u8 = 7;
const UNSENT: u8 = 8;
const OVERRUNS: u8 = 9;
const EPOCH: u8 = 10;
const GAP: u8 = 11;
const GAP_OF_EVENTS: u8 = 12;
const END: u8 = 13;
const CHUNK: u8 = 14;
const SWITCHED: u8 = 15;
const MEASURED: u8 = 16;
const BEGINS: u8 = 17;
const COMMANDS: u8 = 18;
const MARK: u8 = 19;

/// Facts that a switch tells, by the numbers of SWITCHED.
const SWITCHES: [CommandFact; 3] = [
    CommandFact::Disabled(Disabling::Asked),
    CommandFact::Enabled,
    CommandFact::Disabled(Disabling::Broken),
];

impl RecordingEvent {
    /// The serialized message.
    pub fn write(&self) -> Vec<u8> {
        self.fields().write()
    }

    fn fields(&self) -> Fields {
        let of = |kind: u8| Fields { kind, ..Fields::default() };
        match self {
            Self::Start { at } => Fields { at: *at, ..of(START) },
            Self::Received { number, input, arrival, bytes_of } => Fields {
                number: *number,
                input: input.index() as u32,
                epoch: arrival.epoch.number(),
                stamp: arrival.stamp,
                at: arrival.received,
                max_ahead_ns: arrival.max_ahead_ns,
                in_doubt_from: arrival.in_doubt_from,
                zero_is_an_instant: arrival.zero_is_an_instant,
                first: *bytes_of,
                ..of(RECEIVED)
            },
            Self::Chunk(ChunkRecord { number, writer, tick, epoch, served }) => Fields {
                number: *number,
                count: *writer,
                epoch: epoch.number(),
                first: *tick as u64,
                last: u64::from(*served),
                ..of(CHUNK)
            },
            Self::Node(event) => Fields::of(event),
            Self::Gap(Gap { input, messages, first, last, from, epoch }) => Fields {
                input: input.index() as u32,
                count: *messages,
                first: *first,
                last: *last,
                stamp: *from,
                epoch: epoch.number(),
                ..of(GAP)
            },
            Self::GapOfEvents { events, from } => {
                Fields { count: *events, stamp: *from, ..of(GAP_OF_EVENTS) }
            }
            Self::Mark(Mark { at_ns, name, value }) => Fields {
                at: at_ns.map(Stamp::from_nanos),
                reason: value.clone(),
                name: name.clone(),
                ..of(MARK)
            },
            Self::End => of(END),
        }
    }

    /// The epoch of the node's clock in which it was reported, if known.
    pub(super) fn epoch(&self) -> Option<Epoch> {
        match self {
            Self::Received { arrival, .. } => Some(arrival.epoch),
            Self::Node(Event::Tick(tick)) => Some(tick.epoch),
            Self::Chunk(chunk) => Some(chunk.epoch),
            Self::Node(Event::Command(command)) => Some(command.epoch),
            Self::Node(Event::Epoch(epoch)) => Some(*epoch),
            Self::Gap(gap) => Some(gap.epoch),
            _ => None,
        }
    }

    /// Reads a serialized message.
    ///
    /// # Errors
    /// [`EventError`]
    pub fn read(message: &[u8]) -> Result<Self, EventError> {
        let fields = Fields::read(message)?;
        let Fields { kind, number, count, stamp, at, max_ahead_ns, first, last, .. } = fields;
        let epoch = Epoch::numbered(fields.epoch);
        let zero_is_an_instant = fields.zero_is_an_instant;
        let input = InputId::new(fields.input as usize);
        let outcome = |outcome| Self::Node(Event::MessageOutcome { number, input, outcome, at });
        let command =
            |fact| Self::Node(Event::Command(CommandRecord { tick: number as i64, epoch, fact }));
        let tick = |fate| {
            Self::Node(Event::Tick(TickRecord { tick: number as i64, epoch, changes: last, fate }))
        };
        Ok(match kind {
            START => Self::Start { at },
            RECEIVED => {
                let received = at;
                let seen_from = None;
                let in_doubt_from = fields.in_doubt_from;
                let arrival = Arrival {
                    stamp,
                    received,
                    epoch,
                    max_ahead_ns,
                    in_doubt_from,
                    zero_is_an_instant,
                    seen_from,
                };
                Self::Received { number, input, arrival, bytes_of: first }
            }
            TAKEN => {
                let changes = (first > 0).then_some((first, last));
                outcome(MessageOutcome::Taken { stamp, changes })
            }
            DROPPED => {
                let known = DropReason::ALL.iter().find(|known| known.name() == fields.reason);
                let reason = *known.ok_or_else(|| EventError::Content {
                    expected: "the name of a reason",
                    found: format!("'{}'", fields.reason.escape_default()),
                })?;
                outcome(MessageOutcome::Dropped(reason))
            }
            WAITS => outcome(MessageOutcome::Waits),
            PUBLISHED => {
                let digest = Some(fields.digest).filter(|digest| *digest != 0);
                tick(TickFate::Published { digest })
            }
            HELD_BACK => tick(TickFate::HeldBack(StreamId::new(fields.input as usize))),
            UNSENT => tick(TickFate::Unsent),
            OVERRUNS => Self::Node(Event::Overruns { before: number as i64, ticks: count }),
            EPOCH => Self::Node(Event::Epoch(epoch)),
            GAP => Self::Gap(Gap { input, messages: count, first, last, from: stamp, epoch }),
            GAP_OF_EVENTS => Self::GapOfEvents { events: count, from: stamp },
            END => Self::End,
            MARK => Self::Mark(Mark {
                at_ns: at.map(Stamp::nanos),
                name: fields.name,
                value: fields.reason,
            }),
            CHUNK => Self::Chunk(ChunkRecord {
                number,
                writer: count,
                tick: first as i64,
                epoch,
                served: last != 0,
            }),
            SWITCHED => {
                let known = usize::try_from(count).ok().and_then(|at| SWITCHES.get(at));
                command(*known.ok_or_else(|| EventError::Content {
                    expected: "0, 1 or 2, what a switch did",
                    found: count.to_string(),
                })?)
            }
            MEASURED => {
                command(CommandFact::Measured { group: input.index(), is_valid: count != 0 })
            }
            BEGINS => {
                let group = input.index();
                let values = fields.values;
                command(CommandFact::Begins { group, first: first as usize, values })
            }
            COMMANDS => command(CommandFact::Made { digest: fields.digest }),
            _ => {
                let expected = "the kind of an event";
                return Err(EventError::Content { expected, found: kind.to_string() });
            }
        })
    }
}

impl Fields {
    fn of(event: &Event) -> Self {
        let of = |kind: u8| Fields { kind, ..Fields::default() };
        match *event {
            Event::MessageOutcome { number, input, outcome, at } => {
                let fields = Fields { number, input: input.index() as u32, at, ..of(WAITS) };
                match outcome {
                    MessageOutcome::Waits => fields,
                    MessageOutcome::Dropped(reason) => {
                        Fields { kind: DROPPED, reason: reason.name().to_owned(), ..fields }
                    }
                    MessageOutcome::Taken { stamp, changes } => {
                        let (first, last) = changes.unwrap_or((0, 0));
                        Fields { kind: TAKEN, stamp, first, last, ..fields }
                    }
                }
            }
            Event::Tick(TickRecord { tick, epoch, changes, fate }) => {
                let (kind, input, digest) = match fate {
                    TickFate::Published { digest } => (PUBLISHED, 0, digest.unwrap_or(0)),
                    TickFate::HeldBack(stream) => (HELD_BACK, stream.index() as u32, 0),
                    TickFate::Unsent => (UNSENT, 0, 0),
                };
                let number = tick as u64;
                let epoch = epoch.number();
                Fields { number, epoch, input, last: changes, digest, ..of(kind) }
            }
            Event::Overruns { before, ticks } => {
                Fields { number: before as u64, count: ticks, ..of(OVERRUNS) }
            }
            Event::Command(CommandRecord { tick, epoch, fact }) => {
                let of = |kind| Fields { number: tick as u64, epoch: epoch.number(), ..of(kind) };
                match fact {
                    CommandFact::Enabled | CommandFact::Disabled(_) => {
                        let count = SWITCHES.iter().position(|known| *known == fact);
                        Fields { count: count.unwrap_or(0) as u64, ..of(SWITCHED) }
                    }
                    CommandFact::Measured { group, is_valid } => {
                        Fields { input: group as u32, count: u64::from(is_valid), ..of(MEASURED) }
                    }
                    CommandFact::Begins { group, first, values } => {
                        Fields { input: group as u32, first: first as u64, values, ..of(BEGINS) }
                    }
                    CommandFact::Made { digest } => Fields { digest, ..of(COMMANDS) },
                }
            }
            Event::Epoch(epoch) => {
                Fields { epoch: epoch.number(), stamp: epoch.jumped_from(), ..of(EPOCH) }
            }
        }
    }

    fn write(&self) -> Vec<u8> {
        let mut writer = self.write_to_reason();
        write_stamp(&mut writer, self.in_doubt_from);
        writer.u32(self.values.iter().len() as u32);
        self.values.iter().for_each(|value| writer.f64(value));
        writer.string(&self.name);
        writer.finish()
    }

    /// Writes the members up to the reason. The first recorders had no others.
    fn write_to_reason(&self) -> Writer {
        let mut writer = Writer::new();
        writer.u8(self.kind);
        writer.u64(self.number);
        writer.u64(self.count);
        writer.u64(self.epoch);
        writer.u32(self.input);
        write_stamp(&mut writer, self.stamp);
        write_stamp(&mut writer, self.at);
        writer.i64(self.max_ahead_ns);
        writer.u8(u8::from(self.zero_is_an_instant));
        writer.u64(self.first);
        writer.u64(self.last);
        writer.u64(self.digest);
        writer.string(&self.reason);
        writer
    }

    fn read(message: &[u8]) -> Result<Self, CdrError> {
        let mut reader = Reader::new(message)?;
        let stamp = |reader: &mut Reader<'_>| -> Result<Option<Stamp>, CdrError> {
            let has = reader.u8()? != 0;
            Ok(Some(Stamp::from_nanos(reader.i64()?)).filter(|_| has))
        };
        let mut fields = Fields {
            kind: reader.u8()?,
            number: reader.u64()?,
            count: reader.u64()?,
            epoch: reader.u64()?,
            input: reader.u32()?,
            stamp: stamp(&mut reader)?,
            at: stamp(&mut reader)?,
            max_ahead_ns: reader.i64()?,
            zero_is_an_instant: reader.u8()? != 0,
            first: reader.u64()?,
            last: reader.u64()?,
            digest: reader.u64()?,
            reason: String::from_utf8_lossy(reader.string_bytes()?).into_owned(),
            in_doubt_from: None,
            values: StartValues::default(),
            name: String::new(),
        };
        // A flag and eight bytes. A writer may have padded what is shorter.
        fields.in_doubt_from = match reader.left() < 9 {
            false => stamp(&mut reader)?,
            // Of a recorder that did not know this member: each message was in doubt that had a smaller limit.
            true => Some(Stamp::MIN).filter(|_| fields.max_ahead_ns < MAX_AHEAD_NS),
        };
        // No other kind has values, and the first recorders did not know this member.
        if fields.kind == BEGINS {
            let read = reader.f64_sequence()?;
            let values: Vec<f64> = (0..read.len()).filter_map(|at| read.get(at)).collect();
            fields.values = StartValues::new(&values);
        }
        if fields.kind == MARK {
            reader.f64_sequence()?;
            fields.name = String::from_utf8_lossy(reader.string_bytes()?).into_owned();
        }
        Ok(fields)
    }
}

fn write_stamp(writer: &mut Writer, stamp: Option<Stamp>) {
    writer.u8(u8::from(stamp.is_some()));
    writer.i64(stamp.map_or(0, Stamp::nanos));
}

#[cfg(test)]
mod tests;
