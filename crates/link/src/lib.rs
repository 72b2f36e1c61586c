//! Connections to a middleware, without ROS: decides what is taken, what was lost, and what replaces a connection.
//!
//! [`middleware`] has the traits of what a connection consists of. The node implements them with rcl. A test or a simulation
//! may implement them without ROS.
//!
//! - [`Spinner`] takes all waiting messages of some subscriptions ([`intake`], [`buffers`]), and counts those that were
//!   lost ([`losses`]) or that waited while the process stood still ([`after_standstill`]).
//! - [`GraphWatch`] reads the publishers of the inputs. So the intake knows what to ask for.
//! - [`Recovery`] decides when a new connection must be made. [`Connector`] asks for it, and gives its parts to their
//!   threads. [`handover`] goes over from one part to the next without a gap.
//!
//! The loops are steps ([`Steps`](robocache_runtime::Steps)): they wait for nothing.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod after_standstill;
mod buffers;
mod chunks;
mod clock;
mod connector;
mod error;
mod graph;
mod handover;
mod input;
mod intake;
mod losses;
mod middleware;
mod recovery;
mod spin;
mod takes;
mod wanted;

pub use buffers::MessageMemory;
pub use connector::{Connecting, Connector, Handed, Orders};
pub use error::LinkError;
pub use graph::GraphWatch;
pub use handover::{Overlap, Switch, found_as_many};
pub use intake::Subscriptions;
pub use middleware::{
    EventTotals, Graph, Making, MessageInfo, Middleware, MiddlewareError, Subscription,
};
pub use recovery::{LostPort, Recovery};
pub use spin::Spinner;
pub use wanted::{CHUNK_TOPIC, CHUNK_TYPE, CLOCK_TOPIC, Wanted};
