//! Many episodes: their results, on all cores.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nix::fcntl::Flock;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::kept_backend::KeptBackend;
use super::results::{Asked, Entry, Format, Ledger, Store, Stored, hold, hold_in_turn, made_of};
use super::shares::Others;
use super::{
    BagDefinitions, Busy, Episode, Playing, Progress, ReplayError, ReplayOptions, Summary, Wiring,
    run,
};
use crate::bag::Bag;
use crate::file::{OutputError, remove};
use crate::output::{Images, Info, McapOutput, Output, RowOutput, StoredRows, TensorOutput};
use crate::store::{FORMAT_VERSION, Joined, Loss, Source, assemble, read};
use robocache_core::backend;
use robocache_core::config;
use robocache_core::contract::Contract;
use robocache_core::layout::Layout;
use robocache_core::pipeline::Pipeline;
use robocache_core::spec::Config;
use robocache_ops::sync::lock;
use robocache_ops::time::Stamp;
use robocache_runtime::ROWS_AHEAD;

/// The outcome of an episode.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EpisodeOutcome {
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
pub trait BatchProgress: Sync {
    /// The run waits, because another one writes into this folder. It is called once at most.
    fn waits(&self, _out: &Path) {}
    /// An episode begins; it reaches from the first to the last instant.
    fn begins(&self, _episode: &Episode, _first: Stamp, _last: Stamp) {}
    /// An episode is at this instant.
    fn at(&self, _episode: &Episode, _now: Stamp) {}
    /// The store of all episodes is being made: `done` of its `of` files are written.
    fn joins(&self, _done: usize, _of: usize) {}
    /// An episode has ended.
    fn ends(&self, _episode: &Episode, _outcome: &EpisodeOutcome) {}
}

/// The progress is not watched.
impl BatchProgress for () {}

/// Replays the episodes, several at once, and returns the outcome of each, in their order. Results are independent of
/// each other and of [`ReplayOptions::jobs`]. A result that an earlier run completed from the same bag with the same options
/// is kept. When `stop` is set, episodes under way are given up.
///
/// If the format has one store for all episodes, it is made of those that are complete, in their order, unless the
/// run was stopped or [`ReplayOptions::parts_only`] is set.
///
/// # Errors
/// The configuration cannot be read, or the folder of the results cannot be used.
pub fn run_all(
    episodes: &[Episode],
    options: &ReplayOptions,
    watch: &dyn BatchProgress,
    stop: &AtomicBool,
) -> Result<Results, ReplayError> {
    let text = config::read(&options.config)?;
    fs::create_dir_all(&options.out).map_err(OutputError::of(&options.out))?;
    let _held = held(options, watch, stop)?;
    let mut ledger = Ledger::read(&options.out)?;
    if let Some(store) = options.format.store() {
        ledger.find_store(store)?;
        let asked = episodes.iter().map(|episode| (episode.name.as_str(), bag_of(episode)));
        // Parts leave the store as it is.
        if !options.parts_only {
            ledger.check_store(store, asked)?;
        }
        if !options.replace {
            ledger.check_asked(store, &Asked::new(options, &text))?;
        }
    }
    check_streams(episodes, options, &text)?;
    let ledger = Mutex::new(ledger);
    let others = Others::open(&options.take)?;
    let kept_in = options.kept_in.as_deref().map(Ledger::read_beside).transpose()?;
    let kept_in = kept_in.as_ref();
    let shared =
        Work { options, text: &text, ledger: &ledger, others: &others, kept_in, watch, stop };
    let outcomes: Vec<Mutex<Option<EpisodeOutcome>>> =
        episodes.iter().map(|_| Mutex::new(None)).collect();
    let next = AtomicUsize::new(0);
    let work = |worker: usize| {
        let device = options.devices.get(worker % options.devices.len().max(1)).copied();
        let mut kept = KeptBackend::default();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(episode) = episodes.get(at) else { return };
            let outcome = one(episode, &shared, device.unwrap_or(0), &mut kept);
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
    let stopped = |(outcome, episode): (Mutex<Option<EpisodeOutcome>>, &Episode)| {
        let outcome = outcome.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        outcome.unwrap_or_else(|| EpisodeOutcome::Stopped { name: episode.name.clone() })
    };
    let outcomes: Vec<EpisodeOutcome> = outcomes.into_iter().zip(episodes).map(stopped).collect();
    let store = options.format.store().filter(|_| !options.parts_only);
    let store = store.map_or(Ok(()), |store| join(store, episodes, &outcomes, &shared));
    // The journal has all of it. If this file cannot be shortened, the caller still gets the outcomes.
    let _ = lock(&ledger).end_journal();
    Ok(Results { outcomes, store })
}

/// Time between two looks at whether another run still writes.
const LOOK: Duration = Duration::from_millis(20);

/// The folder of the results, which other runs are kept out of.
fn held(
    options: &ReplayOptions,
    watch: &dyn BatchProgress,
    stop: &AtomicBool,
) -> Result<Flock<fs::File>, OutputError> {
    let ReplayOptions { out, busy, .. } = options;
    if *busy == Busy::Fails {
        return hold(out);
    }
    let mut is_told = false;
    hold_in_turn(out, || {
        if !std::mem::replace(&mut is_told, true) {
            watch.waits(out);
        }
        std::thread::sleep(LOOK);
        !stop.load(Ordering::Relaxed)
    })
}

/// Per episode its name, and what its result would be made of, in words. If that cannot be said, because the bag cannot
/// be read, the words are the error.
///
/// # Errors
/// The configuration cannot be read.
pub fn made_of_all(
    episodes: &[Episode],
    options: &ReplayOptions,
) -> Result<Vec<(String, String)>, ReplayError> {
    let text = config::read(&options.config)?;
    let of = |episode: &Episode| match Opened::open(episode, options, &text) {
        Ok(opened) => opened.made_of,
        Err(error) => error.to_string(),
    };
    Ok(episodes.iter().map(|episode| (episode.name.clone(), of(episode))).collect())
}

/// Results of a run.
#[derive(Debug)]
pub struct Results {
    /// The outcome of each episode, in their order.
    pub outcomes: Vec<EpisodeOutcome>,
    /// Why there is no new store of all episodes, if the format has one.
    pub store: Result<(), ReplayError>,
}

/// The bag of an episode, as summaries name it.
fn bag_of(episode: &Episode) -> String {
    episode.bag.display().to_string()
}

/// Makes the store of the episodes that are complete, unless it is there. Their parts are removed then.
fn join(
    store: &str,
    asked: &[Episode],
    outcomes: &[EpisodeOutcome],
    work: &Work<'_>,
) -> Result<(), ReplayError> {
    let Work { options: ReplayOptions { out, format, .. }, .. } = work;
    if outcomes.iter().any(|outcome| matches!(outcome, EpisodeOutcome::Stopped { .. })) {
        return Ok(());
    }
    let mut ledger = lock(work.ledger);
    let older = ledger.store(store);
    let known = older.map(Store::sources).unwrap_or_default();
    let named = |stored: &Stored| (stored.name.clone(), stored.bag.clone());
    let numbers: HashMap<_, _> =
        older.iter().flat_map(|of| &of.episodes).map(named).zip(0usize..).collect();
    let mut episodes = Vec::new();
    let mut sources = Vec::new();
    let mut parts = Vec::new();
    let mut is_there = true;
    for outcome in outcomes {
        let (EpisodeOutcome::Done(summary) | EpisodeOutcome::Kept(summary)) = outcome else {
            continue;
        };
        let result = format.result(&summary.name);
        let Some(Entry { made_of, .. }) = ledger.entry(&result) else { continue };
        let number = numbers.get(&(summary.name.clone(), summary.bag.clone())).copied();
        let number = number.filter(|number| known[*number].0 == made_of);
        is_there &= number == Some(sources.len());
        let part = out.join(&result);
        sources.push(match number {
            Some(number) => known[number].1.clone(),
            None => Source::StorePart(part.clone()),
        });
        parts.push(part);
        episodes.push((summary.name.clone(), summary.bag.clone(), made_of.clone()));
    }
    is_there &= known.len() == sources.len();
    if sources.is_empty() {
        return Ok(());
    }
    if !is_there {
        // An episode that is in the store may have failed in this run.
        let complete = episodes.iter().map(|(name, bag, _)| (name.as_str(), bag.clone()));
        ledger.check_store(store, complete)?;
        let is_used = sources.iter().any(|source| matches!(source, Source::Store { .. }));
        let tables = older.filter(|_| is_used).map_or_else(Vec::new, |older| older.tables.clone());
        let is_complete = |of: &&Episode| episodes.iter().any(|(name, ..)| *name == of.name);
        let about = about_store(work, contract_of(asked.iter().filter(is_complete), work));
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let told = |done, of| work.watch.joins(done, of);
        let joined =
            Joined { sources: &sources, tables, about, threads, stop: work.stop, told: &told };
        let built = assemble(&out.join(store), joined);
        let built = built.map_err(|error| forget(error, out, &parts, &mut ledger))?;
        let Some(built) = built else { return Ok(()) };
        let mut stored = Vec::with_capacity(episodes.len());
        for ((name, bag, made_of), (rows, about)) in episodes.into_iter().zip(&built.episodes) {
            let rows = rows.clone();
            let about = about.clone();
            stored.push(Stored { name, bag, made_of, rows, about });
        }
        let identity = built.identity.clone();
        let tables = built.tables.clone();
        // A crash must not leave a ledger that describes another store.
        ledger.announce_store(store, Store { identity, tables, episodes: stored })?;
        built.complete()?;
        ledger.complete_store(store)?;
    }
    for part in &parts {
        remove(part)?;
    }
    // Others are of an earlier run with other bags.
    let _ = fs::remove_dir(out.join(format!("{store}.parts")));
    Ok(())
}

/// The error of a join. If a part is damaged, the ledger forgets it, so that the next run makes it again.
fn forget(error: OutputError, out: &Path, parts: &[PathBuf], ledger: &mut Ledger) -> ReplayError {
    let is_damaged = matches!(
        error.source.kind(),
        ErrorKind::InvalidData | ErrorKind::UnexpectedEof | ErrorKind::NotFound
    );
    let part = parts.iter().find(|part| is_damaged && error.path.starts_with(part));
    let Some(result) = part.and_then(|part| part.strip_prefix(out).ok()) else {
        return error.into();
    };
    match ledger.remove(&result.to_string_lossy()) {
        Ok(()) => ReplayError::Wiring(format!(
            "{error}; give the same command again: it replays this episode again"
        )),
        Err(error) => error.into(),
    }
}

/// Warns of pictures that stay without loss, though the user asks for JPEG. If no bag can be opened, each episode says why.
///
/// # Errors
/// No stream can be stored as JPEG, or there is no stream whose rows the user asks for.
fn check_streams(
    episodes: &[Episode],
    options: &ReplayOptions,
    text: &str,
) -> Result<(), ReplayError> {
    if options.images == Images::Zstd && options.rows.is_empty() {
        return Ok(());
    }
    let opened = episodes.iter().find_map(|episode| Opened::open(episode, options, text).ok());
    let Some(Opened { config, .. }) = opened else { return Ok(()) };
    let names: Vec<&str> = config.streams.iter().map(|stream| stream.name.as_str()).collect();
    if let Some(name) = options.rows.iter().find(|name| !names.contains(&name.as_str())) {
        let known = names.join(", ");
        return Err(ReplayError::Wiring(format!("--rows: expected {known}, found '{name}'")));
    }
    if options.images == Images::Zstd {
        return Ok(());
    }
    let (_, kept) = options.images.streams(&config).map_err(ReplayError::Wiring)?;
    kept.iter().for_each(|sentence| tracing::warn!("{sentence}"));
    Ok(())
}

/// The contract of the tensors, from the first episode whose bag can be opened. `None` if there is no such episode.
fn contract_of<'a>(
    episodes: impl Iterator<Item = &'a Episode>,
    work: &Work<'_>,
) -> Option<Contract> {
    let mut failure = None;
    for episode in episodes {
        match Opened::open(episode, work.options, work.text) {
            Ok(Opened { bag, config, .. }) => {
                let images = work.options.images;
                let taken = images.streams(&config).map(|(taken, _)| taken).unwrap_or_default();
                let mut contract = Contract::of(&config);
                if episode.given.is_some() {
                    contract = contract.of_dataset();
                }
                let contract = contract.with_stored(&taken, &images.to_string());
                return Some(with_decoded(contract, episode, &bag, &config, work.options));
            }
            Err(error) => failure = Some(error),
        }
    }
    if let Some(error) = failure {
        tracing::warn!("the store has no contract, because no bag can be opened: {error}");
    }
    None
}

/// The contract with how the numbers of its streams were decoded, if the episode's source says so.
fn with_decoded(
    mut contract: Contract,
    episode: &Episode,
    bag: &Bag,
    config: &Config,
    options: &ReplayOptions,
) -> Contract {
    let Ok(wiring) = Wiring::new(bag, config, &options.remaps, &options.time) else {
        return contract;
    };
    for (topic, words) in episode.decoded() {
        let feeds = bag.topic(&topic).map(|at| wiring.feeds[at].as_slice());
        for input in feeds.unwrap_or_default() {
            let stream = config.input(*input).stream.map(|id| config.stream(id).name.clone());
            contract = contract.with_decoded(stream.as_slice(), &words);
        }
    }
    contract
}

/// Attributes of a store.
fn about_store(work: &Work<'_>, contract: Option<Contract>) -> Map<String, Value> {
    let Work { options, text, .. } = work;
    let kind = if options.format == Format::Rows { "rows" } else { "tensors" };
    let rows_of = (!options.rows.is_empty()).then(|| (read::ROWS_OF, json!(options.rows)));
    let about = [
        ("kind", json!(kind)),
        ("format_version", json!(FORMAT_VERSION)),
        ("version", json!(env!("CARGO_PKG_VERSION"))),
        ("configuration", json!(text)),
        ("rate_hz", json!(options.rate_hz)),
        ("contract", json!(contract.as_ref().map(Contract::value))),
        ("contract_digest", json!(contract.as_ref().map(Contract::digest))),
    ];
    let about = about.into_iter().chain(rows_of);
    about.map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Replays one episode, unless its result is there.
fn one(
    episode: &Episode,
    work: &Work<'_>,
    device: usize,
    kept_backend: &mut KeptBackend,
) -> EpisodeOutcome {
    let name = episode.name.clone();
    if work.stop.load(Ordering::Relaxed) {
        return EpisodeOutcome::Stopped { name };
    }
    // Each log line names its episode.
    let _span = tracing::warn_span!("episode", name).entered();
    // What one episode leaves half changed no other one sees.
    let outcome = catch_unwind(AssertUnwindSafe(|| replay(episode, work, device, kept_backend)));
    let failed = |error: String| EpisodeOutcome::Failed { name: name.clone(), error };
    match outcome {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(error)) => failed(error.to_string()),
        Err(_) => failed("a failure of the program (a panic, which is above)".into()),
    }
}

/// Inputs of an episode's result.
struct Opened {
    bag: Bag,
    config: Config,
    /// All of it, in words.
    made_of: String,
}

impl Opened {
    fn open(episode: &Episode, options: &ReplayOptions, text: &str) -> Result<Self, ReplayError> {
        if let Some(wrong) = &episode.wrong {
            return Err(ReplayError::Wiring(wrong.clone()));
        }
        let bag = episode.open()?;
        let definitions = BagDefinitions::new(&bag)?;
        let config = definitions.configuration(text, &options.config, options.rate_hz)?;
        let made_of = made_of(episode, options, text, &config)?;
        Ok(Opened { bag, config, made_of })
    }
}

/// Returns the numbers of a result that the folder of a ledger has; `None` if it must be made.
///
/// # Errors
/// What is there must not be replaced.
fn kept(
    episode: &Episode,
    work: &Work<'_>,
    ledger: &Ledger,
    result: &str,
    made_of: &str,
) -> Result<Option<Summary>, ReplayError> {
    let Work { options: ReplayOptions { format, replace, .. }, text, .. } = work;
    let path = ledger.path_of(result);
    let entry = ledger.entry(result);
    let in_store = |store: &str| {
        let store = ledger.store(store);
        store.is_some_and(|of| of.has(&episode.name, &bag_of(episode), made_of))
    };
    if let Some(entry) = entry.filter(|entry| entry.made_of == made_of) {
        // A part may be gone with the store that it was joined into.
        let is_there = path.exists() || format.store().is_some_and(in_store);
        return Ok(is_there.then(|| entry.summary.clone()));
    }
    // A part is not the result of an episode.
    if !path.exists() || format.store().is_some() {
        return Ok(None);
    }
    let whose = match entry {
        Some(entry) if entry.summary.bag == bag_of(episode) => {
            if !replace {
                Asked::new(work.options, text).check(&path, &entry.made_of)?;
            }
            return Ok(None);
        }
        Some(entry) => format!("the result of {}", entry.summary.bag),
        None => "no result of an earlier run".to_owned(),
    };
    Err(ReplayError::Wiring(format!(
        "{}: it exists and is {whose}; name another folder with --out, or remove it",
        path.display()
    )))
}

/// Makes the result of an episode, unless it is there.
fn replay(
    episode: &Episode,
    work: &Work<'_>,
    device: usize,
    kept_backend: &mut KeptBackend,
) -> Result<EpisodeOutcome, ReplayError> {
    let Work { options, text, ledger, others, kept_in, watch, stop } = *work;
    let name = &episode.name;
    let Opened { bag, config, made_of } = Opened::open(episode, options, text)?;
    let result = options.format.result(name);
    if let Some(summary) = kept(episode, work, &lock(ledger), &result, &made_of)? {
        return Ok(EpisodeOutcome::Kept(summary));
    }
    if let Some(summary) = others.take(&result, &made_of, &options.out, &mut lock(ledger))? {
        return Ok(EpisodeOutcome::Kept(summary));
    }
    if let Some(ledger) = kept_in
        && let Some(summary) = kept(episode, work, ledger, &result, &made_of)?
    {
        return Ok(EpisodeOutcome::Kept(summary));
    }
    let wiring = Wiring::new(&bag, &config, &options.remaps, &options.time)?;
    let config = if options.threads() > 1 { config.with_rows_ahead(ROWS_AHEAD) } else { config };
    let backend = kept_backend.take(&config, || {
        backend::create(options.backend, device, &config, &Layout::new(&config))
    })?;
    let mut pipeline = Pipeline::new(config.clone(), Arc::clone(&backend))?;
    let named = episode.bag.file_name().unwrap_or(episode.bag.as_os_str());
    let named = named.to_string_lossy().into_owned();
    let (first, last) = bag.span().unwrap_or((Stamp::ZERO, Stamp::ZERO));
    let begin = episode.begins.unwrap_or(first);
    let [start, end] = [(episode.start, begin), (episode.end, last)]
        .map(|(moment, instead)| moment.map_or(instead, |moment| moment.in_bag(first)));
    let path = options.out.join(&result);
    let mut about = json!({
        "name": name, "bag": named, "task": episode.task,
        "start_ns": start.nanos(), "end_ns": end.nanos(),
    });
    let mut output = match options.format {
        Format::Mcap => {
            let chunks = wiring.chunks.iter().map(|at| bag.topics[*at].name.clone());
            let info = Info::of(&pipeline, options.digest, start);
            let info = info.with_chunks(&pipeline, chunks.collect());
            Writing::Mcap(Box::new(McapOutput::create(&path, info, options.threads())?))
        }
        Format::Zarr => {
            let limits = options.limits();
            let output =
                TensorOutput::create(&path, &mut pipeline, &options.rows, options.bf16, limits)?;
            Writing::Tensors(Box::new(output))
        }
        Format::Rows => {
            let limits = options.limits();
            // What is no bag has no times of arrival.
            let arrivals = episode.given.is_none();
            let stored = StoredRows { bf16: options.bf16, images: options.images, arrivals };
            Writing::Rows(RowOutput::create(&path, &mut pipeline, stored, limits)?)
        }
    };
    watch.begins(episode, start, end);
    let progress = Watched { episode, watch, stop };
    let digest = options.digest && options.format == Format::Mcap;
    let playing = Playing { digest, threads: options.threads() };
    let mut summary =
        run(&bag, episode, &wiring, pipeline, output.as_output(), playing, &progress)?;
    kept_backend.keep(config, backend);
    if !summary.whole {
        return Ok(EpisodeOutcome::Stopped { name: name.clone() });
    }
    summary.check_rows(&bag)?;
    about["simulated"] = json!(summary.simulated);
    about["missing"] = json!(summary.missing);
    if let Some(begins) = episode.leads_until().filter(|_| !summary.simulated) {
        about["begins_ns"] = json!(begins.nanos());
    }
    for (key, value) in episode.about()? {
        if key == "task" {
            summary.task = value.as_str().map(str::to_owned);
        }
        if key == "tasks" {
            summary.tasks = serde_json::from_value(value.clone())
                .map_err(|error| ReplayError::Wiring(format!("{name}: tasks: {error}")))?;
        }
        about[key] = value;
    }
    // If the program ends in between, no entry describes another result than what is there.
    lock(ledger).remove(&result)?;
    summary.note_jpeg(&output.complete(about)?);
    let entry = Entry { made_of, summary: summary.clone() };
    lock(ledger).add(result, entry)?;
    Ok(EpisodeOutcome::Done(summary))
}

/// The output of an episode.
enum Writing {
    Mcap(Box<McapOutput>),
    Tensors(Box<TensorOutput>),
    Rows(RowOutput),
}

impl Writing {
    fn as_output(&mut self) -> &mut dyn Output {
        match self {
            Writing::Mcap(output) => output.as_mut(),
            Writing::Tensors(output) => output.as_mut(),
            Writing::Rows(output) => output,
        }
    }

    /// Ends the output. Returns what JPEG made of the rows of streams, by their names.
    fn complete(self, about: Value) -> Result<BTreeMap<String, Loss>, OutputError> {
        match self {
            Writing::Mcap(output) => output.complete(&about).map(|()| BTreeMap::new()),
            Writing::Tensors(output) => output.complete(about).map(|()| BTreeMap::new()),
            Writing::Rows(output) => output.complete(about),
        }
    }
}

/// State that the workers share.
#[derive(Clone, Copy)]
struct Work<'a> {
    options: &'a ReplayOptions,
    /// The configuration's text, read once: all results are of the same one.
    text: &'a str,
    ledger: &'a Mutex<Ledger>,
    others: &'a Others,
    /// Of [`ReplayOptions::kept_in`].
    kept_in: Option<&'a Ledger>,
    watch: &'a dyn BatchProgress,
    stop: &'a AtomicBool,
}

struct Watched<'a> {
    episode: &'a Episode,
    watch: &'a dyn BatchProgress,
    stop: &'a AtomicBool,
}

impl Progress for Watched<'_> {
    fn at(&self, now: Stamp) -> bool {
        self.watch.at(self.episode, now);
        !self.stop.load(Ordering::Relaxed)
    }
}
