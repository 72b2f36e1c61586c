//! Which middleware answers, and what it tells.

use r2r_rcl::{rmw_feature_e, rmw_feature_supported, rmw_get_implementation_identifier};

use super::error::text;

/// The middleware of this process. It need not be the one that a variable names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Middleware {
    name: String,
    numbers_messages: bool,
}

impl Middleware {
    /// Asks for the middleware in use.
    pub fn in_use() -> Middleware {
        let numbers = rmw_feature_e::RMW_FEATURE_MESSAGE_INFO_PUBLICATION_SEQUENCE_NUMBER;
        // SAFETY: both functions only return constants: a text, and a flag.
        unsafe {
            Middleware {
                name: text(rmw_get_implementation_identifier()),
                numbers_messages: rmw_feature_supported(numbers),
            }
        }
    }

    /// Its name, such as `rmw_fastrtps_cpp`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// True if the middleware is Fast DDS.
    pub fn is_fast_dds(&self) -> bool {
        self.name.starts_with("rmw_fastrtps")
    }

    /// True if each message has a number of its publisher
    /// ([`publication_sequence`](super::MessageInfo::publication_sequence)). Without numbers nobody knows how many
    /// messages were lost: CycloneDDS 0.10 offers an event for losses, and does not raise it for those on the way.
    pub fn numbers_messages(&self) -> bool {
        self.numbers_messages
    }
}
