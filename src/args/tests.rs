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
