//! The deployment settings: ROS parameters, read and checked once at the start, or when a managed node is configured.

use std::path::PathBuf;
use std::time::Duration;

use r2r::ParameterValue;

use super::error::NodeError;
use robocache_core::backend::Choice;
use robocache_core::config::{self, nearest};
use robocache_core::spec::Config;
use robocache_ops::time::TickGrid;
use robocache_runtime::{Placement, ThreadOptions};

/// The parameter that makes the node a lifecycle node. It does not change.
pub(crate) const MANAGED: &str = "managed";
/// Most threads that encode images and clouds.
const MAX_ENCODE_THREADS: usize = 64;
/// The system's set of processors has room for this many.
const MAX_CPUS: usize = 1024;

/// The parameters, checked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Settings {
    /// The configuration file; empty: none is given yet.
    pub config_file: PathBuf,
    /// Where tensors are computed.
    pub backend: Choice,
    /// Number of the GPU.
    pub device: u32,
    /// Whether `/clock` is the node's clock.
    pub use_sim_time: bool,
    /// How the runtime's own threads run.
    pub threads: ThreadOptions,
    /// Where the spin threads run. The one of images and clouds has ordinary priority.
    pub intake: Placement,
    /// Whether the memory of the process must not be swapped out.
    pub lock_memory: bool,
    /// Rate of the ticks \[Hz\]; `None`: the rate of the configuration.
    pub rate_hz: Option<f64>,
    /// Time between two messages on `/diagnostics`.
    pub diagnostics_period: Duration,
    /// Whether each tensor has a digest.
    pub digest: bool,
    /// Time between two publications of images and grids for people; `None`: never.
    pub visualize_period: Option<Duration>,
    /// The message type of the tensors.
    pub output_type: OutputType,
    /// The name under which the tensors are in shared memory; `None`: they are not.
    pub shared_output: Option<String>,
    /// The folder in which each run records what it receives; `None`: nothing is recorded.
    pub record_to: Option<PathBuf>,
    /// Where the contract of the policy is; `None`: any configuration is served.
    pub contract: Option<PathBuf>,
}

/// The message type of the tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputType {
    /// `robocache_ros/msg/FusedTensor`
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
    /// What it means, with its unit.
    pub description: &'static str,
    /// Its value.
    pub value: ParameterValue,
}

/// Returns the parameters with their defaults. A parameter has the type of its default.
pub(crate) fn declared() -> Vec<Declared> {
    let text = |value: &str| ParameterValue::String(value.to_owned());
    let none = || ParameterValue::IntegerArray(Vec::new());
    let parameter = |name, value, description| Declared { name, description, value };
    vec![
        parameter(
            "config_file",
            text(""),
            "Path of the configuration (YAML). Required; with `managed` before the node is configured.",
        ),
        parameter(
            MANAGED,
            ParameterValue::Bool(false),
            "Whether the node is a lifecycle node, which requests configure and activate.",
        ),
        parameter("backend", text("auto"), "Where tensors are computed: auto, cpu or cuda."),
        parameter("device", ParameterValue::Integer(0), "Number of the GPU for the cuda backend."),
        parameter(
            "use_sim_time",
            ParameterValue::Bool(false),
            "Tick by /clock instead of the system's clock.",
        ),
        parameter(
            "rate_hz",
            ParameterValue::Double(0.0),
            "Rate of the ticks [Hz]; 0 takes the configuration's.",
        ),
        parameter(
            "realtime_priority",
            ParameterValue::Integer(20),
            "Real-time priority (SCHED_FIFO, 1 to 99) of the tick thread; 0: ordinary priority.",
        ),
        parameter(
            "intake_priority",
            ParameterValue::Integer(0),
            "Real-time priority (SCHED_FIFO, 1 to 99) of the thread that receives small messages; \
             0: ordinary priority.",
        ),
        parameter(
            "encode_threads",
            ParameterValue::Integer(0),
            "Threads that encode images and clouds; 0: by streams and processors.",
        ),
        parameter("tick_cpus", none(), "Processors of the tick thread; empty: all."),
        parameter("publish_cpus", none(), "Processors of the publishing thread; empty: all."),
        parameter("intake_cpus", none(), "Processors of the receiving threads; empty: all."),
        parameter("encode_cpus", none(), "Processors of the encode threads; empty: all."),
        parameter(
            "lock_memory",
            ParameterValue::Bool(false),
            "Keep the memory of the process from being swapped out (mlockall).",
        ),
        parameter(
            "diagnostics_period_s",
            ParameterValue::Double(1.0),
            "Time between two messages on /diagnostics [s].",
        ),
        parameter(
            "digest",
            ParameterValue::Bool(true),
            "Whether each tensor has a digest (XXH3) of all of it.",
        ),
        parameter(
            "visualize_hz",
            ParameterValue::Double(0.0),
            "Rate at which images and grids are published for RViz and Foxglove [Hz]; 0: never.",
        ),
        parameter(
            "output_type",
            text("fused_tensor"),
            "Message type of the tensors: fused_tensor, or isaac_tensor_list for nodes of Isaac ROS 4.",
        ),
        parameter(
            "shared_output",
            text(""),
            "Name under which the tensors are in shared memory, for policies without ROS; empty: they are not.",
        ),
        parameter(
            "record_to",
            text(""),
            "Folder in which each run records what it receives (MCAP); empty: nothing is recorded.",
        ),
        parameter(
            "contract",
            text(""),
            "Folder of a policy with a robocache.json: if the node would serve something else, it ends (with `managed`: the configuration fails); empty: no check.",
        ),
    ]
}

/// Whether requests configure and activate the node.
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
    let mut settings = Settings {
        config_file: PathBuf::new(),
        backend: Choice::Auto,
        device: 0,
        use_sim_time: false,
        threads: ThreadOptions::default(),
        intake: Placement::default(),
        lock_memory: false,
        rate_hz: None,
        diagnostics_period: Duration::from_secs(1),
        digest: true,
        visualize_period: None,
        output_type: OutputType::FusedTensor,
        shared_output: None,
        record_to: None,
        contract: None,
    };
    for Declared { name, value, .. } in declared {
        settings.read(name, value).map_err(|(expected, found)| NodeError::Parameter {
            name,
            expected: expected.to_owned(),
            found,
        })?;
    }
    Ok(settings)
}

impl Settings {
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

    /// Reads one parameter; an error says what was expected and what was found.
    fn read(&mut self, name: &str, value: &ParameterValue) -> Result<(), (&'static str, String)> {
        match (name, value) {
            ("config_file", ParameterValue::String(path)) => self.config_file = path.into(),
            // It decides which node reads the others.
            (MANAGED, ParameterValue::Bool(_)) => {}
            ("backend", ParameterValue::String(backend)) => {
                let named = backend.parse();
                self.backend = named.map_err(|_| (Choice::NAMES, format!("'{backend}'")))?;
            }
            ("device", ParameterValue::Integer(device)) => {
                let number = u32::try_from(*device).ok();
                let expected = "the number of a GPU, 0 or more";
                self.device = number.ok_or((expected, device.to_string()))?;
            }
            ("use_sim_time", ParameterValue::Bool(yes)) => self.use_sim_time = *yes,
            ("digest", ParameterValue::Bool(yes)) => self.digest = *yes,
            ("realtime_priority", ParameterValue::Integer(value)) => {
                self.threads.tick.priority = priority(*value)?;
            }
            ("intake_priority", ParameterValue::Integer(value)) => {
                self.intake.priority = priority(*value)?;
            }
            ("encode_threads", ParameterValue::Integer(threads)) => {
                let in_range = usize::try_from(*threads).ok().filter(|n| *n <= MAX_ENCODE_THREADS);
                let expected = "a number of threads from 0 to 64";
                let number = in_range.ok_or((expected, threads.to_string()))?;
                self.threads.encode_threads = (number > 0).then_some(number);
            }
            ("tick_cpus", ParameterValue::IntegerArray(of)) => self.threads.tick.cpus = cpus(of)?,
            ("publish_cpus", ParameterValue::IntegerArray(of)) => {
                self.threads.publish_cpus = cpus(of)?;
            }
            ("intake_cpus", ParameterValue::IntegerArray(of)) => self.intake.cpus = cpus(of)?,
            ("encode_cpus", ParameterValue::IntegerArray(of)) => {
                self.threads.encode.cpus = cpus(of)?;
            }
            ("lock_memory", ParameterValue::Bool(yes)) => self.lock_memory = *yes,
            ("rate_hz", ParameterValue::Double(rate)) => {
                self.rate_hz = (*rate != 0.0).then_some(*rate);
                if self.rate_hz.is_some_and(|rate| !is_rate(rate)) {
                    return Err(("a rate in Hz from 0.1 to 2000, or 0", rate.to_string()));
                }
            }
            ("visualize_hz", ParameterValue::Double(rate)) => {
                if *rate != 0.0 && !(0.1..=60.0).contains(rate) {
                    return Err(("a rate in Hz from 0.1 to 60, or 0", rate.to_string()));
                }
                self.visualize_period = (*rate > 0.0).then(|| Duration::from_secs_f64(1.0 / rate));
            }
            ("output_type", ParameterValue::String(name)) => {
                self.output_type = match name.as_str() {
                    "fused_tensor" => OutputType::FusedTensor,
                    "isaac_tensor_list" => OutputType::IsaacTensorList,
                    _ => {
                        let expected = "fused_tensor or isaac_tensor_list";
                        return Err((expected, format!("'{name}'")));
                    }
                };
            }
            ("shared_output", ParameterValue::String(name)) => {
                self.shared_output = (!name.is_empty()).then(|| name.clone());
            }
            ("record_to", ParameterValue::String(folder)) => {
                self.record_to = (!folder.is_empty()).then(|| folder.into());
            }
            ("contract", ParameterValue::String(folder)) => {
                self.contract = (!folder.is_empty()).then(|| folder.into());
            }
            ("diagnostics_period_s", ParameterValue::Double(period)) => {
                if !(0.1..=3600.0).contains(period) {
                    return Err(("a time in seconds from 0.1 to 3600", period.to_string()));
                }
                self.diagnostics_period = Duration::from_secs_f64(*period);
            }
            (_, value) => return Err(("its declared type", with_article(value.type_name()))),
        }
        Ok(())
    }
}

/// Reads a real-time priority.
fn priority(value: i64) -> Result<u8, (&'static str, String)> {
    let in_range = u8::try_from(value).ok().filter(|priority| *priority <= 99);
    in_range.ok_or(("a priority from 0 to 99", value.to_string()))
}

/// Reads the numbers of processors.
fn cpus(numbers: &[i64]) -> Result<Vec<usize>, (&'static str, String)> {
    let cpu = |number: &i64| usize::try_from(*number).ok().filter(|cpu| *cpu < MAX_CPUS);
    let all: Option<Vec<usize>> = numbers.iter().map(cpu).collect();
    all.ok_or_else(|| ("numbers of processors from 0 to 1023", format!("{numbers:?}")))
}

/// Whether the rate is in the range that `rate_hz` of the configuration has.
fn is_rate(rate_hz: f64) -> bool {
    (0.1..=2000.0).contains(&rate_hz) && TickGrid::from_rate_hz(rate_hz).is_some()
}

#[cfg(test)]
mod tests;
