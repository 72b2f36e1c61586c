//! Counts the messages that were published and never taken, from the middleware's own numbers.

use super::rcl::{Gid, MessageInfo};

/// How many publishers are remembered; if there are more, the oldest one is forgotten.
const PUBLISHERS: usize = 32;

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
#[derive(Debug, Default)]
pub struct Losses {
    /// The newest number of each publisher.
    newest: Vec<(Gid, u64)>,
    /// Missing messages that have not been explained yet.
    gaps: u64,
    /// Messages that the event has counted so far.
    on_the_way: u64,
    /// Messages among `on_the_way` whose gap has not been seen yet.
    unseen: u64,
    /// Whether a new publisher was heard since the last explanation. Its earlier losses left no
    /// gap.
    newcomer: bool,
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
        let publisher = self.newest.iter_mut().find(|(gid, _)| *gid == info.publisher);
        match publisher {
            Some((_, newest)) if number > *newest => {
                self.gaps += number - *newest - 1;
                *newest = number;
            }
            // It comes out of order and was counted as missing.
            Some(_) => self.gaps = self.gaps.saturating_sub(1),
            None => {
                if self.newest.len() == PUBLISHERS {
                    self.newest.remove(0);
                }
                self.newest.push((info.publisher, number));
                self.newcomer = true;
            }
        }
    }

    /// Whether there are gaps to explain.
    pub fn has_gaps(&self) -> bool {
        self.gaps > 0
    }

    /// Explains the gaps with the event's total. Without the event, all count as lost on the way.
    pub fn explain(&mut self, on_the_way: Option<u64>) -> Lost {
        let gaps = std::mem::take(&mut self.gaps);
        let Some(total) = on_the_way else { return Lost { on_the_way: gaps, overwritten: 0 } };
        let new = total.saturating_sub(self.on_the_way);
        self.on_the_way = total;
        self.unseen += new;
        let explained = gaps.min(self.unseen);
        self.unseen = if self.newcomer { 0 } else { self.unseen - explained };
        self.newcomer = false;
        Lost { on_the_way: new, overwritten: gaps - explained }
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

    #[test]
    fn gaps_without_an_event_were_overwritten() {
        let mut losses = Losses::default();
        note(&mut losses, 1, [500, 501, 502]);
        assert!(!losses.has_gaps(), "messages before the subscription are not lost");
        assert_eq!(losses.explain(Some(0)), Lost::default());
        note(&mut losses, 1, [510, 511, 513]);
        assert!(losses.has_gaps());
        assert_eq!(losses.explain(Some(0)), Lost { on_the_way: 0, overwritten: 8 });
        note(&mut losses, 1, [520]);
        assert_eq!(losses.explain(Some(4)), Lost { on_the_way: 4, overwritten: 2 });
    }

    #[test]
    fn a_loss_whose_event_comes_before_its_gap_counts_once() {
        let mut losses = Losses::default();
        note(&mut losses, 1, [1]);
        assert_eq!(losses.explain(Some(5)), Lost { on_the_way: 5, overwritten: 0 });
        note(&mut losses, 1, [7]);
        assert_eq!(losses.explain(Some(5)), Lost { on_the_way: 0, overwritten: 5 });
        assert_eq!(losses.explain(Some(8)), Lost { on_the_way: 3, overwritten: 0 });
        note(&mut losses, 1, [11]);
        assert_eq!(losses.explain(Some(8)), Lost::default());
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
        assert_eq!(losses.newest.len(), PUBLISHERS);
    }

    #[test]
    fn without_the_event_all_gaps_count_as_lost_on_the_way() {
        let mut losses = Losses::default();
        note(&mut losses, 1, [1, 5, 4, 6]);
        assert_eq!(losses.explain(None), Lost { on_the_way: 2, overwritten: 0 });
    }
}
