use super::*;

#[test]
fn files_are_in_the_order_of_their_numbers() {
    let mut names = ["b_10.mcap", "b_9.mcap", "b_09.db3", "b_1.mcap", "b.mcap", "a_11.mcap"];
    names.sort_by(|a, b| by_number(a, b));
    assert_eq!(names, ["a_11.mcap", "b.mcap", "b_1.mcap", "b_09.db3", "b_9.mcap", "b_10.mcap"]);
}
