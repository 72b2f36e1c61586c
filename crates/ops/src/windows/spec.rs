//! Specification of windows, and the places of their parts in the packed buffer.

use crate::align::AlignRule;
use crate::align::MergeSpec;
use crate::dtype::DType;
use crate::operators::OutputStage;
use crate::packing::{ALIGNMENT, Run};
use crate::resample::Lane;

/// Which rows a step sees. Rows of another epoch are never seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Visibility {
    /// If the target is not after the instant: the rows that the node had at the instant. Otherwise all rows, as
    /// with [`Visibility::All`]: what came later is what training looks ahead for.
    #[default]
    #[serde(rename = "as_served")]
    Served,
    /// The rows that the node had at the instant, for every step.
    Strict,
    /// All rows that were not replaced, whenever they came.
    All,
}

/// One stream of a window.
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools)] // each may hold without the others
pub struct WindowStream {
    /// Its name, for errors.
    pub name: String,
    /// Its number among the streams of the episodes, which have its rows.
    pub number: usize,
    /// True if the caller wants an error if an episode has none of its rows.
    pub required: bool,
    /// True if the caller states the lag of its targets, also if it is 0.
    pub lag_stated: bool,
    /// Targets minus the instant of the item \[ns\], one per step.
    pub offsets_ns: Vec<i64>,
    /// The step whose angles stay as they are, if a step depends on the others.
    pub present: usize,
    /// How a value follows from rows, and when it is valid.
    pub rule: AlignRule,
    /// Which rows are seen.
    pub view: Visibility,
    /// True if a step is invalid, whatever its age, when its target is beyond its span or beyond the rows that a ring has in
    /// it: it pads the window.
    pub within: bool,
    /// When a step of a merged cloud is valid; `None` if clouds are not merged.
    pub merge: Option<MergeSpec>,
    /// Element type of the output.
    pub dtype: DType,
    /// True if rows are bytes, and a step has them as floats in 0..1: each is divided by 255 in `f32`, and rounded to the
    /// element type.
    pub scaled: bool,
    /// Elements of a step.
    pub step_len: usize,
    /// Numbers of the coordinates of a step, if rows are sparse.
    pub coordinates: Option<usize>,
    /// Its rings: one per group of a vector, otherwise one.
    pub rings: Vec<WindowRing>,
}

/// How the rows of a ring become their part of a step.
#[derive(Clone, Debug)]
pub struct WindowRing {
    /// Element type of the rows.
    pub dtype: DType,
    /// Elements of a row.
    pub row_len: usize,
    /// How each is interpolated. Empty if rows are only copied.
    pub lanes: Vec<Lane>,
    /// Operators on an interpolated row, if there are any.
    pub stage: Option<OutputStage>,
    /// Destination of the elements of the part.
    pub runs: Vec<Run>,
}

/// Why windows cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WindowError {
    /// A part has not the size or the type that it must have.
    #[error("{what}: expected {expected}, found {found}")]
    Mismatch {
        /// The mismatched thing.
        what: String,
        /// The size or type that it must have.
        expected: String,
        /// The size or type that it has instead.
        found: String,
    },
}

impl WindowError {
    /// The error of a part.
    pub fn of(
        what: impl Into<String>,
        expected: impl ToString,
        found: impl ToString,
    ) -> WindowError {
        let expected = expected.to_string();
        let found = found.to_string();
        WindowError::Mismatch { what: what.into(), expected, found }
    }
}

/// The items of a call, one per window.
#[derive(Clone, Copy, Debug)]
pub struct Items<'a> {
    /// The numbers of the spans: of an episode and an epoch in it.
    pub spans: &'a [u32],
    /// The first and the last instant of these spans \[ns\].
    pub bounds: &'a [[i64; 2]],
    /// The instants \[ns\].
    pub instants: &'a [i64],
    /// `[streams, windows]`: how much earlier than at the instant a stream is taken \[ns\]. Empty for 0.
    pub latency_ns: &'a [i64],
}

/// Plan of windows, which depends on the configuration alone and is prepared once.
#[derive(Clone, Debug)]
pub struct WindowPlan {
    pub(super) streams: Vec<WindowStream>,
}

/// Content of a part of the buffer, of one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartKind {
    /// `[windows, steps, row...]`: the values.
    Values,
    /// `[windows, steps, voxels, 3]`, i32: where the voxels of a sparse row are.
    Coordinates,
    /// `[windows, steps]`, i64: the age of each step.
    Ages,
    /// `[windows, steps]`, u32: voxels in use of a sparse row.
    Counts,
    /// `[windows, steps]`, a byte each: whether the step may be used.
    Valid,
}

/// A part of the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferPart {
    /// The number of its stream in the plan.
    pub stream: usize,
    /// Content of the part.
    pub kind: PartKind,
    /// Begin of the part in the buffer \[bytes\]: a multiple of [`ALIGNMENT`].
    pub byte_offset: usize,
    /// Bytes of one window.
    pub window_bytes: usize,
}

/// Offsets of the parts of `windows` windows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowLayout {
    /// The parts, in their order in the buffer.
    pub parts: Vec<BufferPart>,
    /// Windows.
    pub windows: usize,
    /// Bytes of the buffer: a multiple of [`ALIGNMENT`].
    pub byte_len: usize,
}

impl WindowStream {
    /// Number of steps.
    pub fn steps(&self) -> usize {
        self.offsets_ns.len()
    }

    /// The parts that it has, with the bytes of one window.
    fn parts(&self) -> impl Iterator<Item = (PartKind, usize)> {
        let steps = self.steps();
        let sparse = self.coordinates;
        [
            Some((PartKind::Values, steps * self.step_len * self.dtype.size())),
            sparse.map(|numbers| (PartKind::Coordinates, steps * numbers * size_of::<i32>())),
            Some((PartKind::Ages, steps * size_of::<i64>())),
            sparse.map(|_| (PartKind::Counts, steps * size_of::<u32>())),
            Some((PartKind::Valid, steps)),
        ]
        .into_iter()
        .flatten()
    }

    /// Checks the stream's own numbers.
    fn check(&self) -> Result<(), WindowError> {
        let wrong = |expected: &str, found: String| {
            Err(WindowError::of(format!("stream '{}'", self.name), expected, found))
        };
        if self.rings.is_empty() || self.steps() == 0 || self.present >= self.steps() {
            return wrong("rings and steps", format!("{} steps", self.steps()));
        }
        for ring in &self.rings {
            let floats = |dtype| matches!(dtype, DType::F32 | DType::F16 | DType::Bf16);
            let both = floats(self.dtype) && floats(ring.dtype);
            let found = format!("rows of {} for {}", ring.dtype.name(), self.dtype.name());
            if self.scaled && (ring.dtype != DType::U8 || !floats(self.dtype)) {
                return wrong("rows of u8 for floats, as they are scaled", found);
            }
            if ring.dtype != self.dtype && !both && !self.scaled {
                let expected =
                    "rows of the type of the output, both of floats, or bytes with `scale`";
                return wrong(expected, found);
            }
            if !both && self.rings.len() > 1 {
                return wrong("one group of what is no float", found);
            }
            let interpolates = self.rule.strategy.interpolates();
            if (interpolates || ring.stage.is_some()) && !both {
                return wrong("hold or nearest for rows that are no floats", found);
            }
            if interpolates && ring.lanes.len() != ring.row_len {
                let found = format!("{} of {}", ring.lanes.len(), ring.row_len);
                return wrong("a lane per element", found);
            }
            let part = ring.stage.as_ref().map_or(ring.row_len, OutputStage::len);
            let fits = |run: &Run| {
                let end = |at: usize| at.checked_add(run.len);
                end(run.row_at).is_some_and(|end| end <= part)
                    && end(run.step_at).is_some_and(|end| end <= self.step_len)
            };
            if !ring.runs.iter().all(fits) {
                return wrong("a part that fits its step", format!("{:?}", ring.runs));
            }
        }
        let mut runs: Vec<&Run> = self.rings.iter().flat_map(|ring| &ring.runs).collect();
        runs.sort_unstable_by_key(|run| run.step_at);
        let end = runs.iter().try_fold(0, |end, run| (run.step_at == end).then_some(end + run.len));
        if end != Some(self.step_len) {
            return wrong("groups that write each element once", format!("{runs:?}"));
        }
        if self.coordinates.is_some() && (self.rings.len() > 1 || self.rule.strategy.interpolates())
        {
            return wrong("one ring, and hold or nearest, for sparse rows", "others".to_owned());
        }
        Ok(())
    }
}

impl WindowRing {
    /// True if a row is copied to a step as it is.
    pub(super) fn copies(&self, stream: &WindowStream) -> bool {
        self.stage.is_none() && self.dtype == stream.dtype && self.is_whole(stream)
    }

    /// True if the ring's part is the whole step.
    pub(super) fn is_whole(&self, stream: &WindowStream) -> bool {
        matches!(self.runs.as_slice(), [run] if run.len == stream.step_len)
    }
}

impl WindowPlan {
    /// A plan of these streams.
    ///
    /// # Errors
    /// A stream contradicts itself.
    pub fn new(streams: Vec<WindowStream>) -> Result<Self, WindowError> {
        streams.iter().try_for_each(WindowStream::check)?;
        Ok(WindowPlan { streams })
    }

    /// The streams, in the order of the buffer.
    pub fn streams(&self) -> &[WindowStream] {
        &self.streams
    }

    /// Offsets of the parts of `windows` windows.
    ///
    /// # Errors
    /// The buffer would be larger than memory can be.
    pub fn layout(&self, windows: usize) -> Result<WindowLayout, WindowError> {
        let too_large = || WindowError::of("windows", "fewer bytes than 2^47", windows);
        let mut parts = Vec::with_capacity(3 * self.streams.len());
        let mut end = 0usize;
        for (stream, spec) in self.streams.iter().enumerate() {
            for (kind, window_bytes) in spec.parts() {
                parts.push(BufferPart { stream, kind, byte_offset: end, window_bytes });
                let bytes = windows.checked_mul(window_bytes).ok_or_else(too_large)?;
                end = end.checked_add(bytes).filter(|end| *end < 1 << 47).ok_or_else(too_large)?;
                end = end.next_multiple_of(ALIGNMENT);
            }
        }
        Ok(WindowLayout { parts, windows, byte_len: end })
    }
}
