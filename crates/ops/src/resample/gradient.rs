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
use crate::align::{Position, Strategy, Value};
use crate::parallel;

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
                let expected = "gradient: expected linear lanes, found others";
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
            .dispatch(|| scratch.sum_episode(spec, input, stream_at, episode, of_output, own));
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
        at: usize,
        episode: usize,
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
            let mut add = |row: Position, factor: f32, value: &[f32]| {
                for (sum, value) in sums[row.index() * dim..][..dim].iter_mut().zip(value) {
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

#[cfg(test)]
mod tests;
