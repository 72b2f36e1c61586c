//! Maps: a core encodes them under every backend, and a GPU only takes their rows.

use robocache_core::backend::StepJob;
use robocache_core::encoder::EncoderSpec;
use robocache_core::sample::Sample;
use robocache_core::spec::RingId;
use robocache_ops::align::{Slot, Strategy, Value};
use robocache_ops::dtype::DType;
use robocache_ops::occupancy::{Between, MapView, OccupancySpec};
use robocache_ops::voxelize::IDENTITY;

use crate::backends::random::Random;
use crate::backends::subject::{Kind, Pair, stream};

const SLOTS: usize = 3;

pub(super) fn check(kind: &Kind, cases: usize) {
    for number in 0..cases.div_ceil(10) {
        let mut random = Random::new(number as u64 + 90_000);
        let dtype = random.choose(&[DType::F32, DType::F16, DType::Bf16, DType::U8]);
        let spec = OccupancySpec {
            width: random.range(1, 40),
            height: random.range(1, 40),
            resolution_m: 0.1,
            free: 0.0,
            occupied: 100.0,
            unknown: 255.0,
            free_max: 25,
            occupied_min: 65,
            between: random.choose(&[Between::Probability, Between::Unknown]),
        };
        let case = format!("pair {number}: {spec:?} {dtype:?}");
        let encoder = EncoderSpec::Occupancy(spec);
        let spec = stream("map", encoder, Strategy::Hold, dtype, 1, SLOTS - 1);
        let mut pair = Pair::new(kind, vec![spec], number % 3 != 0);
        for slot in 0..2 * SLOTS {
            let slot = slot % SLOTS;
            let (width, height) = (random.range(1, 60), random.range(1, 60));
            let data: Vec<u8> = (0..width * height).map(|_| random.bits() as u8).collect();
            let mut t_crop_frame = IDENTITY;
            t_crop_frame.iter_mut().for_each(|row| row[3] = f64::from(random.float(-3.0, 3.0)));
            let view = MapView {
                width,
                height,
                resolution_m: 0.05,
                t_frame_map: IDENTITY,
                t_crop_frame,
                data: &data,
            };
            pair.encode(0, slot, Sample::Map(view), &case);
            let (ring, value) = (RingId::new(0), Value::Row(Slot::new(slot)));
            pair.fuse(&[StepJob { ring, step: 0, value, unchanged: false }], |_| true, &case);
        }
    }
}
