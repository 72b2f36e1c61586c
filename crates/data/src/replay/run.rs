//! Plays one episode.

use std::cell::RefCell;

use super::commands::ReplayedCommands;
use super::episode::Moment;
use super::read_ahead::read_ahead;
use super::stamps::{StampClock, stamp_in_header};
use super::summary::{Skew, Summary};
use super::waits::Waits;
use super::wiring::ClockSource;
use super::{Episode, ReplayError, Wiring};
use crate::bag::{Bag, Problems, Recorded};
use crate::output::Output;
use robocache_core::pipeline::Pipeline;
use robocache_core::spec::InputId;
use robocache_ops::time::{NANOS_PER_S, Stamp};
use robocache_runtime::{
    LookAhead, Player, Received, RuntimeError, Served, Ticket, TimeSource, decode_clock,
};

/// Told from time to time how far an episode is.
pub trait Progress {
    /// The player is at `now`, on the recorder's clock. Returns whether it must go on: if not, the run ends
    /// as if the episode ended here, and the summary says so.
    fn at(&self, now: Stamp) -> bool;
}

/// Messages between two calls of [`Progress::at`].
const PER_REPORT: u32 = 256;

/// Bytes of the messages that are encoded before their turn. A lidar's next cloud should be among them.
const BEGUN: usize = 8 << 20;

/// How an episode is played.
#[derive(Clone, Copy, Debug)]
pub struct Playing {
    /// True if tensors are sealed.
    pub digest: bool,
    /// With more than one, images and clouds are encoded on as many threads, and one more reads. The result does not depend
    /// on that.
    pub threads: usize,
}

/// Plays an episode of a bag through a pipeline, and gives every tensor to `output`. If it takes no ticks, it
/// gets the rows instead. The caller finishes it.
///
/// # Errors
/// If the bag can no longer be read, the backend fails, or the output cannot be written. What is damaged in
/// a bag is left out, and in the summary.
pub fn run(
    bag: &Bag,
    episode: &Episode,
    wiring: &Wiring,
    pipeline: Pipeline,
    output: &mut dyn Output,
    Playing { digest, threads }: Playing,
    progress: &dyn Progress,
) -> Result<Summary, ReplayError> {
    let mut skew = Skew::default();
    let commands = ReplayedCommands::new(bag, wiring, pipeline.config(), output.takes_commands())?;
    // Whether a chunk counts depends on the ticks, so they are served also if no tensor is wanted.
    let serves = (output.takes_ticks() || commands.needs_ticks(), commands.needs_ticks());
    let player = player(pipeline, wiring, serves, threads)?;
    let mut player = player.beginning_at(episode.leads_until().unwrap_or(Stamp::MIN));
    let commands = RefCell::new(commands);
    let output = RefCell::new(output);
    let mut problems = Problems::default();
    bag.problems.iter().cloned().for_each(|problem| problems.push(problem));
    let mut whole = true;
    if let Some(mut span) = bag.span() {
        // What comes before the begin of a recorded episode is none of it.
        span.0 = episode.begins.map_or(span.0, |begins| begins.clamp(span.0, span.1));
        let Range { start, end } = episode.range(span.0, span.1)?;
        let mut serve = |served: Served<'_>| -> Result<(), ReplayError> {
            match served {
                Served::Tensor(tick, message) => {
                    if digest {
                        message.seal();
                    }
                    skew.note(tick.number, message);
                    output.borrow_mut().tick(tick, message)?;
                }
                Served::Commands(due, runtime) => {
                    commands.borrow_mut().due(due, runtime, &mut **output.borrow_mut())?;
                }
                Served::HeldBack(_) => {}
            }
            Ok(())
        };
        let waits = Waits::default();
        let stamps = StampClock::default();
        let mut play = Play { bag, wiring, player: &mut player, waits, stamps };
        if let Some(start) = start {
            play.latched_before(start, &mut serve, &mut problems)?;
            commands.borrow_mut().before(bag, start, &mut problems)?;
        }
        let reads = |topic| commands.borrow().reads(topic);
        let wanted = wiring.wanted().into_iter().enumerate();
        let wanted: Vec<bool> = wanted.map(|(topic, is)| is || reads(topic)).collect();
        let messages = bag.messages_from(&wanted, start.unwrap_or(Stamp::MIN))?;
        let look_ahead = play.player.look_ahead();
        let ahead = if look_ahead.is_some() { BEGUN } else { 0 };
        let begin = |recorded: &Recorded| begin(look_ahead.as_ref(), bag, wiring, recorded);
        let mut begun = false;
        let mut last = span.1;
        let mut latches = wiring.is_of_node;
        let mut count = 0_u32;
        let read = read_ahead(messages, end, threads > 1, ahead, begin, |recorded, tickets| {
            let now = recorded.received;
            if !begun {
                // A damaged index may say that the bag begins later than it does, or ends sooner.
                // The messages that fill the rings of a recorded episode come before its first tick.
                if episode.leads_until().is_none() {
                    play.player.start(start.unwrap_or(span.0.min(now)), &mut serve)?;
                }
                begun = true;
            }
            last = last.max(now);
            count = count.wrapping_add(1);
            if count.is_multiple_of(PER_REPORT) {
                check(play.player, &output)?;
                whole = progress.at(now);
                if !whole {
                    return Ok(false);
                }
            }
            if reads(recorded.topic) {
                if serves.1 {
                    // The command ticks before it do not find it.
                    play.player.start(now, &mut serve)?;
                }
                commands.borrow_mut().message(&recorded, &mut **output.borrow_mut())?;
            }
            play.take(recorded, &tickets, &mut serve)?;
            if latches && play.player.runtime().clock.now().is_some() {
                // In a recording of the node, each latched message that it took again is a message. Only those from before
                // the episode are not.
                play.player.end_latched();
                latches = false;
            }
            Ok::<_, ReplayError>(true)
        });
        problems.join(read?);
        if whole {
            if !begun {
                play.player.start(start.unwrap_or(span.0), &mut serve)?;
            }
            let last = end.map_or(last, |end| end.min(last));
            play.player.end(last, &mut serve)?;
            play.player.runtime().pipeline.finish_rows();
            check(play.player, &output)?;
            progress.at(last);
        }
    }
    problems.readable()?;
    let commands = commands.into_inner().summary();
    let summary = Summary::new(episode, wiring, player.runtime(), skew, &problems, whole);
    Ok(Summary { commands, ..summary })
}

/// The player of an episode. `serves` says if it serves ticks, and command ticks.
fn player(
    pipeline: Pipeline,
    wiring: &Wiring,
    serves: (bool, bool),
    threads: usize,
) -> Result<Player, ReplayError> {
    let mut player = Player::new(pipeline, wiring.clock.is_simulated(), TimeSource::real())
        .with_latched(&wiring.latched);
    if !serves.0 {
        player = player.without_ticks();
    }
    if serves.1 {
        player = player.with_commands();
    }
    Ok(if threads > 1 { player.with_threads(threads)? } else { player })
}

/// Begins to encode a message for each of its inputs that takes it before its turn.
fn begin(
    look_ahead: Option<&LookAhead>,
    bag: &Bag,
    wiring: &Wiring,
    recorded: &Recorded,
) -> Vec<Ticket> {
    let Some(look_ahead) = look_ahead else { return Vec::new() };
    let inputs = wiring.feeds[recorded.topic].iter();
    let array = bag.array(recorded);
    let begin = |input: &InputId| match &array {
        None => look_ahead.begin(*input, recorded.bytes.clone()),
        Some(array) => look_ahead.begin_array(*input, array.clone()),
    };
    inputs.filter_map(begin).collect()
}

/// Checks that no row was lost on its way to the output.
fn check(player: &Player, output: &RefCell<&mut dyn Output>) -> Result<(), ReplayError> {
    match player.runtime().pipeline.rows_failed() {
        Some(source) => {
            let operation = "read a row".into();
            Err(RuntimeError::Backend { operation, source }.into())
        }
        None => Ok(output.borrow_mut().check()?),
    }
}

/// The first and the last instant that an episode names.
struct Range {
    start: Option<Stamp>,
    end: Option<Stamp>,
}

impl Episode {
    /// The begin of a recorded episode that is played from its begin on: earlier messages fill the rings.
    pub(super) fn leads_until(&self) -> Option<Stamp> {
        self.begins.filter(|_| self.start.is_none())
    }

    /// The instants of the episode in a bag from `first` to `last`.
    ///
    /// # Errors
    /// No message of the bag could be in it.
    fn range(&self, first: Stamp, last: Stamp) -> Result<Range, ReplayError> {
        let in_bag = |moment: Moment| moment.in_bag(first);
        let [start, end] = [self.start.map(in_bag), self.end.map(in_bag)];
        let from = start.unwrap_or(first);
        let to = end.unwrap_or(last);
        if from > to || from > last || to < first {
            return Err(ReplayError::Wiring(format!(
                "{}: expected an episode within {first} to {last}, found {from} to {to}",
                self.bag.display()
            )));
        }
        // Before the first message there is nothing to tick for.
        Ok(Range { start: start.map(|start| start.max(first)), end })
    }
}

/// An episode on its way through a player.
struct Play<'a> {
    bag: &'a Bag,
    wiring: &'a Wiring,
    player: &'a mut Player,
    waits: Waits,
    stamps: StampClock,
}

impl Play<'_> {
    /// Takes a message: as the clock, and by every input of its topic.
    fn take(
        &mut self,
        recorded: Recorded,
        tickets: &[Ticket],
        serve: &mut impl FnMut(Served<'_>) -> Result<(), ReplayError>,
    ) -> Result<(), ReplayError> {
        let Recorded { topic, received: at, published, .. } = recorded;
        if self.wiring.events == Some(topic) {
            self.waits.note(at, &recorded.bytes);
            return Ok(());
        }
        let received = Received { at, published, waited_ns: self.waits.of(at) };
        if let Some(reading) = self.reading(&recorded) {
            self.player.set_clock(reading, received, serve)?;
        }
        self.feed(recorded, received, tickets, serve)
    }

    /// The reading of a simulator's clock that a message is. One that is malformed sets no clock, as in a live node.
    fn reading(&mut self, recorded: &Recorded) -> Option<Stamp> {
        let Recorded { topic, received, bytes, .. } = recorded;
        match &self.wiring.clock {
            ClockSource::Clock(of) if of == topic => decode_clock(bytes).ok().flatten(),
            ClockSource::Headers(of) if of[*topic] => {
                let is_array = self.bag.topics[*topic].array.is_some();
                let stamp = if is_array { *received } else { stamp_in_header(bytes)? };
                self.stamps.take(*topic, stamp, *received)
            }
            _ => None,
        }
    }

    /// Gives a message to every input of its topic. `tickets` are those of inputs that have begun to encode it.
    fn feed(
        &mut self,
        recorded: Recorded,
        received: Received,
        tickets: &[Ticket],
        serve: &mut impl FnMut(Served<'_>) -> Result<(), ReplayError>,
    ) -> Result<(), ReplayError> {
        let array = self.bag.array(&recorded);
        for input in &self.wiring.feeds[recorded.topic] {
            let ticket = tickets.iter().find(|ticket| ticket.input() == *input);
            // Fields are selected of a message.
            let selects = || self.player.runtime().input_spec(*input).selects();
            match (ticket, &array) {
                (Some(ticket), _) => self.player.receive_ahead(*ticket, received, serve)?,
                (None, None) => {
                    self.player.receive(*input, recorded.bytes.clone(), received, serve)?;
                }
                (None, Some(array)) if selects() => {
                    self.player.receive(*input, array.message(), received, serve)?;
                }
                (None, Some(array)) => self.player.receive_array(*input, array, received, serve)?,
            }
        }
        Ok(())
    }

    /// Takes the latched messages from before an episode, as a node that starts with it receives them: all
    /// fixed transforms, the newest numbers of each camera, and the newest message of each latched input.
    fn latched_before(
        &mut self,
        first: Stamp,
        serve: &mut impl FnMut(Served<'_>) -> Result<(), ReplayError>,
        problems: &mut Problems,
    ) -> Result<(), ReplayError> {
        let config = self.player.runtime().pipeline.config();
        let fixed = |id: &InputId| config.input(*id).feeds_fixed_tree();
        let camera = |id: &InputId| config.input(*id).is_calibration();
        let feeds = &self.wiring.feeds;
        let all: Vec<bool> = feeds.iter().map(|ids| ids.iter().any(fixed)).collect();
        let latched = |id: &InputId| camera(id) || self.wiring.latched.contains(id);
        let mut newest: Vec<bool> = feeds.iter().map(|ids| ids.iter().any(latched)).collect();
        let mut latched = self.between(Stamp::MIN, first, &all, problems)?;
        // Cameras repeat their numbers, so the newest are looked for from the end.
        let begin = self.bag.span().map_or(first, |(begin, _)| begin);
        let mut reach = NANOS_PER_S;
        while newest.contains(&true) {
            let from = first.offset(-reach);
            for recorded in self.between(from, first, &newest, problems)?.into_iter().rev() {
                if std::mem::take(&mut newest[recorded.topic]) {
                    latched.push(recorded);
                }
            }
            if from <= begin {
                break;
            }
            reach = reach.saturating_mul(8);
        }
        latched.sort_by_key(|recorded| recorded.received);
        for recorded in latched {
            // Its stamp is no reading: it is from before.
            self.feed(recorded, Received::at(first), &[], serve)?;
        }
        Ok(())
    }

    /// The messages of some topics from an instant to another one, which is not included.
    fn between(
        &self,
        from: Stamp,
        end: Stamp,
        wanted: &[bool],
        problems: &mut Problems,
    ) -> Result<Vec<Recorded>, ReplayError> {
        if !wanted.contains(&true) {
            return Ok(Vec::new());
        }
        let mut messages = self.bag.messages_from(wanted, from)?;
        let found = messages.by_ref().take_while(|recorded| recorded.received < end).collect();
        problems.join(std::mem::take(&mut messages.problems));
        Ok(found)
    }
}
