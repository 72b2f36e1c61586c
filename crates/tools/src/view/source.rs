//! Sources of tensors.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::commands::{self, GroupTrack};
use super::store::{self, Store};
use super::track::{MAX_TICKS, Track};
use robocache_core::message::TensorInfo;
use robocache_data::bag::{Bag, BagError, Problems};
use robocache_data::replay::{ReplayError, Summary, store_summaries, summaries};
use robocache_data::store::read::is_of;
use robocache_ops::time::Stamp;

/// The types of a topic with tensors, and of the one that says what they mean.
const FUSED_TENSOR: &str = "robocache_ros/msg/FusedTensor";
const FUSED_TENSOR_INFO: &str = "robocache_ros/msg/FusedTensorInfo";
/// The stores of tensors and of rows in a folder of results, and the file that makes a folder a store.
const TENSORS: &str = "tensors.zarr";
const ROWS: &str = "rows.zarr";
const STORE_META: &str = "zarr.json";
/// If not all tensors are read, this many are read along the episode, beside those of one stretch.
const SPOTS: i64 = 48;

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum ViewError {
    /// A bag or an MCAP file.
    #[error(transparent)]
    Bag(#[from] BagError),
    /// The messages of a bag cannot be made rows.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// No episode that is shown was made of the bag that is compared.
    #[error("--bag {}: {found}expected the bag of {episodes}; --episode NAME chooses an episode", bag.display())]
    Against {
        /// The bag.
        bag: PathBuf,
        /// Of which other episodes it is; empty if of none that is known.
        found: String,
        /// The episodes that would be shown, with their bags.
        episodes: String,
    },
    /// There are no tensors that a bag could be compared with.
    #[error("{}: --bag compares tensors with the rows of their bag; {why}", path.display())]
    NotCompared {
        /// The output that would be shown.
        path: PathBuf,
        /// The kind of that output.
        why: &'static str,
    },
    /// The bag for the comparison is missing.
    #[error("--bag {}: {source}", path.display())]
    NoBag {
        /// Its path.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file or a folder.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// There are no tensors.
    #[error("{}: expected tensors, which `robocache replay` writes, found {found}", path.display())]
    NoTensors {
        /// The folder or file.
        path: PathBuf,
        /// Description of what is there instead.
        found: String,
    },
    /// A report of another program is not of its format.
    #[error("{}: expected a report with the keys of docs/view.md: {why}", path.display())]
    Written {
        /// Which.
        path: PathBuf,
        /// The fault.
        why: String,
    },
    /// There is no Rerun recording; in words.
    #[error("{0}")]
    Rerun(String),
    /// There is no such episode.
    #[error("{}: expected an episode of {expected}, found '{found}'", path.display())]
    Episode {
        /// The output.
        path: PathBuf,
        /// The names that there are.
        expected: String,
        /// The name that was asked for.
        found: String,
    },
}

/// Files by which a folder of a dataset is known: LeRobot's, and those of RLDS.
const DATASETS: [&str; 2] = ["meta/info.json", "features.json"];

/// An episode of an output.
#[derive(Clone, Debug)]
pub struct Episode {
    /// Its name: that of the file.
    pub name: String,
    /// Summary by `robocache replay`, of all ticks.
    pub summary: Option<Summary>,
    /// The bag that it was made of, if that is known.
    pub bag: Option<String>,
    path: PathBuf,
    /// Of a store: its number, its first tick, and the one after its last. `None`: a bag.
    ticks: Option<(usize, [u64; 2])>,
}

/// How much of an episode was looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Looked {
    /// Tensors of the episode, if that is known.
    pub ticks: Option<u64>,
    /// True if not all tensors were looked at.
    pub partly: bool,
    /// Problems of reading.
    pub problems: Vec<String>,
}

impl Looked {
    /// Description of what is shown, in a sentence.
    pub fn text(&self, track: &Track) -> String {
        let seen = track.ticks.len();
        let all = self.ticks.map_or("an unknown number of".to_owned(), |ticks| ticks.to_string());
        let malformed = match track.malformed {
            0 => String::new(),
            count => format!(" {count} messages are no tensors of this version and are left out."),
        };
        match (self.partly, seen) {
            (_, 0) => format!("There are no tensors.{malformed}"),
            (false, _) => format!("All {seen} tensors were looked at.{malformed}"),
            (true, _) => format!(
                "{seen} of {all} tensors were looked at: one stretch without gaps, and some along the whole \
                 episode.{malformed}"
            ),
        }
    }
}

/// The store of rows that is here, or in a folder without tensors.
pub(super) fn store_of_rows(path: &Path) -> Option<PathBuf> {
    let is_of_rows = |store: &Path| is_of(store, store::ROWS);
    if is_of_rows(path) {
        return Some(path.to_owned());
    }
    let rows = path.join(ROWS);
    let is_alone = || {
        !is_store(&path.join(TENSORS)) && matches!(episodes(path), Err(ViewError::NoTensors { .. }))
    };
    (is_of_rows(&rows) && is_alone()).then_some(rows)
}

/// The episodes of an output: a file, a bag, or a folder of files, in the order of their names.
///
/// # Errors
/// No episode is found, or the folder cannot be read.
pub fn episodes(path: &Path) -> Result<Vec<Episode>, ViewError> {
    let io = |source| ViewError::Io { path: path.to_owned(), source };
    let meta = fs::metadata(path).map_err(io)?;
    let is_store = is_store(path);
    if is_store {
        return of_store(path);
    }
    let folder = if meta.is_dir() { Some(path) } else { path.parent() };
    let summaries = folder.map(summaries).unwrap_or_default();
    if !meta.is_dir() || path.join("metadata.yaml").exists() {
        return Ok(vec![Episode::of(path, &summaries)]);
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(path).map_err(io)? {
        let path = entry.map_err(io)?.path();
        if path.extension().is_some_and(|end| end == "mcap") {
            found.push(Episode::of(&path, &summaries));
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    let store = path.join(TENSORS);
    if found.is_empty() && self::is_store(&store) {
        return of_store(&store);
    }
    if found.is_empty() {
        let found = match DATASETS.iter().any(|file| path.join(file).exists()) {
            true => {
                "a dataset: `robocache import` makes rows of it, and view shows these".to_owned()
            }
            false => format!("a folder without .mcap files and without {TENSORS}"),
        };
        return Err(ViewError::NoTensors { path: path.to_owned(), found });
    }
    Ok(found)
}

/// All episodes of the folder of results, if `path` is a file of one of them.
pub(super) fn siblings(path: &Path, episodes: &[Episode]) -> Vec<Episode> {
    let folder = path.is_file().then(|| path.canonicalize().ok()?.parent().map(Path::to_owned));
    let all = folder.flatten().and_then(|folder| self::episodes(&folder).ok());
    all.unwrap_or_else(|| episodes.to_vec())
}

/// True if a folder is a store.
pub fn is_store(folder: &Path) -> bool {
    folder.join(STORE_META).exists()
}

/// The episodes of a store.
fn of_store(path: &Path) -> Result<Vec<Episode>, ViewError> {
    let wrong = |found| ViewError::NoTensors { path: path.to_owned(), found };
    let episodes = store::episodes(path).map_err(wrong)?;
    // A path such as `.` has no name, by which the ledger knows the store.
    let mut summaries = store_summaries(&path.canonicalize().unwrap_or(path.to_owned()));
    let episode = |(number, store::Stored { name, bag, ticks })| {
        let summary = summaries.remove(&name);
        // The store has the name of the bag, the summary its path.
        let bag = summary.as_ref().map(|summary| summary.bag.clone()).or(bag);
        Episode { name, summary, bag, path: path.to_owned(), ticks: Some((number, ticks)) }
    };
    Ok(episodes.into_iter().enumerate().map(episode).collect())
}

impl Episode {
    fn of(path: &Path, summaries: &BTreeMap<String, Summary>) -> Self {
        let name = if path.is_dir() { path.file_name() } else { path.file_stem() };
        let name = name.map_or(String::new(), |name| name.to_string_lossy().into_owned());
        let summary = summaries.get(&name).cloned();
        let bag = summary.as_ref().map(|summary: &Summary| summary.bag.clone());
        Episode { name, summary, bag, path: path.to_owned(), ticks: None }
    }

    /// How many tensors it has, if that is known before they are read.
    pub fn tensors(&self) -> Option<u64> {
        self.ticks.map(|(_, [from, to])| to - from)
    }

    /// The part of valid steps of each stream that has steps, as the replay counted it.
    fn shares(&self) -> BTreeMap<String, f64> {
        let streams = self.summary.iter().flat_map(|summary| &summary.streams);
        streams.filter_map(|(name, stream)| Some((name.clone(), stream.valid_share?))).collect()
    }

    /// Goes through at most about `budget` bytes of tensors for their vectors, validity and ages, and keeps
    /// `pictures` tensors for pictures.
    ///
    /// # Errors
    /// There are no tensors, or the file cannot be read.
    pub fn read(&self, budget: u64, pictures: usize) -> Result<(Track, Looked), ViewError> {
        if let Some((_, ticks)) = self.ticks {
            return self.read_store(ticks, budget, pictures);
        }
        let bag = Bag::open(&self.path)?;
        let of_type = |wanted: &str| bag.topics.iter().position(|topic| topic.ros_type == wanted);
        let Some(tensors) = of_type(FUSED_TENSOR) else {
            let topics =
                bag.topics.iter().map(|topic| format!("{} ({})", topic.name, topic.ros_type));
            let topics = topics.collect::<Vec<_>>().join(", ");
            let found = if topics.is_empty() { "no topic".to_owned() } else { topics };
            return Err(ViewError::NoTensors { path: self.path.clone(), found });
        };
        let mut problems = Problems::default();
        bag.problems.iter().cloned().for_each(|problem| problems.push(problem));
        let name = format!("{}/info", bag.topics[tensors].name);
        let is_info = |topic: &&str| **topic == *FUSED_TENSOR_INFO;
        let info = bag.topic(&name).filter(|at| is_info(&&*bag.topics[*at].ros_type));
        let info = match info.or_else(|| of_type(FUSED_TENSOR_INFO)) {
            Some(info) => {
                first(&bag, info, &mut problems)?.and_then(|bytes| TensorInfo::read(&bytes).ok())
            }
            None => None,
        };
        let mut reading = Reading {
            bag: &bag,
            wanted: only(&bag, tensors),
            track: Track::new(info),
            problems,
            received: Vec::new(),
            read_until: Stamp::MIN,
        };
        let (ticks, partly) = reading.read(tensors, budget)?;
        reading.pictures(pictures)?;
        let Reading { mut track, problems, .. } = reading;
        track.shares = self.shares();
        let mut told: Vec<String> = problems.first.iter().map(ToString::to_string).collect();
        if problems.more > 0 {
            told.push(format!("and {} more like these", problems.more));
        }
        Ok((track, Looked { ticks, partly, problems: told }))
    }
}

impl Episode {
    /// The commands in a store; empty if there are none. A file of messages does not say what commands are made of.
    ///
    /// # Errors
    /// They cannot be read.
    pub(super) fn commands(&self) -> Result<Vec<GroupTrack>, ViewError> {
        let Some((number, _)) = self.ticks else { return Ok(Vec::new()) };
        let wrong = |found| ViewError::NoTensors { path: self.path.clone(), found };
        commands::of_store(&self.path, number).map_err(wrong)
    }

    /// As [`Episode::read`], of the ticks of a store.
    fn read_store(
        &self,
        [from, to]: [u64; 2],
        budget: u64,
        pictures: usize,
    ) -> Result<(Track, Looked), ViewError> {
        let wrong = |found| ViewError::NoTensors { path: self.path.clone(), found };
        let mut store = Store::open(&self.path).map_err(wrong)?;
        let mut track = Track::new(Some(store.info.clone()));
        (track.packed, track.shares) = (false, self.shares());
        let count = to - from;
        let most = (budget / store.noted_bytes.max(1) as u64).clamp(1, MAX_TICKS as u64);
        let wanted = which(count, most);
        let mut problems = Vec::new();
        for (place, at) in wanted.iter().enumerate() {
            if place > 0 && wanted[place - 1] + 1 != *at {
                track.skip();
            }
            if let Err(problem) = store.note(from + at, &mut track) {
                problems.push(problem);
                break;
            }
        }
        for place in track.spread(pictures) {
            if let Err(problem) = store.keep(from + wanted[place], place, &mut track) {
                problems.push(problem);
                break;
            }
        }
        let partly = (track.ticks.len() as u64) < count;
        Ok((track, Looked { ticks: Some(count), partly, problems }))
    }
}

/// Which of `count` ticks are looked at, at most `most`, in their order: all, or some along the whole and a
/// stretch from the middle.
pub(super) fn which(count: u64, most: u64) -> Vec<u64> {
    if count <= most {
        return (0..count).collect();
    }
    let spots = (SPOTS as u64).min(most / 4);
    let along = (0..spots).map(|spot| count * spot / spots.max(1));
    let stretch = most - spots;
    let begin = (count - stretch) / 2;
    let mut ticks: Vec<u64> = along.chain(begin..begin + stretch).collect();
    ticks.sort_unstable();
    ticks.dedup();
    ticks
}

/// Which topics are read: one.
fn only(bag: &Bag, topic: usize) -> Vec<bool> {
    (0..bag.topics.len()).map(|at| at == topic).collect()
}

/// The first message of a topic.
fn first(bag: &Bag, topic: usize, problems: &mut Problems) -> Result<Option<Bytes>, BagError> {
    let mut messages = bag.messages(&only(bag, topic))?;
    let first = messages.next();
    problems.join(std::mem::take(&mut messages.problems));
    Ok(first.map(|recorded| recorded.bytes))
}

/// The tensors of a bag on their way into a track.
struct Reading<'a> {
    bag: &'a Bag,
    wanted: Vec<bool>,
    track: Track,
    problems: Problems,
    /// When each tick of the track was received.
    received: Vec<Stamp>,
    /// Tensors from before this instant have been read.
    read_until: Stamp,
}

impl Reading<'_> {
    /// Reads all tensors, or if they are too many: some along the episode, and those of one stretch in its
    /// middle. Returns how many there are, and whether not all were looked at.
    fn read(&mut self, topic: usize, budget: u64) -> Result<(Option<u64>, bool), BagError> {
        let count = self.bag.topics[topic].messages;
        let Some((from, to)) = self.bag.span() else { return Ok((count, false)) };
        let mut messages = self.bag.messages(&self.wanted)?;
        let size = messages.next().map_or(0, |first| first.bytes.len() as u64);
        drop(messages);
        let most = (budget / size.max(1)).clamp(1, MAX_TICKS as u64);
        let Some(_) = count.filter(|count| *count > most) else {
            let looked = self.stretch(Stamp::MIN, most)?;
            let all = looked < most;
            return Ok((count.or(all.then_some(looked)), !all && count.is_none()));
        };
        // Each spot reads a chunk: as much as several tensors.
        let spots = SPOTS.min((most / 4) as i64).max(1);
        for spot in 0..spots {
            let share = i128::from(to.since(from)) * i128::from(spot) / i128::from(spots);
            let is_middle = spot == spots / 2;
            let most = if is_middle { most.saturating_sub(spots as u64) } else { 1 };
            self.stretch(from.offset(share as i64), most.max(1))?;
        }
        Ok((count, true))
    }

    /// Reads at most `most` tensors from an instant on, without those that were read before. Returns how many.
    fn stretch(&mut self, from: Stamp, most: u64) -> Result<u64, BagError> {
        let mut messages = self.bag.messages_from(&self.wanted, from.max(self.read_until))?;
        self.track.skip();
        let mut read = 0;
        while read < most
            && let Some(recorded) = messages.next()
        {
            let noted = self.track.note(&recorded.bytes);
            self.received.extend(noted.map(|_| recorded.received));
            self.read_until = recorded.received.offset(1);
            read += 1;
        }
        self.problems.join(std::mem::take(&mut messages.problems));
        Ok(read)
    }

    /// Reads some of the noted tensors again, as a whole, for pictures.
    fn pictures(&mut self, count: usize) -> Result<(), BagError> {
        for at in self.track.spread(count) {
            let received = self.received[at];
            // A failure to read there was reported when the tensor was noted.
            let mut messages = self.bag.messages_from(&self.wanted, received)?;
            // Several may have been received at one instant.
            while let Some(recorded) = messages.next().filter(|next| next.received == received)
                && !self.track.keep(at, &recorded.bytes)
            {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
