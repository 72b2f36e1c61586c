//! Many episodes: their results, on all cores.

use std::collections::BTreeMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde::{Deserialize, Serialize};

use super::bag::Bag;
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
    if let Some(wrong) = &episode.wrong {
        return Err(ReplayError::Wiring(wrong.clone()));
    }
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

/// What an earlier run found, by the name of the result; nothing if the folder has no results.
pub fn summaries(out: &Path) -> BTreeMap<String, Summary> {
    let ledger = Ledger::read(out).unwrap_or_default();
    ledger.episodes.into_iter().map(|(name, entry)| (name, entry.summary)).collect()
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
