//! The columns of rows at their own stamps: a row of the store is a row of a ring.

use std::path::Path;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::store::{Column, Element, PartWriter};
use super::{Bf16, Output, OutputError, row_dimensions};
use crate::dtype::DType;
use crate::layout::{Holds, RingPlace};
use crate::ops::voxelize::SparseRow;
use crate::pipeline::{FinalRow, Pipeline, RowSink, TensorMessage};
use crate::ring::UntilNext;
use crate::runtime::Tick;
use crate::spec::EncoderSpec;
use crate::sync::lock;
use crate::time::Stamp;

/// The rows of an episode, as columns.
pub struct RowOutput(Arc<Mutex<State>>);

/// What the output shares with the sink of the pipeline's rows.
struct State {
    /// `None` at the end.
    writer: Option<PartWriter>,
    rings: Vec<RingColumns>,
    scratch: Vec<u8>,
    bf16: Bf16,
    error: Option<OutputError>,
}

/// The columns of a ring.
struct RingColumns {
    dtype: DType,
    values: usize,
    /// Where the numbers of a row go.
    numbers: Vec<(usize, Number)>,
    sparse: Option<(usize, SparseRow)>,
    /// Epoch and stamp of the newest row.
    newest: Option<(u64, Stamp)>,
}

/// What a row has beside its values.
#[derive(Clone, Copy)]
enum Number {
    Stamp,
    Input,
    Epoch,
    UntilNext,
    Count,
    Until,
}

impl Number {
    const fn column(self) -> (&'static str, Element) {
        match self {
            Number::Stamp => ("stamp_ns", Element::Int64),
            Number::Input => ("input", Element::Uint8),
            Number::Epoch => ("epoch", Element::Int64),
            Number::UntilNext => ("until_next", Element::Uint8),
            Number::Count => ("count", Element::Uint32),
            Number::Until => ("until_ns", Element::Int64),
        }
    }

    fn put(self, row: &FinalRow<'_>, out: &mut Vec<u8>) {
        match self {
            Number::Stamp => out.extend(row.entry.stamp.nanos().to_le_bytes()),
            Number::Input => out.push(row.entry.input),
            Number::Epoch => out.extend((row.epoch.number() as i64).to_le_bytes()),
            Number::UntilNext => out.push(match row.entry.until_next {
                UntilNext::Strategy => 0,
                UntilNext::Held => 1,
                UntilNext::Nothing => 2,
            }),
            Number::Count => out.extend(row.entry.in_use.to_le_bytes()),
            Number::Until => {
                let ns = |until: &Option<Stamp>| until.map_or(i64::MIN, Stamp::nanos);
                out.extend(row.until.iter().flat_map(|until| ns(until).to_le_bytes()));
            }
        }
    }
}

impl RowOutput {
    /// Creates the part of an episode, and takes the rows of this pipeline from now on. `threads` compress.
    ///
    /// # Errors
    /// The part cannot be written.
    pub fn create(
        path: &Path,
        pipeline: &mut Pipeline,
        bf16: Bf16,
        threads: usize,
    ) -> Result<Self, OutputError> {
        let mut columns = Vec::new();
        let places = pipeline.layout().rings().iter();
        let rings = places.map(|place| ring_columns(place, pipeline, bf16, &mut columns)).collect();
        let writer = Some(PartWriter::create(path, columns, threads)?);
        let state = State { writer, rings, scratch: Vec::new(), bf16, error: None };
        let state = Arc::new(Mutex::new(state));
        pipeline.keep_rows(Box::new(Sink(Arc::clone(&state))));
        Ok(RowOutput(state))
    }

    /// Ends the part. `about` is what the store says of the episode.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn complete(self, about: Value) -> Result<(), OutputError> {
        let (writer, error) = {
            let mut state = lock(&self.0);
            (state.writer.take(), state.error.take())
        };
        match (error, writer) {
            (Some(error), _) => Err(error),
            (None, Some(writer)) => writer.complete(about),
            (None, None) => Ok(()),
        }
    }
}

/// Adds the columns of a ring.
fn ring_columns(
    place: &RingPlace,
    pipeline: &Pipeline,
    bf16: Bf16,
    columns: &mut Vec<Column>,
) -> RingColumns {
    let config = pipeline.config();
    let spec = config.stream(place.stream);
    let folder = format!("streams/{}/{}", spec.name, place.group);
    let sparse = match &spec.encoder {
        EncoderSpec::Voxels(voxels) => SparseRow::new(voxels, spec.dtype),
        _ => None,
    };
    let (dtype, row) = match &spec.encoder {
        EncoderSpec::Vector(vector) => {
            let floats = vector.keeps_f32(place.group, spec.strategy());
            (if floats { DType::F32 } else { spec.dtype }, vec![place.row_len])
        }
        encoder => (spec.dtype, encoder.row_shape()),
    };
    let holds = if sparse.is_some() { Holds::Features } else { Holds::Rows };
    let named = |holds, shape: Vec<usize>| -> Vec<(String, usize)> {
        let names = row_dimensions(&spec.encoder, holds);
        names.iter().map(|name| (*name).to_owned()).zip(shape).collect()
    };
    let values = columns.len();
    let element = bf16.element(dtype);
    let column = Column::new(format!("{folder}/rows"), element, "row", &named(holds, row));
    columns.push(bf16.told(dtype, column.with("ring", about(place, pipeline, dtype))));
    let merged = spec.merge.as_ref().map(|merge| merge.max_age_ns.len());
    let numbers = [
        Some(Number::Stamp),
        Some(Number::Input),
        Some(Number::Epoch),
        spec.plans.then_some(Number::UntilNext),
        sparse.map(|_| Number::Count),
        merged.map(|_| Number::Until),
    ];
    let mut places = Vec::new();
    for number in numbers.into_iter().flatten() {
        let (name, element) = number.column();
        let inputs = merged.filter(|_| matches!(number, Number::Until));
        let rest: Vec<_> =
            inputs.map(|inputs| ("of_input".to_owned(), inputs)).into_iter().collect();
        let column = Column::new(format!("{folder}/{name}"), element, "row", &rest);
        places.push((columns.len(), number));
        columns.push(match number {
            Number::Stamp => column.telling(&format!("{folder}/episode_ends")),
            _ => column,
        });
    }
    let sparse = sparse.zip(spec.encoder.coordinates_shape()).map(|(row, shape)| {
        let rest = named(Holds::Coordinates, shape);
        columns.push(Column::new(format!("{folder}/coordinates"), Element::Int32, "row", &rest));
        (columns.len() - 1, row)
    });
    RingColumns { dtype, values, numbers: places, sparse, newest: None }
}

/// What the store says of a ring.
fn about(place: &RingPlace, pipeline: &Pipeline, dtype: DType) -> Value {
    let config = pipeline.config();
    let spec = config.stream(place.stream);
    let info = &pipeline.segment_infos(&[])[place.segment.index()];
    let (channels, lanes) = match &spec.encoder {
        EncoderSpec::Vector(vector) => {
            let of_group = vector.groups[place.group].channels.iter();
            let names = of_group.map(|channel| vector.channels[*channel].name.clone());
            (names.collect(), json!(vector.lanes(place.group)))
        }
        _ => (info.channels.clone(), Value::Null),
    };
    json!({
        "stream": spec.name,
        "group": place.group,
        "dtype": dtype.name(),
        "channels": channels,
        "lanes": lanes,
        "segment": info,
        "max_age_ns_of_inputs": spec.merge.as_ref().map(|merge| &merge.max_age_ns),
    })
}

/// Takes the rows of a pipeline.
struct Sink(Arc<Mutex<State>>);

impl RowSink for Sink {
    fn row(&mut self, row: &FinalRow<'_>) {
        let state = &mut *lock(&self.0);
        if state.error.is_none()
            && let Err(error) = state.write(row)
        {
            state.error = Some(error);
        }
    }
}

impl State {
    fn write(&mut self, row: &FinalRow<'_>) -> Result<(), OutputError> {
        let State { writer: Some(writer), rings, scratch, bf16, .. } = self else { return Ok(()) };
        let ring = &mut rings[row.ring.index()];
        let at = (row.epoch.number(), row.entry.stamp);
        if ring.newest.is_some_and(|newest| at <= newest) {
            // A plan that begins before what has left the ring: what was written can no longer be replaced.
            let what = format!(
                "expected rows of increasing stamps, found one of {} after one that was final; a longer \
                 history keeps rows open for longer",
                row.entry.stamp
            );
            let path = Path::new(&writer.path_of(ring.values)).to_owned();
            return Err(OutputError::of(&path)(std::io::Error::other(what)));
        }
        ring.newest = Some(at);
        let values = match &ring.sparse {
            Some((column, sparse)) => {
                let coordinates = &row.bytes[sparse.coordinates_at()..][..sparse.coordinates()];
                writer.push(*column, coordinates)?;
                &row.bytes[..sparse.features()]
            }
            None => row.bytes,
        };
        writer.push(ring.values, bf16.stored(ring.dtype, values, scratch))?;
        for (column, number) in &ring.numbers {
            scratch.clear();
            number.put(row, scratch);
            writer.push(*column, scratch)?;
        }
        Ok(())
    }
}

impl Output for RowOutput {
    fn takes_ticks(&self) -> bool {
        false
    }

    fn tick(&mut self, _: Tick, _: &TensorMessage) -> Result<(), OutputError> {
        Ok(())
    }

    fn check(&mut self) -> Result<(), OutputError> {
        lock(&self.0).error.take().map_or(Ok(()), Err)
    }
}
