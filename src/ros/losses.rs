//! Counts the messages that were published and never taken, from the middleware's own numbers.

use std::time::{Duration, Instant};

use super::rcl::{Gid, MessageInfo};

/// How many publishers are remembered; if there are more, the one heard longest ago is forgotten.
const PUBLISHERS: usize = 1024;
/// How long a gap waits at least for the event that explains it. After a process stood still, the
/// event of a reliable subscription comes milliseconds after the message behind the gap.
const SETTLE: Duration = Duration::from_millis(300);

/// Splits the lost messages of a subscription by where they were lost.
///
/// Each publisher numbers its messages, so a gap says exactly how many are missing. The
/// middleware's event says how many of them were lost on the way. It does not count the messages
/// that the subscription's own full queue overwrote
/// ([`MessagesLost`](crate::ros::rcl::MessagesLost)): those are the gaps minus the event's count.
///
/// With one publisher the split is exact. With several, the split can be wrong when a new publisher
/// loses messages before its first one arrives. Such a loss may hide as many overwritten messages
/// of another publisher, or the reverse.
///
/// If the input is subscribed to again, each publisher's numbers go on. Messages between the last
/// one before and the first one after that are lost on the way. A new subscription may get messages
/// once more, because the publisher keeps them for it, or because the old one still listens
/// ([`Losses::overlap`]). The numbers tell: each message is new once.
#[derive(Debug, Default)]
pub struct Losses {
    publishers: Vec<Publisher>,
    /// Messages so far.
    messages: u64,
    /// Whether messages of the time before a publisher's first one are taken as well.
    takes_history: bool,
    /// Whether an old and a new subscription are listened to.
    overlaps: bool,
    /// Missing messages that have not been explained yet.
    gaps: u64,
    /// The same, for at least [`SETTLE`].
    settling: u64,
    /// When `settling` count as overwritten, and `gaps` follow them; `None` if there are neither.
    settle_at: Option<Instant>,
    /// Missing messages between two subscriptions.
    between: u64,
    /// Messages that the event of this subscription has counted so far.
    counted: u64,
    /// Messages that an event has counted and whose gap has not been seen yet.
    unseen: u64,
    /// Whether a new publisher was heard since the last explanation. Its earlier losses left no
    /// gap.
    newcomer: bool,
}

#[derive(Debug)]
struct Publisher {
    gid: Gid,
    /// The first number that came.
    first: u64,
    /// Its newest number.
    newest: u64,
    /// Which of its last numbers came: bit `k` is `newest - k`.
    seen: u128,
    /// The newest number below `first` that came.
    history: u64,
    /// When its newest message was published, if its messages have no numbers \[ns\].
    newest_ns: Option<i64>,
    /// Whether nothing new has come from it since the input was subscribed to again.
    away: bool,
    /// Its last message, as a number of [`Losses::messages`].
    heard: u64,
}

/// Where a number stands among those that came from a publisher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Behind the newest one; so many are missing between them.
    Ahead(u64),
    /// Among the last ones, and it was missing.
    OutOfOrder,
    /// Before the first one.
    History,
    /// It came before, or is so old that it counts as such.
    Repeated,
}

impl Publisher {
    fn new(info: &MessageInfo, number: u64, away: bool, heard: u64) -> Self {
        let (gid, newest_ns) = (info.publisher, info.source_ns);
        Publisher {
            gid,
            first: number,
            newest: number,
            seen: 1,
            history: 0,
            newest_ns,
            away,
            heard,
        }
    }

    fn place(&self, number: u64) -> Place {
        let Some(back) = self.newest.checked_sub(number) else {
            return Place::Ahead(number - self.newest - 1);
        };
        if number < self.first {
            return if number > self.history { Place::History } else { Place::Repeated };
        }
        match 1u128.checked_shl(u32::try_from(back).unwrap_or(u32::MAX)) {
            Some(bit) if self.seen & bit == 0 => Place::OutOfOrder,
            _ => Place::Repeated,
        }
    }

    /// Notes a number that is not repeated.
    fn note(&mut self, number: u64, place: Place) {
        match place {
            Place::Ahead(missing) => {
                let shift = u32::try_from(missing + 1).unwrap_or(u32::MAX);
                self.seen = self.seen.checked_shl(shift).unwrap_or(0) | 1;
                self.newest = number;
            }
            Place::OutOfOrder => self.seen |= 1 << (self.newest - number),
            Place::History => self.history = number,
            Place::Repeated => {}
        }
    }
}

/// Messages lost since the last explanation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Between the publisher and the subscription's queue.
    pub on_the_way: u64,
    /// In the subscription's queue, which drops the oldest message when it is full.
    pub overwritten: u64,
}

impl Losses {
    /// Begins without a publisher. `takes_history`: whether messages are new that a publisher sent
    /// before the first one that came. If their time is the arrival, they are not: they would be
    /// old values with a new time.
    pub fn new(takes_history: bool) -> Self {
        Losses { takes_history, ..Losses::default() }
    }

    /// Notes a message that was taken from the input's subscription, or from the one before while
    /// they overlap. Returns whether it is new; else it has been taken before.
    pub fn note(&mut self, info: &MessageInfo, from_before: bool) -> bool {
        self.messages += 1;
        let known = self.publishers.iter().position(|known| known.gid == info.publisher);
        let Some(known) = known else {
            self.welcome(info, from_before);
            return true;
        };
        self.publishers[known].heard = self.messages;
        let Some(number) = info.publication_sequence else {
            return self.note_without_number(known, info, from_before);
        };
        let publisher = &mut self.publishers[known];
        let place = publisher.place(number);
        publisher.note(number, place);
        let between = self.overlaps || publisher.away;
        // In an overlap, also a message that the old one has given shows that the new one hears it.
        let heard = !from_before && (self.overlaps || matches!(place, Place::Ahead(_)));
        publisher.away &= !heard;
        match place {
            Place::Ahead(missing) if between => self.between += missing,
            Place::Ahead(missing) => self.gaps += missing,
            // It was counted as missing.
            Place::OutOfOrder if self.between > 0 => self.between -= 1,
            Place::OutOfOrder if self.gaps > 0 => self.gaps -= 1,
            Place::OutOfOrder => self.settling = self.settling.saturating_sub(1),
            Place::History => return self.takes_history,
            Place::Repeated => return false,
        }
        true
    }

    /// Remembers a new publisher by its first message. In an overlap, the other subscription may give that
    /// message once more.
    fn welcome(&mut self, info: &MessageInfo, from_before: bool) {
        if self.publishers.len() == PUBLISHERS {
            let all = self.publishers.iter().enumerate();
            if let Some((longest_ago, _)) = all.min_by_key(|(_, publisher)| publisher.heard) {
                self.publishers.swap_remove(longest_ago);
            }
        }
        let numbered = info.publication_sequence.is_some();
        self.newcomer |= numbered;
        let number = info.publication_sequence.unwrap_or(0);
        // With numbers, a message of the new subscription shows that it hears the publisher.
        let away = self.overlaps && (from_before || !numbered);
        self.publishers.push(Publisher::new(info, number, away, self.messages));
    }

    /// Without numbers, the time of publication tells which messages come once more. It counts only
    /// until something new comes from the publisher, because a clock may be set back.
    fn note_without_number(&mut self, known: usize, info: &MessageInfo, before: bool) -> bool {
        let publisher = &mut self.publishers[known];
        let newer = info.source_ns > publisher.newest_ns;
        if publisher.away && !newer && info.source_ns.is_some() {
            return false;
        }
        publisher.away &= before || self.overlaps;
        publisher.newest_ns = info.source_ns;
        true
    }

    /// Notes that the next messages and events come from a new subscription. The old one has ended.
    pub fn subscribed_again(&mut self) {
        self.publishers.iter_mut().for_each(|publisher| publisher.away = true);
        self.counted = 0;
        self.overlaps = false;
    }

    /// Notes that from now on messages come from a new subscription, and also from the one before.
    /// What comes from neither is lost on the way.
    pub fn overlap(&mut self) {
        self.publishers.iter_mut().for_each(|publisher| publisher.away = true);
        self.overlaps = true;
    }

    /// Notes that the subscription before has ended. The new one has counted so many lost messages.
    pub fn overlap_ended(&mut self, counted: Option<u64>) {
        self.overlaps = false;
        self.counted = counted.unwrap_or(0);
    }

    /// Whether an old and a new subscription are listened to.
    pub fn overlaps(&self) -> bool {
        self.overlaps
    }

    /// Whether [`explain`](Losses::explain) must be called: there are gaps, or a new publisher,
    /// whose losses until now must not explain its later gaps.
    pub fn is_pending(&self) -> bool {
        !self.overlaps && (self.newcomer || self.has_gaps())
    }

    fn has_gaps(&self) -> bool {
        self.gaps + self.settling + self.between > 0
    }

    /// Explains the gaps with the event's total. A gap that no event explains counts as overwritten
    /// in a later call. Without the event, all count as lost on the way. While subscriptions overlap,
    /// the caller waits.
    pub fn explain(&mut self, counted: Option<u64>, now: Instant) -> Lost {
        let between = std::mem::take(&mut self.between);
        let Some(total) = counted else {
            let gaps = std::mem::take(&mut self.gaps) + std::mem::take(&mut self.settling);
            return Lost { on_the_way: gaps + between, overwritten: 0 };
        };
        let new = total.saturating_sub(self.counted);
        self.counted = total;
        self.unseen += new;
        // The event of the new subscription counts the last messages of this gap as well.
        let twice = between.min(self.unseen);
        self.unseen -= twice;
        for gaps in [&mut self.settling, &mut self.gaps] {
            let explained = (*gaps).min(self.unseen);
            *gaps -= explained;
            self.unseen -= explained;
        }
        if std::mem::take(&mut self.newcomer) {
            self.unseen = 0;
        }
        Lost { on_the_way: new + between - twice, overwritten: self.settle(now) }
    }

    /// Returns how many gaps have waited long enough.
    fn settle(&mut self, now: Instant) -> u64 {
        if self.gaps + self.settling == 0 {
            self.settle_at = None;
            return 0;
        }
        if now < *self.settle_at.get_or_insert(now + SETTLE) {
            return 0;
        }
        self.settle_at = Some(now + SETTLE);
        std::mem::replace(&mut self.settling, std::mem::take(&mut self.gaps))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(publisher: u16, number: Option<u64>, source_ns: Option<i64>) -> MessageInfo {
        let [low, high] = publisher.to_le_bytes();
        let mut gid = [low; 16];
        gid[0] = high;
        MessageInfo {
            source_ns,
            received_ns: None,
            publisher: Gid(gid),
            publication_sequence: number,
            reception_sequence: None,
        }
    }

    /// Notes messages of one publisher with these numbers.
    fn note(losses: &mut Losses, publisher: u16, numbers: impl IntoIterator<Item = u64>) {
        for number in numbers {
            losses.note(&message(publisher, Some(number), None), false);
        }
    }

    /// Explains until nothing is left to wait for.
    fn explain(losses: &mut Losses, counted: Option<u64>) -> Lost {
        let mut sum = Lost::default();
        for k in 0..4 {
            let lost = losses.explain(counted, Instant::now() + SETTLE * 2 * k);
            sum.on_the_way += lost.on_the_way;
            sum.overwritten += lost.overwritten;
        }
        assert!(!losses.has_gaps());
        sum
    }

    #[test]
    fn gaps_without_an_event_were_overwritten() {
        let mut losses = Losses::default();
        note(&mut losses, 1, [500, 501, 502]);
        assert!(!losses.has_gaps(), "messages before the subscription are not lost");
        assert_eq!(explain(&mut losses, Some(0)), Lost::default());
        note(&mut losses, 1, [510, 511, 513]);
        assert!(losses.has_gaps());
        assert_eq!(explain(&mut losses, Some(0)), Lost { on_the_way: 0, overwritten: 8 });
        note(&mut losses, 1, [520]);
        assert_eq!(explain(&mut losses, Some(4)), Lost { on_the_way: 4, overwritten: 2 });
    }

    #[test]
    fn a_loss_whose_event_comes_before_its_gap_counts_once() {
        let mut losses = Losses::default();
        note(&mut losses, 1, [1]);
        assert_eq!(explain(&mut losses, Some(5)), Lost { on_the_way: 5, overwritten: 0 });
        note(&mut losses, 1, [7]);
        assert_eq!(explain(&mut losses, Some(5)), Lost { on_the_way: 0, overwritten: 5 });
        assert_eq!(explain(&mut losses, Some(8)), Lost { on_the_way: 3, overwritten: 0 });
        note(&mut losses, 1, [11]);
        assert_eq!(explain(&mut losses, Some(8)), Lost::default());
    }

    #[test]
    fn publishers_number_their_own_messages() {
        let mut losses = Losses::default();
        note(&mut losses, 1, [1, 2, 3]);
        note(&mut losses, 2, [100, 101]);
        note(&mut losses, 1, [4]);
        note(&mut losses, 2, [102]);
        assert!(!losses.has_gaps());
    }

    #[test]
    fn of_too_many_publishers_the_one_heard_longest_ago_is_forgotten() {
        let mut losses = Losses::default();
        let most = PUBLISHERS as u16;
        (0..most).for_each(|publisher| note(&mut losses, publisher, [7]));
        note(&mut losses, 0, [8]);
        note(&mut losses, most, [7]);
        assert_eq!(losses.publishers.len(), PUBLISHERS);
        assert_eq!(new_of(&mut losses, 0, [8], false), [0; 0], "the first one is still known");
        assert_eq!(new_of(&mut losses, 1, [7], false), [7], "the second one is not");
        assert_eq!(losses.publishers.len(), PUBLISHERS);
    }

    #[test]
    fn without_the_event_all_gaps_count_as_lost_on_the_way() {
        let mut losses = Losses::default();
        note(&mut losses, 1, [1, 5, 4, 6]);
        assert_eq!(explain(&mut losses, None), Lost { on_the_way: 2, overwritten: 0 });
    }

    #[test]
    fn messages_between_two_subscriptions_are_lost_on_the_way() {
        let mut losses = Losses::default();
        note(&mut losses, 1, [1, 2, 3]);
        note(&mut losses, 2, [50]);
        assert_eq!(explain(&mut losses, Some(7)), Lost { on_the_way: 7, overwritten: 0 });
        losses.subscribed_again();
        assert!(!losses.has_gaps());
        note(&mut losses, 1, [104, 105]);
        assert!(losses.has_gaps());
        assert_eq!(explain(&mut losses, Some(0)), Lost { on_the_way: 100, overwritten: 0 });
        note(&mut losses, 1, [108]);
        assert_eq!(explain(&mut losses, Some(1)), Lost { on_the_way: 1, overwritten: 1 });
        // The other publisher comes later; its last message comes once more.
        note(&mut losses, 2, [50]);
        note(&mut losses, 2, [61]);
        assert_eq!(explain(&mut losses, Some(1)), Lost { on_the_way: 10, overwritten: 0 });
    }

    #[test]
    fn what_the_new_subscription_counts_of_that_gap_counts_once() {
        let mut losses = Losses::default();
        note(&mut losses, 1, [1]);
        explain(&mut losses, Some(0));
        losses.subscribed_again();
        assert_eq!(explain(&mut losses, Some(5)), Lost { on_the_way: 5, overwritten: 0 });
        note(&mut losses, 1, [102]);
        assert_eq!(explain(&mut losses, Some(5)), Lost { on_the_way: 95, overwritten: 0 });
        losses.subscribed_again();
        note(&mut losses, 1, [203]);
        assert_eq!(explain(&mut losses, Some(5)), Lost { on_the_way: 100, overwritten: 0 });
        losses.subscribed_again();
        note(&mut losses, 1, [214]);
        assert_eq!(explain(&mut losses, None), Lost { on_the_way: 10, overwritten: 0 });
    }

    #[test]
    fn a_gap_waits_for_its_event() {
        let (mut losses, start) = (Losses::default(), Instant::now());
        note(&mut losses, 1, [1, 12]);
        assert_eq!(losses.explain(Some(0), start), Lost::default());
        note(&mut losses, 1, [15]);
        assert_eq!(losses.explain(Some(0), start + SETTLE), Lost::default());
        let lost = losses.explain(Some(10), start + SETTLE + SETTLE / 2);
        assert_eq!(lost, Lost { on_the_way: 10, overwritten: 0 });
        let lost = losses.explain(Some(10), start + SETTLE * 2);
        assert_eq!(lost, Lost { on_the_way: 0, overwritten: 2 });
        assert!(!losses.has_gaps());
        // A message that comes late was not missing.
        note(&mut losses, 1, [17]);
        losses.explain(Some(10), start + SETTLE * 3);
        losses.explain(Some(10), start + SETTLE * 4);
        note(&mut losses, 1, [16]);
        assert!(!losses.has_gaps());
        assert_eq!(losses.explain(Some(10), start + SETTLE * 6), Lost::default());
    }

    #[test]
    fn a_publisher_is_new_only_until_the_next_explanation() {
        let mut losses = Losses::default();
        note(&mut losses, 1, [1]);
        assert!(losses.is_pending() && !losses.has_gaps());
        assert_eq!(losses.explain(Some(0), Instant::now()), Lost::default());
        assert!(!losses.is_pending());
        note(&mut losses, 1, [2]);
        // The event comes first.
        let lost = losses.explain(Some(5), Instant::now());
        assert_eq!(lost, Lost { on_the_way: 5, overwritten: 0 });
        note(&mut losses, 1, [8]);
        assert_eq!(explain(&mut losses, Some(5)), Lost::default());
    }

    /// Which of these numbers are new.
    fn new_of(
        losses: &mut Losses,
        publisher: u16,
        numbers: impl IntoIterator<Item = u64>,
        from_before: bool,
    ) -> Vec<u64> {
        let mut is_new =
            |number: &u64| losses.note(&message(publisher, Some(*number), None), from_before);
        numbers.into_iter().filter(|number| is_new(number)).collect()
    }

    #[test]
    fn while_two_subscriptions_overlap_each_message_is_new_once() {
        let mut losses = Losses::default();
        note(&mut losses, 1, 1..=10);
        explain(&mut losses, Some(3));
        losses.overlap();
        // The threads of the two subscriptions are apart, so either may be ahead.
        assert_eq!(new_of(&mut losses, 1, [12, 13], false), [12, 13]);
        assert_eq!(new_of(&mut losses, 1, [11, 12, 13], true), [11]);
        assert_eq!(new_of(&mut losses, 1, [14, 16], true), [14, 16]);
        assert_eq!(new_of(&mut losses, 1, [13, 14, 15, 16, 19], false), [15, 19]);
        assert!(!losses.is_pending(), "17 and 18 may still come");
        assert_eq!(new_of(&mut losses, 1, [18], true), [18]);
        losses.overlap_ended(Some(9));
        assert_eq!(explain(&mut losses, Some(9)), Lost { on_the_way: 1, overwritten: 0 });
        note(&mut losses, 1, [22]);
        assert_eq!(explain(&mut losses, Some(10)), Lost { on_the_way: 1, overwritten: 1 });
    }

    #[test]
    fn what_a_new_subscription_misses_before_it_is_connected_is_lost_on_the_way() {
        let mut losses = Losses::default();
        note(&mut losses, 1, [1]);
        note(&mut losses, 2, [1]);
        explain(&mut losses, Some(0));
        losses.overlap();
        // The old one still hears both, and the new one only the first publisher.
        assert_eq!(new_of(&mut losses, 1, [2], true), [2]);
        assert_eq!(new_of(&mut losses, 2, [2], true), [2]);
        assert_eq!(new_of(&mut losses, 1, [3], false), [3]);
        losses.overlap_ended(Some(0));
        note(&mut losses, 2, [8]);
        note(&mut losses, 1, [5]);
        assert_eq!(explain(&mut losses, Some(0)), Lost { on_the_way: 5, overwritten: 1 });
    }

    #[test]
    fn latched_messages_are_new_once() {
        for takes_history in [false, true] {
            let mut losses = Losses::new(takes_history);
            note(&mut losses, 1, [500, 501]);
            losses.overlap();
            let history: Vec<u64> = if takes_history { (400..500).collect() } else { Vec::new() };
            assert_eq!(new_of(&mut losses, 1, 400..=501, false), history);
            losses.overlap_ended(Some(0));
            assert_eq!(new_of(&mut losses, 1, [502], false), [502]);
            losses.overlap();
            assert_eq!(new_of(&mut losses, 1, 400..=502, false), [0; 0]);
            losses.overlap_ended(Some(0));
            assert_eq!(explain(&mut losses, Some(0)), Lost::default());
        }
        // Too long ago to be known one by one.
        let mut losses = Losses::default();
        note(&mut losses, 1, 1..=1000);
        losses.subscribed_again();
        assert_eq!(new_of(&mut losses, 1, 1..=1001, false), [1001]);
        assert_eq!(explain(&mut losses, Some(0)), Lost::default());
    }

    #[test]
    fn without_numbers_the_time_of_publication_tells_what_comes_once_more() {
        let mut losses = Losses::default();
        let new = |losses: &mut Losses, ns| losses.note(&message(1, None, ns), false);
        assert!(new(&mut losses, Some(10)) && new(&mut losses, Some(20)));
        assert!(new(&mut losses, Some(15)), "a clock was set back");
        losses.subscribed_again();
        assert!(!new(&mut losses, Some(10)) && !new(&mut losses, Some(15)));
        assert!(new(&mut losses, Some(30)) && new(&mut losses, Some(25)));
        losses.subscribed_again();
        assert!(new(&mut losses, None) && !losses.is_pending());
    }

    #[test]
    fn the_first_message_of_a_publisher_that_comes_in_an_overlap_is_new_once() {
        for number in [None, Some(70)] {
            for first_from_before in [false, true] {
                let mut losses = Losses::default();
                losses.overlap();
                let first = message(1, number, Some(10));
                assert!(losses.note(&first, first_from_before));
                assert!(!losses.note(&first, !first_from_before));
                let second = message(1, number.map(|it| it + 1), Some(20));
                assert!(losses.note(&second, !first_from_before));
                assert!(!losses.note(&second, first_from_before));
                losses.overlap_ended(Some(0));
                assert!(losses.note(&message(1, number.map(|it| it + 2), Some(30)), false));
                assert!(!losses.has_gaps());
            }
        }
    }
}
