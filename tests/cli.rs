//! The command line as a user meets it: output, errors and exit codes.

use std::path::Path;
use std::process::{Command, Output};

fn robocache(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_robocache"))
        .args(args)
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")))
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn check_prints_a_table() {
    let output = robocache(&["check", "config/robocache.yaml"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(output.stderr.is_empty());
    let table = text(&output.stdout);
    let columns = |name: &str| -> Vec<String> {
        let line = table.lines().find(|line| line.starts_with(name)).unwrap();
        line.split("  ").map(|cell| cell.trim().to_owned()).filter(|c| !c.is_empty()).collect()
    };
    let head = ["segment", "type", "topic", "strategy", "shape", "dtype", "bytes", "offset"];
    assert_eq!(columns("segment")[..8], head);
    assert_eq!(
        columns("joints"),
        [
            "joints",
            "sensor_msgs/msg/JointState",
            "/joint_states",
            "linear",
            "[16, 28]",
            "f32",
            "1792",
            "1126400",
            "1024 (114.8 kB)",
            "tick - 170 ms to tick - 20 ms, 10 ms apart",
        ]
    );
    assert_eq!(columns("lidar")[4..8], ["[1, 2, 32, 64, 64]", "bf16", "524288", "602112"]);
    assert!(table.contains("1128640 bytes per tick, 112.9 MB/s"), "{table}");
}

#[test]
fn check_prints_json() {
    let output = robocache(&["check", "--json", "config/robocache.yaml"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["bytes_per_tick"], 1_128_640);
    assert_eq!(report["period_ns"], 10_000_000);
    let joints = &report["segments"][3];
    assert_eq!(joints["name"], "joints");
    assert_eq!(joints["type"], "sensor_msgs/msg/JointState");
    assert_eq!(joints["shape"], serde_json::json!([16, 28]));
    assert_eq!(joints["byte_offset"], 1_126_400);
    let targets = joints["targets_ns"].as_array().unwrap();
    assert_eq!(
        (targets.len(), &targets[0], &targets[15]),
        (16, &(-170_000_000).into(), &(-20_000_000).into())
    );
}

#[test]
fn check_prints_all_errors_and_fails() {
    let file = "tests/configs/bad/several.yaml";
    let output = robocache(&["check", file]);
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    let announced =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap();
    let expected: Vec<_> = announced
        .lines()
        .map_while(|line| line.strip_prefix("# expect: "))
        .map(|line| format!("tests/configs/bad/{line}\n"))
        .collect();
    assert!(expected.len() > 1);
    assert_eq!(text(&output.stderr), expected.concat());
}

#[test]
fn a_missing_file_and_a_wrong_command_line_differ() {
    let missing = robocache(&["check", "no_such.yaml"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(text(&missing.stderr).starts_with("no_such.yaml: expected a readable configuration"));
    assert_eq!(robocache(&["check"]).status.code(), Some(2));
    assert_eq!(robocache(&["chekc"]).status.code(), Some(2));
}

#[test]
fn help_explains_the_command_and_its_exit_codes() {
    let help = robocache(&["check", "--help"]);
    assert_eq!(help.status.code(), Some(0));
    let help = text(&help.stdout);
    for word in ["--json", "Exit code", "config/robocache.yaml"] {
        assert!(help.contains(word), "{word} is missing:\n{help}");
    }
}

/// A second of a soak: its exit code, what it printed, and its report.
fn soak(arguments: &[&str]) -> (Output, serde_json::Value) {
    let json = std::env::temp_dir().join(format!("robocache_soak_{}.json", std::process::id()));
    let always = ["bench", "--backend", "cpu", "--soak-s", "1", "--json", json.to_str().unwrap()];
    let output = robocache(&[&always[..], arguments].concat());
    let report = std::fs::read_to_string(&json);
    let report = report.unwrap_or_else(|error| panic!("{error}: {}", text(&output.stderr)));
    std::fs::remove_file(&json).unwrap();
    (output, serde_json::from_str(&report).unwrap())
}

#[test]
fn bench_soaks_and_tells_what_it_found() {
    const MOST_RUNS: usize = 20;
    let mut compared = 0;
    // A machine that is busy with other things may be late with all that is to be compared: what
    // the times are depends on it, but not which bits are right.
    for _ in 0..MOST_RUNS {
        let (output, report) = soak(&["--random-sizes"]);
        let (table, errors) = (text(&output.stdout), text(&output.stderr));
        assert!(table.contains("ticks at 1 kHz for 1 s, random sizes"), "{table}{errors}");
        let soak = &report["soak"];
        let number = |key: &str| soak[key].as_u64().unwrap_or_else(|| panic!("{key}: {soak}"));
        assert_eq!(number("ticks") + number("overruns"), 1000);
        assert!(number("overruns_by_ticks") + number("overruns_by_copies") <= number("overruns"));
        assert_eq!(number("images") + number("clouds") + number("refused"), 2 * 30 + 10);
        assert_eq!(number("planned"), 2);
        assert!(number("compared") + number("unsettled") <= 2);
        let problems = soak["problems"].as_array().unwrap();
        let of_time = ["overruns: ", "refused pushes: ", "comparisons: "];
        for problem in problems.iter().map(|problem| problem.as_str().unwrap()) {
            assert!(of_time.iter().any(|start| problem.starts_with(start)), "{problem}");
            assert!(errors.contains(problem), "{problem}: {errors}");
        }
        assert_eq!(output.status.code(), Some(i32::from(!problems.is_empty())), "{errors}");
        // Nothing compared is a failure.
        assert!(number("compared") > 0 || !problems.is_empty(), "{table}");
        compared = number("compared");
        if compared > 0 {
            break;
        }
    }
    assert!(compared > 0, "none of {MOST_RUNS} runs compared a tick");
}

#[test]
fn options_of_a_soak_are_refused_without_one() {
    for argument in ["--random-sizes", "--no-overruns"] {
        let output = robocache(&["bench", argument]);
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains("--soak-s <SECONDS>"));
    }
}

#[test]
fn bench_runs_the_cases_that_are_asked_for() {
    let only = ["bench", "--backend", "cpu", "--repeats", "1", "--case"];
    let json = std::env::temp_dir().join(format!("robocache_case_{}.json", std::process::id()));
    let output =
        robocache(&[&only[..], &["640x480 rgb8", "--json", json.to_str().unwrap()]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let report: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    std::fs::remove_file(&json).unwrap();
    let names: Vec<_> =
        report["cases"].as_array().unwrap().iter().map(|case| &case["name"]).collect();
    assert_eq!(names, ["push of a 640x480 rgb8 image (host clock)"]);

    // One repeat ends before the first cloud, which this case has to wait for.
    let output = robocache(&[&only[..], &["push of 131072 points"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    assert_eq!(table.lines().filter(|line| line.contains("(host clock)")).count(), 1, "{table}");
    assert!(table.contains("push of 131072 points, 64x64x32 (host clock)"), "{table}");
}

#[test]
fn a_case_that_is_not_there_is_told_which_are() {
    let output = robocache(&["bench", "--backend", "cpu", "--case", "tock"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    let expected = "case: expected a part of one of these names, found \"tock\"
  tick, 301 kB all new (host clock)
  push of a 640x480 rgb8 image (host clock)
  tick, reference robot, 1128 kB (host clock)
  push of 131072 points, 64x64x32 (host clock)
";
    assert_eq!(text(&output.stderr), expected);
    let with_soak = robocache(&["bench", "--case", "tick", "--soak-s", "1"]);
    assert_eq!(with_soak.status.code(), Some(2));
}
