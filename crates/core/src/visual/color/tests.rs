use super::*;

#[test]
fn the_lowest_value_is_the_darkest() {
    let map = ColorMap::of([2.0, f32::NAN, 6.0, f32::INFINITY].into_iter());
    assert_eq!(map.color(2.0), VIRIDIS[0]);
    assert_eq!(map.color(4.0), VIRIDIS[2]);
    assert_eq!((map.color(6.0), map.color(9.0)), (VIRIDIS[4], VIRIDIS[4]));
    assert_eq!(map.color(f32::NAN), VIRIDIS[2]);
    assert_eq!(ColorMap::of([3.0; 2].into_iter()).color(3.0), VIRIDIS[2]);
    assert_eq!(ColorMap::of(std::iter::empty()).color(3.0), VIRIDIS[2]);
}
