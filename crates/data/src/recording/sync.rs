//! Atomic numbers, locks and the channel of the recording queue, which `crates/interleavings` compiles again, with types
//! that try all orders of threads.

pub(super) use std::sync::Mutex;
pub(super) use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
pub(super) use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

pub(super) use robocache_ops::sync::lock;

/// Lets other threads go on.
pub(super) fn pause() {
    std::thread::sleep(Duration::from_micros(20));
}
