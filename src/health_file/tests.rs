use super::*;
use robocache_runtime::health::Status;

fn report(parts: &[(&str, Level, &str)]) -> Report {
    let part = |(part, level, message): &(&str, Level, &str)| Status {
        part: (*part).to_owned(),
        level: *level,
        message: (*message).to_owned(),
        values: Vec::new(),
    };
    Report { stamp: None, parts: parts.iter().map(part).collect() }
}

#[test]
fn the_first_line_is_the_worst_level_and_the_others_say_why() {
    let well = ("tick", Level::Ok, "100.0 Hz");
    let silent = ("camera", Level::Stale, "no message in 3.2 s");
    let held_back = ("tick", Level::Error, "4 held back by 'arm'");
    assert_eq!(text(&report(&[well])), "OK\n");
    assert_eq!(text(&report(&[well, silent])), "WARN\nSTALE camera: no message in 3.2 s\n");
    let both = "ERROR\nERROR tick: 4 held back by 'arm'\nSTALE camera: no message in 3.2 s\n";
    assert_eq!(text(&report(&[held_back, silent])), both);
}
