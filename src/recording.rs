//! The recording of a stretch of work.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use robocache_data::recording::McapRecorder;
use robocache_ops::sync::lock;
use robocache_runtime::Recorder;

/// The recording, while there is one. Its clones share it, so it can be ended also if a thread of the node does not end.
#[derive(Clone)]
pub(crate) struct Recording {
    recorder: Arc<Mutex<Option<Arc<McapRecorder>>>>,
    /// Limit of the end of a recording.
    pub end: Duration,
}

impl Recording {
    /// Makes the holder of no recording. The end of each one takes at most `end`.
    pub(crate) fn new(end: Duration) -> Self {
        Recording { recorder: Arc::default(), end }
    }

    /// Holds this recording from now on. Returns what takes the messages and events.
    pub(crate) fn hold(&self, recorder: McapRecorder) -> Arc<dyn Recorder> {
        let recorder = Arc::new(recorder);
        *lock(&self.recorder) = Some(Arc::clone(&recorder));
        recorder
    }

    /// The recorder, while there is one.
    pub(crate) fn recorder(&self) -> Option<Arc<McapRecorder>> {
        lock(&self.recorder).clone()
    }

    /// Ends the recording, if there is one. It bounds itself. If another thread does this already, the caller waits for it.
    pub(crate) fn finish(&self) {
        let recorder = lock(&self.recorder).clone();
        recorder.iter().for_each(|recorder| recorder.finish());
        *lock(&self.recorder) = None;
    }
}
