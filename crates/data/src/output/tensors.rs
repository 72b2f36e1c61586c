//! The columns of tensors: a row per tick. Beside them, a store may have the rows of some streams.

use std::path::Path;

use serde_json::Value;

use super::rows::{PartRows, StoredRows};
use super::{Bf16, Images, Output, row_dimensions};
use crate::commands::{MadeCommand, TakenChunk};
use crate::file::OutputError;
use crate::store::{BREAKS, Column, Element, Table, WriterLimits};
use robocache_core::layout::{Holds, Segment};
use robocache_core::message::{StepState, TensorMessage};
use robocache_core::pipeline::Pipeline;
use robocache_core::spec::SegmentId;
use robocache_ops::dtype::DType;
use robocache_ops::time::Stamp;
use robocache_runtime::Tick;

/// The dimension of ticks, and the columns that say when they were. No segment may have such a name.
pub(super) const TICK_COLUMNS: [&str; 4] = ["tick", "stamp_ns", "recorded_ns", "epoch"];

/// The tensors of an episode, as columns.
pub struct TensorOutput {
    part: PartRows,
    segments: Vec<SegmentColumns>,
    /// A row, before it is written.
    scratch: Vec<u8>,
    bf16: Bf16,
    /// Number and epoch of the newest tick, and how many there were.
    newest: Option<(i64, i64)>,
    ticks: u64,
    /// The ticks that do not follow the one before: how many ticks came before each.
    breaks: Vec<u64>,
}

/// The columns of a segment.
struct SegmentColumns {
    id: SegmentId,
    segment: Segment,
    values: usize,
    /// Facts of each step, with their columns.
    steps: Vec<(usize, Known)>,
}

/// Fact of each step.
#[derive(Clone, Copy)]
enum Known {
    Valid,
    Target,
    Age,
    Count,
    Inputs,
}

impl Known {
    const fn column(self) -> (&'static str, Element) {
        match self {
            Known::Valid => ("valid", Element::Bool),
            Known::Target => ("target_ns", Element::Int64),
            Known::Age => ("age_ns", Element::Int64),
            Known::Count => ("count", Element::Uint32),
            Known::Inputs => ("inputs_valid", Element::Uint32),
        }
    }

    fn put(self, step: &StepState, row: &mut Vec<u8>) {
        match self {
            Known::Valid => row.push(u8::from(step.valid)),
            Known::Target => row.extend(step.target.nanos().to_le_bytes()),
            Known::Age => row.extend(step.age_ns.to_le_bytes()),
            Known::Count => row.extend(step.count.to_le_bytes()),
            Known::Inputs => row.extend(step.inputs_valid.to_le_bytes()),
        }
    }
}

impl TensorOutput {
    /// Creates the part of an episode. It also takes the rows of these streams from the pipeline from now on.
    ///
    /// # Errors
    /// A stream has the name of a column of the ticks, or the part cannot be written.
    pub fn create(
        path: &Path,
        pipeline: &mut Pipeline,
        rows_of: &[String],
        bf16: Bf16,
        limits: WriterLimits,
    ) -> Result<Self, OutputError> {
        let mut columns: Vec<Column> = TICK_COLUMNS
            .iter()
            .map(|name| Column::new(format!("data/{name}"), Element::Int64, "tick", &[]))
            .collect();
        let mut segments = Vec::new();
        let infos = pipeline.segment_infos(&[]);
        for (at, (segment, info)) in pipeline.layout().segments().iter().zip(infos).enumerate() {
            let name = &segment.name;
            if TICK_COLUMNS.contains(&name.as_str()) {
                let what = format!(
                    "stream '{name}': expected another name, as the store has an array '{name}' of the ticks"
                );
                return Err(OutputError::of(path)(std::io::Error::other(what)));
            }
            let spec = pipeline.config().stream(segment.stream);
            let steps = (format!("{name}.step"), segment.steps);
            let row = row_dimensions(&spec.encoder, segment.holds);
            let row = row.iter().zip(&segment.shape[1..]);
            let row = row.map(|(dimension, size)| (format!("{name}.{dimension}"), *size));
            let dimensions: Vec<_> = std::iter::once(steps.clone()).chain(row).collect();
            let element = bf16.element(segment.dtype);
            let values = columns.len();
            let path = format!("data/{name}");
            let column = Column::new(path.clone(), element, "tick", &dimensions);
            columns.push(bf16.told(segment.dtype, column.with("segment", info)));
            let known: &[Known] = match segment.holds {
                Holds::Coordinates => &[],
                Holds::Rows => &[Known::Valid, Known::Target, Known::Age],
                Holds::Features => &[Known::Valid, Known::Target, Known::Age, Known::Count],
            };
            let several = pipeline.config().inputs_of(segment.stream).nth(1).is_some();
            let inputs = (several && !known.is_empty()).then_some(Known::Inputs);
            let mut of_steps = Vec::new();
            for known in known.iter().copied().chain(inputs) {
                of_steps.push((columns.len(), known));
                let (kind, element) = known.column();
                let path = format!("{path}.{kind}");
                columns.push(Column::new(path, element, "tick", std::slice::from_ref(&steps)));
            }
            let id = SegmentId::new(at);
            let segment = segment.clone();
            segments.push(SegmentColumns { id, segment, values, steps: of_steps });
        }
        // As in the ReplayBuffer of UMI, an episode begins where the one before ends.
        let ends = "meta/episode_ends".into();
        let table = Table { columns, ends, begins: None, sorted_by: None };
        let part = PartRows::create(
            path,
            vec![table],
            pipeline,
            Some(rows_of),
            StoredRows { bf16, images: Images::Zstd, arrivals: true },
            limits,
        )?;
        let scratch = Vec::new();
        let breaks = Vec::new();
        Ok(TensorOutput { part, segments, scratch, bf16, newest: None, ticks: 0, breaks })
    }

    /// Ends the part. `about` is what the store says of the episode.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn complete(self, mut about: Value) -> Result<(), OutputError> {
        about[BREAKS] = self.breaks.into();
        // Tensors are stored without loss.
        self.part.complete(about).map(|_| ())
    }
}

impl Output for TensorOutput {
    fn tick(&mut self, tick: Tick, message: &TensorMessage) -> Result<(), OutputError> {
        let TensorOutput { part, segments, scratch, bf16, newest, ticks, breaks } = self;
        let writer = part.writer();
        let Some(writer) = &*writer else { return Ok(()) };
        let epoch = tick.epoch.number() as i64;
        let follows = |newest: (i64, i64)| newest == (tick.number - 1, epoch);
        if newest.is_some_and(|newest| !follows(newest)) {
            breaks.push(*ticks);
        }
        *ticks += 1;
        *newest = Some((tick.number, epoch));
        let when = [tick.number, message.stamp().nanos(), tick.at.nanos(), epoch];
        let mut row = writer.row(0);
        for (column, number) in when.into_iter().enumerate() {
            row.put(column, &number.to_le_bytes())?;
        }
        for SegmentColumns { id, segment, values, steps } in segments {
            if !message.is_unchanged(*id) || !row.repeat(*values)? {
                let data = message.segment_data(*id);
                row.put(*values, bf16.stored(segment.dtype, data, scratch))?;
            }
            for (column, known) in steps {
                scratch.clear();
                message.steps(*id).iter().for_each(|step| known.put(step, scratch));
                row.put(*column, scratch)?;
            }
        }
        row.end();
        Ok(())
    }

    fn takes_commands(&self) -> bool {
        true
    }

    fn chunk(&mut self, taken: &TakenChunk<'_>, _: usize, at: Stamp) -> Result<(), OutputError> {
        self.part.chunk(taken, at)
    }

    fn command(&mut self, command: &MadeCommand<'_>, at: Stamp) -> Result<(), OutputError> {
        self.part.command(command, at)
    }

    fn check(&mut self) -> Result<(), OutputError> {
        self.part.check()
    }
}

impl Bf16 {
    /// The type in which elements are stored.
    pub(super) const fn element(self, dtype: DType) -> Element {
        match (self, dtype) {
            (Bf16::F32, DType::Bf16) => Element::Float32,
            _ => Element::of(dtype),
        }
    }

    /// Says of a column whose elements are bits of another type what they are.
    pub(super) fn told(self, dtype: DType, column: Column) -> Column {
        match (self, dtype) {
            (Bf16::Uint16, DType::Bf16) => column.with("bits_of", "bf16"),
            _ => column,
        }
    }

    /// True if elements are stored as wider ones.
    pub(super) fn widens(self, dtype: DType) -> bool {
        (self, dtype) == (Bf16::F32, DType::Bf16)
    }

    /// The bytes in which elements are stored. `scratch` is memory for them.
    pub(super) fn stored<'a>(
        self,
        dtype: DType,
        data: &'a [u8],
        scratch: &'a mut Vec<u8>,
    ) -> &'a [u8] {
        if !self.widens(dtype) {
            return data;
        }
        scratch.clear();
        // The bits of a bf16 are the upper half of those of the same f32.
        scratch.extend(data.chunks_exact(2).flat_map(|bits| [0, 0, bits[0], bits[1]]));
        scratch
    }
}
