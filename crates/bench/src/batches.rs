//! Batched resampling and fusing on the GPU, in bf16.
#![cfg(feature = "cuda")]

use std::collections::BTreeSet;
use std::sync::Arc;

use robocache_ops::align::{AlignRule, Fill, Strategy, Value, align};
use robocache_ops::device::Device;
use robocache_ops::dtype::DType;
use robocache_ops::random::Random;
use robocache_ops::resample::batch::fuse;
use robocache_ops::resample::cuda::{DeviceBatch, Resampler};
use robocache_ops::resample::{BatchInput, BatchOutput, BatchSpec, BatchStream, Division, Lane};
use robocache_ops::time::Stamp;

use crate::error::BenchError;
use crate::options::Options;
use crate::report::{Case, RunTimes};
use crate::timer::Timer;

/// B, S, T, D and the target \[us\] of a call alone on an H200: `docs/gpu.md` says why they are missed.
const RESAMPLE: [([usize; 4], f64); 5] = [
    ([1, 500, 16, 32], 2.3),
    ([32, 50, 256, 128], 3.6),
    ([32, 500, 250, 256], 5.2),
    ([64, 4096, 1024, 32], 6.3),
    ([64, 1000, 500, 512], 21.5),
];

/// Mean distance of stamps \[ns\].
const MEAN_GAP: i64 = 10_000_000;

/// Least number of launches in a graph. With this many, the start of the graph itself, some microseconds, does not
/// count.
const LAUNCHES: usize = 200;

/// One input on the host.
struct BatchArrays {
    rows: Vec<Vec<u8>>,
    stamps: Vec<Vec<i64>>,
    targets: Vec<i64>,
}

impl BatchArrays {
    /// Random rows; stamps and targets evenly distributed over one span, in order.
    fn new(spec: &BatchSpec, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let rows = spec.streams.iter().map(|stream| {
            let count = stream.rows.total(spec.episodes) * stream.lanes.len();
            let values: Vec<f32> = (0..count).map(|_| random.float(-4.0, 4.0)).collect();
            let mut bytes = vec![0; count * stream.dtype.size()];
            stream.dtype.store(&values, &mut bytes);
            bytes
        });
        let rows = rows.collect();
        let each = |all: Division| all.total(spec.episodes) / spec.episodes;
        let span = MEAN_GAP * spec.streams.first().map_or(1, |stream| each(stream.rows)) as i64;
        let mut instants = |division: Division| {
            let count = each(division);
            let mut all = Vec::new();
            for _ in 0..spec.episodes {
                let mut own = BTreeSet::new();
                while own.len() < count {
                    let offset = random.below(span as u64) as i64;
                    own.insert(1_795_000_000_000_000_000 + offset);
                }
                all.extend(own);
            }
            all
        };
        let stamps = spec.streams.iter().map(|stream| instants(stream.rows)).collect();
        BatchArrays { rows, stamps, targets: instants(spec.steps) }
    }

    fn view(&self) -> BatchInput<'_> {
        let rows = self.rows.iter().map(Vec::as_slice).collect();
        BatchInput::even(rows, self.stamps.iter().map(Vec::as_slice).collect(), &self.targets)
    }

    /// Bytes that any implementation has to move: every row that a target needs once, all stamps
    /// and targets, and the output.
    fn least_bytes(&self, spec: &BatchSpec) -> u64 {
        let mut bytes = spec.targets() * spec.row_len() * spec.dtype.size() + 8 * spec.targets();
        for (stream, stamps) in spec.streams.iter().zip(&self.stamps) {
            let mut touched = vec![false; stamps.len()];
            let rows = stamps.len() / spec.episodes;
            for (at, target) in self.targets.iter().enumerate() {
                let first = at / (spec.targets() / spec.episodes) * rows;
                let stamp_at = |i: usize| Stamp::from_nanos(stamps[first + i]);
                let target = Stamp::from_nanos(*target);
                match align(stream.rule, rows, stamp_at, target).value {
                    Value::Nothing => {}
                    Value::Row(a) => touched[first + a.index()] = true,
                    Value::Between { a, b, .. } => {
                        touched[first + a.index()] = true;
                        touched[first + b.index()] = true;
                    }
                }
            }
            let rows = touched.iter().filter(|touched| **touched).count();
            bytes += rows * stream.lanes.len() * stream.dtype.size() + 8 * touched.len();
        }
        bytes as u64
    }
}

fn stream(rows: usize, dim: usize) -> BatchStream {
    let rule = AlignRule {
        strategy: Strategy::Linear,
        max_age_ns: i64::MAX,
        max_gap_ns: i64::MAX,
        fill: Fill::Zero,
    };
    let rows = Division::Even(rows);
    BatchStream { rule, rows, dtype: DType::Bf16, lanes: vec![Lane::Linear; dim] }
}

/// All cases that are asked for.
pub(crate) fn run(
    device: &Arc<Device>,
    timer: &Timer,
    options: &Options,
    report: &mut RunTimes,
) -> Result<(), BenchError> {
    for (shape, target) in RESAMPLE {
        let [episodes, rows, steps, dim] = shape;
        let name = format!("resample B{episodes} S{rows} T{steps} D{dim}");
        if !report.wants(options, &name) {
            continue;
        }
        let streams = vec![stream(rows, dim)];
        let steps = Division::Even(steps);
        let spec = BatchSpec { episodes, steps, dtype: DType::Bf16, streams };
        let inputs = Inputs::new(device, spec, false)?;
        report.cases.push(time(timer, options, &inputs, &name)?.target(target));
    }
    let streams = vec![stream(30, 512), stream(100, 64), stream(200, 12)];
    let spec = BatchSpec { episodes: 4, steps: Division::Even(50), dtype: DType::Bf16, streams };
    let name = "fuse 30x512, 100x64, 200x12 to 50, B4";
    if report.wants(options, name) {
        let inputs = Inputs::new(device, spec.clone(), false)?;
        report.cases.push(time(timer, options, &inputs, name)?.target(2.6));
    }
    let name = format!("{name}, with valid and age");
    if report.wants(options, &name) {
        let inputs = Inputs::new(device, spec, true)?;
        report.cases.push(time(timer, options, &inputs, &name)?);
    }
    Ok(())
}

/// As many inputs of a spec as exceed the cache.
struct Inputs {
    spec: BatchSpec,
    resampler: Resampler,
    with_report: bool,
    all: Vec<BatchArrays>,
}

impl Inputs {
    fn new(device: &Arc<Device>, spec: BatchSpec, with_report: bool) -> Result<Self, BenchError> {
        const MOST: usize = 40;
        let resampler = Resampler::new(device, &spec)?;
        let bytes = resampler.upload(&BatchArrays::new(&spec, 1).view(), with_report)?.bytes();
        let count = (2 * device.cache_bytes()?).div_ceil(bytes).clamp(2, MOST);
        let all = (0..count).map(|seed| BatchArrays::new(&spec, seed as u64 + 1)).collect();
        Ok(Inputs { spec, resampler, with_report, all })
    }

    /// All of them on the device, with outputs of their own.
    fn upload(&self) -> Result<Vec<DeviceBatch>, BenchError> {
        let batches =
            self.all.iter().map(|one| self.resampler.upload(&one.view(), self.with_report));
        Ok(batches.collect::<Result<_, _>>()?)
    }

    /// Launches in a graph: each input as often as any other.
    fn launches(&self) -> usize {
        LAUNCHES.next_multiple_of(self.all.len())
    }
}

/// Times the batches of `inputs`, and checks every output of the launches that overlapped.
fn time(timer: &Timer, options: &Options, inputs: &Inputs, name: &str) -> Result<Case, BenchError> {
    let first = inputs.upload()?;
    let second = inputs.upload()?;
    let launches = inputs.launches();
    let repeats = options.repeats;
    let times = timer.batch(&inputs.resampler, [&first, &second], launches, repeats)?;
    for (input, batch) in inputs.all.iter().zip(&second) {
        let found = inputs.resampler.download(batch)?;
        let expected = fuse(&inputs.spec, &input.view());
        let report = |output: &BatchOutput| (output.valid.clone(), output.age_ns.clone());
        let is_right = found.data == expected.data
            && (!inputs.with_report || report(&found) == report(&expected));
        if !is_right {
            return Err(BenchError::Mismatch { case: name.into(), found: "others".into() });
        }
    }
    let one = [&first[..1], &second[..1]];
    let warm = timer.batch(&inputs.resampler, one, launches, repeats)?;
    let bytes = inputs.all[0].least_bytes(&inputs.spec);
    Ok(Case::of_kernels(name, times).warm(warm).bytes(bytes))
}
