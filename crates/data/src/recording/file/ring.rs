//! A ring of files: the oldest files of a recording are deleted while it goes on.
//!
//! A replay of the files that are left needs what the rings held when the oldest of them began: the same messages that an
//! episode begins with ([`Lead`]). So each file gets a lead in a file beside it, whose ending no reader of bags knows. When
//! the file before is deleted, its lead takes the place and the name of that file, and then the begin before is deleted. But
//! for the moment between these two, the folder is a bag in which each message is once.

use std::io;
use std::mem::replace;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::super::disk::OnDisk;
use super::super::event::RecordingEvent;
use super::super::lead::{Lead, Leading};
use super::super::metadata::FileCount;
use super::{Open, RecordingWriter};
use robocache_core::spec::Config;
use robocache_ops::time::Stamp;

/// Files of a ring: so much of a limit is deleted at once.
const FILES: u64 = 8;
/// Ending of the file of a lead.
const LEAD: &str = "lead";

/// How much of a recording is kept. Older files are deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordLimits {
    /// Most bytes on the disk; `None` without a limit.
    pub bytes: Option<u64>,
    /// Messages of this time are kept; `None` without a limit.
    pub age: Option<Duration>,
}

/// State of a ring of files.
pub(in super::super) struct Ring {
    limits: RecordLimits,
    /// The messages that the next file would begin with.
    pub lead: Lead,
    /// A file ends when it has these bytes, or this time \[ns\].
    file_bytes: u64,
    file_ns: i64,
}

impl Ring {
    /// The ring of a recording with these limits, whose files have at most `split_bytes`; `None` if nothing is deleted.
    pub(in super::super) fn new(
        limits: RecordLimits,
        config: &Config,
        split_bytes: u64,
        lead_bytes: usize,
    ) -> Option<Self> {
        let RecordLimits { bytes, age } = limits;
        if bytes.is_none() && age.is_none() {
            return None;
        }
        let file_bytes = bytes.map_or(split_bytes, |bytes| split_bytes.min(bytes / FILES));
        let file_ns = age.map_or(i64::MAX, |age| nanos(age) / FILES as i64);
        Some(Ring { limits, lead: Lead::new(config, lead_bytes), file_bytes, file_ns })
    }

    /// Begins the next file if this one is complete, and deletes what is beyond the limits. `at` is the system's clock.
    ///
    /// # Errors
    /// The error of the disk.
    pub(in super::super) fn turn(
        &mut self,
        writer: &mut RecordingWriter,
        at: Stamp,
    ) -> io::Result<()> {
        let Open { bytes, span, .. } = &writer.open;
        let spans_ns = span.map_or(0, |(first, last)| last.since(first));
        if *bytes < self.file_bytes && spans_ns < self.file_ns {
            return Ok(());
        }
        let lead = writer.write_lead(&self.lead.items(at))?;
        writer.begin_next()?;
        writer.open.lead = Some(Box::new(lead));
        while !writer.done.is_empty() && self.is_beyond(writer) {
            writer.delete_oldest()?;
        }
        Ok(())
    }

    /// Deletes the oldest file if the disk has no room for two more, however small the recording is. One at a time: the room
    /// may come a moment later.
    ///
    /// # Errors
    /// The error of the disk.
    pub(in super::super) fn make_room(writer: &mut RecordingWriter) -> io::Result<()> {
        let Some(room) = writer.files.room(&writer.contents.folder) else { return Ok(()) };
        let open = writer.open.stored.load(Ordering::Relaxed);
        let largest = writer.done.iter().map(|file| file.stored).max().unwrap_or(0).max(open);
        match room.usable() < largest.saturating_mul(2) {
            true => writer.delete_oldest(),
            false => Ok(()),
        }
    }

    /// True if the recording is larger than its limit, less the file that begins, or if all of its oldest file is too old.
    fn is_beyond(&self, writer: &RecordingWriter) -> bool {
        let RecordLimits { bytes, age } = self.limits;
        let files = writer.begin.iter().chain(&writer.done);
        let leads = writer.done.iter().map(|file| &file.lead).chain([&writer.open.lead]).flatten();
        let stored: u64 = files.map(|file| file.stored).chain(leads.map(|file| file.stored)).sum();
        let oldest = writer.done.front().and_then(|file| file.span);
        let oldest_ns = oldest.map_or(i64::MAX, |(_, last)| writer.time.last.since(last));
        bytes.is_some_and(|most| stored > most - self.file_bytes)
            || age.is_some_and(|most| oldest_ns > nanos(most))
    }
}

fn nanos(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

impl RecordingWriter {
    /// Writes what the next file would begin with.
    fn write_lead(&mut self, lead: &[Leading]) -> io::Result<FileCount> {
        let begins = self.time.last;
        let mut contents = self.contents.clone();
        contents.manifest.begins = Some(begins);
        let name = contents.file_name(self.number, LEAD);
        let files = replace(&mut self.files, Box::new(OnDisk));
        let mut writer = match Self::create_file(contents, Arc::clone(&self.offers), files, name) {
            Ok(writer) => writer,
            Err((error, files)) => {
                self.files = files;
                return Err(error);
            }
        };
        let written = lead.iter().try_for_each(|item| item.write(&mut writer));
        let start = RecordingEvent::Start { at: None };
        let written = written.and_then(|()| writer.event(&start, begins));
        let RecordingWriter { contents, files, open, offers, .. } = writer;
        self.files = files;
        written?;
        open.finish(&contents, &offers, &mut self.syncing)
    }

    /// Deletes the oldest file. What the next one begins with takes its place. After an error, the files that are known are
    /// there.
    fn delete_oldest(&mut self) -> io::Result<()> {
        let Some(oldest) = self.done.front() else { return Ok(()) };
        let path = |name: &str| self.contents.folder.join(name);
        let name = oldest.name.clone();
        let next = self.done.get(1).map_or(&self.open.lead, |next| &next.lead);
        let begin = match next {
            Some(lead) => match self.files.replace(&path(&name), &path(&lead.name)) {
                Ok(()) => Some(FileCount { name: name.clone(), ..(**lead).clone() }),
                // A user has deleted what the next one begins with.
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                Err(error) => return Err(error),
            },
            None => None,
        };
        if begin.is_none() {
            self.files.delete(&path(&name))?;
        }
        let Some(oldest) = self.done.pop_front() else { return Ok(()) };
        self.done.front_mut().map_or(&mut self.open.lead, |next| &mut next.lead).take();
        let events = self.contents.topics.len();
        let counts = oldest.counts.iter().enumerate().filter(|(topic, _)| *topic != events);
        self.deleted += counts.map(|(_, count)| count).sum::<u64>();
        match replace(&mut self.begin, begin) {
            Some(before) => self.files.delete(&path(&before.name))?,
            None => tracing::info!(
                "the recording {} has reached its limit: its oldest files are deleted",
                self.contents.folder.display()
            ),
        }
        Ok(())
    }

    /// Deletes the leads of files that have others before them.
    pub(super) fn remove_leads(&mut self) {
        let leads = self.done.iter_mut().map(|file| &mut file.lead).chain([&mut self.open.lead]);
        let names: Vec<String> = leads.filter_map(|lead| Some(lead.take()?.name)).collect();
        for name in names {
            // No reader knows this ending.
            let _ = self.files.delete(&self.contents.folder.join(name));
        }
    }
}
