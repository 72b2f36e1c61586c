//! Options of a replay of many episodes.

use std::path::PathBuf;

use super::results::Format;
use super::{AskedClock, Remap};
use crate::output::{Bf16, Images};
use crate::store::WriterLimits;
use robocache_core::backend::Choice;

/// Behaviour of a run while another one writes into the folder of its results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Busy {
    /// It fails, and says so.
    #[default]
    Fails,
    /// It waits for the end of the other one, whose results it then finds.
    Waits,
}

/// Options of a replay: its input, its outputs, and what it may use.
#[derive(Clone, Debug)]
pub struct ReplayOptions {
    /// The configuration's file.
    pub config: PathBuf,
    /// Rate of the ticks \[Hz\]; `None` for the configuration's.
    pub rate_hz: Option<f64>,
    /// Topics that have other names in the bags.
    pub remaps: Vec<Remap>,
    /// Which clock the ticks are on.
    pub time: AskedClock,
    /// Backend that computes.
    pub backend: Choice,
    /// The GPUs, which the workers share in turn.
    pub devices: Vec<usize>,
    /// True if tensors are sealed with a digest.
    pub digest: bool,
    /// The folder of the results.
    pub out: PathBuf,
    /// Episodes at once.
    pub jobs: usize,
    /// Format of the results.
    pub format: Format,
    /// How elements of bf16 are stored in Zarr.
    pub bf16: Bf16,
    /// How rows of images are stored.
    pub images: Images,
    /// The streams whose rows a store of tensors has, too.
    pub rows: Vec<String>,
    /// True if the parts of a store stay parts, which another run takes and joins.
    pub parts_only: bool,
    /// True if results of another configuration or other options may be replaced.
    pub replace: bool,
    /// Folders of other runs, whose results are taken if they are what this run would make.
    pub take: Vec<PathBuf>,
    /// A folder of results that stay there: a complete one counts as kept.
    pub kept_in: Option<PathBuf>,
    /// Behaviour while another run writes into the folder of the results.
    pub busy: Busy,
}

/// Large rows of all episodes that wait until they are compressed \[bytes\].
const ROWS_IN_WORK: usize = 128 << 20;

impl ReplayOptions {
    /// Threads and memory that the output of an episode may use.
    pub(super) fn limits(&self) -> WriterLimits {
        WriterLimits { threads: self.threads(), memory: ROWS_IN_WORK / self.jobs.max(1) }
    }

    /// Threads that encode messages of an episode, and as many that compress its rows.
    pub(super) fn threads(&self) -> usize {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        cores.div_ceil(self.jobs.max(1))
    }
}
