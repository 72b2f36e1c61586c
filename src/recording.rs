//! The recording of a stretch of work.

use std::sync::{Arc, Mutex};

use robocache_data::recording::McapRecorder;
use robocache_ops::sync::lock;
use robocache_runtime::Recorder;

/// The recording, while there is one. Its clones share it, so it can be ended also if a thread of the node does not end.
#[derive(Clone, Default)]
pub struct Recording(Arc<Mutex<Option<Arc<McapRecorder>>>>);

impl Recording {
    /// Holds this recording from now on. Returns what takes the messages and events.
    pub fn hold(&self, recorder: McapRecorder) -> Arc<dyn Recorder> {
        let recorder = Arc::new(recorder);
        *lock(&self.0) = Some(Arc::clone(&recorder));
        recorder
    }

    /// Ends the recording, if there is one. It bounds itself. If another thread does this already, the caller waits for it.
    pub fn finish(&self) {
        let recorder = lock(&self.0).clone();
        recorder.iter().for_each(|recorder| recorder.finish());
        *lock(&self.0) = None;
    }
}
