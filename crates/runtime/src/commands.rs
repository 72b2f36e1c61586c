//! Commands: what all threads share of them. The loop *command* ([`commanding`](super::commanding)) makes them.
//!
//! Chunks and switches wait in a queue without a lock, so that a thread that gives one never holds up a command tick. Each
//! tick first takes what waits, in its order. What it finds is the only thing that the commands depend on.

mod served;

use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use crossbeam_queue::ArrayQueue;

use super::SharedBytes;
use super::state::GridStats;
use crate::measure::Latency;
use robocache_core::command::{GroupCounts, Stage, WaitsFor};
use robocache_core::pipeline::Counter;
use robocache_core::spec::CommandsSpec;
use robocache_ops::sync::lock;
pub(crate) use served::Served;

/// Chunks and switches that may wait for a tick.
pub const MOST_WAITING: usize = 256;

/// Sends commands. The command thread owns it.
pub trait CommandPublisher: Send {
    /// Sends the message of a group's command.
    fn send(&mut self, group: usize, message: &[u8]);

    /// Sends the status of a group.
    fn tell(&mut self, group: usize, message: &[u8]);

    /// How many subscriptions take a group's commands now; `None` if that is unknown. It is called once a second.
    fn audience(&mut self, group: usize) -> Option<usize>;
}

/// Chunks that wait outside of the process. The command thread owns it.
pub trait ChunkSource: Send {
    /// Gives each chunk that waits now: a message with an ActionChunk, and a number that tells its writer from others. It
    /// is called in each command tick: it does not wait, and gives a bounded number. Returns how many chunks were lost.
    fn take(&mut self, give: &mut dyn FnMut(&[u8], u64)) -> u64;
}

/// The ends of the way back that the command thread owns.
pub struct CommandEnds {
    /// Sends the commands.
    pub publisher: Box<dyn CommandPublisher>,
    /// Chunks beside those that are given to [`Commands`].
    pub source: Option<Box<dyn ChunkSource>>,
}

/// State of the commands that the threads share.
pub struct Commands {
    /// The configuration.
    pub spec: CommandsSpec,
    /// Counters of the loop.
    pub grid: GridStats,
    /// Time from a command tick's instant until its messages are sent.
    pub latency: Latency,
    /// Chunks that found no room, and were dropped.
    pub overflowed: Counter,
    /// By their order in the configuration.
    pub groups: Vec<GroupState>,
    pub(crate) served: Served,
    pub(super) waiting: ArrayQueue<Waiting>,
    /// Memory of chunks that were taken. The thread that gives chunks frees it, so that a tick does not.
    taken: ArrayQueue<SharedBytes>,
    /// True if a tick must disable all groups.
    must_disable: AtomicBool,
    /// How often commands were disabled. An enabling from before does not count.
    disabled: AtomicU64,
    /// True if the node ends or is deactivated, so that nothing enables commands any more.
    ends: AtomicBool,
    pub(super) at_rest: AtomicBool,
}

/// State of a group that other threads may read.
#[derive(Debug, Default)]
pub struct GroupState {
    pub(super) stage: AtomicU8,
    pub(super) waits_for: AtomicU8,
    /// One more than the subscriptions that take the commands; 0 if that is unknown.
    pub(super) audience: AtomicU64,
    pub(super) enabled: AtomicBool,
    pub(super) sequence: AtomicU64,
    pub(super) delay_ticks: AtomicU64,
    pub(super) counts: Mutex<GroupCounts>,
}

/// A group at the last status.
#[derive(Clone, Debug)]
pub struct GroupSeen {
    /// The stage of the group.
    pub stage: Stage,
    /// The reason why the group waits.
    pub waits_for: WaitsFor,
    /// Subscriptions that take its commands; `None` if that is unknown.
    pub audience: Option<u64>,
    /// True if its commands are enabled.
    pub enabled: bool,
    /// Number of the newest chunk that counts; 0 before the first.
    pub sequence: u64,
    /// Command ticks from the instant that this chunk answers to the one that found it.
    pub delay_ticks: u64,
    /// Numbers since the start.
    pub counts: GroupCounts,
}

/// Something that waits for a command tick.
pub(crate) enum Waiting {
    /// A message with a chunk, and a number of its writer.
    Chunk(SharedBytes, u64),
    /// Enables commands, if they were disabled so often when it was asked for.
    Enable(u64),
    Disable,
}

/// Reason for which commands are not enabled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotEnabled {
    /// A group has no measured values to begin at.
    #[error(
        "group {group} has no valid measured values of {stream}: commands begin at them. Look at `ros2 topic echo \
         /diagnostics`, part {stream}"
    )]
    NotMeasured {
        /// The group.
        group: String,
        /// The stream that it starts from.
        stream: String,
    },
    /// The clock does not run.
    #[error("the node's clock does not run yet: nothing has come on /clock")]
    NoClock,
    /// Too much waits.
    #[error("the command thread has not run for long, and {MOST_WAITING} chunks wait for it")]
    Full,
    /// The node ends, or is deactivated.
    #[error("the node ends, or is being deactivated")]
    Ends,
}

impl Commands {
    pub(crate) fn new(spec: &CommandsSpec) -> Self {
        Commands {
            grid: GridStats::default(),
            latency: Latency::default(),
            overflowed: Counter::default(),
            groups: spec.groups.iter().map(|_| GroupState::default()).collect(),
            served: Served::default(),
            waiting: ArrayQueue::new(MOST_WAITING),
            taken: ArrayQueue::new(MOST_WAITING),
            must_disable: AtomicBool::new(false),
            disabled: AtomicU64::new(0),
            ends: AtomicBool::new(false),
            at_rest: AtomicBool::new(true),
            spec: spec.clone(),
        }
    }

    /// Name of the thread that serves command ticks.
    pub const THREAD: &'static str = "command";

    /// Gives a chunk to the next command tick: a message with an ActionChunk, and a number that tells its writer from
    /// others. Without room it is dropped, and counted.
    pub fn give(&self, message: SharedBytes, writer: u64) {
        while self.taken.pop().is_some() {}
        let given = self.waiting.push(Waiting::Chunk(message, writer));
        self.overflowed.add(u64::from(given.is_err()));
    }

    /// Enables all groups, from the next command tick on, without a look at what is measured.
    ///
    /// # Errors
    /// [`NotEnabled::Full`], [`NotEnabled::Ends`]
    pub fn arm(&self) -> Result<(), NotEnabled> {
        let enable = Waiting::Enable(self.disabled.load(Ordering::Acquire));
        if self.ends.load(Ordering::Acquire) {
            return Err(NotEnabled::Ends);
        }
        self.waiting.push(enable).map_err(|_| NotEnabled::Full)
    }

    /// Disables all groups: each decelerates first, from the next command tick on.
    pub fn disable(&self) {
        self.disabled.fetch_add(1, Ordering::AcqRel);
        self.must_disable.store(true, Ordering::Release);
    }

    /// Disables all groups for good, because the node ends or is deactivated.
    pub fn end(&self) {
        self.ends.store(true, Ordering::Release);
        self.disable();
    }

    /// True if no group sends commands, and none will before commands are enabled.
    pub fn is_at_rest(&self) -> bool {
        self.at_rest.load(Ordering::Acquire)
    }

    /// Takes what waits for a command tick.
    pub(super) fn take(&self) -> Option<Waiting> {
        if self.must_disable.swap(false, Ordering::AcqRel) {
            return Some(Waiting::Disable);
        }
        loop {
            let waiting = self.waiting.pop()?;
            match waiting {
                Waiting::Enable(of) if of != self.disabled.load(Ordering::Acquire) => {}
                other => return Some(other),
            }
        }
    }

    /// Gives back the memory of a chunk.
    pub(super) fn give_back(&self, message: SharedBytes) {
        // There is room: no more are taken than wait at most, and each chunk that is given empties it.
        drop(self.taken.push(message));
    }
}

impl GroupState {
    /// The group at the last status.
    pub fn seen(&self) -> GroupSeen {
        let stage = self.stage.load(Ordering::Relaxed);
        let waits_for = self.waits_for.load(Ordering::Relaxed);
        let waits_for = WaitsFor::ALL.into_iter().find(|known| *known as u8 == waits_for);
        GroupSeen {
            stage: Stage::ALL.into_iter().find(|known| *known as u8 == stage).unwrap_or_default(),
            waits_for: waits_for.unwrap_or_default(),
            audience: self.audience.load(Ordering::Relaxed).checked_sub(1),
            enabled: self.enabled.load(Ordering::Relaxed),
            sequence: self.sequence.load(Ordering::Relaxed),
            delay_ticks: self.delay_ticks.load(Ordering::Relaxed),
            counts: lock(&self.counts).clone(),
        }
    }
}

impl fmt::Debug for Commands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Commands").field("groups", &self.groups).finish_non_exhaustive()
    }
}
