//! Reads the stores of `robocache replay --format rows`.

use std::path::Path;
use std::sync::Arc;

use super::{About, Column, EpisodeError, Episodes, Means, Owned, RawEpisodes, RawRing, RawStream};
use crate::zarr::{self, Array};

impl Episodes {
    /// Reads a store: all streams, or those of these names. `threads` read at once.
    ///
    /// # Errors
    /// It is no such store, of another format, or damaged; or a stream that is named is not there.
    pub fn of_store(
        store: &Path,
        streams: Option<&[String]>,
        threads: usize,
    ) -> Result<Self, EpisodeError> {
        let wrong = |error: String| EpisodeError::Store(format!("{}: {error}", store.display()));
        let mut about = zarr::about(store, "rows").map_err(wrong)?;
        let episodes: Vec<About> = serde_json::from_value(about["episodes"].take())
            .map_err(|error| wrong(format!("a store without a list of episodes: {error}")))?;
        let known = zarr::members(&store.join("streams")).map_err(wrong)?;
        let names = match streams {
            None => known,
            Some(names) => {
                if let Some(name) = names.iter().find(|name| !known.contains(name)) {
                    return Err(EpisodeError::of(
                        "stream",
                        format!("one of {}", known.join(", ")),
                        name,
                    ));
                }
                names.to_vec()
            }
        };
        let read = |name: &String| read_stream(&store.join("streams").join(name), threads);
        let streams = names.iter().map(read).collect::<Result<Vec<_>, _>>();
        let configuration = about["configuration"].as_str().unwrap_or_default().to_owned();
        let streams = streams.map_err(EpisodeError::Store)?;
        Episodes::new(RawEpisodes { configuration, episodes, streams })
    }
}

fn read_stream(folder: &Path, threads: usize) -> Result<RawStream, String> {
    let wrong = |error: String| format!("{}: {error}", folder.display());
    let mut groups: Vec<usize> = Vec::new();
    for group in zarr::members(folder)? {
        groups.push(group.parse().map_err(|_| wrong(format!("a group named {group}")))?);
    }
    // By number: 10 is after 9.
    groups.sort_unstable();
    let (mut abouts, mut stored, mut rings) = (Vec::new(), Vec::new(), Vec::new());
    let (mut plans, mut coordinates_shape) = (false, None);
    for group in groups {
        let folder = folder.join(group.to_string());
        let rows = Array::of(&folder.join("rows"))?;
        stored.push(rows.dtype().ok_or_else(|| rows.wrong("elements that no row has"))?);
        abouts.push(rows.attributes["ring"].clone());
        let some = |name: &str| -> Result<Option<Column>, String> {
            let path = folder.join(name);
            path.exists().then(|| read(&Array::of(&path)?, threads)).transpose()
        };
        let all = |name: &str| read(&Array::of(&folder.join(name))?, threads);
        let ends = read(&Array::open(&folder.join("episode_ends"), 8)?, threads)?;
        let ends = ends.bytes().as_chunks::<8>().0.iter().map(|end| u64::from_le_bytes(*end));
        let ends = ends.collect();
        let until_next = some("until_next")?;
        let places = folder.join("coordinates");
        if places.exists() {
            coordinates_shape = Array::of(&places)?.shape.get(1..).map(<[usize]>::to_vec);
        }
        plans |= until_next.is_some();
        rings.push(RawRing {
            rows: read(&rows, threads)?,
            stamp_ns: all("stamp_ns")?,
            received_ns: all("received_ns")?,
            left_ns: all("left_ns")?,
            replaced: all("replaced")?,
            epoch: Some(all("epoch")?),
            until_next,
            until_ns: some("until_ns")?,
            count: some("count")?,
            coordinates: some("coordinates")?,
            ends,
        });
    }
    let means = Means::of_store(&abouts, &stored, plans, coordinates_shape).map_err(wrong)?;
    Ok(RawStream { means, rings })
}

/// All rows of an array.
fn read(array: &Array, threads: usize) -> Result<Column, String> {
    let len = usize::try_from(array.rows()).ok().and_then(|rows| rows.checked_mul(array.row_bytes));
    let owned = len.and_then(Owned::of_len);
    let mut owned = owned.ok_or_else(|| array.wrong("more bytes than there is memory"))?;
    array.read_all(owned.bytes_mut(), threads)?;
    Ok(Arc::new(owned))
}
