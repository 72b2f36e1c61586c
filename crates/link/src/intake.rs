//! The subscriptions: takes every waiting message, hands it to the runtime, and counts the lost
//! messages.

use super::after_standstill::{Look, StandstillWatch};
use super::buffers::Buffers;
use super::chunks::ChunkIntake;
use super::clock::ClockIntake;
use super::connector::{Connector, Handed};
use super::error::LinkError;
use super::input::{Input, Subscribed, largest_buffer};
use super::middleware::{Middleware, Subscription};
use super::wanted::Wanted;
use robocache_core::spec::InputId;
use robocache_runtime::Runtime;
use std::time::Instant;

/// Some of the subscriptions, which one thread takes messages from.
///
/// The runtime handles a small message at once, and a large one goes to the encode workers. Still,
/// an image takes a millisecond to copy. So one thread takes the small messages and the clock, and
/// another one the images and clouds.
pub(crate) struct Intake<S> {
    clock: Option<ClockIntake<S>>,
    chunks: Option<ChunkIntake<S>>,
    inputs: Vec<Input<S>>,
    /// Tells when the thread stood still.
    standstills: StandstillWatch,
    /// Inputs that may have a message, during a drain.
    ready: Vec<usize>,
    /// Ends what is replaced.
    connector: Connector,
    /// Subscriptions of a new connection, before they are taken.
    newer: Handed<Subscriptions<S>>,
}

/// Subscriptions that one thread waits for.
pub struct Subscriptions<S> {
    /// The clock of a simulator, if that is the node's clock and this the thread of the small messages.
    clock: Option<S>,
    /// Chunks of actions, if the node makes commands of them and this is the thread of the small messages.
    chunks: Option<S>,
    /// In the order of the inputs.
    inputs: Vec<Subscribed<S>>,
}

impl<S> Subscriptions<S> {
    /// Makes the subscriptions of the large inputs, or those of the others with what else is small. `subscribe` makes one.
    ///
    /// # Errors
    /// `subscribe` failed.
    pub fn new<E>(
        runtime: &Runtime,
        large: bool,
        mut subscribe: impl FnMut(Wanted) -> Result<S, E>,
    ) -> Result<Self, E> {
        let mut of_input = |id| {
            // The newest: what the one before asks for may differ from what the publishers offer by now.
            let asks = runtime.input(id).wants.get();
            let subscription = subscribe(Wanted::of_input(runtime.input_spec(id), asks))?;
            Ok(Subscribed { subscription, asks })
        };
        let inputs = runtime.inputs().filter(|id| runtime.input_spec(*id).is_large() == large);
        let inputs = inputs.map(&mut of_input).collect::<Result<_, E>>()?;
        let has_clock = !large && runtime.clock.is_simulated();
        let clock = has_clock.then(|| subscribe(Wanted::clock())).transpose()?;
        let has_chunks = !large && runtime.commands.is_some();
        let chunks = has_chunks.then(|| subscribe(Wanted::chunks())).transpose()?;
        Ok(Subscriptions { clock, chunks, inputs })
    }
}

impl<S: Subscription> Intake<S> {
    /// Takes the messages of these subscriptions: those of the large inputs or those of the others, and the
    /// clock's. `newer` has those of each later connection. `connector` ends what is replaced.
    pub(crate) fn new(
        runtime: &Runtime,
        large: bool,
        Subscriptions { clock, chunks, inputs }: Subscriptions<S>,
        newer: Handed<Subscriptions<S>>,
        middleware: &Middleware,
        connector: Connector,
    ) -> Self {
        let ids = runtime.inputs().filter(|id| runtime.input_spec(*id).is_large() == large);
        let ids: Vec<InputId> = ids.collect();
        let largest = ids.iter().map(|id| largest_buffer(runtime, runtime.input_spec(*id))).max();
        let buffers = Buffers::new(largest.unwrap_or(0), ids.len());
        let inputs = ids.into_iter().zip(inputs);
        let numbered = middleware.numbers_messages;
        let input = |(id, subscribed)| Input::new(id, runtime, subscribed, numbered, &buffers);
        let inputs = inputs.map(input).collect();
        let clock = clock.map(ClockIntake::new);
        let chunks = chunks.map(ChunkIntake::new);
        let standstills = StandstillWatch::default();
        Intake { clock, chunks, inputs, standstills, ready: Vec::new(), connector, newer }
    }

    /// True if a message may wait.
    pub(crate) fn may_have(&self) -> bool {
        self.clock.as_ref().is_some_and(ClockIntake::may_have)
            || self.chunks.as_ref().is_some_and(ChunkIntake::may_have)
            || self.inputs.iter().any(Input::may_have)
    }

    /// Takes the waiting messages: in turns one of each subscription, so that none waits for all of
    /// another, but from each at most as many as its queue holds. Messages that come meanwhile are
    /// left for the next call.
    pub(crate) fn drain(&mut self, runtime: &Runtime) -> Result<(), LinkError> {
        self.standstills.look(Look::now(&runtime.time));
        let now = runtime.time.monotonic();
        self.inputs.iter_mut().for_each(|input| input.run(now));
        self.ready.clear();
        self.ready.extend((0..self.inputs.len()).filter(|k| self.inputs[*k].may_have()));
        for round in 0.. {
            if let Some(clock) = &mut self.clock {
                clock.drain(runtime)?;
            }
            if let Some(chunks) = &mut self.chunks {
                chunks.drain(runtime)?;
            }
            let mut at = 0;
            while let Some(k) = self.ready.get(at) {
                let input = &mut self.inputs[*k];
                if round < input.depth() && input.take(runtime, &mut self.standstills)? {
                    at += 1;
                } else {
                    self.ready.remove(at);
                }
            }
            if self.ready.is_empty() {
                break;
            }
        }
        let is_renewed = self.is_renewed();
        self.inputs.iter_mut().filter(|input| input.has_pending_losses()).for_each(|input| {
            input.count_losses(runtime, is_renewed);
        });
        Ok(())
    }

    /// True if all subscriptions are replaced soon, because a new connection is being made.
    fn is_renewed(&self) -> bool {
        // Asked in this order, one of the two is true until its subscriptions are taken.
        self.connector.is_connecting() || self.newer.waits()
    }

    /// Counts what the middleware has lost, ends overlaps, and subscribes again to an input whose publishers offer another
    /// quality of service than before. Takes the subscriptions of a new connection. The caller calls this several times per
    /// second, after a drain.
    pub(crate) fn look(&mut self, runtime: &Runtime, now: Instant) {
        let is_renewed = self.is_renewed();
        for input in &mut self.inputs {
            if let Some(before) = input.end_overlap(now) {
                self.connector.end(before);
            }
            input.count_losses(runtime, is_renewed);
        }
        let connector = &self.connector;
        self.inputs.iter_mut().for_each(|input| input.adapt(runtime, now, connector));
        if let Some(clock) = &mut self.clock
            && let Some(before) = clock.follow(runtime, now)
        {
            self.connector.end(before);
        }
        if let Some(before) = self.chunks.as_mut().and_then(|chunks| chunks.follow(now)) {
            self.connector.end(before);
        }
        if let Some(subscriptions) = self.newer.take() {
            self.move_to(runtime, subscriptions);
        }
    }

    /// Takes the subscriptions of a new connection.
    fn move_to(
        &mut self,
        runtime: &Runtime,
        Subscriptions { clock, chunks, inputs }: Subscriptions<S>,
    ) {
        let now = runtime.time.monotonic();
        for (input, subscribed) in self.inputs.iter_mut().zip(inputs) {
            input.resubscribe(runtime, subscribed, now, &self.connector);
        }
        if let (Some(clock), Some(next)) = (&mut self.clock, clock)
            && let Some(unused) = clock.begin(next, now)
        {
            self.connector.end(unused);
        }
        if let (Some(chunks), Some(next)) = (&mut self.chunks, chunks)
            && let Some(unused) = chunks.begin(next, now)
        {
            self.connector.end(unused);
        }
    }
}
