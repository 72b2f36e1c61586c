//! Invariants at the end of a run, after a time without a fault.

use super::{Kind, Seen};
use crate::net::{Net, S};
use crate::robot::MessageSource;
use robocache_link::CLOCK_TOPIC;
use robocache_runtime::Runtime;

/// Messages that were published so long before the end must have been taken, and what is missing before them is counted.
const LAST_NS: u64 = 2 * S;

/// When the run may end: a rare message that has just come shows what is missing before it, which is counted later.
pub(crate) fn may_end_ns(net: &Net, sources: &[MessageSource]) -> u64 {
    let rare = sources.iter().filter(|source| source.kind == Kind::Mark);
    let last_ns = rare.filter_map(|source| Some(net.publishers[source.publisher?].last_ns));
    last_ns.max().map_or(0, |last| last + LAST_NS)
}

/// All sources are heard again, and the newest latched message counts. If the node is cut off and cannot see that, those
/// of its machine are not. If that is also so of its clock, no message counts.
pub(crate) fn all_are_heard(
    seen: &Seen,
    net: &Net,
    sources: &[MessageSource],
) -> Result<(), String> {
    let is_deaf = net.is_deaf_unseen();
    let has_time = !(is_deaf && net.publishers.iter().any(|of| of.topic == CLOCK_TOPIC));
    for source in sources {
        let (kind, Some(publisher)) = (source.kind, source.publisher) else { continue };
        if is_deaf && !(has_time && source.is_remote()) {
            continue;
        }
        let number = net.publishers[publisher].number;
        let newest = seen.newest_of(kind, publisher);
        let missing = number.saturating_sub(newest);
        let most = if kind == Kind::Mark { 0 } else { LAST_NS / kind.period_ns() };
        if missing > most {
            return Err(format!(
                "{kind:?}: the last {missing} messages of publisher {publisher} were not heard, {number} in all"
            ));
        }
        if kind == Kind::Mark && number > 0 && seen.mark != Some((publisher, number)) {
            let mark = seen.mark;
            return Err(format!(
                "the latched message {number} of publisher {publisher} does not count, but {mark:?}"
            ));
        }
    }
    Ok(())
}

/// Sent after the match = received + lost + overwritten.
pub(crate) fn losses_add_up(seen: &mut Seen, net: &Net, runtime: &Runtime) {
    if !net.rules.numbers {
        return;
    }
    for id in runtime.inputs() {
        let Some(kind) = seen.kinds[id.index()] else { continue };
        // What is on its way from a publisher that has ended has the numbers of one that began again under its identity.
        if net.has_namesakes(kind.topic().0) {
            continue;
        }
        let of_kind = |publisher: &usize| net.publishers[*publisher].topic == kind.topic().0;
        let publishers: Vec<_> = (0..net.publishers.len()).filter(of_kind).collect();
        let mut missing = 0;
        let mut early = 0;
        for publisher in publishers {
            let fates = net.fates_of(publisher);
            let Some(first) = fates.taken.first().copied() else {
                early += fates.lost.len() as u64;
                continue;
            };
            let newest = fates.taken.iter().max().copied().unwrap_or(first);
            let mut taken: Vec<_> =
                fates.taken.iter().copied().filter(|number| *number >= first).collect();
            taken.sort_unstable();
            taken.dedup();
            missing += newest - first + 1 - taken.len() as u64;
            // An event also counts what was lost before the first message.
            early += fates.lost.iter().filter(|number| **number < first).count() as u64;
        }
        let state = runtime.input(id);
        let told = state.lost.get() + state.queue_full.get();
        if !(missing..=missing + early).contains(&told) {
            seen.fail(format!(
                "{kind:?}: {missing} messages are missing, and {early} more may be; the node tells {} lost and {} overwritten",
                state.lost.get(),
                state.queue_full.get()
            ));
        }
    }
}
