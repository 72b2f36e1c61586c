//! The backend of a worker, kept from one episode to the next.
//!
//! Its memory is reserved once. On a GPU that matters: to pin and to free memory waits for all work on the device, also for
//! that of the other workers.

use std::sync::Arc;

use robocache_core::backend::{Backend, BackendError, GpuUse};
use robocache_core::spec::Config;

/// A backend that no episode uses, and the configuration that it was made for.
#[derive(Default)]
pub(super) struct KeptBackend(Option<(Config, Arc<dyn Backend>)>);

impl KeptBackend {
    /// The kept backend if it was made for this configuration; otherwise a new one. The caller gives it back with
    /// [`KeptBackend::keep`] if its episode has come to its end. After a failure or a panic it does not.
    ///
    /// # Errors
    /// Those of `create`.
    pub(super) fn take(
        &mut self,
        config: &Config,
        create: impl FnOnce() -> Result<Arc<dyn Backend>, BackendError>,
    ) -> Result<Arc<dyn Backend>, BackendError> {
        match self.0.take() {
            Some((made_for, backend)) if made_for == *config => Ok(backend),
            // The memory of another one is freed first.
            other => {
                drop(other);
                create()
            }
        }
    }

    /// Keeps a backend. One that has left its GPU is not kept: the next episode tries again.
    pub(super) fn keep(&mut self, config: Config, backend: Arc<dyn Backend>) {
        self.0 = match backend.gpu() {
            GpuUse::None | GpuUse::InUse => Some((config, backend)),
            GpuUse::Left { .. } => None,
        };
    }
}

#[cfg(test)]
mod tests;
