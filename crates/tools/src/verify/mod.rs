//! Replays a recording of a live node, and compares the digest of each tick.
//!
//! The messages go through the [`Player`] in the order of their arrivals, as `robocache replay` gives them, each
//! with the arrival that the node used. A live node may see less at a tick: a message that arrived a moment
//! before it was not yet a row. With enough lag that does not matter, because no tick needs such a message.
//! So ticks that differ show a lag that is too short, and the recording tells for which stream: it has, for
//! each message, the changes of the rings that it made, and for each tick, how many of them it saw.
//!
//! Messages that the recorder could not keep are gaps. A tick that differs while a gap may still have an effect
//! counts as unverifiable ([`gaps`]).

mod commands;
mod gaps;
mod lateness;
mod log_time;
mod needs;
mod numbers;
mod order;
mod replayed;
mod report;
mod ticks;

use std::path::Path;
use std::sync::Arc;

pub use commands::{CommandsReport, DifferentCommand};
pub use report::{Different, Late, SlowRow, StreamReport, VerifyReport};

use commands::Commands;
use gaps::Gaps;
use lateness::Lateness;
use log_time::LogTime;
use numbers::Numbers;
use order::{Message, Order, Step};
use replayed::Replayed;
use robocache_core::backend::{self, Choice};
use robocache_core::layout::Layout;
use robocache_core::pipeline::Pipeline;
use robocache_core::rejected::DropReason;
use robocache_core::spec::StreamId;
use robocache_data::bag::{Bag, Problem, Problems, Recorded};
use robocache_data::commands::CHUNK_TYPE;
use robocache_data::recording::{EVENT_TYPE, Manifest, ManifestError, RecordingEvent};
use robocache_data::replay::{BagDefinitions, ReplayError};
use robocache_ops::time::{NANOS_PER_S, Stamp};
use robocache_runtime::{
    Event, MessageOutcome, Player, Received, Served, TickFate, TickRecord, TimeSource, decode_clock,
};
use ticks::{Doubt, Ticks};

/// The outcome of a message is known within this time \[ns\]; then a tick that differs is explained.
const SETTLED_NS: i64 = 10 * NANOS_PER_S;

/// If a tick differs so shortly after a begin whose messages before were deleted \[ns\], it is unverifiable: it may have seen a
/// row that is not among those with which the recording begins.
const CUT_NS: i64 = NANOS_PER_S;

/// Why a recording cannot be verified.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// It is no recording of a node.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// It cannot be replayed.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// Its tensors have no digests.
    #[error(
        "{0}: expected the digests of the tensors, found none: the node ran with `digest: false`"
    )]
    NoDigests(String),
}

/// Verifies a recording: its folder, or its only file.
///
/// # Errors
/// [`VerifyError`], if nothing can be compared. What is damaged is in the report.
pub fn verify(
    recording: &Path,
    choice: Choice,
    device: usize,
) -> Result<VerifyReport, VerifyError> {
    let manifest = Manifest::read(recording)?;
    if !manifest.digest {
        return Err(VerifyError::NoDigests(recording.display().to_string()));
    }
    let bag = Bag::open(recording).map_err(ReplayError::from)?;
    let definitions = BagDefinitions::new(&bag)?;
    let config = manifest.config(&definitions).map_err(ReplayError::from)?;
    let config = manifest.without_missing(config);
    let layout = Layout::new(&config);
    let backend = backend::create(choice, device, &config, &layout).map_err(ReplayError::from)?;
    let pipeline = Pipeline::new(config, backend).map_err(ReplayError::from)?;
    let mut verification = Verification::new(pipeline, &manifest);
    verification.run(&bag)?;
    Ok(verification.report(recording, manifest))
}

struct Verification {
    player: Player,
    replayed: Arc<Replayed>,
    order: Order,
    ticks: Ticks,
    rows: Lateness,
    gaps: Gaps,
    numbers: Numbers,
    /// `None` if the node made no commands.
    commands: Option<Commands>,
    problems: Problems,
    /// True up to the begin of an episode, or of a recording whose first files were deleted. What comes before fills the rings:
    /// it is a part of what was received.
    leads: bool,
    /// The newest arrival that fills the rings, if the first files were deleted.
    cut: Option<(u64, Stamp)>,
    /// True if the recording has an end.
    complete: bool,
    simulated: bool,
    log: LogTime,
    /// The time of the log, as far as something is waited for.
    now: Stamp,
    /// Messages that were given to the player.
    messages: u64,
    /// Messages that the node dropped because its encoders were too slow.
    overloads: u64,
    /// Events for which the recorder had no room.
    missing_events: u64,
}

impl Verification {
    fn new(pipeline: Pipeline, manifest: &Manifest) -> Self {
        let config = pipeline.config();
        let period_ns = config.grid.period_ns();
        let order = Order::new(&manifest.topics, config.grid, manifest.simulated);
        let rows = Lateness::new(config);
        let gaps = Gaps::new(config);
        // An older recording has no facts of commands, and no run.
        let commands = config.commands.as_ref().filter(|_| manifest.run != 0);
        let mut commands = commands.map(|spec| Commands::new(spec, manifest.run));
        if manifest.leads_until().is_some() {
            // It lacks what commands followed from before it.
            commands.iter_mut().for_each(Commands::lost);
        }
        let replayed = Arc::new(Replayed::default());
        let segments = manifest.recorded_segments(config, pipeline.layout());
        let is_missing = |id: &StreamId| !manifest.has_stream(&config.stream(*id).name);
        let missing = config.stream_ids().filter(is_missing).collect();
        Verification {
            order,
            rows,
            player: Player::new(pipeline, manifest.simulated, TimeSource::real())
                .beginning_at(manifest.leads_until().unwrap_or(Stamp::MIN))
                .with_recorder(Arc::clone(&replayed) as _),
            replayed,
            ticks: Ticks::new(period_ns, segments, missing),
            gaps,
            numbers: Numbers::default(),
            commands,
            problems: Problems::default(),
            leads: manifest.leads_until().is_some(),
            cut: manifest.begins.map(|_| (0, Stamp::MIN)),
            complete: false,
            simulated: manifest.simulated,
            log: LogTime::default(),
            now: Stamp::ZERO,
            messages: 0,
            overloads: 0,
            missing_events: 0,
        }
    }

    fn run(&mut self, bag: &Bag) -> Result<(), ReplayError> {
        bag.problems.iter().cloned().for_each(|problem| self.problems.push(problem));
        let kind = |at: usize| bag.topics[at].ros_type.as_str();
        let mut messages = bag.messages(&vec![true; bag.topics.len()])?;
        let mut settled = Stamp::ZERO;
        for recorded in messages.by_ref() {
            self.now = self.log.at(recorded.received);
            self.ticks.now = self.now;
            self.order.at(self.now);
            self.rows.at(self.now);
            if kind(recorded.topic) == EVENT_TYPE {
                match RecordingEvent::read(&recorded.bytes) {
                    Ok(event) => self.event(event),
                    Err(error) => self.order.unreadable(&error.to_string()),
                }
            } else if kind(recorded.topic) == CHUNK_TYPE {
                self.commands.iter_mut().for_each(|commands| commands.chunk(&recorded.bytes));
            } else if self.simulated && bag.topics[recorded.topic].name == "/clock" {
                let Recorded { received: at, published, .. } = recorded;
                let received = Received { published, ..Received::at(at) };
                if let Ok(Some(stamp)) = decode_clock(&recorded.bytes) {
                    self.order.clock(stamp, received);
                }
            } else {
                let whole = self.order.bytes(&bag.topics[recorded.topic].name, recorded);
                whole.into_iter().for_each(|number| self.numbers.came(number));
            }
            self.play(false)?;
            if self.now.since(settled) > NANOS_PER_S {
                settled = self.now;
                self.settle(self.now.offset(-SETTLED_NS));
            }
        }
        self.problems.join(std::mem::take(&mut messages.problems));
        drop(messages);
        // What was read is not all: equal ticks would prove nothing of the rest.
        self.problems.readable()?;
        self.play(true)?;
        self.settle(Stamp::MAX);
        Ok(())
    }

    fn event(&mut self, event: RecordingEvent) {
        match event {
            RecordingEvent::Received { number, input, arrival, bytes_of } => {
                if input.index() < self.player.runtime().inputs().count() {
                    let came = arrival.stamp.map(|stamp| (arrival.epoch, stamp));
                    match self.leads {
                        true => {
                            let came = came.map(|(epoch, stamp)| (epoch.number(), stamp));
                            self.cut = self.cut.map(|cut| came.map_or(cut, |came| cut.max(came)));
                        }
                        false => self.numbers.announced(number, came, self.now),
                    }
                    let whole = self.order.received(number, input, arrival, bytes_of);
                    whole.into_iter().for_each(|number| self.numbers.came(number));
                }
            }
            RecordingEvent::Chunk(chunk) => {
                self.commands.iter_mut().for_each(|commands| commands.found(chunk));
            }
            RecordingEvent::Node(event) => self.node_event(event),
            RecordingEvent::Start { .. } => {
                if std::mem::take(&mut self.leads) {
                    self.numbers.begin_with_next();
                    if let Some((epoch, stamp)) = self.cut {
                        self.gaps.add_begin((epoch, stamp.offset(CUT_NS)));
                    }
                }
            }
            RecordingEvent::Mark(_) => {}
            RecordingEvent::Gap(gap) => {
                if gap.input.index() < self.player.runtime().inputs().count() {
                    if !self.leads {
                        self.numbers.told(&gap);
                    }
                    self.gaps.add(&gap, &self.player.runtime().pipeline);
                }
            }
            RecordingEvent::GapOfEvents { events, .. } => {
                self.missing_events = self.missing_events.saturating_add(events);
                self.commands.iter_mut().for_each(Commands::lost);
                // Among them may be messages on /clock. Of other events the message or the tick tells.
                if self.simulated {
                    self.gaps.add_clock(self.numbers.newest());
                }
            }
            RecordingEvent::End => self.complete = true,
        }
    }

    fn node_event(&mut self, event: Event) {
        match event {
            Event::MessageOutcome { number, outcome, at, .. } => {
                self.order.outcome(number, outcome);
                if let MessageOutcome::Taken { stamp, changes: Some(changes) } = outcome {
                    self.rows.taken(number, stamp, changes, at);
                }
            }
            Event::Tick(tick) if self.is_of_deleted(tick) => {}
            Event::Tick(tick) if self.simulated => self.ticks.told(tick),
            Event::Tick(tick) => self.order.tick(tick),
            Event::Overruns { ticks, .. } => {
                self.ticks.overruns = self.ticks.overruns.saturating_add(ticks);
            }
            Event::Command(command) => {
                self.commands.iter_mut().for_each(|commands| commands.fact(command));
            }
            // All later events have its number.
            Event::Epoch(_) => {}
        }
    }

    /// True if a tick was due before the first messages that were not deleted. Its event came a moment later.
    fn is_of_deleted(&self, tick: TickRecord) -> bool {
        let grid = self.player.runtime().pipeline.config().grid;
        let due = (tick.epoch.number(), grid.stamp_of(tick.tick));
        self.cut.is_some_and(|cut| due <= cut)
    }

    /// Gives the player what comes next, as long as its outcome is known.
    fn play(&mut self, all: bool) -> Result<(), ReplayError> {
        while let Some(next) = self.order.next(all) {
            match next {
                Step::Clock { stamp, received } => {
                    let ticks = &mut self.ticks;
                    let mut serve = |served: Served<'_>| ticks.took(served);
                    self.player.set_clock(stamp, received, &mut serve)?;
                }
                Step::Message(message, outcome) => self.receive(message, outcome)?,
                Step::Tick(tick) => {
                    self.ticks.told(tick);
                    if tick.fate != TickFate::Unsent {
                        self.serve(tick)?;
                    }
                }
            }
            for made in self.replayed.take() {
                self.rows.made(made, &self.player.runtime().pipeline);
            }
        }
        Ok(())
    }

    fn receive(
        &mut self,
        message: Message,
        outcome: Option<MessageOutcome>,
    ) -> Result<(), ReplayError> {
        let Message { number, input, arrival, received, bytes } = message;
        self.messages += 1;
        self.rows.came(number, input, arrival);
        let runtime = self.player.runtime();
        if outcome.is_none() && runtime.input_spec(input).is_large() {
            // The node may have dropped it because its encoders were too slow.
            self.gaps.add_doubtful(number, input, arrival, &runtime.pipeline);
        }
        if outcome == Some(MessageOutcome::Dropped(DropReason::Overload)) {
            self.overloads += 1;
            runtime.pipeline.drop_unseen(input, DropReason::Overload);
        } else {
            self.replayed.next_is(number);
            let taken = self.player.receive_as(input, bytes, received.at, arrival);
            taken.map_err(ReplayError::from)?;
        }
        self.gaps.came(number, input, arrival, self.player.runtime());
        Ok(())
    }

    /// Serves a tick of the node, on a clock that is not a simulator's.
    fn serve(&mut self, tick: TickRecord) -> Result<(), ReplayError> {
        let ticks = &mut self.ticks;
        let mut serve = |served: Served<'_>| ticks.took(served);
        self.player.serve_recorded(tick.epoch, tick.tick, &mut serve)
    }

    /// Judges the ticks that were found to differ before this time of the log, and forgets what is older.
    fn settle(&mut self, before: Stamp) {
        let all = before == Stamp::MAX;
        if let Some(lost) = self.numbers.lost(if all { Stamp::MAX } else { self.now }) {
            self.gaps.add_unknown(lost, &self.player.runtime().pipeline);
        }
        let (now, later): (Vec<Doubt>, Vec<Doubt>) = std::mem::take(&mut self.ticks.doubts)
            .into_iter()
            .partition(|doubt| all || doubt.found < before);
        self.ticks.doubts = later;
        for Doubt { id, live, replayed, .. } in now {
            if self.gaps.have_an_effect(id, replayed.stamp) {
                self.ticks.unverifiable += 1;
            } else {
                let changes = [live.changes, replayed.changes];
                let causes = self.rows.explain(changes, replayed.stamp);
                self.ticks.differs(id, causes.0, causes.1);
            }
        }
        let grid = self.player.runtime().pipeline.config().grid;
        for id in self.ticks.take_unserved(all) {
            if self.gaps.have_an_effect(id, grid.stamp_of(id.1)) {
                self.ticks.unverifiable += 1;
            } else {
                self.ticks.differs(id, Vec::new(), Vec::new());
            }
        }
        if all {
            self.ticks.different.sort_by_key(|tick| (tick.epoch, tick.tick));
        } else {
            self.rows.forget_before(before.offset(-SETTLED_NS));
        }
    }

    fn report(self, recording: &Path, manifest: Manifest) -> VerifyReport {
        let has_frames = self.player.runtime().inputs_of(None).next().is_some();
        let missing_streams = manifest.missing_streams(self.player.runtime().pipeline.config());
        let Verification { ticks, rows, gaps, mut problems, order, commands, .. } = self;
        order.problems().into_iter().for_each(|what| {
            problems.push(Problem { path: recording.to_owned(), what, unreadable: false });
        });
        VerifyReport {
            recording: recording.display().to_string(),
            version: manifest.version,
            is_cut: manifest.begins.is_some(),
            missing_streams,
            equal: ticks.equal,
            held_back: ticks.held_back,
            unverifiable: ticks.unverifiable,
            unsent: ticks.unsent,
            overruns: ticks.overruns,
            messages: self.messages,
            missing: gaps.messages(),
            damaged: gaps.damaged(),
            missing_events: self.missing_events,
            overloads: self.overloads,
            complete: self.complete,
            differing: ticks.differing,
            unexplained: ticks.unexplained,
            has_frames,
            commands: commands.map(Commands::report),
            streams: rows.streams(),
            different: ticks.different,
            problems: problems.first.iter().map(ToString::to_string).collect(),
            more_problems: problems.more,
        }
    }
}
