//! Why a stream's steps are invalid or only held, and what to write into the configuration. Pure
//! functions.

mod clouds;

use std::time::Duration;

use super::lag::round_up_ms;
use robocache_core::histogram::Quantiles;
use robocache_core::pipeline::{SENSOR_AHEAD_NS, Spacings};
use robocache_core::rejected::DropReason;
use robocache_core::spec::StreamSpec;
use robocache_ops::align::{CLOCKS_APART_NS, InvalidReason, Strategy};
use robocache_ops::operators::Channel;
use robocache_ops::resample::Lane;
use robocache_ops::time::{NANOS_PER_MS, NANOS_PER_S};

/// If at least this share of the newest values is held, the lag is too short for the strategy.
const HELD: f64 = 0.5;
/// A suggestion adds one row in `SPARE_ROWS` for jitter.
const SPARE_ROWS: f64 = 10.0;
/// If the clocks differ by more than this, an offset is no remedy: the sensor counts from its start
/// or from 1970, and the offset is another one after its next start.
const NO_OFFSET_NS: i64 = 86_400 * NANOS_PER_S;
/// If half of an input's messages come this long before their stamps \[ns\], its clock is ahead. Clocks that are
/// synchronised differ by less than a message travels.
const AHEAD_NS: i64 = 2 * NANOS_PER_MS;
/// From here on \[ns\], a delay that hardly changes is rather a difference of two clocks than a way.
const CONSTANT_NS: i64 = 100 * NANOS_PER_MS;
/// A delay hardly changes if its spread is at most this part of it. The way of large messages varies more.
const CONSTANT_PART: i64 = 20;
/// If nothing comes for this long and for [`STOPPED_INTERVALS`], the input has stopped. A shorter pause
/// may be jitter.
const STOPPED: Duration = Duration::from_millis(250);
/// See [`STOPPED`]; in usual intervals. If the input comes in bursts, its usual pauses are no stops.
const STOPPED_INTERVALS: u32 = 3;
/// If rows are at least this far apart \[ns\], a lag that waits for the next one is felt. `hold` needs none.
const SLOW_NS: i64 = 100 * NANOS_PER_MS;

/// Kind of a cause. A change of the numbers is no change of the cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CauseKind {
    /// Most messages are dropped.
    Dropped,
    /// The sensor's clock is ahead of the node's.
    ClockAhead,
    /// The sensor's clock is behind the node's.
    ClockBehind,
    /// The ring has too few rows.
    RingShort,
    /// The history is not filled yet.
    NotFilled,
    /// The lag is shorter than the delay.
    LagShort,
    /// `max_age_ms` is shorter than the time from one message to the next.
    AgeShort,
    /// `max_gap_ms` is shorter than the distance between two messages.
    GapShort,
    /// The rows end before the horizon's last target, or begin after its first.
    NotCovered,
    /// Merged rows lack the clouds of an input.
    CloudsMissing,
    /// An input has stopped, not long enough ago to count as silent.
    Stopped,
    /// For a moment, messages came late or not at all.
    Moment,
}

impl CauseKind {
    /// True if the user must do something about it, so that it is worth a line in the log.
    pub(super) fn has_remedy(self) -> bool {
        use CauseKind::{Moment, NotCovered, NotFilled, Stopped};
        // An input that has stopped is silent soon, and that is logged.
        !matches!(self, NotFilled | NotCovered | Stopped | Moment)
    }
}

/// A cause in words, with its remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cause {
    /// Kind of the cause.
    pub kind: CauseKind,
    /// The cause in words for people, with the number to write into the configuration.
    pub words: String,
}

/// One input's part of the evidence.
#[derive(Clone, Debug, Default)]
pub(super) struct InputEvidence {
    /// Delay from stamp to arrival; empty if it is not measured.
    pub delay: Quantiles,
    /// The configured `stamp_offset_ms` \[ns\].
    pub stamp_offset_ns: i64,
    /// Messages per second in this window. It falls when the input stops.
    pub rate_hz: f64,
    /// The usual time between two messages, also after the input has stopped; `None` before the third.
    pub interval: Option<Duration>,
    /// The longest usual pause, if the input comes in bursts.
    pub pause: Option<Duration>,
    /// Time since the newest message, or since the start.
    pub silence: Duration,
    /// Messages received in this window.
    pub received: u64,
    /// Messages dropped in this window.
    pub dropped: Vec<(DropReason, u64)>,
    /// Details of the newest drops: what was expected and what was found.
    pub details: Vec<(DropReason, String)>,
    /// True if nothing comes, or far less than is published; the input's own status explains that.
    pub silent: bool,
    /// Messages that were lost in this window, or that the full queue dropped.
    pub lost: u64,
    /// The topic.
    pub topic: String,
}

impl InputEvidence {
    /// True if nothing has come for longer than jitter explains.
    fn has_stopped(&self) -> bool {
        let pause = self.pause.unwrap_or_default() * 3 / 2;
        let patience = |usual| STOPPED.max(STOPPED_INTERVALS * usual).max(pause);
        self.interval.is_some_and(|usual| self.silence > patience(usual))
    }

    /// The topic, and since when nothing comes if it was heard before.
    fn stopped(&self) -> String {
        match self.has_stopped() {
            true => format!("{} (stopped {:.1} s ago)", self.topic, self.silence.as_secs_f64()),
            false => self.topic.clone(),
        }
    }
}

/// Facts of a window about a stream.
#[derive(Debug)]
pub(super) struct Evidence<'a> {
    /// The stream.
    pub spec: &'a StreamSpec,
    /// Period of the ticks \[ns\].
    pub period_ns: i64,
    /// True if a simulator sets the node's clock. Then stamps are ahead of it by up to a step.
    pub simulated: bool,
    /// Steps that were invalid, by [`InvalidReason`].
    pub invalid: [u64; InvalidReason::ALL.len()],
    /// Share of the ticks whose newest value was held because no newer row had come.
    pub held_share: f64,
    /// Distances of the stream's rows.
    pub spacings: Option<Spacings>,
    /// The shortest lag that would do \[ms\].
    pub suggested_lag_ms: Option<f64>,
    /// The stream's inputs.
    pub inputs: Vec<InputEvidence>,
}

/// Returns the cause of most of the window's invalid steps, or of its held values. `None` without such steps and
/// values, and if a silent input explains them. A clock that is ahead is told in any case, because values are valid then
/// that are older than they seem.
pub(super) fn cause(evidence: &Evidence<'_>) -> Option<Cause> {
    let reason = evidence.reason();
    let found = match reason {
        Some(reason) => evidence.cause_of(reason),
        None => evidence.held(),
    };
    if !evidence.runs_ahead() {
        return found;
    }
    let ahead = evidence.clock_ahead();
    // Values that are only held, and rows from before the clock was set, are explained by the clock.
    let was_set = evidence.inputs.iter().all(|input| input.delay.p50_ns <= 0);
    let other = found.filter(|cause| match cause.kind {
        CauseKind::ClockAhead => false,
        CauseKind::ClockBehind => !was_set,
        _ => reason.is_some(),
    });
    Some(match other {
        Some(other) => other.and(ahead),
        None => ahead,
    })
}

impl Cause {
    /// Adds another cause to the words. Its kind counts only if there is no remedy for this one.
    fn and(self, other: Cause) -> Cause {
        let kind = if self.kind.has_remedy() { self.kind } else { other.kind };
        Cause { kind, words: format!("{}; {}", self.words, other.words) }
    }
}

impl Evidence<'_> {
    /// The reason of most invalid steps; `None` if all are valid.
    fn reason(&self) -> Option<InvalidReason> {
        let steps = |reason: &InvalidReason| self.invalid[*reason as usize];
        // Of two that are equal, the more fundamental one, which comes first.
        let most = InvalidReason::ALL.into_iter().rev().max_by_key(steps);
        most.filter(|reason| steps(reason) > 0)
    }

    /// The cause of steps that are invalid for this reason; `None` if a silent input explains them.
    fn cause_of(&self, reason: InvalidReason) -> Option<Cause> {
        match reason {
            InvalidReason::NoRow => self.no_row(),
            InvalidReason::Ahead => Some(self.clock_ahead()),
            InvalidReason::RingShort => Some(self.ring_short()),
            InvalidReason::NotFilled | InvalidReason::TooOld if self.spec.looks_ahead() => {
                Some(self.not_covered())
            }
            InvalidReason::NotFilled => Some(self.not_filled()),
            InvalidReason::ClockBehind => Some(self.clock_behind()),
            InvalidReason::Delayed => Some(self.delayed()),
            InvalidReason::TooOld => self.too_old(),
            InvalidReason::Gap => Some(self.gap()),
            InvalidReason::Incomplete => Some(self.incomplete()),
        }
    }

    /// True if messages of an input come before their stamps, and the configuration does not say that they may.
    fn runs_ahead(&self) -> bool {
        let may = self.simulated || self.spec.max_ahead_ns > SENSOR_AHEAD_NS;
        !may && self.inputs.iter().any(|input| input.delay.p50_ns < -AHEAD_NS)
    }

    /// The input whose delay is long and hardly changes, if one has such a delay.
    fn constant_delay(&self) -> Option<&InputEvidence> {
        let longest = self.inputs.iter().max_by_key(|input| input.delay.p50_ns)?;
        let Quantiles { p50_ns, p99_ns, .. } = longest.delay;
        let is_constant = p50_ns >= CONSTANT_NS && CONSTANT_PART * (p99_ns - p50_ns) <= p50_ns;
        is_constant.then_some(longest)
    }

    fn lag_ms(&self) -> f64 {
        milliseconds(self.spec.lag_ns)
    }

    /// The suggested lag, if it is longer than the lag.
    fn longer_lag(&self) -> Option<f64> {
        self.suggested_lag_ms.filter(|suggested| *suggested > self.lag_ms())
    }

    /// The longest usual distance of two rows \[ns\]; 0 if unknown.
    fn distance_ns(&self) -> i64 {
        self.spacings.map_or(0, |spacings| spacings.longest_ns)
    }

    /// The longest usual delay of an input \[ns\].
    fn delay_ns(&self) -> i64 {
        self.inputs.iter().map(|input| input.delay.p99_ns).max().unwrap_or(0)
    }

    /// True if values need rows on both sides of their target.
    fn two_sided(&self) -> bool {
        self.spec.strategy() != Strategy::Hold
    }

    /// True if an input loses more than one message of ten.
    fn loses(&self) -> bool {
        self.inputs.iter().any(|input| 10 * input.lost > input.received + input.lost)
    }

    /// The strategy of a slow stream that makes nothing wait. `angular` and `held` exclude it.
    fn hold(&self) -> Option<&'static str> {
        let listed = |channel: &Channel| matches!(channel.lane, Lane::Angular | Lane::Held);
        match self.spec.encoder.as_vector() {
            Some(vector) if vector.channels.iter().any(listed) => None,
            // It takes no such key, and the file may have one.
            _ if self.spec.strategy().interpolates() => Some("hold (without max_gap_ms)"),
            _ => Some("hold"),
        }
    }

    /// The remedy if a longer lag helps. A slow stream may have another one.
    fn set_lag(&self, lag_ms: f64) -> String {
        let lag = format!("set this stream's lag_ms to {lag_ms}");
        if let Some(input) = self.constant_delay() {
            let offset_ms = offset_ms(input);
            return format!(
                "{} always comes {:.0} ms after its stamps, so its clock is probably behind: synchronise the clocks \
                 (chrony, ptp), or set stamp_offset_ms to {offset_ms}; only if messages take that long, {lag}",
                input.topic,
                milliseconds(input.delay.p50_ns),
            );
        }
        let hold = self.hold().filter(|_| self.two_sided() && self.distance_ns() >= SLOW_NS);
        let Some(hold) = hold else { return lag };
        let oldest_ns = self.oldest_ns();
        let age = match oldest_ns > self.spec.rule.max_age_ns {
            true => format!(" and its max_age_ms to {}", round_up_ms(oldest_ns)),
            false => String::new(),
        };
        format!("{lag}, or its strategy to {hold}{age}")
    }

    /// The greatest usual age of the newest row at a target \[ns\].
    fn oldest_ns(&self) -> i64 {
        self.delay_ns() + self.distance_ns() - self.spec.lag_ns
    }

    /// The cause if inputs of these have stopped: what is invalid since then has no other.
    fn stopped<'a>(inputs: impl IntoIterator<Item = &'a InputEvidence>) -> Option<Cause> {
        let stopped = inputs.into_iter().filter(|input| input.has_stopped());
        let names: Vec<_> = stopped.map(InputEvidence::stopped).collect();
        let words = format!("nothing comes from {}", names.join(" and "));
        (!names.is_empty()).then_some(Cause { kind: CauseKind::Stopped, words })
    }

    fn held(&self) -> Option<Cause> {
        if self.held_share < HELD || self.inputs.iter().any(|input| input.silent) {
            return None;
        }
        // No lag brings what is not sent.
        if let Some(stopped) = Self::stopped(&self.inputs) {
            return Some(stopped);
        }
        let lag_ms = self.longer_lag()?;
        let words = format!(
            "{:.0} % of the newest values are held, because no newer message has come: lag_ms {} \
             is shorter than the delay and the distance of two messages; {}",
            self.held_share * 100.0,
            self.lag_ms(),
            self.set_lag(lag_ms),
        );
        Some(Cause { kind: CauseKind::LagShort, words })
    }

    /// No row has come. If nothing comes at all, the input's own status says why.
    fn no_row(&self) -> Option<Cause> {
        self.inputs.iter().find_map(|input| self.dropped(input))
    }

    /// The cause if most messages of an input are dropped.
    fn dropped(&self, input: &InputEvidence) -> Option<Cause> {
        let (reason, count) = input.dropped.iter().max_by_key(|(_, count)| *count)?;
        if count * 2 <= input.received {
            return None;
        }
        if *reason == DropReason::Ahead {
            return Some(self.clock_ahead());
        }
        let detail = input.details.iter().find(|(of, _)| of == reason);
        let detail = detail.map_or(String::new(), |(_, detail)| format!(": {detail}"));
        let words = format!(
            "{count} of {} messages were dropped: {}{detail}",
            input.received,
            reason.name()
        );
        Some(Cause { kind: CauseKind::Dropped, words })
    }

    fn clock_ahead(&self) -> Cause {
        let input = self.inputs.iter().min_by_key(|input| input.delay.p50_ns);
        clocks_differ("ahead of", CauseKind::ClockAhead, input)
    }

    fn clock_behind(&self) -> Cause {
        let input = self.inputs.iter().max_by_key(|input| input.delay.p50_ns);
        clocks_differ("behind", CauseKind::ClockBehind, input)
    }

    fn ring_short(&self) -> Cause {
        let rows = self.spec.ring_rows;
        let history_ns = (self.spec.history_steps as i64 - 1) * self.spec.history_step_ns;
        let reach_ns = self.spec.lag_ns.saturating_add(history_ns);
        let per_second: f64 = self.inputs.iter().map(|input| input.rate_hz).sum();
        let row_ns = match self.spacings {
            Some(spacings) => spacings.mean_ns as f64,
            None => NANOS_PER_S as f64 / per_second.max(1.0),
        };
        // A tick may be served up to one period late; two rows bracket its oldest target.
        let span = reach_ns.saturating_add(self.period_ns) as f64 / row_ns.max(1.0);
        let needed = (span * (1.0 + 1.0 / SPARE_ROWS)).ceil() as usize + 2;
        let words = format!(
            "the ring is too short: its {rows} rows reach back {} ms, and lag and history need {} \
             ms; raise ring_rows to {}",
            round_up_ms((row_ns * rows as f64) as i64),
            milliseconds(reach_ns),
            needed.max(rows + 1),
        );
        Cause { kind: CauseKind::RingShort, words }
    }

    fn not_filled(&self) -> Cause {
        let history_ns = (self.spec.history_steps as i64 - 1) * self.spec.history_step_ns;
        let words = format!(
            "the history is not filled yet: it takes {} ms from the start, a jump of the clock or a \
             pause",
            milliseconds(self.spec.lag_ns.saturating_add(history_ns))
        );
        Cause { kind: CauseKind::NotFilled, words }
    }

    /// The rows are those that were planned, so there is nothing to set right here.
    fn not_covered(&self) -> Cause {
        let [first, last] = [0, self.spec.steps() - 1].map(|step| self.spec.target_offset_ns(step));
        let words = format!(
            "what is planned does not cover all targets, from {} to {} ms after the tick: there is \
             no plan, or it begins later or ends earlier",
            milliseconds(first),
            milliseconds(last),
        );
        Cause { kind: CauseKind::NotCovered, words }
    }

    fn delayed(&self) -> Cause {
        let Some(lag_ms) = self.longer_lag() else { return moment() };
        let allowed_ns = self.spec.lag_ns.saturating_add(self.spec.rule.max_age_ns);
        let words = format!(
            "messages arrive up to {} ms after their stamps, and lag_ms and max_age_ms together \
             allow {} ms: the lag is shorter than the delay; {}",
            round_up_ms(self.delay_ns()),
            milliseconds(allowed_ns),
            self.set_lag(lag_ms),
        );
        Cause { kind: CauseKind::LagShort, words }
    }

    /// The newest row was in time, and the next one came after some ticks.
    fn too_old(&self) -> Option<Cause> {
        if self.inputs.iter().any(|input| input.silent) {
            return None;
        }
        // The sensor's clock was set, and the rows in the ring are from before that.
        if self.inputs.iter().any(|input| input.delay.p50_ns > CLOCKS_APART_NS) {
            return Some(self.clock_behind());
        }
        if let Some(dropped) = self.no_row() {
            return Some(dropped);
        }
        if let Some(stopped) = Self::stopped(&self.inputs) {
            return Some(stopped);
        }
        let oldest_ns = self.oldest_ns();
        if oldest_ns <= self.spec.rule.max_age_ns {
            return Some(moment());
        }
        // With a lag as long as the delay, a held row is at most as old as the distance of two.
        let lag_helps = self.two_sided() || self.distance_ns() <= self.spec.rule.max_age_ns;
        let what = format!(
            "a message comes every {} ms and up to {} ms after its stamp",
            round_up_ms(self.distance_ns()),
            round_up_ms(self.delay_ns()),
        );
        Some(match self.longer_lag().filter(|_| lag_helps) {
            Some(lag_ms) => {
                let words = format!("{what}: lag_ms is too short; {}", self.set_lag(lag_ms));
                Cause { kind: CauseKind::LagShort, words }
            }
            // A longer limit would let the policy act on old values, and not bring the lost ones.
            None if self.loses() => moment(),
            None => {
                let age_ms = round_up_ms(oldest_ns);
                let words = format!("{what}: raise max_age_ms to {age_ms}");
                Cause { kind: CauseKind::AgeShort, words }
            }
        })
    }

    fn gap(&self) -> Cause {
        let (key, limit_ns, kind) = match self.spec.strategy() {
            Strategy::Linear | Strategy::Slerp => {
                ("max_gap_ms", self.spec.rule.max_gap_ns, CauseKind::GapShort)
            }
            Strategy::Hold | Strategy::Nearest => {
                ("max_age_ms", self.spec.rule.max_age_ns, CauseKind::AgeShort)
            }
        };
        if self.distance_ns() <= limit_ns || self.loses() {
            return moment();
        }
        let distance_ms = round_up_ms(self.distance_ns());
        let words = format!(
            "messages are {distance_ms} ms apart, and {key} is {}; raise {key} to {distance_ms}",
            milliseconds(limit_ns),
        );
        Cause { kind, words }
    }
}

/// The cause if the sensor's clock is not the node's. `input` is the one that differs most.
fn clocks_differ(side: &str, kind: CauseKind, input: Option<&InputEvidence>) -> Cause {
    let input = input.cloned().unwrap_or_default();
    let differ_ns = input.delay.p50_ns.saturating_abs();
    let offset = match (NANOS_PER_MS..NO_OFFSET_NS).contains(&differ_ns) {
        true => format!(", set stamp_offset_ms to {}", offset_ms(&input)),
        false => String::new(),
    };
    let time = long_time(differ_ns);
    // Sensors that were not synchronised differ by less. A simulator counts from its start.
    let words = match kind == CauseKind::ClockBehind && differ_ns >= NO_OFFSET_NS {
        true => format!(
            "stamps are {time} behind the node's clock: if a simulator sends them, set the parameter \
             use_sim_time; otherwise synchronise the clocks (chrony, ptp), or use timeline: receive"
        ),
        false => format!(
            "stamps are {time} {side} the node's clock: synchronise the clocks (chrony, \
             ptp){offset}, or use timeline: receive"
        ),
    };
    Cause { kind, words }
}

/// The `stamp_offset_ms` that makes up for the difference of the clocks. Rounded down, so that few stamps are ahead: the way
/// of the messages is not known.
fn offset_ms(input: &InputEvidence) -> i64 {
    (input.stamp_offset_ns + input.delay.p50_ns).div_euclid(NANOS_PER_MS)
}

fn moment() -> Cause {
    let words = "messages were lost, not sent or late for a moment (see lost, missing and dropped)";
    Cause { kind: CauseKind::Moment, words: words.to_owned() }
}

fn milliseconds(nanos: i64) -> f64 {
    nanos as f64 / NANOS_PER_MS as f64
}

/// Formats a time with a unit that fits.
fn long_time(nanos: i64) -> String {
    let seconds = nanos as f64 / NANOS_PER_S as f64;
    for (unit, length) in [("years", 31_557_600.0), ("days", 86_400.0), ("h", 3600.0)] {
        if seconds >= 2.0 * length {
            return format!("{:.1} {unit}", seconds / length);
        }
    }
    format!("{seconds:.3} s")
}

#[cfg(test)]
mod tests;
