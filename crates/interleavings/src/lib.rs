//! Lock-free parts of the node, in all orders of their threads.
//!
//! Five parts are shared by threads of real-time priority: the outbox, the queue of the encode workers, the system's clock,
//! the wake of a thread, and the queue of a recording. Their files are compiled here again, with the types of loom
//! ([`sync`]). loom runs a model once for each order in which its threads may go on, and for each value that a load may
//! read then. It also finds a thread that waits for ever.
//!
//! Each function is a model. It panics if something is wrong.

#![allow(clippy::unwrap_used, clippy::missing_panics_doc)] // its functions are tests

pub mod clock;
mod explore;
pub mod recording;
pub mod runtime;
mod sync;
pub mod waking;

mod time_source {
    pub(crate) use robocache_runtime::TimeSource;
}
