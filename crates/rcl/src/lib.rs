//! A small safe wrapper over rcl, the C library of ROS 2.
//!
//! It offers what the node needs and r2r 0.9 hides: any type by its name, a message in the node's
//! own buffer, the message's info, and the events of a subscription. A drop ends everything. The
//! bindings (`r2r_rcl`) and the generated messages are those of r2r.
//!
//! - [`Context`]: ROS in this process. [`Node`]: names, parameter overrides, the graph.
//! - [`Subscription`]: takes [`SerializedMessage`]s with their [`MessageInfo`]; has [`Event`]s.
//! - [`Publisher`]: publishes bytes. [`MessagePublisher`]: publishes r2r's generated messages.
//! - [`Service`]: serves one of r2r's generated services.
//! - [`Middleware`]: which one answers, and what it tells.
//! - [`Wake`]: ends the wait of a thread when a message or a request comes. [`GraphChanges`]: those of the graph.
//!
//! Each handle keeps its node and its context alive, so the caller may drop handles in any order. A
//! drop ends its own entity at once, so that the entity leaves the graph.
//!
//! Each `unsafe` block relies on these invariants:
//!
//! - A [`Raw`] stays at its address, and rcl has initialised it before a handle holds it.
//! - The node outlives its entities. An entity's news, which the middleware calls back with, outlives the entity.
//! - [`NodeInner::lock`] is held during every call that changes the node and that rcl's headers
//!   call not thread-safe.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]
#![allow(unsafe_code)] // calls rcl, a C library; every block says why it is sound
#![allow(clippy::wildcard_imports)] // of r2r_rcl, whose names all begin with rcl, rmw or rcutils

mod context;
mod error;
mod event;
mod graph;
mod message;
mod middleware;
mod node;
mod node_inner;
mod parameters;
mod publisher;
mod service;
mod subscription;
mod type_support;
mod wake;

pub use context::Context;
pub use error::RclError;
pub use event::{Event, EventStatus, IncompatibleQos, MessagesLost};
pub use graph::GraphChanges;
pub use message::{Gid, Memory, MessageInfo, SerializedMessage};
pub use middleware::Middleware;
pub use node::{Node, PublisherInfo};
pub use publisher::{MessagePublisher, Publisher};
pub use service::{RequestId, Service};
pub use subscription::{EventStatuses, Events, Subscription};
pub use wake::Wake;

use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use r2r_rcl::{
    rmw_qos_durability_policy_e, rmw_qos_history_policy_e, rmw_qos_profile_t,
    rmw_qos_reliability_policy_e, rmw_time_s,
};

/// Ends the process at once, without the handlers that libraries have registered for its end. Those of a
/// middleware that hangs would wait for it.
pub fn leave(code: i32) -> ! {
    // SAFETY: the function ends the process and touches no memory of it.
    unsafe { nix::libc::_exit(code) }
}

/// The result of every call.
pub type Result<T> = std::result::Result<T, RclError>;

/// The quality of service of a topic; other policies have rcl's defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Qos {
    /// Whether lost messages are sent again.
    pub reliable: bool,
    /// Whether a new subscription gets messages that were published before.
    pub transient_local: bool,
    /// Number of messages that a queue keeps; a full queue drops the oldest.
    pub depth: usize,
    /// When a message is too old to be delivered; `None`: never.
    pub lifespan: Option<Duration>,
}

impl Qos {
    /// Reliable and volatile, with a queue of `depth` messages.
    pub const fn reliable(depth: usize) -> Self {
        Qos { reliable: true, transient_local: false, depth, lifespan: None }
    }

    /// Best effort and volatile, with a queue of `depth` messages.
    pub const fn best_effort(depth: usize) -> Self {
        Qos { reliable: false, ..Qos::reliable(depth) }
    }

    fn put_into(self, profile: &mut rmw_qos_profile_t) {
        profile.history = rmw_qos_history_policy_e::RMW_QOS_POLICY_HISTORY_KEEP_LAST;
        profile.depth = self.depth;
        profile.reliability = match self.reliable {
            true => rmw_qos_reliability_policy_e::RMW_QOS_POLICY_RELIABILITY_RELIABLE,
            false => rmw_qos_reliability_policy_e::RMW_QOS_POLICY_RELIABILITY_BEST_EFFORT,
        };
        profile.durability = match self.transient_local {
            true => rmw_qos_durability_policy_e::RMW_QOS_POLICY_DURABILITY_TRANSIENT_LOCAL,
            false => rmw_qos_durability_policy_e::RMW_QOS_POLICY_DURABILITY_VOLATILE,
        };
        if let Some(lifespan) = self.lifespan {
            profile.lifespan =
                rmw_time_s { sec: lifespan.as_secs(), nsec: lifespan.subsec_nanos().into() };
        }
    }
}

/// A struct of rcl at a fixed address, because rcl's structs point at each other. Only rcl reads
/// its fields. A drop only frees the memory; the handle around it calls rcl's `_fini` first.
struct Raw<T: Copy>(NonNull<T>);

impl<T: Copy> Raw<T> {
    fn new(zero: T) -> Self {
        Raw(NonNull::from(Box::leak(Box::new(zero))))
    }

    fn get(&self) -> *mut T {
        self.0.as_ptr()
    }
}

impl<T: Copy> Drop for Raw<T> {
    fn drop(&mut self) {
        // SAFETY: the address is that of the Box in `new`, and nothing else frees it.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

/// Locks a mutex, even if a thread panicked while it held the lock: rcl's own state is not Rust's to judge.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
