//! Counts the messages that were published and never taken, from the middleware's own numbers.

mod publisher;

use std::time::{Duration, Instant};

use self::publisher::{NumberPlace, PublisherLosses};
use super::middleware::MessageInfo;

/// How many publishers are remembered; if there are more, the one heard longest ago is forgotten.
const PUBLISHERS: usize = 1024;
/// How long a gap waits at least for the event that explains it. After a process stood still, the
/// event of a reliable subscription comes milliseconds after the message behind the gap.
const SETTLE: Duration = Duration::from_millis(300);
/// The next message of a publisher comes within this time. A slower one is rare.
const NEXT: Duration = Duration::from_secs(2);
/// A message without a number may come once more for this long after the input was subscribed to again.
const REPEATS: Duration = Duration::from_secs(1);

/// Splits the lost messages of a subscription by where they were lost.
///
/// Each publisher numbers its messages, so a gap says exactly how many are missing. The
/// middleware's event says how many of them were lost on the way. It does not count the messages
/// that the subscription's own full queue overwrote
/// ([`EventTotals::lost`](super::EventTotals::lost)): those are the gaps minus the event's count.
///
/// With one publisher the split is exact. With several, the split can be wrong when a new publisher
/// loses messages before its first one arrives. Such a loss may hide as many overwritten messages
/// of another publisher, or the reverse.
///
/// If the input is subscribed to again, each publisher's numbers go on. Messages between the last
/// one before and the first one after that are lost on the way. What the event of the one before counts last is left to these
/// gaps, because the new one may give it. A new subscription may get messages
/// once more, because the publisher keeps them for it, or because the old one still listens
/// ([`Losses::overlap`]). The numbers tell: each message is new once.
///
/// A publisher may end and begin again under the same identity, with numbers from 1. A message whose number came with
/// another instant of publication shows that, also if its clock was set back. So does a number that is far behind the newest
/// one of its subscription. Else a message shows it that has a number from before, and was published later than the newest
/// one. While a message may come once more, it must be later than all before.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    publishers: Vec<PublisherLosses>,
    /// Messages so far.
    messages: u64,
    /// True if messages of the time before a publisher's first one are taken as well.
    takes_history: bool,
    givers: Givers,
    /// The newest subscription, counted from 0.
    subscription: u32,
    /// Missing messages that count as overwritten if no event explains them.
    gaps: Gaps,
    /// Missing messages between two subscriptions, which are lost on the way.
    between: Gaps,
    /// When the gaps that settle count, and the others follow them; `None` if there are none.
    settle_at: Option<Instant>,
    /// Messages that the event of this subscription has counted so far.
    counted: u64,
    /// Messages that an event has counted and whose gap has not been seen yet.
    unseen: u64,
    /// [`Losses::messages`] when the first new publisher since the last explanation was heard. Its earlier losses left no gap.
    newcomer: Option<u64>,
    /// Messages at the end of the newest overlap that the subscription before gave, and this one did not.
    given: u64,
    /// When the newest overlap of two subscriptions ended; `None` if none did. Time in which the thread did not run does
    /// not count.
    overlapped_until: Option<Instant>,
}

/// The subscriptions that may give a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Givers {
    #[default]
    One,
    /// An old one and a new one, which are both listened to.
    Two,
    /// The new one, for [`REPEATS`] after: it may give once more what the old one has given.
    OneAfterTwo,
}

/// Missing messages that no event has explained yet.
#[derive(Debug, Default)]
struct Gaps {
    /// Messages missing since the last call of [`Gaps::settle`].
    fresh: u64,
    /// Messages missing since before the last call of [`Gaps::settle`]: at the next one they have waited for at least
    /// [`SETTLE`].
    settling: u64,
}

impl Gaps {
    fn total(&self) -> u64 {
        self.fresh + self.settling
    }

    /// Takes one back that was not missing. Returns false if there is none.
    fn fill(&mut self) -> bool {
        let of = if self.fresh > 0 { &mut self.fresh } else { &mut self.settling };
        let filled = *of > 0;
        *of = of.saturating_sub(1);
        filled
    }

    /// Takes those away that `unseen` explains, the oldest first.
    fn explain(&mut self, unseen: &mut u64) {
        for gaps in [&mut self.settling, &mut self.fresh] {
            let explained = (*gaps).min(*unseen);
            *gaps -= explained;
            *unseen -= explained;
        }
    }

    /// Returns those that have waited long enough. The others follow.
    fn settle(&mut self) -> u64 {
        std::mem::replace(&mut self.settling, std::mem::take(&mut self.fresh))
    }
}

/// Messages lost since the last explanation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lost {
    /// Between the publisher and the subscription's queue.
    pub on_the_way: u64,
    /// In the subscription's queue, which drops the oldest message when it is full.
    pub overwritten: u64,
}

impl Losses {
    /// Begins without a publisher. `takes_history`: whether messages are new that a publisher sent
    /// before the first one that came. If the newest arrival counts, they are not: they would be
    /// old values with a new time.
    pub(crate) fn new(takes_history: bool) -> Self {
        Losses { takes_history, ..Losses::default() }
    }

    /// The number of the newest subscription.
    pub(crate) fn subscription(&self) -> u32 {
        self.subscription
    }

    /// Notes a message that the subscription of number `by` gave: the newest one, or one that is still listened to. Returns
    /// true if it is new; else it has been taken before.
    pub(crate) fn note(&mut self, info: &MessageInfo, by: u32) -> bool {
        self.messages += 1;
        let Some(known) = self.known(info) else {
            self.welcome(info, by, None);
            return true;
        };
        self.publishers[known].heard = self.messages;
        let Some(number) = info.number else {
            return self.note_without_number(known, info, by);
        };
        let overlaps = self.overlaps();
        let repeats = self.repeats();
        let from_before = by != self.subscription;
        let publisher = &mut self.publishers[known];
        if !publisher.is_over && publisher.ends_by(info, number, repeats, !from_before) {
            publisher.is_over = true;
            self.welcome(info, by, info.transit.published_ns);
            return true;
        }
        let place = publisher.place(number);
        publisher.note(number, place, info.transit.published_ns);
        if !from_before {
            publisher.newest_by_new = publisher.newest_by_new.max(number);
        }
        let between = overlaps || publisher.away;
        // In an overlap, also a message that the old one has given shows that the new one hears it.
        let heard = !from_before && (overlaps || matches!(place, NumberPlace::Ahead(_)));
        publisher.away &= !heard;
        match place {
            NumberPlace::Ahead(missing) if between => self.between.fresh += missing,
            NumberPlace::Ahead(missing) => self.gaps.fresh += missing,
            // It was counted as missing.
            NumberPlace::OutOfOrder => _ = self.between.fill() || self.gaps.fill(),
            NumberPlace::History => return self.takes_history,
            NumberPlace::Repeated => return false,
        }
        true
    }

    /// Finds the publisher of a message among those that had its identity; `None` if it is unknown.
    fn known(&self, info: &MessageInfo) -> Option<usize> {
        // The newest is the last.
        let of_id = self.publishers.iter().enumerate().filter(|(_, of)| of.id == info.publisher);
        let mut of_id = of_id.rev();
        if let Some((came, _)) = of_id.clone().find(|(_, of)| of.has(info)) {
            return Some(came);
        }
        let (mut known, mut newer) = of_id.next()?;
        for (before, older) in of_id {
            if !newer.is_of_before(info, older) {
                break;
            }
            (known, newer) = (before, older);
        }
        Some(known)
    }

    /// Remembers a new publisher by its first message. In an overlap, the other subscription may give that message once
    /// more. `since_ns`: when the message was published, if another publisher had the identity before.
    fn welcome(&mut self, info: &MessageInfo, by: u32, since_ns: Option<i64>) {
        if self.publishers.len() >= PUBLISHERS {
            let all = self.publishers.iter().enumerate();
            if let Some((longest_ago, _)) = all.min_by_key(|(_, publisher)| publisher.heard) {
                self.publishers.remove(longest_ago);
            }
        }
        let numbered = info.number.is_some();
        if numbered {
            self.newcomer.get_or_insert(self.messages);
        }
        let by_new = by == self.subscription;
        let mut publisher = PublisherLosses::new(info, by, by_new);
        publisher.since_ns = since_ns;
        // With numbers, a message of the new subscription shows that it hears the publisher.
        publisher.away = self.overlaps() && !(by_new && numbered);
        publisher.heard = self.messages;
        self.publishers.push(publisher);
    }

    /// Without numbers, the time of publication tells which messages come once more: those that the other subscription has
    /// given, and those that are no newer than one that it has given. From the same subscription they come in their order, so
    /// there a clock was set back. In doubt a message is refused.
    fn note_without_number(&mut self, known: usize, info: &MessageInfo, by: u32) -> bool {
        let repeats = self.repeats();
        let publisher = &mut self.publishers[known];
        let published_ns = info.transit.published_ns;
        let newer = published_ns > publisher.newest_ns || published_ns.is_none();
        let is_doubtful = publisher.away && repeats && !newer && publisher.by != by;
        if is_doubtful || repeats && publisher.gave_another(published_ns, by) {
            return false;
        }
        publisher.away &= repeats;
        publisher.give(published_ns, by);
        true
    }

    /// Notes that the thread did not run for a while until now. What came meanwhile may still be on its way.
    pub(crate) fn slept(&mut self, asleep: Duration, now: Instant) {
        self.overlapped_until = match self.givers {
            Givers::OneAfterTwo => Some(now),
            Givers::One | Givers::Two => self.overlapped_until.map(|ended| ended + asleep),
        };
    }

    /// Notes a look at the subscriptions, after all that waited was taken.
    pub(crate) fn look(&mut self, now: Instant) {
        let since = self.overlapped_until.map(|ended| now.saturating_duration_since(ended));
        if self.givers == Givers::OneAfterTwo && since.is_some_and(|since| since >= REPEATS) {
            self.givers = Givers::One;
        }
        if !self.repeats() {
            self.publishers.retain(|of| !of.is_over);
            self.publishers.iter_mut().for_each(|of| of.since_ns = None);
        }
    }

    /// Notes that from now on messages come from a new subscription, and also from the one before.
    /// Messages from neither are lost on the way. `counted`: lost messages that the event of the one before has counted.
    /// Returns those of them that no gap will show.
    pub(crate) fn overlap(&mut self, counted: Option<u64>) -> Lost {
        let lost = match self.overlaps() {
            // In an overlap the gaps alone tell.
            true => Lost::default(),
            false => self.leave_to_overlap(counted),
        };
        let repeats = self.repeats();
        for publisher in &mut self.publishers {
            publisher.away = true;
            publisher.newest_by_new = 0;
            if !repeats {
                publisher.by = self.subscription;
            }
        }
        self.subscription += 1;
        self.givers = Givers::Two;
        lost
    }

    /// Leaves what the event counts from now on to the gaps between two subscriptions. The new one may have been made before
    /// these messages were lost, and then it gives them.
    fn leave_to_overlap(&mut self, counted: Option<u64>) -> Lost {
        let Some(total) = counted else {
            self.newcomer = None;
            self.between.fresh += std::mem::take(&mut self.gaps).total();
            return Lost::default();
        };
        let mut new = total.saturating_sub(self.counted);
        self.counted = total;
        // These have been told.
        self.between.explain(&mut self.unseen);
        self.gaps.explain(&mut self.unseen);
        let is_new = self.newcomer.take().is_some();
        if is_new {
            self.unseen = 0;
        }
        new = new.saturating_sub(self.between.total());
        let seen = self.gaps.total();
        self.gaps.explain(&mut new);
        self.between.fresh += seen - self.gaps.total();
        // With numbers, the next message shows the gap of all others, but for those before the first one of a publisher.
        let shows = !is_new && self.publishers.iter().any(|of| of.newest > 0);
        Lost { on_the_way: if shows { 0 } else { new }, overwritten: 0 }
    }

    /// Notes that the subscription before has ended. The new one has counted `counted` lost messages.
    pub(crate) fn overlap_ended(&mut self, counted: Option<u64>, now: Instant) {
        self.givers = Givers::OneAfterTwo;
        self.overlapped_until = Some(now);
        // The new one hears nothing more of those that have ended.
        let heard = self.publishers.iter().filter(|of| of.newest_by_new > 0 && !of.is_over);
        self.given = heard.map(|of| of.newest.saturating_sub(of.newest_by_new)).sum();
        self.counted = counted.unwrap_or(0);
    }

    /// True while an old and a new subscription are listened to.
    pub(crate) fn overlaps(&self) -> bool {
        self.givers == Givers::Two
    }

    /// True if a message may come that another subscription has given.
    fn repeats(&self) -> bool {
        self.givers != Givers::One
    }

    /// True if [`explain`](Losses::explain) must be called: there are gaps, or a new publisher, whose losses until now
    /// must not explain its later gaps.
    pub(crate) fn is_pending(&self) -> bool {
        !self.overlaps() && (self.newcomer.is_some() || self.has_gaps())
    }

    /// True if messages that waited behind the first one of a new publisher may still wait, in a queue of `depth` messages. An
    /// event may have counted what is missing before them. Until they are taken, that looks like an earlier loss.
    pub(crate) fn follow_newcomer(&self, depth: usize) -> bool {
        self.newcomer.is_some_and(|first| self.messages - first < depth as u64)
    }

    fn has_gaps(&self) -> bool {
        self.gaps.total() + self.between.total() > 0
    }

    /// Explains the gaps with the event's total. A gap that no event explains counts in a later call. Without the
    /// event, all count at once as lost on the way. While subscriptions overlap, the caller waits.
    pub(crate) fn explain(&mut self, counted: Option<u64>, now: Instant) -> Lost {
        let Some(total) = counted else {
            self.newcomer = None;
            let gaps = [&mut self.gaps, &mut self.between].map(std::mem::take);
            return Lost { on_the_way: gaps.iter().map(Gaps::total).sum(), overwritten: 0 };
        };
        let mut new = total.saturating_sub(self.counted);
        self.counted = total;
        self.unseen += new;
        // The event of a new subscription counts the last messages of the gap between the two as well.
        self.between.explain(&mut self.unseen);
        self.gaps.explain(&mut self.unseen);
        if self.newcomer.take().is_some() {
            self.unseen = 0;
        }
        let given = self.unseen.min(new).min(self.given_by_the_other(now));
        self.given = self.given.saturating_sub(given);
        self.unseen -= given;
        new -= given;
        let settled = self.settle(now);
        Lost { on_the_way: new + settled.on_the_way, ..settled }
    }

    /// Returns how many messages an event may count after an overlap that the subscription before has given. They leave no
    /// gap.
    fn given_by_the_other(&self, now: Instant) -> u64 {
        let since = self.overlapped_until.map(|at| now.saturating_duration_since(at));
        match since {
            // The event of a loss in the overlap comes a moment late.
            Some(since) if since < SETTLE => u64::MAX,
            // That of the last losses comes after the next message.
            Some(since) if since < NEXT => self.given,
            _ => 0,
        }
    }

    /// Returns the gaps that have waited long enough.
    fn settle(&mut self, now: Instant) -> Lost {
        if !self.has_gaps() {
            self.settle_at = None;
            return Lost::default();
        }
        if now < *self.settle_at.get_or_insert(now + SETTLE) {
            return Lost::default();
        }
        self.settle_at = Some(now + SETTLE);
        Lost { on_the_way: self.between.settle(), overwritten: self.gaps.settle() }
    }
}

#[cfg(test)]
mod tests;
