//! The command line: plain arguments, and what lies between `--ros-args` and `--`.

use tracing_subscriber::EnvFilter;

/// Text of `fusion_node --help`.
pub const HELP: &str = "\
fusion_node: every sensor stream at the same instants, in one tensor per control tick

Usage: fusion_node --ros-args -p config_file:=PATH [-p NAME:=VALUE]... [ROS ARGUMENTS]
       ros2 run robocache_ros fusion_node --ros-args -p config_file:=PATH

Parameters (-p NAME:=VALUE, or --params-file FILE.yaml); read at start, read-only afterwards:
  config_file           string  required     the streams and the tensor, a YAML file; see
                                             config/robocache.yaml and `robocache check FILE`
  backend               string  auto         where tensors are computed: auto, cpu or cuda
  device                int     0            number of the GPU for the cuda backend
  use_sim_time          bool    false        tick by /clock instead of the system's clock
  rate_hz               double  0.0 [Hz]     rate of the ticks; 0: as the configuration says
  realtime_priority     int     20           of the tick thread (SCHED_FIFO, 1 to 99), where the
                                             system permits it; 0: ordinary priority
  diagnostics_period_s  double  1.0 [s]      time between two messages on /diagnostics
Parameters of other names are passed over with a warning; one that is nearly one of these ends the
node.

ROS arguments (after --ros-args) work as in every node:
  -r FROM:=TO           remap a topic, or the node with __node:=NAME and __ns:=/NAMESPACE
  --log-level LEVEL     debug, info (default), warn or error; RUST_LOG=FILTER is finer

Subscribes to the topics of the configuration, and to /clock with use_sim_time.
Publishes robocache_ros/msg/FusedTensor on the configuration's output topic (reliable, volatile,
keep_last 1), diagnostic_msgs/msg/DiagnosticArray on /diagnostics and logs on /rosout.

Large messages need a shared-memory segment of at least twice their size at the publisher
(config/fastdds.xml, through FASTRTPS_DEFAULT_PROFILES_FILE); with the middleware's default, most
images and clouds are lost on the way.

Options:
  -h, --help            this text
  -V, --version         the version

Ends with exit code 0 on SIGINT or SIGTERM, 1 on an error, 2 on a wrong command line.
";

/// What the command line asks for.
#[derive(Debug, PartialEq, Eq)]
pub enum Invocation {
    /// To print [`HELP`].
    Help,
    /// To print the version.
    Version,
    /// To run.
    Run(RosArgs),
}

/// The ROS arguments that this program looks at itself; the middleware gets all of them.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct RosArgs {
    /// `FROM:=TO` rules, in order.
    pub remaps: Vec<String>,
    /// The last `--log-level` without a logger's name.
    pub log_level: Option<String>,
}

/// Reads the arguments after the program's name. On error the text says what was expected.
pub fn parse(args: impl IntoIterator<Item = String>) -> Result<Invocation, String> {
    let mut ros_args = RosArgs::default();
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
            (true, "-r" | "--remap") => ros_args.remaps.extend(args.next()),
            (true, "--log-level") => {
                // NAME:=LEVEL sets another logger's level, which is not ours.
                let level = args.next().filter(|level| !level.contains(":="));
                ros_args.log_level = level.or(ros_args.log_level);
            }
            (true, rule) if rule.starts_with("__") => ros_args.remaps.push(arg),
            (true, _) => {}
        }
    }
    Ok(Invocation::Run(ros_args))
}

/// The log filter: `RUST_LOG`, else `--log-level`, else `info`.
pub fn log_filter(args: &RosArgs) -> EnvFilter {
    let level = match args.log_level.as_deref().map(str::to_ascii_lowercase).as_deref() {
        Some("debug") => "debug",
        Some("warn") => "warn",
        Some("error" | "fatal") => "error",
        _ => "info",
    };
    EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level))
}

/// Expands a topic to its full name as rcl does: `~` is the node, a relative name is below its
/// namespace. `node` is the fully qualified name.
fn expand(topic: &str, namespace: &str, node: &str) -> String {
    match topic.strip_prefix('~') {
        Some(rest) => format!("{node}/{}", rest.trim_start_matches('/')),
        None if topic.starts_with('/') => topic.to_owned(),
        None => format!("{}/{topic}", namespace.trim_end_matches('/')),
    }
}

/// The full name under which rcl subscribes to `topic`: expanded, then remapped by the first rule
/// that matches. r2r does not expose rcl's own answer; this one serves to ask the graph for
/// publishers and to tell people, never to subscribe.
pub fn resolve_topic(topic: &str, remaps: &[String], namespace: &str, node: &str) -> String {
    let full = expand(topic, namespace, node);
    let name = node.rsplit('/').next().unwrap_or(node);
    for (from, to) in remaps.iter().filter_map(|rule| rule.split_once(":=")) {
        let from = match from.split_once(':') {
            Some(("rostopic", _)) | None => from,
            // `NODE:FROM:=TO` is for that node alone.
            Some((only, from)) if only == name => from,
            Some(_) => continue,
        };
        let strip = |topic: &str| topic.strip_prefix("rostopic://").unwrap_or(topic).to_owned();
        if !from.starts_with("__") && expand(&strip(from), namespace, node) == full {
            return expand(&strip(to), namespace, node);
        }
    }
    full
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_line(line: &str) -> Result<Invocation, String> {
        parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn plain_arguments_are_checked_and_ros_arguments_passed_over() {
        assert_eq!(parse_line("--help --ros-args"), Ok(Invocation::Help));
        assert_eq!(parse_line("--ros-args -p a:=b -- -V"), Ok(Invocation::Version));
        let error = parse_line("--config x.yaml").unwrap_err();
        assert!(error.contains("found '--config'"), "{error}");
        let line = "--ros-args -r a:=b --log-level rcl:=debug --log-level warn -r __ns:=/left";
        let expected = RosArgs {
            remaps: vec!["a:=b".into(), "__ns:=/left".into()],
            log_level: Some("warn".into()),
        };
        assert_eq!(parse_line(line), Ok(Invocation::Run(expected)));
    }

    #[test]
    fn topics_resolve_as_rcl_resolves_them() {
        let rules =
            ["joints:=/arm/joints", "other:~/raw:=/wrong", "fusion:/imu:=imu_raw", "__ns:=/left"];
        let rules = rules.map(str::to_owned);
        let resolve = |topic| resolve_topic(topic, &rules, "/left", "/left/fusion");
        assert_eq!(resolve("joints"), "/arm/joints");
        assert_eq!(resolve("/left/joints"), "/arm/joints");
        assert_eq!(resolve("/joints"), "/joints");
        assert_eq!(resolve("~/raw"), "/left/fusion/raw");
        assert_eq!(resolve("/imu"), "/left/imu_raw");
        assert_eq!(resolve_topic("scan", &[], "/", "/fusion"), "/scan");
    }
}
