//! Subscribes an input again when its publishers offer another quality of service than before.
//!
//! The new subscription is connected only after a while. So the one before is kept meanwhile, and
//! messages are taken from both. The publishers' numbers tell which messages come twice
//! ([`losses`](super::losses)).

use std::time::{Duration, Instant};

use super::rcl::Subscription;

/// Publishers that start or end together do so within this time.
const SETTLE: Duration = Duration::from_millis(100);
/// How long both subscriptions are kept: longer than the middleware takes to connect one.
const OVERLAP: Duration = Duration::from_secs(1);
/// Pause after a subscription could not be made.
const PAUSE: Duration = Duration::from_secs(5);

/// The state of an input between two subscriptions.
pub struct Adaptation<S = Subscription> {
    /// When the subscription began to differ from what the publishers offer.
    differs_since: Option<Instant>,
    /// The subscription before, and when it ends.
    before: Option<(S, Instant)>,
    paused_until: Option<Instant>,
}

impl<S> Default for Adaptation<S> {
    fn default() -> Self {
        Adaptation { differs_since: None, before: None, paused_until: None }
    }
}

impl<S> Adaptation<S> {
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

    /// Keeps the subscription before for a while.
    pub fn begin(&mut self, before: S, now: Instant) {
        *self = Adaptation { before: Some((before, now + OVERLAP)), ..Adaptation::default() };
    }

    /// Notes that no new subscription could be made. Returns whether this is the first failure.
    pub fn failed(&mut self, now: Instant) -> bool {
        self.paused_until.replace(now + PAUSE).is_none()
    }

    /// The subscription before, while it is kept.
    pub fn before(&self) -> Option<&S> {
        self.before.as_ref().map(|(before, _)| before)
    }

    /// Ends the subscription before if its time is over; returns whether it has ended.
    pub fn end_if_over(&mut self, now: Instant) -> bool {
        self.before.take_if(|(_, until)| now >= *until).is_some()
    }

    /// Ends the subscription before.
    pub fn end(&mut self) {
        *self = Adaptation::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_difference_that_lasts_is_due_once_and_both_subscriptions_are_kept_for_a_while() {
        let start = Instant::now();
        let mut adaptation = Adaptation::<u8>::default();
        assert!(!adaptation.is_due(true, start));
        assert!(!adaptation.is_due(true, start + 99 * MS));
        assert!(!adaptation.is_due(false, start + 150 * MS), "it was short");
        assert!(!adaptation.is_due(true, start + 200 * MS));
        let due = start + 300 * MS;
        assert!(adaptation.is_due(true, due));
        adaptation.begin(7, due);
        assert_eq!(adaptation.before(), Some(&7));
        assert!(!adaptation.is_due(true, due + 500 * MS), "one change after the other");
        assert!(!adaptation.end_if_over(due + 999 * MS));
        assert!(adaptation.end_if_over(due + OVERLAP) && adaptation.before().is_none());
        assert!(!adaptation.end_if_over(due + OVERLAP));
        assert!(adaptation.is_due(true, due + OVERLAP));
    }

    #[test]
    fn after_a_failure_there_is_a_pause_and_one_warning() {
        let start = Instant::now();
        let mut adaptation = Adaptation::<u8>::default();
        adaptation.is_due(true, start);
        let now = start + SETTLE;
        assert!(adaptation.is_due(true, now) && adaptation.failed(now));
        assert!(!adaptation.is_due(true, now + PAUSE.saturating_sub(MS)));
        assert!(adaptation.is_due(true, now + PAUSE) && !adaptation.failed(now + PAUSE));
        // What comes after the difference has ended is another failure.
        let later = now + PAUSE + MS;
        assert!(!adaptation.is_due(false, later) && !adaptation.is_due(true, later));
        assert!(adaptation.is_due(true, later + SETTLE) && adaptation.failed(later + SETTLE));
        adaptation.begin(1, now);
        adaptation.end();
        assert!(adaptation.before().is_none());
    }
}
