//! The columns of rows at their own stamps: a row of the store is a row of a ring. A store of tensors may have those of
//! some streams, too.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};

use serde_json::{Value, json};

use super::commands::CommandTables;
use super::{Bf16, Images, Output, row_dimensions};
use crate::commands::{MadeCommand, TakenChunk};
use crate::file::OutputError;
use crate::store::{Column, Element, Loss, PartWriter, Table, WriterLimits};
use robocache_core::layout::{Holds, RingPlace};
use robocache_core::message::TensorMessage;
use robocache_core::pipeline::{LeftRow, Pipeline, RowSink};
use robocache_core::ring::UntilNext;
use robocache_core::spec::RingId;
use robocache_ops::align::{MergeSpec, ValidWhen};
use robocache_ops::device::RowMemory;
use robocache_ops::dtype::DType;
use robocache_ops::sync::lock;
use robocache_ops::time::Stamp;
use robocache_ops::voxelize::SparseRow;
use robocache_runtime::Tick;

/// The rows of an episode, as columns.
pub struct RowOutput(PartRows);

/// A part that gets rows from a pipeline. Its owner may write into other tables of it meanwhile.
pub(super) struct PartRows(Arc<SharedRows>);

/// State that the owner of a part shares with the sink of the pipeline's rows.
struct SharedRows {
    /// `None` at the end.
    writer: RwLock<Option<PartWriter>>,
    /// By the number of a ring; `None` if its rows are not kept.
    rings: Vec<Option<RingColumns>>,
    commands: CommandTables,
    bf16: Bf16,
    /// The first error.
    error: Mutex<Option<OutputError>>,
    failed: AtomicBool,
}

/// The columns of a ring.
struct RingColumns {
    stream: String,
    /// The number of its table.
    table: usize,
    dtype: DType,
    values: usize,
    /// Columns of a row's numbers.
    numbers: Vec<(usize, RowColumn)>,
    sparse: Option<(usize, SparseRow)>,
    /// A value, before it is written.
    scratch: Mutex<Vec<u8>>,
}

/// Number of a row beside its values.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RowColumn {
    Stamp,
    Input,
    Epoch,
    Received,
    Left,
    Replaced,
    UntilNext,
    Count,
    Until,
}

impl RowColumn {
    const fn column(self) -> (&'static str, Element) {
        match self {
            RowColumn::Stamp => ("stamp_ns", Element::Int64),
            RowColumn::Input => ("input", Element::Uint8),
            RowColumn::Epoch => ("epoch", Element::Int64),
            RowColumn::Received => ("received_ns", Element::Int64),
            RowColumn::Left => ("left_ns", Element::Int64),
            RowColumn::Replaced => ("replaced", Element::Bool),
            RowColumn::UntilNext => ("until_next", Element::Uint8),
            RowColumn::Count => ("count", Element::Uint32),
            RowColumn::Until => ("until_ns", Element::Int64),
        }
    }

    fn put(self, row: &LeftRow<'_>, out: &mut Vec<u8>) {
        match self {
            RowColumn::Stamp => out.extend(row.entry.stamp.nanos().to_le_bytes()),
            RowColumn::Input => out.push(row.entry.input),
            RowColumn::Epoch => out.extend((row.epoch.number() as i64).to_le_bytes()),
            RowColumn::Received => out.extend(row.entry.received.nanos().to_le_bytes()),
            RowColumn::Left => out.extend(row.left.nanos().to_le_bytes()),
            RowColumn::Replaced => out.push(u8::from(row.replaced)),
            RowColumn::UntilNext => out.push(match row.entry.until_next {
                UntilNext::Strategy => 0,
                UntilNext::Held => 1,
                UntilNext::Nothing => 2,
            }),
            RowColumn::Count => out.extend(row.entry.in_use.to_le_bytes()),
            RowColumn::Until => {
                let ns = |until: &Option<Stamp>| until.map_or(i64::MIN, Stamp::nanos);
                out.extend(row.until.iter().flat_map(|until| ns(until).to_le_bytes()));
            }
        }
    }
}

/// How rows are stored.
#[derive(Clone, Copy, Debug)]
pub struct StoredRows {
    /// Form of `bf16`.
    pub bf16: Bf16,
    /// Form of images.
    pub images: Images,
    /// True if it is known when messages came: of the frames of a dataset it is not.
    pub arrivals: bool,
}

impl RowOutput {
    /// Creates the part of an episode, and takes the rows of this pipeline from now on. They are stored as `stored`
    /// says.
    ///
    /// # Errors
    /// The part cannot be written.
    pub fn create(
        path: &Path,
        pipeline: &mut Pipeline,
        stored: StoredRows,
        limits: WriterLimits,
    ) -> Result<Self, OutputError> {
        PartRows::create(path, Vec::new(), pipeline, None, stored, limits).map(RowOutput)
    }

    /// Ends the part. `about` is what the store says of the episode. Returns what JPEG made of the rows of streams, by
    /// their names.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn complete(self, about: Value) -> Result<BTreeMap<String, Loss>, OutputError> {
        self.0.complete(about)
    }
}

impl PartRows {
    /// Creates a part with these tables. Behind them are those of commands, and those of the rows of some streams of the
    /// pipeline, or of all. Their rows come to it from now on. They are stored as `stored` says.
    ///
    /// # Errors
    /// The part cannot be written.
    pub(super) fn create(
        path: &Path,
        mut tables: Vec<Table>,
        pipeline: &mut Pipeline,
        streams: Option<&[String]>,
        stored: StoredRows,
        limits: WriterLimits,
    ) -> Result<Self, OutputError> {
        let commands = CommandTables::add(pipeline.config().commands.as_ref(), &mut tables);
        let mut rings = Vec::new();
        for place in pipeline.layout().rings() {
            let name = &pipeline.config().stream(place.stream).name;
            rings.push(streams.is_none_or(|streams| streams.contains(name)).then(|| {
                let (ring, table) = ring_columns(place, pipeline, stored, tables.len());
                tables.push(table);
                ring
            }));
        }
        let keeps = rings.iter().any(Option::is_some);
        let writer = RwLock::new(Some(PartWriter::create(path, tables, limits)?));
        let error = Mutex::default();
        let failed = AtomicBool::new(false);
        let state =
            Arc::new(SharedRows { writer, rings, commands, bf16: stored.bf16, error, failed });
        if keeps {
            pipeline.keep_rows(Box::new(Sink(Arc::clone(&state))));
        }
        Ok(PartRows(state))
    }

    /// The writer of the part; `None` at the end.
    pub(super) fn writer(&self) -> RwLockReadGuard<'_, Option<PartWriter>> {
        self.0.writer.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a chunk of actions.
    pub(super) fn chunk(&self, taken: &TakenChunk<'_>, at: Stamp) -> Result<(), OutputError> {
        let writer = self.writer();
        writer.as_ref().map_or(Ok(()), |writer| self.0.commands.chunk(writer, taken, at))
    }

    /// Writes a group's command.
    pub(super) fn command(&self, command: &MadeCommand<'_>, at: Stamp) -> Result<(), OutputError> {
        let writer = self.writer();
        writer.as_ref().map_or(Ok(()), |writer| self.0.commands.command(writer, command, at))
    }

    /// Tells what went wrong since the last call.
    ///
    /// # Errors
    /// A row could not be written.
    pub(super) fn check(&self) -> Result<(), OutputError> {
        lock(&self.0.error).take().map_or(Ok(()), Err)
    }

    /// Ends the part, as [`RowOutput::complete`].
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn complete(self, about: Value) -> Result<BTreeMap<String, Loss>, OutputError> {
        let mut writer = self.0.writer.write().unwrap_or_else(PoisonError::into_inner);
        let losses = match (lock(&self.0.error).take(), writer.take()) {
            (Some(error), _) => return Err(error),
            (None, Some(writer)) => writer.complete(about)?,
            (None, None) => BTreeMap::new(),
        };
        // An image has one ring.
        let ring = |table| self.0.rings.iter().flatten().find(|ring| ring.table == table);
        let named = |((table, _), loss): ((usize, usize), Loss)| {
            ring(table).map(|ring| (ring.stream.clone(), loss))
        };
        Ok(losses.into_iter().filter_map(named).collect())
    }
}

/// The columns of a ring, and its table, which has this number.
fn ring_columns(
    place: &RingPlace,
    pipeline: &Pipeline,
    stored: StoredRows,
    number: usize,
) -> (RingColumns, Table) {
    let StoredRows { bf16, images, arrivals } = stored;
    let mut columns = Vec::new();
    let config = pipeline.config();
    let spec = config.stream(place.stream);
    let folder = format!("streams/{}/{}", spec.name, place.group);
    let sparse = spec.encoder.sparse_row(spec.dtype);
    let (dtype, row) = match spec.encoder.as_vector() {
        Some(vector) => {
            let floats = vector.keeps_f32(place.group, spec.strategy());
            (if floats { DType::F32 } else { spec.dtype }, vec![place.row_len])
        }
        None => (spec.dtype, spec.encoder.row_shape()),
    };
    let holds = if sparse.is_some() { Holds::Features } else { Holds::Rows };
    let named = |holds, shape: Vec<usize>| -> Vec<(String, usize)> {
        let names = row_dimensions(&spec.encoder, holds);
        names.iter().map(|name| (*name).to_owned()).zip(shape).collect()
    };
    let values = columns.len();
    let element = bf16.element(dtype);
    let column = Column::new(format!("{folder}/rows"), element, "row", &named(holds, row));
    let column = Column { codec: images.codec(spec), ..column };
    columns.push(bf16.told(dtype, column.with("ring", about(place, pipeline, dtype, arrivals))));
    let merged = spec.merge.as_ref().map(|merge| merge.max_age_ns.len());
    let numbers = [
        Some(RowColumn::Stamp),
        Some(RowColumn::Input),
        Some(RowColumn::Epoch),
        Some(RowColumn::Received),
        Some(RowColumn::Left),
        Some(RowColumn::Replaced),
        spec.plans.then_some(RowColumn::UntilNext),
        sparse.map(|_| RowColumn::Count),
        merged.map(|_| RowColumn::Until),
    ];
    let mut places = Vec::new();
    for number in numbers.into_iter().flatten() {
        let (name, element) = number.column();
        let inputs = merged.filter(|_| matches!(number, RowColumn::Until));
        let rest: Vec<_> =
            inputs.map(|inputs| ("of_input".to_owned(), inputs)).into_iter().collect();
        let mut column = Column::new(format!("{folder}/{name}"), element, "row", &rest);
        // No reader takes a row between two episodes for one of them.
        column.filler = u8::from(number == RowColumn::Replaced);
        places.push((columns.len(), number));
        columns.push(column);
    }
    let sparse = sparse.zip(spec.encoder.coordinates_shape()).map(|(row, shape)| {
        let rest = named(Holds::Coordinates, shape);
        columns.push(Column::new(format!("{folder}/coordinates"), Element::Int32, "row", &rest));
        (columns.len() - 1, row)
    });
    let at = |wanted: RowColumn| {
        let place = places.iter().find(|(_, number)| *number == wanted);
        place.map_or(values, |(column, _)| *column)
    };
    let sorted_by = Some([RowColumn::Epoch, RowColumn::Stamp, RowColumn::Received].map(at));
    let begins = Some(format!("{folder}/episode_begins"));
    let table = Table { columns, ends: format!("{folder}/episode_ends"), begins, sorted_by };
    let scratch = Mutex::default();
    let stream = spec.name.clone();
    (RingColumns { stream, table: number, dtype, values, numbers: places, sparse, scratch }, table)
}

/// Attributes of a ring in the store.
fn about(place: &RingPlace, pipeline: &Pipeline, dtype: DType, arrivals: bool) -> Value {
    let config = pipeline.config();
    let spec = config.stream(place.stream);
    let info = &pipeline.segment_infos(&[])[place.segment.index()];
    let (channels, lanes) = match spec.encoder.as_vector() {
        Some(vector) => {
            let of_group = vector.groups[place.group].channels.iter();
            let names = of_group.map(|channel| vector.channels[*channel].name.clone());
            (names.collect(), json!(vector.lanes(place.group)))
        }
        None => (info.channels.clone(), Value::Null),
    };
    json!({
        "stream": spec.name,
        "group": place.group,
        "dtype": dtype.name(),
        "channels": channels,
        "lanes": lanes,
        "vector": spec.encoder.as_vector(),
        "segment": info,
        "arrivals": arrivals,
        "max_age_ns_of_inputs": spec.merge.as_ref().map(|merge| &merge.max_age_ns),
        "valid_when": spec.merge.as_ref().map(valid_when),
    })
}

/// Which inputs a step of a merged row needs: a word, or their numbers in `until_ns`.
fn valid_when(merge: &MergeSpec) -> Value {
    match merge.valid_when {
        ValidWhen::All => json!("all"),
        ValidWhen::Any => json!("any"),
        ValidWhen::Listed(_) => {
            let needed = (0..merge.max_age_ns.len()).filter(|input| merge.needs(*input));
            json!(needed.collect::<Vec<_>>())
        }
    }
}

/// Takes the rows of a pipeline.
struct Sink(Arc<SharedRows>);

impl RowSink for Sink {
    fn takes(&self, ring: RingId) -> bool {
        self.0.rings[ring.index()].is_some()
    }

    fn row(&self, row: &LeftRow<'_>, bytes: &mut RowMemory) {
        let SharedRows { failed, error, .. } = &*self.0;
        if !failed.load(Ordering::Relaxed)
            && let Err(wrong) = self.0.write(row, bytes)
        {
            lock(error).get_or_insert(wrong);
            failed.store(true, Ordering::Relaxed);
        }
    }
}

impl SharedRows {
    fn write(&self, row: &LeftRow<'_>, bytes: &mut RowMemory) -> Result<(), OutputError> {
        let writer = self.writer.read().unwrap_or_else(PoisonError::into_inner);
        let (Some(writer), Some(ring)) = (&*writer, &self.rings[row.ring.index()]) else {
            return Ok(());
        };
        let scratch = &mut *lock(&ring.scratch);
        let mut out = writer.row(ring.table);
        match &ring.sparse {
            Some((column, sparse)) => {
                let coordinates = &bytes[sparse.coordinates_at()..][..sparse.coordinates()];
                out.put(*column, coordinates)?;
                let features = &bytes[..sparse.features()];
                out.put(ring.values, self.bf16.stored(ring.dtype, features, scratch))?;
            }
            None if self.bf16.widens(ring.dtype) => {
                out.put(ring.values, self.bf16.stored(ring.dtype, bytes, scratch))?;
            }
            None => out.put_owned(ring.values, bytes)?,
        }
        for (column, number) in &ring.numbers {
            scratch.clear();
            number.put(row, scratch);
            out.put(*column, scratch)?;
        }
        let LeftRow { entry, epoch, .. } = row;
        let key = [epoch.number() as i64, entry.stamp.nanos(), entry.received.nanos()];
        out.end_sorted(key, row.replaced);
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

    fn takes_commands(&self) -> bool {
        true
    }

    fn chunk(&mut self, taken: &TakenChunk<'_>, _: usize, at: Stamp) -> Result<(), OutputError> {
        self.0.chunk(taken, at)
    }

    fn command(&mut self, command: &MadeCommand<'_>, at: Stamp) -> Result<(), OutputError> {
        self.0.command(command, at)
    }

    fn check(&mut self) -> Result<(), OutputError> {
        self.0.check()
    }
}
