//! Which ticks a missing message may change.
//!
//! A missing message may change the ticks after its arrival. This ends when all rows in its rings were made after the
//! next message of every input of its stream that matters. Transforms and the numbers of a camera enter no ring: they
//! may change all ticks that come.

use super::numbers::Lost;
use super::order::PATIENCE_NS;
use super::ticks::TickId;
use robocache_core::pipeline::{Arrival, Pipeline, Turnover};
use robocache_core::spec::{Config, InputId, StreamId};
use robocache_data::recording::Gap;
use robocache_ops::time::{Epoch, Stamp};
use robocache_runtime::Runtime;

/// The number of an epoch, and an instant in it.
type Instant = (u64, Stamp);

pub(super) struct Gaps {
    /// By stream: the effect that has no end yet.
    open: Vec<Option<Effect>>,
    /// From and until when there was an effect.
    ended: Vec<(Instant, Instant)>,
    /// From when on there is an effect without an end.
    endless: Option<Instant>,
    messages: u64,
    damaged: u64,
}

/// Possible effect of missing messages on a stream.
struct Effect {
    from: Instant,
    /// The last number that is missing.
    last: u64,
    /// The inputs that had no later message.
    unheard: Vec<InputId>,
    /// The rings when all inputs were heard.
    mark: Option<Vec<Turnover>>,
}

impl Gaps {
    pub(super) fn new(config: &Config) -> Self {
        let open = config.stream_ids().map(|_| None).collect();
        Gaps { open, ended: Vec::new(), endless: None, messages: 0, damaged: 0 }
    }

    /// The recorder had no room for messages of an input.
    pub(super) fn add(&mut self, gap: &Gap, pipeline: &Pipeline) {
        self.messages = self.messages.saturating_add(gap.messages);
        let config = pipeline.config();
        let from = begin(gap.from.map(|from| (gap.epoch, from)), gap.epoch, config);
        let spec = config.input(gap.input);
        let Some(stream) = spec.stream.filter(|_| !spec.feeds.is_empty()) else {
            return self.add_endless(from);
        };
        // A merged row has the newest cloud of each input: so a row of another one may lack the missing one.
        let inputs = match config.stream(stream).merge {
            Some(_) => inputs_of(stream, config),
            None => vec![gap.input],
        };
        self.open(stream, from, gap.last, inputs);
    }

    /// Messages of any inputs are missing, because a part of a file is damaged.
    pub(super) fn add_unknown(&mut self, lost: Lost, pipeline: &Pipeline) {
        self.damaged = self.damaged.saturating_add(lost.messages);
        let config = pipeline.config();
        let from = begin(lost.after, Epoch::default(), config);
        if config.input_ids().any(|id| config.input(id).feeds.is_empty()) {
            self.add_endless(from);
        }
        for stream in config.stream_ids() {
            self.open(stream, from, lost.last, inputs_of(stream, config));
        }
    }

    /// The rings may lack something up to this instant, as what was recorded before was deleted.
    pub(super) fn add_begin(&mut self, until: Instant) {
        self.end((0, Stamp::MIN), until);
    }

    fn add_endless(&mut self, from: Instant) {
        self.endless = Some(self.endless.map_or(from, |earlier| earlier.min(from)));
    }

    /// Adds to the effect of a stream, which it begins unless there is one.
    fn open(&mut self, stream: StreamId, from: Instant, last: u64, inputs: Vec<InputId>) {
        let open = &mut self.open[stream.index()];
        let effect = open.get_or_insert(Effect { from, last, unheard: Vec::new(), mark: None });
        effect.from = effect.from.min(from);
        effect.last = effect.last.max(last);
        effect.mark = None;
        effect.unheard.extend(inputs);
        effect.unheard.sort_unstable_by_key(|input| input.index());
        effect.unheard.dedup();
    }

    /// The recording does not tell whether the node took a message.
    pub(super) fn add_doubtful(
        &mut self,
        number: u64,
        input: InputId,
        arrival: Arrival,
        pipeline: &Pipeline,
    ) {
        let Arrival { stamp: from, epoch, .. } = arrival;
        self.add(&Gap { input, messages: 0, first: number, last: number, from, epoch }, pipeline);
    }

    /// Messages on `/clock` may be missing that came after this arrival, or a moment before it.
    pub(super) fn add_clock(&mut self, after: Option<(Epoch, Stamp)>) {
        let from = after
            .map_or((0, Stamp::MIN), |(epoch, stamp)| (epoch.number(), stamp.offset(-PATIENCE_NS)));
        self.add_endless(from);
    }

    /// Messages for which the recorder had no room.
    pub(super) fn messages(&self) -> u64 {
        self.messages
    }

    /// Messages that are missing because a part of a file is damaged.
    pub(super) fn damaged(&self) -> u64 {
        self.damaged
    }

    /// A message was pushed.
    pub(super) fn came(
        &mut self,
        number: u64,
        input: InputId,
        arrival: Arrival,
        runtime: &Runtime,
    ) {
        let pipeline = &runtime.pipeline;
        let Some(stream) = pipeline.config().input(input).stream else { return };
        let open = &mut self.open[stream.index()];
        let Some(effect) = open.as_mut().filter(|effect| number > effect.last) else { return };
        // One that waits for a transform is in no row yet.
        if runtime.waiting(input) == 0 {
            effect.unheard.retain(|unheard| *unheard != input);
        }
        if !effect.unheard.is_empty() {
            return;
        }
        let now = pipeline.turnover(stream);
        let Some(mark) = &effect.mark else {
            effect.mark = Some(now);
            return;
        };
        let replaced = |(now, mark): (&Turnover, &Turnover)| {
            let newer = now.oldest.is_none_or(|oldest| oldest > mark.newest);
            newer && (now.full || mark.epoch.is_before(now.epoch))
        };
        if let (true, Some(stamp)) = (now.iter().zip(mark).all(replaced), arrival.stamp) {
            let from = effect.from;
            *open = None;
            self.end(from, (arrival.epoch.number(), stamp));
        }
    }

    /// Notes when an effect began and ended.
    fn end(&mut self, mut from: Instant, mut until: Instant) {
        self.ended.retain(|ended| {
            let overlaps = ended.0 <= until && from <= ended.1;
            if overlaps {
                (from, until) = (from.min(ended.0), until.max(ended.1));
            }
            !overlaps
        });
        self.ended.push((from, until));
    }

    /// True if a message that is missing may change this tick.
    pub(super) fn have_an_effect(&self, tick: TickId, stamp: Stamp) -> bool {
        let tick = (tick.0, stamp);
        self.endless.is_some_and(|from| tick >= from)
            || self.open.iter().flatten().any(|effect| tick >= effect.from)
            || self.ended.iter().any(|(from, until)| (from..=until).contains(&&tick))
    }
}

/// When the effect begins of what is missing from then on. A tick that was due before may have run after it.
fn begin(after: Option<(Epoch, Stamp)>, epoch: Epoch, config: &Config) -> Instant {
    after.map_or((epoch.number(), Stamp::MIN), |(epoch, stamp)| {
        (epoch.number(), stamp.offset(-2 * config.grid.period_ns()))
    })
}

/// The inputs whose messages become rows of a stream.
fn inputs_of(stream: StreamId, config: &Config) -> Vec<InputId> {
    let feeds = |id: &InputId| {
        let spec = config.input(*id);
        spec.stream == Some(stream) && !spec.feeds.is_empty()
    };
    config.input_ids().filter(feeds).collect()
}

#[cfg(test)]
mod tests;
