//! Gives a [`Pipeline`](robocache_core::pipeline::Pipeline) a clock and threads. It needs no ROS: the user gives it
//! messages and a [`Publisher`].
//!
//! There are several threads, so that work with a deadline never waits for work without one:
//!
//! - *tick* ([`fuse`]) sleeps until the next tick, fuses, and leaves the tensor in the [`outbox`]. It is a loop on a grid
//!   ([`ticker`]).
//! - *command* ([`commands`]), if there are commands: makes them at its own ticks. It is a loop on a grid, too.
//! - *publish* ([`publishing`]) gives the newest tensor to the publisher, which may take long.
//! - *encode* ([`workers`]), one or several, push the large messages that wait in the [`queue`]. The
//!   first also drops the messages whose wait for a transform is over.
//! - The user receives messages on its own threads, which [`Threads::spawn`] starts, and calls
//!   [`Runtime::receive`]. Small messages go straight into their rings, large ones into the queue.
//!
//! When the [`clock`] jumps back, an [`Epoch`](robocache_ops::time::Epoch) begins. Each message and each
//! tick carries the epoch in which it was stamped or due. The first thread that brings a newer
//! epoch clears the rings. The rings then refuse messages of earlier epochs, so no thread has to
//! wait for another.
//!
//! [`Runtime::give`] and [`Runtime::tick`] are for a caller that has a clock and threads of its own.
//!
//! A [`Player`] does the same with recorded messages, in their order and without a clock of its own.
//!
//! [`measure`] counts what happens. [`health`] judges that, and reports it in words.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

pub mod clock;
mod commanding;
mod commands;
mod companion;
mod direct;
mod encode_threads;
mod error;
mod fuse;
pub mod health;
mod intake;
mod latched;
pub mod measure;
mod offered_qos;
mod outbox;
mod player;
mod ports;
mod priority;
mod publisher;
mod publishing;
mod queue;
mod recorder;
mod runtime;
mod schedule;
mod sim_clock;
mod standstill;
mod state;
#[cfg(test)]
mod stepped;
mod steps;
mod sync;
#[cfg(test)]
mod tests;
mod threads;
mod ticker;
mod time_source;
mod waiting;
mod workers;

pub use clock::{Clock, Reading, Transit, decode_clock};
pub use commands::{
    ChunkSource, CommandEnds, CommandPublisher, Commands, GroupSeen, GroupState, MOST_WAITING,
    NotEnabled,
};
pub use encode_threads::{LookAhead, ROWS_AHEAD, RecordedArray, Ticket};
pub use error::RuntimeError;
pub use offered_qos::{OfferedQos, PublisherSeen, SharedQos};
pub use player::{CommandDue, Player, Received, Served, Tick};
pub use ports::{DueTick, Observer, Publisher, Refused};
pub use priority::{LockMemoryError, LockedMemory, Placement, lock_memory};
pub use publisher::{Origin, PublisherId};
pub use queue::{Message, QUEUED_MESSAGES};
pub use recorder::{
    ChunkRecord, ClockMessage, CommandFact, CommandRecord, Event, MessageOutcome, ReceivedMessage,
    Recorder, RecorderStatus, START_VALUES, SharedBytes, StartValues, TickFate, TickRecord,
};
pub use runtime::Runtime;
pub use sim_clock::RuntimeSimClock;
pub use standstill::{STILL, Standstills, Witness};
pub use state::{GridStats, InputState, StreamState, TickStats};
pub use steps::{Next, Steps, drive};
pub use threads::{SteppedLoop, ThreadOptions, Threads, stepped_loops};
pub use time_source::{TimeSource, VirtualTime};
