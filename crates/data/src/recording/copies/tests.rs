use super::*;

#[test]
fn equal_messages_of_a_topic_are_each_written_once() {
    let a = InputId::new(0);
    let b = InputId::new(1);
    let mut copies = Copies::default();
    // The publisher sends the same bytes twice; then the other input gets both.
    assert_eq!([copies.take(a, 1, b"x"), copies.take(a, 2, b"x")], [1, 2]);
    assert_eq!([copies.take(b, 3, b"x"), copies.take(b, 4, b"x")], [1, 2]);
    assert_eq!([copies.take(b, 5, b"x"), copies.take(a, 6, b"x")], [5, 5]);
    assert_eq!([copies.take(a, 7, b"y"), copies.take(b, 8, b"yy")], [7, 8]);
}
