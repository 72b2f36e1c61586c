use super::*;

#[test]
fn texts_of_a_bag_cannot_change_the_file() {
    assert_eq!(quoted("joint_1"), "joint_1");
    for text in ["true", "3", "a: b", "a\nb: c", "\"", "\\", "#", "", "é\u{7f}"] {
        let yaml = format!("key: {}\n", quoted(text));
        let mut problems = Vec::new();
        let root = config::node::read(&yaml, "a test", &mut problems).unwrap();
        assert_eq!(root.get("key").and_then(|node| node.scalar()), Some(text), "{yaml}");
    }
    assert_eq!(comment("a\nstreams:"), "# a streams:");
}

#[test]
fn names_are_those_of_topics_and_differ() {
    let mut streams: Vec<StarterStream> = Vec::new();
    for topic in ["/camera/image_raw", "/Camera", "/camera/", "/1", "/"] {
        let name = new_name(topic, &streams);
        let lines = Vec::new();
        let kind = Kind::Image;
        streams.push(StarterStream {
            topic: topic.into(),
            name,
            lines,
            lag_ns: 0,
            rate_hz: None,
            kind,
        });
    }
    let names: Vec<_> = streams.iter().map(|stream| stream.name.as_str()).collect();
    assert_eq!(names, ["camera", "camera_2", "camera_3", "stream_1", "stream_"]);
}
