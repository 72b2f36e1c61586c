//! Why there is no transform.

use robocache_ops::time::Stamp;

/// Why a look-up gave no transform. The text names the missing link.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LookupError {
    /// A frame that no transform can name.
    #[error("frame: expected a name of 1 to {} bytes, found {found} bytes", super::MAX_NAME)]
    Name {
        /// Bytes of the name.
        found: usize,
    },
    /// No transform has named the frame.
    #[error("frame {frame:?}: expected in tf, found in no transform so far")]
    UnknownFrame {
        /// The frame.
        frame: String,
    },
    /// Both frames are known, and no chain leads from one to the other.
    #[error(
        "expected a chain from {source_frame:?} to {target_frame:?}, found two trees: {source_root:?} \
         and {target_root:?} have no parent"
    )]
    NotConnected {
        /// Frame at which the chain begins.
        source_frame: String,
        /// Frame at which it should end.
        target_frame: String,
        /// The root above the source.
        source_root: String,
        /// The root above the target.
        target_root: String,
    },
    /// A gyro has not said yet how its frame turns.
    #[error("expected two messages of the {frame} at most 50 ms apart, found none so far")]
    NoGyro {
        /// The frame that does not turn: the word gyro, and the topic.
        frame: String,
    },
    /// The stamp is after the newest transform.
    #[error(
        "{child:?} in its parent: expected a transform at or after {stamp}, found {newest} as the newest"
    )]
    TooNew {
        /// The frame that the link moves.
        child: String,
        /// The instant that was asked for.
        stamp: Stamp,
        /// The newest transform.
        newest: Stamp,
    },
    /// The stamp is before the oldest transform.
    #[error(
        "{child:?} in its parent: expected a transform at or before {stamp}, found {oldest} as the oldest"
    )]
    TooOld {
        /// The frame that the link moves.
        child: String,
        /// The instant that was asked for.
        stamp: Stamp,
        /// The oldest transform.
        oldest: Stamp,
    },
    /// The transforms around the stamp are too far apart.
    #[error(
        "{child:?} in its parent at {stamp}: expected two transforms at most {} ms apart \
         (tf.max_gap_ms; 50 for a gyro), found {} ms", ms(*.max_gap_ns), ms(*.gap_ns)
    )]
    Gap {
        /// The frame that the link moves.
        child: String,
        /// The instant that was asked for.
        stamp: Stamp,
        /// Time between the two transforms \[ns\].
        gap_ns: i64,
        /// The most that is allowed \[ns\].
        max_gap_ns: i64,
    },
    /// The frame has one parent before the stamp and another one after it.
    #[error(
        "{child:?} at {stamp}: expected one parent, found {before:?} before and {after:?} after"
    )]
    NewParent {
        /// The frame.
        child: String,
        /// The instant that was asked for.
        stamp: Stamp,
        /// The parent before.
        before: String,
        /// The parent after.
        after: String,
    },
    /// The links go round in a circle, or the chain is too long.
    #[error("{frame:?}: expected a tree of at most {most} links above it, found a loop or more")]
    Loop {
        /// Frame at which the chain began.
        frame: String,
        /// The longest chain.
        most: usize,
    },
}

impl LookupError {
    /// True if a transform that is still to come can help.
    ///
    /// Two trees count as such: at the start, transforms come one by one, and a link that is on its way
    /// looks like a link that does not exist.
    pub fn waiting_helps(&self) -> bool {
        match self {
            LookupError::UnknownFrame { .. }
            | LookupError::NotConnected { .. }
            | LookupError::NoGyro { .. }
            | LookupError::TooNew { .. } => true,
            LookupError::Name { .. }
            | LookupError::TooOld { .. }
            | LookupError::Gap { .. }
            | LookupError::NewParent { .. }
            | LookupError::Loop { .. } => false,
        }
    }
}

fn ms(nanos: i64) -> f64 {
    nanos as f64 / robocache_ops::time::NANOS_PER_MS as f64
}
