//! How images become rows.

use super::check::{Check, Range};
use super::depth::depth;
use super::raw::RawImage;
use super::words::one_of;
use crate::codec::PixelFormat;
use crate::dtype::DType;
use crate::ops::image::{self, ImageSpec};
use crate::spec::{Bounds, EncoderSpec, Selection};

const MAX_SIDE: usize = 8192;
const F32: Range = Range::from(f32::MIN as f64, f32::MAX as f64);
const POSITIVE_F32: Range = Range::above(0.0, f32::MAX as f64);

/// Validates the key `image` of the stream at `key`: what an image becomes, and how large it may be.
pub(super) fn image(
    check: &mut Check<'_>,
    key: &str,
    raw: Option<RawImage>,
    dtype: DType,
) -> Option<(EncoderSpec, Selection, Bounds)> {
    let key = format!("{key}.image");
    let raw = check.required(&key, raw, "a mapping with the keys `width` and `height`")?;
    let mut side = |name: &str, value: Option<i64>| {
        let key = format!("{key}.{name}");
        let px = check.required(&key, value, "the size of the row in pixels")?;
        check.integer(&key, px, 1, MAX_SIDE)
    };
    let (width, height) = (side("width", raw.width), side("height", raw.height));
    let bounds = bounds(check, &key, &raw);
    if let Some(raw_depth) = &raw.depth {
        let spec = depth(check, &key, (&raw, raw_depth), dtype, (width, height))?;
        let bounds = bounds?;
        let selection = Selection::Depth { largest_px: bounds.image_px() };
        return Some((EncoderSpec::Depth(spec), selection, bounds));
    }
    let at = format!("{key}.encoding_8uc");
    let encoding_8uc = raw.encoding_8uc.as_deref().map(|name| encoding_8uc(check, &at, name));
    let color = raw.color.unwrap_or_default();
    let channels = color.channels();
    if dtype == DType::U8 {
        for (name, given) in [("mean", raw.mean.is_some()), ("std", raw.std.is_some())] {
            if given {
                let expected = "no such key if dtype is u8: the row holds the bytes, which the \
                                policy normalises itself";
                check.fail(&format!("{key}.{name}"), expected);
            }
        }
    }
    let mean = per_channel(check, &format!("{key}.mean"), raw.mean, channels, 0.0, F32);
    let std = per_channel(check, &format!("{key}.std"), raw.std, channels, 1.0, POSITIVE_F32);
    let pad_value = check.integer(&format!("{key}.pad_value"), raw.pad_value.unwrap_or(0), 0, 255);
    let spec = ImageSpec {
        width: width?,
        height: height?,
        fit: raw.fit.unwrap_or_default(),
        color,
        mean: mean?,
        std: std?,
        pad_value: pad_value? as u8,
    };
    // A name that is given must be known.
    let encoding_8uc = match encoding_8uc {
        Some(known) => Some(known?),
        None => None,
    };
    let bounds = bounds?;
    let largest_px = bounds.image_px();
    let selection = Selection::Image { largest_px, encoding_8uc };
    let fits = dtype == DType::U8 || fits_dtype(check, &key, &spec, dtype);
    fits.then_some((EncoderSpec::Image(spec), selection, bounds))
}

/// What the pixels of `8UC1`, `8UC3` or `8UC4` are, by a name.
fn encoding_8uc(check: &mut Check<'_>, key: &str, name: &str) -> Option<PixelFormat> {
    let untyped = || PixelFormat::all().filter(|format| format.untyped_name().is_some());
    let found = untyped().find(|format| format.name() == name);
    if found.is_none() {
        let names: Vec<_> = untyped().map(PixelFormat::name).collect();
        check.fail(key, one_of(&names));
    }
    found
}

/// The largest image that is taken.
fn bounds(check: &mut Check<'_>, key: &str, raw: &RawImage) -> Option<Bounds> {
    let default = Bounds::default();
    let mut side = |name: &str, value: Option<i64>, default: usize| {
        check.integer(&format!("{key}.{name}"), value.unwrap_or(default as i64), 1, image::MAX_SIDE)
    };
    let max_width_px = side("max_width_px", raw.max_width_px, default.max_width_px);
    let max_height_px = side("max_height_px", raw.max_height_px, default.max_height_px);
    Some(Bounds { max_width_px: max_width_px?, max_height_px: max_height_px?, ..default })
}

/// One number per channel. If there is one channel, its number is in all three places.
fn per_channel(
    check: &mut Check<'_>,
    key: &str,
    values: Option<Vec<f64>>,
    channels: usize,
    default: f32,
    range: Range,
) -> Option<[f32; 3]> {
    let Some(values) = values else { return Some([default; 3]) };
    match channels {
        1 => check.numbers::<1>(key, &values, range).map(|[value]| [value as f32; 3]),
        _ => check.numbers::<3>(key, &values, range).map(|values| values.map(|v| v as f32)),
    }
}

/// Checks that `dtype` holds the values of black and white, and so of every byte between them.
fn fits_dtype(check: &mut Check<'_>, key: &str, spec: &ImageSpec, dtype: DType) -> bool {
    for channel in 0..spec.color.channels() {
        let (mean, std) = (spec.mean[channel], spec.std[channel]);
        for byte in [0.0f32, 255.0] {
            let value = (byte / 255.0 - mean) / std;
            if !dtype.holds(value) {
                let name = dtype.name();
                let expected =
                    format!("`mean` and `std` whose result (byte/255 - mean)/std fits {name}");
                let found = format!("{value:e} for the byte {byte} of channel {channel}");
                check.fail_found(key, expected, found);
                return false;
            }
        }
    }
    true
}
