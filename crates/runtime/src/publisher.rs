//! Who published a message.

use robocache_ops::time::Stamp;

/// Identifies a publisher in the whole network: the middleware's own number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublisherId(pub [u8; 16]);

/// Where a message comes from, and when it was published.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// Its publisher; `None` if unknown.
    pub publisher: Option<PublisherId>,
    /// When it was published, on the publisher's system clock; `None` if the middleware does not tell.
    pub published: Option<Stamp>,
}
