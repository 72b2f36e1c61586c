//! Locks, atomic numbers and threads of the parts that `crates/interleavings` compiles again, with types that try all
//! orders of threads.

pub(crate) use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
pub(crate) use std::thread::{Thread, current};

pub(crate) use robocache_ops::sync::{PiMutex, lock};
