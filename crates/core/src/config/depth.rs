//! How depth images become rows.

use half::{bf16, f16};

use super::check::{Check, Range};
use super::image::{Form, Image, Made, RawImage, resizes};
use super::mapping::mapping;
use super::words::one_of;
use crate::encoder::EncoderSpec;
use crate::spec::Selection;
use robocache_ops::depth::DepthSpec;
use robocache_ops::dtype::DType;
use robocache_ops::image::{Fit, Resize};

/// Millimetres (REP 118).
const UNIT_M: f64 = 0.001;
const NON_NEGATIVE: Range = Range::from(0.0, f32::MAX as f64);
const ANY: Range = Range::from(f32::MIN as f64, f32::MAX as f64);

mapping! { RawDepth {
    min_m: f64,
    max_m: f64,
    fill_m: f64,
    unit_m: f64,
} }

/// Keys of colours say nothing about distances.
pub(super) const FORM: Form = Form {
    key: "depth",
    has: &[
        "resize",
        "resize.width",
        "resize.height",
        "resize.fit",
        "max_width_px",
        "max_height_px",
    ],
    others: "no such key beside `depth`: a row of depth is one channel in metres, of the nearest pixels, and \
             `depth.fill_m` is its padding",
    single: &[
        (
            "preset",
            "no preset beside `depth`: presets are of colours, and a row of depth is one channel in metres",
        ),
        (
            "undistort",
            "no such key beside `depth`: to undistort blends neighbours, and a mean of two distances is neither",
        ),
    ],
    made: depth,
};

/// Validates the key `depth`.
fn depth(check: &mut Check<'_>, image: &Image<'_>) -> Option<Made> {
    let Image { key, raw, dtype, bounds, .. } = *image;
    let depth = raw.depth.as_ref()?;
    let resize = resize(check, key, raw);
    let at = |name: &str| format!("{key}.depth.{name}");
    let mut number = |name: &str, value: Option<f64>, default: f64, range: Range| {
        check.number(&at(name), value.unwrap_or(default), range)
    };
    let unit_m = number("unit_m", depth.unit_m, UNIT_M, Range::above(0.0, 1000.0));
    let min_m = number("min_m", depth.min_m, 0.0, NON_NEGATIVE);
    let max_m = number("max_m", depth.max_m, greatest(dtype), NON_NEGATIVE);
    let fill_m = number("fill_m", depth.fill_m, 0.0, ANY);
    let holds =
        [fits(check, &at("max_m"), max_m, dtype), fits(check, &at("fill_m"), fill_m, dtype)];
    let min_m = min_m?;
    let max_m = max_m?;
    if max_m < min_m || max_m == 0.0 {
        let expected = format!("a distance greater than 0 and not less than min_m ({min_m})");
        check.fail(&at("max_m"), expected);
        return None;
    }
    let [Some(()), Some(())] = holds else { return None };
    let Resize { width, height, fit, .. } = resize?;
    let spec = DepthSpec {
        width,
        height,
        fit,
        unit_m: unit_m?,
        min_m: min_m as f32,
        max_m: max_m as f32,
        fill_m: fill_m? as f32,
    };
    let bounds = bounds?;
    Some((EncoderSpec::Depth(spec), Selection::Depth { largest_px: bounds.image_px() }, bounds))
}

/// The resize of a depth image: one, with the fits that cut nothing off afterwards.
fn resize(check: &mut Check<'_>, key: &str, raw: &RawImage) -> Option<Resize> {
    let key = format!("{key}.resize");
    let resizes = resizes(check, &key, raw.resize.as_ref())?;
    let [resize] = resizes.as_slice() else {
        check.fail(&key, "one mapping beside `depth`");
        return None;
    };
    if resize.fit == Fit::CoverCenter {
        let fits = [Fit::Stretch, Fit::PadCenter, Fit::PadTopLeft, Fit::CropCenter];
        let expected = format!("{} beside `depth`", one_of(&fits.map(Fit::name)));
        check.fail(&format!("{key}.fit"), expected);
        return None;
    }
    Some(*resize)
}

/// The greatest finite value of a type of floats.
fn greatest(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => f16::MAX.to_f64(),
        DType::Bf16 => bf16::MAX.to_f64(),
        DType::F32 | DType::U8 | DType::I32 => f64::from(f32::MAX),
    }
}

/// Checks that rows of `dtype` hold the value. Integers are refused elsewhere.
fn fits(check: &mut Check<'_>, key: &str, value: Option<f64>, dtype: DType) -> Option<()> {
    let most = greatest(dtype);
    if value.is_some_and(|value| value.abs() > most) {
        check.fail(key, format!("a number that fits {}, up to {most}", dtype.name()));
        return None;
    }
    Some(())
}
