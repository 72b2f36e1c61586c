//! Quality of service.

use std::time::Duration;

use r2r_rcl::{
    rmw_qos_durability_policy_e, rmw_qos_history_policy_e, rmw_qos_profile_t,
    rmw_qos_reliability_policy_e, rmw_time_s,
};

/// The quality of service of a topic; other policies have rcl's defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Qos {
    /// True if lost messages are sent again.
    pub reliable: bool,
    /// True if a new subscription gets messages that were published before.
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

    pub(super) fn put_into(self, profile: &mut rmw_qos_profile_t) {
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
