//! A recording of a node: how it ran, and its topics. The seeds know both.

use std::collections::BTreeMap;

use mcap::records::Metadata;
use robocache_data::recording::EVENT_TYPE;

use super::records::Topic;

pub(crate) const CONFIG: &str = "
rate_hz: 100
streams:
  w: {type: geometry_msgs/WrenchStamped, topic: /w, max_age_ms: 50, strategy: hold}
  v: {type: geometry_msgs/WrenchStamped, topic: /v, max_age_ms: 50, lag_ms: 20}
  c: {type: sensor_msgs/Image, topic: /c, max_age_ms: 50, image: {resize: {width: 4, height: 4}, max_width_px: 64, max_height_px: 64}}
";

/// The events, the clock, and the topics of the inputs.
pub(crate) fn topics() -> Vec<Topic> {
    let topic = |name: &str, kind: &str, text: &str| (name.into(), kind.into(), text.into());
    vec![
        topic("/fusion_node/recording", EVENT_TYPE, include_str!("../msg/RecordingEvent.msg")),
        topic("/clock", "rosgraph_msgs/msg/Clock", ""),
        topic("/w", "geometry_msgs/msg/WrenchStamped", ""),
        topic("/v", "geometry_msgs/msg/WrenchStamped", ""),
        topic("/c", "sensor_msgs/msg/Image", ""),
    ]
}

/// The record that begins the file.
pub(crate) fn about(simulated: bool) -> Metadata {
    let simulated = simulated.to_string();
    let metadata = [
        ("version", "0.0.0"),
        ("config_file", "fuzz.yaml"),
        ("configuration", CONFIG),
        ("use_sim_time", &simulated),
        ("digest", "true"),
        ("backend", "cpu"),
        ("rate_hz", "100"),
        ("topic 0", "/w"),
        ("topic 1", "/v"),
        ("topic 2", "/c"),
    ];
    let metadata = metadata.map(|(key, value)| (key.to_owned(), value.to_owned()));
    Metadata { name: "robocache_recording".into(), metadata: BTreeMap::from(metadata) }
}
