use super::*;

#[test]
fn the_remedy_is_that_of_the_middleware_in_use() {
    let fast = remedy("rmw_fastrtps_cpp", "/a/fastdds.xml");
    assert!(fast.contains("FASTRTPS_DEFAULT_PROFILES_FILE=/a/fastdds.xml"), "{fast}");
    assert_eq!(remedy("rmw_fastrtps_dynamic_cpp", "/a/fastdds.xml"), fast);
    let cyclone = remedy("rmw_cyclonedds_cpp", "/a/fastdds.xml");
    let settings = ["net.core.rmem_max=4194304", "CYCLONEDDS_URI", "SocketReceiveBufferSize"];
    assert!(settings.iter().all(|setting| cyclone.contains(setting)), "{cyclone}");
    let other = remedy("rmw_zenoh_cpp", "/a/fastdds.xml");
    assert!(other.starts_with("rmw_zenoh_cpp may drop") && other.contains("two of the largest"));
    for words in [cyclone, other] {
        assert!(!words.contains("Fast DDS") && !words.contains("FASTRTPS"), "{words}");
    }
}
