//! The deployment settings: ROS parameters, read and checked once at the start, or when a managed node is configured.

use std::path::PathBuf;
use std::time::Duration;

use r2r::ParameterValue;

use super::error::NodeError;
use robocache_core::backend::Choice;
use robocache_core::config::{self, nearest};
use robocache_core::spec::Config;
use robocache_data::recording::{ChunkCompression, RecordLimits};
use robocache_data::replay::EpisodeTopic;
use robocache_ops::time::TickGrid;
use robocache_runtime::{Placement, ThreadOptions};

/// The parameter that makes the node a lifecycle node. It does not change.
pub(crate) const MANAGED: &str = "managed";
/// Most threads that encode images and clouds.
const MAX_ENCODE_THREADS: usize = 64;
/// The system's set of processors has room for this many.
const MAX_CPUS: usize = 1024;

/// The parameters, checked. Before that, each field is empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Settings {
    /// The configuration file; empty: none is given yet.
    pub config_file: PathBuf,
    /// Choice of the backend that computes tensors.
    pub backend: Choice,
    /// Number of the GPU.
    pub device: u32,
    /// True if `/clock` is the node's clock.
    pub use_sim_time: bool,
    /// How the runtime's own threads run.
    pub threads: ThreadOptions,
    /// State of commands at the start.
    pub commands: CommandsAtStart,
    /// Placement of the spin threads. The one of images and clouds has ordinary priority.
    pub intake: Placement,
    /// True if the memory of the process must not be swapped out.
    pub lock_memory: bool,
    /// Rate of the ticks \[Hz\]; `None`: the rate of the configuration.
    pub rate_hz: Option<f64>,
    /// Time between two messages on `/diagnostics`.
    pub diagnostics_period: Duration,
    /// True if each tensor has a digest.
    pub digest: bool,
    /// Time between two publications of images and grids for people; `None`: never.
    pub visualize_period: Option<Duration>,
    /// The message type of the tensors.
    pub output_type: OutputType,
    /// The name under which the tensors are in shared memory; `None`: they are not.
    pub shared_output: Option<String>,
    /// The folder in which each run records what it receives; `None`: nothing is recorded.
    pub record_to: Option<PathBuf>,
    /// The folder in which episodes are recorded; `None`: no request begins one.
    pub episodes_to: Option<PathBuf>,
    /// The compression of recordings.
    pub record_compression: ChunkCompression,
    /// How much of a recording of a run is kept.
    pub record_limits: RecordLimits,
    /// The streams that are recorded; empty: all.
    pub record_streams: Vec<String>,
    /// The topic that begins and ends episodes.
    pub record_when: Option<EpisodeTopic>,
    /// Folder of the policy's contract; `None`: any configuration is served.
    pub contract: Option<PathBuf>,
}

/// State of commands at the start: disabled or enabled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum CommandsAtStart {
    /// Only when a request enables them.
    #[default]
    Disabled,
    /// From the start on.
    Enabled,
}

/// The message type of the tensors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum OutputType {
    /// `robocache_ros/msg/FusedTensor`
    #[default]
    FusedTensor,
    /// `isaac_ros_tensor_list_interfaces/msg/TensorList`, of Isaac ROS 4.
    IsaacTensorList,
}

impl OutputType {
    /// The name of the type.
    pub(crate) const fn ros_type(self) -> &'static str {
        match self {
            OutputType::FusedTensor => "robocache_ros/msg/FusedTensor",
            OutputType::IsaacTensorList => "isaac_ros_tensor_list_interfaces/msg/TensorList",
        }
    }
}

/// A parameter, as the parameter services show it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Declared {
    /// The name.
    pub name: &'static str,
    /// Meaning of the parameter, with its unit.
    pub description: &'static str,
    /// Its value.
    pub value: ParameterValue,
}

/// An error of a value: what was expected, and what was found.
type Wrong = (&'static str, String);

/// A parameter: its name, its description, and its type.
struct Parameter(&'static str, &'static str, ParameterType);

/// The type of a parameter, with its default and with what its value sets.
enum ParameterType {
    Bool(bool, fn(&mut Settings, bool)),
    Integer(i64, fn(&mut Settings, i64) -> Result<(), Wrong>),
    Double(f64, fn(&mut Settings, f64) -> Result<(), Wrong>),
    Text(&'static str, fn(&mut Settings, &str) -> Result<(), Wrong>),
    /// Texts; none by default.
    Texts(fn(&mut Settings) -> &mut Vec<String>),
    /// Numbers of processors; none by default.
    Cpus(fn(&mut Settings) -> &mut Vec<usize>),
}

/// The parameters of the node. Each stands here alone: with its name, its description, its type and default, and the
/// field of [`Settings`] that it sets.
static PARAMETERS: &[Parameter] = &[
    Parameter(
        "config_file",
        "Path of the configuration (YAML): config/robocache.yaml explains it, and `robocache check FILE` checks it. Required; with \
         `managed` before the node is configured.",
        ParameterType::Text("", |it, path| {
            it.config_file = path.into();
            Ok(())
        }),
    ),
    Parameter(
        MANAGED,
        "Whether the node is a lifecycle node, which requests configure and activate. Its other parameters are read when it is \
         configured.",
        // It decides which node reads the others.
        ParameterType::Bool(false, |_, _| {}),
    ),
    Parameter(
        "backend",
        "Where tensors are computed: auto, cpu or cuda.",
        ParameterType::Text("auto", |it, name| {
            it.backend = name.parse().map_err(|_| (Choice::NAMES, format!("'{name}'")))?;
            Ok(())
        }),
    ),
    Parameter(
        "device",
        "Number of the GPU for the cuda backend.",
        ParameterType::Integer(0, |it, number| {
            let expected = "the number of a GPU, 0 or more";
            it.device = u32::try_from(number).map_err(|_| (expected, number.to_string()))?;
            Ok(())
        }),
    ),
    Parameter(
        "use_sim_time",
        "Tick by /clock instead of the system's clock.",
        ParameterType::Bool(false, |it, yes| it.use_sim_time = yes),
    ),
    Parameter(
        "rate_hz",
        "Rate of the ticks [Hz]; 0 takes the configuration's.",
        ParameterType::Double(0.0, |it, rate| {
            it.rate_hz = (rate != 0.0).then_some(rate);
            match it.rate_hz {
                Some(rate) if !is_rate(rate) => {
                    Err(("a rate in Hz from 0.1 to 2000, or 0", rate.to_string()))
                }
                _ => Ok(()),
            }
        }),
    ),
    Parameter(
        "realtime_priority",
        "Real-time priority (SCHED_FIFO, 1 to 99) of the tick thread, if the system permits it; 0: ordinary priority.",
        ParameterType::Integer(20, |it, value| {
            it.threads.tick.priority = priority(value)?;
            Ok(())
        }),
    ),
    Parameter(
        "intake_priority",
        "Real-time priority (SCHED_FIFO, 1 to 99) of the thread that receives small messages; \
                      0: ordinary priority.",
        ParameterType::Integer(0, |it, value| {
            it.intake.priority = priority(value)?;
            Ok(())
        }),
    ),
    Parameter(
        "encode_threads",
        "Threads that encode images and clouds; 0: by streams and processors.",
        ParameterType::Integer(0, |it, threads| {
            let in_range = usize::try_from(threads).ok().filter(|n| *n <= MAX_ENCODE_THREADS);
            let expected = "a number of threads from 0 to 64";
            let number = in_range.ok_or((expected, threads.to_string()))?;
            it.threads.encode_threads = (number > 0).then_some(number);
            Ok(())
        }),
    ),
    Parameter(
        "tick_cpus",
        "Processors of the tick thread; empty: all.",
        ParameterType::Cpus(|it| &mut it.threads.tick.cpus),
    ),
    Parameter(
        "publish_cpus",
        "Processors of the publishing thread; empty: all.",
        ParameterType::Cpus(|it| &mut it.threads.publish_cpus),
    ),
    Parameter(
        "intake_cpus",
        "Processors of the receiving threads; empty: all.",
        ParameterType::Cpus(|it| &mut it.intake.cpus),
    ),
    Parameter(
        "encode_cpus",
        "Processors of the encode threads; empty: all.",
        ParameterType::Cpus(|it| &mut it.threads.encode.cpus),
    ),
    Parameter(
        "commands",
        "Whether commands are made from the start on, or only when the service ~/enable_commands asks for them: disabled or \
         enabled.",
        ParameterType::Text("disabled", |it, word| {
            it.commands = match word {
                "disabled" => CommandsAtStart::Disabled,
                "enabled" => CommandsAtStart::Enabled,
                _ => return Err(("disabled or enabled", format!("'{word}'"))),
            };
            Ok(())
        }),
    ),
    Parameter(
        "command_priority",
        "Real-time priority (SCHED_FIFO, 1 to 99) of the command thread; 0: ordinary priority.",
        ParameterType::Integer(21, |it, value| {
            it.threads.command.priority = priority(value)?;
            Ok(())
        }),
    ),
    Parameter(
        "command_cpus",
        "Processors of the command thread; empty: all.",
        ParameterType::Cpus(|it| &mut it.threads.command.cpus),
    ),
    Parameter(
        "lock_memory",
        "Keep the memory of the process from being swapped out (mlockall).",
        ParameterType::Bool(false, |it, yes| it.lock_memory = yes),
    ),
    Parameter(
        "diagnostics_period_s",
        "Time between two messages on /diagnostics [s].",
        ParameterType::Double(1.0, |it, period| {
            if !(0.1..=3600.0).contains(&period) {
                return Err(("a time in seconds from 0.1 to 3600", period.to_string()));
            }
            it.diagnostics_period = Duration::from_secs_f64(period);
            Ok(())
        }),
    ),
    Parameter(
        "digest",
        "Whether each tensor has a digest (XXH3) of all of it.",
        ParameterType::Bool(true, |it, yes| it.digest = yes),
    ),
    Parameter(
        "visualize_hz",
        "Rate at which images and grids are published for RViz and Foxglove [Hz], on <output topic>/view/<stream>; 0: never.",
        ParameterType::Double(0.0, |it, rate| {
            if rate != 0.0 && !(0.1..=60.0).contains(&rate) {
                return Err(("a rate in Hz from 0.1 to 60, or 0", rate.to_string()));
            }
            it.visualize_period = (rate > 0.0).then(|| Duration::from_secs_f64(1.0 / rate));
            Ok(())
        }),
    ),
    Parameter(
        "output_type",
        "Message type of the tensors: fused_tensor, or isaac_tensor_list for nodes of Isaac ROS 4.",
        ParameterType::Text("fused_tensor", |it, name| {
            it.output_type = match name {
                "fused_tensor" => OutputType::FusedTensor,
                "isaac_tensor_list" => OutputType::IsaacTensorList,
                _ => return Err(("fused_tensor or isaac_tensor_list", format!("'{name}'"))),
            };
            Ok(())
        }),
    ),
    Parameter(
        "shared_output",
        "Name under which the tensors are in shared memory, for policies without ROS; empty: they are not.",
        ParameterType::Text("", |it, name| {
            it.shared_output = (!name.is_empty()).then(|| name.to_owned());
            Ok(())
        }),
    ),
    Parameter(
        "record_to",
        "Folder in which each run records what it receives (MCAP), for `robocache replay` and `verify`; empty: nothing is \
         recorded.",
        ParameterType::Text("", |it, folder| {
            it.record_to = (!folder.is_empty()).then(|| folder.into());
            Ok(())
        }),
    ),
    Parameter(
        "episodes_to",
        "Folder in which episodes are recorded (MCAP), each between two requests to the service record, or by record_when; \
         empty: no episodes.",
        ParameterType::Text("", |it, folder| {
            it.episodes_to = (!folder.is_empty()).then(|| folder.into());
            Ok(())
        }),
    ),
    Parameter(
        "record_when",
        "Number of a topic, such as /joy:buttons[0]: an episode begins when it is not zero any more, and ends when it is \
         zero again; empty: only requests begin and end episodes.",
        ParameterType::Text("", |it, text| {
            let parsed = (!text.is_empty()).then(|| text.parse()).transpose();
            let wrong = |_| ("/TOPIC or /TOPIC:PATH, such as /joy:buttons[0]", format!("'{text}'"));
            it.record_when = parsed.map_err(wrong)?;
            Ok(())
        }),
    ),
    Parameter(
        "record_compression",
        "Compression of recordings: none or zstd. With zstd, a recording whose images and clouds are all compressed already \
         stays as it is.",
        ParameterType::Text("none", |it, name| {
            let parsed = name.parse();
            it.record_compression = parsed.map_err(|()| ("none or zstd", format!("'{name}'")))?;
            Ok(())
        }),
    ),
    Parameter(
        "record_max_gb",
        "Most bytes of a recording of record_to [GB]: its oldest files are deleted; 0: no limit.",
        ParameterType::Double(0.0, |it, gigabytes| {
            let expected = "0, or at least 1 [GB]";
            it.record_limits.bytes = limit(gigabytes, 1.0, expected)?.map(|gb| (gb * 1e9) as u64);
            Ok(())
        }),
    ),
    Parameter(
        "record_max_age_s",
        "Time of which a recording of record_to has all messages [s]: older files are deleted; 0: no limit.",
        ParameterType::Double(0.0, |it, seconds| {
            let age = limit(seconds, 10.0, "0, or at least 10 [s]")?;
            it.record_limits.age = age.map(Duration::from_secs_f64);
            Ok(())
        }),
    ),
    Parameter(
        "record_streams",
        "Names of the streams that are recorded; empty: all.",
        ParameterType::Texts(|it| &mut it.record_streams),
    ),
    Parameter(
        "contract",
        "Folder of a policy with a robocache.json: if the node would serve something else, it ends (with `managed`: the configuration fails); empty: no check.",
        ParameterType::Text("", |it, folder| {
            it.contract = (!folder.is_empty()).then(|| folder.into());
            Ok(())
        }),
    ),
];

impl Parameter {
    /// With its default.
    fn declared(&self) -> Declared {
        let Parameter(name, description, kind) = self;
        let value = match *kind {
            ParameterType::Bool(yes, _) => ParameterValue::Bool(yes),
            ParameterType::Integer(number, _) => ParameterValue::Integer(number),
            ParameterType::Double(number, _) => ParameterValue::Double(number),
            ParameterType::Text(text, _) => ParameterValue::String(text.to_owned()),
            ParameterType::Texts(_) => ParameterValue::StringArray(Vec::new()),
            ParameterType::Cpus(_) => ParameterValue::IntegerArray(Vec::new()),
        };
        Declared { name, description, value }
    }

    /// Sets its field.
    fn read(&self, settings: &mut Settings, value: &ParameterValue) -> Result<(), Wrong> {
        match (&self.2, value) {
            (ParameterType::Bool(_, set), ParameterValue::Bool(yes)) => set(settings, *yes),
            (ParameterType::Integer(_, set), ParameterValue::Integer(number)) => {
                set(settings, *number)?;
            }
            (ParameterType::Double(_, set), ParameterValue::Double(number)) => {
                set(settings, *number)?;
            }
            (ParameterType::Text(_, set), ParameterValue::String(text)) => set(settings, text)?,
            (ParameterType::Texts(field), ParameterValue::StringArray(texts)) => {
                field(settings).clone_from(texts);
            }
            (ParameterType::Cpus(field), ParameterValue::IntegerArray(numbers)) => {
                *field(settings) = cpus(numbers)?;
            }
            (_, value) => return Err(("its declared type", with_article(value.type_name()))),
        }
        Ok(())
    }
}

/// Returns the parameters with their defaults. A parameter has the type of its default.
pub(crate) fn declared() -> Vec<Declared> {
    PARAMETERS.iter().map(Parameter::declared).collect()
}

/// True if requests configure and activate the node.
pub(crate) fn is_managed(declared: &[Declared]) -> bool {
    declared.iter().any(|it| it.name == MANAGED && it.value == ParameterValue::Bool(true))
}

/// Replaces the defaults by the given values, from the command line and parameter files. Returns
/// the names that this node does not have: as in every ROS node these are no error, because one
/// file may serve many nodes.
///
/// # Errors
/// An unknown name that is almost a known one, or a value of another type. An integer is accepted
/// for a double.
pub(crate) fn override_declared<'a>(
    declared: &mut [Declared],
    given: impl IntoIterator<Item = (&'a String, &'a ParameterValue)>,
) -> Result<Vec<String>, NodeError> {
    let mut unknown = Vec::new();
    for (name, value) in given {
        let Some(parameter) = declared.iter_mut().find(|d| d.name == name) else {
            let names: Vec<_> = declared.iter().map(|d| d.name).collect();
            match meant(name, &names) {
                Some(near) => {
                    return Err(NodeError::UnknownParameter { name: name.clone(), near });
                }
                None => unknown.push(name.clone()),
            }
            continue;
        };
        parameter.value = match (&parameter.value, value) {
            (ParameterValue::Double(_), ParameterValue::Integer(i)) => {
                ParameterValue::Double(*i as f64)
            }
            (wanted, found) if wanted.type_name() != found.type_name() => {
                return Err(NodeError::Parameter {
                    name: parameter.name,
                    expected: with_article(wanted.type_name()),
                    found: with_article(found.type_name()),
                });
            }
            (_, found) => found.clone(),
        };
    }
    unknown.sort();
    Ok(unknown)
}

/// Returns the parameter that the user probably meant by `name`: one that differs by a few letters,
/// or only by its unit.
fn meant(name: &str, names: &[&'static str]) -> Option<&'static str> {
    let unit = |known: &str| known.strip_prefix(name).is_some_and(|rest| rest.starts_with('_'));
    names.iter().copied().find(|known| unit(known)).or_else(|| nearest(name, names))
}

fn with_article(type_name: &str) -> String {
    match type_name {
        "not set" => "no value".to_owned(),
        "integer" | "integer array" => format!("an {type_name}"),
        _ => format!("a {type_name}"),
    }
}

/// Reads the settings from the declared parameters.
pub(crate) fn settings(declared: &[Declared]) -> Result<Settings, NodeError> {
    let mut settings = Settings::default();
    for (parameter, Declared { name, value, .. }) in PARAMETERS.iter().zip(declared) {
        debug_assert_eq!(parameter.0, *name);
        parameter.read(&mut settings, value).map_err(|(expected, found)| NodeError::Parameter {
            name,
            expected: expected.to_owned(),
            found,
        })?;
    }
    settings.check()?;
    Ok(settings)
}

impl Settings {
    /// Checks that the settings of the recording go together.
    fn check(&self) -> Result<(), NodeError> {
        let wrong = |name, expected: &str, found: &str| {
            let expected = expected.to_owned();
            let found = found.to_owned();
            Err(NodeError::Parameter { name, expected, found })
        };
        match (&self.record_to, &self.episodes_to, &self.record_when) {
            (Some(_), Some(_), _) => {
                wrong("episodes_to", "nothing beside record_to", "a folder for each of them")
            }
            (_, None, Some(when)) => {
                wrong("record_when", "episodes_to with it", &format!("'{when}' alone"))
            }
            (_, Some(_), _) if self.record_limits != RecordLimits::default() => wrong(
                "episodes_to",
                "neither record_max_gb nor record_max_age_s with it",
                "a limit, and no episode is ever deleted",
            ),
            _ => Ok(()),
        }
    }

    /// Reads the configuration file.
    ///
    /// # Errors
    /// No file is given, or it cannot be used.
    pub(crate) fn load(&self) -> Result<Config, NodeError> {
        if self.config_file.as_os_str().is_empty() {
            return Err(NodeError::Parameter {
                name: "config_file",
                expected: "the path of a configuration (--ros-args -p config_file:=PATH)"
                    .to_owned(),
                found: "nothing".to_owned(),
            });
        }
        Ok(config::load_at_rate(&self.config_file, self.rate_hz)?)
    }
}

/// Reads a limit that is at least `least`; 0 for none.
fn limit(value: f64, least: f64, expected: &'static str) -> Result<Option<f64>, Wrong> {
    // More would be more than any disk has.
    const MOST: f64 = 1e9;
    match value {
        0.0 => Ok(None),
        _ if (least..=MOST).contains(&value) => Ok(Some(value)),
        _ => Err((expected, value.to_string())),
    }
}

/// Reads a real-time priority.
fn priority(value: i64) -> Result<u8, Wrong> {
    let in_range = u8::try_from(value).ok().filter(|priority| *priority <= 99);
    in_range.ok_or(("a priority from 0 to 99", value.to_string()))
}

/// Reads the numbers of processors.
fn cpus(numbers: &[i64]) -> Result<Vec<usize>, Wrong> {
    let cpu = |number: &i64| usize::try_from(*number).ok().filter(|cpu| *cpu < MAX_CPUS);
    let all: Option<Vec<usize>> = numbers.iter().map(cpu).collect();
    all.ok_or_else(|| ("numbers of processors from 0 to 1023", format!("{numbers:?}")))
}

/// True if the rate is in the range that `rate_hz` of the configuration has.
fn is_rate(rate_hz: f64) -> bool {
    (0.1..=2000.0).contains(&rate_hz) && TickGrid::from_rate_hz(rate_hz).is_some()
}

#[cfg(test)]
mod tests;
