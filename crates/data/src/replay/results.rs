//! Which results there are, and what they were made of.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::find::is_storage;
use super::{Episode, Given, ReplayError, ReplayOptions, Summary};
use crate::file::{OutputError, Partial, PartialFolder};
use crate::output::{Bf16, Images, fused_tensor_definition};
use crate::store::{FORMAT_VERSION, PART_FORMAT, Source, Table, identity};
use robocache_core::spec::Config;

/// Format of the results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Tensors as messages: a file of MCAP per episode.
    #[default]
    Mcap,
    /// Tensors as arrays: one store of Zarr for all episodes.
    Zarr,
    /// The rows of every stream at their own stamps: one store of Zarr for all episodes.
    Rows,
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = [Format::Mcap, Format::Zarr, Format::Rows];
        let found = known.into_iter().find(|format| format.to_string() == text);
        found.ok_or_else(|| format!("expected mcap, zarr or rows, found '{text}'"))
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Format::Mcap => "mcap",
            Format::Zarr => "zarr",
            Format::Rows => "rows",
        })
    }
}

impl Format {
    /// The name of the store of all episodes; `None` if each has a file.
    pub const fn store(self) -> Option<&'static str> {
        match self {
            Format::Mcap => None,
            Format::Zarr => Some("tensors.zarr"),
            Format::Rows => Some("rows.zarr"),
        }
    }

    /// The result of an episode, relative to the folder of the results: a file, or a part until all are joined.
    pub fn result(self, name: &str) -> String {
        match self.store() {
            None => format!("{name}.mcap"),
            Some(store) => format!("{store}.parts/{name}"),
        }
    }
}

/// Ledger of the folder of the results, in `replay.json`. What is added goes to the end of a journal first, so that it
/// costs the same whatever there is.
#[derive(Debug)]
pub(super) struct Ledger {
    out: PathBuf,
    held: Held,
    journal: Option<fs::File>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Held {
    /// [`LEDGER_FORMAT`].
    #[serde(default)]
    format: u32,
    /// Of the program that wrote it.
    version: String,
    /// By the [`Format::result`].
    episodes: BTreeMap<String, Entry>,
    /// By the name of a store.
    stores: BTreeMap<String, Store>,
    /// By the name of a store: one that takes its place. If the program ended meanwhile, either may be there.
    coming: BTreeMap<String, Store>,
}

/// A line of the journal.
#[derive(Debug, Serialize, Deserialize)]
enum Change {
    Added { result: String, entry: Box<Entry> },
    Removed { result: String },
}

/// The format of the file.
const LEDGER_FORMAT: u32 = 1;

/// The number of what values mean. If an input, an encoder or an operator gives other values for the same messages, it must
/// be raised: then results of before are made again, and none are joined with new ones.
const VALUES: u32 = 1;

/// A store.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Store {
    /// Tells it from another one ([`identity`]).
    pub identity: String,
    /// Its tables.
    pub tables: Vec<Table>,
    /// Its episodes in their order.
    pub episodes: Vec<Stored>,
}

impl Store {
    /// True if the store has an episode that was made of this.
    pub(super) fn has(&self, name: &str, bag: &str, made_of: &str) -> bool {
        let stored = self.episodes.iter().find(|of| of.name == name && of.bag == bag);
        stored.is_some_and(|of| of.made_of == made_of)
    }

    /// Sources of its episodes, by what they were made of, in their order.
    pub(super) fn sources(&self) -> Vec<(&str, Source)> {
        let spans =
            |(at, table): (usize, &Table)| table.spans(self.episodes.iter().map(|of| of.rows[at]));
        let spans: Vec<_> = self.tables.iter().enumerate().map(spans).collect();
        let source = |(at, stored): (usize, &Stored)| {
            let begin = spans.iter().map(|spans| spans[at].start).collect();
            let rows = stored.rows.clone();
            let about = stored.about.clone();
            Source::Store { begin, rows, about }
        };
        let made_of = self.episodes.iter().map(|of| of.made_of.as_str());
        made_of.zip(self.episodes.iter().enumerate().map(source)).collect()
    }
}

/// A complete result.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Entry {
    /// Of everything that the result depends on.
    pub made_of: String,
    pub summary: Summary,
}

/// An episode of a store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stored {
    /// Its name.
    pub name: String,
    /// Its bag.
    pub bag: String,
    /// Of everything that it depends on; empty if unknown.
    pub made_of: String,
    /// Its rows, by table.
    pub rows: Vec<u64>,
    /// Attributes of the episode in the store.
    pub about: Value,
}

/// The file of a [`Ledger`].
const LEDGER: &str = "replay.json";
/// The journal of a [`Ledger`]: a line of JSON for each change since the file was written.
const JOURNAL: &str = "replay.json.journal";

impl Ledger {
    /// Reads the present results.
    ///
    /// # Errors
    /// It cannot be read, or another version of the program wrote it.
    pub(super) fn read(out: &Path) -> Result<Self, OutputError> {
        let path = out.join(LEDGER);
        let mut held = match fs::read(&path) {
            Ok(bytes) => of_json(&bytes).map_err(OutputError::of(&path))?,
            Err(error) if error.kind() == ErrorKind::NotFound => Held::default(),
            Err(error) => return Err(OutputError::of(&path)(error)),
        };
        let journal = out.join(JOURNAL);
        match fs::read(&journal) {
            Ok(bytes) => held.take(&bytes),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(OutputError::of(&journal)(error)),
        }
        Ok(Ledger { out: out.to_owned(), held, journal: None })
    }

    /// Reads what a folder has that another run may write into. A store counts if the ledger describes what is there.
    ///
    /// # Errors
    /// As of [`read`](Self::read).
    pub(super) fn read_beside(out: &Path) -> Result<Self, OutputError> {
        let mut ledger = Self::read(out)?;
        let is_there = |name: &String, store: &mut Store| {
            identity(&out.join(name)).as_ref() == Some(&store.identity)
        };
        ledger.held.stores.retain(is_there);
        Ok(ledger)
    }

    /// Path of a result, if it is there.
    pub(super) fn path_of(&self, result: &str) -> PathBuf {
        self.out.join(result)
    }

    /// Finds out which of two stores is there, if the program ended while one took the place of the other.
    ///
    /// # Errors
    /// A store cannot get its name back.
    pub(super) fn find_store(&mut self, name: &str) -> Result<(), OutputError> {
        let path = self.out.join(name);
        PartialFolder::restore(&path)?;
        let found = identity(&path);
        let Held { stores, coming, .. } = &mut self.held;
        let [before, after] = [stores.remove(name), coming.remove(name)]
            .map(|store| store.filter(|store| Some(&store.identity) == found.as_ref()));
        let store = match (before, after) {
            (Some(mut store), Some(_)) => {
                // They look the same, and may be made of different bags.
                store.episodes.iter_mut().for_each(|stored| stored.made_of.clear());
                Some(store)
            }
            (before, after) => before.or(after),
        };
        stores.extend(store.map(|store| (name.to_owned(), store)));
        Ok(())
    }

    /// The entry of a result.
    pub(super) fn entry(&self, result: &str) -> Option<&Entry> {
        self.held.episodes.get(result)
    }

    /// A store.
    pub(super) fn store(&self, name: &str) -> Option<&Store> {
        self.held.stores.get(name)
    }

    /// Adds a complete result.
    pub(super) fn add(&mut self, result: String, entry: Entry) -> Result<(), OutputError> {
        let change = Change::Added { result, entry: Box::new(entry) };
        self.note(&change)?;
        self.held.apply(change);
        Ok(())
    }

    /// Removes a result, if it is there.
    pub(super) fn remove(&mut self, result: &str) -> Result<(), OutputError> {
        if self.entry(result).is_none() {
            return Ok(());
        }
        let change = Change::Removed { result: result.to_owned() };
        self.note(&change)?;
        self.held.apply(change);
        Ok(())
    }

    /// Checks that a store that is there may be replaced by one of what is asked for. If its origin is unknown, it
    /// may.
    pub(super) fn check_asked(&self, name: &str, asked: &Asked) -> Result<(), ReplayError> {
        let path = self.out.join(name);
        let stored = self.store(name).filter(|_| path.exists());
        let mut made_of = stored.iter().flat_map(|store| &store.episodes).map(|of| &of.made_of);
        made_of.try_for_each(|of| if of.is_empty() { Ok(()) } else { asked.check(&path, of) })
    }

    /// Notes that a store takes the place of the one that may be there, and writes the file.
    pub(super) fn announce_store(&mut self, name: &str, store: Store) -> Result<(), OutputError> {
        self.held.coming.insert(name.to_owned(), store);
        self.write()
    }

    /// Notes that it has its name, and writes the file.
    pub(super) fn complete_store(&mut self, name: &str) -> Result<(), OutputError> {
        if let Some(store) = self.held.coming.remove(name) {
            self.held.stores.insert(name.to_owned(), store);
        }
        self.write()
    }

    /// Checks that a store that is there may be replaced by one of these episodes: their names and bags.
    pub(super) fn check_store<'a>(
        &self,
        name: &str,
        episodes: impl Iterator<Item = (&'a str, String)> + Clone,
    ) -> Result<(), ReplayError> {
        let path = self.out.join(name);
        if !path.exists() {
            return Ok(());
        }
        let whose = match self.store(name) {
            None => Some("is no result of an earlier run".to_owned()),
            Some(store) => {
                let have: HashSet<(&str, String)> = episodes.collect();
                let is_lost =
                    |stored: &&Stored| !have.contains(&(stored.name.as_str(), stored.bag.clone()));
                let lost = store.episodes.iter().find(is_lost);
                lost.map(|Stored { name, bag, .. }| {
                    format!("has the episode '{name}' of {bag}, but this run has no result of it")
                })
            }
        };
        match whose {
            None => Ok(()),
            Some(whose) => Err(ReplayError::Wiring(format!(
                "{}: it exists and {whose}; name another folder with --out, or remove it",
                path.display()
            ))),
        }
    }

    /// Writes a line into the journal. It is on the disk when this returns.
    fn note(&mut self, change: &Change) -> Result<(), OutputError> {
        let path = self.out.join(JOURNAL);
        let noted = serde_json::to_vec(change).map_err(std::io::Error::other).and_then(|line| {
            let file = match self.journal.take() {
                Some(file) => file,
                None => fs::File::options().create(true).append(true).open(&path)?,
            };
            let file = self.journal.insert(file);
            // If a line before was broken off, this one does not continue it.
            file.write_all(&[b"\n", &line[..], b"\n"].concat())?;
            file.sync_data()
        });
        noted.map_err(OutputError::of(&path))
    }

    /// Writes the file, if there is a journal, and removes the journal.
    pub(super) fn end_journal(&mut self) -> Result<(), OutputError> {
        match self.out.join(JOURNAL).exists() {
            true => self.write(),
            false => Ok(()),
        }
    }

    /// Writes the file, and removes the journal.
    fn write(&mut self) -> Result<(), OutputError> {
        env!("CARGO_PKG_VERSION").clone_into(&mut self.held.version);
        self.held.format = LEDGER_FORMAT;
        let path = self.out.join(LEDGER);
        let (partial, mut file) = Partial::create(&path)?;
        let mut bytes = serde_json::to_vec_pretty(&self.held)
            .map_err(|error| OutputError { path: path.clone(), source: error.into() })?;
        bytes.push(b'\n');
        file.write_all(&bytes).map_err(OutputError::of(&path))?;
        partial.complete(&file)?;
        self.journal = None;
        let path = self.out.join(JOURNAL);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(OutputError::of(&path)(error)),
            _ => Ok(()),
        }
    }
}

impl Held {
    fn apply(&mut self, change: Change) {
        match change {
            Change::Added { result, entry } => _ = self.episodes.insert(result, *entry),
            Change::Removed { result } => _ = self.episodes.remove(&result),
        }
    }

    /// Takes the changes of a journal. A line that was broken off was never promised.
    fn take(&mut self, journal: &[u8]) {
        let lines = journal.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines.filter_map(|line| serde_json::from_slice(line).ok()).for_each(|c| self.apply(c));
    }
}

/// Reads a ledger.
fn of_json(bytes: &[u8]) -> std::io::Result<Held> {
    #[derive(Default, Deserialize)]
    struct Version {
        #[serde(default)]
        format: u32,
    }
    let format = serde_json::from_slice(bytes).unwrap_or(Version::default()).format;
    let other = |found: &str| {
        std::io::Error::other(format!(
            "expected format {LEDGER_FORMAT}, found {found}: another version of robocache wrote it; name \
             another folder with --out, or remove this one"
        ))
    };
    if format != LEDGER_FORMAT {
        return Err(other(&format.to_string()));
    }
    serde_json::from_slice(bytes).map_err(|error| other(&error.to_string()))
}

/// Keeps other runs out of a folder of results until it is dropped.
///
/// # Errors
/// Another run writes into it; or it cannot be opened.
pub(super) fn hold(out: &Path) -> Result<Flock<fs::File>, OutputError> {
    hold_in_turn(out, || false)
}

/// As [`hold`], but looks again while another run writes into the folder. `wait` is called after each look in vain; if
/// it returns false, that look was the last.
///
/// # Errors
/// As of [`hold`].
pub(super) fn hold_in_turn(
    out: &Path,
    mut wait: impl FnMut() -> bool,
) -> Result<Flock<fs::File>, OutputError> {
    loop {
        if let Some(held) = try_hold(out)? {
            return Ok(held);
        }
        if !wait() {
            return Err(OutputError::of(out)(std::io::Error::other("another run writes into it")));
        }
    }
}

/// Keeps other runs out of a folder; `None` if one writes into it.
fn try_hold(out: &Path) -> Result<Option<Flock<fs::File>>, OutputError> {
    let folder = fs::File::open(out).map_err(OutputError::of(out))?;
    match Flock::lock(folder, FlockArg::LockExclusiveNonblock) {
        Ok(held) => Ok(Some(held)),
        Err((_, Errno::EWOULDBLOCK)) => Ok(None),
        Err((_, error)) => Err(OutputError::of(out)(error.into())),
    }
}

/// Summaries by an earlier run, by the name of the episode, of the results that are files of tensors; nothing if the
/// folder has none.
pub fn summaries(out: &Path) -> BTreeMap<String, Summary> {
    let Ok(ledger) = Ledger::read(out) else { return BTreeMap::new() };
    let of_file = |(result, entry): (String, Entry)| {
        let name = result.strip_suffix(".mcap")?.to_owned();
        Some((name, entry.summary))
    };
    ledger.held.episodes.into_iter().filter_map(of_file).collect()
}

/// Summaries by an earlier run of the episodes that are in a store, by their names. They lack an episode if the ledger
/// beside the store has no entry of it, or one of another result than what is in the store.
pub fn store_summaries(store: &Path) -> BTreeMap<String, Summary> {
    let nothing = BTreeMap::new();
    let (Some(out), Some(name)) =
        (store.parent(), store.file_name().and_then(|name| name.to_str()))
    else {
        return nothing;
    };
    let Ok(mut ledger) = Ledger::read(out) else { return nothing };
    let found = identity(store);
    // If a run ended while one store took the place of another, either may be there. If they look the same, the program
    // cannot know which one is there.
    let Held { stores, coming, .. } = &mut ledger.held;
    let mut known = [stores.remove(name), coming.remove(name)]
        .into_iter()
        .flatten()
        .filter(|store| Some(&store.identity) == found.as_ref());
    let (Some(known), None) = (known.next(), known.next()) else { return nothing };
    let of_episode = |stored: Stored| {
        let entry = ledger.held.episodes.remove(&format!("{name}.parts/{}", stored.name))?;
        let is_same = (&entry.made_of, &entry.summary.bag) == (&stored.made_of, &stored.bag);
        is_same.then_some((stored.name, entry.summary))
    };
    known.episodes.into_iter().filter_map(of_episode).collect()
}

/// Demands of a user, as a result's `made_of` has them.
#[derive(Debug)]
pub(super) struct Asked {
    configuration: String,
    options: String,
    bf16: &'static str,
    /// A clause, unless rows of images are stored without loss.
    images: Option<String>,
}

/// Clause of a store's `made_of`, if elements of bf16 become f32.
const BF16_AS_F32: &str = "; bf16 as f32";
/// Begin of the clause if rows of images become something else, whose name follows.
const IMAGES_AS: &str = "images as ";

impl Asked {
    /// `text` is that of the configuration.
    pub(super) fn new(options: &ReplayOptions, text: &str) -> Self {
        let ReplayOptions { rate_hz, remaps, time, digest: sealed, rows, .. } = options;
        let rows_of = match rows.as_slice() {
            [] => String::new(),
            rows => format!(" rows of {}", rows.join(",")),
        };
        Asked {
            configuration: format!("configuration {:016x}", digest(text)),
            options: format!("{rate_hz:?} {remaps:?} {time:?} {sealed}{rows_of}"),
            bf16: match options.format.store().is_some() && options.bf16 != Bf16::default() {
                true => BF16_AS_F32,
                false => "",
            },
            images: match options.images {
                Images::Zstd => None,
                images @ Images::Jpeg(_) => Some(format!("{IMAGES_AS}{images}")),
            },
        }
    }

    /// True if a result was made with the same configuration and the same options. If its bag has changed, or the
    /// version of the program, it may still have to be made again.
    fn is_of(&self, made_of: &str) -> bool {
        let mut clauses = made_of.split("; ").skip(1);
        // Behind the digest of the text is that of what it means.
        let has_text = clauses.next().is_some_and(|of| of.starts_with(&self.configuration));
        // What is said of a store is behind its format. A task, which comes before it, may be any text.
        let of_store = made_of.rsplit_once("; format ").map_or("", |(_, of_store)| of_store);
        let of_store = || of_store.split("; ").skip(1).take(2);
        let is_bf16_same =
            of_store().any(|clause| clause == &BF16_AS_F32[2..]) != self.bf16.is_empty();
        let images = of_store().find(|clause| clause.starts_with(IMAGES_AS));
        let is_images_same = images == self.images.as_deref();
        has_text && is_bf16_same && is_images_same && clauses.next() == Some(&self.options)
    }

    /// Checks that a result at `path` may be replaced, which was made of this.
    ///
    /// # Errors
    /// It was made with another configuration or other options.
    pub(super) fn check(&self, path: &Path, made_of: &str) -> Result<(), ReplayError> {
        match self.is_of(made_of) {
            true => Ok(()),
            false => Err(ReplayError::Wiring(format!(
                "{}: expected a result of this configuration and these options, found one of others; give --replace \
                 to replace it, or name another folder with --out",
                path.display()
            ))),
        }
    }
}

fn digest(text: &str) -> u64 {
    twox_hash::XxHash3_64::oneshot(text.as_bytes())
}

/// Everything that a result depends on, in words. The files of a bag count by their sizes and times. What
/// the configuration has from elsewhere (statistics, definitions of messages) is in what it means.
pub(super) fn made_of(
    episode: &Episode,
    options: &ReplayOptions,
    text: &str,
    config: &Config,
) -> Result<String, OutputError> {
    let Asked { configuration, options: asked, bf16, images } = Asked::new(options, text);
    let mut made_of = format!(
        "robocache {} values {VALUES}; {configuration} {:016x}; {asked}; {:?} {:?} {:?}",
        env!("CARGO_PKG_VERSION"),
        digest(&format!("{config:?}")),
        episode.start,
        episode.end,
        episode.task,
    );
    if episode.begins.is_some() || !episode.marks.is_empty() {
        let recorded = format!("; {:?} {:?}", episode.begins, episode.marks);
        made_of.push_str(&recorded);
    }
    match options.format.store() {
        Some(_) => {
            let format = format!("; format {FORMAT_VERSION} of parts {PART_FORMAT}{bf16}");
            made_of.push_str(&format);
            made_of.extend(images.iter().flat_map(|images| ["; ", images]));
        }
        // Messages of another definition are not read by this version.
        None => {
            let messages = format!("; messages {:016x}", digest(&fused_tensor_definition()));
            made_of.push_str(&messages);
        }
    }
    match &episode.given {
        Some(Given(source)) => {
            let given = format!("; {} {}", episode.bag.display(), source.made_of());
            made_of.push_str(&given);
        }
        None => made_of.push_str(&files_of(&episode.bag)?),
    }
    Ok(made_of)
}

/// The files of a bag, in words: names, sizes and times. Other files beside them, such as a report, do not count.
fn files_of(bag: &Path) -> Result<String, OutputError> {
    let mut files = vec![bag.to_owned()];
    if bag.is_dir() {
        let listed = fs::read_dir(bag).map_err(OutputError::of(bag))?;
        files = listed.filter_map(|entry| Some(entry.ok()?.path())).collect();
        let is_metadata =
            |file: &Path| file.file_name().is_some_and(|name| name == "metadata.yaml");
        files.retain(|file| is_storage(file) || is_metadata(file));
        files.sort();
    }
    let mut words = String::new();
    for file in files {
        let found = file.metadata().map_err(OutputError::of(&file))?;
        let modified = found.modified().map_err(OutputError::of(&file))?;
        let file = format!("; {} {} {modified:?}", file.display(), found.len());
        words.push_str(&file);
    }
    Ok(words)
}

#[cfg(test)]
mod tests;
