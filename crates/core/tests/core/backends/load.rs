//! Rows on the host while other work keeps the GPU busy: whichever processor encodes, the bits are
//! those of the CPU, and every message becomes a row.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use robocache_core::backend::cpu::CpuBackend;
use robocache_core::backend::{Backend, GpuUse, StepJob};
use robocache_core::encoder::EncoderSpec;
use robocache_core::layout::Layout;
use robocache_core::sample::{PlacedSample, Sample};
use robocache_core::spec::{Config, RingId};
use robocache_ops::align::{Slot, Strategy, Value};
use robocache_ops::device::{Device, DeviceBuffer, Stream};
use robocache_ops::dtype::DType;
use robocache_ops::image::{Encoding, ImageSpec, ImageView, Resize};
use robocache_ops::voxelize::{
    FieldAt, FieldType, Grid, IDENTITY, PointsView, Reduction, VoxelSpec,
};

use crate::backends::random::Random;
use crate::backends::subject::{config, stream};

const SLOTS: usize = 3;
const ROUNDS: usize = 400;
const MOST_POINTS: usize = 20_000;

/// Encodes with and without load, by the backend's own choice.
pub(super) fn check(device: &Arc<Device>) {
    let config = both_streams();
    let layout = Layout::new(&config);
    let oracle = CpuBackend::new(&config, &layout).unwrap();
    let subject = CpuBackend::with_gpu(device, &config, &layout).unwrap();
    let busy = AtomicBool::new(true);
    thread::scope(|scope| {
        let load = scope.spawn(|| keep_busy(device, &busy));
        rounds(&subject, &oracle, &layout, "under load");
        busy.store(false, Ordering::Relaxed);
        load.join().unwrap();
    });
    rounds(&subject, &oracle, &layout, "without load");
    assert_eq!(subject.gpu(), GpuUse::InUse);
    for ring in 0..2 {
        let encodes = subject.encodes(RingId::new(ring)).unwrap();
        assert_eq!(encodes.by_cpu + encodes.by_gpu, 2 * ROUNDS as u64, "{encodes:?}");
        assert!(encodes.cpu_ns.is_some() && encodes.gpu_ns.is_some(), "{encodes:?}");
    }
}

fn both_streams() -> Config {
    let image = ImageSpec {
        mean: [0.4, 0.5, 0.6],
        std: [0.2, 0.3, 0.4],
        pad_value: 114,
        ..ImageSpec::new(vec![Resize::to(224, 224)])
    };
    let grid = Grid { origin_m: [-6.4, -6.4, -1.6], size_m: 0.2, shape: [64, 64, 32] };
    let channels = vec![Reduction::Count, Reduction::Mean("intensity".into())];
    let voxels = VoxelSpec::new(grid, channels);
    let rows = SLOTS - 1;
    let camera = stream("camera", EncoderSpec::Image(image), Strategy::Hold, DType::Bf16, 1, rows);
    let mut lidar =
        stream("lidar", EncoderSpec::Voxels(voxels), Strategy::Hold, DType::F16, 1, rows);
    lidar.bounds.max_points = MOST_POINTS;
    config(vec![camera, lidar])
}

/// Images and clouds in turn; every row is compared.
fn rounds(subject: &CpuBackend, oracle: &CpuBackend, layout: &Layout, case: &str) {
    let mut random = Random::new(77);
    let fields = [0, 4, 8, 12].map(|offset| FieldAt { offset, kind: FieldType::Float32 });
    for round in 0..ROUNDS {
        let case = format!("{case}, round {round}");
        let seed = random.bits();
        let byte = |at: u64| (at.wrapping_mul(seed | 1) >> 40) as u8;
        let pixels: Vec<u8> = (0..640 * 480 * 3).map(byte).collect();
        let width = 640;
        let height = 480;
        let step = 3 * 640;
        let image =
            ImageView { encoding: Encoding::Rgb8, width, height, step, data: &pixels, remap: None };
        let count = random.range(0, MOST_POINTS);
        let points: Vec<u8> =
            (0..4 * count).flat_map(|_| random.float(-7.0, 7.0).to_le_bytes()).collect();
        let cloud = PointsView {
            width: count,
            height: 1,
            point_step: 16,
            row_step: 16 * count,
            big_endian: false,
            fields: &fields,
            t_base_sensor: IDENTITY,
            t_shapes: &[],
            sweep: None,
            data: &points,
        };
        let slot = round % SLOTS;
        let samples = [Sample::Image(image), Sample::Points(cloud)];
        for (ring, sample) in samples.map(PlacedSample::from).iter().enumerate() {
            let ring = RingId::new(ring);
            let found = subject.encode(ring, Slot::new(slot), sample).unwrap();
            assert_eq!(
                found,
                oracle.encode(ring, Slot::new(slot), sample).unwrap(),
                "{case}: points"
            );
        }
        // All slots so far: no late copy of the GPU has reached one.
        for slot in 0..SLOTS.min(round + 1) {
            let job = |ring: usize| {
                let ring = RingId::new(ring);
                let value = Value::Row(Slot::new(slot));
                StepJob { ring, step: 0, value, unchanged: false }
            };
            let [mut found, mut expected] = [0xAB, 0xAB].map(|byte| vec![byte; layout.byte_len()]);
            subject.fuse(&[job(0), job(1)], found.as_mut_slice().into()).unwrap();
            oracle.fuse(&[job(0), job(1)], expected.as_mut_slice().into()).unwrap();
            assert!(found == expected, "{case}: slot {slot} differs");
        }
    }
}

/// Copies in device memory, a good 10 ms of them at any time.
fn keep_busy(device: &Arc<Device>, busy: &AtomicBool) {
    const BYTES: usize = 1 << 29;
    let [a, b] = [(); 2].map(|()| DeviceBuffer::new(device, BYTES).unwrap());
    let stream = Stream::new(device, true).unwrap();
    while busy.load(Ordering::Relaxed) {
        (0..50).for_each(|_| a.copy_on(&b, &stream).unwrap());
        stream.wait_for(Duration::from_secs(60), "copy").unwrap();
    }
}
