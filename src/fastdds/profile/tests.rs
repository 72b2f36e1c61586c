use super::*;

#[test]
fn a_profile_gets_another_segment_and_keeps_the_rest() {
    let profile = with_segment(77);
    assert_eq!(profile.matches("<segment_size>77</segment_size>").count(), 1);
    let lines = |text: &str| -> Vec<String> {
        text.lines().filter(|l| !l.contains("<segment_size>")).map(str::to_owned).collect()
    };
    assert_eq!(lines(&profile), lines(PROFILE));
    assert_eq!(PROFILE.matches(SEGMENT_TAGS[0]).count(), 1, "one segment in config/fastdds.xml");
}

#[test]
fn a_segment_is_no_larger_than_what_is_free() {
    assert_eq!(bounded(16 << 20, None), 16 << 20);
    assert_eq!(bounded(16 << 20, Some(1 << 30)), 16 << 20);
    assert_eq!(bounded(16 << 20, Some(10 << 20)), 8 << 20);
    assert_eq!(bounded(16 << 20, Some(0)), 1);
    assert_eq!(bounded(1 << 40, None), u64::from(u32::MAX));
}
