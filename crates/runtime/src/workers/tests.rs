use super::*;

#[test]
fn there_is_a_worker_for_each_large_stream_while_processors_last() {
    let camera = |name: &str| {
        format!(
            "  {name}: {{type: sensor_msgs/Image, topic: /{name}, max_age_ms: 50, \
             image: {{resize: {{width: 8, height: 8}}}}}}\n"
        )
    };
    let wrench = "  w: {type: geometry_msgs/WrenchStamped, topic: /w, max_age_ms: 50}\n";
    let streams = ["a", "b", "c"].map(camera).concat() + wrench;
    let parse = |streams: &str| {
        robocache_core::config::parse(&format!("rate_hz: 100\nstreams:\n{streams}"), "t.yaml")
            .unwrap()
    };
    let config = parse(&streams);
    assert_eq!([1, 2, 3, 4, 16].map(|cores| usual_count(&config, cores)), [1, 1, 2, 3, 3]);
    assert_eq!(usual_count(&parse(wrench), 16), 1);
}
