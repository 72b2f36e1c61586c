//! The benchmark's command line as a user meets it: output, errors and exit codes.

use std::process::{Command, Output};

fn robocache_bench(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_robocache_bench")).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A second of a soak: its exit code, what it printed, and its report.
fn soak(arguments: &[&str]) -> (Output, serde_json::Value) {
    let json = std::env::temp_dir().join(format!("robocache_soak_{}.json", std::process::id()));
    let always = ["--backend", "cpu", "--soak-s", "1", "--json", json.to_str().unwrap()];
    let output = robocache_bench(&[&always[..], arguments].concat());
    let report = std::fs::read_to_string(&json);
    let report = report.unwrap_or_else(|error| panic!("{error}: {}", text(&output.stderr)));
    std::fs::remove_file(&json).unwrap();
    (output, serde_json::from_str(&report).unwrap())
}

/// On a busy machine ticks and messages may be too late to compare anything: soak/check/tests.rs shows that the
/// comparison finds what differs. Here each tick and each message is counted once, whatever the load is.
#[test]
fn bench_soaks_and_tells_what_it_found() {
    let (output, report) = soak(&["--random-sizes"]);
    let table = text(&output.stdout);
    let errors = text(&output.stderr);
    assert!(table.contains("ticks at 1 kHz for 1 s, random sizes"), "{table}{errors}");
    let soak = &report["soak"];
    let number = |key: &str| soak[key].as_u64().unwrap_or_else(|| panic!("{key}: {soak}"));
    assert_eq!(number("ticks") + number("overruns"), 1000);
    assert!(number("overruns_by_ticks") + number("overruns_by_copies") <= number("overruns"));
    let lost = number("refused") + number("skipped");
    assert_eq!(number("images") + number("clouds") + lost, 2 * 30 + 10);
    assert_eq!(number("planned"), 2);
    assert!(number("compared") + number("unsettled") <= 2);
    let problems = soak["problems"].as_array().unwrap();
    let problems: Vec<_> = problems.iter().map(|problem| problem.as_str().unwrap()).collect();
    for problem in &problems {
        let of_time = ["overruns: ", "refused pushes: ", "comparisons: "];
        assert!(of_time.iter().any(|start| problem.starts_with(start)), "{problem}");
        assert!(errors.contains(problem), "{problem}: {errors}");
    }
    assert_eq!(output.status.code(), Some(i32::from(!problems.is_empty())), "{errors}");
    // Nothing compared is a failure. Otherwise too little may be one.
    let is_told = problems.iter().any(|problem| problem.starts_with("comparisons: "));
    assert!(number("compared") > 0 || is_told, "{table}");
}

#[test]
fn options_of_a_soak_are_refused_without_one() {
    for argument in ["--random-sizes", "--no-overruns"] {
        let output = robocache_bench(&[argument]);
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains("--soak-s <SECONDS>"));
    }
}

#[test]
fn bench_runs_the_cases_that_are_asked_for() {
    let only = ["--backend", "cpu", "--repeats", "1", "--case"];
    let json = std::env::temp_dir().join(format!("robocache_case_{}.json", std::process::id()));
    let output =
        robocache_bench(&[&only[..], &["640x480 rgb8", "--json", json.to_str().unwrap()]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let report: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    std::fs::remove_file(&json).unwrap();
    let names: Vec<_> =
        report["cases"].as_array().unwrap().iter().map(|case| &case["name"]).collect();
    assert_eq!(names, ["push of a 640x480 rgb8 image (host clock)"]);

    // One repeat ends before the first cloud, and this case must wait for that cloud.
    let output = robocache_bench(&[&only[..], &["push of 131072 points"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    assert_eq!(table.lines().filter(|line| line.contains("(host clock)")).count(), 1, "{table}");
    assert!(table.contains("push of 131072 points, 64x64x32 (host clock)"), "{table}");
}

#[test]
fn a_case_that_is_not_there_is_told_which_are() {
    let output = robocache_bench(&["--backend", "cpu", "--case", "tock"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    let expected = "case: expected a part of one of these names, found \"tock\"
  tick, 301 kB all new (host clock)
  push of a 640x480 rgb8 image (host clock)
  tick, reference robot, 1128 kB (host clock)
  push of 131072 points, 64x64x32 (host clock)
  cloud of 131072 points to 128^3, on one core
  the same cloud deskewed, on one core
  the same cloud sparse, on one core
";
    assert_eq!(text(&output.stderr), expected);
    let with_soak = robocache_bench(&["--case", "tick", "--soak-s", "1"]);
    assert_eq!(with_soak.status.code(), Some(2));
}

/// Runs the program of recordings, and returns what it prints.
fn recording(arguments: &[&str]) -> String {
    let run = Command::new(env!("CARGO_BIN_EXE_robocache_recording")).args(arguments).output();
    let run = run.unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    String::from_utf8(run.stdout).unwrap()
}

#[test]
fn a_recording_is_read_encoded_and_ticked() {
    let bag = format!("{}/robot-{}.mcap", env!("CARGO_TARGET_TMPDIR"), std::process::id());
    recording(&["write", &bag, "--seconds", "0.5"]);
    let config = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/robocache.yaml");
    let count = |what: &str| -> u64 {
        let said = recording(&["time", &bag, "--config", config, "--what", what]);
        let said: serde_json::Value = serde_json::from_str(&said).unwrap();
        said["count"].as_u64().unwrap()
    };
    // Joints and wrench at 500 Hz, imu at 200 Hz, two cameras at 30 Hz, a lidar at 10 Hz.
    let messages = count("read");
    assert!((600..=640).contains(&messages), "{messages}");
    assert_eq!(count("rows"), messages);
    assert!((45..=51).contains(&count("ticks")));
    std::fs::remove_file(&bag).unwrap();
}
