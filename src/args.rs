//! The command line: plain arguments, and the ROS arguments between `--ros-args` and `--`.

use std::ffi::OsString;

use r2r::ParameterValue;
use tracing_subscriber::filter::{LevelFilter, Targets};

use super::params;

/// Name of the node before remapping.
pub(super) const NODE_NAME: &str = "fusion_node";

/// Text of `fusion_node --help`, up to the parameters.
const BEFORE_PARAMETERS: &str = "\
fusion_node: every sensor stream at the same instants, in one tensor per control tick

Usage: fusion_node --ros-args -p config_file:=PATH [-p NAME:=VALUE]... [ROS ARGUMENTS]
       ros2 run robocache_ros fusion_node --ros-args -p config_file:=PATH

Parameters (-p NAME:=VALUE, or --params-file FILE.yaml); read at start, read-only afterwards, unless
the node is managed. Each with its type and default:
";

/// Part of the text behind the parameters.
const BEHIND_PARAMETERS: &str = "\
If a parameter has another name, the node ignores it and logs a warning. If the name is almost one
of these, the node exits with code 1.

ROS arguments (after --ros-args), as for every node:
  -r FROM:=TO           remap a topic, or the node with __node:=NAME and __ns:=/NAMESPACE
  --log-level LEVEL     debug, info (default), warn or error; at debug, also the lines of ROS itself
  --log-level fusion_node:=LEVEL
                        of this node alone, whose logger has its name and namespace (left.fusion_node);
                        RUST_LOG=FILTER is finer

Subscribes to the topics of the configuration, and to /clock with use_sim_time.
Publishes robocache_ros/msg/FusedTensor on the configuration's output topic (reliable, volatile,
keep_last 1), and once what it means, robocache_ros/msg/FusedTensorInfo, on <output topic>/info
(reliable, transient local, keep_last 1). Publishes diagnostic_msgs/msg/DiagnosticArray on
/diagnostics and logs on /rosout.

The publisher of large messages needs a shared-memory segment of at least twice their size. This node
sizes its own by its tensor, unless a profile is set. Start the drivers of cameras and lidars with
FASTRTPS_DEFAULT_PROFILES_FILE=config/fastdds.xml. With Fast DDS's default segment, most images and
clouds are lost on the way. CycloneDDS needs larger receive buffers instead: set net.core.rmem_max to
4194304, and start all processes with CYCLONEDDS_URI=file://<path>/config/cyclonedds.xml. `robocache check FILE` prints the sizes.

Options:
  -h, --help            this text
  -V, --version         the version

If ROBOCACHE_HEALTH_FILE names a file, the node writes each report of its diagnostics there, for the
health check of a container. ROBOCACHE_END_S is the time in seconds [4] that the middleware, and the
disk of a recording, have after SIGINT or SIGTERM.

Exits with code 0 after SIGINT or SIGTERM, 1 after an error, 2 if the command line is wrong.
";

/// Text of `fusion_node --help`.
pub fn help() -> String {
    let line = |it: params::Declared| {
        let default = match &it.value {
            ParameterValue::Bool(yes) => yes.to_string(),
            ParameterValue::Integer(number) => number.to_string(),
            ParameterValue::Double(number) => number.to_string(),
            ParameterValue::String(text) if !text.is_empty() => text.clone(),
            _ => "empty".to_owned(),
        };
        let head = format!("  {:<22}{:<15} {default}", it.name, it.value.type_name());
        format!("{}\n      {}\n", head.trim_end(), it.description)
    };
    let parameters: String = params::declared().into_iter().map(line).collect();
    format!("{BEFORE_PARAMETERS}{parameters}{BEHIND_PARAMETERS}")
}

/// Request of the command line.
#[derive(Debug, PartialEq, Eq)]
pub enum Invocation {
    /// Print [`help`].
    Help,
    /// Print the version.
    Version,
    /// Run the node.
    Run(RosArgs),
}

/// The ROS arguments that this program reads itself; rcl gets all of them.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct RosArgs {
    /// Level of the node's logger: of the last `--log-level` that names it, else of one that names a part of its namespace, else
    /// of one that names no logger.
    pub log_level: Option<String>,
}

/// Log levels of the ROS arguments, and the node's names that they need.
struct Logs {
    /// Levels with the loggers that they name; an empty name for all.
    levels: Vec<(String, String)>,
    /// The node's name and namespace, which its logger has.
    node: String,
    namespace: String,
}

impl Default for Logs {
    fn default() -> Self {
        Logs { levels: Vec::new(), node: NODE_NAME.to_owned(), namespace: String::new() }
    }
}

impl Logs {
    /// Notes the value of `--log-level`.
    fn note_level(&mut self, value: &str) {
        let (logger, level) = value.rsplit_once(":=").unwrap_or(("", value));
        self.levels.push((logger.to_owned(), level.to_owned()));
    }

    /// Notes a rule of `--remap`, if it names the node. A rule may begin with the name of one node of the process.
    fn note_rule(&mut self, rule: &str) {
        let Some((from, to)) = rule.split_once(":=") else { return };
        let from = match from.split_once(':') {
            Some((NODE_NAME, from)) => from,
            Some(_) => return,
            None => from,
        };
        match from {
            "__node" | "__name" => to.clone_into(&mut self.node),
            "__ns" => to.clone_into(&mut self.namespace),
            _ => {}
        }
    }

    /// The level of the node's logger. ROS names a logger `NAMESPACE.NAME`, and asks the longest name first.
    fn level(self) -> Option<String> {
        let names = self.namespace.split('/').chain([&*self.node]).filter(|part| !part.is_empty());
        let logger = names.collect::<Vec<_>>().join(".");
        let is_above = |name: &str| {
            let rest = logger.strip_prefix(name);
            rest.is_some_and(|rest| name.is_empty() || rest.is_empty() || rest.starts_with('.'))
        };
        let of_logger = self.levels.into_iter().filter(|(name, _)| is_above(name));
        // Of equal names, the last one counts.
        of_logger.max_by_key(|(name, _)| name.len()).map(|(_, level)| level)
    }
}

/// Reads the arguments after the program's name. An error says what was expected.
pub fn parse(args: impl IntoIterator<Item = String>) -> Result<Invocation, String> {
    let mut logs = Logs::default();
    let mut in_ros = false;
    let mut args = args.into_iter();
    while let Some(arg) = args.next() {
        match (in_ros, arg.as_str()) {
            (false, "--ros-args") => in_ros = true,
            (false, "-h" | "--help") => return Ok(Invocation::Help),
            (false, "-V" | "--version") => return Ok(Invocation::Version),
            (false, other) => {
                return Err(format!(
                    "expected --ros-args, --help or --version, found '{other}' (parameters are \
                     given as --ros-args -p NAME:=VALUE)"
                ));
            }
            (true, "--") => in_ros = false,
            (true, "--log-level") => args.next().iter().for_each(|value| logs.note_level(value)),
            (true, "-r" | "--remap") => args.next().iter().for_each(|rule| logs.note_rule(rule)),
            (true, _) => {}
        }
    }
    Ok(Invocation::Run(RosArgs { log_level: logs.level() }))
}

/// The arguments for another connection of the process: those of the start, without each `--params-file FILE`. The parameters
/// are read at the start, and the file may be gone since then, or hold half of something else. Remaps and what is said of
/// logs stay.
pub(crate) fn without_files(args: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut kept = Vec::new();
    let mut in_ros = false;
    let mut args = args.into_iter();
    while let Some(arg) = args.next() {
        if in_ros && arg == "--params-file" {
            args.next();
            continue;
        }
        in_ros = (in_ros || arg == "--ros-args") && arg != "--";
        kept.push(arg);
    }
    kept
}

/// Returns the log filter: `RUST_LOG`, else `--log-level`, else `info`. If `RUST_LOG` cannot be read, stderr says so.
pub fn log_filter(args: &RosArgs) -> Targets {
    let given = std::env::var_os("RUST_LOG").map(|words| words.to_string_lossy().into_owned());
    match given.as_deref().filter(|words| !words.trim().is_empty()).map(targets) {
        Some(Ok(targets)) => return targets,
        Some(Err(found)) => eprintln!(
            "RUST_LOG: expected levels of modules such as info,robocache_runtime=debug, found '{found}'; the levels are {}",
            directives(args)
        ),
        None => {}
    }
    targets(directives(args)).unwrap_or_default()
}

/// The filter of such words: `LEVEL`, `MODULE=LEVEL`, or `MODULE` for all levels, between commas. An error is the word that is
/// none of these.
fn targets(words: &str) -> Result<Targets, &str> {
    let mut targets = Targets::new();
    for word in words.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        let (module, level) = match word.split_once('=') {
            // An empty level would be one of errors.
            Some((_, "")) => return Err(word),
            Some((module, level)) => (Some(module), level.parse().map_err(|_| word)?),
            None => match word.parse() {
                Ok(level) => (None, level),
                Err(_) => (Some(word), LevelFilter::TRACE),
            },
        };
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
        targets = match module {
            None => targets.with_default(level),
            Some(module) if !module.is_empty() && module.chars().all(is_name) => {
                targets.with_target(module, level)
            }
            Some(_) => return Err(word),
        };
    }
    Ok(targets)
}

/// The filter of the level, in the words of `RUST_LOG`.
fn directives(args: &RosArgs) -> &'static str {
    match args.log_level.as_deref().map(str::to_ascii_lowercase).as_deref() {
        // Not of the libraries: those of shared memory alone say a hundred lines.
        Some("debug") => "info,robocache=debug,fusion_node=debug",
        Some("warn") => "warn",
        Some("error" | "fatal") => "error",
        _ => "info",
    }
}

#[cfg(test)]
mod tests;
