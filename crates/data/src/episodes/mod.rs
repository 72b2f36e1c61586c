//! Episodes as rows at their own stamps, and windows of them: what training reads.
//!
//! 1. [`Episodes`] come from a store of `robocache replay --format rows` ([`Episodes::of_store`]), from arrays
//!    ([`Episodes::new`]), or from a folder where they were saved ([`Episodes::open`]).
//! 2. [`Episodes::plan`] prepares what depends on the configuration alone.
//! 3. [`Episodes::windows`] writes the windows of a batch.
//!
//! If an episode lacks a stream, the stream has no rows there. Every step of its windows is invalid there, and
//! filled as a step without any row is. If the caller requires the stream, it is an error.

mod available;
mod build;
#[cfg(feature = "cuda")]
#[allow(unsafe_code)] // launches; every block says why it is sound
pub mod device;
mod finite;
mod held;
mod mapped;
mod means;
mod memory;
mod packed;
mod request;
mod saved;
mod statistics;
mod store;
mod tasks;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

pub use build::{Described, RawEpisodes, RawRing, RawStream};
pub use means::RowMeaning;
pub use memory::{Bytes, Column, Owned, RowColumn};
pub use packed::Packed;
pub use request::{AskedActions, Choice, WindowBatch};
pub use statistics::{ChannelStatistics, statistics};
pub use store::Reading;
pub use tasks::TaskFrom;

use crate::recording::Mark;
use robocache_ops::windows::{RingRows, SpanRows, WindowError};

/// Why episodes cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum EpisodeError {
    /// The content is not as expected.
    #[error("{what}: expected {expected}, found {found}")]
    Mismatch {
        /// Name of the content, for people.
        what: String,
        /// Content that was expected.
        expected: String,
        /// Content that was found instead.
        found: String,
    },
    /// A store is damaged or cannot be read.
    #[error("{0}")]
    Store(String),
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A GPU failed.
    #[error("{0}")]
    Device(String),
    /// Windows cannot be made.
    #[error(transparent)]
    Windows(#[from] WindowError),
}

impl EpisodeError {
    /// The error of a part that is not what it must be.
    pub fn of(what: impl Into<String>, expected: impl ToString, found: impl ToString) -> Self {
        let expected = expected.to_string();
        let found = found.to_string();
        EpisodeError::Mismatch { what: what.into(), expected, found }
    }
}

/// Description of an episode.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub struct About {
    /// Its name.
    pub name: String,
    /// The task that the robot was given; of several the first.
    #[serde(default)]
    pub task: Option<String>,
    /// All of its tasks, in the order of their begins; empty if the task never changes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<TaskFrom>,
    /// The matrix and the range of each video that it was decoded of, by the name of the feature.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub colours: BTreeMap<String, String>,
    /// The bag that it was made of.
    #[serde(default)]
    pub bag: Option<String>,
    /// Its begin, if it is of a recording whose first rows are from before it \[ns\]; `None` also under a simulator's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begins_ns: Option<i64>,
    /// Notes that were made while it was recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<Mark>,
}

/// An epoch of the clock in an episode. Rows of different epochs never meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub struct Span {
    /// The number of the episode.
    pub episode: u32,
    /// The number of the epoch.
    pub epoch: i64,
    /// When the first of its rows came \[ns\].
    pub begin_ns: i64,
    /// When the last of its rows came \[ns\].
    pub end_ns: i64,
}

/// Rows of many episodes. A clone shares the columns.
#[derive(Clone)]
pub struct Episodes {
    /// The text of the configuration; empty if unknown.
    pub configuration: String,
    /// The contract of the tensors that a replay makes of these rows, as JSON; `None` if unknown.
    pub contract: Option<serde_json::Value>,
    /// From a tick to the next, or from a frame of a dataset to the next \[ns\]; `None` if unknown.
    pub period_ns: Option<i64>,
    /// The episodes, in their order.
    pub episodes: Vec<About>,
    /// The texts of all tasks, each once. They are those of the whole store, so that a number means the same for each
    /// choice of episodes.
    pub tasks: Vec<String>,
    /// The epochs: by episode, then by number. Each episode has at least one.
    pub spans: Vec<Span>,
    /// The streams, in the order of their names.
    pub streams: Vec<Stream>,
}

/// The rows of a stream.
#[derive(Clone)]
pub struct Stream {
    /// Meaning of the rows.
    pub means: RowMeaning,
    /// Its rings: one per group of a vector, otherwise one.
    pub rings: Vec<Ring>,
    held: Arc<finite::HeldBy>,
}

impl Stream {
    fn new(means: RowMeaning, rings: Vec<Ring>) -> Self {
        Stream { means, rings, held: Arc::default() }
    }
}

/// The rows of a ring, of all episodes. The columns are as in docs/stores.md.
#[derive(Clone)]
pub struct Ring {
    /// The encoded rows.
    pub rows: RowColumn,
    /// The instant of each row \[ns\].
    pub stamp_ns: Column,
    /// From when on ticks saw the row \[ns\].
    pub received_ns: Column,
    /// Until when ticks saw the row \[ns\].
    pub left_ns: Column,
    /// Flag of each row: 1 if a later message replaced it, otherwise 0.
    pub replaced: Column,
    /// Of plans: what is between a row and the next.
    pub until_next: Option<Column>,
    /// Of merged clouds: until when the cloud of each input may be used \[ns\].
    pub until_ns: Option<Column>,
    /// Of sparse grids: voxels in use.
    pub count: Option<Column>,
    /// Of sparse grids: where the voxels are.
    pub coordinates: Option<Column>,
    /// The rows of each span.
    pub spans: Vec<SpanRows>,
    received_from: Vec<i64>,
    left_until: Vec<i64>,
}

impl Ring {
    /// How many rows it has.
    pub fn len(&self) -> usize {
        self.stamp_ns.bytes().len() / size_of::<i64>()
    }

    /// True if the ring has no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The rows for windows.
    pub(crate) fn view(&self) -> Result<RingRows<'_>, EpisodeError> {
        let until_ns = self.until_ns.as_ref().map(|column| memory::numbers(column, "until_ns"));
        let count = self.count.as_ref().map(|column| memory::numbers(column, "count"));
        Ok(RingRows {
            rows: self.rows.view(),
            stamp_ns: memory::numbers(&self.stamp_ns, "stamp_ns")?,
            received_ns: memory::numbers(&self.received_ns, "received_ns")?,
            left_ns: memory::numbers(&self.left_ns, "left_ns")?,
            replaced: self.replaced.bytes(),
            received_from: &self.received_from,
            left_until: &self.left_until,
            until_next: self.until_next.as_ref().map_or(&[], |column| column.bytes()),
            until_ns: until_ns.transpose()?.unwrap_or_default(),
            count: count.transpose()?.unwrap_or_default(),
            coordinates: self.coordinates.as_ref().map_or(&[], |column| column.bytes()),
            spans: &self.spans,
        })
    }

    /// Bytes of all columns.
    pub fn byte_len(&self) -> usize {
        let columns = self.columns();
        let others: usize = columns.iter().map(|(_, column)| column.bytes().len()).sum();
        self.rows.byte_len() + others
    }

    /// The columns beside the rows that it has, by their names.
    pub(crate) fn columns(&self) -> Vec<(&'static str, &Column)> {
        let always = [
            ("stamp_ns", &self.stamp_ns),
            ("received_ns", &self.received_ns),
            ("left_ns", &self.left_ns),
            ("replaced", &self.replaced),
        ];
        let some = [
            ("until_next", &self.until_next),
            ("until_ns", &self.until_ns),
            ("count", &self.count),
            ("coordinates", &self.coordinates),
        ];
        let some = some.into_iter().filter_map(|(name, column)| Some((name, column.as_ref()?)));
        always.into_iter().chain(some).collect()
    }
}

impl Episodes {
    /// A stream.
    ///
    /// # Errors
    /// The name is unknown.
    pub fn stream(&self, name: &str) -> Result<(usize, &Stream), EpisodeError> {
        let found = self.streams.iter().enumerate().find(|(_, stream)| stream.means.name == name);
        found.ok_or_else(|| {
            let names: Vec<&str> =
                self.streams.iter().map(|stream| stream.means.name.as_str()).collect();
            EpisodeError::of("stream", format!("one of {}", names.join(", ")), name)
        })
    }

    /// By span the first and the last instant at which a stream has a row of every group at the step of its lag
    /// \[ns\]. The last is before the first if it has none.
    ///
    /// # Errors
    /// The name is unknown.
    pub fn reach(&self, name: &str) -> Result<Vec<(i64, i64)>, EpisodeError> {
        let (_, stream) = self.stream(name)?;
        let means = &stream.means;
        let lag = means.target_offsets_ns.get(means.present).map_or(0, |offset| -offset);
        let begins = |span: &Span| self.episodes[span.episode as usize].begins_ns;
        let from = self.spans.iter().map(|span| (begins(span).unwrap_or(i64::MIN), i64::MAX));
        let mut reach: Vec<(i64, i64)> = from.collect();
        for ring in &stream.rings {
            let stamps: &[i64] = memory::numbers(&ring.stamp_ns, "stamp_ns")?;
            for (reach, rows) in reach.iter_mut().zip(&ring.spans) {
                let Some((first, last)) = rows.range().next().zip(rows.range().next_back()) else {
                    *reach = (0, -1);
                    continue;
                };
                // A tick has a row when it has come.
                let came = if means.arrivals { ring.received_from[first] } else { i64::MIN };
                reach.0 = reach.0.max(stamps[first].saturating_add(lag)).max(came);
                reach.1 = reach.1.min(stamps[last].saturating_add(lag));
            }
        }
        Ok(reach)
    }

    /// The span of an episode at an instant: the latest epoch that had begun, or else the first. If the clock jumped
    /// back, an instant may be in several; then the caller names the `epoch`.
    ///
    /// # Errors
    /// There is no such episode or epoch.
    pub fn span_at(
        &self,
        episode: i64,
        instant_ns: i64,
        epoch: Option<i64>,
    ) -> Result<u32, EpisodeError> {
        let number = u32::try_from(episode).ok().filter(|e| (*e as usize) < self.episodes.len());
        let number = number.ok_or_else(|| {
            let expected = format!("a number from 0 to {}", self.episodes.len().saturating_sub(1));
            EpisodeError::of("episode", expected, episode)
        })?;
        let first = self.spans.partition_point(|span| span.episode < number);
        let mine = self.spans[first..].iter().take_while(|span| span.episode == number);
        let found = match epoch {
            Some(epoch) => mine.clone().position(|span| span.epoch == epoch),
            None => {
                // After a jump back, a later epoch may begin at an earlier instant.
                let begun = |(_, span): &(usize, &Span)| span.begin_ns <= instant_ns;
                Some(mine.clone().enumerate().filter(begun).last().map_or(0, |(at, _)| at))
            }
        };
        found.map(|at| (first + at) as u32).ok_or_else(|| {
            let known: Vec<String> = mine.map(|span| span.epoch.to_string()).collect();
            let expected = format!("one of {}", known.join(", "));
            EpisodeError::of(format!("epoch of episode {episode}"), expected, epoch.unwrap_or(0))
        })
    }
}
