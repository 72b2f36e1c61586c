use super::*;

#[test]
fn a_path_is_data_unless_it_is_named() {
    let read = |text: &str| text.parse::<EpisodeTopic>().map(|edge| edge.to_string());
    assert_eq!(read("/recording"), Ok("/recording:data".into()));
    assert_eq!(read("/joy:buttons[0]"), Ok("/joy:buttons[0]".into()));
    assert!(read("recording").unwrap_err().contains("expected /TOPIC"));
    assert!(read("/joy:buttons[").is_err());
}
