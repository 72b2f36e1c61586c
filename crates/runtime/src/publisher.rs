//! Who published a message.

use robocache_ops::time::Stamp;

/// Identifies a publisher in the whole network: the middleware's own number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublisherId(pub [u8; 16]);

impl PublisherId {
    /// A number that tells it from other publishers: of two publishers of a process, the halves never differ alike.
    pub fn number(self) -> u64 {
        let halves = self.0.as_chunks::<8>().0.iter();
        halves.fold(0, |number, half| number ^ u64::from_le_bytes(*half))
    }
}

/// Publisher of a message, and when it was published.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// Its publisher; `None` if unknown.
    pub publisher: Option<PublisherId>,
    /// When it was published, on the publisher's system clock; `None` if the middleware does not tell.
    pub published: Option<Stamp>,
}
