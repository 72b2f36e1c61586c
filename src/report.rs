//! Reports to people: logs on `/rosout`, diagnostics, and what to do after the process stood still.

use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use super::connection::Reports;
use super::fastdds::{Connector, Due, Handed, Recovery};
use super::rosout::Records;
use super::shared::SharedInfo;
use robocache_runtime::health::Monitor;
use robocache_runtime::{Runtime, Witness};

/// Time between two looks at the inputs, and the longest wait for a log record.
const LOOK: Duration = Duration::from_millis(125);

/// Time between two looks at the readers of shared memory.
const FOLLOW: Duration = Duration::from_secs(1);

/// The work of the thread *report*.
pub struct Reporter {
    runtime: Arc<Runtime>,
    monitor: Monitor,
    period: Duration,
    records: Records,
    /// Where it reports.
    reports: Reports,
    /// Those of new connections.
    parts: Handed<Reports>,
    recovery: Recovery,
    connector: Connector,
    shared: Option<SharedInfo>,
}

impl Reporter {
    /// Publishes `records` at once, and the monitor's report once per `period`.
    pub fn new(
        runtime: Arc<Runtime>,
        (monitor, period): (Monitor, Duration),
        records: Records,
        (reports, parts): (Reports, Handed<Reports>),
        connector: Connector,
        shared: Option<SharedInfo>,
    ) -> Self {
        let recovery = Recovery::default();
        Reporter { runtime, monitor, period, records, reports, parts, recovery, connector, shared }
    }

    /// Reports until the node stops.
    pub fn run(mut self) {
        let started = Instant::now();
        // The first report is one period from now.
        let (mut look, mut report) = (started, started + self.period);
        let mut follow = started;
        while !self.runtime.stopping() {
            let now = Instant::now();
            if now >= look {
                look = now + LOOK;
                self.look(now);
            }
            if now >= follow {
                follow = now + FOLLOW;
                self.shared.iter_mut().for_each(SharedInfo::follow);
            }
            if now >= report {
                // Reports that were missed are not made up for.
                report = (report + self.period).max(now + self.period / 2);
                self.reports.diagnostics.publish(self.monitor.report());
            }
            let wait = look.min(report).saturating_duration_since(Instant::now());
            match self.records.recv_timeout(wait) {
                Ok(record) => self.reports.rosout.publish(record),
                Err(RecvTimeoutError::Timeout) => {}
                // The log is part of the process, so this happens only in a test.
                Err(RecvTimeoutError::Disconnected) => std::thread::sleep(wait),
            }
        }
        self.reports.rosout.flush(&self.records);
    }

    /// Looks whether the process stood still, and takes the parts of a new connection.
    fn look(&mut self, now: Instant) {
        if let Some(time) = self.runtime.standstills.awake(Witness::Report) {
            // Whether or not the whole process did: what came meanwhile is judged as if it had.
            self.runtime.excuse_silence();
            self.monitor.stood_still(time);
        }
        let stood = self.runtime.standstills.newest();
        let messages = self.messages();
        match self.recovery.look(now, &messages, stood.is_some()) {
            None => {}
            Some(Due::StoodStill) => {
                let seconds = stood.unwrap_or_default().as_secs_f64();
                tracing::warn!(
                    "the process stood still for {seconds:.1} s: it was stopped, or the machine was \
                     suspended; all inputs are subscribed to again through a new connection to the \
                     middleware, which may have cut off the old one"
                );
                self.connector.connect();
            }
            Some(Due::Silent(inputs)) => {
                tracing::warn!(
                    "no message since the process stood still: {}; all inputs are subscribed to again \
                     through another connection",
                    self.names(&inputs)
                );
                self.connector.connect();
            }
        }
        if let Some(reports) = self.parts.take() {
            self.connector.end(std::mem::replace(&mut self.reports, reports));
        }
    }

    /// The messages of each input so far; at last a number that changes when a simulator's clock moves.
    fn messages(&self) -> Vec<u64> {
        let runtime = &*self.runtime;
        let inputs = runtime.inputs().map(|input| runtime.input_stats(input).received.get());
        let now = || runtime.clock.now().map_or(0, |now| now.stamp.nanos() as u64);
        inputs.chain(runtime.clock.is_simulated().then(now)).collect()
    }

    fn names(&self, inputs: &[usize]) -> String {
        let specs = &self.runtime.pipeline.config().inputs;
        let name = |at: &usize| specs.get(*at).map_or("/clock", |spec| &spec.topic);
        inputs.iter().map(name).collect::<Vec<_>>().join(", ")
    }
}
