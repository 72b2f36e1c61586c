use super::*;

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
