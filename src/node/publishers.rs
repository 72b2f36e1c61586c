//! What the publishers of a topic tell about why nothing, or too little, comes from it.

use super::health::Trouble;
use super::profile;
use crate::config::{Source, StreamSpec};

/// A publisher of a stream's topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublisherSeen {
    /// The node's full name.
    pub node: String,
    /// The type it publishes.
    pub ros_type: String,
    /// Whether it offers reliable delivery.
    pub reliable: bool,
}

/// Why nothing, or too little, may come from a topic, as far as its publishers tell.
pub fn explain(
    trouble: Trouble,
    spec: &StreamSpec,
    topic: &str,
    seen: Option<&[PublisherSeen]>,
) -> String {
    let Some(publishers) = seen else { return "publishers not yet known".to_owned() };
    if publishers.is_empty() {
        return format!("no publisher on {topic}: is the name right, and its node running?");
    }
    let wanted = spec.source.ros_type();
    let describe = |p: &PublisherSeen| {
        let reliability = if p.reliable { "reliable" } else { "best_effort" };
        format!("{} ({}, {reliability})", p.node, p.ros_type)
    };
    let list = publishers.iter().map(describe).collect::<Vec<_>>().join(", ");
    let advice = if publishers.iter().all(|p| p.ros_type != wanted) {
        format!("the types differ: this stream expects {wanted}")
    } else if spec.qos.reliable && publishers.iter().all(|p| !p.reliable) {
        "the quality of service does not match: this stream asks for reliable delivery and the \
         publisher offers best_effort; give the stream `qos: {reliability: best_effort}`"
            .to_owned()
    } else if !matches!(spec.source, Source::Vector(_)) {
        match trouble {
            Trouble::Silent => format!(
                "types and quality of service match: it publishes nothing, or its messages are too \
                 large for its shared memory. {}",
                fastdds_advice()
            ),
            Trouble::Lossy => fastdds_advice(),
        }
    } else if trouble == Trouble::Silent {
        "types and quality of service match: it publishes nothing".to_owned()
    } else {
        "messages are lost on the way, or the publisher is slower than expected".to_owned()
    };
    format!("publishers seen: {list}; {advice}")
}

/// The remedy for large messages that do not arrive.
fn fastdds_advice() -> String {
    format!(
        "Fast DDS drops large messages while the publisher's shared-memory segment is smaller than \
         two of them: start the publisher with FASTRTPS_DEFAULT_PROFILES_FILE={} (a segment of 16 MB)",
        profile::hint()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Streams of a wrench and of a camera.
    fn streams() -> Vec<StreamSpec> {
        let config = "
rate_hz: 100
streams:
  wrench:
    type: geometry_msgs/WrenchStamped
    topic: /wrench
    max_age_ms: 50
    qos: {reliability: reliable}
  camera:
    type: sensor_msgs/Image
    topic: /camera
    max_age_ms: 50
    image: {width: 8, height: 8}
";
        crate::config::parse(config, "test.yaml").unwrap().streams
    }

    fn publisher(ros_type: &str, reliable: bool) -> PublisherSeen {
        PublisherSeen { node: "/driver".into(), ros_type: ros_type.into(), reliable }
    }

    #[test]
    fn the_reason_for_silence_is_found_among_the_publishers() {
        let specs = streams();
        let explain =
            |seen: Option<&[PublisherSeen]>| explain(Trouble::Silent, &specs[0], "/wrench", seen);
        assert!(explain(Some(&[])).starts_with("no publisher on /wrench"));
        let other = explain(Some(&[publisher("geometry_msgs/msg/Wrench", true)]));
        assert!(other.contains("expects geometry_msgs/msg/WrenchStamped"), "{other}");
        let offered = publisher("geometry_msgs/msg/WrenchStamped", false);
        let offered = explain(Some(std::slice::from_ref(&offered)));
        assert!(offered.contains("/driver (geometry_msgs/msg/WrenchStamped, best_effort)"));
        assert!(offered.contains("`qos: {reliability: best_effort}`"), "{offered}");
        let fine = explain(Some(&[publisher("geometry_msgs/msg/WrenchStamped", true)]));
        assert!(fine.ends_with("it publishes nothing"), "{fine}");
        let seen = [publisher("sensor_msgs/msg/Image", true)];
        let words = super::explain(Trouble::Silent, &specs[1], "/camera", Some(&seen));
        let nothing = words.find("it publishes nothing, or").unwrap();
        assert!(nothing < words.find("FASTRTPS_DEFAULT_PROFILES_FILE").unwrap(), "{words}");
    }
}
