//! Many episodes: which there are, and their results on all cores.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde::{Deserialize, Serialize};

use super::bag::Bag;
use super::episode::Listed;
pub use super::episode::Moment;
use super::output::{Info, McapOutput, OutputError, Partial};
use super::{
    BagDefinitions, Episode, Progress, Remap, ReplayError, Summary, TimeSource, Wiring, run,
};
use crate::backend::{self, Choice};
use crate::config;
use crate::layout::Layout;
use crate::pipeline::Pipeline;
use crate::spec::Config;
use crate::sync::lock;
use crate::time::Stamp;

/// What is replayed, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// The configuration's file.
    pub config: PathBuf,
    /// Rate of the ticks \[Hz\]; `None` for the configuration's.
    pub rate_hz: Option<f64>,
    /// Topics that have other names in the bags.
    pub remaps: Vec<Remap>,
    /// Which clock the ticks are on.
    pub time: TimeSource,
    /// Where to compute.
    pub backend: Choice,
    /// The GPUs, which the workers share in turn.
    pub devices: Vec<usize>,
    /// Whether tensors are sealed with a digest.
    pub digest: bool,
    /// The folder of the results.
    pub out: PathBuf,
    /// Episodes at once.
    pub jobs: usize,
}

/// What became of an episode.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Its result is complete.
    Done(Summary),
    /// Its result is there from an earlier run.
    Kept(Summary),
    /// It failed, and has no result.
    Failed {
        /// The name that the result would have.
        name: String,
        /// Why.
        error: String,
    },
    /// The run was stopped before its end.
    Stopped {
        /// The name that the result would have.
        name: String,
    },
}

/// Told how far the episodes are. Several threads call it.
pub trait Watch: Sync {
    /// An episode begins; it reaches from the first to the last instant.
    fn begins(&self, _episode: &Episode, _first: Stamp, _last: Stamp) {}
    /// An episode is at this instant.
    fn at(&self, _episode: &Episode, _now: Stamp) {}
    /// An episode has ended.
    fn ends(&self, _episode: &Episode, _outcome: &Outcome) {}
}

/// Nobody watches.
impl Watch for () {}

/// What the folder of the results holds, in `replay.json`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Ledger {
    /// Of the program that wrote it.
    version: String,
    /// By the name of the result.
    episodes: BTreeMap<String, Entry>,
}

/// A complete result.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Entry {
    /// Of everything that the result depends on.
    made_of: String,
    summary: Summary,
}

/// The file of a [`Ledger`].
const LEDGER: &str = "replay.json";

/// Replays the episodes, several at once, and returns what became of each, in their order. Results are
/// independent of each other and of [`Options::jobs`]. A result that an earlier run completed from the same
/// bag with the same options is kept. When `stop` is set, episodes under way are given up.
///
/// # Errors
/// The configuration cannot be read, or the folder of the results cannot be used.
pub fn run_all(
    episodes: &[Episode],
    options: &Options,
    watch: &dyn Watch,
    stop: &AtomicBool,
) -> Result<Vec<Outcome>, ReplayError> {
    let text = config::read(&options.config)?;
    fs::create_dir_all(&options.out).map_err(OutputError::of(&options.out))?;
    let ledger = Mutex::new(Ledger::read(&options.out)?);
    let shared = Work { options, text: &text, ledger: &ledger, watch, stop };
    let outcomes: Vec<Mutex<Option<Outcome>>> = episodes.iter().map(|_| Mutex::new(None)).collect();
    let next = AtomicUsize::new(0);
    let work = |worker: usize| {
        let device = options.devices.get(worker % options.devices.len().max(1)).copied();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(episode) = episodes.get(at) else { return };
            let outcome = one(episode, &shared, device.unwrap_or(0));
            watch.ends(episode, &outcome);
            *lock(&outcomes[at]) = Some(outcome);
        }
    };
    std::thread::scope(|scope| {
        let workers = options.jobs.clamp(1, episodes.len().max(1));
        for worker in 1..workers {
            scope.spawn(move || work(worker));
        }
        work(0);
    });
    let stopped = |(outcome, episode): (Mutex<Option<Outcome>>, &Episode)| {
        let outcome = outcome.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        outcome.unwrap_or_else(|| Outcome::Stopped { name: episode.name.clone() })
    };
    Ok(outcomes.into_iter().zip(episodes).map(stopped).collect())
}

/// Replays one episode, unless its result is there.
fn one(episode: &Episode, work: &Work<'_>, device: usize) -> Outcome {
    let name = episode.name.clone();
    if work.stop.load(Ordering::Relaxed) {
        return Outcome::Stopped { name };
    }
    // Its log lines say of which episode they are.
    let _span = tracing::warn_span!("episode", name).entered();
    // What one episode leaves half changed no other one sees.
    let outcome = catch_unwind(AssertUnwindSafe(|| replay(episode, work, device)));
    let failed = |error: String| Outcome::Failed { name: name.clone(), error };
    match outcome {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(error)) => failed(error.to_string()),
        Err(_) => failed("a failure of the program (a panic, which is above)".into()),
    }
}

/// Makes the result of an episode, unless it is there.
fn replay(episode: &Episode, work: &Work<'_>, device: usize) -> Result<Outcome, ReplayError> {
    let Work { options, text, ledger, watch, stop } = *work;
    let name = &episode.name;
    let bag = Bag::open(&episode.bag)?;
    let definitions = BagDefinitions::new(&bag)?;
    let file = options.config.display().to_string();
    let config = config::parse_at_rate(text, &file, options.rate_hz, &definitions)?;
    let made_of = made_of(episode, options, text, &config)?;
    let path = options.out.join(format!("{name}.mcap"));
    if path.exists() {
        let mut ledger = lock(ledger);
        match ledger.episodes.get(name) {
            Some(entry) if entry.made_of == made_of => {
                return Ok(Outcome::Kept(entry.summary.clone()));
            }
            Some(entry) if entry.summary.bag == episode.bag.display().to_string() => {
                // Nobody must take the result that comes for what this entry says.
                ledger.remove(&options.out, name)?;
            }
            found => {
                let whose = found.map_or("no result of an earlier run".to_owned(), |entry| {
                    format!("the result of {}", entry.summary.bag)
                });
                return Err(ReplayError::Wiring(format!(
                    "{}: it exists and is {whose}; name another folder with --out, or remove it",
                    path.display()
                )));
            }
        }
    }
    let wiring = Wiring::new(&bag, &config, &options.remaps, options.time)?;
    let backend = backend::create(options.backend, device, &config, &Layout::new(&config))?;
    let pipeline = Pipeline::new(config, backend)?;
    let named = episode.bag.file_name().unwrap_or(episode.bag.as_os_str());
    let named = named.to_string_lossy().into_owned();
    let (first, last) = bag.span().unwrap_or((Stamp::ZERO, Stamp::ZERO));
    let [start, end] = [(episode.start, first), (episode.end, last)]
        .map(|(moment, instead)| moment.map_or(instead, |moment| moment.in_bag(first)));
    let info = Info::of(&pipeline, options.digest, start, named, episode.task.as_deref());
    let mut output = McapOutput::create(&path, info)?;
    watch.begins(episode, start, end);
    let progress = Watched { episode, watch, stop };
    let summary = run(&bag, episode, &wiring, pipeline, &mut output, options.digest, &progress)?;
    if !summary.whole {
        return Ok(Outcome::Stopped { name: name.clone() });
    }
    output.complete()?;
    let entry = Entry { made_of, summary: summary.clone() };
    lock(ledger).add(&options.out, name.clone(), entry)?;
    Ok(Outcome::Done(summary))
}

/// What the workers share.
#[derive(Clone, Copy)]
struct Work<'a> {
    options: &'a Options,
    /// The configuration's text, read once: all results are of the same one.
    text: &'a str,
    ledger: &'a Mutex<Ledger>,
    watch: &'a dyn Watch,
    stop: &'a AtomicBool,
}

struct Watched<'a> {
    episode: &'a Episode,
    watch: &'a dyn Watch,
    stop: &'a AtomicBool,
}

impl Progress for Watched<'_> {
    fn at(&self, now: Stamp) -> bool {
        self.watch.at(self.episode, now);
        !self.stop.load(Ordering::Relaxed)
    }
}

/// Everything that a result depends on, in words. The files of a bag count by their sizes and times. What
/// the configuration has from elsewhere (statistics, definitions of messages) is in what it means.
fn made_of(
    episode: &Episode,
    options: &Options,
    text: &str,
    config: &Config,
) -> Result<String, OutputError> {
    let digest = |text: &str| twox_hash::XxHash3_64::oneshot(text.as_bytes());
    let mut files: Vec<PathBuf> = vec![episode.bag.clone()];
    if episode.bag.is_dir() {
        let listed = fs::read_dir(&episode.bag).map_err(OutputError::of(&episode.bag))?;
        files = listed.filter_map(|entry| Some(entry.ok()?.path())).collect();
        files.sort();
    }
    let mut made_of = format!(
        "robocache {}; configuration {:016x} {:016x}; {:?} {:?} {:?} {}; {:?} {:?} {:?}",
        env!("CARGO_PKG_VERSION"),
        digest(text),
        digest(&format!("{config:?}")),
        options.rate_hz,
        options.remaps,
        options.time,
        options.digest,
        episode.start,
        episode.end,
        episode.task,
    );
    for file in files {
        let found = file.metadata().map_err(OutputError::of(&file))?;
        let modified = found.modified().map_err(OutputError::of(&file))?;
        let file = format!("; {} {} {modified:?}", file.display(), found.len());
        made_of.push_str(&file);
    }
    Ok(made_of)
}

impl Ledger {
    fn read(out: &Path) -> Result<Self, OutputError> {
        let path = out.join(LEDGER);
        match fs::read(&path) {
            // One of another version counts as empty: its results are made again.
            Ok(bytes) => Ok(serde_json::from_slice(&bytes).unwrap_or_default()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Ledger::default()),
            Err(error) => Err(OutputError::of(&path)(error)),
        }
    }

    /// Adds a complete result, and writes the file.
    fn add(&mut self, out: &Path, name: String, entry: Entry) -> Result<(), OutputError> {
        self.episodes.insert(name, entry);
        self.write(out)
    }

    /// Removes a result, and writes the file.
    fn remove(&mut self, out: &Path, name: &str) -> Result<(), OutputError> {
        self.episodes.remove(name);
        self.write(out)
    }

    fn write(&mut self, out: &Path) -> Result<(), OutputError> {
        env!("CARGO_PKG_VERSION").clone_into(&mut self.version);
        let path = out.join(LEDGER);
        let (partial, mut file) = Partial::create(&path)?;
        let mut bytes = serde_json::to_vec_pretty(self)
            .map_err(|error| OutputError { path: path.clone(), source: error.into() })?;
        bytes.push(b'\n');
        std::io::Write::write_all(&mut file, &bytes).map_err(OutputError::of(&path))?;
        partial.complete(&file)
    }
}

/// Finds the bags at these paths. A path is a bag, or a folder in which bags are at any depth. Links to
/// folders are not followed, and results in `out` are no bags.
///
/// A folder with `metadata.yaml` is one bag. Without it, files `NAME_0`, `NAME_1` and so on are the parts of
/// one bag; any other file is a bag of its own.
///
/// # Errors
/// A path does not exist, or there is no bag at it.
pub fn find_bags(paths: &[PathBuf], out: &Path) -> Result<Vec<PathBuf>, OutputError> {
    let mut bags = Vec::new();
    // There is none yet in the first run.
    let out = out.canonicalize().ok();
    for path in paths {
        let before = bags.len();
        // The name of a result is that of its bag, also if the path is `.` or a link.
        let found = path.canonicalize().map_err(OutputError::of(path))?;
        find(&found, out.as_deref(), &mut bags).map_err(OutputError::of(path))?;
        if bags.len() == before {
            let none = std::io::Error::other(
                "expected a bag of rosbag2 (a folder, a .mcap or a .db3 file) or a folder of bags, found none",
            );
            return Err(OutputError { path: path.clone(), source: none });
        }
    }
    Ok(bags)
}

fn find(path: &Path, out: Option<&Path>, bags: &mut Vec<PathBuf>) -> std::io::Result<()> {
    if path.metadata()?.is_file() {
        let is_metadata = path.file_name().is_some_and(|name| name == "metadata.yaml");
        bags.push(path.parent().filter(|_| is_metadata).unwrap_or(path).to_owned());
        return Ok(());
    }
    if out == Some(path) {
        return Ok(());
    }
    let mut entries: Vec<PathBuf> =
        fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    if entries.iter().any(|entry| entry.file_name().is_some_and(|name| name == "metadata.yaml")) {
        bags.push(path.to_owned());
        return Ok(());
    }
    entries.sort_by_key(|entry| numbered(entry));
    let files: Vec<&PathBuf> = entries.iter().filter(|entry| is_storage(entry)).collect();
    let parts = files.iter().enumerate().all(|(at, file)| {
        let (stem, number) = numbered(file);
        number == Some(at as u64) && stem == numbered(files[0]).0
    });
    if files.len() > 1 && parts {
        bags.push(path.to_owned());
    } else {
        bags.extend(files.into_iter().cloned());
    }
    for folder in entries.iter().filter(|entry| entry.is_dir() && !entry.is_symlink()) {
        find(folder, out, bags)?;
    }
    Ok(())
}

fn is_storage(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = name.strip_suffix(".zstd").or(name.strip_suffix(".zst")).unwrap_or(&name);
    let is_known = [".mcap", ".db3"].iter().any(|known| name.strip_suffix(known).is_some());
    path.is_file() && is_known
}

/// `NAME_12.mcap` as `NAME` and 12; a file without a number comes first.
fn numbered(path: &Path) -> (String, Option<u64>) {
    let name = stem(path);
    match name.rsplit_once('_').map(|(stem, number)| (stem, number.parse())) {
        Some((stem, Ok(number))) => (stem.to_owned(), Some(number)),
        _ => (name, None),
    }
}

/// The name of a bag without what its storage adds.
fn stem(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let name = name.strip_suffix(".zstd").or(name.strip_suffix(".zst")).unwrap_or(&name);
    let name = name.strip_suffix(".mcap").or_else(|| name.strip_suffix(".db3")).unwrap_or(name);
    name.to_owned()
}

/// The part of each bag that counts, and the list of its episodes.
#[derive(Clone, Debug, Default)]
pub struct Parts {
    /// The first instant.
    pub start: Option<Moment>,
    /// The last instant.
    pub end: Option<Moment>,
    /// Episodes in the bags; `None`: each bag is one.
    pub listed: Option<Vec<Listed>>,
}

/// The episodes of these bags, each with a name that no other has.
///
/// # Errors
/// A list names a bag that is not there, or has no episode.
pub fn episodes(bags: &[PathBuf], parts: &Parts) -> Result<Vec<Episode>, ReplayError> {
    let mut episodes = Vec::new();
    for bag in bags {
        let name = stem(bag);
        let Some(listed) = &parts.listed else {
            let Parts { start, end, .. } = *parts;
            episodes.push(Episode { bag: bag.clone(), name, start, end, task: None });
            continue;
        };
        let of_bag = listed.iter().filter(|listed| match &listed.bag {
            Some(named) => *named == name || Path::new(named).file_name() == bag.file_name(),
            None => true,
        });
        for (number, listed) in of_bag.enumerate() {
            let (start, end) = (Some(listed.start), Some(listed.end));
            let task = listed.task.clone();
            let name = format!("{name}-{number:04}");
            episodes.push(Episode { bag: bag.clone(), name, start, end, task });
        }
    }
    if episodes.is_empty() {
        return Err(ReplayError::Wiring(
            "the list of episodes: expected a line, found none".into(),
        ));
    }
    if let Some(listed) = &parts.listed {
        let unknown = listed.iter().filter_map(|listed| listed.bag.as_ref()).find(|named| {
            !bags
                .iter()
                .any(|bag| stem(bag) == **named || Path::new(named).file_name() == bag.file_name())
        });
        if let Some(named) = unknown {
            return Err(ReplayError::Wiring(format!(
                "the list of episodes names the bag '{named}': expected one of those that are replayed"
            )));
        }
    }
    name_apart(&mut episodes);
    Ok(episodes)
}

/// Gives names that occur twice the names of their folders, and numbers if that does not help.
fn name_apart(episodes: &mut [Episode]) {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    episodes.iter().for_each(|episode| *seen.entry(episode.name.clone()).or_default() += 1);
    for episode in episodes.iter_mut().filter(|episode| seen[&episode.name] > 1) {
        let folder = episode.bag.parent().and_then(Path::file_name);
        if let Some(folder) = folder {
            episode.name = format!("{}_{}", folder.to_string_lossy(), episode.name);
        }
    }
    let mut taken = HashSet::new();
    for episode in episodes {
        let name = episode.name.clone();
        let mut number = 2;
        while !taken.insert(episode.name.clone()) {
            episode.name = format!("{name}-{number}");
            number += 1;
        }
    }
}
