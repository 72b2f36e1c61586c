//! Reports to people: logs on `/rosout` and diagnostics. Looks if the middleware has cut the process off.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use r2r::rcl_interfaces::msg::Log;

use super::connection::Reports;
use super::fastdds::lost_ports;
use super::lifecycle::{Lifecycle, LifecycleState};
use super::rosout::Records;
use super::shared::SharedInfo;
use robocache_link::{Connector, Handed, Recovery, Switch, found_as_many};
use robocache_ops::sync::lock;
use robocache_runtime::health::{Level, Monitor, Report, Status};
use robocache_runtime::{Next, Runtime, Standstills, Steps, TimeSource, Witness};

/// Time between two looks at the inputs, and the longest wait for a log record.
const LOOK: Duration = Duration::from_millis(125);

/// Time between two looks at the readers of shared memory.
const FOLLOW: Duration = Duration::from_secs(1);

/// State of the node that the reports describe. It changes with what the node does.
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
    time: TimeSource,
}

/// The work of the thread *report*.
pub(crate) struct Reporter {
    pub watched: Arc<Mutex<Watched>>,
    /// Log records, which the thread publishes on `/rosout` at once.
    pub records: Records,
    /// Publishers of the connection in use.
    pub reports: Switch<Reports>,
    /// Publishers of the newest connection, until this thread takes them.
    pub parts: Handed<Reports>,
    pub connector: Connector,
    pub standstills: Arc<Standstills>,
    /// Looks if the middleware has cut the process off; `None` if it never does, or does not show it.
    pub recovery: Option<Recovery>,
    /// True if the node ends.
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

    /// Logs which streams hold ticks back. Looks whether the process stood still or was cut off, takes the parts of a new
    /// connection, and goes over to them when they are connected.
    fn look(&mut self, now: Instant) {
        let slept = self.standstills.awake(Witness::Report);
        {
            let mut watched = lock(&self.watched);
            watched.log_held_back();
            if let (Some(time), Some((runtime, monitor))) = (slept, &mut watched.working) {
                runtime.excuse_silence();
                monitor.stood_still(time);
            }
        }
        let stood = self.standstills.newest();
        if let Some(stood) = stood {
            tracing::warn!(
                "the process stood still for {:.1} s: it was stopped, or the machine was suspended",
                stood.as_secs_f64()
            );
        }
        self.heal(now, stood.is_some());
        if let Some(order) = self.connector.held_up() {
            tracing::warn!(
                "the middleware takes long to {order}; until it has, this node makes no new connection and no other subscription"
            );
        }
        let parts = (&self.parts, &self.connector);
        self.reports
            .follow(parts, |next, before| found_as_many(next.subscribers(), before.subscribers()));
    }

    /// Asks for a new connection if the middleware has cut the process off.
    fn heal(&mut self, now: Instant, stood_still: bool) {
        let Some(recovery) = &mut self.recovery else { return };
        match recovery.heal(now, stood_still, &self.connector, lost_ports) {
            Ok(false) => {}
            Ok(true) => tracing::warn!(
                "the middleware has cut this process off: publishers do not find its shared memory any more; all inputs are \
                 subscribed to again through a new connection"
            ),
            Err(error) => tracing::warn!(
                "failed to look whether publishers find the shared memory of this process: {error}; meanwhile, the node does \
                 not notice if the middleware cuts it off"
            ),
        }
    }
}

impl Watched {
    /// Watches a node without a configuration.
    pub(crate) fn new(
        period: Duration,
        lifecycle: Option<Arc<Lifecycle>>,
        time: TimeSource,
    ) -> Self {
        Watched {
            period,
            lifecycle,
            trouble: None,
            shared: None,
            working: None,
            due: time.monotonic() + period,
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
        self.due = self.time.monotonic() + self.period;
    }

    /// Watches no inputs from now on.
    pub(crate) fn end(&mut self) {
        self.log_held_back();
        self.working = None;
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
}
