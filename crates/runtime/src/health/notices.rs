//! Log lines that must appear only once or rarely.

use std::time::{Duration, Instant};

use super::assess::{CLOCK_PATIENCE, SimClockSeen};
use super::causes::{Cause, CauseKind};
use super::totals::InputTotals;
use crate::PublisherSeen;
use robocache_core::spec::{InputId, InputSpec, StreamId};
use robocache_core::tf::Forgotten;

/// Time between two log lines that sum up losses.
const SUMMARY_PERIOD: Duration = Duration::from_secs(10);

/// A cause of invalid steps is logged after this many windows in a row. Shorter ones are starts and
/// jumps of the clock.
const CAUSE_WINDOWS: u32 = 3;
/// After this many windows without a cause, the same cause is logged again.
const CALM_WINDOWS: u32 = 10;
/// Time between two log lines about the causes of one stream, or about the publishers of `/clock`.
const REPEAT: Duration = Duration::from_secs(10);

/// A publisher whose node is unknown is logged after this time. Until then the graph may learn the name, and the line
/// would be logged again.
const NAME_PATIENCE: Duration = Duration::from_secs(2);

/// Notices of the log about the causes of a stream.
#[derive(Clone, Copy, Debug, Default)]
struct Causes {
    /// The cause of the last windows, and how many they are; `None` if there was none.
    lately: (Option<CauseKind>, u32),
    /// The cause that was logged last.
    said: Option<(CauseKind, Instant)>,
}

impl Causes {
    /// Notes the cause of a window. Returns whether to log it.
    fn note(&mut self, now: Instant, kind: Option<CauseKind>) -> bool {
        let (lately, windows) = self.lately;
        self.lately = (kind, if kind == lately { windows.saturating_add(1) } else { 1 });
        let windows = self.lately.1;
        let Some(kind) = kind else {
            let throttled = self.said.is_some_and(|(_, at)| now.duration_since(at) < REPEAT);
            if windows >= CALM_WINDOWS && !throttled {
                self.said = None;
            }
            return false;
        };
        let repeated =
            self.said.is_some_and(|(said, at)| said == kind || now.duration_since(at) < REPEAT);
        let log = kind.has_remedy() && windows >= CAUSE_WINDOWS && !repeated;
        if log {
            self.said = Some((kind, now));
        }
        log
    }
}

/// Notices of the log about an input.
#[derive(Clone, Debug, Default)]
struct InputNotices {
    /// The reason for its trouble, while it lasts.
    trouble: Option<String>,
    /// The publishers that are refused.
    refused: Option<String>,
    /// Since when it has a publisher whose node is unknown.
    nameless: Option<Instant>,
    /// The losses that have been summed up.
    summed_up: InputTotals,
}

/// Remembers what has been logged.
pub(super) struct Notices {
    started: Instant,
    clock_missed: bool,
    clock_stood: bool,
    /// The publishers of `/clock` that have been logged, and when.
    clock_publishers: Option<(String, Instant)>,
    /// By stream.
    causes: Vec<Causes>,
    /// By input.
    inputs: Vec<InputNotices>,
    /// True if the log has said that frames made room for others.
    frames_forgotten: bool,
    /// When the losses may be summed up next.
    next_summary: Instant,
}

impl Notices {
    /// Makes the notices for this many inputs and streams.
    pub(super) fn new(started: Instant, inputs: usize, streams: usize) -> Self {
        Notices {
            started,
            clock_missed: false,
            clock_stood: false,
            clock_publishers: None,
            causes: vec![Causes::default(); streams],
            inputs: vec![InputNotices::default(); inputs],
            frames_forgotten: false,
            next_summary: started,
        }
    }

    /// Logs once if there is no clock or it does not move, and once when it runs again.
    pub(super) fn clock(&mut self, now: Instant, seen: Option<SimClockSeen>) {
        match seen {
            Some(SimClockSeen::Never) => {
                let patient = now.duration_since(self.started) <= CLOCK_PATIENCE;
                if !patient && !self.clock_missed {
                    self.clock_missed = true;
                    tracing::warn!("use_sim_time is set, but nothing comes on /clock: no ticks");
                }
            }
            Some(stands) => {
                let trouble = stands.trouble();
                match (&trouble, self.clock_stood) {
                    (Some(words), false) => tracing::warn!("{words}"),
                    (None, true) => tracing::info!("/clock runs again"),
                    _ => {}
                }
                self.clock_stood = trouble.is_some();
            }
            None => {}
        }
    }

    /// Logs once which nodes publish `/clock` if there are several, and again if they change.
    pub(super) fn clock_publishers(&mut self, now: Instant, words: Option<String>) {
        let Some(words) = words else { return };
        if !repeats(self.clock_publishers.as_ref(), now, &words) {
            tracing::warn!("{words}");
            self.clock_publishers = Some((words, now));
        }
    }

    /// Logs the cause of a stream's invalid or held steps once when it lasts, and again after it
    /// has changed or ended. The caller leaves out windows without a tick.
    pub(super) fn cause(
        &mut self,
        now: Instant,
        stream: StreamId,
        name: &str,
        cause: Option<&Cause>,
    ) {
        let log = self.causes[stream.index()].note(now, cause.map(|cause| cause.kind));
        if let Some(cause) = cause.filter(|_| log) {
            tracing::warn!("stream '{name}': {}", cause.words);
        }
    }

    /// Logs once when an input's trouble begins or its reason changes, and once when it ends.
    /// `topic` is the full name, `what` the input's state in words. What `near` adds is no reason of its own.
    pub(super) fn trouble(
        &mut self,
        input: InputId,
        name: &str,
        topic: &str,
        what: &str,
        why: Option<String>,
        near: &str,
    ) {
        let said = &mut self.inputs[input.index()].trouble;
        if why == *said {
            return;
        }
        match &why {
            Some(why) => tracing::warn!("stream '{name}' ({topic}): {what}; {why}{near}"),
            None => tracing::info!("stream '{name}' ({topic}) arrives again"),
        }
        *said = why;
    }

    /// True if a line may name the publishers of an input: the nodes of all are known, or one has
    /// not become known for a while.
    pub(super) fn may_name(
        &mut self,
        now: Instant,
        input: InputId,
        seen: &[PublisherSeen],
    ) -> bool {
        let since = &mut self.inputs[input.index()].nameless;
        if seen.iter().all(|publisher| publisher.node.is_some()) {
            *since = None;
            return true;
        }
        now.duration_since(*since.get_or_insert(now)) >= NAME_PATIENCE
    }

    /// Logs once which publishers of an input are refused, and again if they change.
    pub(super) fn refused(&mut self, input: InputId, name: &str, topic: &str, who: Option<&str>) {
        let said = &mut self.inputs[input.index()].refused;
        if let Some(words) = who.filter(|_| who != said.as_deref()) {
            tracing::warn!("stream '{name}' ({topic}): {words}");
            *said = Some(words.to_owned());
        }
    }

    /// Logs once that frames made room for others.
    pub(super) fn frames(&mut self, forgotten: &Forgotten) {
        if let Some(words) = self.frames_words(forgotten) {
            tracing::warn!("{words}");
        }
    }

    /// The words to log; `None` if there is nothing to say, or if it has been said.
    fn frames_words(&mut self, Forgotten { count, newest }: &Forgotten) -> Option<String> {
        if *count == 0 || std::mem::replace(&mut self.frames_forgotten, true) {
            return None;
        }
        Some(format!(
            "tf: there were too many frames (tf.max_frames), so {count} that no transform had come for were \
             forgotten, such as {newest:?}: does a node give its frames new names all the time?"
        ))
    }

    /// Logs all losses since the last such line, at most every [`SUMMARY_PERIOD`]. `totals` are those of the
    /// inputs, in their order.
    pub(super) fn losses<'a>(
        &mut self,
        now: Instant,
        totals: impl Iterator<Item = (&'a InputSpec, &'a InputTotals)>,
    ) {
        if now < self.next_summary {
            return;
        }
        let mut lines = Vec::new();
        for ((spec, after), input) in totals.zip(&mut self.inputs) {
            lines.extend(losses_of(&spec.name, &input.summed_up, after));
            input.summed_up = *after;
        }
        if !lines.is_empty() {
            tracing::warn!("dropped or missing messages: {}", lines.join(", "));
            self.next_summary = now + SUMMARY_PERIOD;
        }
    }
}

/// True if `words` have been said, or others a short time ago.
fn repeats(said: Option<&(String, Instant)>, now: Instant, words: &str) -> bool {
    said.is_some_and(|(said, at)| said == words || now.duration_since(*at) < REPEAT)
}

/// Returns the losses of an input between two readings, in words.
fn losses_of(name: &str, before: &InputTotals, after: &InputTotals) -> Vec<String> {
    let drops = after.drops_since(before).into_iter();
    let mut lines: Vec<_> =
        drops.map(|(reason, n)| format!("{name}: {n} {}", reason.name())).collect();
    let parts = after.parts_dropped_since(before).into_iter();
    lines.extend(parts.map(|(reason, n)| format!("{name}: {n} groups {}", reason.name())));
    let counts = [
        (after.groups_incomplete - before.groups_incomplete, "groups incomplete"),
        (after.lost_since(before).unwrap_or(0), "lost on the way"),
        (
            after.missing_since(before),
            "probably missing by their stamps' period (lost on the way, or never sent)",
        ),
        (after.take_failed - before.take_failed, "not given by the middleware"),
    ];
    let counts = counts.into_iter().filter(|(n, _)| *n > 0);
    lines.extend(counts.map(|(n, what)| format!("{name}: {n} {what}")));
    if after.queue_full > before.queue_full {
        let n = after.queue_full - before.queue_full;
        lines.push(format!(
            "{name}: the middleware's queue was full and dropped {n}; raise the stream's qos depth \
             or give the node more of the processor"
        ));
    }
    lines
}

#[cfg(test)]
mod tests;
