//! Once per diagnostics period, reads the counters, makes a report and logs what is new.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::assess::{self, InputWindow, Level, SimClockSeen, TickWindow, Trouble};
use super::commands::CommandsSeen;
use super::holding;
use super::loops::{LoopSeen, LoopWindow};
use super::notices::Notices;
use super::publishers;
use super::report::{self, InputPart, Report, Status, StreamPart, milliseconds};
use super::totals::{InputTotals, StreamTotals, TickTotals};
use crate::measure::{DropDetails, RateMeter};
use crate::{Commands, Runtime, TickStats};
use robocache_core::backend::GpuUse;
use robocache_core::config::suggestion;
use robocache_core::histogram::{Quantiles, WindowReader};
use robocache_core::rejected::DropReason;
use robocache_core::spec::{GroupSpec, InputId, StreamId};
use robocache_ops::sync::lock;

/// An input is reported as lossy after this many lossy windows in a row. A single one may be a
/// start or a short delay.
const LOSSY_WINDOWS: u32 = 3;
/// Messages that waited while the process stood still come within this time.
const BACKLOG: Duration = Duration::from_secs(2);
/// How long after a standstill an input may miss messages because the process and the publishers find each other again.
/// The middleware may take several seconds for that.
const REUNION: Duration = Duration::from_secs(10);

/// Texts from the middleware, for reports.
pub struct Names {
    /// Full topic names, by [`InputId`].
    pub topics: Vec<String>,
    /// The name of the middleware.
    pub middleware: String,
    /// A sentence that says what to do if the middleware loses large messages.
    pub remedy: String,
}

/// Watches the counters.
pub struct Monitor {
    pub(super) runtime: Arc<Runtime>,
    names: Names,
    started: Instant,
    latency: WindowReader,
    fused: WindowReader,
    /// By their places in [`Runtime::loops`].
    loops: Vec<LoopSeen>,
    commands: CommandsSeen,
    /// The rate at which tensors are published, or would be if somebody took them.
    made: RateMeter,
    /// Counters of the ticks at the end of the last window.
    ticks: TickTotals,
    /// By [`InputId`].
    pub(super) inputs: Vec<InputSeen>,
    /// By [`StreamId`].
    pub(super) streams: Vec<StreamSeen>,
    pub(super) notices: Notices,
    /// The newest standstill of the process, until what it left is reported.
    pub(super) stood_still: Option<Standstill>,
}

/// A standstill of the process.
pub(super) struct Standstill {
    ended: Instant,
    time: Duration,
    /// True if a window has ended [`BACKLOG`] after it.
    is_reported: bool,
}

/// Memory of the monitor about an input.
#[derive(Default)]
pub(super) struct InputSeen {
    /// Its counters at the end of the last window.
    totals: InputTotals,
    rate: RateMeter,
    delay: WindowReader,
    ready: WindowReader,
    /// The last window.
    pub(super) window: InputWindow,
    /// Lossy windows in a row.
    lossy: u32,
}

/// Memory of the monitor about a stream.
#[derive(Default)]
pub(super) struct StreamSeen {
    /// Its counters at the end of the last window.
    pub(super) totals: StreamTotals,
    /// Windows in a row in which a group had no row.
    pub(super) absent: u32,
}

impl Monitor {
    /// Starts the first window.
    pub fn new(runtime: Arc<Runtime>, names: Names) -> Self {
        let now = runtime.time.monotonic();
        let inputs = runtime.inputs().count();
        let streams = runtime.streams().count();
        let loops = runtime.loops().map(|_| LoopSeen::default()).collect();
        Monitor {
            runtime,
            names,
            started: now,
            latency: WindowReader::default(),
            fused: WindowReader::default(),
            loops,
            commands: CommandsSeen::default(),
            made: RateMeter::default(),
            ticks: TickTotals::default(),
            inputs: (0..inputs).map(|_| InputSeen::default()).collect(),
            streams: (0..streams).map(|_| StreamSeen::default()).collect(),
            notices: Notices::new(now, inputs, streams),
            stood_still: None,
        }
    }

    /// Notes that the process stood still for this long, until now. The windows with the standstill and its
    /// backlog say nothing about the sensors: their rates, their delays and the lag that would do.
    pub fn stood_still(&mut self, time: Duration) {
        let ended = self.runtime.time.monotonic();
        self.stood_still = Some(Standstill { ended, time, is_reported: false });
    }

    /// Logs which streams hold ticks back since the last call, and when tensors are published again: the tick thread must
    /// not log. [`report`](Self::report) does it too. A caller that wants the lines at once calls this several times a second.
    pub fn log_held_back(&self) {
        holding::log(&self.runtime);
    }

    /// If this window has a part of a standstill, says that in place of all that the window shows. So it does if an input
    /// is in trouble soon after: the publishers may have given the process up, and must find it again.
    fn excuse(&mut self, now: Instant, parts: &mut [Status]) {
        let Some(standstill) = &mut self.stood_still else { return };
        let passed = now.duration_since(standstill.ended);
        let time = standstill.time;
        let was_reported = standstill.is_reported;
        standstill.is_reported |= passed >= BACKLOG;
        if was_reported && passed >= REUNION {
            self.stood_still = None;
            return;
        }
        if was_reported && !self.is_in_trouble() {
            return;
        }
        let seconds = time.as_secs_f64();
        for part in parts {
            part.level = Level::Warn;
            part.message = format!("the node's process stood still for {seconds:.1} s");
        }
        let at = now.duration_since(self.started);
        for input in &mut self.inputs {
            input.delay.restart(at);
            input.ready.restart(at);
            input.lossy = 0;
        }
    }

    /// True if an input was in trouble in its last window.
    fn is_in_trouble(&self) -> bool {
        let specs = self.runtime.pipeline.config().inputs.iter();
        specs.zip(&self.inputs).any(|(spec, seen)| assess::trouble(spec, &seen.window).is_some())
    }

    /// Ends a window: logs what is new and returns the report.
    pub fn report(&mut self) -> Report {
        self.log_held_back();
        let runtime = Arc::clone(&self.runtime);
        // First: the counters then have all that the node did until this stamp.
        let stamp = runtime.clock.now().map(|now| now.stamp);
        let now = runtime.time.monotonic();
        let mut parts = self.loop_statuses(now);
        let other_loops = parts.split_off(1);
        for stream in runtime.streams() {
            self.stream_statuses(stream, now, &mut parts);
        }
        for input in runtime.inputs_of(None) {
            self.end_window(input);
            parts.push(self.input_status(input, None));
        }
        parts.extend(other_loops);
        self.excuse(now, &mut parts);
        parts.extend(
            runtime.recorder.as_ref().map(|recorder| report::recording(&recorder.status())),
        );
        if let Some(tree) = runtime.pipeline.tree() {
            self.notices.frames(&tree.forgotten);
        }
        let totals = self.inputs.iter().map(|input| &input.totals);
        self.notices.losses(now, runtime.pipeline.config().inputs.iter().zip(totals));
        Report { stamp, parts }
    }

    /// Ends the windows of the loops. The ticks come first.
    fn loop_statuses(&mut self, now: Instant) -> Vec<Status> {
        let runtime = Arc::clone(&self.runtime);
        let since = now.duration_since(self.started);
        let totals = TickTotals::read(&runtime);
        let reading = runtime.clock.now();
        let mut statuses = Vec::new();
        for (k, (name, grid, stats)) in runtime.loops().enumerate() {
            let is_tick = name == TickStats::THREAD;
            // `Runtime::direct` serves ticks without the loop.
            let served = if is_tick { totals.served() } else { stats.served.get() };
            let due = reading.map(|reading| grid.tick_at(reading.stamp));
            let unserved = self.loops[k].unserved(now, due, served);
            let window = self.loops[k].read(stats, since, unserved);
            statuses.push(match is_tick {
                true => self.tick_status(now, totals, window),
                false => match &runtime.commands {
                    Some(commands) if name == Commands::THREAD => {
                        let sim_clock = self.sim_clock();
                        let stream = |group: &GroupSpec| {
                            runtime.stream_spec(group.start_from.stream).name.clone()
                        };
                        self.commands.status(commands, &window, sim_clock, since, stream)
                    }
                    _ => report::of_loop(name, &window, self.sim_clock()),
                },
            });
        }
        statuses
    }

    /// State of a simulator's clock; `None` for other clocks.
    fn sim_clock(&self) -> Option<SimClockSeen> {
        let clock = &self.runtime.clock;
        let seen = || clock.stalled_for().map_or(SimClockSeen::Never, SimClockSeen::Stands);
        clock.is_simulated().then(seen)
    }

    fn tick_status(&mut self, now: Instant, totals: TickTotals, grid: LoopWindow) -> Status {
        let ticks = &self.runtime.ticks;
        let since = now.duration_since(self.started);
        let latency = self.latency.read(ticks.latency.histogram(), since);
        let fused = self.fused.read(ticks.fused.histogram(), since).total;
        let window = self.tick_window(totals, latency.window, grid);
        self.ticks = totals;
        self.notices.clock(now, window.sim_clock);
        self.notices.clock_publishers(now, publishers::several(&window.clock_publishers));
        let (mut level, mut message) = assess::assess_ticks(&window);
        if let GpuUse::Left { reason } = self.runtime.pipeline.gpu() {
            level = level.max(Level::Warn);
            message = format!("{message}; the GPU was left: {reason}");
        }
        if window.held_back > 0 {
            let by = StreamId::new(self.runtime.ticks.held_back_by.load(Ordering::Relaxed));
            let why = holding::why_not_valid(&self.runtime, by);
            message = why.map_or(message.clone(), |why| format!("{message}; {why}"));
        }
        let mut values = report::tick_values(&self.runtime, &window, &totals, latency, fused);
        values.insert(0, ("middleware".to_owned(), self.names.middleware.clone()));
        Status { part: "tick".to_owned(), level, message, values }
    }

    fn tick_window(
        &mut self,
        totals: TickTotals,
        latency: Quantiles,
        grid: LoopWindow,
    ) -> TickWindow {
        let before = self.ticks;
        let published = totals.published - before.published;
        let by = self.runtime.ticks.held_back_by.load(Ordering::Relaxed);
        let clock_publishers = lock(&self.runtime.clock_publishers).clone();
        let made = totals.published + totals.unread;
        let rate = self.made.read(self.runtime.node_time.now(), made);
        TickWindow {
            sim_clock: self.sim_clock(),
            clock_publishers,
            rate_hz: rate.hz,
            published,
            unread: totals.unread - before.unread,
            held_back: totals.held_back - before.held_back,
            held_back_by: self.runtime.stream_spec(StreamId::new(by)).name.clone(),
            grid,
            clock_jumps: totals.clock_jumps - before.clock_jumps,
            unsent: totals.unsent - before.unsent,
            publish_failed: totals.publish_failed - before.publish_failed,
            p99_ms: milliseconds(latency.p99_ns),
        }
    }

    /// Returns the status of an input, whose window has ended. If it is the only input of its stream, `alone` is the
    /// stream, and the status is that of both.
    pub(super) fn input_status(&mut self, input: InputId, alone: Option<&StreamPart>) -> Status {
        let runtime = Arc::clone(&self.runtime);
        let spec = runtime.input_spec(input);
        let stream = spec.stream.map(|stream| runtime.stream_spec(stream));
        let valid_share = alone.and_then(|stream| stream.valid_share);
        let seen = lock(&runtime.input(input).publishers).clone();
        let refused = seen.as_deref().and_then(|seen| publishers::refused(spec, seen));
        let window = self.inputs[input.index()].window.clone();
        let window = InputWindow { refused, valid_share, ..window };
        let required = stream.is_some_and(|stream| stream.required);
        let (mut level, mut message) = assess::assess(spec, required, &window);
        if let Some(words) = runtime.left_out(input) {
            level = level.max(Level::Warn);
            message = format!("{message}; {words}");
        }
        let trouble = assess::trouble(spec, &window);
        let trouble = self.lasting_trouble(input, trouble, window.rate.fresh);
        let topic = &self.names.topics[input.index()];
        let why = trouble.map(|trouble| {
            let heard = window.ever;
            publishers::explain(trouble, heard, spec, topic, &self.names.remedy, seen.as_deref())
        });
        let nowhere = !window.ever && seen.as_ref().is_some_and(Vec::is_empty);
        let near = why.as_ref().filter(|_| nowhere).and_then(|_| self.near_topic(input));
        let near = near.map_or(String::new(), |words| format!("; {words}"));
        let seen = seen.unwrap_or_default();
        // What a standstill of the process left is no trouble of the sensor.
        if self.stood_still.is_none()
            && self.notices.may_name(self.runtime.time.monotonic(), input, &seen)
        {
            self.notices.refused(input, &spec.name, topic, window.refused.as_deref());
            let said = window.refused.is_some() && publishers::all_refused(spec, &seen);
            let untold = why.clone().filter(|_| !said);
            self.notices.trouble(input, &spec.name, topic, &message, untold, &near);
        }
        if let Some(why) = why {
            message = format!("{message}; {why}{near}");
        }
        let name = stream.map_or(&spec.name, |stream| &stream.name);
        let part = if alone.is_some() { name.clone() } else { format!("{name} {topic}") };
        let totals = &self.inputs[input.index()].totals;
        let shown = InputPart { id: input, topic, window: &window, totals };
        Status { part, level, message, values: report::values(&runtime, alone, Some(&shown)) }
    }

    /// Returns the trouble, but not if the input was lossy for only one or two windows. If the
    /// window is not `fresh`, too little of the node's time has passed to judge it.
    fn lasting_trouble(
        &mut self,
        input: InputId,
        trouble: Option<Trouble>,
        fresh: bool,
    ) -> Option<Trouble> {
        let lossy = &mut self.inputs[input.index()].lossy;
        match trouble {
            Some(Trouble::Lossy | Trouble::Stopped) => *lossy += u32::from(fresh),
            _ => *lossy = 0,
        }
        trouble.filter(|trouble| *trouble == Trouble::Silent || *lossy >= LOSSY_WINDOWS)
    }

    /// Says which topic was probably meant, or which topics have the input's type; `None` if there is none.
    pub(super) fn near_topic(&self, input: InputId) -> Option<String> {
        let ros_type = &self.runtime.input_spec(input).ros_type;
        let topic = &self.names.topics[input.index()];
        let topics = lock(&self.runtime.topics);
        // The graph has the topics that this node subscribes to, whether or not anybody publishes there.
        let other =
            |(name, of): &&(String, String)| of == ros_type && !self.names.topics.contains(name);
        let others: Vec<&str> = topics.iter().filter(other).map(|(name, _)| &**name).collect();
        suggestion(topic, &others, "topics of its type")
    }

    /// Ends an input's window.
    pub(super) fn end_window(&mut self, input: InputId) {
        let now = self.runtime.node_time.now();
        let since_start = self.runtime.time.since(self.started);
        // It takes the lock of the arrivals, too.
        let kept = self.runtime.is_kept(input);
        let seen = &mut self.inputs[input.index()];
        let state = self.runtime.input(input);
        let delay = seen.delay.read(&self.runtime.input_stats(input).delay, since_start);
        let ready = seen.ready.read(&state.ready, since_start);
        let details = lock(&state.drop_details);
        let arrivals = lock(&state.arrivals);
        let after = InputTotals::read(&self.runtime, input, &arrivals);
        let before = std::mem::replace(&mut seen.totals, after);
        let (ever, silence) = arrivals.silence(now);
        let received = after.received - before.received;
        let lost = after.lost_since(&before);
        let exact_share = |lost: u64| lost as f64 / (lost + received).max(1) as f64;
        seen.window = InputWindow {
            kept,
            ever,
            heard: after.received,
            silence,
            starting: since_start < assess::FIRST_MESSAGE,
            received,
            rate: seen.rate.read(now, after.received),
            delay,
            ready,
            details: details_of(&details, &after, &before),
            last_drop: details.last(),
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
            guessed: lost.is_none(),
            usual: arrivals.usual_interval(),
            pause: arrivals.usual_pause(),
        };
    }
}

/// The details of the drops between two readings, by reason.
fn details_of(
    details: &DropDetails,
    after: &InputTotals,
    before: &InputTotals,
) -> Vec<(DropReason, String)> {
    let drops = after.drops_since(before).into_iter().chain(after.parts_dropped_since(before));
    let lacks = after.groups_incomplete > before.groups_incomplete;
    let lacking = lacks.then_some(DropReason::MissingField);
    let mut reasons: Vec<DropReason> = drops.map(|(reason, _)| reason).chain(lacking).collect();
    reasons.dedup();
    reasons.into_iter().filter_map(|reason| Some((reason, details.of(reason)?))).collect()
}
