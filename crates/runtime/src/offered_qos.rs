//! Which quality of service an input asks for, as its publishers offer it.

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};

use robocache_core::spec::{Durability, InputSpec, Reliability};

/// A publisher of an input's topic, as the graph shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublisherSeen {
    /// The node's full name; `None` while the graph does not know it. A publisher is discovered a
    /// moment before its node, and one that is not of ROS has no node.
    pub node: Option<String>,
    /// The type it publishes.
    pub ros_type: String,
    /// The quality of service that it offers.
    pub offers: OfferedQos,
}

impl PublisherSeen {
    /// Its node's name, in words if unknown.
    pub fn name(&self) -> &str {
        self.node.as_deref().unwrap_or("a publisher without a node")
    }
}

/// Policies that a subscription asks for, or a publisher offers. The other policies of ROS always match,
/// because a subscription of this node asks for nothing there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OfferedQos {
    /// `reliable` rather than `best_effort`.
    pub reliable: bool,
    /// `transient_local` rather than `volatile`.
    pub transient_local: bool,
}

impl OfferedQos {
    /// Returns what an input asks for if these are the publishers of its topic. Publishers of
    /// another type do not count.
    ///
    /// What the configuration says is obeyed. `auto` asks for what all publishers offer. If one offers less, or the
    /// topic has no publisher, `auto` asks for the least, which fits every publisher: so no publisher that comes is
    /// refused.
    pub fn of(spec: &InputSpec, publishers: &[PublisherSeen]) -> OfferedQos {
        let mut fitting = publishers.iter().filter(|p| p.ros_type == spec.ros_type).peekable();
        let some = fitting.peek().is_some();
        let all = fitting.fold(OfferedQos { reliable: some, transient_local: some }, |all, p| {
            OfferedQos {
                reliable: all.reliable && p.offers.reliable,
                transient_local: all.transient_local && p.offers.transient_local,
            }
        });
        OfferedQos {
            reliable: match spec.qos.reliability {
                Reliability::Auto => all.reliable,
                Reliability::BestEffort => false,
                Reliability::Reliable => true,
            },
            transient_local: match spec.qos.durability {
                Durability::Auto => all.transient_local,
                Durability::Volatile => false,
                Durability::TransientLocal => true,
            },
        }
    }

    /// Returns what an input asks for next that asks for `self`, if these are the publishers of its topic.
    ///
    /// If no publisher of its type is left, it asks for the same: its next publisher is most often the last one,
    /// started again. If that one offers less, it is heard a moment later.
    #[must_use]
    pub fn next(self, spec: &InputSpec, publishers: &[PublisherSeen]) -> OfferedQos {
        match publishers.iter().any(|publisher| publisher.ros_type == spec.ros_type) {
            true => OfferedQos::of(spec, publishers),
            false => self,
        }
    }

    /// Policies that an input asks for before a publisher is known.
    pub fn at_first(spec: &InputSpec) -> OfferedQos {
        OfferedQos::of(spec, &[])
    }

    /// True if a publisher with this offer is connected to a subscription that asks for `self`.
    pub fn fits(self, offered: OfferedQos) -> bool {
        (offered.reliable || !self.reliable) && (offered.transient_local || !self.transient_local)
    }
}

impl fmt::Display for OfferedQos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reliability = if self.reliable { "reliable" } else { "best_effort" };
        let durability = if self.transient_local { "transient_local" } else { "volatile" };
        write!(f, "{reliability}, {durability}")
    }
}

/// A [`OfferedQos`] that several threads read and write.
#[derive(Debug)]
pub struct SharedQos(AtomicU8);

impl SharedQos {
    /// Begins with this request.
    pub fn new(request: OfferedQos) -> Self {
        SharedQos(AtomicU8::new(Self::bits(request)))
    }

    /// The newest request.
    pub fn get(&self) -> OfferedQos {
        let bits = self.0.load(Ordering::Relaxed);
        OfferedQos { reliable: bits & 1 > 0, transient_local: bits & 2 > 0 }
    }

    /// Replaces the request.
    pub fn set(&self, request: OfferedQos) {
        self.0.store(Self::bits(request), Ordering::Relaxed);
    }

    fn bits(request: OfferedQos) -> u8 {
        u8::from(request.reliable) | u8::from(request.transient_local) << 1
    }
}

#[cfg(test)]
mod tests;
