use super::*;

#[test]
fn topics_are_those_of_a_node_in_the_root_namespace() {
    assert_eq!(["/a/b", "a/b", "~/a"].map(absolute), ["/a/b", "/a/b", "/fusion_node/a"]);
}

#[test]
fn a_source_of_time_is_a_word_or_a_topic() {
    let odom = AskedClock::HeaderOf("/odom".to_owned());
    assert_eq!("header:/odom".parse(), Ok(odom));
    assert_eq!("header".parse(), Ok(AskedClock::Header));
    for wrong in ["", "headers", "header:", "header:odom", "wall"] {
        let error = wrong.parse::<AskedClock>().unwrap_err();
        assert!(error.contains("header:/TOPIC") && error.contains(wrong), "{error}");
    }
}

#[test]
fn a_remap_is_written_as_ros_writes_it() {
    let remap = |from: &str, to: &str| Remap { from: from.to_owned(), to: to.to_owned() };
    assert_eq!("joints:=/arm/joints".parse(), Ok(remap("/joints", "/arm/joints")));
    assert!("joints=/arm".parse::<Remap>().is_err() && ":=/arm".parse::<Remap>().is_err());
}
