//! Healing does no harm: a node with healing gets what its twin without healing gets.

use crate::net::{CHUNKS, Fates, MS, Net, Publisher};
use robocache_link::CLOCK_TOPIC;

/// Readings of a simulator's clock that one run may miss at its new connections.
const CLOCK_GAP: usize = 20;
/// Messages of a publisher that may be on their way at the end of the run.
const LAST_MESSAGES: u64 = 60;
/// Two nodes notice a publisher with another quality of service at looks of their own, whose instants differ by less.
const NOTICE_NS: u64 = 400 * MS;

/// Says which messages of a publisher the node with healing did not get, although the node without it did; `None` if
/// there are none. Messages that were published after `calm_ns` do not count, as they may be on their way.
pub(crate) fn harm(healed: &Net, unhealed: &Net, calm_ns: u64) -> Option<String> {
    // If a simulator began again in one of the runs alone, its pause ended in that one alone: then the messages of a number
    // are not the same.
    if healed.clock_backs != unhealed.clock_backs {
        return None;
    }
    let lives = healed.lives.iter().zip(&unhealed.lives);
    let of_lives = lives.flat_map(|(with, without)| with.iter().zip(without).enumerate());
    for (publisher, (with, without)) in of_lives {
        let of = &unhealed.publishers[publisher];
        if of.topic == CHUNKS {
            continue;
        }
        let last = of.number.saturating_sub(LAST_MESSAGES);
        let owed_ns = owed_from_ns(with, without, of);
        let excused = |number: &u64| {
            with.taken.contains(number)
                || of.published_ns(*number) < owed_ns
                || with.drawn.contains(number)
                || with.overwritten.contains(number)
                || of.last_ns > calm_ns && *number > last
        };
        let harmed: Vec<_> = without.taken.iter().filter(|number| !excused(number)).collect();
        // Of a clock the newest reading counts: a few may be missing where one subscription ends.
        let most = if of.topic == CLOCK_TOPIC { CLOCK_GAP } else { 0 };
        if harmed.len() > most {
            let topic = of.topic;
            return Some(format!(
                "{topic}: healing has lost the messages {harmed:?} of publisher {publisher}"
            ));
        }
    }
    None
}

/// When the first message was published that the node with healing owes, because the other one got it.
///
/// If no subscription of it fitted the publisher, both nodes had to subscribe again, and it is chance who did so first. The
/// other one may also have kept a subscription by chance that fits: a node ends one when the newer one hears as much.
fn owed_from_ns(with: &Fates, without: &Fates, of: &Publisher) -> u64 {
    let first_ns = |number| of.published_ns(number) + NOTICE_NS;
    match with.is_unexpected {
        true => without.first_by_later.map_or(u64::MAX, first_ns),
        false => 0,
    }
}
