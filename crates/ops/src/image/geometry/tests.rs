use proptest::prelude::*;

use super::*;
use crate::image::{ImageSpec, Resize, memory};

proptest! {
    #[test]
    fn no_axis_has_more_coefficients_than_the_bound(
        inputs in 1usize..3000, outputs in 1usize..600, more in 0usize..100,
    ) {
        let axis = Axis::bilinear(inputs, outputs, 0..outputs);
        let most = memory::most_weights(inputs + more, outputs + more);
        prop_assert!(axis.coefficients().len() <= most, "{} > {most}", axis.coefficients().len());
    }
}

#[test]
fn the_memory_of_a_large_camera_is_its_pixels_and_little_more() {
    let spec = ImageSpec::new(vec![Resize::to(224, 224)]);
    let pixels = 4 * 3840 * 2160;
    let bytes = memory::upload_bytes(&spec, [3840, 2160]);
    assert!((pixels..pixels + 65_536).contains(&bytes), "{bytes}");
    assert_eq!(memory::lines_bytes(&spec, [3840, 2160]), 4 * 224 * 2160);
}
