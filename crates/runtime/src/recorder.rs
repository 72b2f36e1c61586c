//! Reports of the runtime to a recorder: every message with its arrival, and the outcome of each message and tick.
//!
//! Several threads report, so the order of reports means little. The numbers show the order of changes:
//! [`MessageOutcome::Taken`] has the changes of the rings that a message made, and [`TickRecord::changes`] says how
//! many of them a tick saw.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use super::OfferedQos;
use robocache_core::command::Disabling;
use robocache_core::pipeline::{Accepted, Arrival};
use robocache_core::rejected::DropReason;
use robocache_core::spec::{InputId, StreamId};
use robocache_ops::time::{Epoch, Stamp};

/// The bytes of a message, which the recorder and the pipeline share.
pub type SharedBytes = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// Takes what a node receives and does. All threads call it, also the tick thread: no method may wait.
pub trait Recorder: Send + Sync {
    /// Takes a message before it is pushed. Returns its number, by which [`Event::MessageOutcome`] names it, or 0 if
    /// the recorder has no room for it, or does not record its input. Then the runtime reports no outcome for it.
    fn received(&self, message: ReceivedMessage) -> u64;

    /// Takes a message of a simulator's clock.
    fn clock_set(&self, message: ClockMessage);

    /// Takes what the publishers of an input's topic offer, or those of `/clock` for `None`. The thread that reads the graph
    /// calls it whenever it finds some, also if nothing has changed.
    fn offered(&self, input: Option<InputId>, offers: Vec<OfferedQos>);

    /// Takes a chunk of actions that a command tick has found.
    fn chunk(&self, found: ChunkRecord, message: SharedBytes);

    /// Takes an event.
    fn note(&self, event: Event);

    /// Says how the recording goes.
    fn status(&self) -> RecorderStatus;
}

/// A message as an input received it. A clone shares its bytes.
#[derive(Clone)]
pub struct ReceivedMessage {
    /// The input.
    pub input: InputId,
    /// Its CDR bytes.
    pub bytes: SharedBytes,
    /// The arrival that the pipeline uses.
    pub arrival: Arrival,
    /// When it was received. This is the arrival, unless a simulator has the node's clock: then it is the
    /// system's time.
    pub at: Stamp,
    /// When it was published, on the publisher's system clock, if the middleware tells.
    pub published: Option<Stamp>,
}

/// A message on `/clock`, as it was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockMessage {
    /// The instant that it has.
    pub stamp: Stamp,
    /// When it was received, on the system's clock.
    pub at: Stamp,
    /// As for [`ReceivedMessage::published`].
    pub published: Option<Stamp>,
}

/// Something that the node did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// An epoch of the node's clock began.
    Epoch(Epoch),
    /// The outcome of a message. One that waits for a transform has a second outcome.
    MessageOutcome {
        /// The number of the message.
        number: u64,
        /// Its input.
        input: InputId,
        /// Its outcome.
        outcome: MessageOutcome,
        /// When, on the node's clock; `None` before it runs.
        at: Option<Stamp>,
    },
    /// The outcome of a tick.
    Tick(TickRecord),
    /// Something at a command tick.
    Command(CommandRecord),
    /// Ticks that were due and not served.
    Overruns {
        /// The tick that was served after them.
        before: i64,
        /// How many they are.
        ticks: u64,
    },
}

/// The outcome of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageOutcome {
    /// It was taken.
    Taken {
        /// The stamp of its newest row, offset included; `None` if it became no row, or is a plan.
        stamp: Option<Stamp>,
        /// The first and the last change of the rings that it made.
        changes: Option<(u64, u64)>,
    },
    /// It was dropped.
    Dropped(DropReason),
    /// It waits for a transform.
    Waits,
}

impl From<&Accepted> for MessageOutcome {
    fn from(accepted: &Accepted) -> Self {
        MessageOutcome::Taken { stamp: accepted.stamp, changes: accepted.changes }
    }
}

/// A tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TickRecord {
    /// Its number.
    pub tick: i64,
    /// Its epoch.
    pub epoch: Epoch,
    /// How many changes of the rings it saw.
    pub changes: u64,
    /// Its outcome.
    pub fate: TickFate,
}

/// The outcome of a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TickFate {
    /// Its tensor was given to the publisher.
    Published {
        /// The tensor's digest, or that of [its recorded segments](super::Runtime::recorded_segments); `None` if tensors are
        /// not sealed.
        digest: Option<u64>,
    },
    /// A required stream was not valid.
    HeldBack(StreamId),
    /// A newer tensor took its place before it was published.
    Unsent,
}

/// A chunk of actions that a command tick has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkRecord {
    /// Its number, from 1.
    pub number: u64,
    /// A number that tells its writer from others.
    pub writer: u64,
    /// The command tick.
    pub tick: i64,
    /// The epoch of the command tick.
    pub epoch: Epoch,
    /// True if the node had served the tick that it answers.
    pub served: bool,
}

/// Something that commands depend on, or what they are, at a command tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandRecord {
    /// The command tick.
    pub tick: i64,
    /// Its epoch.
    pub epoch: Epoch,
    /// The fact itself.
    pub fact: CommandFact,
}

/// A fact of a command tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandFact {
    /// Commands were enabled.
    Enabled,
    /// Commands were disabled.
    Disabled(Disabling),
    /// The measured values of a group are valid from this tick on, or not.
    Measured {
        /// Position of the group.
        group: usize,
        /// True if they are valid.
        is_valid: bool,
    },
    /// The commands of a group begin at measured values.
    Begins {
        /// Position of the group.
        group: usize,
        /// Position of the first of these values among those of the group.
        first: usize,
        /// Bits of the values.
        values: StartValues,
    },
    /// The commands of all groups have this digest.
    Made {
        /// See [`CommandDigest`](robocache_core::command::CommandDigest).
        digest: u64,
    },
}

/// Bits of up to eight measured values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StartValues {
    bits: [u64; START_VALUES],
    len: usize,
}

/// Most values of a [`StartValues`].
pub const START_VALUES: usize = 8;

impl StartValues {
    /// The first of these values.
    pub fn new(values: &[f64]) -> Self {
        let mut bits = [0; START_VALUES];
        for (bits, value) in bits.iter_mut().zip(values) {
            *bits = value.to_bits();
        }
        StartValues { bits, len: values.len().min(START_VALUES) }
    }

    /// The values.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = f64> + '_ {
        self.bits[..self.len].iter().map(|bits| f64::from_bits(*bits))
    }
}

/// How a recording goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecorderStatus {
    /// Its folder; empty between two episodes.
    pub folder: PathBuf,
    /// Messages in it.
    pub messages: u64,
    /// Bytes in it.
    pub bytes: u64,
    /// Messages of it in files that were deleted, because they were beyond a limit.
    pub deleted: u64,
    /// Messages for which there was no room.
    pub lost: u64,
    /// Events for which there was no room.
    pub lost_events: u64,
    /// Seconds until the disk is full, if that is in ten minutes at most \[s\].
    pub full_in_s: Option<u64>,
    /// Why it ended before the node did, or why the newest episode ended before anybody asked for it.
    pub failed: Option<String>,
}

impl fmt::Debug for ReceivedMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let len = (*self.bytes).as_ref().len();
        write!(f, "{len} bytes of {:?}, {:?}", self.input, self.arrival)
    }
}

/// Shared bytes as those of a message on its way.
pub(super) struct SharedMessage(pub SharedBytes);

impl AsRef<[u8]> for SharedMessage {
    fn as_ref(&self) -> &[u8] {
        (*self.0).as_ref()
    }
}
