//! Healing does no harm: a node with healing gets what its twin without healing gets.

use crate::net::{CHUNKS, Net};
use robocache_link::CLOCK_TOPIC;

/// Readings of a simulator's clock that one run may miss at its new connections.
const CLOCK_GAP: usize = 20;
/// Messages of a publisher that may be on their way at the end of the run.
const LAST_MESSAGES: u64 = 60;

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
        let excused = |number: &u64| {
            with.taken.contains(number)
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
