//! Batches on the CPU: the oracle of the batched kernels.

use half::{bf16, f16};

use super::cpu::Interpolator;
use super::spec::{BatchInput, BatchOutput, BatchSpec, BatchStream};
use crate::align::{Value, align};
use crate::dtype::DType;
use crate::time::Stamp;

/// Resamples every stream of every episode.
///
/// # Panics
/// If the input does not fit the spec ([`BatchSpec::mismatch`]).
pub fn fuse(spec: &BatchSpec, input: &BatchInput<'_>) -> BatchOutput {
    if let Some(mismatch) = spec.mismatch(input) {
        panic!("batch: {mismatch}");
    }
    let mut output = spec.output();
    let mut column = 0;
    for (at, stream) in spec.streams.iter().enumerate() {
        for episode in 0..spec.episodes {
            fuse_episode(spec, input, (at, stream), column, episode, &mut output);
        }
        column += stream.lanes.len();
    }
    output
}

fn fuse_episode(
    spec: &BatchSpec,
    input: &BatchInput<'_>,
    (at, stream): (usize, &BatchStream),
    column: usize,
    episode: usize,
    output: &mut BatchOutput,
) {
    let dim = stream.lanes.len();
    let row_bytes = dim * stream.dtype.size();
    let rows = &input.rows[at][episode * stream.rows * row_bytes..];
    let row = |i: usize| floats(stream.dtype, &rows[i * row_bytes..][..row_bytes]);
    let stamps = &input.stamps[at][episode * stream.rows..][..stream.rows];
    let interpolator = Interpolator::new(&stream.lanes);
    for step in 0..spec.steps {
        let target = episode * spec.steps + step;
        let instant = Stamp::from_nanos(input.targets[target]);
        let stamp_at = |i: usize| Stamp::from_nanos(stamps[i]);
        let aligned = align(stream.rule, stream.rows, stamp_at, instant);
        let values = match aligned.value {
            Value::Nothing => vec![0.0; dim],
            Value::Row(i) => row(i),
            Value::Between { a, b, weight } => {
                let mut values = vec![0.0; dim];
                interpolator.between(&row(a), &row(b), weight, &mut values);
                values
            }
        };
        let place = (target * spec.row_len() + column) * spec.dtype.size();
        spec.dtype.store(&values, &mut output.data[place..place + dim * spec.dtype.size()]);
        let step = at * spec.targets() + target;
        output.valid[step] = u8::from(aligned.valid);
        output.age_ns[step] = aligned.age_ns;
    }
}

fn floats(dtype: DType, bytes: &[u8]) -> Vec<f32> {
    let halves = || bytes.as_chunks::<2>().0.iter().map(|b| u16::from_le_bytes(*b));
    match dtype {
        DType::F32 => bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect(),
        DType::F16 => halves().map(|bits| f16::from_bits(bits).to_f32()).collect(),
        DType::Bf16 => halves().map(|bits| bf16::from_bits(bits).to_f32()).collect(),
        DType::U8 => bytes.iter().map(|byte| f32::from(*byte)).collect(),
        DType::I32 => {
            bytes.as_chunks::<4>().0.iter().map(|b| i32::from_le_bytes(*b) as f32).collect()
        }
    }
}
