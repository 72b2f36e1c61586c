//! Notices a recorder's clock that was set back.

use std::path::Path;

use super::{Problem, Problems};
use robocache_ops::time::Stamp;

/// Position of a message in its file. Later messages have larger positions.
pub(super) type FilePosition = (u64, u64);

/// Watches whether the messages of each topic were written in the order of their receive stamps, as
/// a recorder does. Messages are given in the order of their stamps; if the recorder's clock was set
/// back, those of two spans of time are mixed.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// The largest place, by topic, and whether a disorder has been told.
    topics: Vec<(FilePosition, bool)>,
    /// The newest stamp, and whether an earlier one after it has been told.
    newest: Option<(Stamp, bool)>,
}

impl Order {
    /// Notes the next message of a file, in the order of stamps. Reports the first message of a topic that was written
    /// before one with an earlier stamp. It also reports the first that a damaged index gives too late.
    pub(super) fn note(
        &mut self,
        topic: usize,
        place: FilePosition,
        received: Stamp,
        path: &Path,
        problems: &mut Problems,
    ) {
        match &mut self.newest {
            Some((newest, told)) if received < *newest => {
                if !std::mem::replace(told, true) {
                    let what = format!(
                        "expected messages in the order of their receive stamps, found {received} after {newest}; \
                         its index may be damaged"
                    );
                    problems.push(Problem::damage(path, what));
                }
            }
            Some((newest, _)) => *newest = received,
            None => self.newest = Some((received, false)),
        }
        if self.topics.len() <= topic {
            self.topics.resize(topic + 1, ((0, 0), false));
        }
        let (newest, told) = &mut self.topics[topic];
        if place < *newest && !std::mem::replace(told, true) {
            let what = format!(
                "expected the messages of a topic in the order of their receive stamps, found an earlier stamp \
                 written after {received}; the recorder's clock may have been set back"
            );
            problems.push(Problem::damage(path, what));
        }
        *newest = place.max(*newest);
    }
}
