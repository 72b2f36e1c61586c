//! Parts that only Fast DDS needs, the default middleware of ROS 2. They are fenced in here.
//!
//! They know of Fast DDS:
//!
//! - A message that does not fit the shared memory of its publisher is lost or late. [`profile`] sizes
//!   the shared memory of this process.
//! - A process that is killed while it begins may leave a file in shared memory for which the next
//!   process waits forever. [`slow_start`] warns of that.
//! - A process whose receiving threads did not run for a second may be cut off from its publishers for good
//!   ([`Middleware::cuts_off`](robocache_link::Middleware::cuts_off)). [`shared_memory`] has the evidence, and
//!   [`Recovery`](robocache_link::Recovery) decides when a new connection must be made.
//! - What comes between the first announcement of a participant and the registration of its receivers is dropped
//!   (`RTPSParticipantImpl::enable`). An answer that is lost in this way comes again with the next announcement of its
//!   sender, up to three seconds later. Until then, only the sender knows the new participant.
//!
//! Of the node, this folder uses only [`middleware`](super::middleware). It does nothing if another middleware
//! answers ([`robocache_rcl::Middleware`]).

mod profile;
mod shared_memory;
mod slow_start;

pub use profile::{ensure as ensure_profile, warning as segment_warning};
pub(crate) use shared_memory::lost_ports;

use robocache_rcl::{Context, Middleware, Node};

/// Begins a node with shared memory for messages of `message_bytes` in all: those that it may publish at
/// the same time. Also returns a warning if the shared memory has another size.
///
/// # Errors
/// The middleware does not begin.
pub fn begin_node(
    context: &Context,
    name: &str,
    message_bytes: usize,
) -> robocache_rcl::Result<(Node, Option<String>)> {
    if !Middleware::in_use().is_fast_dds() {
        return Ok((Node::new(context, name, "")?, None));
    }
    let before = shared_memory::segments();
    // Its drop removes the file, which Fast DDS reads when the first node of the process begins.
    let profile = before.is_empty().then(|| profile::write(message_bytes)).transpose();
    let begun = slow_start::watch();
    let node = Node::new(context, name, "")?;
    drop(begun);
    if let Some(lacking) = shared_memory::lacking_since(&before, &shared_memory::segments()) {
        tracing::error!("{lacking}");
    }
    let warning = profile.err().map(|error| {
        format!("failed to write a profile for Fast DDS, its default is used: {error}")
    });
    Ok((node, warning))
}
