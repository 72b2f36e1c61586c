//! Replaces the subscription of an input while messages come.
//!
//! An input is subscribed to again when its publishers offer another quality of service than before, or
//! through a new connection to the middleware. The new subscription is connected only after a while. So
//! the one before is kept meanwhile, and messages are taken from both. The publishers' numbers tell which
//! messages come twice ([`losses`](super::losses)).

use std::time::{Duration, Instant};

use robocache_rcl::Subscription;

/// Publishers that start or end together do so within this time.
const SETTLE: Duration = Duration::from_millis(100);
/// How long both subscriptions are kept after the new one has found as many publishers as the one before: the
/// publishers have then found the new one, too.
const OVERLAP: Duration = Duration::from_secs(1);
/// How long both are kept at most. The one before may count publishers that have ended.
const LONGEST: Duration = Duration::from_secs(10);
/// Pause after a subscription could not be made.
const PAUSE: Duration = Duration::from_secs(5);

/// The state of an input between two subscriptions.
pub struct Handover<S = Subscription> {
    /// When the subscription began to differ from what the publishers offer.
    differs_since: Option<Instant>,
    before: Option<Before<S>>,
    paused_until: Option<Instant>,
}

/// The subscription before.
struct Before<S> {
    subscription: S,
    /// When the new one was made.
    replaced: Instant,
    /// When the new one had found its publishers.
    connected: Option<Instant>,
}

impl<S> Default for Handover<S> {
    fn default() -> Self {
        Handover { differs_since: None, before: None, paused_until: None }
    }
}

impl<S> Handover<S> {
    /// Whether the input must be subscribed to again. `differs`: whether its subscription asks for
    /// something else than the publishers offer. The caller calls this often.
    pub fn is_due(&mut self, differs: bool, now: Instant) -> bool {
        if !differs {
            self.differs_since = None;
            self.paused_until = None;
            return false;
        }
        let since = *self.differs_since.get_or_insert(now);
        self.before.is_none()
            && now.saturating_duration_since(since) >= SETTLE
            && self.paused_until.is_none_or(|until| now >= until)
    }

    /// Keeps the subscription that was replaced for a while. If one is kept already, returns the one of the two that is
    /// no longer needed: the newer one, if it has not found its publishers yet.
    #[must_use = "ending a subscription takes time"]
    pub fn begin(&mut self, replaced: S, now: Instant) -> Option<S> {
        let (subscription, ended) = match self.before.take() {
            Some(Before { subscription, connected: None, .. }) => (subscription, Some(replaced)),
            Some(Before { subscription, .. }) => (replaced, Some(subscription)),
            None => (replaced, None),
        };
        let before = Some(Before { subscription, replaced: now, connected: None });
        *self = Handover { before, ..Handover::default() };
        ended
    }

    /// Notes that no new subscription could be made. Returns whether this is the first failure.
    pub fn failed(&mut self, now: Instant) -> bool {
        self.paused_until.replace(now + PAUSE).is_none()
    }

    /// The subscription before, while it is kept.
    pub fn before(&self) -> Option<&S> {
        self.before.as_ref().map(|before| &before.subscription)
    }

    /// Returns the subscription before when its time is over. `is_connected` says whether the new one has found
    /// as many publishers as this one.
    pub fn over(&mut self, now: Instant, is_connected: impl FnOnce(&S) -> bool) -> Option<S> {
        let Before { subscription, replaced, connected } = self.before.as_mut()?;
        if connected.is_none() && is_connected(subscription) {
            *connected = Some(now);
        }
        let over =
            connected.is_some_and(|since| now >= since + OVERLAP) || now >= *replaced + LONGEST;
        self.before.take_if(|_| over).map(|before| before.subscription)
    }
}

#[cfg(test)]
mod tests;
