//! Batches in the simplest way: every target by itself, searched for among all rows of its episode.

use half::{bf16, f16};
use robocache_ops::align::{Position, Value, align};
use robocache_ops::dtype::DType;
use robocache_ops::resample::cpu::Interpolator;
use robocache_ops::resample::{BatchInput, BatchOutput, BatchSpec, Division};
use robocache_ops::time::Stamp;

/// The rows or targets of an episode.
pub(super) fn range(division: Division, offsets: &[i64], episode: usize) -> std::ops::Range<usize> {
    match division {
        Division::Even(each) => episode * each..(episode + 1) * each,
        Division::Offsets(_) => offsets[episode] as usize..offsets[episode + 1] as usize,
    }
}

/// Resamples every stream of every episode.
pub(super) fn fuse(spec: &BatchSpec, input: &BatchInput<'_>) -> BatchOutput {
    let mut output = spec.output();
    let mut column = 0;
    for (at, stream) in spec.streams.iter().enumerate() {
        let dim = stream.lanes.len();
        let interpolator = Interpolator::new(&stream.lanes);
        for episode in 0..spec.episodes {
            let own = range(stream.rows, input.row_offsets[at], episode);
            let stamps = &input.stamps[at][own.clone()];
            let rows = &input.rows[at];
            let row_bytes = dim * stream.dtype.size();
            let row = |at: Position| {
                let at = own.start + at.index();
                floats(stream.dtype, &rows[at * row_bytes..][..row_bytes])
            };
            for target in range(spec.steps, input.target_offsets, episode) {
                let instant = Stamp::from_nanos(input.targets[target]);
                let stamp_at = |i: usize| Stamp::from_nanos(stamps[i]);
                let aligned = align(stream.rule, stamps.len(), stamp_at, instant);
                let mut values = vec![0.0; dim];
                match aligned.value {
                    Value::Nothing => {}
                    Value::Row(i) => values = row(i),
                    Value::Between { a, b, weight } => {
                        interpolator.between(&row(a), &row(b), weight, &mut values);
                    }
                }
                let place = (target * spec.row_len() + column) * spec.dtype.size();
                let bytes = &mut output.data[place..][..dim * spec.dtype.size()];
                spec.dtype.store(&values, bytes);
                output.valid[at * spec.targets() + target] = u8::from(aligned.valid);
                output.age_ns[at * spec.targets() + target] = aligned.age_ns;
            }
        }
        column += dim;
    }
    output
}

/// The numbers of a row.
pub(super) fn floats(dtype: DType, bytes: &[u8]) -> Vec<f32> {
    let halves = || bytes.as_chunks::<2>().0.iter().map(|b| u16::from_le_bytes(*b));
    match dtype {
        DType::F16 => halves().map(|bits| f16::from_bits(bits).to_f32()).collect(),
        DType::Bf16 => halves().map(|bits| bf16::from_bits(bits).to_f32()).collect(),
        _ => bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect(),
    }
}
