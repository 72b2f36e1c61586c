//! Reports to people: logs on `/rosout`, diagnostics, and what to do after the process stood still.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use r2r::rcl_interfaces::msg::Log;

use super::connection::Reports;
use super::lifecycle::{Lifecycle, LifecycleState};
use super::rosout::Records;
use super::shared::SharedInfo;
use robocache_link::{CLOCK_TOPIC, Connector, Due, Handed, Heard, Recovery, Switch, found_as_many};
use robocache_ops::sync::lock;
use robocache_runtime::health::{Level, Monitor, Report, Status};
use robocache_runtime::{Next, Runtime, Standstills, Steps, TimeSource, Witness};

/// Time between two looks at the inputs, and the longest wait for a log record.
const LOOK: Duration = Duration::from_millis(125);

/// Time between two looks at the readers of shared memory.
const FOLLOW: Duration = Duration::from_secs(1);

/// What the reports are about. It changes with what the node does.
pub(crate) struct Watched {
    /// Time between two reports.
    period: Duration,
    /// The state of a managed node; `None` if the node is not managed.
    lifecycle: Option<Arc<Lifecycle>>,
    /// Why the last transition failed, or why the node did not stay active.
    pub trouble: Option<String>,
    /// With a configuration that shares its tensors.
    pub shared: Option<SharedInfo>,
    /// While the node works.
    working: Option<(Arc<Runtime>, Monitor)>,
    /// When the next report is due.
    due: Instant,
    recovery: Recovery,
    /// True if the middleware may cut the process off.
    cuts_off: bool,
    time: TimeSource,
}

/// The work of the thread *report*.
pub(crate) struct Reporter {
    pub watched: Arc<Mutex<Watched>>,
    /// What it publishes on `/rosout` at once.
    pub records: Records,
    /// Where it reports.
    pub reports: Switch<Reports>,
    /// Those of new connections.
    pub parts: Handed<Reports>,
    pub connector: Connector,
    pub standstills: Arc<Standstills>,
    /// Whether the node ends.
    pub stop: Arc<AtomicBool>,
    pub time: TimeSource,
    /// A record that ended a wait.
    pub record: Option<Log>,
    /// When to look at the inputs again.
    pub look: Instant,
    /// When to look at the readers of shared memory again.
    pub follow: Instant,
}

impl Steps for Reporter {
    type Error = Infallible;

    /// Publishes the log record that came, and what is due. At the end of the node, publishes all records.
    fn step(&mut self) -> Result<Next, Infallible> {
        if let Some(record) = self.record.take() {
            self.reports.current.rosout.publish(record);
        }
        if self.stop.load(Ordering::Relaxed) {
            self.reports.current.rosout.flush(&self.records);
            return Ok(Next::Done);
        }
        let now = self.time.monotonic();
        if now >= self.look {
            self.look = now + LOOK;
            self.look(now);
        }
        let (report, next) = {
            let mut watched = lock(&self.watched);
            if now >= self.follow {
                self.follow = now + FOLLOW;
                watched.shared.iter_mut().for_each(SharedInfo::follow);
            }
            (watched.report(now), watched.due)
        };
        // The middleware may take long. Nobody waits for what is watched meanwhile.
        if let Some(report) = report {
            self.reports.current.diagnostics.publish(report);
        }
        Ok(Next::At(self.look.min(next)))
    }
}

impl Reporter {
    /// Waits for a log record, at most until an instant.
    pub(crate) fn wait(&mut self, until: Option<Instant>) {
        let wait = until.map_or(LOOK, |instant| self.time.until(instant));
        match self.records.recv_timeout(wait) {
            Ok(record) => self.record = Some(record),
            Err(RecvTimeoutError::Timeout) => {}
            // The log is part of the process, so this happens only in a test.
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(wait),
        }
    }

    /// Logs which streams hold ticks back. Looks whether the process stood still, takes the parts of a new connection, and
    /// goes over to them when they are connected.
    fn look(&mut self, now: Instant) {
        let slept = self.standstills.awake(Witness::Report);
        let is_cut_off = {
            let mut watched = lock(&self.watched);
            watched.log_held_back();
            watched.is_cut_off(now, slept, self.standstills.newest())
        };
        if is_cut_off {
            self.connector.connect();
        }
        let parts = (&self.parts, &self.connector);
        self.reports
            .follow(parts, |next, before| found_as_many(next.subscribers(), before.subscribers()));
    }
}

impl Watched {
    /// Watches a node without a configuration.
    pub(crate) fn new(
        period: Duration,
        lifecycle: Option<Arc<Lifecycle>>,
        (cuts_off, time): (bool, TimeSource),
    ) -> Self {
        Watched {
            period,
            lifecycle,
            trouble: None,
            shared: None,
            working: None,
            due: time.monotonic() + period,
            recovery: Recovery::default(),
            cuts_off,
            time,
        }
    }

    /// Reports in this period from now on.
    pub(crate) fn set_period(&mut self, period: Duration) {
        (self.period, self.due) = (period, self.time.monotonic() + period);
    }

    /// Watches these inputs and ticks from now on. The first report is one period from now.
    pub(crate) fn begin(&mut self, runtime: Arc<Runtime>, monitor: Monitor) {
        self.working = Some((runtime, monitor));
        let now = self.time.monotonic();
        self.due = now + self.period;
        self.recovery.watch_others(now);
    }

    /// Watches no inputs from now on.
    pub(crate) fn end(&mut self) {
        self.log_held_back();
        self.working = None;
        self.recovery.watch_others(self.time.monotonic());
    }

    /// Logs which streams began to hold ticks back, or ended that.
    fn log_held_back(&self) {
        if let Some((_, monitor)) = &self.working {
            monitor.log_held_back();
        }
    }

    /// Returns the report, if it is due. A node that is not managed makes none before it works.
    fn report(&mut self, now: Instant) -> Option<Report> {
        if now < self.due {
            return None;
        }
        // Reports that were missed are not made up for.
        self.due = (self.due + self.period).max(now + self.period / 2);
        let state = self.lifecycle.as_ref().map(|lifecycle| self.state(lifecycle.state()));
        let working = self.working.as_mut().map(|(_, monitor)| monitor.report());
        if working.is_none() && state.is_none() {
            return None;
        }
        let of_state = || Report { stamp: Some(self.time.system()), parts: Vec::new() };
        let mut report = working.unwrap_or_else(of_state);
        report.parts.extend(state);
        Some(report)
    }

    /// The state of a managed node, for people.
    fn state(&self, state: LifecycleState) -> Status {
        let (level, message) = match &self.trouble {
            Some(why) => (Level::Error, format!("{}: {why}", state.label())),
            None => (Level::Ok, state.label().to_owned()),
        };
        let values = vec![("state".to_owned(), state.label().to_owned())];
        Status { part: "lifecycle".to_owned(), level, message, values }
    }

    /// Whether a new connection must be made. `slept`: how long this thread did not run, if that was long. `stood`: the
    /// same of the process.
    fn is_cut_off(
        &mut self,
        now: Instant,
        slept: Option<Duration>,
        stood: Option<Duration>,
    ) -> bool {
        if let (Some(time), Some((runtime, monitor))) = (slept, &mut self.working) {
            // Whether or not the whole process did: what came meanwhile is judged as if it had.
            runtime.excuse_silence();
            monitor.stood_still(time);
        }
        if !self.cuts_off {
            if let Some(time) = stood {
                let seconds = time.as_secs_f64();
                tracing::warn!(
                    "the process stood still for {seconds:.1} s: it was stopped, or the machine was suspended"
                );
            }
            return false;
        }
        let heard = self.working.as_ref().map_or_else(Vec::new, |(runtime, _)| Heard::of(runtime));
        match self.recovery.look(now, &heard, stood.is_some()) {
            None => return false,
            Some(Due::StoodStill) => {
                let seconds = stood.unwrap_or_default().as_secs_f64();
                tracing::warn!(
                    "the process stood still for {seconds:.1} s: it was stopped, or the machine was \
                     suspended; all inputs are subscribed to again through a new connection to the \
                     middleware, which may have cut off the old one"
                );
            }
            Some(Due::Silent(inputs)) => {
                tracing::warn!(
                    "no message since the process stood still: {}; all inputs are subscribed to again \
                     through another connection",
                    self.names(&inputs)
                );
            }
        }
        true
    }

    fn names(&self, inputs: &[usize]) -> String {
        let Some((runtime, _)) = &self.working else { return String::new() };
        let specs = &runtime.pipeline.config().inputs;
        let name = |at: &usize| specs.get(*at).map_or(CLOCK_TOPIC, |spec| &spec.topic);
        inputs.iter().map(name).collect::<Vec<_>>().join(", ")
    }
}
