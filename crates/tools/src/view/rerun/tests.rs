use super::part;

#[test]
fn a_name_is_one_part_of_a_path() {
    assert_eq!(part("elbow.position"), "elbow.position");
    assert_eq!(part("a/b c"), "a\\/b\\ c");
}
