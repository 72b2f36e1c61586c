//! Batches: whole episodes at once, as training reads them.
//!
//! Streams `[B, S, D]` with stamps `[B, S]` are resampled at targets `[B, T]`. The result is one
//! tensor `[B, T, D]`, with the streams concatenated along its last dimension. If episodes differ in
//! length, their rows follow one another, `[sum of S, D]`, and offsets `[B + 1]` say where each
//! starts; the same holds for targets. The rules are those of a tick.

use crate::align::AlignRule;
use crate::dtype::DType;

/// How one element of a vector row is interpolated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Lane {
    /// Along the straight line.
    Linear,
    /// An angle in radians: along the shorter arc.
    Angular,
    /// One of the four elements (x, y, z, w) of a unit quaternion.
    Quaternion,
    /// Not at all: that of the earlier row, such as a gripper that is open or closed.
    Held,
}

/// How rows or targets are divided among the episodes of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Division {
    /// Each episode has as many.
    Even(usize),
    /// Offsets beside the data say where each episode starts. This is the number for all of them.
    Offsets(usize),
}

impl Division {
    /// The number for all episodes.
    pub fn total(self, episodes: usize) -> usize {
        match self {
            Division::Even(each) => each * episodes,
            Division::Offsets(total) => total,
        }
    }

    /// Number of offsets that are beside the data.
    pub fn offsets(self, episodes: usize) -> usize {
        match self {
            Division::Even(_) => 0,
            Division::Offsets(_) => episodes + 1,
        }
    }
}

/// The shapes and rules of a batch.
#[derive(Clone, Debug)]
pub struct BatchSpec {
    /// B: episodes.
    pub episodes: usize,
    /// T: targets.
    pub steps: Division,
    /// Element type of the output.
    pub dtype: DType,
    /// The streams, in the order in which they are concatenated.
    pub streams: Vec<BatchStream>,
}

/// One stream of a batch.
#[derive(Clone, Debug)]
pub struct BatchStream {
    /// How a value follows from rows, and when it is valid.
    pub rule: AlignRule,
    /// S: rows.
    pub rows: Division,
    /// Element type of the rows: `f32` or that of the output.
    pub dtype: DType,
    /// How each of the D elements of a row is interpolated.
    pub lanes: Vec<Lane>,
}

/// The input of a batch, row-major.
#[derive(Clone, Debug)]
pub struct BatchInput<'a> {
    /// Per stream `[B, S, D]` or `[sum of S, D]`, little-endian, finite.
    pub rows: Vec<&'a [u8]>,
    /// Per stream `[B, S]` or `[sum of S]`, strictly increasing in every episode \[ns\].
    pub stamps: Vec<&'a [i64]>,
    /// Per stream `[B + 1]`, where the rows of each episode start, from 0 to their number; empty if
    /// they are divided evenly.
    pub row_offsets: Vec<&'a [i64]>,
    /// `[B, T]` or `[sum of T]` \[ns\], in any order.
    pub targets: &'a [i64],
    /// `[B + 1]`, the same for targets.
    pub target_offsets: &'a [i64],
}

/// The output of a batch, row-major.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BatchOutput {
    /// `[targets, sum of D]`, little-endian.
    pub data: Vec<u8>,
    /// `[streams, targets]`: 1 if the value may be used.
    pub valid: Vec<u8>,
    /// `[streams, targets]`: target minus the stamp of the newest row used \[ns\].
    pub age_ns: Vec<i64>,
}

/// Memory for the output of a batch: see [`BatchOutput`] for the shapes.
#[derive(Debug)]
pub struct BatchOutputMut<'a> {
    /// The values.
    pub data: &'a mut [u8],
    /// Validity and ages.
    pub report: Option<(&'a mut [u8], &'a mut [i64])>,
}

impl<'a> BatchInput<'a> {
    /// An input whose episodes are all of one length.
    pub fn even(rows: Vec<&'a [u8]>, stamps: Vec<&'a [i64]>, targets: &'a [i64]) -> Self {
        let row_offsets = vec![&[][..]; rows.len()];
        BatchInput { rows, stamps, row_offsets, targets, target_offsets: &[] }
    }
}

impl BatchOutput {
    /// Borrows the output to write it.
    pub fn as_mut(&mut self) -> BatchOutputMut<'_> {
        let report = Some((&mut self.valid[..], &mut self.age_ns[..]));
        BatchOutputMut { data: &mut self.data, report }
    }
}

impl BatchSpec {
    /// Elements of a row of the output.
    pub fn row_len(&self) -> usize {
        self.streams.iter().map(|stream| stream.lanes.len()).sum()
    }

    /// Bytes of a row of the output.
    pub fn row_bytes(&self) -> usize {
        self.row_len() * self.dtype.size()
    }

    /// Number of targets.
    pub fn targets(&self) -> usize {
        self.steps.total(self.episodes)
    }

    /// True if each episode has as many targets as the others, and as many rows of each stream.
    pub fn is_even(&self) -> bool {
        let even = |division| matches!(division, Division::Even(_));
        even(self.steps) && self.streams.iter().all(|stream| even(stream.rows))
    }

    /// An output of the right size, zero.
    pub fn output(&self) -> BatchOutput {
        let steps = self.streams.len() * self.targets();
        BatchOutput {
            data: vec![0; self.targets() * self.row_bytes()],
            valid: vec![0; steps],
            age_ns: vec![0; steps],
        }
    }

    /// Fault of the specification, if there is one: an element type that rows or values cannot
    /// have, or quaternions that are not whole.
    pub fn fault(&self) -> Option<String> {
        if matches!(self.dtype, DType::U8 | DType::I32) {
            let found = self.dtype.name();
            return Some(format!("output: expected f32, f16 or bf16, found {found}"));
        }
        self.streams.iter().find_map(|stream| {
            if stream.dtype != DType::F32 && stream.dtype != self.dtype {
                let expected = self.dtype.name();
                let found = stream.dtype.name();
                return Some(format!(
                    "rows: expected f32 or the output's type, {expected}, found {found}"
                ));
            }
            let runs = stream.lanes.chunk_by(|a, b| a == b);
            let mut quaternions = runs.filter(|run| run[0] == Lane::Quaternion);
            let odd = quaternions.find(|run| !run.len().is_multiple_of(4))?;
            Some(format!("lanes: expected quaternions of 4 elements, found {} of them", odd.len()))
        })
    }

    /// Fault of an input, if there is one: its sizes, its offsets, or the specification itself.
    pub fn mismatch(&self, input: &BatchInput<'_>) -> Option<String> {
        let rows = || {
            let streams = self.streams.iter().zip(&input.rows);
            streams.into_iter().find_map(|(stream, rows)| {
                let count = stream.rows.total(self.episodes);
                expect(
                    "bytes of rows",
                    count * stream.lanes.len() * stream.dtype.size(),
                    rows.len(),
                )
            })
        };
        self.mismatch_of_instants(input)
            .or_else(|| expect("streams", self.streams.len(), input.rows.len()))
            .or_else(rows)
    }

    /// Fault of an input without its rows, if there is one: its sizes, its offsets, or the specification itself.
    pub fn mismatch_of_instants(&self, input: &BatchInput<'_>) -> Option<String> {
        let streams = self.streams.len();
        let episodes = self.episodes;
        let stream_at = |at: usize| {
            let rows = self.streams[at].rows;
            expect("stamps", rows.total(episodes), input.stamps[at].len())
                .or_else(|| check_offsets("row offsets", rows, episodes, input.row_offsets[at]))
        };
        self.fault()
            .or_else(|| expect("streams with stamps", streams, input.stamps.len()))
            .or_else(|| expect("streams with offsets", streams, input.row_offsets.len()))
            .or_else(|| expect("targets", self.targets(), input.targets.len()))
            .or_else(|| check_offsets("target offsets", self.steps, episodes, input.target_offsets))
            .or_else(|| (0..streams).find_map(stream_at))
    }

    /// First place where stamps are not strictly increasing within an episode, if there is one. The input fits the
    /// specification.
    pub fn disorder(&self, input: &BatchInput<'_>) -> Option<String> {
        self.streams.iter().enumerate().find_map(|(at, stream)| {
            let stamps = input.stamps[at];
            (0..self.episodes).find_map(|episode| {
                let own = range(stream.rows, input.row_offsets[at], episode);
                let first = own.start;
                // All of them at first, because that loop vectorises.
                let stamps = &stamps[own];
                let pairs = || stamps.iter().zip(stamps.get(1..).unwrap_or_default());
                if pairs().fold(true, |sorted, (a, b)| sorted & (a < b)) {
                    return None;
                }
                let at = pairs().position(|(a, b)| a >= b)?;
                Some(format!(
                    "stamps: expected strictly increasing ones in each episode, found {} after {} \
                     at row {} of episode {episode}",
                    stamps[at + 1],
                    stamps[at],
                    first + at + 1,
                ))
            })
        })
    }
}

/// The elements of an episode.
pub(super) fn range(division: Division, offsets: &[i64], episode: usize) -> std::ops::Range<usize> {
    match division {
        Division::Even(each) => episode * each..(episode + 1) * each,
        Division::Offsets(_) => offsets[episode] as usize..offsets[episode + 1] as usize,
    }
}

fn expect(what: &str, expected: usize, found: usize) -> Option<String> {
    (expected != found).then(|| format!("{what}: expected {expected}, found {found}"))
}

/// Fault of the offsets of `episodes` episodes, if there is one.
fn check_offsets(
    what: &str,
    division: Division,
    episodes: usize,
    offsets: &[i64],
) -> Option<String> {
    if let Some(wrong) = expect(what, division.offsets(episodes), offsets.len()) {
        return Some(wrong);
    }
    let first = offsets.first()?;
    let last = offsets.last()?;
    let total = division.total(episodes) as i64;
    if *first != 0 || *last != total {
        return Some(format!("{what}: expected them from 0 to {total}, found {first} to {last}"));
    }
    let pair = offsets.windows(2).find(|pair| pair[0] > pair[1])?;
    Some(format!("{what}: expected no decrease, found {} after {}", pair[1], pair[0]))
}
