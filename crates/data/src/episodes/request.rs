//! Requests for windows of episodes: what is asked of a stream, prepared once, and a batch of windows.

use super::{EpisodeError, Episodes, Span, finite, held};
use robocache_core::contract::{ActionWindows, Contract, Poses, WindowsOf};
use robocache_ops::align::{Fill, Strategy};
use robocache_ops::dtype::DType;
use robocache_ops::operators::Operator;
use robocache_ops::windows::{Items, RingRows, Visibility, WindowPlan, WindowStream, cpu};

/// Request for windows of one stream. A field that is `None` stays as in the node's configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(clippy::struct_excessive_bools)] // each may be asked for without the others
pub struct Choice {
    /// The stream's name.
    pub stream: String,
    /// Targets minus the instant of an item \[ns\], one per step.
    pub offsets_ns: Option<Vec<i64>>,
    /// The step whose angles stay as they are, if angles go on from step to step.
    pub present: Option<usize>,
    /// How a value follows from rows.
    pub strategy: Option<Strategy>,
    /// Greatest distance between a target and a row used alone \[ns\].
    pub max_age_ns: Option<i64>,
    /// Greatest distance between the two rows of an interpolation \[ns\].
    pub max_gap_ns: Option<i64>,
    /// Content of an invalid step.
    pub fill: Option<Fill>,
    /// Element type of the output.
    pub dtype: Option<DType>,
    /// True if bytes become floats in 0..1, of `dtype` or else of `f32`. The contract has them as the node serves them.
    #[serde(default)]
    pub scale: bool,
    /// Which rows are seen.
    pub view: Option<Visibility>,
    /// True for a label: it sees all rows, its fill is the nearest edge row, and a step beyond the episode
    /// is invalid.
    #[serde(default)]
    pub label: bool,
    /// True if an item of an episode without any row of the stream is an error.
    #[serde(default)]
    pub required: bool,
    /// True if the caller states the lag of `offsets_ns`, also if it is 0. The contract then has it.
    #[serde(default)]
    pub lag_stated: bool,
}

impl Choice {
    /// Reads a list of choices: JSON, with the names of the fields here.
    ///
    /// # Errors
    /// The text is no such list.
    pub fn list(text: &str) -> Result<Vec<Self>, EpisodeError> {
        serde_json::from_str(text).map_err(|error| {
            EpisodeError::of("windows of streams", "what a stream may have", error)
        })
    }
}

/// A stream of windows that is what a policy answers.
#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AskedActions {
    /// The stream's name.
    pub stream: String,
    /// Channels or joints whose rows are differences to a value of the tensor.
    #[serde(default)]
    pub relative: Vec<String>,
    /// The stream of the tensor with these values.
    #[serde(default)]
    pub reference: Option<String>,
    /// Per number of a row: what the windows make of it, after the difference.
    #[serde(default)]
    pub operators: Vec<Vec<Operator>>,
    /// Poses among the channels, and their form in the windows.
    #[serde(default)]
    pub poses: Poses,
}

impl AskedActions {
    /// Reads a list of streams: JSON, with the names of the fields here.
    ///
    /// # Errors
    /// The text is no such list.
    pub fn list(text: &str) -> Result<Vec<Self>, EpisodeError> {
        serde_json::from_str(text)
            .map_err(|error| EpisodeError::of("actions", "what actions may have", error))
    }
}

/// A batch that is asked for, one entry per window.
#[derive(Clone, Copy, Debug, Default)]
pub struct WindowBatch<'a> {
    /// The numbers of the episodes.
    pub episodes: &'a [i64],
    /// The instants \[ns\].
    pub instants_ns: &'a [i64],
    /// The numbers of the clock's epochs. If `None`, see [`Episodes::span_at`].
    pub epochs: Option<&'a [i64]>,
    /// `[streams, windows]`: how much earlier than at the instant each stream is taken \[ns\]. Empty for 0.
    pub latency_ns: &'a [i64],
}

impl Episodes {
    /// Prepares windows of the streams that are chosen; of all of them, as the node makes them, if `choices` is
    /// `None`.
    ///
    /// # Errors
    /// A stream is unknown, or its rows do not suffice for what is asked.
    pub fn plan(&self, choices: Option<&[Choice]>) -> Result<WindowPlan, EpisodeError> {
        let of = |stream: &super::Stream| Choice {
            stream: stream.means.name.clone(),
            ..Choice::default()
        };
        let all: Vec<Choice>;
        let choices = match choices {
            Some(choices) => choices,
            None => {
                all = self.streams.iter().map(of).collect();
                &all
            }
        };
        let streams = choices.iter().map(|choice| {
            let (number, stream) = self.stream(&choice.stream)?;
            let windows = choice.applied(stream)?;
            let Choice { required, lag_stated, .. } = *choice;
            Ok(WindowStream { number, required, lag_stated, ..windows })
        });
        Ok(WindowPlan::new(streams.collect::<Result<_, EpisodeError>>()?)?)
    }

    /// The contract of the windows of a plan: a policy that is trained on them relies on it. The policy answers `actions`,
    /// and sees the other windows.
    ///
    /// # Errors
    /// The rows are of no configuration, or of a version of robocache that wrote no contract; or the plan has no windows of
    /// actions from which commands follow.
    pub fn contract(
        &self,
        plan: &WindowPlan,
        actions: &[AskedActions],
    ) -> Result<Contract, EpisodeError> {
        let Some(known) = self.contract.clone() else {
            let (expected, found) = match self.configuration.is_empty() {
                true => (
                    "rows that a configuration made",
                    "arrays: give the contract of the configuration that serves the policy",
                ),
                false => (
                    "one in the store; replay its bags again with this version, or give the \
                     contract of the configuration",
                    "none",
                ),
            };
            return Err(EpisodeError::of("contract", expected, found));
        };
        let streams = plan.streams();
        let answered = actions.iter().map(|asked| {
            let own = streams.iter().find(|of| of.name == asked.stream).ok_or_else(|| {
                let names: Vec<_> = streams.iter().map(|of| of.name.as_str()).collect();
                let expected = format!("streams of the windows, {}", names.join(", "));
                EpisodeError::of("actions", expected, &asked.stream)
            })?;
            Ok(ActionWindows {
                name: &own.name,
                offsets_ns: &own.offsets_ns,
                lag_known: own.within || own.lag_stated,
                relative: &asked.relative,
                reference: asked.reference.as_deref(),
                operators: &asked.operators,
                poses: &asked.poses,
            })
        });
        let answered = answered.collect::<Result<Vec<_>, EpisodeError>>()?;
        let is_seen = |name: &str| actions.iter().all(|asked| asked.stream != name);
        let windows = streams.iter().filter(|of| is_seen(&of.name)).map(|of| WindowsOf {
            name: &of.name,
            targets_ns: &of.offsets_ns,
            lag_stated: of.lag_stated,
            present: of.present,
            rule: of.rule,
            dtype: if of.scaled { DType::U8 } else { of.dtype },
        });
        let store = Contract::from_value(known, "contract of the store");
        store
            .and_then(|store| store.of_windows(windows)?.with_actions(&store, answered))
            .map_err(|error| EpisodeError::Store(error.to_string()))
    }

    /// Writes the windows of a batch into `out`, which has the bytes of the layout.
    ///
    /// # Errors
    /// An episode is unknown, a stream that is required has no row there, or sizes contradict each other.
    pub fn windows(
        &self,
        plan: &WindowPlan,
        request: WindowBatch<'_>,
        out: &mut [u8],
        threads: usize,
    ) -> Result<(), EpisodeError> {
        let WindowBatch { instants_ns: instants, latency_ns, .. } = request;
        let spans = self.spans_of(plan, request)?;
        let rows = plan.streams().iter().map(|stream| self.rows_of(stream));
        let rows = rows.collect::<Result<Vec<_>, _>>()?;
        let bounds = &self.bounds_of(&spans);
        let items = Items { spans: &spans, bounds, instants, latency_ns };
        Ok(cpu::windows(plan, &rows, items, out, threads)?)
    }

    /// The rings of a stream of a plan.
    pub(super) fn rows_of(&self, stream: &WindowStream) -> Result<Vec<RingRows<'_>>, EpisodeError> {
        self.streams[stream.number].rings.iter().map(super::Ring::view).collect()
    }

    /// The first and the last instant of spans.
    pub(super) fn bounds_of(&self, spans: &[u32]) -> Vec<[i64; 2]> {
        let bounds = |span: &u32| {
            let Span { begin_ns, end_ns, .. } = self.spans[*span as usize];
            [begin_ns, end_ns]
        };
        spans.iter().map(bounds).collect()
    }

    /// The span of each item.
    pub(super) fn spans_of(
        &self,
        plan: &WindowPlan,
        request: WindowBatch<'_>,
    ) -> Result<Vec<u32>, EpisodeError> {
        let WindowBatch { episodes: numbers, instants_ns, epochs, .. } = request;
        let windows = instants_ns.len();
        if numbers.len() != windows {
            return Err(EpisodeError::of(
                "episodes",
                format!("{windows}, one per instant"),
                numbers.len(),
            ));
        }
        if let Some(found) = epochs.map(<[i64]>::len).filter(|found| *found != windows) {
            return Err(EpisodeError::of("epochs", format!("{windows}, one per instant"), found));
        }
        let span = |at: usize| {
            let epoch = epochs.map(|epochs| epochs[at]);
            self.span_at(numbers[at], instants_ns[at], epoch)
        };
        let spans = (0..windows).map(span).collect::<Result<Vec<u32>, _>>()?;
        for WindowStream { name, number, .. } in plan.streams().iter().filter(|of| of.required) {
            let rings = &self.streams[*number].rings;
            let lacks = |span: &&u32| {
                rings.iter().any(|ring| ring.spans[**span as usize].range().is_empty())
            };
            if let Some(span) = spans.iter().find(lacks) {
                let episode = &self.episodes[self.spans[*span as usize].episode as usize];
                let what = format!("rows of '{name}' in episode '{}'", episode.name);
                return Err(EpisodeError::of(what, "some, as they are required", "none"));
            }
        }
        Ok(spans)
    }
}

impl Choice {
    /// The windows of a stream with what this says instead.
    fn applied(&self, stream: &super::Stream) -> Result<WindowStream, EpisodeError> {
        let mut means = stream.means.clone();
        let what = |key: &str| format!("{key} of '{}'", means.name);
        let strategy = self.strategy.unwrap_or(means.strategy);
        let changes = strategy.interpolates() != means.strategy.interpolates();
        let operators = means.vector.as_ref().is_some_and(|vector| !vector.outputs.is_empty());
        if changes && operators {
            let expected =
                "one that interpolates as the configuration's does, as there are operators";
            return Err(EpisodeError::of(what("strategy"), expected, strategy.name()));
        }
        if changes && strategy.interpolates() && self.max_gap_ns.is_none() {
            let expected = "a greatest gap, as the configuration has none";
            return Err(EpisodeError::of(what("max_gap_ns"), expected, "nothing"));
        }
        for (key, value) in [("max_age_ns", self.max_age_ns), ("max_gap_ns", self.max_gap_ns)] {
            if let Some(value) = value.filter(|value| *value < 0) {
                return Err(EpisodeError::of(what(key), "at least 0", value));
            }
        }
        if let Some(offsets) = &self.offsets_ns {
            if offsets.is_empty() {
                return Err(EpisodeError::of(what("offsets_ns"), "a step or more", "none"));
            }
            let unwraps = |operators: &[Operator]| operators.contains(&Operator::Unwrap);
            let depends = means.vector.as_ref().is_some_and(|vector| {
                vector.outputs.iter().any(|output| unwraps(&output.operators))
            });
            means.present = match self.present {
                Some(present) if present < offsets.len() => present,
                Some(present) => {
                    let expected = format!("a step of {}", offsets.len());
                    return Err(EpisodeError::of(what("present"), expected, present));
                }
                None if depends => {
                    let expected = "the number of the step whose angles stay, as others follow it";
                    return Err(EpisodeError::of(what("present"), expected, "nothing"));
                }
                None => 0,
            };
            means.target_offsets_ns.clone_from(offsets);
        }
        means.strategy = strategy;
        means.max_age_ns = self.max_age_ns.unwrap_or(means.max_age_ns);
        means.max_gap_ns = self.max_gap_ns.unwrap_or(means.max_gap_ns);
        means.fill = self.fill.unwrap_or(if self.label { Fill::First } else { means.fill });
        means.dtype = self.dtype.unwrap_or(if self.scale { DType::F32 } else { means.dtype });
        let mut windows = means.windows(stream.rings.len())?;
        windows.view = self.view.unwrap_or(if self.label { Visibility::All } else { windows.view });
        windows.within = self.label;
        windows.scaled = self.scale;
        // The node's own history fits its ring.
        if self.offsets_ns.is_some() {
            held::check(stream, &windows)?;
        }
        if windows.dtype != stream.means.dtype {
            finite::check_held(stream, &windows)?;
        }
        Ok(windows)
    }
}
