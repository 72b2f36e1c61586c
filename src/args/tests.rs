use super::*;
use tracing::Level;

fn parse_line(line: &str) -> Result<Invocation, String> {
    parse(line.split_whitespace().map(str::to_owned))
}

#[test]
fn plain_arguments_are_checked_and_ros_arguments_are_not() {
    assert_eq!(parse_line("--help --ros-args"), Ok(Invocation::Help));
    assert_eq!(parse_line("--ros-args -p a:=b -- -V"), Ok(Invocation::Version));
    let error = parse_line("--config x.yaml").unwrap_err();
    assert!(error.contains("found '--config'"), "{error}");
    let line = "--ros-args -r a:=b --log-level rcl:=debug --log-level warn -r __ns:=/left";
    let expected = RosArgs { log_level: Some("warn".into()) };
    assert_eq!(parse_line(line), Ok(Invocation::Run(expected)));
}

#[test]
fn another_connection_reads_no_file_of_parameters_again() {
    let words = |line: &str| line.split_whitespace().map(OsString::from).collect::<Vec<_>>();
    let of = |line: &str| without_files(words(line));
    // As `ros2 launch` starts the node.
    let line = "node --ros-args --log-level info --ros-args -r __node:=n -r __ns:=/left --params-file /tmp/launch_params_x \
                --params-file /etc/robot.yaml -r a:=b -p rate_hz:=5.0";
    let kept = "node --ros-args --log-level info --ros-args -r __node:=n -r __ns:=/left -r a:=b -p rate_hz:=5.0";
    assert_eq!(of(line), words(kept));
    // Elsewhere it is no argument of ROS; at the end it names no file.
    let other = "node --params-file x --ros-args -r a:=b -- --params-file y";
    assert_eq!(of(other), words(other));
    assert_eq!(of("node --ros-args --params-file"), words("node --ros-args"));
    assert!(of("").is_empty());
}

#[test]
fn the_level_of_the_nodes_own_logger_counts() {
    let level = |line: &str| match parse_line(&format!("--ros-args {line}")) {
        Ok(Invocation::Run(RosArgs { log_level })) => log_level,
        other => panic!("{other:?}"),
    };
    let found = [
        ("", None),
        ("--log-level debug", Some("debug")),
        ("--log-level rcl:=debug", None),
        ("--log-level fusion_node:=debug", Some("debug")),
        ("--log-level fusion_node:=debug --log-level warn", Some("debug")),
        ("--log-level fusion_node:=debug --log-level fusion_node:=error", Some("error")),
        ("--log-level fusion_node_2:=debug --log-level warn", Some("warn")),
        // The logger has the name and the namespace that the node gets.
        ("--log-level fusion_node:=debug -r __node:=arm", None),
        ("--log-level arm:=debug -r __node:=arm", Some("debug")),
        ("--log-level arm:=debug --remap fusion_node:__node:=arm", Some("debug")),
        ("--log-level arm:=debug -r other:__node:=arm", None),
        ("-r __ns:=/left/hand --log-level left.hand.fusion_node:=debug", Some("debug")),
        ("-r __ns:=/left/hand --log-level left.hand:=debug --log-level warn", Some("debug")),
        ("-r __ns:=/left/hand --log-level fusion_node:=debug", None),
        ("--log-level", None),
        ("-r", None),
        ("--log-level :=", Some("")),
    ];
    for (line, expected) in found {
        assert_eq!(level(line).as_deref(), expected, "{line}");
    }
}

#[test]
fn at_debug_the_node_speaks_and_its_libraries_do_not() {
    let args = |level: &str| RosArgs { log_level: Some(level.to_owned()) };
    let debug = targets(directives(&args("DEBUG"))).unwrap();
    assert!(debug.would_enable("robocache_link::intake", &Level::DEBUG));
    assert!(!debug.would_enable("iceoryx2", &Level::DEBUG));
    assert!(debug.would_enable("iceoryx2", &Level::INFO));
    assert_eq!(directives(&args("warn")), "warn");
    assert_eq!(directives(&args("loud")), "info", "rcl refuses it");
}

#[test]
fn words_of_filters_are_read_or_refused() {
    let at = |words: &str, module: &str| {
        let targets = targets(words).unwrap();
        [Level::ERROR, Level::INFO, Level::DEBUG, Level::TRACE]
            .map(|level| targets.would_enable(module, &level))
    };
    let info = [true, true, false, false];
    for words in ["info", "info,", " info ,, robocache_runtime=debug", "rcl=off,INFO"] {
        assert_eq!(at(words, "robocache_link::intake"), info, "{words}");
    }
    assert_eq!(at("info, robocache_runtime=debug", "robocache_runtime::tick")[2..], [true, false]);
    assert_eq!(at("robocache=debug", "rcl"), [false; 4]);
    assert_eq!(at("robocache", "robocache"), [true; 4]);
    for word in ["robocache=", "robocache[tick]=debug", "=debug", "robocache=loud", "a b"] {
        assert_eq!(targets(&format!("info,{word}")).unwrap_err(), word);
    }
}
