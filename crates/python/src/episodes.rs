//! Episodes and their windows. `robocache.EpisodeCache` uses this.

#[cfg(feature = "cuda")]
#[allow(unsafe_code)] // launches; every block says why it is sound
pub(crate) mod device;
pub(crate) mod plan;

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use robocache_data::episodes::{
    self, Bytes, Column, Described, EpisodeError, RawEpisodes, RawRing, RawStream, Reading,
};

use crate::dlpack::{Array, TensorElement};
use crate::freeing::Unlocked;

/// Statistics of a channel: name, rows, mean, standard deviation, least, greatest, quantiles of 1 % and 99 %.
type Statistics = (String, u64, f64, f64, f64, f64, f64, f64);

/// Rows of many episodes.
#[pyclass(frozen, module = "robocache._native")]
pub struct Episodes(Unlocked<Arc<episodes::Episodes>>);

/// An array of the caller as a column.
struct ArrayColumn(Array);

impl Bytes for ArrayColumn {
    fn bytes(&self) -> &[u8] {
        // It was checked when it was taken.
        self.0.bytes("column").unwrap_or_default()
    }
}

pub(crate) fn raised(error: EpisodeError) -> PyErr {
    match error {
        EpisodeError::Device(_) => PyRuntimeError::new_err(error.to_string()),
        EpisodeError::File { .. } => PyOSError::new_err(error.to_string()),
        _ => PyValueError::new_err(error.to_string()),
    }
}

pub(crate) fn threads(threads: Option<usize>) -> usize {
    threads.filter(|threads| *threads > 0).unwrap_or_else(robocache_ops::parallel::cores)
}

impl Episodes {
    fn new(episodes: episodes::Episodes) -> Self {
        Episodes(Unlocked::new(Arc::new(episodes)))
    }
}

/// Selection of what is read of a store.
fn reading<'a>(
    streams: Option<&'a [String]>,
    episodes: Option<&'a [usize]>,
    of: Option<usize>,
    threads: Option<usize>,
) -> Reading<'a> {
    Reading { streams, episodes, of, threads: self::threads(threads), packed: false }
}

#[pymethods]
impl Episodes {
    /// Reads a store of `robocache replay --format rows`. `of` is how many episodes those were chosen of. If `packed`,
    /// large rows stay compressed in its files.
    #[staticmethod]
    #[pyo3(signature = (path, streams=None, threads=None, episodes=None, of=None, packed=false))]
    fn of_store(
        py: Python<'_>,
        path: PathBuf,
        streams: Option<Vec<String>>,
        threads: Option<usize>,
        episodes: Option<Vec<usize>>,
        of: Option<usize>,
        packed: bool,
    ) -> PyResult<Self> {
        let reading = reading(streams.as_deref(), episodes.as_deref(), of, threads);
        let reading = Reading { packed, ..reading };
        let read = py.detach(|| episodes::Episodes::of_store(&path, reading));
        Ok(Episodes::new(read.map_err(raised)?))
    }

    /// Opens a folder that `save` or `convert` wrote.
    #[staticmethod]
    #[pyo3(signature = (path, verify=false, episodes=None, of=None))]
    fn open(
        py: Python<'_>,
        path: PathBuf,
        verify: bool,
        episodes: Option<Vec<usize>>,
        of: Option<usize>,
    ) -> PyResult<Self> {
        let opened = py.detach(|| episodes::Episodes::open(&path, episodes.as_deref(), of, verify));
        Ok(Episodes::new(opened.map_err(raised)?))
    }

    /// Writes a store into a new folder, and opens that.
    #[staticmethod]
    #[pyo3(signature = (store, path, streams=None, threads=None, episodes=None, of=None))]
    fn convert(
        py: Python<'_>,
        store: PathBuf,
        path: PathBuf,
        streams: Option<Vec<String>>,
        threads: Option<usize>,
        episodes: Option<Vec<usize>>,
        of: Option<usize>,
    ) -> PyResult<Self> {
        let reading = reading(streams.as_deref(), episodes.as_deref(), of, threads);
        let made = py.detach(|| episodes::Episodes::convert(&store, &path, reading));
        Ok(Episodes::new(made.map_err(raised)?))
    }

    /// The names of the episodes of a store or of a saved folder.
    #[staticmethod]
    fn names(py: Python<'_>, path: PathBuf, saved: bool) -> PyResult<Vec<String>> {
        let found = || match saved {
            true => episodes::Episodes::names_of_folder(&path),
            false => episodes::Episodes::names_of_store(&path),
        };
        py.detach(found).map_err(raised)
    }

    /// Episodes of arrays. `described` is JSON; `columns` has for each stream its rings, each as arrays by name.
    #[staticmethod]
    fn of_columns(
        py: Python<'_>,
        described: &str,
        columns: Vec<Vec<Bound<'_, PyDict>>>,
    ) -> PyResult<Self> {
        let Described { configuration, period_ns, episodes, streams, .. } =
            Described::read(described).map_err(raised)?;
        if streams.len() != columns.len() {
            let expected = streams.len();
            let found = columns.len();
            let text = format!("columns: expected those of {expected} streams, found {found}");
            return Err(PyValueError::new_err(text));
        }
        let mut raw = Vec::with_capacity(streams.len());
        for (means, rings) in streams.into_iter().zip(columns) {
            let rings = rings.iter().map(raw_ring).collect::<PyResult<_>>()?;
            raw.push(RawStream { means, rings });
        }
        let raw = RawEpisodes { configuration, period_ns, episodes, streams: raw };
        let made = py.detach(|| episodes::Episodes::new(raw));
        Ok(Episodes::new(made.map_err(raised)?))
    }

    /// Writes the episodes into a new folder.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        py.detach(|| self.0.save(&path)).map_err(raised)
    }

    /// Description of the episodes: JSON.
    fn described(&self) -> String {
        self.0.described()
    }

    /// The names of the streams whose rows stay compressed.
    fn packed(&self) -> Vec<String> {
        let is_packed = |ring: &episodes::Ring| ring.rows.plain().is_none();
        let streams = self.0.streams.iter().filter(|stream| stream.rings.iter().any(is_packed));
        streams.map(|stream| stream.means.name.clone()).collect()
    }

    /// Rows and bytes of a stream, over its groups.
    fn size(&self, stream: &str) -> PyResult<(usize, usize)> {
        let (_, stream) = self.0.stream(stream).map_err(raised)?;
        let rings = stream.rings.iter();
        Ok((
            rings.clone().map(episodes::Ring::len).sum(),
            rings.map(episodes::Ring::byte_len).sum(),
        ))
    }

    /// By span the first and the last instant at which a stream has a row at the step of its lag \[ns\].
    fn reach(&self, stream: &str) -> PyResult<Vec<(i64, i64)>> {
        self.0.reach(stream).map_err(raised)
    }

    /// The statistics of each channel of a vector, over all episodes or those of these numbers.
    #[pyo3(signature = (stream, episodes=None))]
    fn statistics(
        &self,
        py: Python<'_>,
        stream: &str,
        episodes: Option<Vec<usize>>,
    ) -> PyResult<Vec<Statistics>> {
        let found = py.detach(|| episodes::statistics(&self.0, stream, episodes.as_deref()));
        let all = found.map_err(raised)?;
        let told = all.into_iter().map(|channel| {
            let episodes::ChannelStatistics { name, count, mean, std, min, max, quantiles } =
                channel;
            (name, count, mean, std, min, max, quantiles[0], quantiles[1])
        });
        Ok(told.collect())
    }

    /// Takes the rows to where a GPU reaches them. `memory` has for each stream `auto`, `device`, `pinned` or `mapped`.
    #[cfg(feature = "cuda")]
    #[pyo3(signature = (device, memory, device_bytes=None, pinned_bytes=None))]
    fn on_device(
        &self,
        py: Python<'_>,
        device: i32,
        memory: Vec<String>,
        device_bytes: Option<usize>,
        pinned_bytes: Option<usize>,
    ) -> PyResult<device::DeviceEpisodes> {
        let of = &self.0;
        let room = (device_bytes, pinned_bytes);
        device::on_device(py, of, device, &memory, room.0, room.1)
    }
}

/// A ring of arrays by their names.
fn raw_ring(columns: &Bound<'_, PyDict>) -> PyResult<RawRing> {
    let some = |name: &str, elements: &[TensorElement]| -> PyResult<Option<Column>> {
        let Some(array) = columns.get_item(name)? else { return Ok(None) };
        let array = Array::read(&array, name, -1)?;
        if !elements.is_empty() {
            array.check_element(name, elements)?;
        }
        let bytes = array.bytes(name)?;
        // What is not aligned is copied.
        if bytes.as_ptr().align_offset(align_of::<u64>()) != 0 {
            return Ok(Some(episodes::Owned::of(bytes)));
        }
        Ok(Some(Arc::new(ArrayColumn(array))))
    };
    let all = |name: &str, elements: &[TensorElement]| {
        let lacks = || PyValueError::new_err(format!("expected the column {name}, found none"));
        some(name, elements)?.ok_or_else(lacks)
    };
    let ends = columns.get_item("episode_ends")?;
    let ends = ends.ok_or_else(|| PyValueError::new_err("expected episode_ends, found none"))?;
    let ends: Vec<u64> = ends.call_method0("tolist")?.extract()?;
    Ok(RawRing {
        rows: all("rows", &[])?.into(),
        stamp_ns: all("stamp_ns", &[TensorElement::I64])?,
        received_ns: all("received_ns", &[TensorElement::I64])?,
        left_ns: all("left_ns", &[TensorElement::I64])?,
        replaced: all("replaced", &[TensorElement::Bool, TensorElement::U8])?,
        epoch: some("epoch", &[TensorElement::I64])?,
        until_next: some("until_next", &[TensorElement::U8])?,
        until_ns: some("until_ns", &[TensorElement::I64])?,
        count: some("count", &[TensorElement::U32])?,
        coordinates: some("coordinates", &[TensorElement::I32])?,
        ends,
    })
}
