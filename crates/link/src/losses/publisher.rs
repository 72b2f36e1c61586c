//! Messages of one publisher, known by their numbers and the instants of their publication.

use std::collections::VecDeque;

use crate::middleware::MessageInfo;
use robocache_runtime::PublisherId;

/// Messages of a publisher that are remembered one by one.
const REMEMBERED: usize = u128::BITS as usize;

/// Messages of a publisher that came, and those that are missing.
#[derive(Debug)]
pub(super) struct PublisherLosses {
    pub id: PublisherId,
    /// The first number that came.
    first: u64,
    /// Its newest number.
    pub newest: u64,
    /// Its newest number from the newest subscription.
    pub newest_by_new: u64,
    /// Which of its last numbers came: bit `k` is `newest - k`.
    seen: u128,
    /// When these were published \[ns\]: number `n` is at `n % REMEMBERED`.
    published_ns: [Option<i64>; REMEMBERED],
    /// Of its last messages without a number: when each was published \[ns\], and the subscription that gave it.
    given_ns: VecDeque<(i64, u32)>,
    /// The newest number below `first` that came.
    history: u64,
    /// When its newest message was published, and the latest such instant \[ns\]. They differ if its clock was set back.
    pub newest_ns: Option<i64>,
    latest_ns: Option<i64>,
    /// When the first message was published \[ns\], if another publisher had its identity before.
    pub since_ns: Option<i64>,
    /// True if another publisher has its identity now.
    pub is_over: bool,
    /// True if nothing new has come from the publisher since the input was subscribed to again.
    pub away: bool,
    /// The subscription that gave its newest message.
    pub by: u32,
    /// Its last message, as a number of [`Losses::messages`](super::Losses::messages).
    pub heard: u64,
}

/// Place of a number among those that came from a publisher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NumberPlace {
    /// Behind the newest one; this many are missing between them.
    Ahead(u64),
    /// Among the last ones, and it was missing.
    OutOfOrder,
    /// Before the first one.
    History,
    /// It came before, or is so old that it counts as such.
    Repeated,
}

impl PublisherLosses {
    /// Begins with a message. `by`: the subscription that gave it. `by_new`: true if that is the newest one.
    pub(super) fn new(info: &MessageInfo, by: u32, by_new: bool) -> Self {
        let number = info.number.unwrap_or(0);
        let at = info.transit.published_ns;
        let mut published_ns = [None; REMEMBERED];
        published_ns[number as usize % REMEMBERED] = at;
        let given = at.filter(|_| info.number.is_none()).map(|at| (at, by));
        PublisherLosses {
            id: info.publisher,
            first: number,
            newest: number,
            newest_by_new: if by_new { number } else { 0 },
            seen: 1,
            published_ns,
            given_ns: given.into_iter().collect(),
            history: 0,
            newest_ns: at,
            latest_ns: at,
            since_ns: None,
            is_over: false,
            away: false,
            by,
            heard: 0,
        }
    }

    /// When the message of a number was published; `None` if it did not come, or if that is not known.
    fn published_ns(&self, number: u64) -> Option<i64> {
        let back = u32::try_from(self.newest.checked_sub(number)?).ok()?;
        let is_seen = self.seen.checked_shr(back).is_some_and(|seen| seen & 1 == 1);
        self.published_ns[number as usize % REMEMBERED].filter(|_| is_seen)
    }

    /// True if this very message came.
    pub(super) fn has(&self, info: &MessageInfo) -> bool {
        let came = info.number.and_then(|number| self.published_ns(number));
        came.is_some() && came == info.transit.published_ns
    }

    /// True if a message that neither has is of the publisher that had this identity before.
    pub(super) fn is_of_before(&self, info: &MessageInfo, before: &PublisherLosses) -> bool {
        let published = info.transit.published_ns.zip(self.since_ns);
        // If the clock was set back, the instants do not tell, but the number may.
        let is_next = |number| {
            before.published_ns(number).is_some() || before.is_old(number) && number > self.newest
        };
        published.is_some_and(|(published, since)| published < since)
            && !info.number.is_some_and(is_next)
    }

    /// True if a message with a number shows that another publisher has this identity now. `repeats`: true if the message
    /// may have come from another subscription. `by_new`: true if the newest one gave it.
    pub(super) fn ends_by(
        &self,
        info: &MessageInfo,
        number: u64,
        repeats: bool,
        by_new: bool,
    ) -> bool {
        let Some(published) = info.transit.published_ns else { return false };
        if let Some(came) = self.published_ns(number) {
            return published != came;
        }
        // One subscription gives the messages of a publisher in their order, but perhaps its history later. One that begins
        // again has low numbers.
        let is_first = number <= REMEMBERED as u64;
        if by_new && is_first && number.saturating_add(REMEMBERED as u64) <= self.newest_by_new {
            return true;
        }
        let (before, is_known) = match repeats {
            false => (self.newest_ns, number <= self.newest),
            true => (self.latest_ns, self.is_old(number)),
        };
        is_known && before.is_some_and(|before| published > before)
    }

    /// True if a number came, or is from before the first one.
    fn is_old(&self, number: u64) -> bool {
        matches!(self.place(number), NumberPlace::Repeated | NumberPlace::History)
    }

    pub(super) fn place(&self, number: u64) -> NumberPlace {
        let Some(back) = self.newest.checked_sub(number) else {
            return NumberPlace::Ahead(number - self.newest - 1);
        };
        if number < self.first {
            return if number > self.history {
                NumberPlace::History
            } else {
                NumberPlace::Repeated
            };
        }
        match 1u128.checked_shl(u32::try_from(back).unwrap_or(u32::MAX)) {
            Some(bit) if self.seen & bit == 0 => NumberPlace::OutOfOrder,
            _ => NumberPlace::Repeated,
        }
    }

    /// Notes a number, and when its message was published.
    pub(super) fn note(&mut self, number: u64, place: NumberPlace, published_ns: Option<i64>) {
        if matches!(place, NumberPlace::Ahead(_) | NumberPlace::OutOfOrder) {
            self.published_ns[number as usize % REMEMBERED] = published_ns;
        }
        self.latest_ns = self.latest_ns.max(published_ns);
        match place {
            NumberPlace::Ahead(missing) => {
                let shift = u32::try_from(missing + 1).unwrap_or(u32::MAX);
                self.seen = self.seen.checked_shl(shift).unwrap_or(0) | 1;
                self.newest = number;
                self.newest_ns = published_ns;
            }
            NumberPlace::OutOfOrder => self.seen |= 1 << (self.newest - number),
            NumberPlace::History => self.history = number,
            NumberPlace::Repeated => {}
        }
    }

    /// True if another subscription has given a message without a number that was published then.
    pub(super) fn gave_another(&self, published_ns: Option<i64>, by: u32) -> bool {
        self.given_ns.iter().any(|(at, of)| Some(*at) == published_ns && *of != by)
    }

    /// Notes a message without a number that a subscription has given.
    pub(super) fn give(&mut self, published_ns: Option<i64>, by: u32) {
        (self.newest_ns, self.by) = (published_ns, by);
        if self.given_ns.len() == REMEMBERED {
            self.given_ns.pop_front();
        }
        self.given_ns.extend(published_ns.map(|at| (at, by)));
    }
}
