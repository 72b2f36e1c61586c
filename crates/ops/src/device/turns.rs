//! Pinned memory that operations take in turn, so that the host can write while the device reads.

use std::sync::{Arc, Mutex};

use super::driver::{Device, Event, Stream};
use super::{DeviceError, PinnedBuffer};
use crate::sync::lock;

/// Memory for operations on any streams. It grows with what they need.
#[derive(Debug)]
pub struct PinnedTurns {
    device: Arc<Device>,
    most: usize,
    turns: Mutex<Turns>,
}

#[derive(Debug)]
struct Turns {
    all: Vec<Turn>,
    next: usize,
}

#[derive(Debug)]
struct Turn {
    memory: PinnedBuffer,
    /// The last operation that reads it is done.
    done: Event,
}

impl PinnedTurns {
    /// Memory for `most` operations that may be under way before a call waits for one of them.
    pub fn new(device: &Arc<Device>, most: usize) -> Self {
        let turns = Mutex::new(Turns { all: Vec::new(), next: 0 });
        PinnedTurns { device: device.clone(), most: most.max(1), turns }
    }

    /// Calls `act`, which writes `bytes` bytes (aligned to a page) and puts their reader on `stream`. First it waits
    /// for the previous reader of this memory. That one is almost always done.
    ///
    /// # Errors
    /// What `act` returns, or the device fails.
    pub fn with<E: From<DeviceError>>(
        &self,
        bytes: usize,
        stream: &Stream,
        act: impl FnOnce(&mut PinnedBuffer) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut turns = lock(&self.turns);
        let at = turns.next % self.most;
        let reserve = || PinnedBuffer::new(&self.device, bytes.next_power_of_two());
        if turns.all.len() == at {
            let done = Event::new(&self.device, false)?;
            turns.all.push(Turn { memory: reserve()?, done });
        }
        // Only now: a turn that could not be made is tried again.
        turns.next += 1;
        let turn = &mut turns.all[at];
        turn.done.synchronize("finish an earlier operation")?;
        if turn.memory.len() < bytes {
            turn.memory = reserve()?;
        }
        let acted = act(&mut turn.memory);
        turn.done.record(stream)?;
        acted
    }
}
