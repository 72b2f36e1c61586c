//! Depth images: elements, byte orders, sizes, padded lines, fits, limits, element types.

use robocache_core::backend::StepJob;
use robocache_core::encoder::EncoderSpec;
use robocache_core::sample::Sample;
use robocache_core::spec::RingId;
use robocache_ops::align::{Slot, Strategy, Value};
use robocache_ops::depth::{DepthElement, DepthSpec, DepthView};
use robocache_ops::dtype::DType;
use robocache_ops::image::Fit;

use super::Keys;
use crate::backends::on_every_backend;
use crate::backends::random::Random;
use crate::backends::subject::{Kind, Pair, stream};

const IMAGES_PER_PAIR: usize = 20;
const SLOTS: usize = 3;

on_every_backend! { depth_images => check; }

fn check(kind: &Kind, cases: usize) {
    for number in 0..cases.div_ceil(IMAGES_PER_PAIR) {
        let mut random = Random::new(number as u64 + 60_000);
        let dtype = random.dtype();
        let spec = random_spec(&mut random, dtype);
        let steps = random.range(1, 3);
        let described = format!("{spec:?} {dtype:?} {steps} steps");
        let encoder = EncoderSpec::Depth(spec);
        let spec = stream("camera", encoder, Strategy::Hold, dtype, steps, SLOTS - 1);
        let mut pair = Pair::new(kind, vec![spec], number % 3 != 0);
        let side = if number == 0 { 700 } else { 150 };
        for image in 0..IMAGES_PER_PAIR {
            let case = format!("pair {number} image {image}: {described}");
            let size = [random.range(1, side), random.range(1, side)];
            let slot = image % SLOTS;
            let case = encode(&pair, &mut random, slot, size, &case);
            let ring = RingId::new(0);
            let value = Value::Row(Slot::new(slot));
            let job = |step| StepJob { ring, step, value, unchanged: false };
            let jobs: Vec<_> = (0..steps).map(job).collect();
            pair.fuse(&jobs, |_| true, &case);
        }
    }
}

/// Encodes an image on both; returns what it was. Its numbers are among those that matter: around the
/// limits, not numbers, without end, and any bits.
fn encode(
    pair: &Pair,
    random: &mut Random,
    slot: usize,
    [width, height]: [usize; 2],
    case: &str,
) -> String {
    let element = random.choose(&DepthElement::ALL);
    let big_endian = random.one_in(2);
    let line = width * element.size();
    let step = line + random.choose(&[0, 0, 1, 13]);
    let mut data: Vec<u8> = (0..height * step).map(|_| random.bits() as u8).collect();
    for y in 0..height {
        for pixel in data[y * step..y * step + line].chunks_exact_mut(element.size()) {
            match element {
                DepthElement::U16 => {
                    let any = random.bits() as u16;
                    let raw = random.choose(&[0, 299, 300, 301, 2500, 4000, 4001, 65_535, any]);
                    let order = if big_endian { u16::to_be_bytes } else { u16::to_le_bytes };
                    pixel.copy_from_slice(&order(raw));
                }
                DepthElement::F32 => {
                    let any = f32::from_bits(random.bits() as u32);
                    let near = random.float(0.0, 5.0);
                    let far = random.float(-70_000.0, 70_000.0);
                    let special = [f32::NAN, f32::INFINITY, -0.0, 1e-41, 0.3, 4.0, f32::MAX];
                    let of = [random.choose(&special), near, near, far, any];
                    let order = if big_endian { f32::to_be_bytes } else { f32::to_le_bytes };
                    pixel.copy_from_slice(&order(random.choose(&of)));
                }
            }
        }
    }
    let view = DepthView { element, big_endian, width, height, step, data: &data };
    let case = format!("{case}, {element:?} big_endian {big_endian} {width}x{height} step {step}");
    pair.encode(0, slot, Sample::Depth(view), &case);
    case
}

fn random_spec(random: &mut Random, dtype: DType) -> DepthSpec {
    let side = |random: &mut Random| random.choose(&[1, 2, 7, 16, 33, 64, 120]);
    let most = match dtype {
        DType::F16 => 65_504.0,
        // The greatest number of bf16.
        DType::Bf16 => f32::from_bits(0x7F7F_0000),
        _ => f32::MAX,
    };
    DepthSpec {
        width: side(random),
        height: side(random),
        fit: random.choose(&[Fit::Stretch, Fit::PadCenter, Fit::PadTopLeft, Fit::CropCenter]),
        unit_m: random.choose(&[0.001, 0.0001, 0.000_25, 1.0 / 5000.0, 1.0]),
        min_m: random.choose(&[0.0, 0.3]),
        max_m: random.choose(&[4.0, most]),
        fill_m: random.choose(&[0.0, -1.0, 10.0]),
    }
}

/// A depth image with all keys that it may have.
const DEPTH: &str = "
rate_hz: 30
streams:
  depth:
    type: sensor_msgs/msg/Image
    topic: /depth
    max_age_ms: 100
    image:
      depth: {min_m: 0.1, max_m: 10, fill_m: 2, unit_m: 0.001}
      resize: {width: 16, height: 16}
";

pub(super) const KEYS: &[Keys] = &[Keys {
    config: DEPTH,
    refused: &[
        (
            "streams.image.depth",
            "depth: {min_m: 0.1, max_m: 10, fill_m: 2, unit_m: 0.001}",
            "color: rgb",
        ),
        ("streams.image.depth.min_m", "min_m: 0.1", "min_m: 0.2"),
        ("streams.image.depth.max_m", "max_m: 10", "max_m: 11"),
        ("streams.image.depth.fill_m", "fill_m: 2", "fill_m: 3"),
        ("streams.image.depth.unit_m", "unit_m: 0.001", "unit_m: 0.002"),
    ],
    ..Keys::NONE
}];
