//! The stores of tensors that `robocache replay --format zarr` writes.

use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::track::Track;
use robocache_core::encoder::kind;
use robocache_core::message::{SegmentInfo, SegmentRead, TensorInfo, TensorRead};
use robocache_data::episodes::TaskFrom;
use robocache_data::store::read::{Array, about, members};
use robocache_ops::dtype::DType;
use robocache_ops::time::Stamp;

/// The kinds of stores.
const TENSORS: &str = "tensors";
pub(super) const ROWS: &str = "rows";

/// Attributes of an episode in the store.
#[derive(Deserialize)]
pub(super) struct About {
    pub name: String,
    #[serde(default)]
    bag: Option<String>,
    #[serde(default)]
    pub task: Option<String>,
    #[serde(default)]
    pub tasks: Vec<TaskFrom>,
    /// Ticks that do not follow the one before. An end is there, too.
    #[serde(default)]
    breaks: Vec<u64>,
}

/// The list of episodes of a store.
pub(super) fn listed(about: &Value) -> Result<Vec<About>, String> {
    serde_json::from_value(about["episodes"].clone())
        .map_err(|error| format!("a store without a list of episodes: {error}"))
}

/// An episode of a store of tensors.
pub(super) struct Stored {
    pub name: String,
    pub bag: Option<String>,
    /// Its first tick, and the one after its last.
    pub ticks: [u64; 2],
}

/// The episodes of a store of tensors.
pub(super) fn episodes(store: &Path) -> Result<Vec<Stored>, String> {
    let names = listed(&about(store, TENSORS)?)?;
    let mut ends = Array::open(&store.join("meta/episode_ends"), 8)?;
    let mut from = 0;
    let mut next = 0;
    let mut episodes = Vec::new();
    for about in names {
        let end = u64::try_from(ends.number(next + about.breaks.len() as u64)?).unwrap_or(0);
        next += about.breaks.len() as u64 + 1;
        if end < from {
            return Err(format!("episode ends that go back: {from}, then {end}"));
        }
        episodes.push(Stored { name: about.name, bag: about.bag, ticks: [from, end] });
        from = end;
    }
    Ok(episodes)
}

/// The tensors of a store.
pub(super) struct Store {
    /// Meaning of the tensors. There is no text of the base frame in a store.
    pub info: TensorInfo,
    tick: Array,
    stamp: Array,
    segments: Vec<Segment>,
    /// Bytes of a tensor, and what of it is read for curves, validity and ages.
    pub bytes: usize,
    /// See `bytes`.
    pub noted_bytes: usize,
}

struct Segment {
    name: String,
    is_vector: bool,
    dtype: DType,
    values: Array,
    valid: Array,
    target: Array,
    age: Array,
    count: Option<Array>,
}

impl Store {
    /// Opens a store.
    pub(super) fn open(store: &Path) -> Result<Self, String> {
        let about = about(store, TENSORS)?;
        let data = store.join("data");
        let mut info = TensorInfo {
            version: about["version"].as_str().unwrap_or_default().to_owned(),
            config: about["configuration"].as_str().unwrap_or_default().to_owned(),
            config_file: "the configuration of the store".to_owned(),
            ..TensorInfo::default()
        };
        let mut segments = Vec::new();
        let mut bytes = 0;
        let mut noted_bytes = 0;
        for name in members(&data)? {
            let Some(values) = Array::of_segment(&data.join(&name))? else { continue };
            let Some(dtype) = values.dtype() else {
                return Err(format!(
                    "{name}: elements of {:?}, which no tensor has",
                    values.element
                ));
            };
            let mut means: SegmentInfo =
                serde_json::from_value(values.attributes["segment"].clone())
                    .map_err(|error| format!("{name}: what it means cannot be read: {error}"))?;
            dtype.name().clone_into(&mut means.dtype);
            means.shape = values.shape[1..].to_vec();
            // The coordinates of a sparse grid have the steps of its features.
            let of = match means.encoder.as_str() {
                kind::VOXEL_COORDINATES => name.strip_suffix(".coordinates").unwrap_or(&name),
                _ => &name,
            };
            let steps = *values.shape.get(1).ok_or("a segment without steps")?;
            let beside = |what: &str, size: usize| {
                Array::open(&data.join(format!("{of}.{what}")), size * steps)
            };
            let is_vector = means.encoder == kind::VECTOR;
            bytes += values.row_bytes;
            // Of each step: whether it is valid, its target, its age, and how many entries are in use.
            noted_bytes += steps * (1 + 8 + 8 + 4) + if is_vector { values.row_bytes } else { 0 };
            segments.push(Segment {
                is_vector,
                valid: beside("valid", 1)?,
                target: beside("target_ns", 8)?,
                age: beside("age_ns", 8)?,
                count: data
                    .join(format!("{of}.count"))
                    .exists()
                    .then(|| beside("count", 4))
                    .transpose()?,
                name,
                dtype,
                values,
            });
            info.segments.push(means);
        }
        let tick = Array::open(&data.join("tick"), 8)?;
        let stamp = Array::open(&data.join("stamp_ns"), 8)?;
        let mut store = Store { info, tick, stamp, segments, bytes, noted_bytes };
        // The period is the distance of two ticks, over their numbers.
        if store.tick.shape[0] > 1 {
            let ticks = store.tick.number(1)? - store.tick.number(0)?;
            let ns = store.stamp.number(1)? - store.stamp.number(0)?;
            if ticks > 0 && ns > 0 {
                store.info.period_ns = ns / ticks;
                store.info.rate_hz = 1e9 / store.info.period_ns as f64;
            }
        }
        Ok(store)
    }

    /// Notes a tensor in a track. Of images and grids, no elements are read.
    pub(super) fn note(&mut self, tick: u64, track: &mut Track) -> Result<(), String> {
        self.read(tick, false, |tensor| {
            track.note_read(tensor);
        })
    }

    /// Keeps a tensor for pictures: that of the tick at this place of the track.
    pub(super) fn keep(&mut self, tick: u64, at: usize, track: &mut Track) -> Result<(), String> {
        self.read(tick, true, |tensor| track.keep_read(at, tensor))
    }

    /// Reads a tensor, with all elements if it is `whole`, or with those of vectors alone.
    fn read(
        &mut self,
        tick: u64,
        whole: bool,
        take: impl FnOnce(&TensorRead<'_>),
    ) -> Result<(), String> {
        let mut rows = Vec::new();
        for segment in &mut self.segments {
            let numbers = |bytes: &[u8]| -> Vec<i64> {
                bytes.as_chunks().0.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect()
            };
            let targets = numbers(segment.target.row(tick)?);
            let ages_ns = numbers(segment.age.row(tick)?);
            let counts: Vec<u32> = match &mut segment.count {
                Some(count) => {
                    let bytes = count.row(tick)?.as_chunks().0;
                    bytes.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect()
                }
                None => vec![0; targets.len()],
            };
            rows.push((targets, ages_ns, counts));
        }
        let number = self.tick.number(tick)?;
        let stamp = self.stamp.number(tick)?;
        let mut segments = Vec::new();
        for (segment, (targets, ages_ns, counts)) in self.segments.iter_mut().zip(rows) {
            segments.push(SegmentRead {
                name: segment.name.clone(),
                dtype: segment.dtype,
                shape: segment.values.shape[1..].to_vec(),
                byte_offset: 0,
                valid: segment.valid.row(tick)?,
                targets: targets.into_iter().map(Stamp::from_nanos).collect(),
                ages_ns,
                counts,
                bytes: match whole || segment.is_vector {
                    true => segment.values.row(tick)?,
                    false => &[],
                },
            });
        }
        let stamp = Stamp::from_nanos(stamp);
        take(&TensorRead { stamp, tick: number as u64, segments, len: self.bytes });
        Ok(())
    }
}
