//! Batches on the GPU: `kernels/resample.cu`, the twin of [`crate::backend::cpu::batch`].

use std::ptr;
use std::sync::Arc;

use super::driver::{Device, Kernel, Stream};
use super::memory::{DeviceBuffer, Plain, bytes_of};
use crate::backend::BackendError;
use crate::backend::batch::{BatchInput, BatchOutput, BatchSpec, BatchStream};
use crate::config::{Fill, Strategy};
use crate::dtype::DType;

/// Threads of a block, as in `kernels/resample.cu`.
const THREADS: usize = 256;
/// Stamps that a block fetches at most.
const WINDOW: u32 = 1023;
/// Streams described in the launch parameters.
const INLINE_STREAMS: usize = 4;
/// Blocks that a multiprocessor runs at once.
const BLOCKS_AT_ONCE: usize = 4;
/// The most accesses per thread: more of them than this save nothing.
const MOST_PER_THREAD: usize = 16;

/// `AlignRule` in `kernels/common.cuh`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Rule {
    max_age_ns: i64,
    max_gap_ns: i64,
    strategy: u32,
    fill: u32,
}

/// A number to divide by through multiplication, exact below 2^31: `Divisor` in
/// `kernels/resample.cu`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Divisor {
    by: u32,
    magic: u32,
    shift: u32,
    reserved: u32,
}

impl Divisor {
    /// For n < 2^31 and 2^(l-1) < d <= 2^l, n / d is n * (floor(2^(31+l) / d) + 1) >> (31+l):
    /// the factor is too large by at most 1, which adds less than n / 2^(31+l) < 1 / d. It has 32
    /// bits unless d is a power of two, for which the exact factor does.
    fn new(by: usize) -> Self {
        let by = (by as u64).max(1);
        let shift = 31 + by.next_power_of_two().trailing_zeros();
        let magic = (1u64 << shift).div_ceil(by) as u32;
        Divisor { by: by as u32, magic, shift, reserved: 0 }
    }
}

/// `Stream` in `kernels/resample.cu`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct StreamJob {
    rows: u64,
    stamps: u64,
    lanes: u64,
    rule: Rule,
    len: u32,
    dim: u32,
    out_at: u32,
    dtype: u32,
    pack: u32,
    packs: u32,
    tile_targets: u32,
    tile_packs: u32,
    step_targets: u32,
    step_packs: u32,
    first_block: u32,
    window: u32,
    rows_per_target: f32,
    reserved: u32,
    target_tiles: Divisor,
    pack_tiles: Divisor,
    per_row: Divisor,
}

// SAFETY: numbers, the 8-byte ones first and an even number of the others.
unsafe impl Plain for StreamJob {}

/// `Batch` in `kernels/resample.cu`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Job {
    targets: u64,
    out: u64,
    valid: u64,
    age_ns: u64,
    more: u64,
    episodes: u32,
    steps: u32,
    row: u32,
    streams: u32,
    inputs_ready: u32,
    reserved: u32,
    first: [StreamJob; INLINE_STREAMS],
}

/// A batch on the device: the memory of its input and output.
pub struct DeviceBatch {
    rows: Vec<DeviceBuffer>,
    stamps: Vec<DeviceBuffer>,
    targets: DeviceBuffer,
    data: DeviceBuffer,
    valid: DeviceBuffer,
    age_ns: DeviceBuffer,
    /// Streams from [`INLINE_STREAMS`] on.
    _more: Option<DeviceBuffer>,
    job: Job,
    blocks: u32,
    /// Whose it is: the job names its lanes.
    fuser: Arc<Inner>,
}

/// Resamples batches of one spec.
pub struct BatchFuser(Arc<Inner>);

struct Inner {
    spec: BatchSpec,
    device: Arc<Device>,
    kernel: Kernel,
    lanes: Vec<Option<DeviceBuffer>>,
}

impl BatchFuser {
    /// For batches of `spec`.
    pub fn new(device: &Arc<Device>, spec: &BatchSpec) -> Result<Self, BackendError> {
        let kernel = device.kernel(match spec.dtype {
            DType::F32 => "resample_f32",
            DType::F16 => "resample_f16",
            DType::Bf16 => "resample_bf16",
        })?;
        let lanes = spec.streams.iter().map(|stream| match stream.rule.strategy.interpolates() {
            true => super::lane_codes(device, &stream.lanes),
            false => Ok(None),
        });
        let lanes = lanes.collect::<Result<_, _>>()?;
        Ok(BatchFuser(Arc::new(Inner {
            spec: spec.clone(),
            device: device.clone(),
            kernel,
            lanes,
        })))
    }

    /// Uploads an input and reserves its output. Validity and age are computed if `report`.
    ///
    /// # Panics
    /// When the input does not fit the spec ([`BatchSpec::mismatch`]).
    pub fn upload(
        &self,
        input: &BatchInput<'_>,
        report: bool,
    ) -> Result<DeviceBatch, BackendError> {
        if let Some(mismatch) = self.0.spec.mismatch(input) {
            panic!("batch: {mismatch}");
        }
        let from_bytes = |bytes: &[u8]| DeviceBuffer::from_bytes(&self.0.device, bytes);
        let rows: Vec<_> = input.rows.iter().map(|b| from_bytes(b)).collect::<Result<_, _>>()?;
        let stamps = input.stamps.iter().map(|s| from_bytes(bytes_of(s)));
        let stamps: Vec<_> = stamps.collect::<Result<_, _>>()?;
        let steps = self.0.spec.streams.len() * self.0.spec.targets();
        let (jobs, blocks) = self.stream_jobs(&rows, &stamps);
        let more = match jobs.get(INLINE_STREAMS..) {
            Some(more) if !more.is_empty() => Some(from_bytes(bytes_of(more))?),
            _ => None,
        };
        let out_bytes = self.0.spec.targets() * self.0.spec.row_len() * self.0.spec.dtype.size();
        let mut batch = DeviceBatch {
            rows,
            stamps,
            targets: from_bytes(bytes_of(input.targets))?,
            data: DeviceBuffer::new(&self.0.device, out_bytes)?,
            valid: DeviceBuffer::new(&self.0.device, steps)?,
            age_ns: DeviceBuffer::new(&self.0.device, 8 * steps)?,
            job: Job::default(),
            _more: None,
            blocks,
            fuser: self.0.clone(),
        };
        batch.job = Job {
            targets: batch.targets.address(),
            out: batch.data.address(),
            valid: if report { batch.valid.address() } else { 0 },
            age_ns: if report { batch.age_ns.address() } else { 0 },
            more: more.as_ref().map_or(0, DeviceBuffer::address),
            episodes: self.0.spec.episodes as u32,
            steps: self.0.spec.steps as u32,
            row: self.0.spec.row_len() as u32,
            streams: jobs.len() as u32,
            // They were uploaded, and waited for, above; no kernel writes them.
            inputs_ready: 1,
            reserved: 0,
            first: std::array::from_fn(|i| jobs.get(i).copied().unwrap_or_default()),
        };
        batch._more = more;
        Ok(batch)
    }

    /// How the work is shared among blocks. Returns their number too.
    fn stream_jobs(&self, rows: &[DeviceBuffer], stamps: &[DeviceBuffer]) -> (Vec<StreamJob>, u32) {
        let spec = &self.0.spec;
        let mut jobs = Vec::new();
        let mut out_at = 0;
        for (at, stream) in spec.streams.iter().enumerate() {
            let mut job = stream_job(stream);
            (job.rows, job.stamps) = (rows[at].address(), stamps[at].address());
            job.lanes = self.0.lanes[at].as_ref().map_or(0, DeviceBuffer::address);
            job.out_at = out_at as u32;
            job.pack = match &self.0.lanes[at] {
                Some(_) => 1,
                None => pack(spec, stream, out_at) as u32,
            };
            job.packs = job.dim / job.pack;
            out_at += stream.lanes.len();
            jobs.push(job);
        }
        let packs = jobs.iter().map(|job| spec.targets() * job.packs as usize).sum::<usize>();
        let threads = self.0.device.multiprocessors() as usize * BLOCKS_AT_ONCE * THREADS;
        // A thread has two accesses under way at once. With one each, a batch that just fills the
        // device would leave the next one no room to start.
        let per_thread = if packs > threads / 2 { 2.max(packs.div_ceil(threads)) } else { 1 };
        let block_packs = THREADS * per_thread.min(MOST_PER_THREAD);
        let mut blocks = 0;
        for job in &mut jobs {
            job.first_block = blocks;
            blocks += share(job, block_packs, spec);
        }
        (jobs, blocks)
    }

    /// Starts a batch on a stream. It reads its inputs, which do not change after
    /// [`BatchFuser::upload`], while launches before it may still be under way, and writes its
    /// output after them.
    ///
    /// # Safety
    /// `batch` stays until the launch is done.
    ///
    /// # Panics
    /// When `batch` is of another fuser.
    pub unsafe fn launch(&self, batch: &DeviceBatch, stream: &Stream) -> Result<(), BackendError> {
        assert!(Arc::ptr_eq(&self.0, &batch.fuser), "batch: of another fuser");
        let mut job = batch.job;
        let arguments = &mut [ptr::from_mut(&mut job).cast()];
        // SAFETY: the argument is that of the kernel, and names buffers of `batch` and of this
        // fuser, sized for the spec; the caller answers for how long they stay.
        unsafe { self.0.kernel.launch(stream, batch.blocks, THREADS as u32, arguments) }
    }

    /// Resamples a batch and waits for it.
    ///
    /// # Panics
    /// When `batch` is of another fuser.
    pub fn run(&self, batch: &DeviceBatch, stream: &Stream) -> Result<(), BackendError> {
        // SAFETY: the batch is borrowed until the launch has been waited for.
        unsafe { self.launch(batch, stream)? };
        stream.synchronize("resample")
    }

    /// Copies the output to the host, after everything that was started on the device.
    ///
    /// # Panics
    /// When `batch` is of another fuser.
    pub fn download(&self, batch: &DeviceBatch) -> Result<BatchOutput, BackendError> {
        assert!(Arc::ptr_eq(&self.0, &batch.fuser), "batch: of another fuser");
        let mut output = self.0.spec.output();
        batch.data.read(&mut output.data)?;
        batch.valid.read(&mut output.valid)?;
        let mut ages = vec![0; 8 * output.age_ns.len()];
        batch.age_ns.read(&mut ages)?;
        for (age, bytes) in output.age_ns.iter_mut().zip(ages.as_chunks::<8>().0) {
            *age = i64::from_ne_bytes(*bytes);
        }
        Ok(output)
    }
}

impl DeviceBatch {
    /// Bytes of device memory.
    pub fn bytes(&self) -> usize {
        let inputs = self.rows.iter().chain(&self.stamps).map(DeviceBuffer::len).sum::<usize>();
        inputs + self.targets.len() + self.data.len() + self.valid.len() + self.age_ns.len()
    }

    /// Addresses of the rows and stamps of the first stream, the targets and the output.
    pub(super) fn addresses(&self) -> [u64; 4] {
        let first = |buffers: &[DeviceBuffer]| buffers.first().map_or(0, DeviceBuffer::address);
        [first(&self.rows), first(&self.stamps), self.targets.address(), self.data.address()]
    }
}

fn stream_job(stream: &BatchStream) -> StreamJob {
    let rule = Rule {
        max_age_ns: stream.rule.max_age_ns,
        max_gap_ns: stream.rule.max_gap_ns,
        strategy: match stream.rule.strategy {
            Strategy::Hold => 0,
            Strategy::Nearest => 1,
            Strategy::Linear | Strategy::Slerp => 2,
        },
        fill: match stream.rule.fill {
            Fill::Zero => 0,
            Fill::Last => 1,
        },
    };
    StreamJob {
        rule,
        len: stream.rows as u32,
        dim: stream.lanes.len() as u32,
        dtype: stream.dtype as u32,
        ..StreamJob::default()
    }
}

/// Elements per access: as many as fill 16 bytes of output and as the alignment allows.
fn pack(spec: &BatchSpec, stream: &BatchStream, out_at: usize) -> usize {
    let fits = |n: &usize| {
        let whole = |elements: usize| elements.is_multiple_of(*n);
        n * spec.dtype.size() <= 16
            && whole(stream.lanes.len())
            && whole(out_at)
            && whole(spec.row_len())
    };
    [8, 4, 2].into_iter().find(fits).unwrap_or(1)
}

/// Cuts a stream's work into tiles of `block_packs` accesses, of whole rows where these are
/// shorter than that. Returns the number of tiles.
fn share(job: &mut StreamJob, block_packs: usize, spec: &BatchSpec) -> u32 {
    let packs = (job.packs as usize).max(1);
    let tile_packs = packs.min(block_packs);
    let most = THREADS.min(spec.steps).max(1);
    let tile_targets = (block_packs / packs).clamp(1, most);
    job.tile_packs = tile_packs as u32;
    job.tile_targets = tile_targets as u32;
    let target_tiles = spec.steps.div_ceil(tile_targets).max(1);
    let pack_tiles = packs.div_ceil(tile_packs);
    job.target_tiles = Divisor::new(target_tiles);
    job.pack_tiles = Divisor::new(pack_tiles);
    job.per_row = Divisor::new(tile_packs);
    job.window = job.len.min(WINDOW);
    job.rows_per_target = job.len as f32 / spec.steps.max(1) as f32;
    job.step_targets = (THREADS / tile_packs) as u32;
    job.step_packs = (THREADS % tile_packs) as u32;
    match spec.steps {
        0 => 0,
        _ => (spec.episodes * target_tiles * pack_tiles) as u32,
    }
}
