use super::*;

#[test]
fn a_transform_and_its_inverse_are_the_identity() {
    let t = [[0.6, -0.8, 0.0, 3.0], [0.8, 0.6, 0.0, -1.0], [0.0, 0.0, 1.0, 7.0]];
    for product in [after(&t, &inverse(&t)), after(&inverse(&t), &t)] {
        for (found, expected) in product.as_flattened().iter().zip(IDENTITY.as_flattened()) {
            assert!((found - expected).abs() < 1e-15, "{product:?}");
        }
    }
    assert_eq!(after(&IDENTITY, &t), t);
}
