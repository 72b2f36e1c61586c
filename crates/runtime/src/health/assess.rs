//! Judges an input or the ticks by their numbers: a level, and words for people. Pure functions.

use std::time::Duration;

use super::loops::LoopWindow;
use super::publishers;
use crate::measure::Rate;
use robocache_core::histogram::Windows;
use robocache_core::input::TF_MESSAGE;
use robocache_core::rejected::DropReason;
use robocache_core::sample::SampleKind;
use robocache_core::spec::InputSpec;
use robocache_ops::align::{MergeSpec, ValidWhen};

/// If nothing comes from an input for this long, it is silent. Silence and rates are in the node's
/// time: while a simulation is paused, no stream is silent.
const SILENCE: Duration = Duration::from_secs(3);
/// If no first message has come from an input for this long, it is silent: the middleware takes seconds to find
/// publishers.
pub(super) const FIRST_MESSAGE: Duration = Duration::from_secs(5);
/// If a simulator's clock does not move for this long, it is paused or its publisher has ended.
pub(super) const CLOCK_PATIENCE: Duration = Duration::from_secs(3);
/// If this many ticks are due and not served, the thread of their loop is stuck. Two are normal: the one
/// being served, and the next.
const UNSERVED_TICKS: i64 = 3;
/// Words after the number of these ticks.
const UNSERVED: &str = "ticks due since the last one served";
/// The largest share of missing messages for which an input does not count as lossy.
const MISSING: f64 = 0.3;

/// Levels, numbered as in `diagnostic_msgs/msg/DiagnosticStatus`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// All is well.
    Ok = 0,
    /// Data is lost or late.
    Warn = 1,
    /// No tensor can be computed.
    Error = 2,
    /// Nothing comes.
    Stale = 3,
}

/// Numbers of one input in the last window.
#[derive(Clone, Debug, Default)]
#[allow(clippy::struct_excessive_bools)] // measured one by one
pub(super) struct InputWindow {
    /// True if a message ever came.
    pub ever: bool,
    /// True if its newest message is latched, and stays true until another one comes.
    pub kept: bool,
    /// Messages received since the start.
    pub heard: u64,
    /// Time since the newest message, or since the start.
    pub silence: Duration,
    /// True if the node has just started, by real time: discovery takes that, also if a simulator
    /// is fast.
    pub starting: bool,
    /// Messages received in this window.
    pub received: u64,
    /// Messages per second of the node's time.
    pub rate: Rate,
    /// From a message's stamp to its arrival; empty if the arrival is the stamp.
    pub delay: Windows,
    /// From the stamp of an image or a cloud until its row is in the ring.
    pub ready: Windows,
    /// Messages dropped in this window.
    pub dropped: Vec<(DropReason, u64)>,
    /// Details of the newest drops, for the reasons of this window: what was expected and what was found.
    pub details: Vec<(DropReason, String)>,
    /// The newest drop since the start, in words.
    pub last_drop: Option<String>,
    /// Messages that the middleware's full queue dropped in this window.
    pub queue_full: u64,
    /// Parts dropped from accepted messages in this window.
    pub parts_dropped: Vec<(DropReason, u64)>,
    /// Groups that a message of this window held only in part.
    pub groups_incomplete: u64,
    /// Messages that were lost on the way in this window, if the middleware tells.
    pub lost: u64,
    /// Messages missing in this window by their stamps' period; 0 if the middleware tells which
    /// messages were lost.
    pub missing: u64,
    /// How often the middleware failed to give a message in this window.
    pub take_failed: u64,
    /// Publishers from which nothing can come, in words, or `None`.
    pub refused: Option<String>,
    /// Share of its stream's steps that were valid; `None` without a step, and if the stream has
    /// other inputs too.
    pub valid_share: Option<f64>,
    /// Share of published messages that were lost on the way: exact if the middleware tells,
    /// otherwise probable.
    pub missing_share: Option<f64>,
    /// True if `missing_share` is a guess by the stamps' period.
    pub guessed: bool,
    /// The usual time between two messages; `None` before the third.
    pub usual: Option<Duration>,
    /// The longest usual pause, if the input comes in bursts.
    pub pause: Option<Duration>,
}

/// Numbers of the ticks in the last window.
#[derive(Clone, Debug, Default)]
pub(super) struct TickWindow {
    /// State of the simulator's clock; `None` for other clocks.
    pub sim_clock: Option<SimClockSeen>,
    /// The nodes of all publishers of `/clock`, if a simulator's clock is in use.
    pub clock_publishers: Vec<String>,
    /// Tensors published or unread per second of the node's time.
    pub rate_hz: f64,
    /// Tensors published.
    pub published: u64,
    /// Tensors that were not published, because nobody took them.
    pub unread: u64,
    /// Ticks that a required stream held back.
    pub held_back: u64,
    /// The stream that held back the newest of them.
    pub held_back_by: String,
    /// Numbers of the loop that serves them.
    pub grid: LoopWindow,
    /// How often the clock was set.
    pub clock_jumps: u64,
    /// Tensors that a newer one replaced before they were sent.
    pub unsent: u64,
    /// Tensors that the middleware refused.
    pub publish_failed: u64,
    /// 99 % of the published ticks took at most this long \[ms\], as text.
    pub p99_ms: String,
}

impl TickWindow {
    /// Tensors published per second of the node's time.
    pub(super) fn published_hz(&self) -> f64 {
        match self.published + self.unread {
            0 => self.rate_hz,
            made => self.rate_hz * self.published as f64 / made as f64,
        }
    }
}

/// State of `/clock`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SimClockSeen {
    /// No message yet.
    Never,
    /// It has not moved for this long.
    Stands(Duration),
}

impl SimClockSeen {
    /// Returns the reason why no tick becomes due; `None` while the clock runs.
    pub(super) fn trouble(self) -> Option<String> {
        match self {
            SimClockSeen::Never => Some("no message on /clock yet: no ticks".to_owned()),
            SimClockSeen::Stands(time) if time > CLOCK_PATIENCE => Some(format!(
                "/clock has stood still for {:.1} s (the simulation is paused, or its publisher \
                 has ended): no ticks",
                time.as_secs_f64()
            )),
            SimClockSeen::Stands(_) => None,
        }
    }
}

/// Returns the level and the message of the ticks.
pub(super) fn assess_ticks(window: &TickWindow) -> (Level, String) {
    if let Some(words) = window.sim_clock.and_then(SimClockSeen::trouble) {
        return (Level::Stale, words);
    }
    let mut words = Vec::new();
    let mut count = |n: u64, what: &str| {
        if n > 0 {
            words.push(format!("{n} {what}"));
        }
    };
    count(window.held_back, &format!("held back by '{}'", window.held_back_by));
    count(window.grid.overruns, "overruns");
    count(window.clock_jumps, "clock jumps");
    count(
        window.unsent,
        "overwritten before they were sent: a subscriber or the middleware is slow",
    );
    count(window.publish_failed, "refused by the middleware");
    let stuck = is_stuck(&window.grid);
    if stuck {
        count(window.grid.unserved as u64, UNSERVED);
    }
    words.extend(publishers::several(&window.clock_publishers));
    let nothing = window.published + window.unread == 0
        && window.held_back + window.unsent + window.publish_failed > 0;
    match (words.is_empty(), nothing || stuck) {
        (true, _) if window.published == 0 && window.unread > 0 => (
            Level::Ok,
            format!("{:.1} Hz, not published: nobody takes the tensors", window.rate_hz),
        ),
        (true, _) => {
            (Level::Ok, format!("{:.1} Hz, latency p99 {} ms", window.rate_hz, window.p99_ms))
        }
        (false, true) => (Level::Error, words.join("; ")),
        (false, false) => (Level::Warn, words.join("; ")),
    }
}

fn is_stuck(window: &LoopWindow) -> bool {
    window.unserved >= UNSERVED_TICKS
}

/// Returns the level and the message of a loop about which nothing else is known.
pub(super) fn assess_loop(window: &LoopWindow, sim_clock: Option<SimClockSeen>) -> (Level, String) {
    if let Some(words) = sim_clock.and_then(SimClockSeen::trouble) {
        return (Level::Stale, words);
    }
    let overruns = (window.overruns > 0).then(|| format!("{} overruns", window.overruns));
    let stuck = is_stuck(window).then(|| format!("{} {UNSERVED}", window.unserved));
    let level = match (&overruns, &stuck) {
        (_, Some(_)) => Level::Error,
        (Some(_), None) => Level::Warn,
        (None, None) => return (Level::Ok, "no overruns".to_owned()),
    };
    (level, overruns.into_iter().chain(stuck).collect::<Vec<_>>().join("; "))
}

/// A fault in the arrivals of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// Nothing comes.
    Silent,
    /// Far fewer messages come than are published.
    Lossy,
    /// Nothing came in a window, and not yet for as long as an input must be silent.
    Stopped,
}

/// Returns what is wrong with the arrivals of an input, if anything.
pub(super) fn trouble(spec: &InputSpec, window: &InputWindow) -> Option<Trouble> {
    if spec.ros_type == TF_MESSAGE && spec.feeds_tree() && (spec.feeds_fixed_tree() || !window.ever)
    {
        // Fixed transforms are sent once, and a robot may have fixed or moving ones only. If a message
        // lacks one, its own input says so. A gyro and an odometry are named in the file, so they must speak.
        return None;
    }
    // A camera is latched: one message is enough.
    if spec.is_calibration() && window.ever {
        return None;
    }
    if window.kept && spec.expected_rate_hz.is_none() {
        return None;
    }
    // A plan comes when there is something to do.
    if spec.is_plan() && spec.expected_rate_hz.is_none() {
        return None;
    }
    let usual = if window.ever { SILENCE } else { FIRST_MESSAGE };
    let interval = match spec.expected_rate_hz {
        Some(rate) if rate > 0.0 => Duration::from_secs_f64((1.0 / rate).min(1200.0)),
        _ => window.usual.unwrap_or_default().min(Duration::from_secs(1200)),
    };
    let patience = usual.max(3 * interval);
    if window.silence > patience {
        return (window.ever || !window.starting).then_some(Trouble::Silent);
    }
    // The rate of a slow input in one window is too coarse for this check.
    let few = |expected: f64| expected >= 5.0 && window.rate.hz < (1.0 - MISSING) * expected;
    let lossy = match spec.expected_rate_hz {
        Some(expected) => window.rate.measured && few(expected),
        None => window.missing_share.is_some_and(|share| share > MISSING),
    };
    // What sends nothing loses nothing.
    let kind = if window.rate.hz == 0.0 { Trouble::Stopped } else { Trouble::Lossy };
    (window.ever && lossy).then_some(kind)
}

/// Returns the level and the message of an input, and of its stream if that has no other input.
/// `required` says whether the stream is required.
pub(super) fn assess(spec: &InputSpec, required: bool, window: &InputWindow) -> (Level, String) {
    if trouble(spec, window) == Some(Trouble::Silent) {
        let seconds = window.silence.as_secs_f64();
        let level = if required { Level::Error } else { Level::Stale };
        let before = match (window.ever, window.heard) {
            (false, _) => " since the start".to_owned(),
            (true, 1) => ": stopped after 1 message".to_owned(),
            (true, heard) => format!(": stopped after {heard} messages"),
        };
        return (level, format!("no message in {seconds:.1} s{before}"));
    }
    if !window.ever {
        return (Level::Ok, "waiting for the first message".to_owned());
    }
    let mut words = Vec::new();
    match trouble(spec, window) {
        Some(Trouble::Lossy) => words.push(lossy(spec, window)),
        Some(Trouble::Stopped) => {
            let nothing = format!("nothing for {:.1} s", window.silence.as_secs_f64());
            let instead = spec.expected_rate_hz.map(|hz| format!("0.0 Hz instead of {hz} Hz: "));
            words.push(instead.unwrap_or_default() + &nothing);
        }
        Some(Trouble::Silent) | None => {}
    }
    let detail = |reason: DropReason| {
        let detail = window.details.iter().find(|(of, _)| *of == reason);
        detail.map_or(String::new(), |(_, detail)| format!(" ({detail})"))
    };
    let drops = |what: &str, dropped: &[(DropReason, u64)]| -> Vec<String> {
        let words = |(reason, n): &(DropReason, u64)| {
            format!("{n} {what}dropped: {}{}", reason.name(), detail(*reason))
        };
        dropped.iter().map(words).collect()
    };
    words.extend(drops("", &window.dropped));
    let what = if spec.gives() == Some(SampleKind::Points) { "rows " } else { "groups " };
    words.extend(drops(what, &window.parts_dropped));
    if window.groups_incomplete > 0 {
        let lacking = detail(DropReason::MissingField);
        words.push(format!("{} groups incomplete{lacking}", window.groups_incomplete));
    }
    let counts = [
        (window.lost, "lost on the way"),
        (window.missing, "probably missing by their stamps' period"),
        (window.take_failed, "not given by the middleware"),
    ];
    let counts = counts.into_iter().filter(|(n, _)| *n > 0);
    words.extend(counts.map(|(n, what)| format!("{n} {what}")));
    if window.queue_full > 0 {
        words.push(format!("the middleware's queue was full and dropped {}", window.queue_full));
    }
    words.extend(window.refused.clone());
    words.extend(invalid(window.valid_share));
    match words.is_empty() {
        true => (Level::Ok, format!("{:.1} Hz", window.rate.hz)),
        false => (Level::Warn, words.join("; ")),
    }
}

/// Returns the level and the message of a stream with several inputs, from the levels of the
/// inputs. If `merge` is `None`, the stream needs all of them. Each input has its level, its topic and its message.
pub(super) fn assess_joined(
    inputs: &[(Level, &str, &str)],
    merge: Option<&MergeSpec>,
    valid_share: Option<f64>,
) -> (Level, String) {
    let needs = |at| merge.is_none_or(|merge| merge.needs(at));
    let needed = inputs.iter().enumerate().filter(|(at, _)| needs(*at));
    let levels = needed.map(|(_, (level, ..))| *level);
    let of_inputs = match merge.map(|merge| merge.valid_when) {
        // The best one suffices.
        Some(ValidWhen::Any) => levels.min(),
        Some(ValidWhen::All | ValidWhen::Listed(_)) | None => levels.max(),
    };
    let of_inputs = of_inputs.unwrap_or(Level::Ok);
    // An input is at these levels only if it is silent.
    let silent = inputs.iter().filter(|(level, ..)| *level >= Level::Error);
    let silent: Vec<_> = silent.map(|(_, topic, _)| *topic).collect();
    let invalid = invalid(valid_share);
    let least = if invalid.is_some() { Level::Warn } else { Level::Ok };
    let mut words = invalid.unwrap_or_else(|| format!("{} inputs", inputs.len()));
    if !silent.is_empty() {
        words = format!("{words}; nothing comes from {}", silent.join(" and "));
    }
    let warned = inputs.iter().filter(|(level, ..)| *level == Level::Warn);
    for (_, topic, message) in warned {
        words = format!("{words}; {topic}: {message}");
    }
    (of_inputs.max(least), words)
}

/// Returns the words for invalid steps; `None` if all steps are valid.
fn invalid(valid_share: Option<f64>) -> Option<String> {
    let valid = valid_share.filter(|share| *share < 1.0)?;
    Some(format!("{:.1} % of the steps invalid", (1.0 - valid) * 100.0))
}

fn lossy(spec: &InputSpec, window: &InputWindow) -> String {
    match (spec.expected_rate_hz, window.missing_share) {
        (Some(expected), _) => format!("{:.1} Hz instead of {expected} Hz", window.rate.hz),
        (None, share) => {
            let percent = share.unwrap_or(0.0) * 100.0;
            let probably = if window.guessed { "probably " } else { "" };
            format!("{probably}{percent:.0} % of the published messages do not arrive")
        }
    }
}

#[cfg(test)]
mod tests;
