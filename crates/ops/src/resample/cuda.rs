//! Batches on the GPU: `kernels/resample/resample.cu`, the twin of [`super::batch`].

mod batch;
pub mod fuse;
mod gradient;

use std::sync::Arc;

pub use batch::DeviceBatch;
pub use gradient::{Gradient, GradientPointers};

use super::spec::{BatchSpec, BatchStream, Division, Lane};
use super::times::Times;
use crate::align::{Fill, Strategy};
use crate::device::shared::common::{DTYPE_BF16, DTYPE_F16, DTYPE_F32, DTYPE_I32, DTYPE_U8};
use crate::device::shared::resample::batch::{
    Batch, Divisor, STREAMS_PER_LAUNCH, Stream as StreamJob, THREADS, WINDOW,
};
use crate::device::shared::resample::{
    AlignRule, FILL_FIRST, FILL_LAST, FILL_ZERO, LANE_ANGULAR, LANE_HELD, LANE_LINEAR,
    LANE_QUATERNION, STRATEGY_HOLD, STRATEGY_INTERPOLATE, STRATEGY_NEAREST,
};
use crate::device::{Device, DeviceBuffer, DeviceError, Inputs, Kernel, Launch, Stream};
use crate::dtype::DType;

/// Thread blocks that a multiprocessor runs at once.
const BLOCKS_AT_ONCE: usize = 4;
/// The most thread blocks of a launch. Kernels divide their numbers, exactly below 2^31.
const MOST_BLOCKS: u64 = i32::MAX as u64;
/// The most accesses per thread: more of them save nothing.
const MOST_PER_THREAD: usize = 16;

// The kernels name element types by the same codes.
const _: () = assert!(DType::F32 as u32 == DTYPE_F32);
const _: () = assert!(DType::F16 as u32 == DTYPE_F16 && DType::Bf16 as u32 == DTYPE_BF16);
const _: () = assert!(DType::U8 as u32 == DTYPE_U8 && DType::I32 as u32 == DTYPE_I32);

/// Addresses of a batch on the device. The shapes are those of the [`BatchSpec`], row-major.
#[derive(Clone, Copy, Debug)]
pub struct BatchPointers<'a> {
    /// Per stream `[B, S, D]` or `[sum of S, D]`, aligned to 16 bytes.
    pub rows: &'a [u64],
    /// Per stream `[B, S]` or `[sum of S]`, of the resampler's [`Times`].
    pub stamps: &'a [u64],
    /// Per stream `[B + 1]`, `i64`, from 0 to the number of rows, without a decrease; 0 if rows are
    /// divided evenly. What wrong offsets leave without an episode has no value.
    pub row_offsets: &'a [u64],
    /// `[B, T]` or `[sum of T]`, of the same.
    pub targets: u64,
    /// `[B + 1]`, the same for targets.
    pub target_offsets: u64,
    /// The output, `[targets, sum of D]`, aligned to 16 bytes.
    pub data: u64,
    /// If they are wanted: `[streams, targets]`, `u8`, whether a value may be used; and its age in
    /// nanoseconds, `i64`.
    pub report: Option<[u64; 2]>,
}

/// Resamples batches of one spec.
pub struct Resampler(Arc<Inner>);

struct Inner {
    spec: BatchSpec,
    times: Times,
    device: Arc<Device>,
    kernel: Kernel,
    /// Kept for their memory.
    _lanes: Vec<Option<Arc<DeviceBuffer>>>,
    /// Parts of the batch, one per launch, without pointers.
    launches: Vec<LaunchPart>,
}

/// Streams that one launch takes.
struct LaunchPart {
    job: Batch,
    blocks: u32,
}

impl Resampler {
    /// For batches of `spec` with times in nanoseconds.
    pub fn new(device: &Arc<Device>, spec: &BatchSpec) -> Result<Self, DeviceError> {
        let lanes = spec.streams.iter().map(|stream| lanes_of(device, stream));
        Self::with_lanes(device, spec, Times::Nanos, lanes.collect::<Result<_, _>>()?)
    }

    /// Prepares launches with the lanes of each stream, as [`lanes_of`] gives them. This makes no call that waits.
    ///
    /// # Panics
    /// When there is another number of lanes than of streams.
    pub fn with_lanes(
        device: &Arc<Device>,
        spec: &BatchSpec,
        times: Times,
        lanes: Vec<Option<Arc<DeviceBuffer>>>,
    ) -> Result<Self, DeviceError> {
        assert_eq!(lanes.len(), spec.streams.len(), "batch: lanes of all streams");
        let uneven = (times != Times::Nanos && !spec.is_even())
            .then(|| "expected nanoseconds for episodes of several lengths".to_owned());
        if let Some(detail) = spec.fault().or(uneven) {
            return Err(DeviceError::Failed { operation: "make a resampler", detail });
        }
        let addresses: Vec<u64> =
            lanes.iter().map(|own| own.as_ref().map_or(0, |own| own.address())).collect();
        let at_once = device.multiprocessors() as usize * BLOCKS_AT_ONCE * THREADS as usize;
        let launches = launches(spec, &addresses, at_once)?;
        let kernel = device.kernel(&kernel_name(spec, times, &launches))?;
        let spec = spec.clone();
        let device = device.clone();
        Ok(Resampler(Arc::new(Inner { spec, times, device, kernel, _lanes: lanes, launches })))
    }

    /// The spec.
    pub fn spec(&self) -> &BatchSpec {
        &self.0.spec
    }

    /// Puts a batch on a stream: one launch for every four streams.
    ///
    /// # Safety
    /// Until the launch is done, the pointers are valid for the shapes of the spec, nothing else
    /// writes what they point to, and nothing else reads the outputs. `inputs` is [`Inputs::Ready`]
    /// only if no kernel that may still run writes the inputs.
    ///
    /// # Errors
    /// There is another number of streams than in the spec, an address is not aligned, or the device fails.
    pub unsafe fn launch(
        &self,
        pointers: &BatchPointers<'_>,
        inputs: Inputs,
        stream: &Stream,
    ) -> Result<(), DeviceError> {
        let Inner { spec, times, kernel, launches, .. } = &*self.0;
        if let Some(detail) = pointers.fault(spec, *times) {
            return Err(DeviceError::Failed { operation: "resample", detail });
        }
        // Bytes and ages of the streams of a launch follow those of the launches before it.
        let report_steps = STREAMS_PER_LAUNCH as u64 * spec.targets() as u64;
        let streams = pointers.rows.iter().zip(pointers.stamps).zip(pointers.row_offsets);
        let mut streams = streams.map(|((rows, stamps), offsets)| (*rows, *stamps, *offsets));
        for (at, part) in (0u64..).zip(launches) {
            let mut job = part.job;
            (job.targets, job.out) = (pointers.targets, pointers.data);
            job.target_offsets = pointers.target_offsets;
            job.inputs_ready = inputs.are_ready();
            if let Some([valid, age_ns]) = pointers.report {
                job.valid = valid + at * report_steps;
                job.age_ns = age_ns + 8 * at * report_steps;
            }
            let count = job.streams as usize;
            for (of, stream) in job.of[..count].iter_mut().zip(&mut streams) {
                (of.rows, of.stamps, of.row_offsets) = stream;
            }
            let launch = Launch { blocks: part.blocks, threads: THREADS, shared: 0 };
            // SAFETY: the parameter is that of the kernel. It names what the caller answers for,
            // and lanes of this resampler, which wait for the device before they go.
            unsafe { kernel.launch_job(stream, launch, &job)? };
        }
        Ok(())
    }
}

impl BatchPointers<'_> {
    /// First fault of the pointers, as the kernels need them; `None` without one.
    fn fault(&self, spec: &BatchSpec, times: Times) -> Option<String> {
        for found in [self.rows.len(), self.stamps.len(), self.row_offsets.len()] {
            if found != spec.streams.len() {
                return Some(format!("expected {} streams, found {found}", spec.streams.len()));
            }
        }
        let beside = |division, offsets| matches!(division, Division::Offsets(_)) == (offsets != 0);
        let mut streams = spec.streams.iter().zip(self.row_offsets);
        let divided = beside(spec.steps, self.target_offsets)
            && streams.all(|(stream, offsets)| beside(stream.rows, *offsets));
        if !divided {
            return Some("expected offsets where lengths differ, and there alone".to_owned());
        }
        let ages = self.report.map_or(0, |[_, age_ns]| age_ns);
        misaligned("rows", self.rows, 16)
            .or_else(|| misaligned("values", &[self.data], 16))
            .or_else(|| misaligned("stamps", self.stamps, times.size() as u64))
            .or_else(|| misaligned("row offsets", self.row_offsets, 8))
            .or_else(|| misaligned("targets", &[self.targets], times.size() as u64))
            .or_else(|| misaligned("target offsets", &[self.target_offsets], 8))
            .or_else(|| misaligned("ages", &[ages], 8))
    }
}

/// The address that is no multiple of `to`, if there is one.
fn misaligned(what: &str, addresses: &[u64], to: u64) -> Option<String> {
    let found = addresses.iter().find(|address| !address.is_multiple_of(to))?;
    Some(format!("{what}: expected an address that is a multiple of {to}, found {found:#x}"))
}

/// The lanes of a stream on the device, where the kernels need them.
pub fn lanes_of(
    device: &Arc<Device>,
    stream: &BatchStream,
) -> Result<Option<Arc<DeviceBuffer>>, DeviceError> {
    match stream.rule.strategy.interpolates() {
        true => Ok(lane_codes(device, &stream.lanes)?.map(Arc::new)),
        false => Ok(None),
    }
}

/// The lanes of a row as the kernels name them; `None` where all are linear.
pub(crate) fn lane_codes(
    device: &Arc<Device>,
    lanes: &[Lane],
) -> Result<Option<DeviceBuffer>, DeviceError> {
    if lanes.iter().all(|lane| *lane == Lane::Linear) {
        return Ok(None);
    }
    let mut component = 0;
    let codes: Vec<u8> = lanes
        .iter()
        .map(|lane| match lane {
            Lane::Linear => LANE_LINEAR as u8,
            Lane::Angular => LANE_ANGULAR as u8,
            Lane::Held => LANE_HELD as u8,
            Lane::Quaternion => {
                component = (component + 1) % 4;
                LANE_QUATERNION as u8 + (component + 3) % 4
            }
        })
        .collect();
    DeviceBuffer::from_bytes(device, &codes).map(Some)
}

/// The kernel for all launches of a spec: where all streams are alike, one that is for such streams alone.
fn kernel_name(spec: &BatchSpec, times: Times, launches: &[LaunchPart]) -> String {
    let dtype = spec.dtype.name();
    if times != Times::Nanos {
        return format!("resample_{dtype}{}", times.suffix());
    }
    if !spec.is_even() {
        return format!("resample_ragged_{dtype}");
    }
    let jobs = launches.iter().flat_map(|part| &part.job.of[..part.job.streams as usize]);
    let mut kinds =
        spec.streams.iter().zip(jobs).map(|(stream, job)| (stream.dtype, job.pack, job.lanes));
    match kinds.next() {
        Some((of_rows, pack @ 4.., 0)) if kinds.all(|kind| kind == (of_rows, pack, 0)) => {
            format!("resample_{pack}_{}_{dtype}", of_rows.name())
        }
        _ => format!("resample_{dtype}"),
    }
}

/// Shares the work among launches and their thread blocks. `lanes` has the addresses of lanes, or 0; `threads` is
/// how many threads the device runs at once.
///
/// # Errors
/// The work is more than the kernels can number.
fn launches(
    spec: &BatchSpec,
    lanes: &[u64],
    threads: usize,
) -> Result<Vec<LaunchPart>, DeviceError> {
    expect_numbers(spec)?;
    let mut jobs = Vec::with_capacity(spec.streams.len());
    let mut out_at = 0;
    for (stream, lanes) in spec.streams.iter().zip(lanes) {
        let mut job = stream_job(stream, spec.episodes);
        job.lanes = *lanes;
        job.out_at = out_at as u32;
        job.pack = match lanes {
            0 => pack(spec, stream, out_at) as u32,
            _ => 1,
        };
        job.packs = job.dim / job.pack;
        out_at += stream.lanes.len();
        jobs.push(job);
    }
    let packs = jobs.iter().map(|job| spec.targets() * job.packs as usize).sum::<usize>();
    // A thread has two accesses under way at once. With one each, a batch that just fills the
    // device would leave the next one no room to start.
    let per_thread = if packs > threads / 2 { 2.max(packs.div_ceil(threads)) } else { 1 };
    let block_packs = THREADS as usize * per_thread.min(MOST_PER_THREAD);
    let part = |jobs: &mut [StreamJob]| {
        let mut blocks = 0u64;
        let mut first_block = [u32::MAX; STREAMS_PER_LAUNCH as usize];
        for (job, first) in jobs.iter_mut().zip(&mut first_block) {
            // Below the most blocks, or the launch is refused.
            *first = blocks as u32;
            blocks = blocks.saturating_add(share(job, block_packs, spec));
        }
        if blocks > MOST_BLOCKS {
            let detail =
                format!("expected at most {MOST_BLOCKS} thread blocks of work, found {blocks}");
            return Err(DeviceError::Failed { operation: "make a resampler", detail });
        }
        let job = Batch {
            first_block,
            episodes: spec.episodes as u32,
            steps: each(spec.steps),
            all_steps: spec.targets() as u32,
            row: spec.row_len() as u32,
            streams: jobs.len() as u32,
            of: std::array::from_fn(|i| jobs.get(i).copied().unwrap_or_default()),
            ..Batch::default()
        };
        Ok(LaunchPart { job, blocks: blocks as u32 })
    };
    jobs.chunks_mut(STREAMS_PER_LAUNCH as usize).map(part).collect()
}

/// Kernels count episodes, rows, targets and the elements of a row in 31 bits.
fn expect_numbers(spec: &BatchSpec) -> Result<(), DeviceError> {
    let all = |division| match division {
        Division::Even(each) => spec.episodes.saturating_mul(each),
        Division::Offsets(all) => all,
    };
    let counts = spec.streams.iter().map(|stream| ("rows", all(stream.rows)));
    let own = [
        ("episodes", spec.episodes),
        ("targets", all(spec.steps)),
        ("elements of a row", spec.row_len()),
    ];
    match own.into_iter().chain(counts).find(|(_, found)| *found as u64 > MOST_BLOCKS) {
        Some((what, found)) => {
            let detail = format!("expected at most {MOST_BLOCKS} {what}, found {found}");
            Err(DeviceError::Failed { operation: "make a resampler", detail })
        }
        None => Ok(()),
    }
}

/// The number of an episode, if all have as many.
fn each(division: Division) -> u32 {
    match division {
        Division::Even(each) => each as u32,
        Division::Offsets(_) => 0,
    }
}

/// The rule as the kernels have it.
pub(crate) fn align_rule(rule: crate::align::AlignRule) -> AlignRule {
    AlignRule {
        max_age_ns: rule.max_age_ns,
        max_gap_ns: rule.max_gap_ns,
        strategy: match rule.strategy {
            Strategy::Hold => STRATEGY_HOLD,
            Strategy::Nearest => STRATEGY_NEAREST,
            Strategy::Linear | Strategy::Slerp => STRATEGY_INTERPOLATE,
        },
        fill: match rule.fill {
            Fill::Zero => FILL_ZERO,
            Fill::Last => FILL_LAST,
            Fill::First => FILL_FIRST,
        },
    }
}

fn stream_job(stream: &BatchStream, episodes: usize) -> StreamJob {
    StreamJob {
        rule: align_rule(stream.rule),
        len: each(stream.rows),
        all_rows: stream.rows.total(episodes) as u32,
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

/// Cuts a stream's work into tiles of `block_packs` accesses, of whole rows where these are shorter
/// than that. Returns the number of tiles.
fn share(job: &mut StreamJob, block_packs: usize, spec: &BatchSpec) -> u64 {
    // Targets of episodes of several lengths are divided as if they were one episode.
    let (episodes, steps) = match spec.steps {
        Division::Even(steps) if spec.is_even() => (spec.episodes, steps),
        _ => (1, spec.targets()),
    };
    let threads = THREADS as usize;
    let packs = (job.packs as usize).max(1);
    let tile_packs = packs.min(block_packs);
    let most = threads.min(steps).max(1);
    let tile_targets = (block_packs / packs).clamp(1, most);
    job.tile_packs = tile_packs as u32;
    job.tile_targets = tile_targets as u32;
    let target_tiles = steps.div_ceil(tile_targets).max(1);
    let pack_tiles = packs.div_ceil(tile_packs);
    job.target_tiles = divisor(target_tiles);
    job.pack_tiles = divisor(pack_tiles);
    job.per_row = divisor(tile_packs);
    job.window = job.len.min(WINDOW);
    job.rows_per_target = job.len as f32 / steps.max(1) as f32;
    job.step_targets = (threads / tile_packs) as u32;
    job.step_packs = (threads % tile_packs) as u32;
    match steps {
        0 => 0,
        _ => [target_tiles, pack_tiles]
            .iter()
            .fold(episodes as u64, |product, tiles| product.saturating_mul(*tiles as u64)),
    }
}

/// A number to divide by through multiplication, exact below 2^31.
///
/// For n < 2^31 and 2^(l-1) < d <= 2^l, n / d is n * (floor(2^(31+l) / d) + 1) >> (31+l): the
/// factor is too large by at most 1, which adds less than n / 2^(31+l) < 1 / d. It has 32 bits
/// unless d is a power of two, for which the exact factor does.
fn divisor(by: usize) -> Divisor {
    let by = (by as u64).max(1);
    let shift = 31 + by.next_power_of_two().trailing_zeros();
    let magic = (1u64 << shift).div_ceil(by) as u32;
    Divisor { by: by as u32, magic, shift, reserved: 0 }
}

#[cfg(test)]
mod tests;
