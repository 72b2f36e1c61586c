//! A small safe wrapper over rcl, the C library of ROS 2.
//!
//! It offers what the node needs and r2r 0.9 hides: any type by its name, a message in the node's
//! own buffer, the message's info, and the events of a subscription. A drop ends everything. The
//! bindings (`r2r_rcl`) and the generated messages are those of r2r.
//!
//! - [`Context`]: ROS in this process. [`Node`]: names, parameter overrides, the graph.
//! - [`Subscription`]: takes [`SerializedMessage`]s with their [`MessageInfo`]; has [`Event`]s.
//! - [`Publisher`]: publishes bytes. [`MessagePublisher`]: publishes r2r's generated messages.
//! - [`Service`]: serves one of r2r's generated services. [`NamedService`]: one of any type, by bytes.
//! - [`Middleware`]: which one answers, and what it tells.
//! - [`Wake`]: ends the wait of a thread when a message or a request comes. [`GraphChanges`]: those of the graph.
//!
//! Each handle keeps its node and its context alive, so the caller may drop handles in any order. A
//! drop ends its own entity at once, so that the entity leaves the graph.
//!
//! Each `unsafe` block relies on these invariants:
//!
//! - A [`Raw`](raw::Raw) stays at its address, and rcl has initialised it before a handle holds it.
//! - The node outlives its entities. An entity's news, which the middleware calls back with, outlives the entity.
//! - [`NodeInner::lock`](node_inner::NodeInner::lock) is held during every call that changes the node and that rcl's headers
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
mod news;
mod node;
mod node_inner;
mod parameters;
mod publisher;
mod qos;
mod raw;
mod service;
mod service_types;
mod subscription;
mod sync;
mod type_support;
mod wake;

pub use context::Context;
pub use error::{RclError, Result};
pub use event::{Event, EventStatus, IncompatibleQos, MessagesLost};
pub use graph::GraphChanges;
pub use message::{Gid, Memory, MessageInfo, SerializedMessage};
pub use middleware::Middleware;
pub use node::{Node, PublisherInfo};
pub use publisher::{MessagePublisher, Publisher};
pub use qos::Qos;
pub use service::{NamedService, RequestId, Service};
pub use subscription::{EventStatuses, Events, Subscription};
pub use wake::Wake;

/// Ends the process at once, without the handlers that libraries have registered for its end. Those of a
/// middleware that hangs would wait for it.
pub fn leave(code: i32) -> ! {
    // SAFETY: the function ends the process and touches no memory of it.
    unsafe { nix::libc::_exit(code) }
}
