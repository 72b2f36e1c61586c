use super::*;

#[test]
fn nearest_pixels() {
    let of = |part, outputs| nearest(part, outputs).collect::<Vec<_>>();
    assert_eq!(of(0..4, 4), [0, 1, 2, 3]);
    assert_eq!(of(0..4, 2), [1, 3], "the later of two");
    assert_eq!(of(10..13, 1), [11]);
    assert_eq!(of(5..7, 5), [5, 5, 6, 6, 6]);
    assert_eq!(of(0..640, 3), [106, 320, 533]);
}
