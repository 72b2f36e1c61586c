//! Episodes of a node that works: between two of them nothing is written.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::contents::new_folder;
use super::disk::{Files, OnDisk};
use super::event::RecordingEvent;
use super::file::{RecordingContents, RecordingWriter};
use super::lead::Lead;
use super::log_time::LogTime;
use super::manifest::EpisodeFacts;
use super::offers::Offers;
use super::queue::Item;
use super::request::{EpisodeRequest, NotRecorded};
use robocache_ops::time::{Epoch, Stamp, TickGrid};
use robocache_runtime::Event;

/// Needs of a recorder of episodes for the next one.
pub(super) struct Episodes {
    /// Contents of each episode's recording, with the folder of all.
    contents: RecordingContents,
    /// Opener of files; `None` during an episode, whose writer has it.
    files: Option<Box<dyn Files>>,
    /// The messages that the next one begins with.
    pub lead: Lead,
    grid: TickGrid,
    /// The begin of the newest one, on the node's clock. Earlier ticks are not of it.
    from: Option<(Epoch, Stamp)>,
}

impl Episodes {
    /// No episode yet.
    pub(super) fn new(
        contents: RecordingContents,
        files: Box<dyn Files>,
        lead: Lead,
        grid: TickGrid,
    ) -> Self {
        Episodes { contents, files: Some(files), lead, grid, from: None }
    }

    /// Begins an episode at this instant of the system's clock. Returns its folder, too.
    ///
    /// # Errors
    /// The folder or the file cannot be written.
    pub(super) fn begin(
        &mut self,
        asked: &EpisodeRequest,
        offers: &Arc<Offers>,
        now: Stamp,
    ) -> Result<(PathBuf, RecordingWriter), NotRecorded> {
        let disk = |error: io::Error| NotRecorded::Disk(error.to_string());
        let name = (!asked.name.is_empty()).then_some(asked.name.as_str());
        let folder = new_folder(&self.contents.folder, name, now)
            .map_err(|error| NotRecorded::Disk(error.to_string()))?;
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut contents = RecordingContents { folder: folder.clone(), ..self.contents.clone() };
        let simulated = contents.clock.is_some();
        let at = asked.at.map(|(_, stamp)| stamp);
        // The node's clock may have been read a moment after the system's.
        let now = at.filter(|_| !simulated).map_or(now, |at| at.max(now));
        let lead = self.lead.items(now);
        let mut time = LogTime::new(simulated);
        lead.iter().for_each(|item| _ = item.log_time(&mut time));
        let task = asked.task.clone();
        let begins = time.of(None, now);
        contents.manifest.episode = Some(EpisodeFacts { name, task, begins });
        let files = self.files.take().unwrap_or_else(|| Box::new(OnDisk));
        let mut writer = match RecordingWriter::create(contents, Arc::clone(offers), files) {
            Ok(writer) => writer,
            Err((error, files)) => {
                self.files = Some(files);
                // A folder without a file is no recording.
                let _ = std::fs::remove_dir(&folder);
                return Err(disk(error));
            }
        };
        self.from = asked.at;
        let begun = lead.iter().try_for_each(|item| item.write(&mut writer));
        match begun.and_then(|()| writer.event(&RecordingEvent::Start { at }, now)) {
            Ok(()) => Ok((folder, writer)),
            Err(error) => {
                self.files = Some(writer.finish().1);
                Err(disk(error))
            }
        }
    }

    /// Takes back what opens files.
    pub(super) fn ended(&mut self, files: Box<dyn Files>) {
        self.files = Some(files);
    }

    /// True if an item is of a tick before the episode that is being recorded.
    pub(super) fn is_before(&self, item: &Item) -> bool {
        let Some((epoch, from)) = self.from else { return false };
        match item {
            Item::Event(Event::Tick(tick)) => {
                tick.epoch.is_before(epoch)
                    || tick.epoch == epoch && self.grid.stamp_of(tick.tick) < from
            }
            Item::Event(Event::Overruns { before, .. }) => self.grid.stamp_of(*before) < from,
            _ => false,
        }
    }
}
