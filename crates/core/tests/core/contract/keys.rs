//! Every key of a configuration, changed: refused if it bears on what a policy takes, otherwise accepted.

use std::collections::BTreeSet;

use robocache_core::config::all_keys;
use robocache_core::contract::{Difference, refused};

use super::contract;
use crate::encoders::{Change, KEYS, Keys};

/// Keys that only say where numbers are that others have.
const OF_FILES: [&str; 3] = [
    "streams.operators.normalize.stats",
    "streams.operators.normalize.key",
    "streams.operators.normalize.first",
];

/// Commands bear on no tensor: a test below says so of all their keys at once.
fn is_of_commands(key: &str) -> bool {
    key == "commands" || key.starts_with("commands.")
}

/// Differences that a change makes.
fn differences(text: &str, change: &Change) -> Vec<Difference> {
    let (key, from, to) = change;
    assert!(text.contains(from), "{key}: no {from}");
    contract(text).differences(&contract(&text.replacen(from, to, 1)))
}

fn all() -> impl Iterator<Item = &'static Keys> {
    KEYS.iter().copied().flatten()
}

#[test]
fn what_bears_on_inputs_is_refused() {
    for Keys { config, refused: changes, .. } in all() {
        for change in *changes {
            let found = differences(config, change);
            let found = refused(&found);
            assert!(!found.is_empty(), "{change:?} was accepted");
            let unclear = found.iter().find(|sentence| !sentence.contains("would be served"));
            assert_eq!(unclear, None, "{change:?}");
        }
    }
}

#[test]
fn what_bears_on_validity_or_transport_alone_is_said() {
    for Keys { config, said, .. } in all() {
        for (kind, change) in
            said.iter().flat_map(|(kind, all)| all.iter().map(move |it| (kind, it)))
        {
            let found = differences(config, change);
            assert!(!found.is_empty(), "{change:?} was accepted");
            assert!(found.iter().all(|of| of.kind == *kind), "{change:?}: {found:?}");
        }
    }
}

#[test]
fn what_does_not_bear_on_inputs_is_accepted() {
    for Keys { config, accepted, .. } in all() {
        for change in *accepted {
            assert_eq!(differences(config, change), Vec::new(), "{change:?}");
        }
    }
}

#[test]
fn every_key_is_in_one_of_both_lists() {
    let names = |changes: &'static [Change]| changes.iter().map(|(key, ..)| *key);
    let noticed = |keys: &'static Keys| {
        let said = keys.said.iter().flat_map(move |(_, changes)| names(changes));
        names(keys.refused).chain(said)
    };
    let noticed: BTreeSet<&str> = all().flat_map(noticed).collect();
    let mut accepted: BTreeSet<&str> = all().flat_map(|keys| names(keys.accepted)).collect();
    accepted.extend(OF_FILES);
    let both: Vec<_> = noticed.intersection(&accepted).collect();
    assert!(both.is_empty(), "noticed and accepted: {both:?}");
    let known = all_keys();
    let known = known.iter().map(String::as_str).filter(|key| !is_of_commands(key));
    let known: BTreeSet<&str> = known.collect();
    let listed: BTreeSet<&str> = noticed.union(&accepted).copied().collect();
    let lacking: Vec<_> = known.difference(&listed).collect();
    assert!(
        lacking.is_empty(),
        "does a policy rely on {lacking:?}? Add a change to `Keys` of its encoder"
    );
    let unknown: Vec<_> = listed.difference(&known).collect();
    assert!(unknown.is_empty(), "no such keys: {unknown:?}");
}

#[test]
fn commands_bear_on_no_tensor() {
    let streams = "rate_hz: 50
streams:
  joints: {type: sensor_msgs/msg/JointState, topic: /joint_states, joints: [a], max_age_ms: 50}
";
    let commands = "commands:
  rate_hz: 250
  groups:
    arm:
      joints: [a]
      rows: {steps: 50, step_ms: 20}
      start_from: joints
      watchdog_ms: 300
      limits: {joints: {a: {position: [-1, 1], velocity: 1, acceleration: 1}}}
      output: {topic: /commands, type: std_msgs/msg/Float64MultiArray}
";
    let with = contract(&format!("{streams}{commands}"));
    assert_eq!(
        (with.value(), with.digest()),
        (contract(streams).value(), contract(streams).digest())
    );
}
