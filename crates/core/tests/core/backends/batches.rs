//! Batches: every rule, several streams, odd sizes, stamps near the epoch and before it.

use robocache_ops::align::{AlignRule, Fill, Strategy};
use robocache_ops::dtype::DType;
use robocache_ops::resample::gradient;
use robocache_ops::resample::{BatchInput, BatchOutput, BatchSpec, BatchStream, Division};

use crate::backends::random::Random;
use crate::backends::simple_batch::{fuse, range};
use crate::backends::subject::Kind;

pub(super) fn check(kind: &Kind, cases: usize) {
    for case in 0..cases {
        let mut random = Random::new(case as u64 + 30_000);
        let spec = random_batch(&mut random, case % 100 == 3);
        let input = random_input(&mut random, &spec);
        let input = input.view();
        let expected = fuse(&spec, &input);
        compare(&run(kind, &spec, &input), &expected, &format!("case {case}: {spec:?}"));
    }
}

/// Gradients with respect to rows, of linear streams.
pub(super) fn check_gradients(kind: &Kind, cases: usize) {
    for case in 0..cases {
        let mut random = Random::new(case as u64 + 50_000);
        let mut spec = random_batch(&mut random, case % 100 == 3);
        for stream in &mut spec.streams {
            stream.rule.strategy = Strategy::Linear;
            stream.lanes.fill(robocache_ops::resample::Lane::Linear);
        }
        let input = random_input(&mut random, &spec);
        let input = input.view();
        let count = spec.targets() * spec.row_len();
        let values: Vec<f32> = (0..count).map(|_| random.float(-4.0, 4.0)).collect();
        let mut of_output = vec![0; count * spec.dtype.size()];
        spec.dtype.store(&values, &mut of_output);
        for at in 0..spec.streams.len() {
            let mut expected = vec![0xAB; input.rows[at].len()];
            gradient::of_rows(&spec, &input, at, &of_output, &mut expected, 1);
            let found = gradient_on(kind, &spec, &input, at, &of_output);
            assert!(found == expected, "case {case}, stream {at}: {spec:?}");
        }
    }
}

fn gradient_on(
    kind: &Kind,
    spec: &BatchSpec,
    input: &BatchInput<'_>,
    at: usize,
    of_output: &[u8],
) -> Vec<u8> {
    let mut found = vec![0xCD; input.rows[at].len()];
    match kind {
        Kind::Cpu => gradient::of_rows(spec, input, at, of_output, &mut found, 4),
        #[cfg(feature = "cuda")]
        Kind::Cuda(device) | Kind::Auto(device) => {
            gradient_on_device(device, spec, input, at, of_output, &mut found);
        }
    }
    found
}

#[cfg(feature = "cuda")]
#[allow(unsafe_code)]
fn gradient_on_device(
    device: &std::sync::Arc<robocache_ops::device::Device>,
    spec: &BatchSpec,
    input: &BatchInput<'_>,
    at: usize,
    of_output: &[u8],
    of_rows: &mut [u8],
) {
    use robocache_ops::device::{DeviceBuffer, Stream, bytes_of};
    use robocache_ops::resample::Times;
    use robocache_ops::resample::cuda::{Gradient, GradientPointers};

    let upload = |bytes: &[u8]| DeviceBuffer::from_bytes(device, bytes).unwrap();
    let stream = Stream::new(device, false).unwrap();
    let of_output = upload(of_output);
    let found = upload(of_rows);
    let stamps = upload(bytes_of(input.stamps[at]));
    let targets = upload(bytes_of(input.targets));
    let offsets = |all: &[i64]| (!all.is_empty()).then(|| upload(bytes_of(all)));
    let row_offsets = offsets(input.row_offsets[at]);
    let target_offsets = offsets(input.target_offsets);
    let address = |all: &Option<DeviceBuffer>| all.as_ref().map_or(0, DeviceBuffer::address);
    let pointers = GradientPointers {
        of_output: of_output.address(),
        of_rows: found.address(),
        stamps: stamps.address(),
        row_offsets: address(&row_offsets),
        targets: targets.address(),
        target_offsets: address(&target_offsets),
    };
    let gradient = Gradient::new(device, spec.dtype, Times::Nanos).unwrap();
    // SAFETY: buffers of the spec's sizes, which live until the stream is done.
    unsafe { gradient.launch(spec, at, &pointers, &stream).unwrap() };
    stream.synchronize("compute a gradient").unwrap();
    found.read(of_rows).unwrap();
}

/// Batches of two specs in turn, one after the other without a wait in between: a launch may start
/// before the one ahead of it has ended, and neither may get in the other's way.
pub(super) fn check_queued(kind: &Kind, cases: usize) {
    const BATCHES: usize = 24;
    for seed in 0..cases.div_ceil(10 * BATCHES) {
        let mut random = Random::new(seed as u64 + 60_000);
        // A long launch and a short one in turn, where one of the two is large.
        let specs = [random_batch(&mut random, seed % 3 == 1), random_batch(&mut random, false)];
        let inputs: Vec<_> =
            (0..BATCHES).map(|at| random_input(&mut random, &specs[at % 2])).collect();
        let views: Vec<_> = inputs.iter().map(Input::view).collect();
        for (at, found) in run_queued(kind, &specs, &views).iter().enumerate() {
            let expected = fuse(&specs[at % 2], &views[at]);
            let case = format!("seed {seed}, batch {at}: {:?}", specs[at % 2]);
            // Fresh outputs are zeros, so that what is never written shows in these.
            let mut steps = expected.valid.iter().zip(&expected.age_ns);
            assert!(steps.all(|step| step != (&0, &0)), "{case}: an invalid step of age 0");
            compare(found, &expected, &case);
        }
    }
}

/// The input of a batch.
pub(super) struct Input {
    pub rows: Vec<Vec<u8>>,
    pub stamps: Vec<Vec<i64>>,
    row_offsets: Vec<Vec<i64>>,
    pub targets: Vec<i64>,
    target_offsets: Vec<i64>,
}

impl Input {
    pub(super) fn view(&self) -> BatchInput<'_> {
        BatchInput {
            rows: self.rows.iter().map(Vec::as_slice).collect(),
            stamps: self.stamps.iter().map(Vec::as_slice).collect(),
            row_offsets: self.row_offsets.iter().map(Vec::as_slice).collect(),
            targets: &self.targets,
            target_offsets: &self.target_offsets,
        }
    }
}

pub(super) fn compare(found: &BatchOutput, expected: &BatchOutput, case: &str) {
    assert_eq!(found.valid, expected.valid, "valid, {case}");
    assert_eq!(found.age_ns, expected.age_ns, "age, {case}");
    assert_eq!(found.data.len(), expected.data.len(), "bytes, {case}");
    let differs = found.data.iter().zip(&expected.data).position(|(f, e)| f != e);
    assert_eq!(differs, None, "first differing byte, {case}");
}

/// The batches of two specs in turn, all of them queued before the first is waited for.
fn run_queued(kind: &Kind, specs: &[BatchSpec; 2], inputs: &[BatchInput<'_>]) -> Vec<BatchOutput> {
    match kind {
        Kind::Cpu => {
            let turns = inputs.iter().enumerate();
            turns.map(|(at, input)| on_threads(&specs[at % 2], input)).collect()
        }
        #[cfg(feature = "cuda")]
        Kind::Cuda(device) | Kind::Auto(device) => in_a_row(device, specs, inputs),
    }
}

/// All of them on one stream, with no wait between them.
#[cfg(feature = "cuda")]
fn in_a_row(
    device: &std::sync::Arc<robocache_ops::device::Device>,
    specs: &[BatchSpec; 2],
    inputs: &[BatchInput<'_>],
) -> Vec<BatchOutput> {
    use robocache_ops::device::{Inputs, Stream};
    use robocache_ops::resample::cuda::Resampler;

    let stream = Stream::new(device, false).unwrap();
    let resamplers = specs.each_ref().map(|spec| Resampler::new(device, spec).unwrap());
    let turns = inputs.iter().enumerate().map(|(at, input)| (&resamplers[at % 2], input));
    let turns: Vec<_> = turns
        .map(|(resampler, input)| (resampler, resampler.upload(input, true).unwrap()))
        .collect();
    // The first round loads the kernels, so that nothing holds up the launches that count.
    for round in 0..2 {
        // Outputs of a byte that no value has, so that what a launch does not write shows.
        turns.iter().for_each(|(_, batch)| batch.data().fill(0xAB).unwrap());
        for (at, (resampler, batch)) in turns.iter().enumerate() {
            // Both are true of inputs that were uploaded.
            let inputs =
                if round == 1 || at % 3 != 0 { Inputs::Ready } else { Inputs::MayBeInFlight };
            resampler.start(batch, inputs, &stream).unwrap();
        }
        stream.synchronize("resample").unwrap();
    }
    turns.iter().map(|(resampler, batch)| resampler.download(batch).unwrap()).collect()
}

/// On the CPU, on any number of threads.
fn run(kind: &Kind, spec: &BatchSpec, input: &BatchInput<'_>) -> BatchOutput {
    match kind {
        Kind::Cpu => on_threads(spec, input),
        #[cfg(feature = "cuda")]
        Kind::Cuda(device) | Kind::Auto(device) => {
            let resampler = robocache_ops::resample::cuda::Resampler::new(device, spec).unwrap();
            let stream = robocache_ops::device::Stream::new(device, false).unwrap();
            let batch = resampler.upload(input, true).unwrap();
            resampler.run(&batch, &stream).unwrap();
            resampler.download(&batch).unwrap()
        }
    }
}

pub(super) fn on_threads(spec: &BatchSpec, input: &BatchInput<'_>) -> BatchOutput {
    assert_eq!(spec.disorder(input), None);
    let mut output = spec.output();
    // What is never written shows.
    output.data.fill(0xAB);
    robocache_ops::resample::batch::fuse_into(spec, input, output.as_mut(), 3);
    output
}

pub(super) fn random_batch(random: &mut Random, large: bool) -> BatchSpec {
    let dtype = random.dtype();
    let streams = if large { 1 } else { random.choose(&[1, 1, 2, 3, 6]) };
    let episodes = random.range(1, 4);
    let ragged = random.range(0, 2) == 0;
    let steps = random.choose(&[1, 2, 7, 50, 300]);
    let streams = (0..streams).map(|_| random_stream(random, dtype, large)).collect();
    let mut spec = BatchSpec { episodes, steps: Division::Even(steps), dtype, streams };
    if ragged {
        // Some of an even batch stay even.
        for stream in &mut spec.streams {
            stream.rows = random_division(random, stream.rows, episodes);
        }
        spec.steps = random_division(random, spec.steps, episodes);
    }
    spec
}

/// Returns `even`, or episodes of several lengths. Some may be empty.
fn random_division(random: &mut Random, even: Division, episodes: usize) -> Division {
    match random.range(0, 3) {
        0 => even,
        _ => Division::Offsets(random.range(0, even.total(episodes))),
    }
}

fn random_offsets(random: &mut Random, division: Division, episodes: usize) -> Vec<i64> {
    let Division::Offsets(total) = division else { return Vec::new() };
    let mut offsets: Vec<_> = (1..episodes).map(|_| random.range(0, total) as i64).collect();
    offsets.extend([0, total as i64]);
    offsets.sort_unstable();
    offsets
}

fn random_stream(random: &mut Random, dtype: DType, large: bool) -> BatchStream {
    let dim = match large {
        true => random.choose(&[4099, 150_529]),
        false => random.choose(&[1, 3, 4, 7, 8, 12, 32, 33, 64]),
    };
    let lanes = random.lanes(dim);
    let strategies = [Strategy::Hold, Strategy::Nearest, Strategy::Linear, Strategy::Slerp];
    let rule = AlignRule {
        strategy: random.choose(&strategies),
        max_age_ns: random.choose(&[3_000_000, 50_000_000, i64::MAX]),
        max_gap_ns: random.choose(&[12_000_000, i64::MAX]),
        fill: random.choose(&[Fill::Zero, Fill::Last, Fill::First]),
    };
    let rows = match large {
        true => random.range(1, 3),
        false => random.choose(&[1, 2, 5, 31, 200, 512, 513, 1500]),
    };
    let rows = Division::Even(rows);
    BatchStream { rule, rows, dtype: random.choose(&[DType::F32, dtype]), lanes }
}

pub(super) fn random_input(random: &mut Random, spec: &BatchSpec) -> Input {
    let mut input = Input {
        rows: Vec::new(),
        stamps: Vec::new(),
        row_offsets: Vec::new(),
        targets: Vec::new(),
        target_offsets: random_offsets(random, spec.steps, spec.episodes),
    };
    let base = random.choose(&[1_795_000_000_123_456_789i64, 0, -5_000_000_000]);
    let mean_gap = random.choose(&[1, 1000, 10_000_000]);
    for stream in &spec.streams {
        let all = stream.rows.total(spec.episodes);
        let count = all * stream.lanes.len();
        let values: Vec<f32> = (0..count).map(|_| random.float(-4.0, 4.0)).collect();
        let mut bytes = vec![0; count * stream.dtype.size()];
        stream.dtype.store(&values, &mut bytes);
        input.rows.push(bytes);
        let offsets = random_offsets(random, stream.rows, spec.episodes);
        let mut of_stream = Vec::new();
        for episode in 0..spec.episodes {
            let mut stamp = base;
            for _ in range(stream.rows, &offsets, episode) {
                stamp += 1 + random.range(0, 2 * mean_gap) as i64;
                of_stream.push(stamp);
            }
        }
        input.row_offsets.push(offsets);
        input.stamps.push(of_stream);
    }
    let longest = spec.streams.iter().map(|stream| stream.rows.total(spec.episodes)).max();
    let longest = longest.unwrap_or(1) / spec.episodes;
    for episode in 0..spec.episodes {
        for _ in range(spec.steps, &input.target_offsets, episode) {
            let at = random.range(0, spec.streams.len() - 1);
            let own = range(spec.streams[at].rows, &input.row_offsets[at], episode);
            let own = &input.stamps[at][own];
            input.targets.push(match random.range(0, 3) {
                0 if !own.is_empty() => own[random.range(0, own.len() - 1)],
                1 => base - 3,
                _ => base + random.range(0, longest * mean_gap * 11 / 10 + 3) as i64,
            });
        }
    }
    input
}
