//! What the numbers of a stream mean to a person: its level and the words for it. Pure functions.

use std::time::Duration;

use crate::config::StreamSpec;
use crate::stats::DropReason;

/// A stream from which nothing comes for this long is silent.
const SILENCE: Duration = Duration::from_secs(3);
/// So long after the start, because the middleware takes seconds to find publishers.
const FIRST_MESSAGE: Duration = Duration::from_secs(5);
/// A simulator's clock that stands still for this long is paused or dead.
pub const CLOCK_PATIENCE: Duration = Duration::from_secs(3);
/// Ticks that may be due and not dealt with at a look: the one being served, and its successor.
const UNSERVED_TICKS: i64 = 3;
/// Share of published messages that may be missing before it is said.
const MISSING: f64 = 0.3;

/// Levels of `diagnostic_msgs/msg/DiagnosticStatus`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// As it should be.
    Ok = 0,
    /// Data is being lost or is late.
    Warn = 1,
    /// No tensor can be computed.
    Error = 2,
    /// Nothing comes.
    Stale = 3,
}

/// What was seen of one stream in the last window.
#[derive(Clone, Debug, Default)]
pub struct StreamWindow {
    /// Whether a message ever came.
    pub ever: bool,
    /// Time since the newest message, or since the start.
    pub silence: Duration,
    /// Messages per second.
    pub rate_hz: f64,
    /// Messages dropped in this window.
    pub dropped: Vec<(DropReason, u64)>,
    /// Times the middleware's queue was full in this window.
    pub queue_full: u64,
    /// Messages that were to be expected by their stamps' period and did not come in this window.
    pub missing: u64,
    /// Share of steps that were valid; `None` without a step.
    pub valid_share: Option<f64>,
    /// Share of published messages that seem lost on the way.
    pub missing_share: Option<f64>,
    /// The usual time between two messages, where enough have come.
    pub usual: Option<Duration>,
}

/// What was seen of the ticks in the last window.
#[derive(Clone, Debug, Default)]
pub struct TickWindow {
    /// Where the ticks stand on `/clock`: whether it has come, and for how long it has stood still.
    pub sim_clock: Option<SimClockSeen>,
    /// Tensors published per second.
    pub rate_hz: f64,
    /// Tensors published.
    pub published: u64,
    /// Ticks that a required stream held back.
    pub held_back: u64,
    /// The newest such stream.
    pub held_back_by: String,
    /// Ticks that were due and not served.
    pub overruns: u64,
    /// Times the clock was set.
    pub clock_jumps: u64,
    /// Tensors that the middleware refused.
    pub publish_failed: u64,
    /// Ticks that the clock has passed since the last one that was dealt with.
    pub unserved: i64,
    /// 99 % of the published ticks took at most this long \[ms\], as text.
    pub p99_ms: String,
}

/// What was seen of `/clock`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimClockSeen {
    /// No message yet.
    Never,
    /// It stands at the same instant for that long.
    Stands(Duration),
}

impl SimClockSeen {
    /// The words for a clock by which no tick is due any more; `None` while it runs.
    pub fn trouble(self) -> Option<String> {
        match self {
            SimClockSeen::Never => Some("no message on /clock yet: no ticks".to_owned()),
            SimClockSeen::Stands(time) if time > CLOCK_PATIENCE => Some(format!(
                "/clock has stood still for {:.1} s (the simulation is paused, or whoever published \
                 it is gone): no ticks",
                time.as_secs_f64()
            )),
            SimClockSeen::Stands(_) => None,
        }
    }
}

/// Level and message of the ticks.
pub fn assess_ticks(window: &TickWindow) -> (Level, String) {
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
    count(window.overruns, "overruns");
    count(window.clock_jumps, "clock jumps");
    count(window.publish_failed, "refused by the middleware");
    let stuck = window.unserved >= UNSERVED_TICKS;
    if stuck {
        count(window.unserved as u64, "ticks due since the last one served");
    }
    let nothing = window.published == 0 && window.held_back + window.publish_failed > 0;
    match (words.is_empty(), nothing || stuck) {
        (true, _) => {
            (Level::Ok, format!("{:.1} Hz, latency p99 {} ms", window.rate_hz, window.p99_ms))
        }
        (false, true) => (Level::Error, words.join("; ")),
        (false, false) => (Level::Warn, words.join("; ")),
    }
}

/// What is wrong with the way a stream arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Nothing comes.
    Silent,
    /// Far less comes than is published.
    Lossy,
}

/// Decides whether the arrival of a stream is in trouble.
pub fn trouble(spec: &StreamSpec, window: &StreamWindow) -> Option<Trouble> {
    let usual = if window.ever { SILENCE } else { FIRST_MESSAGE };
    let interval = match spec.expected_rate_hz {
        Some(rate) if rate > 0.0 => Duration::from_secs_f64((1.0 / rate).min(1200.0)),
        _ => window.usual.unwrap_or_default().min(Duration::from_secs(1200)),
    };
    let patience = usual.max(3 * interval);
    if window.silence > patience {
        return Some(Trouble::Silent);
    }
    // A slow stream's rate in one window is coarse: three messages of a 1 Hz stream fit none.
    let few = |expected: f64| expected >= 5.0 && window.rate_hz < (1.0 - MISSING) * expected;
    let lossy = match spec.expected_rate_hz {
        Some(expected) => few(expected),
        None => window.missing_share.is_some_and(|share| share > MISSING),
    };
    (window.ever && lossy).then_some(Trouble::Lossy)
}

/// Level and message of a stream.
pub fn assess(spec: &StreamSpec, window: &StreamWindow) -> (Level, String) {
    if trouble(spec, window) == Some(Trouble::Silent) {
        let seconds = window.silence.as_secs_f64();
        let since = if window.ever { "" } else { " since the start" };
        let level = if spec.required { Level::Error } else { Level::Stale };
        return (level, format!("no message in {seconds:.1} s{since}"));
    }
    if !window.ever {
        return (Level::Ok, "waiting for the first message".to_owned());
    }
    let mut words = Vec::new();
    if trouble(spec, window) == Some(Trouble::Lossy) {
        words.push(lossy(spec, window));
    }
    words
        .extend(window.dropped.iter().map(|(reason, n)| format!("{n} dropped: {}", reason.name())));
    if window.missing > 0 {
        words.push(format!("{} missing by their stamps' period", window.missing));
    }
    if window.queue_full > 0 {
        words.push(format!("the middleware's queue was full {} times", window.queue_full));
    }
    if let Some(valid) = window.valid_share.filter(|share| *share < 1.0) {
        words.push(format!("{:.1} % of the steps invalid", (1.0 - valid) * 100.0));
    }
    match words.is_empty() {
        true => (Level::Ok, format!("{:.1} Hz", window.rate_hz)),
        false => (Level::Warn, words.join("; ")),
    }
}

fn lossy(spec: &StreamSpec, window: &StreamWindow) -> String {
    match (spec.expected_rate_hz, window.missing_share) {
        (Some(expected), _) => format!("{:.1} Hz instead of {expected} Hz", window.rate_hz),
        (None, share) => {
            let percent = share.unwrap_or(0.0) * 100.0;
            format!("{percent:.0} % of the published messages do not arrive")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream() -> StreamSpec {
        let config = "
rate_hz: 100
streams: {wrench: {type: geometry_msgs/WrenchStamped, topic: /wrench, max_age_ms: 50}}
";
        crate::config::parse(config, "test.yaml").unwrap().streams.remove(0)
    }

    fn healthy() -> StreamWindow {
        StreamWindow { ever: true, rate_hz: 500.0, valid_share: Some(1.0), ..Default::default() }
    }

    #[test]
    fn a_healthy_stream_says_its_rate_and_a_new_one_waits() {
        assert_eq!(assess(&stream(), &healthy()), (Level::Ok, "500.0 Hz".into()));
        let (level, message) = assess(&stream(), &StreamWindow::default());
        assert_eq!((level, message.as_str()), (Level::Ok, "waiting for the first message"));
    }

    #[test]
    fn silence_is_stale_and_an_error_where_the_stream_is_required() {
        let silent = StreamWindow { silence: Duration::from_millis(3200), ..healthy() };
        assert_eq!(assess(&stream(), &silent), (Level::Stale, "no message in 3.2 s".into()));
        let required = StreamSpec { required: true, ..stream() };
        assert_eq!(assess(&required, &silent).0, Level::Error);
        let starting = StreamWindow { ever: false, ..silent.clone() };
        assert_eq!(trouble(&stream(), &starting), None);
        let slow = StreamSpec { expected_rate_hz: Some(0.1), ..stream() };
        assert_eq!(trouble(&slow, &silent), None);
    }

    #[test]
    fn a_slow_stream_is_silent_by_its_own_measure() {
        let silent = StreamWindow { silence: Duration::from_secs(12), ..healthy() };
        assert_eq!(trouble(&stream(), &silent), Some(Trouble::Silent));
        let slow = StreamWindow { usual: Some(Duration::from_secs(10)), ..silent };
        assert_eq!(trouble(&stream(), &slow), None);
        let gone = StreamWindow { silence: Duration::from_secs(31), ..slow };
        assert_eq!(trouble(&stream(), &gone), Some(Trouble::Silent));
    }

    #[test]
    fn a_clock_that_stands_is_stale_and_ticks_that_nobody_serves_are_an_error() {
        let fine = TickWindow { rate_hz: 99.96, p99_ms: "1.200".into(), ..Default::default() };
        assert_eq!(assess_ticks(&fine), (Level::Ok, "100.0 Hz, latency p99 1.200 ms".into()));
        let on = |seen| TickWindow { sim_clock: Some(seen), ..fine.clone() };
        assert_eq!(assess_ticks(&on(SimClockSeen::Never)).0, Level::Stale);
        let pause = |s| assess_ticks(&on(SimClockSeen::Stands(Duration::from_secs(s))));
        assert_eq!(pause(2).0, Level::Ok);
        let (level, words) = pause(4);
        assert_eq!(level, Level::Stale);
        assert!(words.starts_with("/clock has stood still for 4.0 s"), "{words}");
        let stuck = assess_ticks(&TickWindow { unserved: 200, ..fine.clone() });
        assert_eq!(stuck, (Level::Error, "200 ticks due since the last one served".into()));
        assert_eq!(assess_ticks(&TickWindow { unserved: 2, ..fine.clone() }).0, Level::Ok);
        let held_back = TickWindow { held_back: 4, held_back_by: "arm".into(), ..fine };
        assert_eq!(assess_ticks(&held_back), (Level::Error, "4 held back by 'arm'".into()));
        let now_and_then = TickWindow { published: 1, ..held_back };
        assert_eq!(assess_ticks(&now_and_then).0, Level::Warn);
    }

    #[test]
    fn losses_are_named() {
        let window = StreamWindow {
            dropped: vec![(DropReason::Late, 42)],
            queue_full: 2,
            missing: 3,
            valid_share: Some(0.875),
            ..healthy()
        };
        let (level, message) = assess(&stream(), &window);
        assert_eq!(level, Level::Warn);
        assert_eq!(
            message,
            "42 dropped: late; 3 missing by their stamps' period; the middleware's queue was full 2 \
             times; 12.5 % of the steps invalid"
        );
    }

    #[test]
    fn a_stream_far_under_its_rate_is_lossy() {
        let expecting = StreamSpec { expected_rate_hz: Some(500.0), ..stream() };
        let window = StreamWindow { rate_hz: 130.0, ..healthy() };
        assert_eq!(trouble(&expecting, &window), Some(Trouble::Lossy));
        assert_eq!(assess(&expecting, &window).1, "130.0 Hz instead of 500 Hz");
        assert_eq!(trouble(&stream(), &window), None);
        let missing = StreamWindow { missing_share: Some(0.73), ..window };
        let message = assess(&stream(), &missing).1;
        assert_eq!(message, "73 % of the published messages do not arrive");
    }
}
