//! Once per diagnostics period: windows over the counters, `/diagnostics`, and log lines.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use r2r::Publisher;
use r2r::diagnostic_msgs::msg::{DiagnosticArray, DiagnosticStatus, KeyValue};
use r2r::std_msgs::msg::Header;

use super::clock::NodeClock;
use super::health::{self, Level, SimClockSeen, StreamWindow, TickWindow, Trouble};
use super::latency::{Quantiles, WindowReader};
use super::notices::Notices;
use super::publishers;
use super::shared::Shared;
use super::totals::{StreamTotals, TickTotals};
use crate::align::NO_AGE;
use crate::stats::DropReason;
use crate::sync::lock;
use crate::time::Stamp;

/// Windows in a row in which too little comes before it is said: one may be a start or a hiccup.
const LOSSY_WINDOWS: u32 = 3;
/// A tick thread that serves nothing for less is not said to be stuck.
const HICCUP: Duration = Duration::from_millis(500);

/// Names that the diagnostics show.
pub struct Names {
    /// The node's fully qualified name.
    pub node: String,
    /// Full topic names by stream index.
    pub topics: Vec<String>,
    /// Name of the backend.
    pub backend: &'static str,
}

/// The last look at which the tick thread had dealt with a tick since the look before.
#[derive(Clone, Copy)]
struct Progress {
    /// Ticks published, held back or refused.
    served: u64,
    /// The newest tick due.
    tick: i64,
    at: Instant,
}

/// Watches the counters.
pub struct Monitor {
    shared: Arc<Shared>,
    names: Names,
    publisher: Publisher<DiagnosticArray>,
    window_start: Instant,
    latency: WindowReader,
    /// At the end of the window before.
    ticks: TickTotals,
    /// Likewise, by stream.
    streams: Vec<StreamTotals>,
    /// By stream: windows in a row that were lossy.
    lossy: Vec<u32>,
    notices: Notices,
    progress: Option<Progress>,
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
            window_start: now,
            latency: WindowReader::default(),
            ticks: TickTotals::default(),
            streams: vec![StreamTotals::default(); streams],
            lossy: vec![0; streams],
            notices: Notices::new(now, streams),
            progress: None,
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
        self.notices.losses(now, &self.shared.pipeline.config().streams, &self.streams);
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
        let totals = TickTotals::read(&shared);
        let (latency, total) = self.latency.read(&ticks.latency);
        let window = self.tick_window(now, seconds, totals, latency);
        self.ticks = totals;
        self.notices.clock(now, window.sim_clock);
        let mut status = self.status("tick", health::assess_ticks(&window));
        status.values = vec![
            pair("backend", self.names.backend),
            pair("rate_hz", shared.pipeline.config().rate_hz),
            pair("published_hz", format!("{:.2}", window.rate_hz)),
            pair("published", totals.published),
            pair("held_back", totals.held_back),
            pair("overruns", totals.overruns),
            pair("clock_jumps", totals.clock_jumps),
            pair("publish_failed", totals.publish_failed),
            pair("latency_p50_ms", milliseconds(latency.p50_ns)),
            pair("latency_p99_ms", milliseconds(latency.p99_ns)),
            pair("latency_max_ms", milliseconds(latency.max_ns)),
            pair("total_latency_p50_ms", milliseconds(total.p50_ns)),
            pair("total_latency_p99_ms", milliseconds(total.p99_ns)),
            pair("total_latency_max_ms", milliseconds(total.max_ns)),
            pair("realtime_priority", ticks.priority.load(Ordering::Relaxed)),
            pair("tick", ticks.newest.load(Ordering::Relaxed)),
        ];
        status
    }

    fn tick_window(
        &mut self,
        now: Instant,
        seconds: f64,
        totals: TickTotals,
        latency: Quantiles,
    ) -> TickWindow {
        let before = self.ticks;
        let published = totals.published - before.published;
        let by = self.shared.ticks.held_back_by.load(Ordering::Relaxed);
        let sim_clock = match (&self.shared.clock, self.shared.clock.stands()) {
            (NodeClock::System, _) => None,
            (NodeClock::Sim(_), None) => Some(SimClockSeen::Never),
            (NodeClock::Sim(_), Some(time)) => Some(SimClockSeen::Stands(time)),
        };
        TickWindow {
            sim_clock,
            rate_hz: published as f64 / seconds,
            published,
            held_back: totals.held_back - before.held_back,
            held_back_by: self.shared.spec(by).name.clone(),
            overruns: totals.overruns - before.overruns,
            clock_jumps: totals.clock_jumps - before.clock_jumps,
            publish_failed: totals.publish_failed - before.publish_failed,
            unserved: self.unserved(now, totals),
            p99_ms: milliseconds(latency.p99_ns),
        }
    }

    /// Ticks that the clock has passed since the last window in which one was dealt with.
    fn unserved(&mut self, now: Instant, totals: TickTotals) -> i64 {
        let Some(reading) = self.shared.clock.now() else { return 0 };
        let tick = self.shared.pipeline.config().grid.tick_at(reading.stamp);
        let served = totals.served();
        let new = Progress { served, tick, at: now };
        let old = *self.progress.get_or_insert(new);
        if served != old.served || tick < old.tick {
            self.progress = Some(new);
            return 0;
        }
        match now.duration_since(old.at) > HICCUP {
            true => tick - old.tick,
            false => 0,
        }
    }

    fn stream_status(&mut self, stream: usize, now: Instant, seconds: f64) -> DiagnosticStatus {
        let shared = Arc::clone(&self.shared);
        let spec = shared.spec(stream);
        let window = self.stream_window(stream, now, seconds);
        let (level, mut message) = health::assess(spec, &window);
        let trouble = self.lasting_trouble(stream, health::trouble(spec, &window));
        let topic = &self.names.topics[stream];
        let why = trouble.map(|trouble| {
            let seen = lock(&shared.streams[stream].publishers);
            publishers::explain(trouble, spec, topic, seen.as_deref())
        });
        self.notices.trouble((stream, &spec.name, topic), &message, why.clone());
        if let Some(why) = why {
            message = format!("{message}; {why}");
        }
        let mut status = self.status(&spec.name, (level, message));
        status.values = self.stream_values(stream, &window);
        status
    }

    /// Trouble, without the hiccup of a window or two.
    fn lasting_trouble(&mut self, stream: usize, trouble: Option<Trouble>) -> Option<Trouble> {
        let lossy = &mut self.lossy[stream];
        *lossy = if trouble == Some(Trouble::Lossy) { *lossy + 1 } else { 0 };
        trouble.filter(|_| !(1..LOSSY_WINDOWS).contains(lossy))
    }

    fn stream_window(&mut self, stream: usize, now: Instant, seconds: f64) -> StreamWindow {
        let state = &self.shared.streams[stream];
        let arrivals = lock(&state.arrivals);
        let before = self.streams[stream];
        let after = StreamTotals::read(&self.shared, stream, &arrivals);
        self.streams[stream] = after;
        let steps = after.steps - before.steps;
        let valid = after.steps_valid - before.steps_valid;
        let (ever, silence) = arrivals.silence(now);
        StreamWindow {
            ever,
            silence,
            rate_hz: (after.received - before.received) as f64 / seconds,
            dropped: after.drops_since(&before),
            queue_full: after.queue_full - before.queue_full,
            // Messages out of order take back what was counted before they came.
            missing: after.missing.saturating_sub(before.missing),
            valid_share: (steps > 0).then(|| valid as f64 / steps as f64),
            missing_share: arrivals.missing_share(),
            usual: arrivals.usual_interval(),
        }
    }

    fn stream_values(&self, stream: usize, window: &StreamWindow) -> Vec<KeyValue> {
        let state = &self.shared.streams[stream];
        let stats = self.shared.pipeline.stats(stream);
        let totals = &self.streams[stream];
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
            pair("received", totals.received),
            pair("rows", stats.rows.get()),
            pair("dropped", stats.dropped_total()),
        ];
        for reason in DropReason::ALL {
            values.push(pair(&format!("dropped.{}", reason.name()), stats.dropped(reason)));
        }
        values.extend([
            pair("reordered", stats.reordered.get()),
            pair("replaced", stats.replaced.get()),
            pair("queue_full", totals.queue_full),
            pair("missing", totals.missing),
            pair("points_non_finite", stats.points_non_finite.get()),
            pair("points_out_of_range", stats.points_out_of_range.get()),
            pair("points_outside", stats.points_outside.get()),
            pair("publishers", publishers),
        ]);
        values
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
