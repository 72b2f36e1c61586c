use super::*;
use crate::cdr::messages::CameraInfo;
use robocache_ops::random::Random;
use robocache_ops::time::Stamp;

const K: [f64; 9] = [500.0, 0.0, 320.0, 0.0, 510.0, 240.0, 0.0, 0.0, 1.0];
const EYE: [f64; 9] = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0];
const D: [f64; 5] = [-0.3, 0.1, 0.001, 0.002, 0.01];

fn info() -> CameraInfo<'static> {
    CameraInfo {
        stamp: Stamp::ZERO,
        frame_id: "camera",
        height: 480,
        width: 640,
        distortion_model: "plumb_bob",
        d: &D,
        k: K,
        r: EYE,
        p: [400.0, 0.0, 310.0, 0.0, 0.0, 405.0, 235.0, 0.0, 0.0, 0.0, 1.0, 0.0],
        binning: [0, 0],
        roi: [0; 4],
    }
}

fn camera(info: &CameraInfo<'_>) -> Camera {
    decode(&info.to_cdr(Vec::new())).unwrap_or_else(|rejected| panic!("{rejected}"))
}

fn rejected(info: &CameraInfo<'_>) -> (DropReason, String) {
    let Rejected { reason, detail, .. } = decode(&info.to_cdr(Vec::new())).unwrap_err();
    (reason, detail)
}

fn close(found: [[f64; 3]; 3], expected: [[f64; 3]; 3]) -> bool {
    let pairs = found.as_flattened().iter().zip(expected.as_flattened());
    pairs.into_iter().all(|(found, expected)| (found - expected).abs() < 1e-12)
}

#[test]
fn the_new_camera_matrix_is_p_or_if_it_is_zero_k() {
    let known = camera(&info());
    assert_eq!((known.size, known.first), ([640, 480], [0, 0]));
    assert_eq!((known.focal, known.centre), ([500.0, 510.0], [320.0, 240.0]));
    let of = |fx: f64, fy: f64, cx: f64, cy: f64| {
        [[1.0 / fx, 0.0, -cx / fx], [0.0, 1.0 / fy, -cy / fy], [0.0, 0.0, 1.0]]
    };
    assert!(close(known.ray, of(400.0, 405.0, 310.0, 235.0)), "{known:?}");
    let without = camera(&CameraInfo { p: [0.0; 12], r: [0.0; 9], ..info() });
    assert!(close(without.ray, of(500.0, 510.0, 320.0, 240.0)), "{without:?}");
}

#[test]
fn binning_and_region_are_those_of_image_geometry() {
    let binned = camera(&CameraInfo { binning: [2, 4], ..info() });
    assert_eq!(
        (binned.size, binned.focal, binned.centre),
        ([320, 120], [250.0, 127.5], [160.0, 60.0])
    );
    let same = camera(&CameraInfo { binning: [1, 1], roi: [0, 0, 640, 480], ..info() });
    assert_eq!(same, camera(&info()));
    // The principal point stays that of the sensor: the region is cut out of its table.
    let cut = camera(&CameraInfo { binning: [2, 3], roi: [101, 50, 201, 100], ..info() });
    assert_eq!((cut.size, cut.first), ([100, 33], [50, 16]));
    assert_eq!(cut.centre, [160.0, 80.0]);
    for roi in [[1, 0, 640, 480], [0, 0, 640, 481], [5, 5, 0, 0], [u32::MAX, 0, u32::MAX, 1]] {
        let (reason, detail) = rejected(&CameraInfo { roi, ..info() });
        assert_eq!(reason, DropReason::Malformed, "{roi:?}");
        assert!(detail.starts_with("roi: expected a region of the 640x480 px"), "{detail}");
    }
    assert_eq!(rejected(&CameraInfo { binning: [641, 0], ..info() }).0, DropReason::Malformed);
}

#[test]
fn no_coefficients_leave_the_image_as_it_is() {
    for (model, d) in [
        ("plumb_bob", &[0.0; 5][..]),
        ("plumb_bob", &[]),
        ("rational_polynomial", &[0.0; 8]),
        ("equidistant", &[]),
        ("", &[]),
        ("", &[0.0; 5]),
        ("none", &[0.0]),
    ] {
        let straight = camera(&CameraInfo { distortion_model: model, d, ..info() });
        assert_eq!(straight.lens, Lens::Straight, "{model} {d:?}");
        assert!(straight.remap(&[0..640, 0..480]).is_none());
        // What would turn the image does not count either.
        let p = [0.0; 12];
        assert_eq!(straight, camera(&CameraInfo { distortion_model: model, d, p, ..info() }));
    }
    // A fisheye bends also if it is the ideal one.
    let fisheye = camera(&CameraInfo { distortion_model: "equidistant", d: &[0.0; 4], ..info() });
    assert_eq!(fisheye.lens, Lens::Equidistant([0.0; 4]));
}

#[test]
fn a_model_has_as_many_coefficients_as_it_says() {
    for (model, lengths) in
        [("plumb_bob", &[4, 5][..]), ("rational_polynomial", &[8, 12, 14]), ("equidistant", &[4])]
    {
        for length in 1..20 {
            let d = vec![0.01; length];
            let info = CameraInfo { distortion_model: model, d: &d, ..info() };
            if lengths.contains(&length) {
                camera(&info);
                continue;
            }
            let (reason, detail) = rejected(&info);
            assert_eq!(reason, DropReason::Malformed);
            let most = lengths.iter().filter(|most| **most <= length).max();
            let other = most.map_or(String::new(), |at| format!(" with 0.01 at d[{at}]"));
            let found =
                format!("coefficients of {model}, and zeros behind them, found {length}{other}");
            assert!(detail.starts_with("d: expected ") && detail.ends_with(&found), "{detail}");
        }
    }
    for model in ["", "plumb-bob", "fisheye"] {
        let (reason, detail) = rejected(&CameraInfo { distortion_model: model, ..info() });
        assert_eq!(reason, DropReason::Unsupported);
        let expected = format!(
            "distortion_model: expected plumb_bob, rational_polynomial or equidistant, found {model:?} \
             with 5 coefficients"
        );
        assert_eq!(detail, expected);
    }
}

#[test]
fn zeros_behind_the_coefficients_are_none() {
    for (model, lengths) in
        [("plumb_bob", &[4, 5][..]), ("rational_polynomial", &[8, 12, 14]), ("equidistant", &[4])]
    {
        for used in lengths {
            for zero in [0.0, -0.0] {
                let mut d = vec![0.01; *used];
                let plain = camera(&CameraInfo { distortion_model: model, d: &d, ..info() });
                for _ in 0..20 {
                    d.push(zero);
                    let info = CameraInfo { distortion_model: model, d: &d, ..info() };
                    assert_eq!(camera(&info), plain, "{model} {used} of {}", d.len());
                }
                d.push(f64::MIN_POSITIVE);
                let (reason, detail) =
                    rejected(&CameraInfo { distortion_model: model, d: &d, ..info() });
                assert_eq!(reason, DropReason::Malformed);
                assert!(detail.ends_with(&format!(" at d[{}]", used + 20)), "{detail}");
            }
        }
        // A coefficient may be 0, but none may be missing.
        let short = vec![0.01; lengths[0] - 1];
        let info = CameraInfo { distortion_model: model, d: &short, ..info() };
        assert_eq!(rejected(&info).0, DropReason::Malformed);
    }
    let ideal = CameraInfo { distortion_model: "equidistant", d: &[0.0; 5], ..info() };
    assert_eq!(camera(&ideal).lens, Lens::Equidistant([0.0; 4]));
    // A fisheye of fewer zeros is none, whatever the others are.
    for zeros in 1..4 {
        let info = CameraInfo { distortion_model: "equidistant", d: &[0.0; 3][..zeros], ..info() };
        assert_eq!(rejected(&info).0, DropReason::Malformed);
    }
}

#[test]
fn what_is_no_calibration_is_refused_with_its_reason() {
    let with = |at: usize, value: f64| {
        let mut k = K;
        k[at] = value;
        CameraInfo { k, ..info() }
    };
    for (at, name) in [(0, "k[0]"), (4, "k[4]")] {
        for focal in [0.0, -500.0] {
            let (reason, detail) = rejected(&with(at, focal));
            assert_eq!(reason, DropReason::OutOfRange);
            let start = format!("{name}: expected a focal length greater than 0, found {focal};");
            assert!(detail.starts_with(&start), "{detail}");
        }
    }
    let (reason, detail) = rejected(&with(2, f64::NAN));
    assert_eq!(
        (reason, detail.as_str()),
        (DropReason::NonFinite, "k[2]: expected a number, found NaN")
    );
    let mut r = EYE;
    let mut p = info().p;
    (r[8], p[11]) = (f64::INFINITY, f64::NEG_INFINITY);
    for info in [
        CameraInfo { r, ..info() },
        CameraInfo { p, ..info() },
        CameraInfo { d: &[f64::NAN], ..info() },
    ] {
        assert_eq!(rejected(&info).0, DropReason::NonFinite);
    }
    // Two equal lines have no inverse, and neither has a number that only underflows.
    let singular = [1.0, 2.0, 3.0, 1.0, 2.0, 3.0, 0.0, 0.0, 1.0];
    for r in [singular, [1e-200, 0.0, 0.0, 0.0, 1e-200, 0.0, 0.0, 0.0, 1e-200]] {
        let (reason, detail) = rejected(&CameraInfo { r, ..info() });
        assert_eq!(reason, DropReason::OutOfRange);
        assert!(detail.starts_with("p and r: expected a camera matrix"), "{detail}");
    }
    for [width, height] in [[0, 480], [640, 0], [0, 0]] {
        let (reason, detail) = rejected(&CameraInfo { height, width, ..info() });
        assert_eq!(reason, DropReason::OutOfRange);
        assert!(detail.contains("is the camera calibrated?"), "{detail}");
    }
    for [width, height] in [[32_000, 480], [640, u32::MAX]] {
        assert_eq!(rejected(&CameraInfo { height, width, ..info() }).0, DropReason::OutOfRange);
    }
}

#[test]
fn a_cut_or_changed_message_is_refused_or_gives_a_camera_and_never_panics() {
    let whole =
        CameraInfo { binning: [2, 2], roi: [10, 10, 200, 100], ..info() }.to_cdr(Vec::new());
    for length in 0..whole.len() {
        assert_eq!(decode(&whole[..length]).unwrap_err().reason, DropReason::Malformed, "{length}");
    }
    assert!(decode(&[whole.as_slice(), &[7; 9]].concat()).is_ok());
    let mut random = Random::new(3);
    for _ in 0..20_000 {
        let mut changed = whole.clone();
        for _ in 0..=random.below(3) {
            let at = random.below(changed.len() as u64) as usize;
            changed[at] = random.bits() as u8;
        }
        if let Ok(camera) = decode(&changed) {
            let [width, height] = camera.size;
            let table = camera.remap(&[0..width.min(3), 0..height.min(3)]);
            assert!(table.is_none_or(|table| table.source() == camera.size));
        }
    }
}
