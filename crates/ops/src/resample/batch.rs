//! Batches on the CPU, on all cores: the oracle of the batched kernels.
//!
//! Targets are shared among the cores in pieces of consecutive ones, so each core writes memory of its
//! own. Targets mostly ascend: the search begins where the last one ended.

use pulp::Arch;

use super::Division;
use super::rows::RowWriter;
use super::spec::{BatchInput, BatchOutput, BatchOutputMut, BatchSpec, BatchStream, range};
use crate::align::{AlignRule, Alignment, Position, Value, align_after};
use crate::parallel;
use crate::time::Stamp;

/// Bytes of output for which a further thread is worth its start.
const THREAD_BYTES: usize = 256 << 10;
/// Pieces per thread. With this many, all threads end at about the same time.
const PIECES: usize = 4;

/// Resamples every stream of every episode, on all cores.
///
/// # Panics
/// If the input does not fit the spec ([`BatchSpec::mismatch`]).
pub fn fuse(spec: &BatchSpec, input: &BatchInput<'_>) -> BatchOutput {
    let mut output = spec.output();
    fuse_into(spec, input, output.as_mut(), parallel::cores());
    output
}

/// Fuses a batch into memory of the caller, on at most `threads` threads.
///
/// # Panics
/// If the input does not fit the spec, or the output has another size.
pub fn fuse_into(
    spec: &BatchSpec,
    input: &BatchInput<'_>,
    output: BatchOutputMut<'_>,
    threads: usize,
) {
    if let Some(mismatch) = spec.mismatch(input) {
        panic!("batch: {mismatch}");
    }
    let writer = |stream: &BatchStream| {
        let interpolates = stream.rule.strategy.interpolates();
        RowWriter::new(stream.dtype, spec.dtype, &stream.lanes, interpolates)
    };
    let writers = || spec.streams.iter().map(writer).collect::<Vec<_>>();
    let (pieces, threads) = pieces(spec, output, threads);
    parallel::for_each(pieces, threads, writers, |writers, piece| {
        Arch::new().dispatch(|| piece.fuse(spec, input, writers));
    });
}

/// Consecutive targets, and the memory for their output.
struct Piece<'a> {
    /// The first of them.
    first: usize,
    count: usize,
    data: &'a mut [u8],
    /// Per stream, if it is wanted: validity and ages.
    report: Vec<(&'a mut [u8], &'a mut [i64])>,
}

/// Divides the targets among threads, and says how many of these.
fn pieces<'a>(
    spec: &BatchSpec,
    output: BatchOutputMut<'a>,
    threads: usize,
) -> (Vec<Piece<'a>>, usize) {
    let targets = spec.targets();
    let row = spec.row_bytes();
    let BatchOutputMut { data, report } = output;
    assert_eq!(data.len(), targets * row, "batch: bytes of output");
    if targets == 0 {
        return (Vec::new(), 1);
    }
    let threads = threads.min((targets * row.max(64)).div_ceil(THREAD_BYTES)).max(1);
    let each = if threads == 1 { targets } else { targets.div_ceil(threads * PIECES) };
    let mut rest = data;
    let mut pieces: Vec<_> = (0..targets.div_ceil(each))
        .map(|at| {
            let count = each.min(targets - at * each);
            let (data, others) = std::mem::take(&mut rest).split_at_mut(count * row);
            rest = others;
            Piece { first: at * each, count, data, report: Vec::new() }
        })
        .collect();
    if let Some((valid, age_ns)) = report {
        let steps = spec.streams.len() * targets;
        assert_eq!([valid.len(), age_ns.len()], [steps; 2], "batch: steps of the report");
        for (valid, age_ns) in valid.chunks_mut(targets).zip(age_ns.chunks_mut(targets)) {
            let parts = valid.chunks_mut(each).zip(age_ns.chunks_mut(each));
            for (piece, part) in pieces.iter_mut().zip(parts) {
                piece.report.push(part);
            }
        }
    }
    (pieces, threads)
}

impl Piece<'_> {
    #[inline(always)]
    fn fuse(mut self, spec: &BatchSpec, input: &BatchInput<'_>, writers: &mut [RowWriter]) {
        let mut column = 0;
        for (at, writer) in writers.iter_mut().enumerate() {
            self.fuse_stream(spec, input, at, column, writer);
            column += spec.streams[at].lanes.len() * spec.dtype.size();
        }
    }

    /// Writes the stream number `at`, whose bytes begin at `column` of a row of the output.
    #[inline(always)]
    fn fuse_stream(
        &mut self,
        spec: &BatchSpec,
        input: &BatchInput<'_>,
        at: usize,
        column: usize,
        writer: &mut RowWriter,
    ) {
        let stream = &spec.streams[at];
        let row_bytes = stream.lanes.len() * stream.dtype.size();
        let end = self.first + self.count;
        let mut target = self.first;
        let mut episode = episode_of(target, spec.steps, input.target_offsets);
        while target < end {
            let own = range(spec.steps, input.target_offsets, episode);
            let rows = range(stream.rows, input.row_offsets[at], episode);
            let stamps = &input.stamps[at][rows.clone()];
            let rows = &input.rows[at][rows.start * row_bytes..rows.end * row_bytes];
            let mut cursor = Cursor { stamps, after: 0 };
            for target in target..own.end.min(end) {
                let aligned = cursor.align(stream.rule, input.targets[target]);
                let step = target - self.first;
                let place = step * spec.row_bytes() + column;
                let out = &mut self.data[place..][..stream.lanes.len() * spec.dtype.size()];
                let row = |at: Position| &rows[at.index() * row_bytes..][..row_bytes];
                match aligned.value {
                    Value::Nothing => out.fill(0),
                    Value::Row(at) => writer.copy(row(at), out),
                    Value::Between { a, b, weight } => writer.between(row(a), row(b), weight, out),
                }
                if let Some((valid, age_ns)) = self.report.get_mut(at) {
                    valid[step] = u8::from(aligned.valid);
                    age_ns[step] = aligned.age_ns;
                }
            }
            target = target.max(own.end);
            episode += 1;
        }
    }
}

/// The episode of a target.
fn episode_of(target: usize, steps: Division, offsets: &[i64]) -> usize {
    match steps {
        Division::Even(each) => target / each.max(1),
        Division::Offsets(_) => {
            offsets.partition_point(|offset| *offset as usize <= target).saturating_sub(1)
        }
    }
}

/// A search that begins where the last one ended.
pub(super) struct Cursor<'a> {
    pub(super) stamps: &'a [i64],
    /// The number of stamps at or before the last target.
    pub(super) after: usize,
}

impl Cursor<'_> {
    /// The rows that give the value at `target`.
    #[inline(always)]
    pub(super) fn align(&mut self, rule: AlignRule, target: i64) -> Alignment<Position> {
        self.seek(target);
        let stamp_at = |i: usize| Stamp::from_nanos(self.stamps[i]);
        align_after(rule, self.stamps.len(), stamp_at, Stamp::from_nanos(target), self.after)
    }

    #[inline(always)]
    fn seek(&mut self, target: i64) {
        let stamps = self.stamps;
        let from = self.after;
        if from > 0 && stamps[from - 1] > target {
            self.after = stamps[..from - 1].partition_point(|stamp| *stamp <= target);
            return;
        }
        // Strides that double, until one ends after the target: so a small step costs little.
        let mut low = from;
        let mut stride = 1;
        while low + stride <= stamps.len() && stamps[low + stride - 1] <= target {
            low += stride;
            stride *= 2;
        }
        let high = (low + stride - 1).min(stamps.len());
        self.after = low + stamps[low..high].partition_point(|stamp| *stamp <= target);
    }
}

#[cfg(test)]
mod tests;
