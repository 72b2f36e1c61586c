//! Operations whose inputs an earlier kernel of the same stream makes, with no wait in between: rows
//! that are resampled become rows again, points, and an image.

use crate::backends::subject::Kind;

#[cfg(not(feature = "cuda"))]
pub(super) fn check(_: &Kind, _: usize) {}

#[cfg(feature = "cuda")]
pub(super) use on_the_gpu::check;

#[cfg(feature = "cuda")]
mod on_the_gpu {
    use std::sync::Arc;

    use robocache_ops::align::{AlignRule, Fill, Slot, Strategy};
    use robocache_ops::device::{Device, DeviceBuffer, Inputs, Stream, bytes_of};
    use robocache_ops::dtype::DType;
    use robocache_ops::image::cuda::{DeviceImage, ImageEncoder};
    use robocache_ops::image::{Encoding, Filter, ImageSpec, ImageView, Resize};
    use robocache_ops::resample::batch::fuse;
    use robocache_ops::resample::cuda::{BatchPointers, Resampler};
    use robocache_ops::resample::{BatchInput, BatchSpec, BatchStream, Division, Lane};
    use robocache_ops::voxelize::cuda::{DevicePoints, Voxelizer};
    use robocache_ops::voxelize::{
        FieldAt, FieldType, Grid, IDENTITY, PointsView, Reduction, VoxelSpec,
    };

    use super::Kind;
    use crate::backends::random::Random;

    /// Elements of a row: a point has x, y, z and a value.
    const DIM: usize = 4;
    /// Chains that are queued before the first is waited for.
    const QUEUED: usize = 8;

    pub(crate) fn check(kind: &Kind, cases: usize) {
        let Some(device) = kind.device() else { return };
        for number in 0..cases.div_ceil(40) {
            let mut random = Random::new(number as u64 + 110_000);
            let steps = random.choose(&[64, 1000, 30_000]);
            let batch = Batch::new(&mut random, steps);
            let stream = Stream::new(device, false).unwrap();
            let chain = Chain::new(device, &batch, &stream);
            // All are one chain in the end: each writes the same memory again.
            for _ in 0..QUEUED {
                chain.resample(&stream);
                chain.again(&stream);
            }
            stream.synchronize("resample").unwrap();
            let expected = batch.resampled();
            let mut found = vec![0; expected.len()];
            chain.second.read(&mut found).unwrap();
            assert!(found == batch.resampled_again(&expected), "{number}: rows");
            check_points(device, &chain, &expected, &stream, number);
            check_image(device, &chain, &expected, &stream, number);
        }
    }

    /// Input of the chain.
    struct Batch {
        spec: BatchSpec,
        rows: Vec<u8>,
        stamps: Vec<i64>,
        targets: Vec<i64>,
    }

    impl Batch {
        fn new(random: &mut Random, steps: usize) -> Self {
            let rule = AlignRule {
                strategy: random.choose(&[Strategy::Linear, Strategy::Nearest]),
                max_age_ns: i64::MAX,
                max_gap_ns: i64::MAX,
                fill: Fill::Last,
            };
            let rows = 500;
            let lanes = vec![Lane::Linear; DIM];
            let of_rows = Division::Even(rows);
            let stream = BatchStream { rule, rows: of_rows, dtype: DType::F32, lanes };
            let values: Vec<f32> = (0..rows * DIM).map(|_| random.float(-4.0, 4.0)).collect();
            Batch {
                spec: BatchSpec {
                    episodes: 1,
                    steps: Division::Even(steps),
                    dtype: DType::F32,
                    streams: vec![stream],
                },
                rows: values.iter().flat_map(|value| value.to_le_bytes()).collect(),
                stamps: (0..rows as i64).map(|i| 1000 * i).collect(),
                targets: (0..steps as i64).map(|i| i * 499_000 / steps as i64).collect(),
            }
        }

        fn resampled(&self) -> Vec<u8> {
            let rows = vec![&self.rows[..]];
            let stamps = vec![&self.stamps[..]];
            fuse(&self.spec, &BatchInput::even(rows, stamps, &self.targets)).data
        }

        /// The second link: the rows are those that the first made, at its targets.
        fn again(&self) -> BatchSpec {
            let mut spec = self.spec.clone();
            spec.streams[0].rows = self.spec.steps;
            spec
        }

        fn resampled_again(&self, first: &[u8]) -> Vec<u8> {
            let instants = self.instants();
            let rows = vec![first];
            let stamps = vec![&instants[..]];
            fuse(&self.again(), &BatchInput::even(rows, stamps, &self.targets)).data
        }

        /// Stamps for as many rows as there are targets.
        fn instants(&self) -> Vec<i64> {
            (0..self.spec.targets() as i64).map(|i| 7 * i).collect()
        }
    }

    /// Two links of resampling, and their memory.
    struct Chain {
        links: [Resampler; 2],
        rows: DeviceBuffer,
        stamps: [DeviceBuffer; 2],
        targets: DeviceBuffer,
        /// Output of the first link.
        first: DeviceBuffer,
        second: DeviceBuffer,
        steps: usize,
    }

    impl Chain {
        fn new(device: &Arc<Device>, batch: &Batch, stream: &Stream) -> Self {
            let upload = |bytes: &[u8]| DeviceBuffer::from_bytes(device, bytes).unwrap();
            let output = || DeviceBuffer::new(device, 4 * DIM * batch.spec.targets()).unwrap();
            let spec = [batch.spec.clone(), batch.again()];
            let chain = Chain {
                links: spec.map(|spec| Resampler::new(device, &spec).unwrap()),
                rows: upload(&batch.rows),
                stamps: [upload(bytes_of(&batch.stamps)), upload(bytes_of(&batch.instants()))],
                targets: upload(bytes_of(&batch.targets)),
                first: output(),
                second: output(),
                steps: batch.spec.targets(),
            };
            // Loads the kernels, so that nothing holds up the launches that count.
            chain.resample(stream);
            chain.again(stream);
            stream.synchronize("resample").unwrap();
            chain.first.fill(0xAB).unwrap();
            chain.second.fill(0xAB).unwrap();
            chain
        }

        fn resample(&self, stream: &Stream) {
            self.launch(0, &self.rows, &self.first, Inputs::Ready, stream);
        }

        fn again(&self, stream: &Stream) {
            self.launch(1, &self.first, &self.second, Inputs::MayBeInFlight, stream);
        }

        #[allow(unsafe_code)]
        fn launch(
            &self,
            link: usize,
            rows: &DeviceBuffer,
            data: &DeviceBuffer,
            inputs: Inputs,
            stream: &Stream,
        ) {
            let pointers = BatchPointers {
                rows: &[rows.address()],
                stamps: &[self.stamps[link].address()],
                row_offsets: &[0],
                targets: self.targets.address(),
                target_offsets: 0,
                data: data.address(),
                report: None,
            };
            // SAFETY: buffers of the spec's sizes, which wait for the device before they go. The first
            // link's inputs are made by no kernel.
            unsafe { self.links[link].launch(&pointers, inputs, stream).unwrap() };
        }
    }

    #[allow(unsafe_code)]
    fn check_points(
        device: &Arc<Device>,
        chain: &Chain,
        resampled: &[u8],
        stream: &Stream,
        number: usize,
    ) {
        let fields = [0, 4, 8, 12].map(|offset| FieldAt { offset, kind: FieldType::Float32 });
        let view = PointsView {
            width: chain.steps,
            height: 1,
            point_step: 4 * DIM,
            row_step: 4 * DIM * chain.steps,
            big_endian: false,
            fields: &fields,
            t_base_sensor: IDENTITY,
            t_shapes: &[],
            sweep: None,
            data: resampled,
        };
        let grid = Grid { origin_m: [-4.0; 3], size_m: 0.25, shape: [32; 3] };
        for reduction in [Reduction::Count, Reduction::Mean("a".into())] {
            let of_value = matches!(reduction, Reduction::Mean(_));
            let spec = VoxelSpec::new(grid, vec![reduction]);
            let view = PointsView { fields: &fields[..if of_value { 4 } else { 3 }], ..view };
            let mut cpu = robocache_ops::voxelize::cpu::Voxelizer::new(&spec, DType::F32, 1);
            let mut expected = vec![0; cpu.row_bytes()];
            let drops = cpu.encode(&view, Slot::new(0), &mut expected).unwrap();
            let mut gpu = Voxelizer::new(device, &spec, DType::F32, 1, chain.steps).unwrap();
            let row = DeviceBuffer::new(device, gpu.row_bytes()).unwrap();
            gpu.set_fields(view.fields, stream).unwrap();
            // After this call, the voxelizer does not use the row's content.
            row.fill(0xAB).unwrap();
            gpu.forget(Slot::new(0), stream).unwrap();
            let points = DevicePoints::of(&view, chain.first.address());
            for _ in 0..QUEUED {
                // Zeros, so that a point that is read too early shows.
                chain.first.fill_on(0, stream).unwrap();
                chain.resample(stream);
                // SAFETY: the points and the row are of these sizes, and wait for the device.
                unsafe {
                    let to = row.address();
                    gpu.launch(&points, Slot::new(0), to, Inputs::MayBeInFlight, stream).unwrap();
                }
            }
            assert_eq!(gpu.finish(stream).unwrap(), drops, "{number}: points");
            let mut found = vec![0; expected.len()];
            row.read(&mut found).unwrap();
            assert!(found == expected, "{number}: voxels, {:?}", spec.channels);
        }
    }

    #[allow(unsafe_code)]
    fn check_image(
        device: &Arc<Device>,
        chain: &Chain,
        resampled: &[u8],
        stream: &Stream,
        number: usize,
    ) {
        // The bits of the values as pixels.
        let encoding = Encoding::Rgba8;
        let width = 32;
        let step = 4 * width;
        let height = chain.steps * DIM / width;
        let view = ImageView { encoding, width, height, step, data: resampled, remap: None };
        let resize =
            Resize { filter: Filter::ALL[number % Filter::ALL.len()], ..Resize::to(20, 30) };
        let first = Resize { width: 33, ..resize };
        let resizes = if number.is_multiple_of(2) { vec![resize] } else { vec![first, resize] };
        let spec =
            ImageSpec { mean: [0.5; 3], std: [0.25; 3], pad_value: 3, ..ImageSpec::new(resizes) };
        let mut gpu = ImageEncoder::new(device, &spec, DType::Bf16, [width, height]).unwrap();
        let mut expected = vec![0; gpu.row_bytes()];
        robocache_ops::image::cpu::ImageEncoder::new(&spec, DType::Bf16)
            .encode(&view, &mut expected);
        let row = DeviceBuffer::new(device, gpu.row_bytes()).unwrap();
        let image = DeviceImage { address: chain.first.address(), encoding, width, height, step };
        for _ in 0..QUEUED {
            chain.first.fill_on(0, stream).unwrap();
            chain.resample(stream);
            // SAFETY: the image and the row are of these sizes, and wait for the device.
            unsafe { gpu.launch(&image, row.address(), Inputs::MayBeInFlight, stream).unwrap() };
        }
        stream.synchronize("encode an image").unwrap();
        let mut found = vec![0; expected.len()];
        row.read(&mut found).unwrap();
        assert!(found == expected, "{number}: image");
    }
}
