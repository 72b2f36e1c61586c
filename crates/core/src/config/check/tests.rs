use super::*;

#[test]
fn topic_names() {
    for good in ["/a", "a", "~/a", "/a_b/C9", "_a", "a__b"] {
        assert_eq!(topic_violation(good), None, "{good}");
    }
    for bad in ["", "/", "a/", "//a", "a//b", "~a", "~", "~/", "/9a", "/a-b", "/a b", "a/{b}"] {
        assert!(topic_violation(bad).is_some(), "{bad}");
    }
    assert!(topic_violation(&"a".repeat(248)).is_some());
}
