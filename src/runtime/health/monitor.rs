//! Once per diagnostics period, reads the counters, makes a report and logs what is new.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::assess::{self, InputWindow, Level, SimClockSeen, TickWindow, Trouble};
use super::latency::{Quantiles, WindowReader};
use super::notices::Notices;
use super::publishers;
use super::report::{self, InputPart, Report, Status, StreamPart, milliseconds};
use super::totals::{InputTotals, StreamTotals, TickTotals};
use crate::backend::GpuUse;
use crate::runtime::Runtime;
use crate::spec::{InputId, StreamId};
use crate::sync::lock;

/// An input is reported as lossy after this many lossy windows in a row. A single one may be a
/// start or a short delay.
const LOSSY_WINDOWS: u32 = 3;
/// A group without a row is logged after this many windows in a row: publishers start one after
/// the other.
const ABSENT_WINDOWS: u32 = 3;
/// The tick thread counts as stuck only if it serves nothing for longer than this.
const HICCUP: Duration = Duration::from_millis(500);

/// Texts from the middleware, for reports.
pub struct Names {
    /// Full topic names, by [`InputId`].
    pub topics: Vec<String>,
    /// A sentence that says what to do if the middleware loses large messages.
    pub remedy: String,
}

/// The last reading at which the tick thread had served another tick.
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
    runtime: Arc<Runtime>,
    names: Names,
    window_start: Instant,
    latency: WindowReader,
    /// Counters of the ticks at the end of the last window.
    ticks: TickTotals,
    /// Counters of the inputs at the end of the last window, by [`InputId`].
    inputs: Vec<InputTotals>,
    /// Counters of the streams at the end of the last window, by [`StreamId`].
    streams: Vec<StreamTotals>,
    /// Lossy windows in a row, by [`InputId`].
    lossy: Vec<u32>,
    /// Windows in a row in which a group had no row, by [`StreamId`].
    absent: Vec<u32>,
    notices: Notices,
    progress: Option<Progress>,
}

impl Monitor {
    /// Starts the first window.
    pub fn new(runtime: Arc<Runtime>, names: Names) -> Self {
        let now = Instant::now();
        let (inputs, streams) = (runtime.inputs().count(), runtime.streams().count());
        Monitor {
            runtime,
            names,
            window_start: now,
            latency: WindowReader::default(),
            ticks: TickTotals::default(),
            inputs: vec![InputTotals::default(); inputs],
            streams: vec![StreamTotals::default(); streams],
            lossy: vec![0; inputs],
            absent: vec![0; streams],
            notices: Notices::new(now, inputs),
            progress: None,
        }
    }

    /// Ends a window: logs what is new and returns the report.
    pub fn report(&mut self) -> Report {
        let runtime = Arc::clone(&self.runtime);
        let now = Instant::now();
        let seconds = now.duration_since(self.window_start).as_secs_f64().max(1e-3);
        self.window_start = now;
        let mut parts = vec![self.tick_status(now, seconds)];
        for stream in runtime.streams() {
            self.stream_statuses(stream, now, seconds, &mut parts);
        }
        for input in runtime.inputs_of(None) {
            parts.push(self.input_status(input, None, now, seconds));
        }
        self.notices.losses(now, &runtime.pipeline.config().inputs, &self.inputs);
        Report { stamp: runtime.clock.now().map(|now| now.stamp), parts }
    }

    fn tick_status(&mut self, now: Instant, seconds: f64) -> Status {
        let totals = TickTotals::read(&self.runtime);
        let latency = self.latency.read(&self.runtime.ticks.latency);
        let window = self.tick_window(now, seconds, totals, latency.0);
        self.ticks = totals;
        self.notices.clock(now, window.sim_clock);
        let (mut level, mut message) = assess::assess_ticks(&window);
        if let GpuUse::Left { reason } = self.runtime.pipeline.gpu() {
            level = level.max(Level::Warn);
            message = format!("{message}; the GPU was left: {reason}");
        }
        let values = report::tick_values(&self.runtime, &window, &totals, latency);
        Status { part: "tick".to_owned(), level, message, values }
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
        let by = self.runtime.ticks.held_back_by.load(Ordering::Relaxed);
        let clock = &self.runtime.clock;
        let stands = || clock.stands().map_or(SimClockSeen::Never, SimClockSeen::Stands);
        let sim_clock = clock.is_simulated().then(stands);
        TickWindow {
            sim_clock,
            rate_hz: published as f64 / seconds,
            published,
            held_back: totals.held_back - before.held_back,
            held_back_by: self.runtime.stream_spec(StreamId::new(by)).name.clone(),
            overruns: totals.overruns - before.overruns,
            clock_jumps: totals.clock_jumps - before.clock_jumps,
            publish_failed: totals.publish_failed - before.publish_failed,
            unserved: self.unserved(now, totals),
            p99_ms: milliseconds(latency.p99_ns),
        }
    }

    /// Returns how many ticks became due since the last window in which one was served.
    fn unserved(&mut self, now: Instant, totals: TickTotals) -> i64 {
        let Some(reading) = self.runtime.clock.now() else { return 0 };
        let tick = self.runtime.pipeline.config().grid.tick_at(reading.stamp);
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

    /// Adds the status of a stream and, if it has several inputs, the status of each input.
    fn stream_statuses(
        &mut self,
        stream: StreamId,
        now: Instant,
        seconds: f64,
        parts: &mut Vec<Status>,
    ) {
        let runtime = Arc::clone(&self.runtime);
        let after = StreamTotals::read(&runtime, stream);
        let before = std::mem::replace(&mut self.streams[stream.index()], after);
        let part = StreamPart { id: stream, valid_share: after.valid_share_since(&before) };
        let absent = self.absent_groups(stream);
        let first = parts.len();
        let inputs: Vec<_> = runtime.inputs_of(Some(stream)).collect();
        if let [input] = inputs[..] {
            parts.push(self.input_status(input, Some(&part), now, seconds));
        } else {
            self.joined_statuses(&part, &inputs, (now, seconds), parts);
        }
        if let Some(absent) = absent {
            let status = &mut parts[first];
            status.level = status.level.max(Level::Warn);
            status.message = format!("{}; {absent}", status.message);
        }
    }

    /// Says which groups of a stream have no row while others have; logs it once if it lasts.
    fn absent_groups(&mut self, stream: StreamId) -> Option<String> {
        let groups = self.runtime.pipeline.groups_without_rows(stream);
        let windows = &mut self.absent[stream.index()];
        *windows = if groups.is_empty() { 0 } else { *windows + 1 };
        if groups.is_empty() {
            return None;
        }
        let groups: Vec<_> = groups.iter().map(|channels| channels.join(", ")).collect();
        let words = format!("no message so far gave all of: {}", groups.join("; "));
        if *windows == ABSENT_WINDOWS {
            let name = &self.runtime.stream_spec(stream).name;
            tracing::warn!("stream '{name}': no step is valid: {words}");
        }
        Some(words)
    }

    /// Adds the status of a stream with several inputs, and that of each input.
    fn joined_statuses(
        &mut self,
        part: &StreamPart,
        inputs: &[InputId],
        (now, seconds): (Instant, f64),
        parts: &mut Vec<Status>,
    ) {
        let runtime = Arc::clone(&self.runtime);
        let of_inputs: Vec<_> =
            inputs.iter().map(|input| self.input_status(*input, None, now, seconds)).collect();
        let levels: Vec<_> = of_inputs.iter().map(|status| status.level).collect();
        let (level, message) = assess::assess_joined(&levels, part.valid_share);
        let mut values = report::values(&runtime, Some(part), None);
        values.extend(report::sums(&runtime, inputs));
        let name = runtime.stream_spec(part.id).name.clone();
        parts.push(Status { part: name, level, message, values });
        parts.extend(of_inputs);
    }

    /// Returns the status of an input. If it is the only input of its stream, `alone` is the
    /// stream, and the status is that of both.
    fn input_status(
        &mut self,
        input: InputId,
        alone: Option<&StreamPart>,
        now: Instant,
        seconds: f64,
    ) -> Status {
        let runtime = Arc::clone(&self.runtime);
        let spec = runtime.input_spec(input);
        let stream = spec.stream.map(|stream| runtime.stream_spec(stream));
        let valid_share = alone.and_then(|stream| stream.valid_share);
        let refused = lock(&runtime.input(input).publishers)
            .as_deref()
            .and_then(|seen| publishers::refused(spec, seen));
        let window = self.input_window(input, now, seconds);
        let window = InputWindow { refused, valid_share, ..window };
        let required = stream.is_some_and(|stream| stream.required);
        let (level, mut message) = assess::assess(spec, required, &window);
        let trouble = self.lasting_trouble(input, assess::trouble(spec, &window));
        let topic = &self.names.topics[input.index()];
        let why = trouble.map(|trouble| {
            let seen = lock(&runtime.input(input).publishers);
            publishers::explain(trouble, spec, (topic, &self.names.remedy), seen.as_deref())
        });
        self.notices.refused((input, &spec.name, topic), window.refused.as_deref());
        self.notices.trouble((input, &spec.name, topic), &message, why.clone());
        if let Some(why) = why {
            message = format!("{message}; {why}");
        }
        let name = stream.map_or(&spec.name, |stream| &stream.name);
        let part = if alone.is_some() { name.clone() } else { format!("{name} {topic}") };
        let totals = &self.inputs[input.index()];
        let shown = InputPart { id: input, topic, window: &window, totals };
        Status { part, level, message, values: report::values(&runtime, alone, Some(&shown)) }
    }

    /// Returns the trouble, but not if the input was lossy for only one or two windows.
    fn lasting_trouble(&mut self, input: InputId, trouble: Option<Trouble>) -> Option<Trouble> {
        let lossy = &mut self.lossy[input.index()];
        *lossy = if trouble == Some(Trouble::Lossy) { *lossy + 1 } else { 0 };
        trouble.filter(|_| !(1..LOSSY_WINDOWS).contains(lossy))
    }

    fn input_window(&mut self, input: InputId, now: Instant, seconds: f64) -> InputWindow {
        let arrivals = lock(&self.runtime.input(input).arrivals);
        let after = InputTotals::read(&self.runtime, input, &arrivals);
        let before = std::mem::replace(&mut self.inputs[input.index()], after);
        let (ever, silence) = arrivals.silence(now);
        let received = after.received - before.received;
        let lost = after.lost_since(&before);
        let exact_share = |lost: u64| lost as f64 / (lost + received).max(1) as f64;
        InputWindow {
            ever,
            silence,
            rate_hz: received as f64 / seconds,
            dropped: after.drops_since(&before),
            parts_dropped: after.parts_dropped_since(&before),
            groups_incomplete: after.groups_incomplete - before.groups_incomplete,
            queue_full: after.queue_full - before.queue_full,
            lost: lost.unwrap_or(0),
            missing: after.missing_since(&before),
            take_failed: after.take_failed - before.take_failed,
            refused: None,
            valid_share: None,
            missing_share: lost.map(exact_share).or_else(|| arrivals.missing_share()),
            usual: arrivals.usual_interval(),
        }
    }
}
