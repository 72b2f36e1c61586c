use std::path::Path;

use super::*;
use crate::config::{ConfigError, Problem, parse_with};
use crate::schema::Prefixes;

/// A stream of each content: its letter, and its keys.
const STREAMS: &[(char, &str, Content)] = &[
    ('f', "type: sensor_msgs/MagneticField", FIELDS),
    ('j', "type: sensor_msgs/JointState, joints: [a, b, c, d]", Joints),
    (
        't',
        "type: trajectory_msgs/JointTrajectory, joints: [a, b, c, d], horizon: {steps: 2, step_ms: 10}",
        Trajectory,
    ),
    ('s', "type: geometry_msgs/msg/WrenchStamped, select: [wrench.force]", Selected),
    ('i', "type: sensor_msgs/Image, image: {resize: {width: 4, height: 4}}", Image),
    (
        'p',
        "type: sensor_msgs/PointCloud2, cloud: {origin_m: [0, 0, 0], size_m: 1, shape: [1, 1, 1], channels: \
         [{reduce: count}]}",
        Points,
    ),
    ('m', "type: nav_msgs/OccupancyGrid, occupancy: {size_m: [1, 1], resolution_m: 1}", Map),
];

/// The keys that not all streams have: the letters of their contents, and a value.
const OWN: &[(&str, &str, &str)] = &[
    ("inputs", "jtps", "[{topic: /a}, {topic: /b}]"),
    ("valid_when", "p", "all, inputs: [{topic: /a}, {topic: /b}]"),
    ("max_gap_ms", "fjts", "80"),
    ("t_base_sensor", "p", "tf"),
    ("deskew", "p", "{fixed_frame: odom}"),
    ("in_frame", "fs", "odom"),
    ("fields", "fjt", "[position]"),
    ("joints", "jt", "[a]"),
    ("groups", "jt", "{arm: [a]}"),
    ("angular", "jts", "[a]"),
    ("quaternions", "jt", "[[a, b, c, d]]"),
    ("held", "jts", "[a]"),
    ("operators", "fjts", "[{scale: 2}]"),
    ("stamp", "s", "header.stamp"),
    ("image", "i", "{resize: {width: 4, height: 4}}"),
    (
        "cloud",
        "p",
        "{origin_m: [0, 0, 0], size_m: 1, shape: [1, 1, 1], channels: [{reduce: count}]}",
    ),
    ("occupancy", "m", "{size_m: [1, 1], resolution_m: 1}"),
];

/// The problems of a stream with these keys.
fn problems(keys: &str) -> Vec<Problem> {
    let topic = if keys.contains(" inputs: ") { "" } else { "topic: /s, " };
    let text =
        format!("rate_hz: 100\ntf: {{}}\nstreams:\n  s: {{{topic}max_age_ms: 50, {keys}}}\n");
    let definitions = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/definitions");
    match parse_with(&text, "test.yaml", &Prefixes::new(vec![definitions])) {
        Ok(_) => Vec::new(),
        Err(ConfigError::Invalid(problems)) => problems,
        Err(other) => panic!("{other}\n{text}"),
    }
}

#[test]
fn a_key_of_another_content_is_refused_and_an_own_one_is_not() {
    let mut wrong = Vec::new();
    for &(letter, stream, content) in STREAMS {
        assert_eq!(problems(stream), Vec::new(), "{stream}");
        for &(key, contents, value) in OWN {
            let is_own = contents.contains(letter);
            assert_eq!(is_usual(key, content), is_own, "{key}: {stream}");
            // The keys that are there are own ones, and groups are no joints.
            if stream.contains(&format!(" {key}: ")) || (key == "groups" && is_own) {
                continue;
            }
            let found = problems(&format!("{stream}, {key}: {value}"));
            let at = format!("streams.s.{key}");
            if found.iter().any(|of| of.key == at) == is_own {
                wrong.push(format!("{key}: {stream}: {found:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_map_needs_a_key_that_says_what_it_becomes() {
    let found = problems("type: nav_msgs/OccupancyGrid");
    let found: Vec<_> = found.iter().map(|of| (&*of.key, &*of.expected, &*of.found)).collect();
    let expected = "a mapping with the keys `size_m` and `resolution_m`";
    assert_eq!(found, [("streams.s.occupancy", expected, "nothing")]);
}

#[test]
fn all_keys_of_the_table_that_not_all_streams_have_are_tested() {
    // `select` itself makes the content, whatever the type of the messages.
    let special = KEYS.iter().filter(|key| !key.of.is_empty() && key.name != "select");
    let mut special: Vec<_> = special.map(|key| key.name).collect();
    special.sort_unstable();
    let mut tested: Vec<_> = OWN.iter().map(|(key, ..)| *key).collect();
    tested.sort_unstable();
    assert_eq!(special, tested);
}

#[test]
fn the_table_names_keys_of_streams() {
    for (at, key) in KEYS.iter().enumerate() {
        assert!(RawStream::KEYS.contains(&key.name), "{}", key.name);
        let again = KEYS[..at].iter().find(|other| other.name == key.name);
        assert!(again.is_none(), "{}", key.name);
    }
}
