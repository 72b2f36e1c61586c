//! Replaces a part of the connection while it is used.
//!
//! An input is subscribed to again when its publishers offer another quality of service than before, or
//! through a new connection to the middleware. The new subscription is connected only after a while. So
//! the one before is kept meanwhile, and messages are taken from both. The publishers' numbers tell which
//! messages come twice ([`losses`](super::losses)). The same holds for services and their clients: a request that
//! reaches both is answered once. That is an [`Overlap`]. Where two at once would do harm,
//! the one before is used alone until then. That is a [`Switch`].

use std::time::{Duration, Instant};

use super::connector::{Connector, Handed};

/// Publishers that start or end together do so within this time.
const SETTLE: Duration = Duration::from_millis(100);
/// How long both parts are kept after the new one has found as many publishers, subscribers or clients as the one before:
/// those have then found the new one, too.
const OVERLAP: Duration = Duration::from_secs(1);
/// A new part usually finds all within this time. With Fast DDS, an answer to it may come three seconds late.
const DISCOVERY: Duration = Duration::from_millis(3500);
/// How long both are kept at most, because the one before may count some that have ended.
pub(crate) const LONGEST: Duration = Duration::from_secs(10);
/// Longest time for which both of two publishers are kept. Meanwhile, a subscriber that only the new one has found
/// hears nothing.
const PATIENCE: Duration = Duration::from_secs(5);
/// Losses wait at most this long for a new subscription. The middleware usually makes one sooner.
const HELD: Duration = Duration::from_secs(5);
/// Pause after a subscription could not be made.
const PAUSE: Duration = Duration::from_secs(5);

/// True if each entity of a new part has found at least as many publishers, subscribers or clients as that of the part
/// before.
pub fn found_as_many<N: IntoIterator<Item = usize>, B: IntoIterator<Item = usize>>(
    new: N,
    before: B,
) -> bool {
    new.into_iter().zip(before).all(|(new, before)| new >= before)
}

/// How long a new part has been there, and connected.
struct Beginning {
    taken: Instant,
    /// From then on it has found all who are there.
    found_at: Instant,
    /// Since when it has found all that the one before has.
    connected: Option<Instant>,
}

impl Beginning {
    fn new(taken: Instant) -> Self {
        Beginning { taken, found_at: taken + DISCOVERY, connected: None }
    }

    /// True if only the new part is needed now: it has been connected for `overlap`, or was taken `longest` ago.
    fn is_over(
        &mut self,
        now: Instant,
        overlap: Duration,
        longest: Duration,
        is_connected: bool,
    ) -> bool {
        // The one before may find somebody first. Then both are needed again.
        self.connected = is_connected.then(|| self.connected.unwrap_or(now));
        self.connected.is_some_and(|since| now >= since + overlap) || now >= self.taken + longest
    }

    /// True if the new part is connected, or had time for that.
    fn is_found(&self, now: Instant) -> bool {
        self.connected.is_some() || now >= self.found_at
    }
}

/// Keeps a replaced part until the new one is connected.
pub struct Overlap<T> {
    /// The replaced part, and the beginning of the new one.
    before: Option<(T, Beginning)>,
}

impl<T> Default for Overlap<T> {
    fn default() -> Self {
        Overlap { before: None }
    }
}

impl<T> Overlap<T> {
    /// Keeps what was replaced for a while. If one is kept already, returns the one of the two that is no longer needed:
    /// the newer one, if it is not connected yet and had no time for that.
    #[must_use = "ending a part takes time"]
    pub fn begin(&mut self, replaced: T, now: Instant) -> Option<T> {
        self.begin_with(replaced, Beginning::new(now))
    }

    /// As [`begin`](Self::begin), if the new part is of the same connection as the replaced one, and fits whatever that one and
    /// the kept one fit. Then it finds all of it soon, and what it lacks has ended.
    #[must_use = "ending a part takes time"]
    fn begin_wider(&mut self, replaced: T, now: Instant) -> Option<T> {
        // Their connection may be new.
        let newer = self.before.as_ref().map(|(_, newer)| newer).filter(|of| !of.is_found(now));
        let found_at = newer.map_or(now, |newer| newer.found_at).max(now + OVERLAP);
        self.begin_with(replaced, Beginning { found_at, ..Beginning::new(now) })
    }

    fn begin_with(&mut self, replaced: T, newest: Beginning) -> Option<T> {
        let (kept, ended) = match self.before.take() {
            Some((before, newer)) if !newer.is_found(newest.taken) => (before, Some(replaced)),
            before => (replaced, before.map(|(before, _)| before)),
        };
        self.before = Some((kept, newest));
        ended
    }

    /// Notes that the newer part lacks somebody, although it had time: the one before alone fits who has begun since. So the
    /// next [`begin`](Self::begin) keeps the one before.
    pub(crate) fn lacks(&mut self, now: Instant) {
        if let Some((_, newer)) = &mut self.before {
            (newer.connected, newer.found_at) = (None, newer.found_at.max(now + OVERLAP));
        }
    }

    /// Returns the replaced part, while it is kept.
    pub fn before(&self) -> Option<&T> {
        self.before.as_ref().map(|(before, _)| before)
    }

    /// Returns the replaced part to change it, while it is kept.
    pub fn before_mut(&mut self) -> Option<&mut T> {
        self.before.as_mut().map(|(before, _)| before)
    }

    /// Returns what was replaced when its time is over. `is_connected` says whether the new one has found all that this
    /// one has.
    pub fn over(&mut self, now: Instant, is_connected: impl FnOnce(&T) -> bool) -> Option<T> {
        let is_over = |(before, newer): &mut (T, Beginning)| {
            newer.is_over(now, OVERLAP, LONGEST, is_connected(before))
        };
        self.before.take_if(is_over).map(|(before, _)| before)
    }
}

/// A part that is used alone: a publisher, or the subscription to a clock. If a new connection brings another one, that one
/// replaces it when it is connected.
pub struct Switch<T> {
    /// The part in use.
    pub current: T,
    next: Option<(T, Beginning)>,
}

impl<T> Switch<T> {
    /// Uses a part, without a newer one.
    pub fn new(current: T) -> Self {
        Switch { current, next: None }
    }

    /// Keeps a newer part until it is connected. If one is kept already, goes over to that one if it is connected or had
    /// time for that. Returns the one that is no longer needed.
    #[must_use = "ending a part takes time"]
    pub fn begin(&mut self, newer: T, now: Instant) -> Option<T> {
        let (next, beginning) = self.next.replace((newer, Beginning::new(now)))?;
        match beginning.is_found(now) {
            true => Some(std::mem::replace(&mut self.current, next)),
            false => Some(next),
        }
    }

    /// Goes over to the newer part when it has been connected for `overlap`, but `longest` after it was taken at the latest.
    /// Returns the one before. `is_connected` says whether the first has found as many publishers, or subscribers, as the
    /// second.
    #[must_use = "ending a part takes time"]
    pub fn over(
        &mut self,
        now: Instant,
        overlap: Duration,
        longest: Duration,
        is_connected: impl FnOnce(&T, &T) -> bool,
    ) -> Option<T> {
        let current = &self.current;
        let is_over = |(next, beginning): &mut (T, Beginning)| {
            beginning.is_over(now, overlap, longest, is_connected(next, current))
        };
        let (next, _) = self.next.take_if(is_over)?;
        Some(std::mem::replace(&mut self.current, next))
    }

    /// Takes the part of a new connection from `parts` if there is one. Goes over to it when it is connected, and ends what is
    /// no longer needed. `is_connected`: as for [`over`](Self::over).
    pub fn follow(
        &mut self,
        (parts, connector): (&Handed<T>, &Connector),
        is_connected: impl FnOnce(&T, &T) -> bool,
    ) where
        T: Send + 'static,
    {
        let now = connector.time().monotonic();
        let unused = parts.take().and_then(|newer| self.begin(newer, now));
        let before = self.over(now, OVERLAP, PATIENCE, is_connected);
        unused.into_iter().chain(before).for_each(|ended| connector.end(ended));
    }

    /// Leaves the newest part to the thread that follows this one, and ends all others.
    pub fn end(self, (parts, connector): (&Handed<T>, &Connector))
    where
        T: Send + 'static,
    {
        let (newest, before) = self.into_newest();
        let unused = parts.give_back(newest);
        before.into_iter().chain(unused).for_each(|ended| connector.end(ended));
    }

    /// The newest part, and the other one.
    fn into_newest(self) -> (T, Option<T>) {
        match self.next {
            Some((next, _)) => (next, Some(self.current)),
            None => (self.current, None),
        }
    }
}

/// The state of an input between two subscriptions.
pub(crate) struct Handover<S> {
    /// When the subscription began to differ from what the publishers offer.
    differs_since: Option<Instant>,
    paused_until: Option<Instant>,
    /// Since when losses wait for a new subscription.
    held_since: Option<Instant>,
    /// The subscription before.
    pub overlap: Overlap<S>,
}

impl<S> Default for Handover<S> {
    fn default() -> Self {
        Handover {
            differs_since: None,
            paused_until: None,
            held_since: None,
            overlap: Overlap::default(),
        }
    }
}

impl<S> Handover<S> {
    /// True if the input must be subscribed to again. `differs`: true if its subscription asks for something else than
    /// the publishers offer. `fits`: returns true if a subscription asks for what they offer. The caller calls this
    /// often.
    pub(crate) fn is_due(
        &mut self,
        differs: bool,
        fits: impl FnOnce(&S) -> bool,
        now: Instant,
    ) -> bool {
        if !differs {
            self.differs_since = None;
            self.paused_until = None;
            return false;
        }
        let since = *self.differs_since.get_or_insert(now);
        // If two are listened to, the newer one may never find a publisher that only the one before fits. Then it is the
        // newer one that is replaced: if the one before ended first, nobody would hear that publisher for a moment. A publisher
        // that fits neither waits no longer than without the one before.
        let patience =
            self.overlap.before().filter(|before| fits(before)).map_or(SETTLE, |_| OVERLAP);
        now.saturating_duration_since(since) >= patience
            && self.paused_until.is_none_or(|until| now >= until)
    }

    /// Keeps the subscription that was replaced for a while. Returns one that is no longer needed. `is_wider`: true if the
    /// new one is of the same connection, and fits all publishers that the others fit.
    #[must_use = "ending a subscription takes time"]
    pub(crate) fn begin(&mut self, replaced: S, now: Instant, is_wider: bool) -> Option<S> {
        (self.differs_since, self.paused_until) = (None, None);
        match is_wider {
            true => self.overlap.begin_wider(replaced, now),
            false => self.overlap.begin(replaced, now),
        }
    }

    /// True if losses must not be counted yet: a new subscription `is_made`, which may give what this one has lost.
    pub(crate) fn holds_losses(&mut self, is_made: bool, now: Instant) -> bool {
        if !is_made {
            self.held_since = None;
            return false;
        }
        now < *self.held_since.get_or_insert(now) + HELD
    }

    /// Notes that no new subscription could be made. Returns whether this is the first failure.
    pub(crate) fn failed(&mut self, now: Instant) -> bool {
        self.paused_until.replace(now + PAUSE).is_none()
    }
}

#[cfg(test)]
mod tests;
