use super::*;
use robocache_rcl::Gid;

fn publisher(number: u8, node: Option<&str>) -> PublisherInfo {
    let (node, ros_type) = (node.map(str::to_owned), "std_msgs/msg/Empty".to_owned());
    PublisherInfo { node, ros_type, reliable: true, transient_local: false, gid: Gid([number; 16]) }
}

#[test]
fn publishers_that_are_known_count_until_they_are_found() {
    let known = vec![publisher(1, Some("/arm")), publisher(2, Some("/hand"))];
    assert_eq!(with_known(vec![], known.clone()), known);
    let found = vec![publisher(2, None), publisher(3, Some("/new"))];
    let expected =
        [publisher(2, Some("/hand")), publisher(3, Some("/new")), publisher(1, Some("/arm"))];
    assert_eq!(with_known(found, known), expected);
}
