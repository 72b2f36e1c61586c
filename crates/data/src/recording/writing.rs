//! The thread that writes a recording.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::disk::Syncing;
use super::event::RecordingEvent;
use super::file::RecordingWriter;
use super::queue::{Item, Queue, Waiting};
use robocache_core::spec::InputId;
use robocache_ops::sync::lock;
use robocache_ops::time::Stamp;
use robocache_runtime::TimeSource;

/// Time between two looks into the queue.
const LOOK: Duration = Duration::from_millis(5);
/// Longest wait for the offers of a topic.
const OFFERS: Duration = Duration::from_secs(1);
/// Time after which what was written is handed to the operating system.
const FLUSH: Duration = Duration::from_millis(250);
/// After the stop, messages are written for this part of the limit, and events for a little longer.
const LAST_MESSAGES: f64 = 0.625;
const LAST_EVENTS: f64 = 0.75;

/// The thread that writes.
pub(super) struct Writing {
    pub queue: Arc<Queue>,
    pub waiting: Waiting,
    pub writer: RecordingWriter,
    /// True if a graph tells what publishers offer.
    pub has_graph: bool,
    /// The topics that waited for their offers in vain.
    pub in_vain: Vec<usize>,
    /// Whether the log says that messages are missing.
    pub said: bool,
    /// Limit of the end of the recording.
    pub end: Duration,
    pub time: TimeSource,
}

impl Writing {
    /// Writes until the stop, and ends the recording.
    pub(super) fn run(mut self) {
        let _guard = EndsIfItPanics(Arc::clone(&self.queue));
        let written = self.write_all();
        let Writing { queue, waiting, writer, .. } = self;
        // If no write failed, the files have an end, even if something else ended the recording.
        let finished = writer.finish();
        queue.complete.store(written.is_ok() && finished.is_ok(), Ordering::Relaxed);
        queue.ended.store(true, Ordering::Relaxed);
        // What waits still holds the buffers of messages.
        while waiting.next().is_some() {}
        if let Err(error) = written.and(finished.and_then(Syncing::wait)) {
            let folder = queue.folder.display();
            tracing::error!("the recording {folder} ended: {error}; the node goes on");
            *lock(&queue.failed) = Some(error.to_string());
        }
    }

    fn write_all(&mut self) -> io::Result<()> {
        let mut flushed = self.time.monotonic();
        let mut stopped: Option<Instant> = None;
        loop {
            // First: what comes after the stop is no part of the recording.
            if stopped.is_none() && self.queue.stop.load(Ordering::Relaxed) {
                stopped = Some(self.time.monotonic());
            }
            match self.waiting.next() {
                Some((item, at)) => {
                    self.write(
                        &item,
                        at,
                        stopped.map_or(Duration::ZERO, |at| self.time.since(at)),
                    )?;
                    self.queue.left(&item);
                }
                None if stopped.is_none() => std::thread::sleep(LOOK),
                None => {
                    self.write_lost()?;
                    return self.writer.event(&RecordingEvent::End, self.time.system());
                }
            }
            if self.queue.has_lost() {
                self.write_lost()?;
            }
            if self.time.since(flushed) > FLUSH {
                self.writer.flush()?;
                flushed = self.time.monotonic();
            }
        }
    }

    /// Writes an item, unless the stop is too long ago.
    fn write(&mut self, item: &Item, at: Stamp, since_stop: Duration) -> io::Result<()> {
        match item {
            Item::Received(number, message) if since_stop > self.end.mul_f64(LAST_MESSAGES) => {
                self.queue.leave_out(*number, message);
                return Ok(());
            }
            Item::Clock(_) | Item::Event(_) if since_stop > self.end.mul_f64(LAST_EVENTS) => {
                self.queue.leave_out_event(at);
                return Ok(());
            }
            Item::Received(number, message) => {
                self.await_offers(Some(message.input));
                self.writer.received(*number, message)?;
            }
            Item::Clock(message) => {
                self.await_offers(None);
                self.writer.clock(*message)?;
            }
            Item::Event(event) => {
                return self.writer.event(&RecordingEvent::Node(event.clone()), at);
            }
        }
        let [messages, bytes] = &self.queue.written;
        messages.store(self.writer.messages, Ordering::Relaxed);
        bytes.store(self.writer.bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Waits for the offers of a topic whose first message comes now, if a graph tells them: it shows a publisher a moment
    /// after its first message. What comes meanwhile waits in the queue.
    ///
    /// A publisher may vanish before the graph shows it. So a topic that waited in vain does not wait again, but others do.
    /// If nothing was ever offered, the graph does not work, and after one wait in vain there is no other.
    fn await_offers(&mut self, input: Option<InputId>) {
        let topic = self.writer.topic(input);
        if !self.has_graph || !self.writer.lacks_offers(topic) {
            return;
        }
        let works = self.in_vain.is_empty() || self.writer.offers().any();
        if !works || self.in_vain.contains(&topic) {
            return;
        }
        let began = self.time.monotonic();
        while self.writer.lacks_offers(topic) && !self.queue.stop.load(Ordering::Relaxed) {
            std::thread::sleep(LOOK);
            if self.time.since(began) >= OFFERS {
                self.in_vain.push(topic);
                return;
            }
        }
    }

    /// Writes what was lost since the last look.
    fn write_lost(&mut self) -> io::Result<()> {
        for gap in self.queue.lost_messages() {
            if !std::mem::replace(&mut self.said, true) {
                let folder = self.queue.folder.display();
                tracing::warn!(
                    "recording: the disk is too slow, and messages are missing in {folder}"
                );
            }
            self.writer.first(&RecordingEvent::Gap(gap))?;
        }
        match self.queue.lost_events() {
            Some((events, from)) => {
                self.writer.first(&RecordingEvent::GapOfEvents { events, from })
            }
            None => Ok(()),
        }
    }
}

/// If the thread that writes panics, the recording has ended: the disk is not to blame.
struct EndsIfItPanics(Arc<Queue>);

impl Drop for EndsIfItPanics {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.ended.store(true, Ordering::Relaxed);
            *lock(&self.0.failed) = Some("the thread that writes it panicked".to_owned());
        }
    }
}
