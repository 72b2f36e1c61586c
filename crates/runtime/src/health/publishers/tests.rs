use super::*;
use robocache_core::spec::{Durability, Qos, Reliability};

/// Inputs of a wrench, of a camera and of a laser scanner.
fn inputs() -> Vec<InputSpec> {
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
    image: {resize: {width: 8, height: 8}}
  scan:
    type: sensor_msgs/LaserScan
    topic: /scan
    max_age_ms: 50
    cloud: {origin_m: [0, 0, 0], size_m: 1, shape: [2, 2, 2], channels: [{reduce: count}]}
";
    robocache_core::config::parse(config, "test.yaml").unwrap().inputs
}

fn publisher(ros_type: &str, reliable: bool) -> PublisherSeen {
    let offers = OfferedQos { reliable, transient_local: false };
    PublisherSeen { node: Some("/driver".into()), ros_type: ros_type.into(), offers }
}

#[test]
fn the_reason_for_silence_is_found_among_the_publishers() {
    let specs = inputs();
    let remedy = "Enlarge its buffers";
    let explain = |seen: Option<&[PublisherSeen]>| {
        explain(Trouble::Silent, false, &specs[0], "/wrench", remedy, seen)
    };
    assert!(explain(Some(&[])).starts_with("no publisher on /wrench"));
    let other = explain(Some(&[publisher("geometry_msgs/msg/Wrench", true)]));
    assert!(other.contains("expects geometry_msgs/msg/WrenchStamped"), "{other}");
    let offered = publisher("geometry_msgs/msg/WrenchStamped", false);
    let offered = explain(Some(std::slice::from_ref(&offered)));
    assert!(offered.contains("/driver (geometry_msgs/msg/WrenchStamped, best_effort, volatile)"));
    assert!(offered.contains("`qos: {reliability: auto}`"), "{offered}");
    // A publisher of another type does not change that.
    let seen = [("geometry_msgs/msg/WrenchStamped", false), ("geometry_msgs/msg/Wrench", true)];
    let seen = seen.map(|(ros_type, reliable)| publisher(ros_type, reliable));
    let mixed = explain(Some(&seen));
    assert!(mixed.contains("`qos: {reliability: auto}`"), "{mixed}");
    let fine = explain(Some(&[publisher("geometry_msgs/msg/WrenchStamped", true)]));
    assert!(fine.ends_with("it publishes nothing"), "{fine}");
}

/// The middleware loses large messages from the first one on. If some were heard, the publisher has stopped.
#[test]
fn the_middleware_is_blamed_only_for_large_messages_that_never_came() {
    let specs = inputs();
    let remedy = "Enlarge its buffers";
    let told = |at: usize, trouble, heard| {
        let spec = &specs[at];
        let seen = [publisher(&spec.ros_type, true)];
        explain(trouble, heard, spec, &spec.topic, remedy, Some(&seen))
    };
    let [wrench, camera, scan] = [0, 1, 2];
    let words = told(camera, Trouble::Silent, false);
    let nothing = words.find("it publishes nothing, or").unwrap();
    assert!(nothing < words.find(remedy).unwrap(), "{words}");
    assert!(told(camera, Trouble::Lossy, true).ends_with(remedy));
    let words = told(camera, Trouble::Stopped, true);
    assert!(words.ends_with("it publishes nothing any more"), "{words}");
    for at in [wrench, camera, scan] {
        let words = told(at, Trouble::Silent, true);
        assert!(words.ends_with("it publishes nothing any more"), "{words}");
        let gone = explain(Trouble::Silent, true, &specs[at], "/topic", remedy, Some(&[]));
        assert_eq!(gone, "no publisher on /topic any more: has its node ended?");
    }
    for at in [wrench, scan] {
        let words = told(at, Trouble::Silent, false);
        assert!(words.ends_with("it publishes nothing"), "{words}");
        let words = told(at, Trouble::Lossy, true);
        assert!(words.contains("messages are lost on the way") && !words.contains(remedy));
    }
}

#[test]
fn several_publishers_of_the_clock_are_listed() {
    let several =
        |names: &[&str]| several(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
    assert_eq!((several(&[]), several(&["/a"])), (None, None));
    let words = several(&["/sim", "/bag", "/sim"]).unwrap();
    assert!(words.starts_with("3 publishers on /clock: /bag, /sim and /sim: "), "{words}");
}

#[test]
fn a_publisher_that_is_refused_beside_another_is_named() {
    let specs = inputs();
    let [fits, refused] = [true, false].map(|r| publisher("geometry_msgs/msg/WrenchStamped", r));
    let refused = PublisherSeen { node: Some("/other".into()), ..refused };
    let both = [fits.clone(), refused.clone()];
    let words = super::refused(&specs[0], &both).unwrap();
    let expected = "the quality of service does not match: nothing comes from /other \
                    (best_effort, volatile), because this stream asks for reliable, volatile; \
                    give the stream `qos: {reliability: auto}`";
    assert_eq!(words, expected);
    assert!(!all_refused(&specs[0], &both));
    assert_eq!(super::refused(&specs[0], &[fits]), None);
    assert!(super::refused(&specs[0], std::slice::from_ref(&refused)).is_some());
    assert!(all_refused(&specs[0], &[refused]));
    let asks = |reliability, durability| {
        let mut spec = specs[0].clone();
        spec.qos = Qos { reliability, durability, ..spec.qos };
        spec
    };
    let auto = asks(Reliability::Auto, Durability::Auto);
    assert_eq!(super::refused(&auto, &both), None);
    let local = asks(Reliability::Reliable, Durability::TransientLocal);
    let words = super::refused(&local, &both).unwrap();
    assert!(words.contains("/driver (reliable, volatile), /other (best_effort, volatile)"));
    assert!(words.ends_with("`qos: {reliability: auto, durability: auto}`"), "{words}");
}
