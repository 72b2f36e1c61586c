//! The thread that writes a recording.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::disk::Syncing;
use super::event::RecordingEvent;
use super::file::RecordingWriter;
use super::queue::{Item, Queue, Waiting};
use robocache_ops::sync::lock;
use robocache_ops::time::Stamp;
use robocache_runtime::{Next, Steps, TimeSource, drive};

/// Time between two looks into the queue.
const LOOK: Duration = Duration::from_millis(5);
/// Longest wait for the offers of a topic.
const OFFERS: Duration = Duration::from_secs(1);
/// Time after which what was written is handed to the operating system.
const FLUSH: Duration = Duration::from_millis(250);
/// After the stop, messages are written for this part of the limit, and events for a little longer.
const LAST_MESSAGES: f64 = 0.625;
const LAST_EVENTS: f64 = 0.75;

/// The loop that writes a recording.
pub struct Writing {
    queue: Arc<Queue>,
    waiting: Waiting,
    writer: RecordingWriter,
    /// True if a graph tells what publishers offer.
    has_graph: bool,
    /// The item whose topic waits for its offers.
    held: Option<(Item, Stamp)>,
    /// Since when it waits.
    awaited: Option<Instant>,
    /// The topics that waited for their offers in vain.
    in_vain: Vec<usize>,
    /// Whether the log says that messages are missing.
    said: bool,
    /// When what was written was last handed to the operating system.
    flushed: Instant,
    /// When the stop was noticed.
    stopped: Option<Instant>,
    /// Limit of the end of the recording.
    end: Duration,
    time: TimeSource,
}

impl Steps for Writing {
    type Error = io::Error;

    /// Writes the next item, or the end.
    fn step(&mut self) -> io::Result<Next> {
        // First: what comes after the stop is no part of the recording.
        if self.stopped.is_none() && self.queue.stop.load(Ordering::Relaxed) {
            self.stopped = Some(self.time.monotonic());
        }
        let mut next = self.flushed;
        match self.held.take().or_else(|| self.waiting.next()) {
            Some((item, at)) if self.awaits_offers(&item) => {
                self.held = Some((item, at));
                return Ok(Next::At(self.time.monotonic() + LOOK));
            }
            Some((item, at)) => {
                let since_stop = self.stopped.map_or(Duration::ZERO, |at| self.time.since(at));
                self.write(&item, at, since_stop)?;
                self.queue.left(&item);
            }
            None if self.stopped.is_none() => next = self.time.monotonic() + LOOK,
            None => {
                self.write_lost()?;
                self.writer.event(&RecordingEvent::End, self.time.system())?;
                return Ok(Next::Done);
            }
        }
        if self.queue.has_lost() {
            self.write_lost()?;
        }
        if self.time.since(self.flushed) > FLUSH {
            self.writer.flush()?;
            self.flushed = self.time.monotonic();
        }
        Ok(Next::At(next))
    }
}

impl Writing {
    /// Writes to this file what comes through the queue.
    pub(super) fn new(
        (queue, waiting): (Arc<Queue>, Waiting),
        writer: RecordingWriter,
        has_graph: bool,
        end: Duration,
        time: TimeSource,
    ) -> Self {
        let flushed = time.monotonic();
        Writing {
            queue,
            waiting,
            writer,
            has_graph,
            held: None,
            awaited: None,
            in_vain: Vec::new(),
            said: false,
            flushed,
            stopped: None,
            end,
            time,
        }
    }

    /// Writes until the stop, and ends the recording.
    pub(super) fn run(mut self) {
        let _guard = EndsIfItPanics(Arc::clone(&self.queue));
        let time = self.time.clone();
        let written =
            drive(&mut self, |_, until| sleep(until.map_or(LOOK, |instant| time.until(instant))));
        self.end(written);
    }

    /// Ends the recording. `written` is the outcome of its steps.
    pub fn end(self, written: io::Result<()>) {
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

    /// Writes an item, unless the stop is too long ago.
    fn write(&mut self, item: &Item, at: Stamp, since_stop: Duration) -> io::Result<()> {
        match item {
            Item::Received(number, message) if since_stop > self.end.mul_f64(LAST_MESSAGES) => {
                self.queue.leave_out(*number, message);
                return Ok(());
            }
            Item::Clock(_) | Item::Chunk(..) | Item::Event(_)
                if since_stop > self.end.mul_f64(LAST_EVENTS) =>
            {
                self.queue.leave_out_event(at);
                return Ok(());
            }
            Item::Received(number, message) => self.writer.received(*number, message)?,
            Item::Clock(message) => self.writer.clock(*message)?,
            Item::Chunk(found, message) => self.writer.chunk(*found, (**message).as_ref(), at)?,
            Item::Event(event) => {
                return self.writer.event(&RecordingEvent::Node(event.clone()), at);
            }
        }
        let [messages, bytes] = &self.queue.written;
        messages.store(self.writer.messages, Ordering::Relaxed);
        bytes.store(self.writer.bytes, Ordering::Relaxed);
        Ok(())
    }

    /// True if an item must wait for the offers of its topic, whose first message it is. A graph, if there is one, shows a
    /// publisher a moment after its first message. What comes meanwhile waits in the queue.
    ///
    /// A publisher may vanish before the graph shows it. So a topic that waited in vain does not wait again, but others do.
    /// If nothing was ever offered, the graph does not work, and after one wait in vain there is no other.
    fn awaits_offers(&mut self, item: &Item) -> bool {
        let since = self.awaited.take();
        let topic = match item {
            Item::Received(_, message) => self.writer.topic(Some(message.input)),
            Item::Clock(_) => self.writer.topic(None),
            Item::Chunk(..) | Item::Event(_) => return false,
        };
        if !self.has_graph || self.stopped.is_some() || !self.writer.lacks_offers(topic) {
            return false;
        }
        let works = self.in_vain.is_empty() || self.writer.offers().any();
        if !works || self.in_vain.contains(&topic) {
            return false;
        }
        let since = since.unwrap_or_else(|| self.time.monotonic());
        if self.time.since(since) >= OFFERS {
            self.in_vain.push(topic);
            return false;
        }
        self.awaited = Some(since);
        true
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
