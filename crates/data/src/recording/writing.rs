//! The thread that writes a recording.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::disk::Syncing;
use super::episodes::Episodes;
use super::event::RecordingEvent;
use super::file::{RecordingWriter, Ring};
use super::forecast::{Forecast, FullSoon};
use super::lead::Lead;
use super::marks::Mark;
use super::offers::Offers;
use super::queue::{Item, Queue, Waiting};
use super::request::{EpisodeRequest, MarkRequest, NotRecorded, Request};
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

/// Destination of a recorder.
pub(super) enum Target {
    /// To one recording of the whole run, whose oldest files are deleted if there is a ring.
    Run(Box<RecordingWriter>, Option<Box<Ring>>),
    /// To episodes.
    Episodes(Box<Episodes>),
}

/// The loop that writes a recording.
pub struct Writing {
    queue: Arc<Queue>,
    waiting: Waiting,
    /// The recording; `None` between two episodes.
    writer: Option<RecordingWriter>,
    /// `None` if the whole run is one recording.
    episodes: Option<Box<Episodes>>,
    /// `None` if nothing of the recording is deleted.
    ring: Option<Box<Ring>>,
    forecast: Forecast,
    offers: Arc<Offers>,
    /// The marks of the recording.
    marks: Vec<Mark>,
    /// True if a graph tells what publishers offer.
    has_graph: bool,
    /// The item whose topic waits for its offers.
    held: Option<(Item, Stamp)>,
    /// Since when it waits.
    awaited: Option<Instant>,
    /// The topics that waited for their offers in vain.
    in_vain: Vec<usize>,
    /// True if the log says that messages are missing.
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
                self.handle(&item, at)?;
                self.queue.left(&item);
                if let Item::Request(request) = item {
                    self.answer(request, at);
                }
            }
            None if self.stopped.is_none() => next = self.time.monotonic() + LOOK,
            None => {
                self.write_lost()?;
                let now = self.time.system();
                if let Some(writer) = &mut self.writer {
                    writer.event(&RecordingEvent::End, now)?;
                }
                return Ok(Next::Done);
            }
        }
        if self.queue.has_lost() {
            let written = self.write_lost();
            self.survive(written)?;
        }
        if self.time.since(self.flushed) > FLUSH {
            let flushed = self.flush();
            self.survive(flushed)?;
        }
        Ok(Next::At(next))
    }
}

impl Writing {
    /// Writes to this target what comes through the queue.
    pub(super) fn new(
        queue: Arc<Queue>,
        waiting: Waiting,
        target: Target,
        offers: Arc<Offers>,
        has_graph: bool,
        end: Duration,
        time: TimeSource,
    ) -> Self {
        let flushed = time.monotonic();
        let (writer, ring, episodes) = match target {
            Target::Run(writer, ring) => (Some(*writer), ring, None),
            Target::Episodes(episodes) => (None, None, Some(episodes)),
        };
        Writing {
            queue,
            waiting,
            writer,
            episodes,
            ring,
            forecast: Forecast::default(),
            offers,
            marks: Vec::new(),
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
        let finished = writer.map_or(Ok(Syncing::default()), |writer| writer.finish().0);
        queue.complete.store(written.is_ok() && finished.is_ok(), Ordering::Relaxed);
        queue.ended.store(true, Ordering::Relaxed);
        // What waits still holds the buffers of messages.
        while waiting.next().is_some() {}
        if let Err(error) = written.and(finished.and_then(Syncing::wait)) {
            let folder = queue.folder();
            let folder = folder.display();
            tracing::error!("the recording {folder} ended: {error}; the node goes on");
            *lock(&queue.failed) = Some(error.to_string());
        }
    }

    /// Takes an item out of the queue: to the lead, and to the recording if there is one.
    fn handle(&mut self, item: &Item, at: Stamp) -> io::Result<()> {
        lead_of(&mut self.episodes, &mut self.ring)
            .into_iter()
            .for_each(|lead| lead.take(item, at));
        let is_before = self.episodes.as_ref().is_some_and(|episodes| episodes.is_before(item));
        if self.writer.is_none() || is_before {
            return Ok(());
        }
        let since_stop = self.stopped.map_or(Duration::ZERO, |at| self.time.since(at));
        let written = self.write(item, at, since_stop);
        self.survive(written)?;
        if let (Some(ring), Some(writer), None) = (&mut self.ring, &mut self.writer, self.stopped) {
            ring.turn(writer, at)?;
        }
        Ok(())
    }

    /// Hands what was written to the operating system, and looks how much room the disk has.
    fn flush(&mut self) -> io::Result<()> {
        self.flushed = self.time.monotonic();
        let Some(writer) = &mut self.writer else { return Ok(()) };
        if self.ring.is_some() {
            Ring::make_room(writer)?;
        }
        let room = writer.flush()?;
        // A ring makes room by itself.
        let Some(room) = room.filter(|_| self.ring.is_none()) else { return Ok(()) };
        let full = self.forecast.take(room, self.flushed);
        let seconds = full.map_or(u64::MAX, |full| full.time.as_secs());
        self.queue.full_in_s.store(seconds, Ordering::Relaxed);
        if let Some(FullSoon { time, rate, warns: true }) = full {
            let folder = self.queue.folder();
            tracing::warn!(
                "recording: the disk of {} is full in about {:.0} minutes ({} MB for the recording, {:.1} MB/s); then the \
                 recording ends, and the node goes on",
                folder.display(),
                time.as_secs_f64() / 60.0,
                room.usable() / 1_000_000,
                rate / 1e6
            );
        }
        Ok(())
    }

    /// If a disk fails, an episode ends and the recorder goes on. A recording of the whole run cannot go on.
    fn survive(&mut self, written: io::Result<()>) -> io::Result<()> {
        match (written, self.episodes.is_some()) {
            (Err(error), true) => {
                let folder = self.queue.folder();
                tracing::error!(
                    "the episode {} ended: {error}; the node goes on",
                    folder.display()
                );
                let _ = self.close();
                *lock(&self.queue.failed) = Some(error.to_string());
                Ok(())
            }
            (written, _) => written,
        }
    }

    /// Does what a user asks for, and answers.
    fn answer(&mut self, request: Request, at: Stamp) {
        let (done, answer) = match request {
            Request::Begin(asked, answer) => (self.begin(&asked, at), answer),
            Request::End(answer) => (self.end_episode(at), answer),
            Request::Mark(mark, answer) => (self.mark(mark, at), answer),
        };
        // The user may wait no more.
        let _ = answer.send(done);
    }

    fn begin(&mut self, asked: &EpisodeRequest, at: Stamp) -> Result<PathBuf, NotRecorded> {
        let episodes = self.episodes.as_mut().ok_or(NotRecorded::WholeRun)?;
        if self.writer.is_some() {
            return Err(NotRecorded::Recording(self.queue.folder()));
        }
        let (folder, writer) = episodes.begin(asked, &self.offers, at)?;
        self.queue.begins(folder.clone());
        (self.writer, self.marks, self.said) = (Some(writer), Vec::new(), false);
        tracing::info!("an episode begins: {}", folder.display());
        Ok(folder)
    }

    fn end_episode(&mut self, at: Stamp) -> Result<PathBuf, NotRecorded> {
        if self.episodes.is_none() {
            return Err(NotRecorded::WholeRun);
        }
        let folder = self.queue.folder();
        let Some(writer) = &mut self.writer else { return Err(NotRecorded::Idle) };
        let ended = writer.event(&RecordingEvent::End, at);
        let closed = self.close();
        ended.and(closed).map_err(|error| NotRecorded::Disk(error.to_string()))?;
        tracing::info!("the episode {} is complete", folder.display());
        Ok(folder)
    }

    /// Ends the files of an episode.
    fn close(&mut self) -> io::Result<()> {
        let Some(writer) = self.writer.take() else { return Ok(()) };
        let (finished, files) = writer.finish();
        let folder = self.queue.folder();
        if let Some(episodes) = &mut self.episodes {
            episodes.ended(files);
        }
        self.queue.begins(PathBuf::new());
        let syncing = finished?;
        // The next episode must not wait for the disk.
        let wait = std::thread::Builder::new().name("record sync".into());
        wait.spawn(move || {
            if let Err(error) = syncing.wait() {
                tracing::error!(
                    "the episode {} is not safe on the disk: {error}",
                    folder.display()
                );
            }
        })?;
        Ok(())
    }

    fn mark(&mut self, mark: MarkRequest, at: Stamp) -> Result<PathBuf, NotRecorded> {
        let Some(writer) = &mut self.writer else { return Err(NotRecorded::Idle) };
        let MarkRequest { name, value, at: on_node } = mark;
        let mark = Mark { at_ns: on_node.map(Stamp::nanos), name, value };
        let folder = self.queue.folder();
        self.marks.push(mark.clone());
        let written = writer.event(&RecordingEvent::Mark(mark), at);
        let written = written.and_then(|()| Mark::write(&self.marks, &folder));
        written.map_err(|error| NotRecorded::Disk(error.to_string()))?;
        Ok(folder)
    }

    /// Writes an item, unless the stop is too long ago.
    fn write(&mut self, item: &Item, at: Stamp, since_stop: Duration) -> io::Result<()> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        match item {
            Item::Received(number, message) if since_stop > self.end.mul_f64(LAST_MESSAGES) => {
                self.queue.leave_out(*number, message);
                return Ok(());
            }
            Item::Request(_) => return Ok(()),
            Item::Clock(_) | Item::Chunk(..) | Item::Event(_)
                if since_stop > self.end.mul_f64(LAST_EVENTS) =>
            {
                self.queue.leave_out_event(at);
                return Ok(());
            }
            Item::Received(number, message) => writer.received(*number, message)?,
            Item::Clock(message) => writer.clock(*message)?,
            Item::Chunk(found, message) => writer.chunk(*found, (**message).as_ref(), at)?,
            Item::Event(event) => {
                return writer.event(&RecordingEvent::Node(event.clone()), at);
            }
        }
        let written = [writer.messages, writer.bytes, writer.deleted];
        let counts = self.queue.written.iter().zip(written);
        counts.for_each(|(count, written)| count.store(written, Ordering::Relaxed));
        Ok(())
    }

    /// True if an item must wait for the offers of its topic, whose first message it is. A graph, if there is one, shows a
    /// publisher a moment after its first message. What comes meanwhile waits in the queue.
    ///
    /// A publisher may vanish before the graph shows it. So a topic that waited in vain does not wait again, but others do.
    /// If nothing was ever offered, the graph does not work, and after one wait in vain there is no other.
    fn awaits_offers(&mut self, item: &Item) -> bool {
        let since = self.awaited.take();
        let Some(writer) = &self.writer else { return false };
        let topic = match item {
            Item::Received(_, message) => writer.topic(Some(message.input)),
            Item::Clock(_) => writer.topic(None),
            Item::Chunk(..) | Item::Event(_) | Item::Request(_) => None,
        };
        let Some(topic) = topic else { return false };
        if !self.has_graph || self.stopped.is_some() || !writer.lacks_offers(topic) {
            return false;
        }
        let works = self.in_vain.is_empty() || writer.offers().any();
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
        let Writing { queue, writer, episodes, ring, .. } = self;
        for gap in queue.lost_messages() {
            lead_of(episodes, ring).into_iter().for_each(|lead| lead.lack(gap));
            let Some(writer) = writer else { continue };
            if !std::mem::replace(&mut self.said, true) {
                let folder = queue.folder();
                let folder = folder.display();
                tracing::warn!(
                    "recording: the disk is too slow, and messages are missing in {folder}"
                );
            }
            writer.first(&RecordingEvent::Gap(gap))?;
        }
        let Some((events, from)) = queue.lost_events() else { return Ok(()) };
        lead_of(episodes, ring).into_iter().for_each(|lead| lead.lack_events(events, from));
        let Some(writer) = writer else { return Ok(()) };
        writer.first(&RecordingEvent::GapOfEvents { events, from })
    }
}

/// The messages that the next episode or file begins with.
fn lead_of<'a>(
    episodes: &'a mut Option<Box<Episodes>>,
    ring: &'a mut Option<Box<Ring>>,
) -> Option<&'a mut Lead> {
    let of_episodes = episodes.as_mut().map(|episodes| &mut episodes.lead);
    of_episodes.or_else(|| ring.as_mut().map(|ring| &mut ring.lead))
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
