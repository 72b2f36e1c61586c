//! Parts to one store of Zarr v3.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::super::{BREAKS, OutputError, PartialFolder};
use super::part::ZSTD_LEVEL;
use super::shard::Shards;
use super::{Column, Element, Part};

/// What is joined: the parts of the episodes in their order, and what the store says of itself.
#[derive(Debug)]
pub struct Joined<'a> {
    /// The folders of the parts.
    pub parts: &'a [PathBuf],
    /// What the store says of itself, in its attribute `robocache`. The list of the episodes is added.
    pub about: Map<String, Value>,
}

/// Joins the parts into a store, under another name until it is complete. One that is there is replaced.
///
/// # Errors
/// A part has other columns than the first, or a file cannot be read or written.
pub fn assemble(path: &Path, joined: Joined<'_>) -> Result<(), OutputError> {
    let parts: Vec<Part> =
        joined.parts.iter().map(|part| Part::open(part)).collect::<Result<_, _>>()?;
    let Some(first) = parts.first() else { return Ok(()) };
    if let Some(other) = parts.iter().position(|part| part.columns != first.columns) {
        let what =
            "it has other arrays than the first episode: their definitions of a message differ";
        return Err(OutputError::of(&joined.parts[other])(std::io::Error::other(what)));
    }
    let folder = PartialFolder::create(path)?;
    let mut nodes = Nodes::default();
    let mut groups: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for (at, column) in first.columns.iter().enumerate() {
        let rows = parts.iter().map(|part| part.rows(at)).collect::<Result<Vec<_>, _>>()?;
        nodes.add_array(folder.partial(), column, rows.iter().sum())?;
        let mut shards = Shards::new(&folder.partial().join(&column.path), column);
        match column.has_large_rows() {
            true => join_large(&parts, at, &mut shards)?,
            false => {
                let mut chunks = Chunks::new(column, &mut shards).map_err(OutputError::of(path))?;
                for part in &parts {
                    let mut file = BufReader::new(part.data(at)?);
                    chunks.read(&mut file).map_err(|error| error.of(path))?;
                }
                chunks.finish().map_err(|error| error.of(path))?;
            }
        }
        shards.finish()?;
        if let Some(path_of_ends) = &column.ends {
            let ends = ends_of(&parts, &rows);
            let column = Column::new(path_of_ends.clone(), Element::Int64, "episode", &[]);
            nodes.add_array(folder.partial(), &column, ends.len() as u64)?;
            write_ends(folder.partial(), &column, &ends, path)?;
        }
        // All arrays of a group have a row for each of its ticks, or of its samples.
        let group = column.path.rsplit_once('/').map_or("", |(group, _)| group);
        let of_group = groups.entry(group).or_insert_with(|| rows.clone());
        if *of_group != rows {
            let what = format!("{}: expected {of_group:?} rows, found {rows:?}", column.path);
            return Err(OutputError::of(path)(std::io::Error::other(what)));
        }
    }
    let mut about = joined.about;
    about.insert("episodes".into(), parts.iter().map(|part| part.about.clone()).collect());
    nodes.write_groups(folder.partial(), json!({"robocache": about}))?;
    folder.complete()
}

/// The rows of large columns are chunks already.
fn join_large(parts: &[Part], column: usize, shards: &mut Shards) -> Result<(), OutputError> {
    for part in parts {
        let data = part.data(column)?;
        part.places(column, |place| shards.add_from(&data, place))?;
        shards.end_source(&data)?;
    }
    Ok(())
}

/// The number of rows up to the end of each episode. An episode whose ticks do not follow each other ends where
/// they break, so that no window reaches over the gap.
fn ends_of(parts: &[Part], rows: &[u64]) -> Vec<i64> {
    let (mut ends, mut begin) = (Vec::new(), 0);
    for (part, rows) in parts.iter().zip(rows) {
        let breaks = part.about.get(BREAKS).and_then(Value::as_array);
        let breaks = breaks.into_iter().flatten().filter_map(Value::as_u64);
        ends.extend(breaks.chain([*rows]).map(|end| (begin + end) as i64));
        begin += rows;
    }
    ends
}

/// Writes the ends.
fn write_ends(store: &Path, column: &Column, ends: &[i64], path: &Path) -> Result<(), OutputError> {
    let mut shards = Shards::new(&store.join(&column.path), column);
    let mut chunks = Chunks::new(column, &mut shards).map_err(OutputError::of(path))?;
    let ends: Vec<u8> = ends.iter().flat_map(|end| end.to_le_bytes()).collect();
    chunks.read(&mut ends.as_slice()).map_err(|error| error.of(path))?;
    chunks.finish().map_err(|error| error.of(path))?;
    shards.finish()
}

/// Fills chunks with small rows.
struct Chunks<'a> {
    shards: &'a mut Shards,
    compressor: zstd::bulk::Compressor<'static>,
    /// The chunk at hand, and how much of it is filled.
    chunk: Vec<u8>,
    filled: usize,
}

/// Why a chunk was not written.
enum Failed {
    Io(std::io::Error),
    Output(OutputError),
}

impl Failed {
    fn of(self, path: &Path) -> OutputError {
        match self {
            Failed::Io(error) => OutputError::of(path)(error),
            Failed::Output(error) => error,
        }
    }
}

impl<'a> Chunks<'a> {
    fn new(column: &Column, shards: &'a mut Shards) -> std::io::Result<Self> {
        Ok(Chunks {
            shards,
            compressor: zstd::bulk::Compressor::new(ZSTD_LEVEL)?,
            chunk: vec![0; column.chunk_rows() * column.row_bytes()],
            filled: 0,
        })
    }

    /// Takes all that there is.
    fn read(&mut self, from: &mut impl Read) -> Result<(), Failed> {
        loop {
            match from.read(&mut self.chunk[self.filled..]).map_err(Failed::Io)? {
                0 => return Ok(()),
                read => self.filled += read,
            }
            if self.filled == self.chunk.len() {
                self.write()?;
            }
        }
    }

    /// Writes the last chunk. What no row fills is zero.
    fn finish(mut self) -> Result<(), Failed> {
        match self.filled {
            0 => Ok(()),
            filled => {
                self.chunk[filled..].fill(0);
                self.write()
            }
        }
    }

    fn write(&mut self) -> Result<(), Failed> {
        self.filled = 0;
        let chunk = self.compressor.compress(&self.chunk).map_err(Failed::Io)?;
        self.shards.add(&chunk).map_err(Failed::Output)
    }
}

/// What is said of the arrays and groups of a store, by their paths.
#[derive(Default)]
struct Nodes(BTreeMap<String, Value>);

impl Nodes {
    /// Writes what is said of an array, and notes its groups.
    fn add_array(&mut self, store: &Path, column: &Column, rows: u64) -> Result<(), OutputError> {
        for (at, _) in column.path.match_indices('/') {
            let group = json!({"zarr_format": 3, "node_type": "group", "attributes": {}});
            self.0.entry(column.path[..at].to_owned()).or_insert(group);
        }
        let array = array(column, rows);
        write_json(&store.join(&column.path), &array)?;
        self.0.insert(column.path.clone(), array);
        Ok(())
    }

    /// Writes what is said of the groups. Each repeats what is said of all that it holds, so that readers need
    /// not look for it.
    fn write_groups(&self, store: &Path, attributes: Value) -> Result<(), OutputError> {
        let groups = self.0.iter().filter(|(_, node)| node["node_type"] == "group");
        let groups = groups.map(|(path, _)| (path.as_str(), json!({})));
        for (path, attributes) in groups.chain([("", attributes)]) {
            let below = |name: &str| match path {
                "" => Some(name.to_owned()),
                path => Some(name.strip_prefix(path)?.strip_prefix('/')?.to_owned()),
            };
            let nodes = self.0.iter().filter_map(|(name, node)| Some((below(name)?, node.clone())));
            let group = json!({
                "zarr_format": 3,
                "node_type": "group",
                "attributes": attributes,
                "consolidated_metadata": {
                    "kind": "inline",
                    "must_understand": false,
                    "metadata": nodes.collect::<Map<_, _>>(),
                },
            });
            write_json(&store.join(path), &group)?;
        }
        Ok(())
    }
}

/// What is said of an array.
fn array(column: &Column, rows: u64) -> Value {
    let shape = |rows: u64| -> Vec<u64> {
        std::iter::once(rows).chain(column.row.iter().map(|size| *size as u64)).collect()
    };
    let chunk_rows = column.chunk_rows() as u64;
    let bytes = match column.element.size() {
        1 => json!({"name": "bytes"}),
        _ => json!({"name": "bytes", "configuration": {"endian": "little"}}),
    };
    let zstd = json!({"name": "zstd", "configuration": {"level": ZSTD_LEVEL, "checksum": false}});
    let fill = match column.element {
        Element::Bool => json!(false),
        Element::Float16 | Element::Float32 => json!(0.0),
        _ => json!(0),
    };
    json!({
        "zarr_format": 3,
        "node_type": "array",
        "shape": shape(rows),
        "data_type": column.element,
        "chunk_grid": {
            "name": "regular",
            "configuration": {"chunk_shape": shape(chunk_rows * column.shard_chunks() as u64)},
        },
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "."}},
        "fill_value": fill,
        "codecs": [{
            "name": "sharding_indexed",
            "configuration": {
                "chunk_shape": shape(chunk_rows),
                "codecs": [bytes, zstd],
                "index_codecs": [
                    {"name": "bytes", "configuration": {"endian": "little"}},
                    {"name": "crc32c"},
                ],
                "index_location": "end",
            },
        }],
        "dimension_names": column.dimensions,
        "attributes": column.attributes,
    })
}

/// Writes the metadata of a group or an array into its folder.
fn write_json(folder: &Path, value: &Value) -> Result<(), OutputError> {
    let path = folder.join("zarr.json");
    let written = fs::create_dir_all(folder).and_then(|()| {
        let mut text = serde_json::to_vec_pretty(value)?;
        text.push(b'\n');
        let mut file = fs::File::create(&path)?;
        std::io::Write::write_all(&mut file, &text)?;
        file.sync_all()
    });
    written.map_err(OutputError::of(&path))
}
