//! Once per diagnostics period: windows over the counters, `/diagnostics`, and the log lines that
//! must come once or seldom.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use r2r::Publisher;
use r2r::diagnostic_msgs::msg::{DiagnosticArray, DiagnosticStatus, KeyValue};
use r2r::std_msgs::msg::Header;

use super::health::{self, Level, StreamWindow, Trouble};
use super::latency::{Quantiles, WindowReader};
use super::shared::{Shared, lock};
use crate::align::NO_AGE;
use crate::stats::DropReason;
use crate::time::Stamp;

/// Between two log lines that sum up drops.
const SUMMARY_PERIOD: Duration = Duration::from_secs(10);
/// Windows in a row in which too little comes before it is said: one may be a start or a hiccup.
const LOSSY_WINDOWS: u32 = 3;
/// Without a clock for this long, it is said.
const CLOCK_PATIENCE: Duration = Duration::from_secs(3);

/// Names that the diagnostics show.
pub struct Names {
    /// The node's fully qualified name.
    pub node: String,
    /// Full topic names by stream index.
    pub topics: Vec<String>,
    /// Name of the backend.
    pub backend: &'static str,
}

/// Counters at the end of the window before.
#[derive(Clone, Copy, Default)]
struct StreamBefore {
    received: u64,
    steps: u64,
    steps_valid: u64,
    queue_full: u64,
    missing: u64,
    dropped: [u64; DropReason::ALL.len()],
    /// Windows in a row that were lossy.
    lossy: u32,
}

#[derive(Clone, Copy, Default)]
struct TicksBefore {
    published: u64,
    held_back: u64,
    overruns: u64,
    clock_jumps: u64,
    publish_failed: u64,
}

/// Watches the counters.
pub struct Monitor {
    shared: Arc<Shared>,
    names: Names,
    publisher: Publisher<DiagnosticArray>,
    started: Instant,
    window_start: Instant,
    latency: WindowReader,
    ticks: TicksBefore,
    streams: Vec<StreamBefore>,
    /// By stream: the reason for trouble that has been logged, while it lasts.
    said: Vec<Option<String>>,
    summary: Summary,
    clock_missed: bool,
}

/// Drops since the last log line about them, all streams together.
struct Summary {
    next: Instant,
    at: Vec<StreamBefore>,
}

impl Monitor {
    /// Starts the first window.
    pub fn new(shared: Arc<Shared>, names: Names, publisher: Publisher<DiagnosticArray>) -> Self {
        let now = Instant::now();
        let streams = shared.streams.len();
        Monitor {
            shared,
            names,
            publisher,
            started: now,
            window_start: now,
            latency: WindowReader::default(),
            ticks: TicksBefore::default(),
            streams: vec![StreamBefore::default(); streams],
            said: vec![None; streams],
            summary: Summary { next: now, at: vec![StreamBefore::default(); streams] },
            clock_missed: false,
        }
    }

    /// Ends a window: logs what must be said and publishes the diagnostics.
    pub fn report(&mut self) {
        let now = Instant::now();
        let seconds = now.duration_since(self.window_start).as_secs_f64().max(1e-3);
        self.window_start = now;
        let mut status = vec![self.tick_status(now, seconds)];
        for stream in 0..self.streams.len() {
            status.push(self.stream_status(stream, now, seconds));
        }
        self.log_summary(now);
        let stamp = self.shared.clock.now().map_or(Stamp::ZERO, |now| now.stamp);
        let header = Header { stamp: time_message(stamp), ..Default::default() };
        if let Err(error) = self.publisher.publish(&DiagnosticArray { header, status }) {
            tracing::debug!("diagnostics could not be published: {error}");
        }
    }

    fn status(&self, part: &str, (level, message): (Level, String)) -> DiagnosticStatus {
        DiagnosticStatus {
            level: level as u8,
            name: format!("{}: {part}", self.names.node),
            message,
            hardware_id: "robocache".to_owned(),
            values: vec![],
        }
    }

    fn tick_status(&mut self, now: Instant, seconds: f64) -> DiagnosticStatus {
        let shared = Arc::clone(&self.shared);
        let ticks = &shared.ticks;
        let totals = TicksBefore {
            published: ticks.published.get(),
            held_back: ticks.held_back.get(),
            overruns: ticks.overruns.get(),
            clock_jumps: ticks.clock_jumps.get(),
            publish_failed: ticks.publish_failed.get(),
        };
        let before = std::mem::replace(&mut self.ticks, totals);
        let (window, total) = self.latency.read(&ticks.latency);
        let rate_hz = (totals.published - before.published) as f64 / seconds;
        let assessed = self.assess_ticks(now, rate_hz, before, totals, window);
        let mut status = self.status("tick", assessed);
        let newest = ticks.newest.load(Ordering::Relaxed);
        status.values = vec![
            pair("backend", self.names.backend),
            pair("rate_hz", shared.pipeline.config().rate_hz),
            pair("published_hz", format!("{rate_hz:.2}")),
            pair("published", totals.published),
            pair("held_back", totals.held_back),
            pair("overruns", totals.overruns),
            pair("clock_jumps", totals.clock_jumps),
            pair("publish_failed", totals.publish_failed),
            pair("latency_p50_ms", milliseconds(window.p50_ns)),
            pair("latency_p99_ms", milliseconds(window.p99_ns)),
            pair("latency_max_ms", milliseconds(window.max_ns)),
            pair("total_latency_p50_ms", milliseconds(total.p50_ns)),
            pair("total_latency_p99_ms", milliseconds(total.p99_ns)),
            pair("total_latency_max_ms", milliseconds(total.max_ns)),
            pair("tick", newest),
        ];
        status
    }

    fn assess_ticks(
        &mut self,
        now: Instant,
        rate_hz: f64,
        before: TicksBefore,
        totals: TicksBefore,
        window: Quantiles,
    ) -> (Level, String) {
        if self.shared.clock.now().is_none() {
            if now.duration_since(self.started) > CLOCK_PATIENCE && !self.clock_missed {
                self.clock_missed = true;
                tracing::warn!("use_sim_time is set and nothing comes on /clock: no ticks");
            }
            return (Level::Stale, "no message on /clock yet: no ticks".to_owned());
        }
        let mut words = Vec::new();
        let mut count = |n: u64, what: String| {
            if n > 0 {
                words.push(format!("{n} {what}"));
            }
        };
        let by = self.shared.ticks.held_back_by.load(Ordering::Relaxed);
        let held_back = totals.held_back - before.held_back;
        count(held_back, format!("held back by '{}'", self.shared.spec(by).name));
        count(totals.overruns - before.overruns, "overruns".to_owned());
        count(totals.clock_jumps - before.clock_jumps, "clock jumps".to_owned());
        let failed = totals.publish_failed - before.publish_failed;
        count(failed, "refused by the middleware".to_owned());
        let nothing = totals.published == before.published && held_back + failed > 0;
        match (words.is_empty(), nothing) {
            (true, _) => {
                let p99 = milliseconds(window.p99_ns);
                (Level::Ok, format!("{rate_hz:.1} Hz, latency p99 {p99} ms"))
            }
            (false, true) => (Level::Error, words.join("; ")),
            (false, false) => (Level::Warn, words.join("; ")),
        }
    }

    fn stream_status(&mut self, stream: usize, now: Instant, seconds: f64) -> DiagnosticStatus {
        let shared = Arc::clone(&self.shared);
        let spec = shared.spec(stream);
        let window = self.stream_window(stream, now, seconds);
        let (level, mut message) = health::assess(spec, &window);
        let trouble = self.lasting_trouble(stream, health::trouble(spec, &window));
        let why = trouble.map(|trouble| {
            let seen = lock(&shared.streams[stream].publishers);
            health::explain(trouble, spec, &self.names.topics[stream], seen.as_deref())
        });
        self.log_trouble(stream, &message, why.clone());
        if let Some(why) = why {
            message = format!("{message}; {why}");
        }
        let mut status = self.status(&spec.name, (level, message));
        status.values = self.stream_values(stream, &window);
        status
    }

    /// Trouble, without the hiccup of a window or two.
    fn lasting_trouble(&mut self, stream: usize, trouble: Option<Trouble>) -> Option<Trouble> {
        let lossy = &mut self.streams[stream].lossy;
        *lossy = if trouble == Some(Trouble::Lossy) { *lossy + 1 } else { 0 };
        trouble.filter(|_| !(1..LOSSY_WINDOWS).contains(lossy))
    }

    fn stream_window(&mut self, stream: usize, now: Instant, seconds: f64) -> StreamWindow {
        let state = &self.shared.streams[stream];
        let stats = self.shared.pipeline.stats(stream);
        let arrivals = lock(&state.arrivals);
        let before = self.streams[stream];
        let after = StreamBefore {
            received: stats.received.get(),
            steps: stats.steps.get(),
            steps_valid: stats.steps_valid.get(),
            queue_full: state.queue_full.get(),
            missing: arrivals.missing(),
            dropped: DropReason::ALL.map(|reason| stats.dropped(reason)),
            ..before
        };
        self.streams[stream] = after;
        let steps = after.steps - before.steps;
        let valid = after.steps_valid - before.steps_valid;
        let new_drops = |reason: DropReason| {
            let n = after.dropped[reason as usize] - before.dropped[reason as usize];
            (n > 0).then_some((reason, n))
        };
        let (ever, silence) = arrivals.silence(now);
        StreamWindow {
            ever,
            silence,
            rate_hz: (after.received - before.received) as f64 / seconds,
            dropped: DropReason::ALL.into_iter().filter_map(new_drops).collect(),
            queue_full: after.queue_full - before.queue_full,
            // Messages out of order take back what was counted before they came.
            missing: after.missing.saturating_sub(before.missing),
            valid_share: (steps > 0).then(|| valid as f64 / steps as f64),
            missing_share: arrivals.missing_share(),
        }
    }

    fn stream_values(&self, stream: usize, window: &StreamWindow) -> Vec<KeyValue> {
        let state = &self.shared.streams[stream];
        let stats = self.shared.pipeline.stats(stream);
        let age_ms = match state.age_ns.load(Ordering::Relaxed) {
            NO_AGE => String::new(),
            age => format!("{:.3}", age as f64 / 1e6),
        };
        let publishers = lock(&state.publishers).as_ref().map_or(0, Vec::len);
        let mut values = vec![
            pair("topic", &self.names.topics[stream]),
            pair("type", self.shared.spec(stream).source.ros_type()),
            pair("rate_hz", format!("{:.2}", window.rate_hz)),
            pair("age_ms", age_ms),
            pair("valid_share", window.valid_share.map_or(String::new(), |v| format!("{v:.4}"))),
            pair("received", stats.received.get()),
            pair("rows", stats.rows.get()),
            pair("dropped", stats.dropped_total()),
        ];
        for reason in DropReason::ALL {
            values.push(pair(&format!("dropped.{}", reason.name()), stats.dropped(reason)));
        }
        values.extend([
            pair("reordered", stats.reordered.get()),
            pair("replaced", stats.replaced.get()),
            pair("queue_full", state.queue_full.get()),
            pair("missing", self.streams[stream].missing),
            pair("points_non_finite", stats.points_non_finite.get()),
            pair("points_out_of_range", stats.points_out_of_range.get()),
            pair("points_outside", stats.points_outside.get()),
            pair("publishers", publishers),
        ]);
        values
    }

    /// Says once when a stream gets into trouble or the reason for it changes, and once when it is
    /// over.
    fn log_trouble(&mut self, stream: usize, what: &str, why: Option<String>) {
        if why == self.said[stream] {
            return;
        }
        let (name, topic) = (&self.shared.spec(stream).name, &self.names.topics[stream]);
        match &why {
            Some(why) => tracing::warn!("stream '{name}' ({topic}): {what}; {why}"),
            None => tracing::info!("stream '{name}' ({topic}) arrives again"),
        }
        self.said[stream] = why;
    }

    /// One line at most every 10 s for all drops and gaps since the one before.
    fn log_summary(&mut self, now: Instant) {
        if now < self.summary.next {
            return;
        }
        let mut lines = Vec::new();
        for (stream, (after, before)) in self.streams.iter().zip(&mut self.summary.at).enumerate() {
            let name = &self.shared.spec(stream).name;
            for reason in DropReason::ALL {
                let n = after.dropped[reason as usize] - before.dropped[reason as usize];
                if n > 0 {
                    lines.push(format!("{name}: {n} {}", reason.name()));
                }
            }
            if after.missing > before.missing {
                let n = after.missing - before.missing;
                lines.push(format!(
                    "{name}: {n} missing by their stamps' period (lost on the way, or never sent)"
                ));
            }
            if after.queue_full > before.queue_full {
                let n = after.queue_full - before.queue_full;
                lines.push(format!(
                    "{name}: the middleware's queue was full {n} times and may have lost \
                     messages; raise the stream's qos depth or give the node more of the processor"
                ));
            }
            *before = *after;
        }
        if !lines.is_empty() {
            tracing::warn!("dropped or missing messages: {}", lines.join(", "));
            self.summary.next = now + SUMMARY_PERIOD;
        }
    }
}

fn pair(key: &str, value: impl ToString) -> KeyValue {
    KeyValue { key: key.to_owned(), value: value.to_string() }
}

fn milliseconds(nanos: u64) -> String {
    format!("{:.3}", nanos as f64 / 1e6)
}

fn time_message(stamp: Stamp) -> r2r::builtin_interfaces::msg::Time {
    let (sec, nanosec) = stamp.to_sec_nanosec();
    r2r::builtin_interfaces::msg::Time { sec, nanosec }
}
