//! Which ticks a missing message may change.
//!
//! A message that is missing may change the ticks from its arrival on, until every row in the rings that it
//! could have entered is of a later message. Transforms and the numbers of a camera enter no ring: they may
//! change all ticks that come.

use super::TickId;
use crate::pipeline::{Arrival, Pipeline, Turnover};
use crate::replay::recording::Gap;
use crate::spec::{InputId, StreamId};
use crate::time::{Epoch, Stamp};

#[derive(Default)]
pub(super) struct Gaps {
    open: Vec<Effect>,
    over: Vec<Effect>,
    messages: u64,
    /// Whether events are missing: then it is not known when.
    events: u64,
}

struct Effect {
    input: InputId,
    /// The stream whose rings it could have entered; `None` if it enters none.
    stream: Option<StreamId>,
    /// The last number that is missing.
    last: u64,
    epoch: u64,
    from: Stamp,
    /// The rings when the first later message came.
    mark: Option<Vec<Turnover>>,
    /// Whether the input has had a later message.
    heard: bool,
    /// The arrival of the message that ended it, with its epoch.
    until: Option<(u64, Stamp)>,
    /// The newest arrival.
    newest: (u64, Stamp),
}

impl Gaps {
    /// Messages of an input are missing.
    pub fn add(&mut self, gap: &Gap, pipeline: &Pipeline) {
        self.messages = self.messages.saturating_add(gap.messages);
        let spec = pipeline.config().input(gap.input);
        self.open.push(Effect {
            input: gap.input,
            stream: spec.stream.filter(|_| !spec.feeds.is_empty()),
            last: gap.last,
            epoch: gap.epoch.number(),
            // A tick that was due before may have run after it.
            from: gap.from.map_or(Stamp::from_nanos(i64::MIN), |from| {
                from.offset(-2 * pipeline.config().grid.period_ns())
            }),
            mark: None,
            heard: false,
            until: None,
            newest: (0, Stamp::ZERO),
        });
    }

    /// Messages of any inputs are missing, the last of this number. The first came after `after`.
    pub fn add_unknown(
        &mut self,
        (messages, last): (u64, u64),
        after: Option<(Epoch, Stamp)>,
        pipeline: &Pipeline,
    ) {
        self.messages = self.messages.saturating_add(messages);
        let config = pipeline.config();
        let fixed = config.input_ids().any(|id| config.input(id).feeds.is_empty());
        let streams = config.stream_ids().map(Some).chain(fixed.then_some(None));
        let (epoch, from) = after.map_or((0, None), |(epoch, from)| (epoch.number(), Some(from)));
        let period_ns = config.grid.period_ns();
        self.open.extend(streams.map(|stream| Effect {
            input: InputId::new(0),
            stream,
            last,
            epoch,
            from: from.map_or(Stamp::from_nanos(i64::MIN), |from| from.offset(-2 * period_ns)),
            mark: None,
            // It is not known which input was not heard.
            heard: true,
            until: None,
            newest: (0, Stamp::ZERO),
        }));
    }

    /// Events are missing.
    pub fn add_events(&mut self, events: u64) {
        self.events = self.events.saturating_add(events);
    }

    /// Messages that are missing.
    pub fn messages(&self) -> u64 {
        self.messages
    }

    /// A message was pushed.
    pub fn came(&mut self, number: u64, (input, arrival): (InputId, Arrival), pipeline: &Pipeline) {
        for effect in &mut self.open {
            if let Some(stamp) = arrival.stamp {
                effect.newest = (arrival.epoch.number(), stamp);
            }
            let (Some(stream), true) = (effect.stream, number > effect.last) else { continue };
            let now = pipeline.turnover(stream);
            effect.heard |= effect.mark.is_some() && input == effect.input;
            let Some(mark) = &effect.mark else {
                effect.mark = Some(now);
                continue;
            };
            let replaced = |(now, mark): (&Turnover, &Turnover)| {
                let newer = now.oldest.is_none_or(|oldest| oldest > mark.newest);
                newer && (now.full || mark.epoch.is_before(now.epoch))
            };
            if effect.heard && now.iter().zip(mark).all(replaced) {
                effect.until = Some(effect.newest);
            }
        }
        self.over.extend(self.open.extract_if(.., |effect| effect.until.is_some()));
    }

    /// Whether a message that is missing may change this tick.
    pub fn have_an_effect(&self, (epoch, _): TickId, stamp: Stamp) -> bool {
        let began = |effect: &Effect| (epoch, stamp) >= (effect.epoch, effect.from);
        let lasts = |effect: &Effect| effect.until.is_none_or(|until| (epoch, stamp) <= until);
        self.events > 0
            || self.open.iter().any(began)
            || self.over.iter().any(|effect| began(effect) && lasts(effect))
    }
}
