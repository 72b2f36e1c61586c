//! The gradient of linear resampling with respect to the rows.
//!
//! A value is `a + weight * (b - a)` or a row as it is, so the gradient of a row is the sum over the
//! targets that used it, of the gradient of their value times `1 - weight`, `weight` or 1. The sum is in
//! `f32` and in the order of the targets, and it is rounded once. So it does not depend on the number of
//! threads, and a GPU gives the same bits.

use pulp::Arch;

use super::batch::Cursor;
use super::rows;
use super::spec::{BatchInput, BatchSpec, Lane, range};
use crate::align::{Strategy, Value};
use crate::ops::parallel;

impl BatchSpec {
    /// Why the gradient with respect to rows is not computed, if it is not: a strategy other than
    /// linear, or lanes that are not.
    pub fn gradient_fault(&self) -> Option<String> {
        self.fault().or_else(|| {
            self.streams.iter().find_map(|stream| {
                let linear = stream.lanes.iter().all(|lane| *lane == Lane::Linear);
                if stream.rule.strategy != Strategy::Linear {
                    let found = stream.rule.strategy.name();
                    return Some(format!("gradient: expected the strategy linear, found {found}"));
                }
                let expected = "gradient: expected linear lanes, found angles or quaternions";
                (!linear).then(|| expected.to_owned())
            })
        })
    }
}

/// Writes the gradient of the rows of one stream, given that of the output, `[targets, sum of D]` in the
/// output's type. The gradient has the type and the shape of the rows. Those of `input.rows` are not
/// read.
///
/// # Panics
/// If `spec` has no gradient ([`BatchSpec::gradient_fault`]), or if the input, whose rows may be empty,
/// or a gradient does not fit it.
pub fn of_rows(
    spec: &BatchSpec,
    input: &BatchInput<'_>,
    stream_at: usize,
    of_output: &[u8],
    of_rows: &mut [u8],
    threads: usize,
) {
    if let Some(fault) = spec.gradient_fault().or_else(|| spec.mismatch_of_instants(input)) {
        panic!("{fault}");
    }
    let stream = &spec.streams[stream_at];
    let row_bytes = stream.lanes.len() * stream.dtype.size();
    let rows = stream.rows.total(spec.episodes);
    assert_eq!(of_output.len(), spec.targets() * spec.row_bytes(), "gradient: bytes of output");
    assert_eq!(of_rows.len(), rows * row_bytes, "gradient: bytes of rows");
    let mut rest = of_rows;
    let mut episodes = Vec::with_capacity(spec.episodes);
    for episode in 0..spec.episodes {
        let len = range(stream.rows, input.row_offsets[stream_at], episode).len();
        let (own, others) = std::mem::take(&mut rest).split_at_mut(len * row_bytes);
        rest = others;
        episodes.push((episode, own));
    }
    parallel::for_each(episodes, threads, Scratch::default, |scratch, (episode, own)| {
        Arch::new()
            .dispatch(|| scratch.sum_episode(spec, input, (stream_at, episode), of_output, own));
    });
}

/// Memory of one thread.
#[derive(Default)]
struct Scratch {
    /// The sums of an episode.
    sums: Vec<f32>,
    /// The gradient of one value.
    value: Vec<f32>,
}

impl Scratch {
    #[inline(always)]
    fn sum_episode(
        &mut self,
        spec: &BatchSpec,
        input: &BatchInput<'_>,
        (at, episode): (usize, usize),
        of_output: &[u8],
        of_rows: &mut [u8],
    ) {
        let stream = &spec.streams[at];
        let dim = stream.lanes.len();
        let own = range(stream.rows, input.row_offsets[at], episode);
        let Scratch { sums, value } = self;
        sums.clear();
        sums.resize(own.len() * dim, 0.0);
        value.resize(dim, 0.0);
        let before = spec.streams[..at].iter().map(|stream| stream.lanes.len()).sum::<usize>();
        let mut cursor = Cursor { stamps: &input.stamps[at][own], after: 0 };
        for target in range(spec.steps, input.target_offsets, episode) {
            let aligned = cursor.align(stream.rule, input.targets[target]);
            let place = target * spec.row_bytes() + before * spec.dtype.size();
            let bytes = &of_output[place..][..dim * spec.dtype.size()];
            let mut add = |row: usize, factor: f32, value: &[f32]| {
                for (sum, value) in sums[row * dim..][..dim].iter_mut().zip(value) {
                    *sum += factor * value;
                }
            };
            match aligned.value {
                Value::Nothing => {}
                Value::Row(row) => {
                    rows::load(spec.dtype, bytes, value);
                    add(row, 1.0, value);
                }
                Value::Between { a, b, weight } => {
                    rows::load(spec.dtype, bytes, value);
                    add(a, 1.0 - weight, value);
                    add(b, weight, value);
                }
            }
        }
        rows::store(stream.dtype, sums, of_rows);
    }
}

#[cfg(all(test, feature = "sim"))]
mod tests {
    use super::*;
    use crate::align::{AlignRule, Fill};
    use crate::dtype::DType;
    use crate::ops::resample::{BatchStream, Division, batch};
    use crate::random::Random;

    fn between(random: &mut Random, low: usize, high: usize) -> usize {
        low + random.below((high - low + 1) as u64) as usize
    }

    fn f32s(bytes: &[u8]) -> Vec<f64> {
        bytes.as_chunks().0.iter().map(|b| f64::from(f32::from_le_bytes(*b))).collect()
    }

    /// The weights of all rows, found by resampling rows of the unit matrix, in f64.
    fn dense(spec: &BatchSpec, input: &BatchInput<'_>, rows: usize) -> Vec<f64> {
        let unit: Vec<u8> = (0..rows * rows)
            .flat_map(|i| f32::from(u8::from(i / rows == i % rows)).to_le_bytes())
            .collect();
        let mut spec = spec.clone();
        spec.streams[0].lanes = vec![Lane::Linear; rows];
        f32s(&batch::fuse(&spec, &BatchInput { rows: vec![&unit], ..input.clone() }).data)
    }

    #[test]
    fn the_gradient_is_the_product_with_the_transposed_weights() {
        for case in 0..60 {
            let mut random = Random::new(case);
            let (rows, targets, dim) = (
                between(&mut random, 1, 40),
                between(&mut random, 0, 60),
                between(&mut random, 1, 9),
            );
            let cut =
                |random: &mut Random, all| vec![0, between(random, 0, all) as i64, all as i64];
            let (row_offsets, target_offsets) = (cut(&mut random, rows), cut(&mut random, targets));
            let stamps: Vec<i64> = (0..rows as i64).map(|i| 100 * i).collect();
            let end = 100 * rows + 50;
            let times: Vec<i64> =
                (0..targets).map(|_| between(&mut random, 0, end) as i64 - 20).collect();
            let fill = [Fill::Zero, Fill::Last][between(&mut random, 0, 1)];
            let rule = AlignRule {
                strategy: Strategy::Linear,
                max_age_ns: 30,
                max_gap_ns: i64::MAX,
                fill,
            };
            let stream = BatchStream {
                rule,
                rows: Division::Offsets(rows),
                dtype: DType::F32,
                lanes: vec![Lane::Linear; dim],
            };
            let steps = Division::Offsets(targets);
            let spec = BatchSpec { episodes: 2, steps, dtype: DType::F32, streams: vec![stream] };
            let input = BatchInput {
                rows: vec![&[]],
                stamps: vec![&stamps],
                row_offsets: vec![&row_offsets],
                targets: &times,
                target_offsets: &target_offsets,
            };
            let of_output: Vec<u8> =
                (0..targets * dim).flat_map(|_| random.float(-2.0, 2.0).to_le_bytes()).collect();
            let mut found = vec![0xAB; rows * dim * 4];
            of_rows(&spec, &input, 0, &of_output, &mut found, 2);
            let (weights, values) = (dense(&spec, &input, rows), f32s(&of_output));
            for (at, found) in f32s(&found).into_iter().enumerate() {
                let (row, column) = (at / dim, at % dim);
                let expected: f64 = (0..targets)
                    .map(|target| weights[target * rows + row] * values[target * dim + column])
                    .sum();
                assert!((found - expected).abs() < 1e-5, "case {case}: {found} {expected}");
            }
        }
    }

    #[test]
    fn other_strategies_and_lanes_have_none() {
        let rule =
            |strategy| AlignRule { strategy, max_age_ns: 0, max_gap_ns: 0, fill: Fill::Zero };
        let spec = |strategy, lane| {
            let rows = Division::Even(1);
            let rule = rule(strategy);
            let stream = BatchStream { rule, rows, dtype: DType::F32, lanes: vec![lane; 4] };
            let steps = Division::Even(1);
            BatchSpec { episodes: 1, steps, dtype: DType::F32, streams: vec![stream] }
        };
        assert_eq!(spec(Strategy::Linear, Lane::Linear).gradient_fault(), None);
        for (strategy, lane, word) in [
            (Strategy::Hold, Lane::Linear, "hold"),
            (Strategy::Slerp, Lane::Linear, "slerp"),
            (Strategy::Linear, Lane::Angular, "angles"),
        ] {
            let fault = spec(strategy, lane).gradient_fault().unwrap();
            assert!(fault.contains(word), "{fault}");
        }
    }
}
