//! Why a message, or a sample of it, was not taken.

use super::AwaitedTransforms;
use crate::backend::BackendError;
use crate::rejected::Rejected;

/// Why a message was not taken. `E` is the error that nothing goes on after.
#[derive(Debug, thiserror::Error)]
pub enum NotTaken<E = BackendError> {
    /// A transform that it needs may still come. It is not counted: push it again later.
    #[error("a transform that the message needs has not come yet")]
    Waits(Box<AwaitedTransforms>),
    /// It was dropped, and counted.
    #[error(transparent)]
    Dropped(#[from] Rejected),
    /// The backend failed; nothing more can be computed.
    #[error(transparent)]
    Failed(E),
}

impl From<BackendError> for NotTaken {
    fn from(error: BackendError) -> Self {
        match error {
            BackendError::Sample(rejected) => NotTaken::Dropped(rejected),
            failure => NotTaken::Failed(failure),
        }
    }
}

impl NotTaken {
    /// Adds words for what asks for the transform.
    pub(super) fn of(self, what: &str) -> Self {
        match self {
            NotTaken::Waits(need) => NotTaken::Waits(Box::new(need.of(what))),
            NotTaken::Dropped(rejected) => {
                let detail = format!("{what}: {}", rejected.detail);
                NotTaken::Dropped(Rejected { detail, ..rejected })
            }
            failed @ NotTaken::Failed(_) => failed,
        }
    }
}
