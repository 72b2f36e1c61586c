//! Batches: whole episodes at once, as training reads them.
//!
//! Streams `[B, S, D]` with stamps `[B, S]` are resampled at targets `[B, T]`. The result is one
//! tensor `[B, T, D]`, with the streams concatenated along its last dimension. The rules are those
//! of a tick.

use crate::align::AlignRule;
use crate::dtype::DType;

/// How one element of a vector row is interpolated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Lane {
    /// Along the straight line.
    Linear,
    /// An angle in radians: along the shorter arc.
    Angular,
    /// One of the four elements (x, y, z, w) of a unit quaternion.
    Quaternion,
}

/// The shapes and rules of a batch.
#[derive(Clone, Debug)]
pub struct BatchSpec {
    /// B: episodes.
    pub episodes: usize,
    /// T: targets of an episode.
    pub steps: usize,
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
    /// S: rows of an episode.
    pub rows: usize,
    /// Element type of the rows: `f32` or that of the output.
    pub dtype: DType,
    /// How each of the D elements of a row is interpolated.
    pub lanes: Vec<Lane>,
}

/// The input of a batch, row-major.
#[derive(Clone, Debug)]
pub struct BatchInput<'a> {
    /// Per stream `[B, S, D]`, little-endian, finite.
    pub rows: Vec<&'a [u8]>,
    /// Per stream `[B, S]`, strictly increasing in every episode \[ns\].
    pub stamps: Vec<&'a [i64]>,
    /// `[B, T]` \[ns\].
    pub targets: &'a [i64],
}

/// The output of a batch, row-major.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BatchOutput {
    /// `[B, T, sum of D]`, little-endian.
    pub data: Vec<u8>,
    /// `[streams, B, T]`: 1 if the value may be used.
    pub valid: Vec<u8>,
    /// `[streams, B, T]`: target minus the stamp of the newest row used \[ns\].
    pub age_ns: Vec<i64>,
}

impl BatchSpec {
    /// Elements of a row of the output.
    pub fn row_len(&self) -> usize {
        self.streams.iter().map(|stream| stream.lanes.len()).sum()
    }

    /// Number of targets.
    pub fn targets(&self) -> usize {
        self.episodes * self.steps
    }

    /// An output of the right size, zero.
    pub fn output(&self) -> BatchOutput {
        let steps = self.streams.len() * self.targets();
        BatchOutput {
            data: vec![0; self.targets() * self.row_len() * self.dtype.size()],
            valid: vec![0; steps],
            age_ns: vec![0; steps],
        }
    }

    /// What is wrong with an input, if anything: its sizes, rows of a third element type, or an
    /// output of integers.
    pub fn mismatch(&self, input: &BatchInput<'_>) -> Option<String> {
        let expect = |what: &str, expected: usize, found: usize| {
            (expected != found).then(|| format!("{what}: expected {expected}, found {found}"))
        };
        if matches!(self.dtype, DType::U8 | DType::I32) {
            let found = self.dtype.name();
            return Some(format!("output: expected f32, f16 or bf16, found {found}"));
        }
        let streams = self.streams.len();
        let lists = expect("streams", streams, input.rows.len())
            .or_else(|| expect("streams with stamps", streams, input.stamps.len()))
            .or_else(|| expect("targets", self.targets(), input.targets.len()));
        lists.or_else(|| {
            self.streams.iter().zip(&input.rows).zip(&input.stamps).find_map(
                |((stream, rows), stamps)| {
                    let count = self.episodes * stream.rows;
                    let bytes = count * stream.lanes.len() * stream.dtype.size();
                    let dtype = stream.dtype == DType::F32 || stream.dtype == self.dtype;
                    expect("bytes of rows", bytes, rows.len())
                        .or_else(|| expect("stamps", count, stamps.len()))
                        .or_else(|| expect("rows of f32 or of the output's type", 1, dtype.into()))
                },
            )
        })
    }
}
