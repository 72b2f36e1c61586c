//! Counts the messages that were published and never taken, from the middleware's own numbers.

use std::time::{Duration, Instant};

use super::rcl::{Gid, MessageInfo};

/// How many publishers are remembered; if there are more, the oldest one is forgotten.
const PUBLISHERS: usize = 32;
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
/// one before and the first one after that are lost on the way.
#[derive(Debug, Default)]
pub struct Losses {
    publishers: Vec<Publisher>,
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
    /// Its newest number.
    newest: u64,
    /// Whether nothing new has come from it since the input was subscribed to again.
    away: bool,
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
    /// Notes the number of a message that was taken.
    pub fn note(&mut self, info: &MessageInfo) {
        let Some(number) = info.publication_sequence else { return };
        let publisher = self.publishers.iter_mut().find(|known| known.gid == info.publisher);
        match publisher {
            Some(publisher) if number > publisher.newest => {
                let missing = number - publisher.newest - 1;
                match std::mem::take(&mut publisher.away) {
                    true => self.between += missing,
                    false => self.gaps += missing,
                }
                publisher.newest = number;
            }
            // A publisher may send its last messages to a new subscription once more.
            Some(publisher) if publisher.away => {}
            // It comes out of order and was counted as missing.
            Some(_) if self.gaps > 0 => self.gaps -= 1,
            Some(_) => self.settling = self.settling.saturating_sub(1),
            None => {
                if self.publishers.len() == PUBLISHERS {
                    self.publishers.remove(0);
                }
                let gid = info.publisher;
                self.publishers.push(Publisher { gid, newest: number, away: false });
                self.newcomer = true;
            }
        }
    }

    /// Notes that the next messages and events come from a new subscription.
    pub fn subscribed_again(&mut self) {
        self.publishers.iter_mut().for_each(|publisher| publisher.away = true);
        self.counted = 0;
    }

    /// Whether [`explain`](Losses::explain) must be called: there are gaps, or a new publisher,
    /// whose losses until now must not explain its later gaps.
    pub fn is_pending(&self) -> bool {
        self.newcomer || self.has_gaps()
    }

    fn has_gaps(&self) -> bool {
        self.gaps + self.settling + self.between > 0
    }

    /// Explains the gaps with the event's total. A gap that no event explains counts as overwritten
    /// in a later call. Without the event, all count as lost on the way.
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

    /// Notes messages of one publisher with these numbers.
    fn note(losses: &mut Losses, publisher: u8, numbers: impl IntoIterator<Item = u64>) {
        for number in numbers {
            losses.note(&MessageInfo {
                source_ns: None,
                received_ns: None,
                publisher: Gid([publisher; 16]),
                publication_sequence: Some(number),
                reception_sequence: None,
            });
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
        (0..100).for_each(|publisher| note(&mut losses, publisher, [7]));
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
}
