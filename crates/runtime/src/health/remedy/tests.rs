use super::*;

#[test]
fn the_remedy_is_that_of_the_middleware_in_use() {
    let fast = remedy("rmw_fastrtps_cpp", "/a");
    assert!(fast.contains("FASTRTPS_DEFAULT_PROFILES_FILE=/a/fastdds.xml"), "{fast}");
    assert_eq!(remedy("rmw_fastrtps_dynamic_cpp", "/a"), fast);
    let cyclone = remedy("rmw_cyclonedds_cpp", "/a");
    let settings = ["net.core.rmem_max=4194304", "CYCLONEDDS_URI=file:///a/cyclonedds.xml"];
    assert!(settings.iter().all(|setting| cyclone.contains(setting)), "{cyclone}");
    let other = remedy("rmw_zenoh_cpp", "/a");
    assert!(other.starts_with("rmw_zenoh_cpp may drop") && other.contains("two of the largest"));
    for words in [cyclone, other] {
        assert!(!words.contains("Fast DDS") && !words.contains("FASTRTPS"), "{words}");
    }
}

/// The figures that the sentence names are those of the file.
#[test]
fn the_file_for_cyclonedds_has_what_the_remedy_says() {
    let file = include_str!("../../../../../config/cyclonedds.xml");
    let words = remedy("rmw_cyclonedds_cpp", "/a");
    for (tag, value, said) in [
        ("<MaxMessageSize>", "65500B</MaxMessageSize>", "MaxMessageSize 65500B"),
        ("<FragmentSize>", "60000B</FragmentSize>", "FragmentSize 60000B"),
        (
            "<SocketReceiveBufferSize ",
            "min=\"4MB\" max=\"4MB\"/>",
            "SocketReceiveBufferSize min 4MB",
        ),
    ] {
        assert!(file.contains(&format!("{tag}{value}")) && words.contains(said), "{tag}: {words}");
    }
}
