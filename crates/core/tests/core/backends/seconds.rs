//! Batches whose times are seconds.

#[cfg(feature = "cuda")]
use robocache_ops::resample::BatchOutput;
use robocache_ops::resample::{BatchSpec, Division, Times, nanos};

#[cfg(feature = "cuda")]
use crate::backends::batches::Input;
use crate::backends::batches::{compare, on_threads, random_batch, random_input};
use crate::backends::random::Random;
use crate::backends::simple_batch::fuse;
use crate::backends::subject::Kind;

/// Times in seconds, which the kernels convert and the CPU's caller.
pub(super) fn check(kind: &Kind, cases: usize) {
    for case in 0..cases {
        let mut random = Random::new(case as u64 + 70_000);
        let mut spec = random_batch(&mut random, false);
        spec.steps = Division::Even(random.choose(&[1, 7, 300]));
        for stream in &mut spec.streams {
            stream.rows = Division::Even(random.choose(&[1, 5, 512, 1500, 4000]));
        }
        let times = random.choose(&[Times::Seconds32, Times::Seconds64]);
        let seconds = Seconds::random(&mut random, &spec, times);
        let mut input = random_input(&mut random, &spec);
        input.stamps = seconds.stamps.iter().map(|own| nanos(own).unwrap()).collect();
        input.targets = nanos(&seconds.targets).unwrap();
        let expected = fuse(&spec, &input.view());
        let found = match kind {
            Kind::Cpu => on_threads(&spec, &input.view()),
            #[cfg(feature = "cuda")]
            Kind::Cuda(device) | Kind::Auto(device) => {
                seconds_on_device(device, &spec, &input, &seconds, times)
            }
        };
        compare(&found, &expected, &format!("case {case}, {times:?}: {spec:?}"));
    }
}

/// Stamps and targets in seconds that their type holds.
struct Seconds {
    stamps: Vec<Vec<f64>>,
    targets: Vec<f64>,
}

impl Seconds {
    fn random(random: &mut Random, spec: &BatchSpec, times: Times) -> Self {
        let held = |seconds: f64| match times {
            Times::Seconds32 => f64::from(seconds as f32),
            _ => seconds,
        };
        // An f32 resolves steps of a millisecond at these instants.
        let base = f64::from(random.float(-1000.0, 1000.0));
        let mut ends = base;
        let mut stamps = Vec::new();
        for stream in &spec.streams {
            let mut of_stream = Vec::new();
            for _ in 0..spec.episodes {
                let mut at = base;
                for _ in 0..stream.rows.total(1) {
                    at += f64::from(random.float(0.001, 0.02));
                    of_stream.push(held(at));
                }
                ends = ends.max(at);
            }
            stamps.push(of_stream);
        }
        let span = (ends - base) as f32;
        let targets = (0..spec.targets()).map(|_| match random.range(0, 3) {
            0 => stamps[0][random.range(0, stamps[0].len() - 1)],
            _ => held(base + f64::from(random.float(-0.1 * span, 1.1 * span))),
        });
        let targets = targets.collect();
        Seconds { stamps, targets }
    }
}

#[cfg(feature = "cuda")]
#[allow(unsafe_code)]
fn seconds_on_device(
    device: &std::sync::Arc<robocache_ops::device::Device>,
    spec: &BatchSpec,
    input: &Input,
    seconds: &Seconds,
    times: Times,
) -> BatchOutput {
    use robocache_ops::device::{DeviceBuffer, Inputs, Stream};
    use robocache_ops::resample::cuda::{BatchPointers, Resampler, lanes_of};

    let upload = |bytes: &[u8]| DeviceBuffer::from_bytes(device, bytes).unwrap();
    let of_times = |all: &[f64]| {
        let bytes: Vec<u8> = match times {
            Times::Seconds32 => all.iter().flat_map(|at| (*at as f32).to_ne_bytes()).collect(),
            _ => all.iter().flat_map(|at| at.to_ne_bytes()).collect(),
        };
        upload(&bytes)
    };
    let lanes = spec.streams.iter().map(|stream| lanes_of(device, stream).unwrap()).collect();
    let resampler = Resampler::with_lanes(device, spec, times, lanes).unwrap();
    let stream = Stream::new(device, false).unwrap();
    let rows: Vec<_> = input.rows.iter().map(|rows| upload(rows)).collect();
    let stamps: Vec<_> = seconds.stamps.iter().map(|own| of_times(own)).collect();
    let targets = of_times(&seconds.targets);
    let mut output = spec.output();
    let data = upload(&vec![0xAB; output.data.len()]);
    let valid = upload(&vec![0xAB; output.valid.len()]);
    let ages = upload(&vec![0xAB; 8 * output.age_ns.len()]);
    let addresses =
        |all: &[DeviceBuffer]| all.iter().map(DeviceBuffer::address).collect::<Vec<_>>();
    let pointers = BatchPointers {
        rows: &addresses(&rows),
        stamps: &addresses(&stamps),
        row_offsets: &vec![0; rows.len()],
        targets: targets.address(),
        target_offsets: 0,
        data: data.address(),
        report: Some([valid.address(), ages.address()]),
    };
    // SAFETY: buffers of the spec's sizes, which live until the stream is done.
    unsafe { resampler.launch(&pointers, Inputs::Ready, &stream).unwrap() };
    stream.synchronize("resample").unwrap();
    data.read(&mut output.data).unwrap();
    valid.read(&mut output.valid).unwrap();
    let mut bytes = vec![0; 8 * output.age_ns.len()];
    ages.read(&mut bytes).unwrap();
    for (age, bytes) in output.age_ns.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *age = i64::from_ne_bytes(*bytes);
    }
    output
}
