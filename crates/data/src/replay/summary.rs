//! Summary of an episode's replay.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::wiring::no_row;
use super::{Episode, ReplayError, Wiring};
use crate::bag::{Bag, Problems};
use crate::commands::{MadeCommand, TakenChunk};
use crate::episodes::TaskFrom;
use crate::store::Loss;
use robocache_core::message::TensorMessage;
use robocache_core::rejected::DropReason;
use robocache_core::spec::{GroupSpec, SegmentId};
use robocache_ops::align::InvalidReason;
use robocache_runtime::Runtime;

/// The numbers of an episode. Times are in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The bag.
    pub bag: String,
    /// The name of the result.
    pub name: String,
    /// Task of the robot, if the list of episodes says so.
    pub task: Option<String>,
    /// All of its tasks, in the order of their begins; empty if the task never changes.
    #[serde(default)]
    pub tasks: Vec<TaskFrom>,
    /// Tensors.
    pub ticks: u64,
    /// Ticks without a tensor, because a required stream was not valid.
    pub held_back: u64,
    /// Ticks that a simulator's clock passed over.
    pub overruns: u64,
    /// How often the clock jumped back.
    pub clock_jumps: u64,
    /// How often the recorder's clock was set ahead, or the bag has a long silence: no ticks are there.
    pub set_ahead: u64,
    /// True if the ticks are on a simulator's clock: that of `/clock`, or that of the stamps.
    pub simulated: bool,
    /// True if the episode was played to its end.
    pub whole: bool,
    /// Topics of the configuration that the bag does not have.
    pub missing: Vec<String>,
    /// Topics whose type the bag does not say. The configuration's was believed.
    #[serde(default)]
    pub untyped: Vec<String>,
    /// Problems of reading: the first of them.
    pub problems: Vec<String>,
    /// How many more there are.
    pub more_problems: u64,
    /// The tick whose streams were furthest apart.
    pub skew: Skew,
    /// By name.
    pub streams: BTreeMap<String, StreamSummary>,
    /// By name.
    pub inputs: BTreeMap<String, InputSummary>,
    /// The commands that the chunks of the bag become; `None` if it has no chunks, or the configuration no commands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commands: Option<CommandsSummary>,
}

/// Commands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandsSummary {
    /// False if the output takes no commands. Then none were made.
    pub written: bool,
    /// True if they are those of a node that recorded itself, from its facts. Otherwise they follow from the receive stamps
    /// of the chunks.
    pub of_recording: bool,
    /// Command ticks.
    pub ticks: u64,
    /// Command ticks that were left out, because their commands are not those that the node made.
    pub differing: u64,
    /// Command ticks that were left out, because they come after an event that the recording lacks.
    pub unverifiable: u64,
    /// Chunks that no command tick has found: none came after them, or too many waited for one.
    pub waiting: u64,
    /// Chunks of no group, by the reason for which they were refused.
    pub refused: BTreeMap<String, u64>,
    /// By name.
    pub groups: BTreeMap<String, GroupSummary>,
}

/// The commands of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupSummary {
    /// Commands that were sent.
    pub sent: u64,
    /// How often commands began at measured values.
    pub starts: u64,
    /// Command ticks by what the group did.
    pub stages: BTreeMap<String, u64>,
    /// Chunks that count.
    pub chunks: u64,
    /// Chunks that do not, because all their rows were past.
    pub chunks_late: u64,
    /// Rows of both that were past.
    pub rows_late: u64,
    /// Chunks that were refused, by reason.
    pub refused: BTreeMap<String, u64>,
    /// Commands that a limit changed, by joint.
    pub clipped: BTreeMap<String, u64>,
}

/// The largest difference between the ages of two valid streams in one tick, of their newest steps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skew {
    /// The difference \[ns\].
    pub largest_ns: i64,
    /// The tick; `None` if no tick had two valid streams.
    pub tick: Option<i64>,
}

/// A stream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamSummary {
    /// Rows.
    pub rows: u64,
    /// Steps of all ticks.
    pub steps: u64,
    /// The part of the steps that is valid; `None` without steps.
    pub valid_share: Option<f64>,
    /// Steps that are not valid, by reason.
    pub invalid: BTreeMap<String, u64>,
    /// Result of JPEG on the rows; `None` if they are stored without loss.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jpeg: Option<JpegSummary>,
}

/// Rows that are stored as JPEG.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JpegSummary {
    /// Images that were encoded. A row that repeats the one before is not.
    pub images: u64,
    /// Their size before \[bytes\].
    pub bytes_before: u64,
    /// Their size in the store \[bytes\].
    pub bytes: u64,
    /// The ratio of the greatest value to the root of the mean squared error of all of them \[dB\]; `None` if there is
    /// no error.
    pub psnr_db: Option<f64>,
}

impl JpegSummary {
    fn of(loss: Loss) -> Self {
        let Loss { images, values, bytes, squared_error } = loss;
        let mean = squared_error as f64 / values.max(1) as f64;
        let psnr_db = (squared_error > 0).then(|| 10.0 * (255.0 * 255.0 / mean).log10());
        JpegSummary { images, bytes_before: values, bytes, psnr_db }
    }
}

/// An input: the messages of a topic.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputSummary {
    /// The topic in the configuration.
    pub topic: String,
    /// Messages.
    pub received: u64,
    /// Messages that were taken.
    pub accepted: u64,
    /// Messages that were not, by reason.
    pub dropped: BTreeMap<String, u64>,
    /// Parts that were not taken of messages that were, by reason.
    pub parts_dropped: BTreeMap<String, u64>,
    /// Messages that still waited for a transform at the end.
    pub waiting: u64,
}

impl Skew {
    /// Notes a tensor.
    pub(super) fn note(&mut self, tick: i64, message: &TensorMessage) {
        let newest =
            (0..message.segments()).filter_map(|at| message.steps(SegmentId::new(at)).last());
        let ages = newest.filter(|step| step.valid).map(|step| step.age_ns);
        let mut least = i64::MAX;
        let mut most = i64::MIN;
        let mut streams = 0;
        for age in ages {
            (least, most, streams) = (least.min(age), most.max(age), streams + 1);
        }
        if streams < 2 {
            return;
        }
        if self.tick.is_none() || most - least > self.largest_ns {
            *self = Skew { largest_ns: most - least, tick: Some(tick) };
        }
    }
}

impl Summary {
    pub(super) fn new(
        episode: &Episode,
        wiring: &Wiring,
        runtime: &Runtime,
        skew: Skew,
        problems: &Problems,
        whole: bool,
    ) -> Self {
        Summary {
            bag: episode.bag.display().to_string(),
            name: episode.name.clone(),
            task: episode.task.clone(),
            tasks: Vec::new(),
            ticks: runtime.ticks.published.get(),
            held_back: runtime.ticks.held_back.get(),
            overruns: runtime.ticks.grid.overruns.get(),
            clock_jumps: runtime.pipeline.clock_jumps(),
            set_ahead: runtime.clock.times_set_ahead(),
            simulated: wiring.clock.is_simulated(),
            whole,
            missing: wiring.missing.clone(),
            untyped: wiring.untyped.clone(),
            problems: problems.first.iter().map(ToString::to_string).collect(),
            more_problems: problems.more,
            skew,
            streams: StreamSummary::all(runtime),
            inputs: InputSummary::all(runtime),
            commands: None,
        }
    }
}

impl CommandsSummary {
    /// Notes a chunk. `groups` are in the order of the configuration.
    pub(super) fn note_chunk(&mut self, groups: &mut [GroupSummary], taken: &TakenChunk<'_>) {
        let group = taken.group.map(|group| &mut groups[group]);
        match (group, taken.outcome) {
            (Some(group), Ok(())) => {
                group.chunks += u64::from(taken.counts);
                group.chunks_late += u64::from(!taken.counts);
                group.rows_late += taken.rows_late;
            }
            (Some(group), Err(refusal)) => add(&mut group.refused, refusal.word()),
            (None, Err(refusal)) => add(&mut self.refused, refusal.word()),
            (None, Ok(())) => {}
        }
    }
}

impl GroupSummary {
    /// Notes a command.
    pub(super) fn note(&mut self, spec: &GroupSpec, command: &MadeCommand<'_>) {
        let MadeCommand { made, clipped, .. } = command;
        self.sent += u64::from(made.sends);
        self.starts += u64::from(made.starts);
        add(&mut self.stages, made.stage.word());
        let joints = spec.joints.iter().zip(*clipped);
        let clipped = joints.filter(|(_, is)| **is && made.sends);
        clipped.for_each(|(joint, _)| add(&mut self.clipped, &joint.name));
    }
}

/// Counts one more.
fn add(counts: &mut BTreeMap<String, u64>, of: &str) {
    match counts.get_mut(of) {
        Some(count) => *count += 1,
        None => drop(counts.insert(of.to_owned(), 1)),
    }
}

impl Summary {
    /// Notes what JPEG made of the rows of streams.
    pub(super) fn note_jpeg(&mut self, losses: &BTreeMap<String, Loss>) {
        for (name, loss) in losses {
            if let Some(stream) = self.streams.get_mut(name) {
                stream.jpeg = Some(JpegSummary::of(*loss));
            }
        }
    }

    /// Checks that a result is of use: a stream has a row, unless the episode was not played to its end.
    ///
    /// # Errors
    /// No stream has one. Says the outcomes of the messages, and which topics the bag has.
    pub fn check_rows(&self, bag: &Bag) -> Result<(), ReplayError> {
        match self.whole && self.streams.values().all(|stream| stream.rows == 0) {
            true => Err(no_row(bag, "a row of a stream", &self.messages())),
            false => Ok(()),
        }
    }

    /// The outcomes of the messages of each input, in words.
    fn messages(&self) -> String {
        let of_input = |(name, input): (&String, &InputSummary)| {
            let dropped = input.dropped.iter().map(|(reason, count)| format!(", {count} {reason}"));
            format!("{name} ({} messages{})", input.received, dropped.collect::<String>())
        };
        self.inputs.iter().map(of_input).collect::<Vec<_>>().join(", ")
    }
}

impl StreamSummary {
    /// The numbers of all streams until now, by name.
    pub fn all(runtime: &Runtime) -> BTreeMap<String, Self> {
        let of = |id| {
            let stats = runtime.stream_stats(id);
            let steps = stats.steps.get();
            let valid = stats.steps_valid.get();
            let invalid = InvalidReason::ALL.iter();
            let invalid = invalid.map(|reason| (reason.name().to_owned(), stats.invalid(*reason)));
            let summary = StreamSummary {
                rows: stats.rows.get(),
                steps,
                valid_share: (steps > 0).then(|| valid as f64 / steps as f64),
                invalid: invalid.filter(|(_, steps)| *steps > 0).collect(),
                jpeg: None,
            };
            (runtime.stream_spec(id).name.clone(), summary)
        };
        runtime.streams().map(of).collect()
    }
}

impl InputSummary {
    /// The numbers of all inputs until now, by name and topic.
    pub fn all(runtime: &Runtime) -> BTreeMap<String, Self> {
        let of = |id| {
            let stats = runtime.input_stats(id);
            let spec = runtime.input_spec(id);
            let by_reason = |count: &dyn Fn(DropReason) -> u64| {
                let counts = DropReason::ALL.iter().map(|reason| (reason.name(), count(*reason)));
                let counts = counts.filter(|(_, count)| *count > 0);
                counts.map(|(name, count)| (name.to_owned(), count)).collect()
            };
            let summary = InputSummary {
                topic: spec.topic.clone(),
                received: stats.received.get(),
                accepted: stats.accepted.get(),
                dropped: by_reason(&|reason| stats.dropped(reason)),
                parts_dropped: by_reason(&|reason| stats.parts_dropped(reason)),
                waiting: runtime.waiting(id) as u64,
            };
            (format!("{} {}", spec.name, spec.topic), summary)
        };
        runtime.inputs().map(of).collect()
    }
}
