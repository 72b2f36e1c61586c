//! Replaces the subscription of an input while messages come.
//!
//! An input is subscribed to again when its publishers offer another quality of service than before, or
//! through a new connection to the middleware. The new subscription is connected only after a while. So
//! the one before is kept meanwhile, and messages are taken from both. The publishers' numbers tell which
//! messages come twice ([`losses`](super::losses)).

use std::time::{Duration, Instant};

use super::rcl::Subscription;

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

    /// Keeps the subscription that was replaced for a while. If one is kept already, returns the one of the
    /// two that nobody needs any more: the newer one, if it has not found its publishers yet.
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
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_difference_that_lasts_is_due_once_and_both_subscriptions_are_kept_for_a_while() {
        let start = Instant::now();
        let mut handover = Handover::<u8>::default();
        assert!(!handover.is_due(true, start));
        assert!(!handover.is_due(true, start + 99 * MS));
        assert!(!handover.is_due(false, start + 150 * MS), "it was short");
        assert!(!handover.is_due(true, start + 200 * MS));
        let due = start + 300 * MS;
        assert!(handover.is_due(true, due));
        assert_eq!(handover.begin(7, due), None);
        assert_eq!(handover.before(), Some(&7));
        assert!(!handover.is_due(true, due + 500 * MS), "one change after the other");
        let connected = due + 200 * MS;
        assert_eq!(handover.over(due + 100 * MS, |_| false), None);
        assert_eq!(handover.over(connected, |before| *before == 7), None);
        assert_eq!(handover.over(connected + OVERLAP.saturating_sub(MS), |_| true), None);
        assert_eq!(handover.over(connected + OVERLAP, |_| false), Some(7));
        assert!(handover.before().is_none());
        assert_eq!(handover.over(connected + OVERLAP, |_| true), None);
        assert!(handover.is_due(true, connected + OVERLAP));
    }

    #[test]
    fn a_subscription_that_finds_nobody_replaces_the_one_before_in_the_end() {
        let start = Instant::now();
        let mut handover = Handover::default();
        assert_eq!(handover.begin(1, start), None);
        assert_eq!(handover.over(start + LONGEST.saturating_sub(MS), |_| false), None);
        assert_eq!(handover.over(start + LONGEST, |_| false), Some(1));
    }

    #[test]
    fn of_three_subscriptions_the_newest_and_one_that_is_connected_are_kept() {
        let start = Instant::now();
        let mut handover = Handover::default();
        assert_eq!(handover.begin(1, start), None);
        // The second one has found nobody yet.
        assert_eq!(handover.begin(2, start + MS), Some(2));
        assert_eq!(handover.over(start + 2 * MS, |before| *before == 1), None);
        // The third one has.
        assert_eq!(handover.begin(3, start + 3 * MS), Some(1));
        assert_eq!(handover.before(), Some(&3));
    }

    #[test]
    fn after_a_failure_there_is_a_pause_and_one_warning() {
        let start = Instant::now();
        let mut handover = Handover::<u8>::default();
        handover.is_due(true, start);
        let now = start + SETTLE;
        assert!(handover.is_due(true, now) && handover.failed(now));
        assert!(!handover.is_due(true, now + PAUSE.saturating_sub(MS)));
        assert!(handover.is_due(true, now + PAUSE) && !handover.failed(now + PAUSE));
        // What comes after the difference has ended is another failure.
        let later = now + PAUSE + MS;
        assert!(!handover.is_due(false, later) && !handover.is_due(true, later));
        assert!(handover.is_due(true, later + SETTLE) && handover.failed(later + SETTLE));
    }
}
