use proptest::prelude::*;

use super::*;

fn placed(fit: Fit, row: (usize, usize), image: (usize, usize)) -> Placement {
    let resize = Resize { fit, ..Resize::to(row.0, row.1) };
    Placement::new(&resize, image.0, image.1)
}

#[test]
fn camera_images_are_placed_as_policies_place_them() {
    let pad = placed(Fit::PadCenter, (224, 224), (640, 480));
    assert_eq!((pad.size, &pad.target), ([224, 168], &[0..224, 28..196]));
    let pad = placed(Fit::PadTopLeft, (512, 512), (640, 480));
    assert_eq!((pad.size, &pad.target), ([512, 384], &[0..512, 128..512]));
    let crop = placed(Fit::CropCenter, (224, 224), (640, 480));
    assert_eq!((crop.source, crop.size), ([80..560, 0..480], [224, 224]));
    let cover = placed(Fit::CoverCenter, (320, 240), (1280, 720));
    assert_eq!((cover.size, cover.window), ([427, 240], [53..373, 0..240]));
}

#[test]
fn a_fraction_is_taken_first_and_torch_rounds_its_place_to_even() {
    let resize = Resize { fit: Fit::Stretch, crop_fraction: 0.95, ..Resize::to(224, 224) };
    assert_eq!(Placement::new(&resize, 848, 480).source, [21..826, 12..468]);
    let torch = Resize { filter: Filter::TorchBilinearAntialias, ..resize };
    assert_eq!(Placement::new(&torch, 848, 480).source, [22..827, 12..468]);
    let fraction = Resize { crop_fraction: 230.0 / 256.0, ..resize };
    assert_eq!(Placement::new(&fraction, 256, 256).source, [13..243, 13..243]);
    let tiny = Resize { crop_fraction: 1e-9, ..resize };
    assert_eq!(Placement::new(&tiny, 3, 2).source, [1..2, 0..1]);
}

proptest! {
    #[test]
    fn every_part_is_where_it_can_be(
        image in (1usize..5000, 1usize..5000), row in (1usize..600, 1usize..600),
        fit in prop::sample::select(&[Fit::Stretch, Fit::PadCenter, Fit::PadTopLeft,
            Fit::CropCenter, Fit::CoverCenter][..]),
        filter in prop::sample::select(&Filter::ALL[..]), crop_fraction in 0.001f64..=1.0,
    ) {
        let resize = Resize { filter, fit, crop_fraction, ..Resize::to(row.0, row.1) };
        let placed = Placement::new(&resize, image.0, image.1);
        for (axis, whole) in [image.0, image.1].into_iter().enumerate() {
            let [source, window, target] =
                [&placed.source, &placed.window, &placed.target].map(|part| &part[axis]);
            prop_assert!(!source.is_empty() && source.end <= whole);
            prop_assert!(!window.is_empty() && window.end <= placed.size[axis]);
            prop_assert!(target.end <= [row.0, row.1][axis] && target.len() == window.len());
        }
    }
}
