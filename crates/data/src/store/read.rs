//! Reads the stores that `robocache replay --format zarr` and `--format rows` write: Zarr v3, one shard along all
//! but the first dimension, zstd or JPEG, crc32c.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde::Deserialize;
use serde_json::Value;

use super::shard::ShardReader;
use super::zarr::{BLUE_FIRST, CHANNELS_LAST, JPEG_CODEC};
use super::{Codec, Element, FORMAT_VERSION, chunk};
use robocache_core::codec::JpegRow;
use robocache_ops::dtype::DType;
use robocache_ops::image::{Color, ImageLayout};
use robocache_ops::sync::lock;

/// Largest chunk \[bytes\], and most chunks of a shard.
const MAX_CHUNK: usize = 1 << 30;
const MAX_CHUNKS: u64 = 1 << 20;
/// An array: rows along its first dimension.
pub struct Array {
    folder: PathBuf,
    /// Its shape.
    pub shape: Vec<usize>,
    /// Rows of a chunk, and chunks of a shard.
    chunk_rows: u64,
    shard_chunks: u64,
    /// The type of its elements.
    pub element: Element,
    /// Attributes of the array in the store.
    pub attributes: Value,
    /// Size of a row \[bytes\].
    pub row_bytes: usize,
    /// How its chunks are compressed.
    pub(crate) codec: Codec,
    /// The shard at hand, and its number.
    shard: Option<(u64, ShardReader)>,
    /// The chunk at hand.
    chunk: Option<(u64, Vec<u8>)>,
    unpack: Option<chunk::Unpack>,
}

/// Files of shards, and of each row the number of its file, the place and the length of its chunk.
pub type RowPlaces = (Vec<PathBuf>, Vec<(u32, u64, u32)>);

/// The parts of `zarr.json` that are read.
#[derive(Deserialize)]
struct Meta {
    shape: Vec<u64>,
    data_type: Element,
    chunk_grid: Named<Chunks>,
    codecs: Vec<Named<Shards>>,
    #[serde(default)]
    attributes: Value,
}

#[derive(Deserialize)]
struct Named<T> {
    name: String,
    configuration: T,
}

#[derive(Deserialize)]
struct Chunks {
    chunk_shape: Vec<u64>,
}

#[derive(Deserialize)]
struct Shards {
    chunk_shape: Vec<u64>,
    /// Of a chunk.
    codecs: Vec<Value>,
}

/// The key of a store of tensors that has rows, too: the names of their streams.
pub const ROWS_OF: &str = "rows_of";

/// Attributes of a store that has rows: a store of rows, or one of tensors with the rows of some streams.
pub fn about_rows(store: &Path) -> Result<Value, String> {
    about(store, "rows").or_else(|why| {
        let about = about(store, "tensors").ok();
        about.filter(|about| about[ROWS_OF].is_array()).ok_or(why)
    })
}

/// Attributes of a store, which must be of this kind.
pub fn about(store: &Path, kind: &str) -> Result<Value, String> {
    let about = told(store)?;
    if about["kind"] != kind {
        return Err(format!("a store of kind {}; expected \"{kind}\"", about["kind"]));
    }
    let version = &about["format_version"];
    if version != FORMAT_VERSION {
        return Err(format!(
            "a store of {kind} of format {version}; expected format {FORMAT_VERSION}: replay or import it again"
        ));
    }
    Ok(about)
}

/// True if a folder has a store of this kind, of any format.
pub fn is_of(store: &Path, kind: &str) -> bool {
    told(store).is_ok_and(|about| about["kind"] == kind)
}

/// Attributes of a store of any kind and format.
fn told(store: &Path) -> Result<Value, String> {
    let mut root = json(&store.join("zarr.json"))?;
    let about = root.get_mut("attributes").and_then(|all| all.get_mut("robocache"));
    Ok(about.map(Value::take).unwrap_or_default())
}

/// The rows of each episode in the arrays of a folder, which have `rows` rows: `episode_begins` and `episode_ends`.
pub fn spans(folder: &Path, rows: u64) -> Result<Vec<Range<u64>>, String> {
    let numbers = |name: &str| -> Result<Vec<u64>, String> {
        let mut array = Array::open(&folder.join(name), 8)?;
        let count = array.rows();
        let number = |at| Ok(u64::try_from(array.number(at)?).unwrap_or(u64::MAX));
        (0..count).map(number).collect()
    };
    let ends = numbers("episode_ends")?;
    let begins = numbers("episode_begins")?;
    let spans: Vec<Range<u64>> =
        begins.iter().zip(&ends).map(|(begin, end)| *begin..*end).collect();
    let mut last = 0;
    let in_order = |span: &Range<u64>| {
        let fits = last <= span.start && span.start <= span.end;
        last = span.end;
        fits
    };
    if begins.len() != ends.len() || !spans.iter().all(in_order) || last != rows {
        let what =
            format!("{}: expected begins and ends of episodes up to {rows}", folder.display());
        return Err(what + ", found others");
    }
    Ok(spans)
}

/// The names of the arrays and groups of a group, in their order.
pub fn members(group: &Path) -> Result<Vec<String>, String> {
    let wrong = |error: std::io::Error| format!("{}: {error}", group.display());
    let mut names = Vec::new();
    for entry in fs::read_dir(group).map_err(wrong)? {
        let entry = entry.map_err(wrong)?;
        if entry.path().join("zarr.json").exists() {
            names.extend(entry.file_name().to_str().map(str::to_owned));
        }
    }
    names.sort();
    Ok(names)
}

fn json(path: &Path) -> Result<Value, String> {
    let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let bytes = fs::read(path).map_err(|error| wrong(&error))?;
    serde_json::from_slice(&bytes).map_err(|error| wrong(&error))
}

impl Array {
    /// Opens an array whose rows have `row_bytes` bytes.
    pub fn open(folder: &Path, row_bytes: usize) -> Result<Self, String> {
        let array = Self::of(folder)?;
        match array.row_bytes == row_bytes {
            true => Ok(array),
            false => {
                Err(array
                    .wrong(&format!("rows of {} bytes, expected {row_bytes}", array.row_bytes)))
            }
        }
    }

    /// Opens an array if it has the values of a segment.
    pub fn of_segment(folder: &Path) -> Result<Option<Self>, String> {
        let array = Self::of(folder)?;
        Ok(array.attributes.get("segment").is_some().then_some(array))
    }

    /// Opens an array.
    pub fn of(folder: &Path) -> Result<Self, String> {
        let wrong = |what: &str| format!("{}: {what}", folder.display());
        let meta = json(&folder.join("zarr.json"))?;
        let Meta { shape, data_type, chunk_grid, codecs, attributes } =
            serde_json::from_value(meta).map_err(|error| wrong(&error.to_string()))?;
        let sizes =
            |shape: Vec<u64>| shape.into_iter().map(|dim| usize::try_from(dim).ok()).collect();
        let shape: Option<Vec<usize>> = sizes(shape);
        let shape = shape.ok_or_else(|| wrong("a shape that is too large"))?;
        if shape.is_empty() {
            return Err(wrong("expected a dimension or more"));
        }
        let [codec] = &codecs[..] else {
            return Err(wrong("expected one codec, sharding_indexed"));
        };
        let shard = &chunk_grid.configuration.chunk_shape;
        let chunk = &codec.configuration.chunk_shape;
        let whole = |parts: &[u64]| {
            parts.get(1..) == Some(&shape.iter().skip(1).map(|d| *d as u64).collect::<Vec<_>>()[..])
        };
        if codec.name != "sharding_indexed" || !whole(shard) || !whole(chunk) || chunk[0] == 0 {
            return Err(wrong("expected shards and chunks along the first dimension alone"));
        }
        let row_bytes =
            shape[1..].iter().try_fold(data_type.size(), |len, dim| len.checked_mul(*dim));
        let row_bytes = row_bytes.ok_or_else(|| wrong("a row that is too large"))?;
        let chunk_bytes =
            usize::try_from(chunk[0]).ok().and_then(|rows| rows.checked_mul(row_bytes));
        let chunks = shard[0] / chunk[0];
        if chunk_bytes.is_none_or(|bytes| bytes > MAX_CHUNK) || !(1..=MAX_CHUNKS).contains(&chunks)
        {
            return Err(wrong("chunks or shards that are too large"));
        }
        let codec = codec_of(&codec.configuration.codecs, &shape[1..], data_type, chunk[0])
            .map_err(|error| wrong(&error))?;
        Ok(Array {
            folder: folder.to_owned(),
            codec,
            shape,
            chunk_rows: chunk[0],
            shard_chunks: chunks,
            element: data_type,
            attributes,
            row_bytes,
            shard: None,
            chunk: None,
            unpack: None,
        })
    }

    /// An error that names it.
    pub fn wrong(&self, what: &str) -> String {
        format!("{}: {what}", self.folder.display())
    }

    /// How many rows it has.
    pub fn rows(&self) -> u64 {
        self.shape[0] as u64
    }

    /// The type of its elements, if tensors and rows have it.
    pub fn dtype(&self) -> Option<DType> {
        DType::ALL.into_iter().find(|dtype| Element::of(*dtype) == self.element)
    }

    /// A number of an array of them.
    pub fn number(&mut self, at: u64) -> Result<i64, String> {
        let bytes = self.row(at)?.first_chunk().copied();
        bytes.map(i64::from_le_bytes).ok_or_else(|| self.wrong("no numbers of 64 bits"))
    }

    /// The bytes of a row.
    pub fn row(&mut self, at: u64) -> Result<&[u8], String> {
        if at >= self.shape[0] as u64 {
            return Err(self.wrong(&format!("expected row {at}, found {} rows", self.shape[0])));
        }
        let chunk = at / self.chunk_rows;
        if self.chunk.as_ref().is_none_or(|(number, _)| *number != chunk) {
            self.chunk = Some((chunk, self.read_chunk(chunk)?));
        }
        let start = (at % self.chunk_rows) as usize * self.row_bytes;
        let bytes = self.chunk.as_ref().map(|(_, bytes)| bytes.as_slice()).unwrap_or_default();
        bytes
            .get(start..start + self.row_bytes)
            .ok_or_else(|| self.wrong("a chunk that is too short"))
    }

    /// Opens it once more, for another thread.
    fn again(&self) -> Self {
        Array {
            folder: self.folder.clone(),
            shape: self.shape.clone(),
            attributes: Value::Null,
            shard: None,
            chunk: None,
            unpack: None,
            ..*self
        }
    }

    /// Reads rows into `out`, which has their size: those of the ranges, one range after the other, on `threads`
    /// threads.
    pub fn read_ranges(
        &self,
        ranges: &[Range<u64>],
        out: &mut [u8],
        threads: usize,
    ) -> Result<(), String> {
        // By chunk: where in it a piece begins, and where it goes.
        let mut pieces: BTreeMap<u64, Vec<(usize, &mut [u8])>> = BTreeMap::new();
        let mut rest = out;
        for range in ranges {
            let mut at = range.start;
            while at < range.end {
                let chunk = at / self.chunk_rows;
                let end = range.end.min((chunk + 1).saturating_mul(self.chunk_rows));
                let bytes = (end - at) as usize * self.row_bytes;
                if range.end > self.rows() || bytes > rest.len() {
                    let rows = self.rows();
                    return Err(self.wrong(&format!("rows up to {}, expected {rows}", range.end)));
                }
                let (piece, others) = rest.split_at_mut(bytes);
                let begin = (at % self.chunk_rows) as usize * self.row_bytes;
                pieces.entry(chunk).or_default().push((begin, piece));
                (rest, at) = (others, end);
            }
        }
        let work = Mutex::new(pieces.into_iter());
        let take = || lock(&work).next();
        let one = || -> Result<(), String> {
            let mut array = self.again();
            while let Some((chunk, pieces)) = take() {
                let chunk = array.read_chunk(chunk)?;
                for (begin, piece) in pieces {
                    piece.copy_from_slice(&chunk[begin..begin + piece.len()]);
                }
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(one)).collect();
            let failed = || Err(self.wrong("a thread that reads it panicked"));
            let rest = others.into_iter().map(|other| other.join().unwrap_or_else(|_| failed()));
            rest.fold(one(), Result::and)
        })
    }

    /// True if each row is a chunk of its own.
    pub fn has_row_chunks(&self) -> bool {
        self.chunk_rows == 1
    }

    /// Places of the chunks of these rows, if each row is one: the files, and for each row the number of its file, the
    /// place and the length of its chunk. The length of a missing chunk is 0.
    pub fn row_places(&self, ranges: &[Range<u64>]) -> Result<RowPlaces, String> {
        let mut files = Vec::new();
        let mut places = Vec::new();
        let mut at_hand: Option<(u64, ShardReader)> = None;
        for row in ranges.iter().cloned().flatten() {
            let number = row / self.shard_chunks;
            if at_hand.as_ref().is_none_or(|(shard, _)| *shard != number) {
                let path = self.shard_path(number);
                at_hand = Some((number, self.open_shard(&path)?));
                files.push(path);
            }
            let Some((_, shard)) = &at_hand else { continue };
            let [at, len] = shard.place(row % self.shard_chunks).unwrap_or_default();
            let len = u32::try_from(len).map_err(|_| self.wrong("a chunk that is too large"))?;
            places.push((files.len() as u32 - 1, at, len));
        }
        Ok((files, places))
    }

    fn shard_path(&self, number: u64) -> PathBuf {
        self.folder.join(format!("c.{number}{}", ".0".repeat(self.shape.len() - 1)))
    }

    fn open_shard(&self, path: &Path) -> Result<ShardReader, String> {
        let opened = ShardReader::open(path, self.shard_chunks as usize);
        opened.map_err(|error| format!("{}: {error}", path.display()))
    }

    fn read_chunk(&mut self, chunk: u64) -> Result<Vec<u8>, String> {
        let size = self.chunk_rows as usize * self.row_bytes;
        let shard = chunk / self.shard_chunks;
        if self.shard.as_ref().is_none_or(|(number, _)| *number != shard) {
            self.shard = Some((shard, self.open_shard(&self.shard_path(shard))?));
        }
        let Some((_, shard)) = &self.shard else { return Ok(Vec::new()) };
        let Some(place) = shard.place(chunk % self.shard_chunks) else {
            // A missing chunk has the fill value, which is zero.
            return Ok(vec![0; size]);
        };
        let mut packed = Vec::new();
        let read = chunk::read(shard.file(), place, &mut packed);
        let mut bytes = vec![0; size];
        let unpack = match self.unpack.take() {
            Some(unpack) => Ok(unpack),
            None => chunk::Unpack::new(),
        };
        let unpacked = read.and(unpack).and_then(|unpack| {
            let unpack = self.unpack.insert(unpack);
            unpack.chunk(self.codec, &packed, &mut bytes)
        });
        unpacked.map_err(|error| self.wrong(&format!("chunk {chunk}: {error}")))?;
        Ok(bytes)
    }
}

/// The part of the configuration of [`JPEG_CODEC`] that bears on rows.
#[derive(Deserialize)]
struct JpegConfiguration {
    level: u8,
    #[serde(default)]
    colorspace_data: Option<String>,
}

/// How a chunk is compressed, of what its array says. `row` is the shape of a row, the type of its elements, and how many
/// rows a chunk has.
fn codec_of(
    codecs: &[Value],
    row: &[usize],
    element: Element,
    chunk_rows: u64,
) -> Result<Codec, String> {
    let name = |codec: &Value| codec["name"].as_str().unwrap_or_default().to_owned();
    let names: Vec<String> = codecs.iter().map(name).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (layout, jpeg) = match names[..] {
        ["bytes", "zstd", "crc32c"] => return Ok(Codec::Zstd),
        [JPEG_CODEC, "crc32c"] => (ImageLayout::Hwc, &codecs[0]),
        ["transpose", JPEG_CODEC, "crc32c"]
            if codecs[0]["configuration"]["order"] == serde_json::json!(CHANNELS_LAST) =>
        {
            (ImageLayout::Chw, &codecs[1])
        }
        _ => {
            return Err(format!(
                "expected chunks of zstd or {JPEG_CODEC} with crc32c, found {}",
                names.join(", ")
            ));
        }
    };
    let about = JpegConfiguration::deserialize(&jpeg["configuration"])
        .map_err(|error| format!("the configuration of {JPEG_CODEC}: {error}"))?;
    let (height, width, channels) = match (row, layout) {
        ([channels, height, width], ImageLayout::Chw)
        | ([height, width, channels], ImageLayout::Hwc) => (*height, *width, *channels),
        _ => (0, 0, 0),
    };
    let color = match (channels, about.colorspace_data.as_deref()) {
        (3, None) => Some(Color::Rgb),
        (3, Some(BLUE_FIRST)) => Some(Color::Bgr),
        (1, None) => Some(Color::Mono),
        _ => None,
    };
    let color = color.filter(|_| element == Element::Uint8 && chunk_rows == 1);
    let color = color.ok_or_else(|| {
        format!(
            "expected a uint8 image of 1 or 3 channels per chunk of {JPEG_CODEC}, found {chunk_rows} of shape {row:?}"
        )
    })?;
    Ok(Codec::Jpeg(JpegRow { quality: about.level, width, height, color, layout }))
}
