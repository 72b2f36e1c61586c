use super::*;
use proptest::prelude::*;

proptest! {
    #[test]
    fn fixed_point_rounds_ties_to_even(value in -1048576.0f32..=1048576.0) {
        let exact = f64::from(value) * ONE;
        prop_assert_eq!(fixed_point(value), exact.round_ties_even() as i64);
    }
}

#[test]
fn fixed_point_at_ties_and_bounds() {
    let unit = (1.0 / ONE) as f32;
    for (units, expected) in
        [(0.5, 0), (1.5, 2), (2.5, 2), (-0.5, 0), (-1.5, -2), (-2.5, -2), (0.51, 1)]
    {
        assert_eq!(fixed_point(units * unit), expected, "{units}");
    }
    assert_eq!(fixed_point(crate::voxelize::MAX_SUMMED), 1 << 40);
    assert_eq!(fixed_point(-crate::voxelize::MAX_SUMMED), -(1 << 40));
    assert_eq!(fixed_point(f32::MIN_POSITIVE), 0);
}
