//! The monitor's part for streams: why steps are invalid, which lag would do, and statuses.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::assess::{self, Level};
use super::causes::{self, Cause, CauseKind, Evidence, InputEvidence};
use super::lag;
use super::monitor::Monitor;
use super::report::{self, Status, StreamPart};
use super::totals::StreamTotals;
use crate::Runtime;
use robocache_core::pipeline::Spacings;
use robocache_core::rejected::DropReason;
use robocache_core::spec::{InputId, StreamId, Timeline};
use robocache_ops::sync::lock;

/// A group without a row is logged after this many windows in a row: publishers start one after
/// the other.
const ABSENT_WINDOWS: u32 = 3;

/// Findings about a stream in a window.
struct Learnt {
    part: StreamPart,
    /// Which groups have no row while others have.
    absent: Option<String>,
    cause: Option<Cause>,
}

impl Monitor {
    /// Adds the status of a stream and, if it has several inputs, the status of each input.
    pub(super) fn stream_statuses(
        &mut self,
        stream: StreamId,
        now: Instant,
        parts: &mut Vec<Status>,
    ) {
        let runtime = Arc::clone(&self.runtime);
        let inputs: Vec<_> = runtime.inputs_of(Some(stream)).collect();
        for input in &inputs {
            self.end_window(*input);
        }
        let Learnt { part, absent, cause } = self.learn(&runtime, stream, &inputs, now);
        let first = parts.len();
        if let [input] = inputs[..] {
            // The words of the cause have the detail.
            if cause.as_ref().is_some_and(|cause| cause.kind == CauseKind::Dropped) {
                self.inputs[input.index()].window.details.clear();
            }
            parts.push(self.input_status(input, Some(&part)));
        } else {
            self.joined_statuses(&part, &inputs, parts);
        }
        let status = &mut parts[first];
        for words in absent.into_iter().chain(cause.map(|cause| cause.words)) {
            status.level = status.level.max(Level::Warn);
            status.message = format!("{}; {words}", status.message);
        }
    }

    /// Ends the stream's window, and logs a cause that lasts.
    fn learn(
        &mut self,
        runtime: &Runtime,
        stream: StreamId,
        inputs: &[InputId],
        now: Instant,
    ) -> Learnt {
        let after = StreamTotals::read(runtime, stream);
        let before = std::mem::replace(&mut self.streams[stream.index()].totals, after);
        let spec = runtime.stream_spec(stream);
        let spacings = self.spacings(stream, inputs);
        let steps = after.steps - before.steps;
        let suggested_lag_ms = self.suggested_lag(runtime, stream, inputs, spacings);
        let ticks = (steps / spec.steps() as u64).max(1);
        let held_share = (after.newest_held - before.newest_held) as f64 / ticks as f64;
        let evidence = Evidence {
            spec,
            period_ns: runtime.pipeline.config().grid.period_ns(),
            simulated: runtime.clock.is_simulated(),
            invalid: after.invalid_since(&before),
            held_share,
            spacings,
            suggested_lag_ms,
            inputs: inputs.iter().map(|input| self.input_evidence(runtime, *input)).collect(),
        };
        let absent = self.absent_groups(stream);
        // The status of the input says why, and its delay is that of no sensor.
        let left_out = inputs.iter().any(|input| runtime.left_out(*input).is_some());
        let cause = causes::cause(&evidence).filter(|_| absent.is_none() && !left_out);
        if steps > 0 && self.stood_still.is_none() {
            self.notices.cause(now, stream, &spec.name, cause.as_ref());
        }
        let part = StreamPart {
            id: stream,
            valid_share: after.valid_share_since(&before),
            held_share: (steps > 0).then_some(held_share),
            suggested_lag_ms,
        };
        Learnt { part, absent, cause }
    }

    /// The distances of a stream's rows. The ring may hold less than one of the bursts in which they come.
    fn spacings(&self, stream: StreamId, inputs: &[InputId]) -> Option<Spacings> {
        let spacings = self.runtime.pipeline.spacings(stream)?;
        // Of several inputs, one fills the pauses of another.
        let pause = match inputs {
            [input] => self.inputs[input.index()].window.pause.unwrap_or_default(),
            _ => Duration::ZERO,
        };
        let pause_ns = i64::try_from(pause.as_nanos()).unwrap_or(i64::MAX);
        Some(Spacings { longest_ns: spacings.longest_ns.max(pause_ns), ..spacings })
    }

    /// Returns the lag that would do for a stream; `None` if none of its delays is known.
    fn suggested_lag(
        &self,
        runtime: &Runtime,
        stream: StreamId,
        inputs: &[InputId],
        spacings: Option<Spacings>,
    ) -> Option<f64> {
        // What is planned changes until it is over: no lag makes it final.
        if runtime.stream_spec(stream).looks_ahead() {
            return None;
        }
        let by_header = |input: &&InputId| runtime.input_spec(**input).timeline == Timeline::Header;
        let delays = inputs.iter().filter(by_header).map(|input| {
            let window = &self.inputs[input.index()].window;
            // An image or a cloud can be used only when it has been encoded.
            if window.ready.recent.count > 0 { window.ready.recent } else { window.delay.recent }
        });
        let distance_ns = spacings.map(|spacings| spacings.longest_ns);
        lag::suggested_ms(runtime.stream_spec(stream).strategy(), delays, distance_ns)
    }

    fn input_evidence(&self, runtime: &Runtime, input: InputId) -> InputEvidence {
        let spec = runtime.input_spec(input);
        let window = &self.inputs[input.index()].window;
        let in_window = window.delay.window.count > 0;
        InputEvidence {
            delay: if in_window { window.delay.window } else { window.delay.recent },
            stamp_offset_ns: spec.stamp_offset_ns,
            rate_hz: window.rate.hz,
            interval: window.usual,
            pause: window.pause,
            silence: window.silence,
            received: window.received,
            dropped: window.dropped.clone(),
            details: window.details.clone(),
            silent: !window.ever || assess::trouble(spec, window).is_some(),
            lost: window.lost + window.queue_full + window.missing,
            topic: spec.topic.clone(),
        }
    }

    /// Says which groups of a stream have no row while others have; logs it once if it lasts.
    fn absent_groups(&mut self, stream: StreamId) -> Option<String> {
        let groups = self.runtime.pipeline.groups_without_rows(stream);
        let windows = &mut self.streams[stream.index()].absent;
        *windows = if groups.is_empty() { 0 } else { *windows + 1 };
        if groups.is_empty() {
            return None;
        }
        let groups: Vec<_> = groups.iter().map(|channels| channels.join(", ")).collect();
        // A list of all channels hides the one that is missing.
        let lacking = self.runtime.inputs_of(Some(stream)).filter_map(|input| {
            let detail = lock(&self.runtime.input(input).drop_details).of(DropReason::MissingField);
            Some(format!("{}: {}", self.runtime.input_spec(input).topic, detail?))
        });
        let lacking: Vec<_> = lacking.collect();
        let words = match lacking.is_empty() {
            true => format!("no message so far gave all of: {}", groups.join("; ")),
            false => {
                format!("no message so far gave all joints of a group: {}", lacking.join("; "))
            }
        };
        if *windows == ABSENT_WINDOWS {
            let name = &self.runtime.stream_spec(stream).name;
            tracing::warn!("stream '{name}': no step is valid: {words}");
        }
        Some(words)
    }

    /// Adds the status of a stream with several inputs, and that of each input.
    fn joined_statuses(&mut self, part: &StreamPart, inputs: &[InputId], parts: &mut Vec<Status>) {
        let runtime = Arc::clone(&self.runtime);
        let of_inputs: Vec<_> =
            inputs.iter().map(|input| self.input_status(*input, None)).collect();
        let judged = of_inputs.iter().map(|status| (status.level, status.message.as_str()));
        let topics = inputs.iter().map(|input| runtime.input_spec(*input).topic.as_str());
        let levels = judged.zip(topics).map(|((level, message), topic)| (level, topic, message));
        let levels: Vec<_> = levels.collect();
        let merge = runtime.stream_spec(part.id).merge.as_ref();
        let (level, message) = assess::assess_joined(&levels, merge, part.valid_share);
        let mut values = report::values(&runtime, Some(part), None);
        values.extend(report::sums(&runtime, inputs));
        let name = runtime.stream_spec(part.id).name.clone();
        parts.push(Status { part: name, level, message, values });
        parts.extend(of_inputs);
    }
}
