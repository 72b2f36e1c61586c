//! Tests of values that streams share: aliases, merge keys and `defaults`; and of how YAML's values are read.

use std::fmt::Write as _;

use super::super::*;

#[test]
fn aliases_repeat_what_they_name_and_problems_in_them_have_lines() {
    let text = "rate_hz: 100
streams:
  a: {type: sensor_msgs/Image, topic: a, max_age_ms: 1, image: &i {resize: {width: 4, height: 2}}}
  b: {type: sensor_msgs/Image, topic: b, max_age_ms: 1, image: *i}
";
    let config = parse(text, "test.yaml").unwrap();
    assert_eq!(config.streams[0].encoder, config.streams[1].encoder);
    let error = parse(&text.replace("height: 2", "height: 0"), "t.yaml").unwrap_err().to_string();
    // Once, with the line where it is written and must be changed.
    assert_eq!(error.lines().count(), 1, "{error}");
    assert!(error.starts_with("t.yaml:3: streams.a.image.resize.height: "), "{error}");
    // What only one of the uses lacks has the line of that use.
    let error = parse(&text.replace("topic: b, ", ""), "t.yaml").unwrap_err().to_string();
    assert_eq!(error, "t.yaml:4: streams.b.topic: expected a topic, found nothing");
}

#[test]
fn merge_keys_fill_in_what_a_mapping_lacks() {
    let short = "rate_hz: &hz 100
streams:
  a: &a
    type: sensor_msgs/Image
    topic: /a
    max_age_ms: 10
    qos: &qos {depth: 3}
    image: {resize: &size {width: 4, height: 2}}
  b: {<<: *a, topic: /b, image: {resize: {height: 6, <<: *size}}}
  c:
    topic: /c
    <<: [{fill: last, max_age_ms: 20}, *a]
    expected_rate_hz: *hz
  d: &d {<<: *a, topic: /d, lag_ms: 5}
  e: {<<: *d, topic: /e, \"strategy\": nearest}
";
    let whole = "rate_hz: 100
streams:
  a: {type: sensor_msgs/Image, topic: /a, max_age_ms: 10, qos: {depth: 3}, image: {resize: {width: 4, height: 2}}}
  b: {type: sensor_msgs/Image, topic: /b, max_age_ms: 10, qos: {depth: 3}, image: {resize: {width: 4, height: 6}}}
  c:
    type: sensor_msgs/Image
    topic: /c
    max_age_ms: 20
    fill: last
    qos: {depth: 3}
    image: {resize: {width: 4, height: 2}}
    expected_rate_hz: 100
  d: {type: sensor_msgs/Image, topic: /d, max_age_ms: 10, lag_ms: 5, qos: {depth: 3}, image: {resize: {width: 4, height: 2}}}
  e:
    type: sensor_msgs/Image
    topic: /e
    max_age_ms: 10
    lag_ms: 5
    qos: {depth: 3}
    image: {resize: {width: 4, height: 2}}
    strategy: nearest
";
    assert_eq!(parse(short, "short.yaml").unwrap(), parse(whole, "whole.yaml").unwrap());
    // The streams themselves may be merged. They are in the place of the merge key.
    let streams = "rate_hz: 100
defaults: {vector: {max_age_ms: 5}}
streams:
  a: {type: sensor_msgs/Imu, topic: /a}
  <<: {b: {type: sensor_msgs/Imu, topic: /b}, a: {}}
  c: {type: sensor_msgs/Imu, topic: /c}
";
    let config = parse(streams, "test.yaml").unwrap();
    let names: Vec<_> = config.streams.iter().map(|stream| stream.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    // In quotes it is a key like any other.
    let quoted = streams.replace("<<", "'<<'");
    let error = parse(&quoted, "t.yaml").unwrap_err().to_string();
    assert!(error.contains("t.yaml:5: streams.<<: expected a stream name"), "{error}");
}

#[test]
fn six_cameras_are_one_default_and_six_topics() {
    let cameras = ["left", "right", "front", "rear", "up", "down"];
    let mut short = String::from(
        "rate_hz: 100
lag_ms: 20
defaults:
  image:
    max_age_ms: 100
    lag_ms: 60
    expected_rate_hz: 30
    qos: {reliability: reliable, depth: 4}
    history: {steps: 2, step_ms: 50}
    image: {resize: {width: 32, height: 16}, mean: [0.5, 0.5, 0.5], max_width_px: 1920, max_height_px: 1080}
  vector: {max_age_ms: 50, max_gap_ms: 70, dtype: f32}
  cloud: {max_age_ms: 1}
output: {dtype: bf16}
streams:
",
    );
    let mut whole = String::from("rate_hz: 100\nlag_ms: 20\noutput: {dtype: bf16}\nstreams:\n");
    for name in cameras {
        let own = format!("  {name}:\n    type: sensor_msgs/Image\n    topic: /{name}\n");
        short += &own;
        whole += &own;
        whole += "    max_age_ms: 100
    lag_ms: 60
    expected_rate_hz: 30
    history: {steps: 2, step_ms: 50}
";
        // One camera differs in some keys, also in some of a mapping.
        if name == "rear" {
            short += "    qos: {depth: 9}\n    image: {resize: {width: 8}}\n    fill: last\n";
            whole += "    qos: {reliability: reliable, depth: 9}\n    fill: last
    image: {resize: {width: 8, height: 16}, mean: [0.5, 0.5, 0.5], max_width_px: 1920, max_height_px: 1080}\n";
        } else {
            whole += "    qos: {reliability: reliable, depth: 4}
    image: {resize: {width: 32, height: 16}, mean: [0.5, 0.5, 0.5], max_width_px: 1920, max_height_px: 1080}\n";
        }
    }
    let imu = "  imu: {type: sensor_msgs/msg/Imu, topic: /imu";
    let held = "  held: {type: sensor_msgs/msg/Imu, topic: /held, strategy: hold";
    let _ = writeln!(short, "{imu}, max_age_ms: 20}}\n{held}}}");
    let _ = writeln!(whole, "{imu}, max_age_ms: 20, max_gap_ms: 70, dtype: f32}}");
    // A default that does not fit the strategy is left out.
    let _ = writeln!(whole, "{held}, max_age_ms: 50, dtype: f32}}");
    let [short, whole] = [short, whole]
        .map(|text| parse(&text, "test.yaml").unwrap_or_else(|error| panic!("{error}\n{text}")));
    assert_eq!(short, whole);
    assert_eq!(short.streams.len(), 8);
}

#[test]
fn values_are_read_as_yaml_has_them() {
    let text = "rate_hz: 0x64
lag_ms: .5
base_frame: '7'
streams:
  s:
    type: \"sensor_msgs/Imu\"
    topic: &topic >-
      /imu
    max_age_ms: +1e2
    required: True
    ring_rows: 0o1750
    frame_id: !!str 12
";
    let config = parse(text, "test.yaml").unwrap();
    let stream = &config.streams[0];
    let input = &config.inputs[0];
    assert_eq!((config.rate_hz, stream.lag_ns, config.base_frame.as_str()), (100.0, 500_000, "7"));
    assert_eq!(
        (stream.rule.max_age_ns, stream.required, stream.ring_rows),
        (100_000_000, true, 1000)
    );
    assert_eq!((input.topic.as_str(), input.frame_id.as_deref()), ("/imu", Some("12")));
    // Numbers in quotes are text, and the words of Rust are no numbers.
    for (wrong, expected) in [("'50'", "a number"), ("inf", "a number"), ("NaN", "a number")] {
        let error = parse(&text.replace("+1e2", wrong), "t.yaml").unwrap_err().to_string();
        assert!(error.contains(&format!("max_age_ms: expected {expected}, found ")), "{error}");
    }
}
