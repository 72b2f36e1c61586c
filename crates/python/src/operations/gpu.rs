//! The operations on GPUs.

#[cfg(feature = "cuda")]
pub use with_cuda::{
    Lanes, device, encode_images, fuse, gradient, memory, stream_of, synchronize, voxelize,
};
#[cfg(not(feature = "cuda"))]
pub use without_cuda::{encode_images, fuse, gradient, memory, synchronize, voxelize};

#[cfg(feature = "cuda")]
mod with_cuda {
    use std::collections::HashMap;
    use std::sync::{Arc, Mutex, PoisonError};

    use pyo3::exceptions::PyRuntimeError;
    use pyo3::prelude::*;
    use robocache::device::{Device, DeviceBuffer, DeviceError, Inputs, Stream};
    use robocache::dtype::DType;
    use robocache::ops::image::Encoding;
    use robocache::ops::image::cuda::{DeviceImage, ImageEncoder};
    use robocache::ops::resample::Division;
    use robocache::ops::resample::cuda::{
        BatchPointers, Gradient, GradientPointers, Resampler, lanes_of,
    };
    use robocache::ops::voxelize::PointDrops;
    use robocache::ops::voxelize::batch::Clouds;
    use robocache::ops::voxelize::cuda::{DevicePoints, EncodeError, Voxelizer};

    use super::super::resample::Batch;
    use super::super::{ImageRule, Place, Rule, VoxelRule};
    use crate::dlpack::Memory;
    use crate::freeing::Elsewhere;

    /// What the kernels need of the lanes of a rule.
    pub type Lanes = Option<Arc<DeviceBuffer>>;

    /// A GPU, and what calls have made for it.
    struct Gpu {
        device: Arc<Device>,
        /// The last used last.
        resamplers: Vec<(Key, Arc<Resampler>)>,
        voxelizers: Vec<(VoxelKey, Voxelizer)>,
        encoders: Vec<(ImageKey, ImageEncoder)>,
    }

    /// What a voxelizer is for: the rule's specification and element type, and the most points.
    type VoxelKey = (robocache::ops::voxelize::VoxelSpec, DType, usize);
    /// What an encoder of images is for: the rule, the size of an image, and the stream.
    type ImageKey = (u64, [usize; 2], u64);

    /// What a resampler is for.
    #[derive(PartialEq)]
    struct Key {
        dtype: DType,
        episodes: usize,
        steps: Division,
        /// The number of the rule, the rows and their type.
        streams: Vec<(u64, Division, DType)>,
    }

    /// Resamplers that are kept.
    const MOST: usize = 32;
    /// Voxelizers and encoders of images that are kept: they have memory of their own.
    const MOST_ENCODERS: usize = 4;

    static GPUS: Mutex<Option<HashMap<i32, Gpu>>> = Mutex::new(None);

    fn failed(error: DeviceError) -> PyErr {
        PyRuntimeError::new_err(error.to_string())
    }

    /// Does something with a GPU, which is opened at its first use.
    fn with_gpu<T>(
        number: i32,
        act: impl FnOnce(&mut Gpu) -> Result<T, DeviceError>,
    ) -> Result<T, DeviceError> {
        let mut gpus = GPUS.lock().unwrap_or_else(PoisonError::into_inner);
        let gpus = gpus.get_or_insert_default();
        if !gpus.contains_key(&number) {
            let device = Device::open(usize::try_from(number).unwrap_or(usize::MAX))?;
            let gpu = Gpu {
                device,
                resamplers: Vec::new(),
                voxelizers: Vec::new(),
                encoders: Vec::new(),
            };
            gpus.insert(number, gpu);
        }
        match gpus.get_mut(&number) {
            Some(gpu) => act(gpu),
            None => unreachable!("it was inserted"),
        }
    }

    struct OnDevice(Elsewhere<DeviceBuffer>);

    impl Memory for OnDevice {
        fn address(&self) -> usize {
            self.0.address() as usize
        }
    }

    /// Memory of a GPU.
    pub fn memory(device: i32, bytes: usize) -> PyResult<Arc<dyn Memory>> {
        let buffer = with_gpu(device, |gpu| DeviceBuffer::new(&gpu.device, bytes.max(1)));
        Ok(Arc::new(OnDevice(Elsewhere::new(buffer.map_err(failed)?))))
    }

    /// Waits for all of a GPU.
    pub fn synchronize(device: i32) -> PyResult<()> {
        let device = with_gpu(device, |gpu| Ok(gpu.device.clone())).map_err(failed)?;
        device.synchronize().map_err(failed)
    }

    /// A GPU, which is opened at its first use.
    pub fn device(number: i32) -> Result<Arc<Device>, DeviceError> {
        with_gpu(number, |gpu| Ok(gpu.device.clone()))
    }

    /// The stream of the caller.
    pub fn stream_of(device: &Arc<Device>, (_, handle): Place) -> Stream {
        // SAFETY: the handle is that of the array library's current stream, which lives longer than this call.
        unsafe { Stream::of_caller(device, handle) }
    }

    /// Puts a batch on the caller's stream.
    pub fn fuse(
        py: Python<'_>,
        place: Place,
        batch: &Batch,
        out: (usize, usize, usize),
        rules: &[&Rule],
    ) -> PyResult<()> {
        let addresses = |all: &[usize]| all.iter().map(|at| *at as u64).collect::<Vec<_>>();
        let (rows, offsets): (Vec<_>, Vec<_>) =
            batch.stamps.iter().map(|stamps| (stamps.0 as u64, stamps.2 as u64)).unzip();
        let pointers = BatchPointers {
            rows: &addresses(&batch.rows),
            stamps: &rows,
            row_offsets: &offsets,
            targets: batch.targets.0 as u64,
            target_offsets: batch.targets.2 as u64,
            data: out.0 as u64,
            report: Some([out.1 as u64, out.2 as u64]),
        };
        let wide = [&pointers.rows[..], &[pointers.data]].concat();
        if wide.iter().any(|address| !address.is_multiple_of(16)) {
            return Err(super::super::wrong(
                "rows and out: expected addresses that are multiples of 16",
            ));
        }
        if batch.spec.targets() == 0 {
            return Ok(());
        }
        py.detach(|| {
            let (resampler, device) = with_gpu(place.0, |gpu| {
                Ok((gpu.resampler(place.0, batch, rules)?, gpu.device.clone()))
            })?;
            let stream = stream_of(&device, place);
            // SAFETY: Python's side has checked the shapes. The caller's stream orders this launch with the
            // use and the release of the arrays, as for any kernel of the array library. No launch there
            // overlaps with the one before it.
            unsafe { resampler.launch(&pointers, Inputs::Ready, &stream) }
        })
        .map_err(failed)
    }

    impl Gpu {
        fn resampler(
            &mut self,
            number: i32,
            batch: &Batch,
            rules: &[&Rule],
        ) -> Result<Arc<Resampler>, DeviceError> {
            let spec = &batch.spec;
            let streams = spec.streams.iter().zip(rules);
            let key = Key {
                dtype: spec.dtype,
                episodes: spec.episodes,
                steps: spec.steps,
                streams: streams.map(|(s, rule)| (rule.id, s.rows, s.dtype)).collect(),
            };
            if let Some(at) = self.resamplers.iter().rposition(|(other, _)| *other == key) {
                return Ok(self.resamplers[at].1.clone());
            }
            let mut lanes = Vec::with_capacity(rules.len());
            for (stream, rule) in spec.streams.iter().zip(rules) {
                let mut known = rule.on_device.lock().unwrap_or_else(PoisonError::into_inner);
                if !known.contains_key(&number) {
                    known.insert(number, lanes_of(&self.device, stream)?);
                }
                lanes.push(known[&number].clone());
            }
            let resampler = Arc::new(Resampler::with_lanes(&self.device, spec, lanes)?);
            if self.resamplers.len() == MOST {
                self.resamplers.remove(0);
            }
            self.resamplers.push((key, resampler.clone()));
            Ok(resampler)
        }
    }

    /// The one for `key`, which is made if there is none; the one that was not used for longest goes.
    fn kept<'a, K: PartialEq, V>(
        all: &'a mut Vec<(K, V)>,
        key: K,
        make: impl FnOnce() -> Result<V, DeviceError>,
    ) -> Result<&'a mut V, DeviceError> {
        match all.iter().position(|(other, _)| *other == key) {
            Some(at) => all[..=at].rotate_right(1),
            None => {
                let made = make()?;
                all.truncate(MOST_ENCODERS - 1);
                all.insert(0, (key, made));
            }
        }
        Ok(&mut all[0].1)
    }

    /// Writes the grids of clouds on the caller's stream, and waits for each: what happened to the points is
    /// known only then.
    pub fn voxelize(
        py: Python<'_>,
        place: Place,
        rule: &VoxelRule,
        clouds: &Clouds<'_>,
        (points, out): (usize, usize),
        row_bytes: usize,
    ) -> PyResult<Vec<PointDrops>> {
        let aligned = out.is_multiple_of(16) && (clouds.len() < 2 || row_bytes.is_multiple_of(16));
        if !aligned {
            return Err(super::super::wrong("out: expected grids at multiples of 16 bytes"));
        }
        let counts = clouds.offsets.windows(2).map(|pair| (pair[1] - pair[0]) as usize);
        let most = counts.max().unwrap_or(0).next_power_of_two();
        let outcome = py.detach(|| {
            with_gpu(place.0, |gpu| {
                let device = gpu.device.clone();
                let key = (rule.spec.clone(), rule.dtype, most);
                let make = || Voxelizer::new(&device, &rule.spec, rule.dtype, 1, most);
                let voxelizer = kept(&mut gpu.voxelizers, key, make)?;
                let stream = stream_of(&device, place);
                let run =
                    |at| encode_cloud(voxelizer, clouds, at, (points, out), row_bytes, &stream);
                Ok((0..clouds.len()).map(run).collect::<Result<Vec<_>, _>>())
            })
        });
        outcome.map_err(failed)?.map_err(|error| match error {
            EncodeError::Cloud(error) => super::super::wrong(error.to_string()),
            EncodeError::Device(error) => failed(error),
        })
    }

    fn encode_cloud(
        voxelizer: &mut Voxelizer,
        clouds: &Clouds<'_>,
        at: usize,
        (points, out): (usize, usize),
        row_bytes: usize,
        stream: &Stream,
    ) -> Result<PointDrops, EncodeError> {
        let [first, end] = [0, 1].map(|next| clouds.offsets[at + next] as usize);
        let count = end - first;
        let points = DevicePoints {
            address: (points + first * clouds.point_step) as u64,
            width: count,
            height: 1,
            point_step: clouds.point_step,
            row_step: count * clouds.point_step,
            big_endian: false,
            fields: clouds.fields,
            t_base_sensor: clouds.t_base_sensor,
            t_shapes: &[],
        };
        let row = (out + at * row_bytes) as u64;
        voxelizer.forget(0, stream)?;
        // SAFETY: Python's side has checked the shapes, and keeps the arrays until the cloud is done. Nothing is on
        // another stream, because each call waits for its clouds.
        unsafe { voxelizer.launch(&points, (0, row), Inputs::Ready, stream)? };
        voxelizer.finish(stream)
    }

    /// Puts the rows of images on the caller's stream.
    pub fn encode_images(
        py: Python<'_>,
        place: Place,
        rule: &ImageRule,
        (address, count): (usize, usize),
        (encoding, height, width): (Encoding, usize, usize),
        out: usize,
    ) -> PyResult<()> {
        py.detach(|| {
            with_gpu(place.0, |gpu| {
                let device = gpu.device.clone();
                let make = || ImageEncoder::new(&device, &rule.spec, rule.dtype, [width, height]);
                let encoder = kept(&mut gpu.encoders, (rule.id, [width, height], place.1), make)?;
                let stream = stream_of(&device, place);
                let step = width * encoding.bytes_per_pixel();
                for at in 0..count {
                    let address = (address + at * step * height) as u64;
                    let image = DeviceImage { address, encoding, width, height, step };
                    let row = (out + at * encoder.row_bytes()) as u64;
                    // SAFETY: Python's side has checked the shapes. The caller's stream orders the launches with
                    // the use and the release of the arrays; an encoder is for one stream.
                    unsafe { encoder.launch(&image, row, Inputs::Ready, &stream)? };
                }
                Ok(())
            })
        })
        .map_err(failed)
    }

    /// Puts the gradients of all streams on the caller's stream.
    pub fn gradient(py: Python<'_>, place: Place, batch: &Batch, of_values: usize) -> PyResult<()> {
        py.detach(|| {
            let device = with_gpu(place.0, |gpu| Ok(gpu.device.clone()))?;
            let stream = stream_of(&device, place);
            let gradient = Gradient::new(&device, batch.spec.dtype)?;
            for (at, (of_rows, stamps)) in batch.rows.iter().zip(&batch.stamps).enumerate() {
                let pointers = GradientPointers {
                    of_output: of_values as u64,
                    of_rows: *of_rows as u64,
                    stamps: stamps.0 as u64,
                    row_offsets: stamps.2 as u64,
                    targets: batch.targets.0 as u64,
                    target_offsets: batch.targets.2 as u64,
                };
                // SAFETY: as in `fuse`.
                unsafe { gradient.launch(&batch.spec, at, &pointers, &stream)? };
            }
            Ok(())
        })
        .map_err(failed)
    }
}

#[cfg(not(feature = "cuda"))]
mod without_cuda {
    use std::sync::Arc;

    use pyo3::exceptions::PyRuntimeError;
    use pyo3::prelude::*;
    use robocache::ops::image::Encoding;
    use robocache::ops::voxelize::PointDrops;
    use robocache::ops::voxelize::batch::Clouds;

    use super::super::resample::Batch;
    use super::super::{ImageRule, Place, Rule, VoxelRule};
    use crate::dlpack::Memory;

    fn none<T>() -> PyResult<T> {
        Err(PyRuntimeError::new_err(
            "expected a build with CUDA for arrays on a GPU, found one without",
        ))
    }

    /// There are no GPUs.
    pub fn memory(_: i32, _: usize) -> PyResult<Arc<dyn Memory>> {
        none()
    }

    /// There are no GPUs.
    pub fn synchronize(_: i32) -> PyResult<()> {
        none()
    }

    /// There are no GPUs.
    pub fn fuse(
        _: Python<'_>,
        _: Place,
        _: &Batch,
        _: (usize, usize, usize),
        _: &[&Rule],
    ) -> PyResult<()> {
        none()
    }

    /// There are no GPUs.
    pub fn voxelize(
        _: Python<'_>,
        _: Place,
        _: &VoxelRule,
        _: &Clouds<'_>,
        _: (usize, usize),
        _: usize,
    ) -> PyResult<Vec<PointDrops>> {
        none()
    }

    /// There are no GPUs.
    pub fn encode_images(
        _: Python<'_>,
        _: Place,
        _: &ImageRule,
        _: (usize, usize),
        _: (Encoding, usize, usize),
        _: usize,
    ) -> PyResult<()> {
        none()
    }

    /// There are no GPUs.
    pub fn gradient(_: Python<'_>, _: Place, _: &Batch, _: usize) -> PyResult<()> {
        none()
    }
}
