//! Requests of a replay, as values. The command line and the Python package fill them.

use std::fmt;
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::{
    AskedClock, Busy, Division, Episode, EpisodeTopic, Format, Moment, Parts, Remap, ReplayError,
    ReplayOptions, Share, episodes, find_bags, read_episodes,
};
use crate::output::{Bf16, Images};
use robocache_core::backend::{self, Choice};

/// A replay of bags into files.
#[derive(Clone, Debug, Default)]
pub struct ReplayRequest {
    /// The bags and their episodes.
    pub episodes: EpisodesRequest,
    /// The configuration's file.
    pub config: PathBuf,
    /// The folder of the results.
    pub out: PathBuf,
    /// The form of the results.
    pub format: Format,
    /// How elements of bf16 are stored in Zarr; `None` for the default.
    pub bf16: Option<Bf16>,
    /// How rows of images are stored.
    pub images: Images,
    /// The streams whose rows a store of tensors has, too.
    pub rows: Vec<String>,
    /// The share of the bags that is replayed; `None` for all.
    pub share: Option<Share>,
    /// True if the parts of a store stay parts, which another run takes and joins.
    pub parts_only: bool,
    /// True if results of another configuration or other options may be replaced.
    pub replace: bool,
    /// The folders of other runs, whose results are taken.
    pub take: Vec<PathBuf>,
    /// True if tensors have no digest.
    pub no_digest: bool,
    /// A folder of results that stay there: a complete one counts as kept.
    pub kept_in: Option<PathBuf>,
    /// Behaviour while another run writes into the folder of the results.
    pub busy: Busy,
}

/// The bags of a replay, their episodes, and how these are played. A replay into memory asks for no more.
#[derive(Clone, Debug)]
pub struct EpisodesRequest {
    /// Bags, or folders of bags.
    pub bags: Vec<PathBuf>,
    /// The rate of the ticks \[Hz\]; `None` for the configuration's.
    pub rate_hz: Option<f64>,
    /// The first instant.
    pub start: Option<Moment>,
    /// The last instant.
    pub end: Option<Moment>,
    /// A file that lists the episodes.
    pub list: Option<PathBuf>,
    /// The topic whose edges divide a bag into episodes.
    pub by_topic: Option<EpisodeTopic>,
    /// Topics that have other names in the bags.
    pub remaps: Vec<Remap>,
    /// The clock of the ticks.
    pub time: AskedClock,
    /// The processor that computes.
    pub backend: Choice,
    /// The GPUs, which the episodes share in turn.
    pub gpus: Vec<AskedGpu>,
    /// The most episodes at once; `None` for as many as there are processors.
    pub jobs: Option<Jobs>,
}

/// A GPU by its number, or all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskedGpu {
    /// Every GPU of the machine.
    All,
    /// The GPU of this number.
    Number(usize),
}

/// The most episodes at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jobs(NonZeroU16);

/// The reason why there is nothing to replay.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// A value does not fit.
    #[error("{0}")]
    Wrong(String),
    /// The bags have no such episodes, or there is no such GPU.
    #[error(transparent)]
    Failed(#[from] ReplayError),
}

impl RequestError {
    fn wrong(error: impl fmt::Display) -> Self {
        RequestError::Wrong(error.to_string())
    }
}

impl FromStr for AskedGpu {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.parse()) {
            ("all", _) => Ok(AskedGpu::All),
            (_, Ok(number)) => Ok(AskedGpu::Number(number)),
            _ => Err(format!("expected a number or all, found '{text}'")),
        }
    }
}

impl FromStr for Jobs {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number: i64 = text.parse().map_err(|error| format!("{error}"))?;
        let jobs = u16::try_from(number).ok().and_then(NonZeroU16::new);
        jobs.map(Jobs).ok_or_else(|| format!("{number} is not in 1..={}", u16::MAX))
    }
}

impl Default for EpisodesRequest {
    fn default() -> Self {
        EpisodesRequest {
            bags: Vec::new(),
            rate_hz: None,
            start: None,
            end: None,
            list: None,
            by_topic: None,
            remaps: Vec::new(),
            time: AskedClock::Auto,
            backend: Choice::Auto,
            gpus: vec![AskedGpu::Number(0)],
            jobs: None,
        }
    }
}

impl EpisodesRequest {
    /// Checks that no two of the values exclude each other.
    ///
    /// # Errors
    /// [`RequestError::Wrong`] names two that do.
    pub fn check(&self) -> Result<(), RequestError> {
        let start = (self.start.is_some(), "--start <START>");
        let end = (self.end.is_some(), "--end <END>");
        let list = (self.list.is_some(), "--episodes <FILE.csv>");
        let by_topic = (self.by_topic.is_some(), "--episodes-by <TOPIC[:PATH]>");
        let excluded =
            [(start, list), (end, list), (by_topic, start), (by_topic, end), (by_topic, list)];
        match excluded.iter().find(|((one, _), (other, _))| *one && *other) {
            None => Ok(()),
            Some(((_, one), (_, other))) => Err(RequestError::Wrong(format!(
                "the argument '{one}' cannot be used with '{other}'"
            ))),
        }
    }

    /// Finds the episodes of the bags. Results in the folder `out` are no bags.
    ///
    /// # Errors
    /// There are no such bags or episodes.
    pub fn find(&self, out: &Path) -> Result<Vec<Episode>, RequestError> {
        Ok(self.find_in_bags(out)?.1)
    }

    /// The bags in their order, and their episodes.
    fn find_in_bags(&self, out: &Path) -> Result<(Vec<PathBuf>, Vec<Episode>), RequestError> {
        self.check()?;
        if self.bags.is_empty() {
            return Err(RequestError::Wrong("bags: expected at least one, found none".to_owned()));
        }
        let bags = find_bags(&self.bags, out).map_err(RequestError::wrong)?;
        let division = match (&self.list, &self.by_topic) {
            (Some(list), _) => Division::Listed(read_episodes(list).map_err(RequestError::wrong)?),
            (None, Some(topic)) => Division::ByTopic(topic.clone()),
            (None, None) => Division::Whole,
        };
        let parts = Parts { start: self.start, end: self.end, division };
        let found = episodes(&bags, &parts)?;
        Ok((bags, found))
    }

    /// True if a value says which part of a bag is an episode.
    fn divides(&self) -> bool {
        let Self { start, end, list, by_topic, .. } = self;
        start.is_some() || end.is_some() || list.is_some() || by_topic.is_some()
    }

    /// The numbers of the GPUs.
    fn devices(&self) -> Result<Vec<usize>, ReplayError> {
        let numbers = self.gpus.iter().filter_map(|gpu| match gpu {
            AskedGpu::Number(number) => Some(*number),
            AskedGpu::All => None,
        });
        match self.gpus.contains(&AskedGpu::All) {
            true => Ok(backend::devices(self.backend)?),
            false => Ok(numbers.collect()),
        }
    }

    /// The most episodes at once.
    fn jobs(&self) -> usize {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        self.jobs.map_or(cores, |Jobs(jobs)| jobs.get().into())
    }
}

impl ReplayRequest {
    /// Checks that the values go together. No file is read.
    ///
    /// # Errors
    /// [`RequestError::Wrong`] names values that do not.
    pub fn check(&self) -> Result<(), RequestError> {
        self.episodes.check()?;
        if self.bf16.is_some() && self.format == Format::Mcap {
            let why = "--bf16: expected --format zarr or rows, found mcap, which has bf16";
            return Err(RequestError::wrong(why));
        }
        if !self.rows.is_empty() && self.format != Format::Zarr {
            let why = "--rows: expected --format zarr, found another: --format rows has all rows";
            return Err(RequestError::wrong(why));
        }
        match self.images {
            images @ Images::Jpeg(_) if self.format != Format::Rows => {
                Err(RequestError::Wrong(format!(
                    "--images {images}: expected --format rows, found {}, which has tensors",
                    self.format
                )))
            }
            _ => Ok(()),
        }
    }

    /// Finds the episodes, and says how they are replayed.
    ///
    /// # Errors
    /// Values do not go together, or there are no such bags, episodes or GPUs.
    pub fn asked(&self) -> Result<(Vec<Episode>, ReplayOptions), RequestError> {
        self.check()?;
        let (bags, found) = self.episodes.find_in_bags(&self.out)?;
        self.shared(&bags, found)
    }

    /// Takes these episodes in place of those in the bags, and says how they are replayed. No bag is looked at.
    ///
    /// # Errors
    /// Values do not go together, or there are no such GPUs.
    pub fn asked_of(
        &self,
        given: Vec<Episode>,
    ) -> Result<(Vec<Episode>, ReplayOptions), RequestError> {
        self.check()?;
        if self.episodes.divides() {
            let why = "expected neither --start, --end, --episodes nor --episodes-by: a dataset has its own episodes";
            return Err(RequestError::wrong(why));
        }
        let stand_ins: Vec<_> = given.iter().map(|episode| episode.bag.clone()).collect();
        self.shared(&stand_ins, given)
    }

    /// The episodes of the share, and how they are replayed. `bags` are all bags in their order.
    fn shared(
        &self,
        bags: &[PathBuf],
        mut found: Vec<Episode>,
    ) -> Result<(Vec<Episode>, ReplayOptions), RequestError> {
        if let Some(share) = self.share {
            share.keep(bags, &mut found);
        }
        let asked = &self.episodes;
        let options = ReplayOptions {
            config: self.config.clone(),
            rate_hz: asked.rate_hz,
            remaps: asked.remaps.clone(),
            time: asked.time.clone(),
            backend: asked.backend,
            devices: asked.devices()?,
            digest: !self.no_digest,
            out: self.out.clone(),
            jobs: asked.jobs().min(found.len()),
            format: self.format,
            bf16: self.bf16.unwrap_or_default(),
            images: self.images,
            rows: self.rows.clone(),
            parts_only: self.parts_only,
            replace: self.replace,
            take: self.take.clone(),
            kept_in: self.kept_in.clone(),
            busy: self.busy,
        };
        Ok((found, options))
    }
}

#[cfg(test)]
mod tests;
