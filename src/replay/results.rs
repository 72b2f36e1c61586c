//! Which results there are, and what they were made of.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};

use super::batch::Options;
use super::output::{Bf16, OutputError, Partial};
use super::{Episode, ReplayError, Summary};
use crate::spec::Config;

/// What is written.
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

/// What the folder of the results holds, in `replay.json`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Ledger {
    /// Of the program that wrote it.
    version: String,
    /// By the [`Format::result`].
    episodes: BTreeMap<String, Entry>,
    /// By the name of a store: its episodes in their order.
    #[serde(default)]
    stores: BTreeMap<String, Vec<Stored>>,
    /// By the name of a store that is being made: the episodes of the one that it replaces. If the program ended
    /// meanwhile, either may be there, and nothing may be taken for known.
    #[serde(default)]
    replaced: BTreeMap<String, Vec<Stored>>,
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
    /// Of everything that it depends on.
    pub made_of: String,
}

/// The file of a [`Ledger`].
const LEDGER: &str = "replay.json";

impl Ledger {
    pub fn read(out: &Path) -> Result<Self, OutputError> {
        let path = out.join(LEDGER);
        match fs::read(&path) {
            // One that cannot be read counts as empty.
            Ok(bytes) => Ok(serde_json::from_slice(&bytes).unwrap_or_default()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Ledger::default()),
            Err(error) => Err(OutputError::of(&path)(error)),
        }
    }

    /// The entry of a result.
    pub fn entry(&self, result: &str) -> Option<&Entry> {
        self.episodes.get(result)
    }

    /// The episodes of a store.
    pub fn store(&self, name: &str) -> Option<&Vec<Stored>> {
        self.stores.get(name)
    }

    /// Adds a complete result, and writes the file.
    pub fn add(&mut self, out: &Path, result: String, entry: Entry) -> Result<(), OutputError> {
        self.episodes.insert(result, entry);
        self.write(out)
    }

    /// Removes a result, and writes the file.
    pub fn remove(&mut self, out: &Path, result: &str) -> Result<(), OutputError> {
        self.episodes.remove(result);
        self.write(out)
    }

    /// Adds a complete store, and writes the file.
    pub fn add_store(
        &mut self,
        out: &Path,
        name: &str,
        episodes: Vec<Stored>,
    ) -> Result<(), OutputError> {
        self.stores.insert(name.to_owned(), episodes);
        self.replaced.remove(name);
        self.write(out)
    }

    /// Notes that a store of these episodes takes the place of the one that may be there, and writes the file.
    pub fn replace_store(
        &mut self,
        out: &Path,
        name: &str,
        episodes: &[Stored],
    ) -> Result<(), OutputError> {
        let before = self.stores.remove(name).unwrap_or_else(|| episodes.to_vec());
        self.replaced.entry(name.to_owned()).or_insert(before);
        self.write(out)
    }

    /// Checks that a store that is there may be replaced by one of these episodes: their names and bags.
    pub fn check_store<'a>(
        &self,
        out: &Path,
        name: &str,
        episodes: impl Iterator<Item = (&'a str, String)> + Clone,
    ) -> Result<(), ReplayError> {
        let path = out.join(name);
        if !path.exists() {
            return Ok(());
        }
        let whose = match self.store(name).or_else(|| self.replaced.get(name)) {
            None => Some("is no result of an earlier run".to_owned()),
            Some(stored) => {
                let is_lost = |stored: &&Stored| {
                    !episodes.clone().any(|(name, bag)| name == stored.name && bag == stored.bag)
                };
                let lost = stored.iter().find(is_lost);
                lost.map(|Stored { name, bag, .. }| {
                    format!("has the episode '{name}' of {bag}, of which this run has no result")
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

/// Keeps other runs out of a folder of results until it is dropped.
pub(super) fn hold(out: &Path) -> Result<Flock<fs::File>, OutputError> {
    let folder = fs::File::open(out).map_err(OutputError::of(out))?;
    Flock::lock(folder, FlockArg::LockExclusiveNonblock).map_err(|(_, error)| {
        let source = match error {
            Errno::EWOULDBLOCK => std::io::Error::other("another run writes into it"),
            error => error.into(),
        };
        OutputError::of(out)(source)
    })
}

/// What an earlier run found, by the name of the episode, of the results that are files of tensors; nothing if the
/// folder has none.
pub fn summaries(out: &Path) -> BTreeMap<String, Summary> {
    let ledger = Ledger::read(out).unwrap_or_default();
    let of_file = |(result, entry): (String, Entry)| {
        let name = result.strip_suffix(".mcap")?.to_owned();
        Some((name, entry.summary))
    };
    ledger.episodes.into_iter().filter_map(of_file).collect()
}

/// Everything that a result depends on, in words. The files of a bag count by their sizes and times. What
/// the configuration has from elsewhere (statistics, definitions of messages) is in what it means.
pub(super) fn made_of(
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
    if options.format.store().is_some() && options.bf16 != Bf16::default() {
        made_of.push_str("; bf16 as f32");
    }
    for file in files {
        let found = file.metadata().map_err(OutputError::of(&file))?;
        let modified = found.modified().map_err(OutputError::of(&file))?;
        let file = format!("; {} {} {modified:?}", file.display(), found.len());
        made_of.push_str(&file);
    }
    Ok(made_of)
}
