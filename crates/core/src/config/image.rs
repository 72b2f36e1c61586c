//! How images become rows.

use super::check::{Check, Range};
use super::depth::{self, RawDepth};
use super::mapping::{AllKeys, Mapping, mapping, read_words};
use super::node::Node;
use super::presets::Preset;
use super::read::Read;
use super::undistort::RawUndistort;
use super::words::one_of;
use crate::codec::PixelFormat;
use crate::encoder::EncoderSpec;
use crate::sample::Bounds;
use crate::spec::Selection;
use robocache_ops::dtype::DType;
use robocache_ops::image::{self, Color, Filter, Fit, ImageLayout, ImageSpec, MAX_RESIZES, Resize};

/// The key that names a preset. It is the first one of `image`.
const PRESET: &str = "preset";
const MAX_SIDE: usize = 8192;
const F32: Range = Range::from(f32::MIN as f64, f32::MAX as f64);
const POSITIVE_F32: Range = Range::above(0.0, f32::MAX as f64);

mapping! { RawImage {
    preset: Preset,
    undistort: RawUndistort,
    crop: RawImageCrop,
    resize: RawResizes,
    layout: ImageLayout,
    color: Color,
    range: Vec<f64>,
    mean: Vec<f64>,
    std: Vec<f64>,
    pad_value: i64,
    max_width_px: i64,
    max_height_px: i64,
    encoding_8uc: String,
    depth: RawDepth,
} }

mapping! { RawImageCrop {
    x: i64,
    y: i64,
    width: i64,
    height: i64,
} }

mapping! { RawResize {
    width: i64,
    height: i64,
    filter: Filter,
    fit: Fit,
    crop_fraction: f64,
} }

read_words! { Filter Fit ImageLayout Color }

/// One resize, or a list of them.
pub(super) enum RawResizes {
    One(RawResize),
    Several(Vec<RawResize>),
}

impl Read for RawResizes {
    fn read(check: &mut Check<'_>, key: &str, node: &Node) -> Option<Self> {
        match node.items().is_some() {
            true => Vec::read(check, key, node).map(RawResizes::Several),
            false => RawResize::read(check, key, node).map(RawResizes::One),
        }
    }

    fn keys(path: &str, all: &mut AllKeys) {
        RawResize::keys(path, all);
    }
}

/// The forms that rows of images have beside pixels.
const FORMS: [&Form; 1] = [&depth::FORM];

/// A form of the rows of images beside pixels.
pub(super) struct Form {
    /// The key of `image` that chooses it.
    pub key: &'static str,
    /// The other keys of `image` that it has, and keys of a resize as `resize.fit`.
    pub has: &'static [&'static str],
    /// Words for what is expected in place of any other key.
    pub others: &'static str,
    /// Words for what is expected in place of single keys.
    pub single: &'static [(&'static str, &'static str)],
    /// Validates its keys.
    pub made: fn(&mut Check<'_>, &Image<'_>) -> Option<Made>,
}

/// The encoder of images, what an input takes from a message, and how large an image may be.
pub(super) type Made = (EncoderSpec, Selection, Bounds);

/// The key `image` of a stream.
pub(super) struct Image<'a> {
    /// Path of the key.
    pub key: &'a str,
    pub raw: &'a RawImage,
    /// The type of the messages.
    pub message: &'a str,
    /// Element type of the rows, and the path of its key.
    pub dtype: DType,
    pub dtype_key: &'a str,
    /// The largest image; `None` if its keys are wrong.
    pub bounds: Option<Bounds>,
}

impl Form {
    /// True if an image of this form may have such a key of `image`, or of a resize.
    fn may_have(&self, key: &str) -> bool {
        key == self.key || self.has.contains(&key)
    }

    /// Reports the keys of `image` that this form lacks. Those that the stream has from `defaults` are for other
    /// streams. `None` if the stream names a preset: then nothing is said about the keys that it sets.
    fn refuse_others(&self, check: &mut Check<'_>, image: &Image<'_>) -> Option<()> {
        for (at, name) in image.raw.given_with_resizes() {
            let at = format!("{}.{at}", image.key);
            if self.may_have(&name) || check.is_inherited(&at) {
                continue;
            }
            let single = self.single.iter().find(|(key, _)| *key == name);
            check.fail(&at, single.map_or(self.others, |(_, expected)| expected));
            if name == PRESET {
                return None;
            }
        }
        Some(())
    }
}

impl RawImage {
    /// The form that a key chooses; `None` for pixels.
    fn form(&self) -> Option<&'static Form> {
        let given = self.given();
        FORMS.into_iter().find(|form| given.contains(&form.key))
    }

    /// True if the form may have such a key of `image`. Pixels have all keys but those of other forms.
    pub(super) fn may_have(&self, key: &str) -> bool {
        self.form().is_none_or(|form| form.may_have(key))
    }

    /// The keys that have a value, also those of resizes. Each has its path, and its name in [`Form::has`].
    fn given_with_resizes(&self) -> Vec<(String, String)> {
        let own = self.given().into_iter().map(|key| (key.to_owned(), key.to_owned()));
        let resizes: Vec<(String, &RawResize)> = match &self.resize {
            None => Vec::new(),
            Some(RawResizes::One(resize)) => vec![("resize".to_owned(), resize)],
            Some(RawResizes::Several(all)) => {
                all.iter().enumerate().map(|(at, raw)| (format!("resize[{at}]"), raw)).collect()
            }
        };
        let of_resizes = resizes.iter().flat_map(|(at, resize)| {
            let named = move |key| (format!("{at}.{key}"), format!("resize.{key}"));
            resize.given().into_iter().map(named)
        });
        own.chain(of_resizes).collect()
    }
}

/// True if a key of `image` chooses another form than pixels.
pub(super) fn has_other_form(image: &Node) -> bool {
    FORMS.iter().any(|form| image.get(form.key).is_some())
}

/// Validates the key `image` of the stream of a type of messages at `key`: what an image becomes, and how
/// large it may be.
pub(super) fn image(
    check: &mut Check<'_>,
    key: &str,
    raw: Option<RawImage>,
    message: &str,
    dtype: DType,
) -> Option<Made> {
    let dtype_key = format!("{key}.dtype");
    let key = format!("{key}.image");
    let raw = check.required(&key, raw, "a mapping with the key `resize` or `preset`")?;
    if check.is_unread(&format!("{key}.{PRESET}")) {
        // What the preset would have set need not be missed, too.
        for missing in ["resize", "resize.width", "resize.height"] {
            check.set_unread(format!("{key}.{missing}"));
        }
    }
    let bounds = bounds(check, &key, &raw);
    let image = Image { key: &key, raw: &raw, message, dtype, dtype_key: &dtype_key, bounds };
    match raw.form() {
        Some(form) => {
            form.refuse_others(check, &image)?;
            (form.made)(check, &image)
        }
        None => pixels(check, &image),
    }
}

/// Validates the keys of pixels.
fn pixels(check: &mut Check<'_>, image: &Image<'_>) -> Option<Made> {
    let Image { key, raw, dtype, dtype_key, bounds, .. } = *image;
    let selection = image.selection(check);
    let crop = raw.crop.as_ref().map(|raw| crop(check, &format!("{key}.crop"), raw, bounds));
    let resizes = resizes(check, &format!("{key}.resize"), raw.resize.as_ref());
    let color = raw.color.unwrap_or_default();
    let RawImage { range, mean, std, .. } = raw;
    let normalisation =
        Normalisation { range: range.as_deref(), mean: mean.as_deref(), std: std.as_deref() };
    let normalisation = normalisation.validate(check, key, color.channels(), dtype_key, dtype);
    let pad_value = check.integer(&format!("{key}.pad_value"), raw.pad_value.unwrap_or(0), 0, 255);
    let [mean, std] = normalisation?;
    let spec = ImageSpec {
        undistort: raw.undistort.is_some(),
        crop: match crop {
            Some(crop) => Some(crop?),
            None => None,
        },
        resizes: resizes?,
        layout: raw.layout.unwrap_or_default(),
        color,
        mean,
        std,
        pad_value: pad_value? as u8,
    };
    let (selection, bounds) = selection?;
    let fits = dtype == DType::U8 || fits_dtype(check, key, &spec, dtype);
    fits.then_some((EncoderSpec::Image(spec), selection, bounds))
}

impl Image<'_> {
    /// The pixels that an input takes from a message, by the key `encoding_8uc`, and how large an image may be.
    fn selection(&self, check: &mut Check<'_>) -> Option<(Selection, Bounds)> {
        let Image { key, raw, message, bounds, .. } = *self;
        let at = format!("{key}.encoding_8uc");
        let is_file = message == "sensor_msgs/msg/CompressedImage";
        if is_file && raw.encoding_8uc.is_some() && !check.is_inherited(&at) {
            let expected = format!(
                "no such key on a {message} stream: its file says what its channels are, and files of \
                 8UC1, 8UC3 or 8UC4 are dropped, because their encoder may have swapped red and blue"
            );
            check.fail(&at, expected);
        }
        // A name that is given must be known.
        let encoding_8uc = match raw.encoding_8uc.as_deref() {
            Some(name) => Some(encoding_8uc(check, &at, name)?),
            None => None,
        };
        let bounds = Bounds { jpeg: is_file, ..bounds? };
        Some((Selection::Image { largest_px: bounds.image_px(), encoding_8uc }, bounds))
    }
}

/// The part of the image that is used. It must be inside of the largest image.
fn crop(
    check: &mut Check<'_>,
    key: &str,
    raw: &RawImageCrop,
    bounds: Option<Bounds>,
) -> Option<image::Crop> {
    let mut number = |name: &str, value: Option<i64>, low: usize| {
        let key = format!("{key}.{name}");
        let px = check.required(&key, value, "the part of the image in pixels")?;
        check.integer(&key, px, low, image::MAX_SIDE)
    };
    let x = number("x", raw.x, 0);
    let y = number("y", raw.y, 0);
    let width = number("width", raw.width, 1);
    let height = number("height", raw.height, 1);
    let crop = image::Crop { x: x?, y: y?, width: width?, height: height? };
    let Bounds { max_width_px, max_height_px, .. } = bounds?;
    if crop.x + crop.width > max_width_px || crop.y + crop.height > max_height_px {
        let expected = format!(
            "a part of an image of at most {max_width_px}x{max_height_px} px (max_width_px and \
             max_height_px)"
        );
        check.fail(key, expected);
        return None;
    }
    Some(crop)
}

/// The resizes, at least one.
pub(super) fn resizes(
    check: &mut Check<'_>,
    key: &str,
    raw: Option<&RawResizes>,
) -> Option<Vec<Resize>> {
    let expected = "a mapping with the keys `width` and `height`, or a list of such mappings";
    match check.required(key, raw, expected)? {
        RawResizes::One(raw) => resize(check, key, raw).map(|resize| vec![resize]),
        RawResizes::Several(all) if all.is_empty() || all.len() > MAX_RESIZES => {
            check.fail(key, format!("from 1 to {MAX_RESIZES} resizes"));
            None
        }
        RawResizes::Several(all) => {
            let read = all.iter().enumerate();
            let read = read.map(|(at, raw)| resize(check, &format!("{key}[{at}]"), raw));
            // All are checked before it stops at one that is wrong.
            read.collect::<Vec<_>>().into_iter().collect()
        }
    }
}

fn resize(check: &mut Check<'_>, key: &str, raw: &RawResize) -> Option<Resize> {
    let mut side = |name: &str, value: Option<i64>| {
        let key = format!("{key}.{name}");
        let px = check.required(&key, value, "the size of the row in pixels")?;
        check.integer(&key, px, 1, MAX_SIDE)
    };
    let width = side("width", raw.width);
    let height = side("height", raw.height);
    let fraction = raw.crop_fraction.unwrap_or(1.0);
    let fraction = check.number(&format!("{key}.crop_fraction"), fraction, Range::above(0.0, 1.0));
    let filter = raw.filter.unwrap_or_default();
    let fit = raw.fit.unwrap_or_default();
    Some(Resize { width: width?, height: height?, filter, fit, crop_fraction: fraction? })
}

/// The keys that say which value a byte has.
struct Normalisation<'a> {
    range: Option<&'a [f64]>,
    mean: Option<&'a [f64]>,
    std: Option<&'a [f64]>,
}

impl Normalisation<'_> {
    /// Mean and standard deviation per channel.
    fn validate(
        self,
        check: &mut Check<'_>,
        key: &str,
        channels: usize,
        dtype_key: &str,
        dtype: DType,
    ) -> Option<[[f32; 3]; 2]> {
        let Normalisation { range, mean, std } = self;
        let named = [("range", range.is_some()), ("mean", mean.is_some()), ("std", std.is_some())];
        if dtype == DType::U8 {
            for (name, _) in named.iter().filter(|(_, given)| *given) {
                let expected = "no such key if dtype is u8: the row holds the bytes, which the \
                                policy normalises itself";
                check.fail(&format!("{key}.{name}"), expected);
                if let Some(preset) = check.preset_of(dtype_key) {
                    check.hint(format!("the preset {preset} sets dtype"));
                }
            }
        } else if range.is_some() && (mean.is_some() || std.is_some()) {
            check.fail(&format!("{key}.range"), "no such key beside `mean` and `std`");
            return None;
        }
        if let Some(range) = range {
            return match range {
                [0.0, 1.0] => Some([[0.0; 3], [1.0; 3]]),
                [-1.0, 1.0] => Some([[0.5; 3]; 2]),
                _ => {
                    let expected = "[0, 1] or [-1, 1], the values of black and white (others: with \
                                    `mean` and `std`)";
                    check.fail(&format!("{key}.range"), expected);
                    None
                }
            };
        }
        let mean = per_channel(check, &format!("{key}.mean"), mean, channels, 0.0, F32);
        let std = per_channel(check, &format!("{key}.std"), std, channels, 1.0, POSITIVE_F32);
        Some([mean?, std?])
    }
}

/// Pixel format of `8UC1`, `8UC3` or `8UC4`, by its name.
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
    values: Option<&[f64]>,
    channels: usize,
    default: f32,
    range: Range,
) -> Option<[f32; 3]> {
    let Some(values) = values else { return Some([default; 3]) };
    match channels {
        1 => check.numbers::<1>(key, values, range).map(|[value]| [value as f32; 3]),
        _ => check.numbers::<3>(key, values, range).map(|values| values.map(|v| v as f32)),
    }
}

/// Checks that `dtype` holds the values of black and white, and so of every byte between them.
fn fits_dtype(check: &mut Check<'_>, key: &str, spec: &ImageSpec, dtype: DType) -> bool {
    for channel in 0..spec.color.channels() {
        let mean = spec.mean[channel];
        let std = spec.std[channel];
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
