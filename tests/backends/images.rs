//! Images: encodings, sizes, padded lines, fits, colours, element types.

use robocache::backend::Sample;
use robocache::config::{Color, Fit, ImageSpec, Source, Strategy};
use robocache::decode::image::{Encoding, ImageView};

use crate::random::Random;
use crate::subject::{Kind, Pair, stream};

const IMAGES_PER_PAIR: usize = 20;
const SLOTS: usize = 3;

pub fn check(kind: &Kind, cases: usize) {
    for number in 0..cases.div_ceil(IMAGES_PER_PAIR) {
        let mut random = Random::new(number as u64 + 10_000);
        let spec = random_spec(&mut random);
        let dtype = random.dtype();
        let described = format!("{spec:?} {dtype:?}");
        let spec = stream("camera", Source::Image(spec), Strategy::Hold, dtype, 1, SLOTS - 1);
        let mut pair = Pair::new(kind, vec![spec], number % 3 != 0);
        for image in 0..IMAGES_PER_PAIR {
            let case = format!("pair {number} image {image}: {described}");
            check_image(&mut pair, &mut random, image % SLOTS, number == 0, &case);
        }
    }
}

fn check_image(pair: &mut Pair, random: &mut Random, slot: usize, large: bool, case: &str) {
    let encoding = random.choose(&Encoding::ALL);
    let side = if large { 700 } else { 150 };
    let (width, height) = (random.range(1, side), random.range(1, side));
    let line = width * encoding.bytes_per_pixel();
    let step = line + random.choose(&[0, 0, 1, 13]);
    let len = (height - 1) * step + line;
    let flat = random.one_in(8).then(|| random.choose(&[0u8, 255]));
    let data: Vec<u8> = (0..len).map(|_| flat.unwrap_or(random.bits() as u8)).collect();
    let view = ImageView { encoding, width, height, step, data: &data };
    let case = format!("{case}, {encoding:?} {width}x{height} step {step}");
    pair.encode(0, slot, Sample::Image(view), &case);
    pair.compare_slot(slot, &case);
}

fn random_spec(random: &mut Random) -> ImageSpec {
    let side = |random: &mut Random| random.choose(&[1, 2, 7, 16, 33, 64, 120]);
    ImageSpec {
        width: side(random),
        height: side(random),
        fit: random.choose(&[Fit::Stretch, Fit::Pad, Fit::Crop]),
        color: random.choose(&[Color::Rgb, Color::Bgr, Color::Mono]),
        mean: [random.float(0.0, 1.0), 0.0, random.float(-1.0, 1.0)],
        std: [random.float(0.01, 1.0), 1.0, random.float(0.01, 300.0)],
        pad_value: random.bits() as u8,
    }
}
