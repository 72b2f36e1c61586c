//! Faults of commands, from numbers.

use robocache_core::command::GroupCounts;
use robocache_core::config;

use super::*;

const TEXT: &str = "rate_hz: 100\nstreams: {joints: {type: sensor_msgs/JointState, topic: /joints, joints: [a, b], \
                    max_age_ms: 50}}\ncommands: {rate_hz: 250, groups: {arm: {joints: [a, b], rows: {steps: 5, \
                    step_ms: 20}, start_from: joints, watchdog_ms: 500, limits: none, on_stall: hold, on_end: hold, \
                    output: {topic: /c, type: std_msgs/msg/Float64MultiArray}}}}\n";

fn group() -> GroupSpec {
    config::parse(TEXT, "test.yaml").unwrap().commands.unwrap().groups[0].clone()
}

fn following() -> GroupSeen {
    GroupSeen {
        stage: Stage::Following,
        waits_for: WaitsFor::Nothing,
        audience: Some(1),
        enabled: true,
        sequence: 1,
        delay_ticks: 2,
        counts: GroupCounts { clipped: vec![0, 0], ..GroupCounts::default() },
    }
}

/// The words of a window's faults.
fn words(numbers: &mut GroupBefore, seen: &GroupSeen) -> Vec<String> {
    let faults = numbers.faults(&group(), "joints", seen);
    faults.into_iter().map(|fault| fault.words).collect()
}

#[test]
fn a_window_says_what_rose_in_it_and_each_window_says_a_stall_that_lasts() {
    let mut numbers = GroupBefore::default();
    let mut seen = following();
    (seen.counts.stalls, seen.counts.chunks_late) = (1, 2);
    seen.counts.refused[Refusal::Run as usize] = 3;
    let expected =
        ["arm was stalled", "arm: chunks refused by `run`: 3", "arm: chunks that came too late: 2"];
    assert_eq!(words(&mut numbers, &seen), expected);
    assert!(words(&mut numbers, &seen).is_empty());
    (seen.stage, seen.waits_for) = (Stage::Stalled, WaitsFor::Chunk);
    for _ in 0..2 {
        assert_eq!(words(&mut numbers, &seen), ["arm is stalled: no chunk counts in time"]);
    }
}

#[test]
fn missing_measured_values_are_named_while_commands_are_enabled() {
    let mut numbers = GroupBefore::default();
    let mut seen = following();
    seen.waits_for = WaitsFor::Measured;
    for (stage, expected) in [
        (Stage::Waiting, "arm is waiting: joints has no valid values"),
        (Stage::Stalled, "arm is stalled: joints has no valid values"),
    ] {
        seen.stage = stage;
        assert_eq!(words(&mut numbers, &seen), [expected]);
    }
}

#[test]
fn commands_that_nobody_takes_are_a_fault() {
    let mut numbers = GroupBefore::default();
    let mut seen = following();
    seen.audience = Some(0);
    assert!(words(&mut numbers, &seen).is_empty(), "none were sent");
    seen.counts.commands = 250;
    assert_eq!(
        words(&mut numbers, &seen),
        ["arm: nobody subscribes to /c: does the controller run?"]
    );
    // A few more change nothing, and none at all end it.
    seen.counts.commands = 255;
    assert_eq!(words(&mut numbers, &seen).len(), 1);
    assert!(words(&mut numbers, &seen).is_empty());
    // Slow commands are judged together.
    seen.counts.commands = 260;
    assert!(words(&mut numbers, &seen).is_empty());
    seen.counts.commands = 265;
    assert_eq!(words(&mut numbers, &seen).len(), 1);
    // It is unknown.
    (seen.audience, seen.counts.commands) = (None, 500);
    assert!(words(&mut numbers, &seen).is_empty());
}

#[test]
fn limits_that_change_most_commands_of_a_joint_are_a_fault() {
    let mut numbers = GroupBefore::default();
    let mut seen = following();
    (seen.counts.commands, seen.counts.clipped) = (250, vec![125, 126]);
    assert_eq!(words(&mut numbers, &seen), ["arm: of 250 commands, limits changed those of b 126"]);
    // The numbers are those of the window.
    (seen.counts.commands, seen.counts.clipped) = (500, vec![250, 251]);
    assert!(words(&mut numbers, &seen).is_empty());
    // From a start, limits lead to the plan.
    (seen.counts.commands, seen.counts.clipped, seen.counts.starts) = (750, vec![500, 501], 1);
    assert!(words(&mut numbers, &seen).is_empty());
}

#[test]
fn a_plan_that_ends_between_two_chunks_is_a_fault_and_one_that_ends_is_none() {
    let mut numbers = GroupBefore::default();
    let mut seen = following();
    (seen.counts.chunks, seen.counts.ends) = (4, 3);
    assert_eq!(words(&mut numbers, &seen), ["arm: plans that ended before the next chunk came: 3"]);
    (seen.stage, seen.waits_for, seen.counts.ends) = (Stage::Ended, WaitsFor::Chunk, 4);
    assert!(words(&mut numbers, &seen).is_empty());
}

#[test]
fn a_fault_is_logged_once_and_again_after_a_pause() {
    let mut logged = Logged::default();
    let mut is_new = |group, kind, at_s| logged.is_new(group, kind, Duration::from_secs(at_s));
    assert!(is_new(0, FaultKind::Late, 1));
    for at_s in 2..30 {
        assert!(!is_new(0, FaultKind::Late, at_s), "it lasts");
    }
    assert!(is_new(1, FaultKind::Late, 30) && is_new(0, FaultKind::Alone, 30));
    assert!(is_new(0, FaultKind::Refused(Refusal::Run), 30));
    assert!(is_new(0, FaultKind::Refused(Refusal::Epoch), 30), "another reason");
    assert!(is_new(0, FaultKind::Late, 40), "after eleven seconds without it");
    // A stall that has ended is logged each time.
    assert!(logged.is_new(0, FaultKind::Stalled, Duration::from_secs(50)));
    assert!(!logged.ends(1) && logged.ends(0) && !logged.ends(0));
    assert!(logged.is_new(0, FaultKind::Stalled, Duration::from_secs(51)));
}

#[test]
fn refusals_and_clips_are_values_only_if_there_are_some() {
    let mut seen = following();
    seen.counts.clipped = vec![0, 4];
    seen.counts.refused[Refusal::Writer as usize] = 5;
    let mut values = Vec::new();
    group_values("arm", ["a", "b"].into_iter(), &seen, &mut values);
    let value = |name: &str| {
        values.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    };
    assert_eq!(value("arm.stage"), Some("following"));
    assert_eq!((value("arm.waits_for"), value("arm.audience")), (Some(""), Some("1")));
    assert_eq!(value("arm.refused.writer"), Some("5"));
    assert_eq!((value("arm.clipped.a"), value("arm.clipped.b")), (None, Some("4")));
    assert_eq!(value("arm.refused.run"), None);
}

#[test]
fn a_group_that_waits_says_for_what() {
    let mut seen = following();
    assert_eq!(said(&seen), "following");
    (seen.stage, seen.waits_for) = (Stage::Waiting, WaitsFor::Chunk);
    assert_eq!(said(&seen), "waiting for chunk");
}
