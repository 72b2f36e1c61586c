//! Images: encodings, sizes, padded lines, fits, colours, element types.

use std::sync::Arc;

use robocache_core::backend::StepJob;
use robocache_core::codec::ScanReader;
use robocache_core::encoder::EncoderSpec;
use robocache_core::sample::{CompressedImage, PlacedSample, Placement, Sample};
use robocache_core::spec::RingId;
use robocache_ops::align::{Slot, Strategy, Value};
use robocache_ops::device::RowMemory;
use robocache_ops::image::camera::{Camera, Lens};
use robocache_ops::image::{
    Color, Crop, Encoding, Filter, Fit, ImageLayout, ImageSpec, ImageView, Remap, Resize,
};

use crate::backends::random::Random;
use crate::backends::subject::{Kind, Pair, stream};
use crate::common::jpeg::JpegFile;

const IMAGES_PER_PAIR: usize = 20;
const SLOTS: usize = 3;

pub(super) fn check(kind: &Kind, cases: usize) {
    for number in 0..cases.div_ceil(IMAGES_PER_PAIR) {
        let mut random = Random::new(number as u64 + 10_000);
        let spec = random_spec(&mut random);
        let dtype = random.image_dtype();
        // The steps after the first begin at any byte if elements are bytes.
        let steps = random.range(1, 3);
        let described = format!("{spec:?} {dtype:?} {steps} steps");
        let encoder = EncoderSpec::Image(spec);
        let spec = stream("camera", encoder, Strategy::Hold, dtype, steps, SLOTS - 1);
        let mut pair = Pair::new(kind, vec![spec], number % 3 != 0);
        for image in 0..IMAGES_PER_PAIR {
            let case = format!("pair {number} image {image}: {described}");
            check_image(&mut pair, &mut random, image % SLOTS, number == 0, &case);
        }
    }
}

/// A reader keeps more rows than a backend has memory for at once. None of them changes, and the others are read all the
/// same. A row of a GPU comes in its pinned memory while there is some, and once.
pub(super) fn check_kept(kind: &Kind, _: usize) {
    let mut random = Random::new(30_000);
    let encoder = EncoderSpec::Image(random_spec(&mut random));
    let spec = stream("camera", encoder, Strategy::Hold, random.image_dtype(), 1, SLOTS - 1);
    let pair = Pair::new(kind, vec![spec], true);
    pair.keep_rows();
    let mut kept = Vec::new();
    for image in 0..40 {
        let slot = image % SLOTS;
        let case = format!("kept image {image}");
        encode(&pair, &mut random, slot, (64, 48), &case);
        let rows = pair.take_slot(slot, &case);
        let is_pinned = |row: &RowMemory| !matches!(row, RowMemory::Own(_));
        if [0, 1, 7, 39].contains(&image) {
            let expected = kind.has_rows_on_device() && image < 8;
            assert_eq!(is_pinned(&rows[0]), expected, "{case}: pinned memory");
        }
        let [again, _] = pair.take_slot(slot, &case);
        assert!(!is_pinned(&again) && *again == *rows[0], "{case}: taken again");
        kept.push((rows, case));
    }
    for ([found, expected], case) in kept {
        assert!(*found == *expected, "{case}: the row is another");
    }
}

/// One encoder meets sizes in turn: some again and again, more of them than it may keep plans for,
/// and others between. Images follow each other without a wait, so that the one before may still
/// be under way, and the rows are compared when all are there.
pub(super) fn check_sizes(kind: &Kind, cases: usize) {
    let mut in_messages = 0;
    for number in 0..cases.div_ceil(10 * SLOTS) {
        let mut random = Random::new(number as u64 + 40_000);
        let spec = random_spec(&mut random);
        let dtype = random.image_dtype();
        let described = format!("{spec:?} {dtype:?}");
        let spec = stream("camera", EncoderSpec::Image(spec), Strategy::Hold, dtype, 1, SLOTS - 1);
        let mut pair = Pair::new(kind, vec![spec], true);
        let sides = |random: &mut Random| (random.range(1, 320), random.range(1, 240));
        let known: Vec<_> = (0..random.range(2, 7)).map(|_| sides(&mut random)).collect();
        for round in 0..10 {
            let case = format!("pair {number} round {round}: {described}");
            for slot in 0..SLOTS {
                let size = match random.one_in(4) {
                    true => sides(&mut random),
                    false => known[(round * SLOTS + slot) % known.len()],
                };
                encode(&pair, &mut random, slot, size, &case);
            }
            (0..SLOTS).for_each(|slot| pair.compare_slot(slot, &case));
        }
        in_messages += pair.in_messages();
    }
    assert_eq!(in_messages > 0, kind.registers(), "whether a GPU reads images where they are");
    grows(kind);
    crops(kind);
    orders(kind);
}

/// Images with tables that undistort them: of real lenses and of random points, of the whole image and of
/// the part that is cropped, the same table again and again, other tables and none between.
pub(super) fn check_undistorted(kind: &Kind, cases: usize) {
    for number in 0..cases.div_ceil(10 * SLOTS) {
        let mut random = Random::new(number as u64 + 70_000);
        let crop = Crop { x: random.range(0, 9), y: random.range(0, 9), width: 40, height: 31 };
        let crop = random.one_in(2).then_some(crop);
        let spec = ImageSpec { undistort: true, crop, ..random_spec(&mut random) };
        let dtype = random.image_dtype();
        let described = format!("{spec:?} {dtype:?}");
        let encoder = EncoderSpec::Image(spec.clone());
        let stream = stream("camera", encoder, Strategy::Hold, dtype, 1, SLOTS - 1);
        let mut pair = Pair::new(kind, vec![stream], true);
        let mut table = random_table(&mut random, &spec, None);
        for round in 0..10 {
            let case = format!("pair {number} round {round}: {described}");
            for slot in 0..SLOTS {
                if random.one_in(3) {
                    // Often of the same size, so that only the table changes.
                    let same = random.one_in(2).then(|| table.source());
                    table = random_table(&mut random, &spec, same);
                }
                let remap = (!random.one_in(6)).then_some(&table);
                let padding = random.choose(&[0, 0, 5]);
                let size = table.source().into();
                encode_with(&pair, &mut random, slot, size, padding, remap, &case);
            }
            (0..SLOTS).for_each(|slot| pair.compare_slot(slot, &case));
        }
    }
}

/// JPEG files that a GPU takes: of any size, quality and sampling, with restarts, undistorted or not. Some have more
/// coefficients than there is memory for, and some are damaged. The CPU has libjpeg's pixels.
pub(super) fn check_jpeg(kind: &Kind, cases: usize) {
    let mut reader = ScanReader::default();
    for number in 0..cases.div_ceil(10 * SLOTS) {
        let mut random = Random::new(number as u64 + 110_000);
        let spec = ImageSpec { undistort: number % 2 == 0, ..random_spec(&mut random) };
        let dtype = random.image_dtype();
        let described = format!("{spec:?} {dtype:?}");
        let encoder = EncoderSpec::Image(spec.clone());
        let mut stream = stream("camera", encoder, Strategy::Hold, dtype, 1, SLOTS - 1);
        (stream.bounds.max_width_px, stream.bounds.max_height_px) = (170, 170);
        let mut pair = Pair::new(kind, vec![stream], true);
        for round in 0..10 {
            let mut whole = [false; SLOTS];
            for (slot, whole) in whole.iter_mut().enumerate() {
                let most = if random.one_in(4) { 170 } else { 90 };
                let written = JpegFile::random(&mut random, most);
                let mut file = written.write(&mut random);
                assert!(reader.read(&file, [170, 170]).is_some(), "a GPU makes its pixels");
                // A core says what is wrong with it, if anything shows that.
                if random.one_in(8) {
                    file.truncate(random.range(0, file.len()));
                } else if random.one_in(4) {
                    let at = random.range(file.len() / 2, file.len() - 3);
                    file[at] = random.bits() as u8;
                }
                let size = written.size;
                let is_swapped = random.one_in(2);
                let image =
                    CompressedImage { file: &file, size, is_swapped, is_mono16: false, scan: None };
                let table = random_table(&mut random, &spec, Some(written.size));
                let remap = (spec.undistort && !random.one_in(4)).then_some(&table);
                let placement = Placement { table: remap, ..Placement::NONE };
                let placed = PlacedSample { sample: Sample::Compressed(image), placement };
                let case = format!("pair {number} round {round}: {described}, {written:?}");
                *whole = pair.encode_placed(0, slot, &placed, &case).is_some();
            }
            let case = format!("pair {number} round {round}: {described}");
            (0..SLOTS).filter(|slot| whole[*slot]).for_each(|slot| pair.compare_slot(slot, &case));
        }
    }
}

/// A table for images of at least 49x40 pixels if they are cropped.
fn random_table(random: &mut Random, spec: &ImageSpec, size: Option<[usize; 2]>) -> Arc<Remap> {
    let least = spec.crop.map_or([1, 1], |crop| [crop.x + crop.width, crop.y + crop.height]);
    let size = size.unwrap_or_else(|| least.map(|least| random.range(least, 180)));
    let part = spec.part(size[0], size[1]).unwrap();
    if random.one_in(3) {
        let all = |at: usize, seed: usize, side: usize| {
            let mut point = Random::new((at * 7919 + seed) as u64);
            f64::from(point.float(-3.0, side as f32 + 3.0))
        };
        let point =
            |x: usize, y: usize| [all(y * 999 + x, 1, size[0]), all(y * 999 + x, 2, size[1])];
        return Arc::new(Remap::new(size, [0, 0], &part, point));
    }
    let focal = random.float(20.0, 200.0);
    let [width, height] = size.map(|side| side as f32);
    let number = |random: &mut Random, most: f32| f64::from(random.float(-most, most));
    let lens = match random.one_in(2) {
        true => Lens::Equidistant(std::array::from_fn(|_| number(random, 0.05))),
        false => Lens::Polynomial(std::array::from_fn(|_| number(random, 0.1))),
    };
    let cx = random.float(0.0, width);
    let cy = random.float(0.0, height);
    let ray = [[1.0, 0.01, -cx], [-0.02, 1.0, -cy], [0.001, 0.002, focal]];
    let camera = Camera {
        size,
        first: [0, 0],
        lens,
        focal: [f64::from(focal), f64::from(1.1 * focal)],
        centre: [f64::from(width) / 2.0, f64::from(height) / 2.0],
        ray: ray.map(|row| row.map(f64::from)),
    };
    Arc::new(camera.remap(&part).unwrap())
}

/// Parts of images, which are not at their beginning.
fn crops(kind: &Kind) {
    for number in 0..6 {
        let mut random = Random::new(60_000 + number);
        let crop = Crop { x: 7 * number as usize, y: 5, width: 60, height: 31 + number as usize };
        let spec = ImageSpec { crop: Some(crop), ..random_spec(&mut random) };
        let dtype = random.image_dtype();
        let spec = stream("camera", EncoderSpec::Image(spec), Strategy::Hold, dtype, 1, SLOTS - 1);
        let mut pair = Pair::new(kind, vec![spec], true);
        for slot in 0..SLOTS {
            let size = (random.range(95, 200), random.range(41, 150));
            encode(&pair, &mut random, slot, size, "cropped");
        }
        (0..SLOTS).for_each(|slot| pair.compare_slot(slot, "cropped"));
    }
}

/// Both orders of Pillow 13's passes: whole images and parts, resized once and twice, at the limit of the rule, and
/// with more pixels between the passes than the other order has.
fn orders(kind: &Kind) {
    const SIZES: [(usize, usize); 6] =
        [(100, 300), (300, 40), (64, 64), (20, 299), (66, 108), (66, 109)];
    for number in 0..24 {
        let mut random = Random::new(80_000 + number as u64);
        let crop = Crop { x: 3, y: 2, width: 16, height: 37 };
        let crop = (number % 5 == 4).then_some(crop);
        let fit = [Fit::Stretch, Fit::CoverCenter, Fit::PadCenter][number % 3];
        let to = |width, height| Resize {
            filter: Filter::Pil13Bilinear,
            fit,
            ..Resize::to(width, height)
        };
        let resizes = match number % 2 {
            0 => vec![to(10, 100)],
            _ => vec![to(30, 36), to(48, 21)],
        };
        let spec = ImageSpec { crop, resizes, ..random_spec(&mut random) };
        let dtype = random.image_dtype();
        let mut stream =
            stream("camera", EncoderSpec::Image(spec), Strategy::Hold, dtype, 1, SLOTS - 1);
        (stream.bounds.max_width_px, stream.bounds.max_height_px) = (300, 300);
        let mut pair = Pair::new(kind, vec![stream], true);
        for (at, size) in SIZES.into_iter().enumerate() {
            encode(&pair, &mut random, at % SLOTS, size, "order of passes");
            if at % SLOTS == SLOTS - 1 {
                (0..SLOTS).for_each(|slot| pair.compare_slot(slot, "order of passes"));
            }
        }
    }
}

/// Images up to the bounds, larger ones after smaller ones, and lines with far more padding than
/// pixels: memory is there for the pixels alone.
fn grows(kind: &Kind) {
    let mut random = Random::new(50_000);
    let resize = Resize { fit: Fit::Stretch, ..Resize::to(33, 16) };
    let spec = ImageSpec { crop: None, resizes: vec![resize], ..random_spec(&mut random) };
    let dtype = random.image_dtype();
    let mut stream =
        stream("camera", EncoderSpec::Image(spec), Strategy::Hold, dtype, 1, SLOTS - 1);
    (stream.bounds.max_width_px, stream.bounds.max_height_px) = (1900, 3001);
    let mut pair = Pair::new(kind, vec![stream], true);
    let sizes = [(64, 48), (1300, 1210), (5, 7), (40, 3001), (1900, 3001), (1300, 1210)];
    for (at, size) in sizes.into_iter().enumerate() {
        encode(&pair, &mut random, at % SLOTS, size, "growing");
        if at % SLOTS == SLOTS - 1 {
            (0..SLOTS).for_each(|slot| pair.compare_slot(slot, "growing"));
        }
    }
    for (at, padding) in [20_000, 0, 7].into_iter().enumerate() {
        encode_padded(&pair, &mut random, at, (20, 3001), padding, "padded");
    }
    (0..SLOTS).for_each(|slot| pair.compare_slot(slot, "padded"));
}

fn check_image(pair: &mut Pair, random: &mut Random, slot: usize, large: bool, case: &str) {
    let side = if large { 700 } else { 150 };
    let size = (random.range(1, side), random.range(1, side));
    let case = encode(pair, random, slot, size, case);
    let ring = RingId::new(0);
    let value = Value::Row(Slot::new(slot));
    let job = |step| StepJob { ring, step, value, unchanged: false };
    let jobs: Vec<_> = (0..pair.layout().segments()[0].steps).map(job).collect();
    pair.fuse(&jobs, |_| true, &case);
}

/// Encodes an image of random content on both; returns what it was.
fn encode(
    pair: &Pair,
    random: &mut Random,
    slot: usize,
    size: (usize, usize),
    case: &str,
) -> String {
    let padding = random.choose(&[0, 0, 1, 13]);
    encode_padded(pair, random, slot, size, padding, case)
}

/// Encodes an image of random content on both, with this much padding after each line.
fn encode_padded(
    pair: &Pair,
    random: &mut Random,
    slot: usize,
    size: (usize, usize),
    padding: usize,
    case: &str,
) -> String {
    encode_with(pair, random, slot, size, padding, None, case)
}

/// Encodes an image of random content on both, with a table that undistorts it.
fn encode_with(
    pair: &Pair,
    random: &mut Random,
    slot: usize,
    size: (usize, usize),
    padding: usize,
    remap: Option<&Arc<Remap>>,
    case: &str,
) -> String {
    let (width, height) = size;
    let encoding = random.choose(&Encoding::ALL);
    let line = width * encoding.bytes_per_pixel();
    let step = line + padding;
    let len = (height - 1) * step + line;
    let flat = random.one_in(8).then(|| random.choose(&[0u8, 255]));
    let data: Vec<u8> = (0..len).map(|_| flat.unwrap_or(random.bits() as u8)).collect();
    let view = ImageView { encoding, width, height, step, data: &data, remap };
    let case = format!("{case}, {encoding:?} {width}x{height} step {step}");
    pair.encode(0, slot, Sample::Image(view), &case);
    case
}

fn random_spec(random: &mut Random) -> ImageSpec {
    let resizes = (0..random.choose(&[1, 1, 1, 2, 3])).map(|_| random_resize(random)).collect();
    ImageSpec {
        undistort: false,
        crop: None,
        resizes,
        layout: random.choose(&[ImageLayout::Chw, ImageLayout::Hwc]),
        color: random.choose(&[Color::Rgb, Color::Bgr, Color::Mono]),
        mean: [random.float(0.0, 1.0), 0.0, random.float(-1.0, 1.0)],
        std: [random.float(0.01, 1.0), 1.0, random.float(0.01, 300.0)],
        pad_value: random.bits() as u8,
    }
}

fn random_resize(random: &mut Random) -> Resize {
    let side = |random: &mut Random| random.choose(&[1, 2, 7, 16, 33, 64, 120]);
    Resize {
        width: side(random),
        height: side(random),
        filter: random.choose(&Filter::ALL),
        fit: random.choose(&[
            Fit::Stretch,
            Fit::PadCenter,
            Fit::PadTopLeft,
            Fit::CropCenter,
            Fit::CoverCenter,
        ]),
        crop_fraction: random.choose(&[1.0, 1.0, 0.95, 0.3]),
    }
}
