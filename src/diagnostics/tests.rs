use super::*;
use robocache_runtime::health::Level;

#[test]
fn a_status_is_named_for_its_node_and_keeps_level_words_and_order() {
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let status = Status {
        part: "camera".into(),
        level: Level::Stale,
        message: "no message in 3.2 s".into(),
        values: vec![pair("topic", "/image"), pair("received", "7")],
    };
    let message = status_message("/left/fusion", status);
    assert_eq!((message.level, message.name.as_str()), (3, "/left/fusion: camera"));
    assert_eq!(message.message, "no message in 3.2 s");
    let values: Vec<_> =
        message.values.iter().map(|v| (v.key.as_str(), v.value.as_str())).collect();
    assert_eq!(values, [("topic", "/image"), ("received", "7")]);
}
