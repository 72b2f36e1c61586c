//! Tests of what a tick only copies: sparse rows and images of bytes, of any length and at any place in the output. A
//! GPU
//! copies as many bytes at once as length and place allow.

use robocache_core::backend::StepJob;
use robocache_core::encoder::EncoderSpec;
use robocache_core::sample::Sample;
use robocache_core::spec::{RingId, StreamSpec};
use robocache_ops::align::{Slot, Strategy, Value};
use robocache_ops::dtype::DType;
use robocache_ops::image::{Encoding, Fit, ImageSpec, ImageView, Resize};
use robocache_ops::voxelize::{Reduction, VoxelSpec};

use crate::backends::random::Random;
use crate::backends::sifted_clouds::{along_x, row_spec, words};
use crate::backends::subject::{Kind, Pair, stream};

/// Steps of a stream: where a step is follows from the length of those before it.
const STEPS: usize = 3;

pub(super) fn check(kind: &Kind, _: usize) {
    let mut random = Random::new(120_000);
    // Odd capacities, such that leave 2, 4 and 8 bytes, and more than one piece.
    for capacity in (1..=18).chain([33, 1023, 1365, 2731]) {
        for (dtype, channels) in
            [(DType::F16, 1), (DType::Bf16, 3), (DType::F32, 1), (DType::F32, 2)]
        {
            let case = format!("{capacity} voxels, {channels} channels of {dtype:?}");
            check_sparse(kind, &mut random, capacity, dtype, channels, &case);
        }
    }
    for [width, height] in [[1, 1], [3, 1], [5, 7], [2, 3], [4, 3], [37, 41], [32, 16]] {
        check_bytes(kind, &mut random, [width, height]);
    }
}

fn check_sparse(
    kind: &Kind,
    random: &mut Random,
    capacity: usize,
    dtype: DType,
    channels: usize,
    case: &str,
) {
    let all = [Reduction::Count, Reduction::Max("x".into()), Reduction::Min("x".into())];
    let max_voxels = Some(capacity);
    let channels = all[..channels].to_vec();
    let spec = VoxelSpec { max_voxels, channels, ..row_spec(4000) };
    let source = EncoderSpec::Voxels(spec.clone());
    let mut pair = pair(kind, random, stream("cells", source, Strategy::Hold, dtype, STEPS, 2));
    // More voxels than there is room for, and fewer; none of them at 0.
    for (slot, voxels) in [(0, capacity + 3), (1, capacity.div_ceil(2)), (2, capacity)] {
        let points = along_x((1..=voxels).map(|i| i as f64 + 0.5));
        let form = words(&points, &spec);
        let data = form.bytes(&points);
        pair.encode(0, slot, Sample::Points(form.view(&data)), case).expect(case);
    }
    let values = [2, 1, 0].map(row);
    fuse(&mut pair, &values, case);
    // The last voxel of the full rows, and none behind the last of the other.
    let [features, coordinates] = pair.layout().segments() else { panic!("two segments") };
    for segment in [features, coordinates] {
        let size = segment.step_byte_len() / capacity;
        let entry =
            |step: usize, at: usize| &pair.output()[segment.step_range(step)][at * size..][..size];
        let [first, last] = [entry(0, capacity - 1), entry(2, capacity - 1)];
        assert!(first == last && first.iter().any(|byte| *byte != 0), "{case}: {}", segment.name);
        let used = entry(1, capacity.div_ceil(2) - 1);
        let rest = capacity.div_ceil(2)..capacity;
        assert!(used.iter().any(|byte| *byte != 0), "{case}: {}", segment.name);
        assert!(rest.clone().all(|at| entry(1, at).iter().all(|byte| *byte == 0)), "{case}");
    }
    fuse(&mut pair, &[row(1), Value::Nothing, row(0)], case);
}

/// Images whose rows are bytes, `3 * width * height` of them.
fn check_bytes(kind: &Kind, random: &mut Random, [width, height]: [usize; 2]) {
    let case = format!("bytes, {width}x{height}");
    let resize = Resize { fit: Fit::Stretch, ..Resize::to(width, height) };
    let source = EncoderSpec::Image(ImageSpec::new(vec![resize]));
    let mut pair =
        pair(kind, random, stream("camera", source, Strategy::Hold, DType::U8, STEPS, 2));
    for slot in 0..3 {
        let data: Vec<u8> = (0..3 * width * height).map(|_| random.range(1, 255) as u8).collect();
        let encoding = Encoding::Rgb8;
        let step = 3 * width;
        let view = ImageView { encoding, width, height, step, data: &data, remap: None };
        pair.encode(0, slot, Sample::Image(view), &case).expect(&case);
    }
    fuse(&mut pair, &[1, 2, 0].map(row), &case);
    let [camera] = pair.layout().segments() else { panic!("one segment") };
    assert!((0..STEPS).all(|step| !pair.output()[camera.step_range(step)].contains(&0)), "{case}");
    fuse(&mut pair, &[Value::Nothing, row(1), Value::Nothing], &case);
}

fn pair(kind: &Kind, random: &mut Random, stream: StreamSpec) -> Pair {
    Pair::new(kind, vec![stream], random.one_in(2))
}

/// A tick that writes every step.
fn row(slot: usize) -> Value<Slot> {
    Value::Row(Slot::new(slot))
}

fn fuse(pair: &mut Pair, values: &[Value<Slot>; STEPS], case: &str) {
    let job = |(step, value): (usize, &Value<Slot>)| StepJob {
        ring: RingId::new(0),
        step,
        value: *value,
        unchanged: false,
    };
    let jobs: Vec<_> = values.iter().enumerate().map(job).collect();
    pair.fuse(&jobs, |_| true, case);
}
