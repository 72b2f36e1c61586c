//! Times of kernels. Launches are recorded into a graph, which is replayed between two events, so that the
//! time is that of the device and not of the host.
#![cfg(feature = "cuda")]
#![allow(unsafe_code)] // launches; every block says why it is sound

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Instant;

use robocache_core::encoder::EncodeError;
use robocache_ops::align::Slot;
use robocache_ops::device::{
    Device, DeviceBuffer, Event, Inputs, Kernel, Launch, RowPlace, Stream,
};
use robocache_ops::dtype::DType;
use robocache_ops::image::cuda::ImageEncoder;
use robocache_ops::image::{ImageSpec, ImageView};
use robocache_ops::resample::cuda::{DeviceBatch, Resampler};
use robocache_ops::voxelize::cuda::{DevicePoints, Scatter, Voxelizer, Words, bytes_of_points};
use robocache_ops::voxelize::{Grid, PointsView, VoxelSpec};

/// The kernel that does nothing.
static EMPTY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/empty.fatbin"));

/// Replays that are not counted: they load code and fill caches.
const WARM_UP: usize = 5;

/// Times of one case \[us\].
pub(crate) struct Times {
    /// Per call, of calls that follow each other: one replay each.
    pub each: Vec<f64>,
    /// Per call, of calls that each start after the last one has ended.
    pub alone: Vec<f64>,
}

/// Times on one device.
pub(crate) struct Timer {
    stream: Stream,
    /// On which kernels do not overlap.
    alone: Stream,
    empty: Kernel,
}

impl Timer {
    /// For a device.
    pub(crate) fn new(device: &Arc<Device>) -> Result<Self, EncodeError> {
        // SAFETY: a complete fat binary.
        unsafe { device.load(EMPTY)? };
        Ok(Timer {
            stream: Stream::new(device, false)?,
            alone: Stream::new(device, false)?.without_overlap(),
            empty: device.kernel("bench_empty")?,
        })
    }

    /// Times `launches` calls, recorded as a graph, over `replays` replays: first without overlap,
    /// and then with it. `start_over` runs before the latter, so that what the calls leave behind
    /// is the work of those that overlapped.
    fn time(
        &self,
        launches: usize,
        replays: usize,
        mut launch: impl FnMut(usize, &Stream) -> Result<(), EncodeError>,
        start_over: impl FnOnce() -> Result<(), EncodeError>,
    ) -> Result<Times, EncodeError> {
        let alone = time_on(&self.alone, launches, replays, &mut launch)?;
        start_over()?;
        Ok(Times { each: time_on(&self.stream, launches, replays, &mut launch)?, alone })
    }

    /// A kernel that does nothing.
    pub(crate) fn empty(&self, launches: usize, replays: usize) -> Result<Times, EncodeError> {
        let one = Launch { blocks: 1, threads: 32, shared: 0 };
        // SAFETY: the kernel has no parameters.
        let launch = |_, on: &Stream| unsafe { Ok(self.empty.launch(on, one, &mut [])?) };
        self.time(launches, replays, launch, || Ok(()))
    }

    /// A batch, going round the `first` ones without overlap and then round the `second` ones,
    /// whose outputs so come from launches that overlapped alone.
    pub(crate) fn batch(
        &self,
        resampler: &Resampler,
        [first, second]: [&[DeviceBatch]; 2],
        launches: usize,
        replays: usize,
    ) -> Result<Times, EncodeError> {
        let batches = Cell::new(first);
        let start_over = || {
            batches.set(second);
            second.iter().try_for_each(poison)
        };
        let launch = |i: usize, on: &Stream| {
            let batches = batches.get();
            Ok(resampler.start(&batches[i % batches.len()], Inputs::Ready, on)?)
        };
        self.time(launches, replays, launch, start_over)
    }

    /// Microseconds of a copy of `bytes` bytes from device memory to device memory. Not in a graph,
    /// where the driver copies more slowly.
    pub(crate) fn copy(&self, bytes: usize, repeats: usize) -> Result<Vec<f64>, EncodeError> {
        let device = self.stream.device();
        let from = DeviceBuffer::new(device, bytes)?;
        let to = DeviceBuffer::new(device, bytes)?;
        let start = Event::new(device, true)?;
        let end = Event::new(device, true)?;
        let mut times = Vec::with_capacity(repeats);
        for repeat in 0..WARM_UP + repeats {
            start.record(&self.stream)?;
            to.copy_on(&from, &self.stream)?;
            end.record(&self.stream)?;
            end.synchronize("time a copy")?;
            if repeat >= WARM_UP {
                times.push(end.microseconds_since(&start)?);
            }
        }
        Ok(times)
    }

    /// Clouds to rows, without their upload, going round `views` and `slots` rows. Returns the times
    /// and what the last row holds.
    pub(crate) fn clouds(
        &self,
        spec: &VoxelSpec,
        dtype: DType,
        views: &[PointsView<'_>],
        slots: usize,
        replays: usize,
    ) -> Result<(Times, Vec<u8>), EncodeError> {
        let device = self.stream.device();
        let new = || {
            let most = views.iter().map(PointsView::points).max().unwrap_or(0) as usize;
            let mut voxelizer = Voxelizer::new(device, spec, dtype, slots, most)?;
            // A launch that is recorded must not wait for them.
            voxelizer.set_fields(views[0].fields, &self.stream)?;
            voxelizer.set_shapes(views[0].t_shapes, &self.stream)?;
            Ok::<_, EncodeError>(voxelizer)
        };
        let voxelizer = RefCell::new(new()?);
        let row_bytes = voxelizer.borrow().row_bytes();
        let pitch = row_bytes.next_multiple_of(ROW_ALIGNMENT);
        let rows = DeviceBuffer::new(device, pitch * slots)?;
        let uploads =
            views.iter().map(|view| DeviceBuffer::from_bytes(device, bytes_of_points(view)));
        let uploads = uploads.collect::<Result<Vec<_>, _>>()?;
        let launch = |i: usize, on: &Stream| {
            let mut voxelizer = voxelizer.borrow_mut();
            let at = i % views.len();
            let slot = i % slots;
            let points = DevicePoints::of(&views[at], uploads[at].address());
            // SAFETY: the uploads and the rows are of these sizes, and wait for the device before they
            // go. No kernel writes the uploads.
            unsafe {
                let row = rows.address() + (slot * pitch) as u64;
                voxelizer.launch(&points, Slot::new(slot), row, Inputs::Ready, on)?;
            }
            Ok(())
        };
        // A voxelizer knows what its rows hold and clears nothing else, so a row must not be poisoned:
        // there is a new one, which expects rows of zeros.
        let start_over = || {
            rows.fill(0)?;
            *voxelizer.borrow_mut() = new()?;
            Ok(())
        };
        let times = self.time(CLOUD_LAUNCHES, replays, launch, start_over)?;
        let last = (CLOUD_LAUNCHES - 1) % slots;
        let mut all = vec![0; rows.len()];
        rows.read(&mut all)?;
        Ok((times, all[last * pitch..][..row_bytes].to_vec()))
    }

    /// Counts of clouds as integers, x first, straight into memory that is cleared before: going round `views` and
    /// `slots` arrays. Returns the times and the array that was written last.
    pub(crate) fn scatter(
        &self,
        grid: &Grid,
        views: &[PointsView<'_>],
        slots: usize,
        replays: usize,
    ) -> Result<(Times, Vec<u8>), EncodeError> {
        let device = self.stream.device();
        let scatter = Scatter::new(device)?;
        let bytes = 4 * grid.volume();
        let arrays = DeviceBuffer::new(device, bytes * slots)?;
        let uploads =
            views.iter().map(|view| DeviceBuffer::from_bytes(device, bytes_of_points(view)));
        let uploads = uploads.collect::<Result<Vec<_>, _>>()?;
        let [_, y, z] = grid.shape;
        let launch = |i: usize, on: &Stream| {
            let at = i % views.len();
            let points = DevicePoints::of(&views[at], uploads[at].address());
            let out = arrays.address() + (i % slots * bytes) as u64;
            let to = (out, [y * z, z, 1], Words::Counts);
            // SAFETY: the uploads and the arrays are of these sizes, and wait for the device before they go. The
            // strides are those of an array `[x, y, z]`.
            unsafe { Ok(scatter.launch(&points, 1, grid, to, on)?) }
        };
        let start_over = || Ok(arrays.fill(0xAB)?);
        let times = self.time(CLOUD_LAUNCHES, replays, launch, start_over)?;
        let mut all = vec![0; arrays.len()];
        arrays.read(&mut all)?;
        Ok((times, all[(CLOUD_LAUNCHES - 1) % slots * bytes..][..bytes].to_vec()))
    }

    /// Upload and encoding of an image whose bytes are in pinned memory, on the host's clock.
    /// Returns the times and the row.
    pub(crate) fn image(
        &self,
        spec: &ImageSpec,
        dtype: DType,
        view: &ImageView<'_>,
        repeats: usize,
    ) -> Result<(Vec<f64>, Vec<u8>), EncodeError> {
        let device = self.stream.device();
        let mut encoder = ImageEncoder::new(device, spec, dtype, [view.width, view.height])?;
        let row = DeviceBuffer::new(device, encoder.row_bytes())?;
        encoder.encode(view, RowPlace { rows: &row, at: 0 }, &self.stream)?;
        self.stream.synchronize("encode an image")?;
        // What is compared is what the timed calls leave behind.
        row.fill(0)?;
        let times = on_the_clock(repeats, || {
            encoder.start(RowPlace { rows: &row, at: 0 }, &self.stream)?;
            Ok(self.stream.synchronize("encode an image")?)
        })?;
        let mut bytes = vec![0; row.len()];
        row.read(&mut bytes)?;
        Ok((times, bytes))
    }

    /// Upload and encoding of a cloud whose bytes are in pinned memory. Returns the times and the row.
    pub(crate) fn cloud(
        &self,
        spec: &VoxelSpec,
        dtype: DType,
        view: &PointsView<'_>,
        repeats: usize,
    ) -> Result<(Vec<f64>, Vec<u8>), EncodeError> {
        let device = self.stream.device();
        let most = view.points() as usize;
        let voxelizer = Voxelizer::new(device, spec, dtype, 1, most)?;
        let mut voxelizer = match view.sweep {
            Some(_) => voxelizer.with_sweeps(device, most)?,
            None => voxelizer,
        };
        let row = DeviceBuffer::new(device, voxelizer.row_bytes())?;
        voxelizer.encode(view, Slot::new(0), RowPlace { rows: &row, at: 0 }, &self.stream)?;
        let times = on_the_clock(repeats, || {
            voxelizer.start(Slot::new(0), RowPlace { rows: &row, at: 0 }, &self.stream)?;
            voxelizer.finish(&self.stream)?;
            Ok(())
        })?;
        let mut bytes = vec![0; row.len()];
        row.read(&mut bytes)?;
        Ok((times, bytes))
    }
}

/// Overwrites the data of a batch's output with bytes that no value has, so that what a launch does not
/// write shows. Validities and ages are left: fresh ones, invalid and of age 0, are no answer either.
fn poison(batch: &DeviceBatch) -> Result<(), EncodeError> {
    Ok(batch.data().fill(0xAB)?)
}

/// Microseconds per launch, for each of `replays` replays of a graph of `launches`.
fn time_on(
    stream: &Stream,
    launches: usize,
    replays: usize,
    launch: &mut impl FnMut(usize, &Stream) -> Result<(), EncodeError>,
) -> Result<Vec<f64>, EncodeError> {
    let device = stream.device();
    // The driver's errors alone are its own; others come out when it is done.
    let mut outcome = Ok(());
    let graph = stream.capture(|| {
        outcome = (0..launches).try_for_each(|i| launch(i, stream));
        Ok(())
    });
    outcome?;
    let graph = graph?;
    let start = Event::new(device, true)?;
    let end = Event::new(device, true)?;
    let mut times = Vec::with_capacity(replays);
    for replay in 0..WARM_UP + replays {
        start.record(stream)?;
        // SAFETY: the caller borrows what is recorded until this function returns.
        unsafe { graph.launch(stream)? };
        end.record(stream)?;
        end.synchronize("time a graph")?;
        if replay >= WARM_UP {
            times.push(end.microseconds_since(&start)? / launches as f64);
        }
    }
    Ok(times)
}

/// Rows start at multiples of this many bytes.
const ROW_ALIGNMENT: usize = 128;

/// Rows that clouds go round when they are timed.
pub(crate) const CLOUD_SLOTS: usize = 4;

/// Launches in a graph of clouds: a multiple of the number of rows, and an even one, as the two halves of the touched
/// bins take turns. With this many, the start of the graph itself, some microseconds, does not count.
pub(crate) const CLOUD_LAUNCHES: usize = 10 * CLOUD_SLOTS * (CLOUD_SLOTS + 1);

/// Microseconds of each of `repeats` calls, after some that are not counted.
fn on_the_clock(
    repeats: usize,
    mut call: impl FnMut() -> Result<(), EncodeError>,
) -> Result<Vec<f64>, EncodeError> {
    let mut times = Vec::with_capacity(repeats);
    for repeat in 0..WARM_UP + repeats {
        let start = Instant::now();
        call()?;
        if repeat >= WARM_UP {
            times.push(start.elapsed().as_secs_f64() * 1e6);
        }
    }
    Ok(times)
}
