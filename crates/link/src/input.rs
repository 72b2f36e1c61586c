//! The subscription of one input, and the one that replaces it.

use super::after_standstill::{Look, StandstillWatch};
use super::buffers::Buffers;
use super::connector::{Connector, Handed};
use super::error::LinkError;
use super::handover::Handover;
use super::losses::Losses;
use super::middleware::{EventTotals, MiddlewareError, Subscription};
use super::takes::Takes;
use super::wanted::Wanted;
use robocache_core::spec::{InputId, InputSpec, Timeline};
use robocache_ops::time::Stamp;
use robocache_runtime::{OfferedQos, Origin, Runtime};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// If two drains are further apart, the thread did not run between them, and what came meanwhile may still be on its way.
const ASLEEP: Duration = Duration::from_millis(500);

/// A subscription of an input, and what it asks for.
pub(crate) struct Subscribed<S> {
    pub subscription: S,
    /// The quality of service that it asks for.
    pub asks: OfferedQos,
}

/// The subscription of one input.
pub(crate) struct Input<S> {
    id: InputId,
    depth: usize,
    subscription: S,
    /// The subscription before has its number among those of the input.
    handover: Handover<(Subscribed<S>, u32)>,
    /// The number of the first subscription of the present connection.
    first_of_connection: u32,
    /// A subscription that was asked for and has not been taken, and what it asks for.
    coming: Option<(OfferedQos, Handed<Result<S, MiddlewareError>>)>,
    buffers: Buffers,
    takes: Takes,
    losses: Losses,
    /// True if a row's instant is that of its arrival.
    is_of_arrival: bool,
    /// True if the clock of the publisher of the newest message agrees with that of this machine.
    clocks_agree: bool,
    /// When the thread ran last.
    ran: Instant,
    /// True if the thread did not run for a while since the last look at an overlap.
    slept: bool,
}

impl<S: Subscription> Input<S> {
    /// Takes the messages of a subscription. `numbered`: true if they have numbers of their publisher.
    pub(crate) fn new(
        id: InputId,
        runtime: &Runtime,
        Subscribed { subscription, asks }: Subscribed<S>,
        numbered: bool,
        buffers: &Buffers,
    ) -> Self {
        let spec = runtime.input_spec(id);
        let state = runtime.input(id);
        state.asks.set(asks);
        state.tells_lost.store(numbered, Ordering::Relaxed);
        Input {
            id,
            depth: spec.qos.depth,
            subscription,
            handover: Handover::default(),
            first_of_connection: 0,
            coming: None,
            buffers: buffers.with(runtime.pipeline.messages(id), largest_buffer(runtime, spec)),
            takes: Takes::default(),
            losses: Losses::new(!spec.newest_arrival_counts()),
            is_of_arrival: spec.timeline == Timeline::Receive,
            clocks_agree: false,
            ran: runtime.time.monotonic(),
            slept: false,
        }
    }

    /// Number of messages that its queue holds.
    pub(crate) fn depth(&self) -> usize {
        self.depth
    }

    /// True if a message may wait.
    pub(crate) fn may_have(&self) -> bool {
        let before = self.handover.overlap.before();
        self.subscription.may_have()
            || before.is_some_and(|(before, _)| before.subscription.may_have())
    }

    /// True if [`count_losses`](Self::count_losses) must be called soon.
    pub(crate) fn has_pending_losses(&self) -> bool {
        self.losses.is_pending()
    }

    /// Asks the thread *connect* for another subscription if the publishers offer another quality of service than the
    /// subscription asks for. Takes its messages when it is made.
    pub(crate) fn adapt(&mut self, runtime: &Runtime, now: Instant, connector: &Connector) {
        let spec = runtime.input_spec(self.id);
        let state = runtime.input(self.id);
        let wants = state.wants.get();
        let Some((asks, coming)) = &self.coming else {
            let asks = state.asks.get();
            if self.handover.is_due(asks != wants, |(before, _)| before.asks == wants, now) {
                let coming = connector.make(self.subscription.again(Wanted::of_input(spec, wants)));
                self.coming = Some((wants, coming));
            }
            return;
        };
        let (asks, Some(made)) = (*asks, coming.take()) else { return };
        self.coming = None;
        match made {
            // The publishers have changed meanwhile.
            Ok(unused) if asks != wants => connector.end(unused),
            Ok(subscription) => {
                let before = state.asks.get();
                // It is of the same connection.
                let kept = self.handover.overlap.before().map(|(kept, _)| kept.asks);
                let is_wider = kept.into_iter().chain([before]).all(|of| asks.fits(of));
                let subscribed = Subscribed { subscription, asks };
                self.replace(runtime, subscribed, now, is_wider, connector);
                state.adapted.add(1);
                tracing::info!(
                    "{}: subscribed again with {asks} instead of {before}, because its publishers \
                     have changed",
                    name_of(spec)
                );
            }
            Err(error) => {
                if self.handover.failed(now) {
                    tracing::warn!("{}: not subscribed with {asks}: {error}", name_of(spec));
                }
            }
        }
    }

    /// Takes the messages of the subscription of a new connection, as [`replace`](Self::replace) does.
    pub(crate) fn resubscribe(
        &mut self,
        runtime: &Runtime,
        subscribed: Subscribed<S>,
        now: Instant,
        connector: &Connector,
    ) {
        // One through the connection before is of no use any more. It may be made at this moment, so its place goes too.
        if let Some((_, coming)) = self.coming.take() {
            connector.end(coming);
        }
        self.replace(runtime, subscribed, now, false, connector);
        self.first_of_connection = self.losses.subscription();
        runtime.input(self.id).resubscribed.add(1);
    }

    /// Takes the messages of another subscription from now on, and for a while also those of this one. `is_wider`: as for
    /// [`Handover::begin`].
    fn replace(
        &mut self,
        runtime: &Runtime,
        Subscribed { subscription, asks }: Subscribed<S>,
        now: Instant,
        is_wider: bool,
        connector: &Connector,
    ) {
        let state = runtime.input(self.id);
        let told = self.events(runtime);
        let before = std::mem::replace(&mut self.subscription, subscription);
        let before = Subscribed { subscription: before, asks: state.asks.get() };
        if self.is_heard_by_kept_alone(&before) {
            self.handover.overlap.lacks(now);
        }
        let unused = self.handover.begin((before, self.losses.subscription()), now, is_wider);
        unused.into_iter().for_each(|(unused, _)| connector.end(unused.subscription));
        state.lost.add(self.losses.overlap(told.lost).on_the_way);
        state.asks.set(asks);
        state.incompatible.store(0, Ordering::Relaxed);
    }

    /// True if the subscription that is kept hears a publisher that does not fit the replaced one, and also all others of that
    /// one. Of two connections, one may be cut off, so each is needed.
    fn is_heard_by_kept_alone(&self, replaced: &Subscribed<S>) -> bool {
        let Some((kept, number)) = self.handover.overlap.before() else { return false };
        let is_wider = kept.asks.fits(replaced.asks) && !replaced.asks.fits(kept.asks);
        *number >= self.first_of_connection
            && is_wider
            && publishers(&kept.subscription) > publishers(&replaced.subscription)
    }

    /// Takes a message and hands its buffer to the runtime without a copy. Returns `false` if no
    /// message waits, or if the middleware failed to give it.
    ///
    /// # Errors
    /// The middleware failed too often in a row, or the backend failed.
    pub(crate) fn take(
        &mut self,
        runtime: &Runtime,
        standstills: &mut StandstillWatch,
    ) -> Result<bool, LinkError> {
        let mut message = self.buffers.take();
        let state = runtime.input(self.id);
        let before = self.handover.overlap.before();
        let before =
            before.map(|(before, number)| (before.subscription.take(&mut message), *number));
        let (taken, by) = match before {
            Some((taken, number)) if !matches!(taken, Ok(None)) => (taken, number),
            _ => (self.subscription.take(&mut message), self.losses.subscription()),
        };
        if taken.is_err() {
            state.take_failed.add(1);
        }
        let Some(info) = self.takes.note(taken)? else {
            self.buffers.give_back(message);
            return Ok(false);
        };
        let publisher = Some(info.publisher);
        let transit = info.transit;
        let published = transit.published_ns.map(Stamp::from_nanos);
        let origin = Origin { publisher, published };
        if !self.losses.note(&info, by) {
            // While two subscriptions overlap, that is no news.
            state.repeated.add(u64::from(!self.losses.overlaps()));
            match state.asks.get().transient_local {
                true => {
                    let message = self.buffers.lend(message);
                    runtime.keep_repeated(origin, self.id, message, transit);
                }
                false => self.buffers.give_back(message),
            }
            return Ok(true);
        }
        if self.is_of_arrival && !state.asks.get().transient_local {
            standstills.look(Look::now(&runtime.time));
            if standstills.has_waited(transit, self.clocks_agree) {
                runtime.drop_waited(self.id, publisher);
                self.buffers.give_back(message);
                return Ok(true);
            }
            self.clocks_agree = transit.agrees();
        }
        let arrival = runtime.arrival(self.id, transit);
        runtime.receive_from(origin, self.id, self.buffers.lend(message), arrival)?;
        Ok(true)
    }

    /// Notes that the thread runs, before it takes what waits.
    pub(crate) fn run(&mut self, now: Instant) {
        let asleep = now.saturating_duration_since(std::mem::replace(&mut self.ran, now));
        if asleep > ASLEEP {
            self.slept = true;
            self.losses.slept(asleep, now);
        }
    }

    /// Returns the subscription before when only the new one is needed.
    #[must_use = "ending a subscription takes time"]
    pub(crate) fn end_overlap(&mut self, now: Instant) -> Option<S> {
        let new = &self.subscription;
        let slept = std::mem::take(&mut self.slept);
        self.losses.look(now);
        let is_connected = |(before, _): &(Subscribed<S>, u32)| {
            !slept && publishers(new) >= publishers(&before.subscription)
        };
        let (before, _) = self.handover.overlap.over(now, is_connected)?;
        let told = new.events().unwrap_or_default();
        self.losses.overlap_ended(told.lost, now);
        Some(before.subscription)
    }

    /// Counts the lost messages, unless some that wait may show more of them. `is_renewed`: true if a new connection is being
    /// made.
    pub(crate) fn count_losses(&mut self, runtime: &Runtime, is_renewed: bool) {
        let told = self.events(runtime);
        let now = runtime.time.monotonic();
        let is_held = self.handover.holds_losses(self.coming.is_some() || is_renewed, now);
        let waits = self.losses.follow_newcomer(self.depth) && self.subscription.may_have();
        if is_held || waits || self.losses.overlaps() {
            return;
        }
        let lost = self.losses.explain(told.lost, now);
        let state = runtime.input(self.id);
        state.lost.add(lost.on_the_way);
        state.queue_full.add(lost.overwritten);
    }

    /// Takes the totals of the events. If they cannot be taken, the input goes on without them.
    fn events(&mut self, runtime: &Runtime) -> EventTotals {
        let told = self.subscription.events().unwrap_or_else(|error| {
            let topic = self.subscription.topic();
            tracing::warn!(
                "{topic}: {error}; from now on the events of this subscription are not read"
            );
            self.subscription.end_events();
            EventTotals::default()
        });
        if let Some(incompatible) = told.incompatible {
            runtime.input(self.id).incompatible.store(incompatible, Ordering::Relaxed);
        }
        told
    }
}

/// Returns the largest buffer that an input keeps \[bytes\]: one of the largest message that the
/// node takes, with usual points.
pub(crate) fn largest_buffer(runtime: &Runtime, spec: &InputSpec) -> usize {
    const SMALL: usize = 1 << 20;
    const POINT: usize = 64;
    let bounds = spec.stream.map(|stream| runtime.stream_spec(stream).bounds);
    let large = bounds
        .filter(|_| spec.is_large())
        .map(|bounds| spec.largest_message(bounds).unwrap_or(POINT * bounds.max_points));
    SMALL + large.unwrap_or(0)
}

/// The number of publishers that a subscription has found.
fn publishers<S: Subscription>(subscription: &S) -> usize {
    subscription.publisher_count().unwrap_or(0)
}

/// The name of an input in the log.
fn name_of(spec: &InputSpec) -> String {
    format!("stream '{}' ({})", spec.name, spec.topic)
}
