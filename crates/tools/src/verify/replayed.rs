//! Which changes of the rings the replay's messages make.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use robocache_core::spec::InputId;
use robocache_ops::sync::lock;
use robocache_ops::time::Stamp;
use robocache_runtime::{
    ChunkRecord, ClockMessage, Event, MessageOutcome, OfferedQos, ReceivedMessage, Recorder,
    RecorderStatus, SharedBytes,
};

/// The rows of a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReplayedRows {
    pub number: u64,
    pub input: InputId,
    /// Of the newest row.
    pub stamp: Option<Stamp>,
    pub changes: (u64, u64),
}

/// Notes which message made each row of the replay. If a message waits for a transform, its row comes later.
#[derive(Default)]
pub(super) struct Replayed {
    /// The number of the message that comes next.
    number: AtomicU64,
    made: Mutex<Vec<ReplayedRows>>,
}

impl Replayed {
    /// Says the number that the next message has in the recording.
    pub(super) fn next_is(&self, number: u64) {
        self.number.store(number, Ordering::Relaxed);
    }

    /// Takes out what was made since the last call.
    pub(super) fn take(&self) -> Vec<ReplayedRows> {
        std::mem::take(&mut lock(&self.made))
    }
}

impl Recorder for Replayed {
    fn chunk(&self, _: ChunkRecord, _: SharedBytes) {}

    fn received(&self, _: ReceivedMessage) -> u64 {
        self.number.load(Ordering::Relaxed)
    }

    fn clock_set(&self, _: ClockMessage) {}

    fn offered(&self, _: Option<InputId>, _: Vec<OfferedQos>) {}

    fn note(&self, event: Event) {
        if let Event::MessageOutcome { number, input, outcome, .. } = event
            && let MessageOutcome::Taken { stamp, changes: Some(changes) } = outcome
        {
            lock(&self.made).push(ReplayedRows { number, input, stamp, changes });
        }
    }

    fn status(&self) -> RecorderStatus {
        RecorderStatus::default()
    }
}
