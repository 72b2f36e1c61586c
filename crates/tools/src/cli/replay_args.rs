//! What `robocache replay` is asked for. Each option has its name, its default and its help here and nowhere else: the
//! Python package makes words of its arguments, and [`ReplayArgs::parse`] reads them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgAction, Args, Parser, ValueEnum};
use robocache_core::backend::{self, Choice};
use robocache_data::output::{Bf16, Images};
use robocache_data::replay::{
    self, Division, Episode, EpisodeTopic, Format, Moment, Options, Parts, Remap, ReplayError,
    Share, TimeSource, read_episodes,
};
use serde::Serialize;

/// Run recorded bags through the pipeline, as fast as it goes, and write the tensors.
///
/// Reads bags of rosbag2, MCAP and sqlite3, compressed or not, split or not, and folders of bags. It needs
/// no ROS. A damaged file is read as far as that is possible, and what is missing is reported.
///
/// Ticks are at the multiples of their period, from the first to the last message of a bag, on the
/// recorder's clock, or on the simulator's if the bag has /clock. A tick sees what was received before it,
/// as a live node does. If a simulator's bag lacks /clock, use --time header.
///
/// Each episode becomes OUT/NAME.mcap: messages of robocache_ros/msg/FusedTensor, and one FusedTensorInfo. With
/// --format zarr all become one store of arrays, OUT/tensors.zarr, and with --format rows the rows of every
/// stream at their own stamps, OUT/rows.zarr. A result has its name only when it is complete. If the command runs
/// again, results that are complete are kept. The numbers of all episodes are in OUT/replay.json.
///
/// Exit code: 0 if every episode was replayed; 1 if one was not; 2 if the command line is wrong.
#[derive(Args)]
#[allow(clippy::struct_excessive_bools)] // each is an option of the command line
pub struct ReplayArgs {
    /// Bags, or folders of bags
    #[arg(required = true, value_name = "BAG")]
    bags: Vec<PathBuf>,
    /// The configuration file (YAML)
    #[arg(long)]
    config: PathBuf,
    /// The folder of the results
    #[arg(long)]
    out: PathBuf,
    /// What to write
    #[arg(long, value_enum, default_value_t)]
    format: Written,
    /// How elements of bf16 are stored in Zarr, which does not know the type [default: uint16]
    #[arg(long, value_enum)]
    bf16: Option<StoredBf16>,
    /// How rows of images are stored: zstd, without loss, or jpeg:QUALITY, 1 to 100, for those of u8; only with
    /// --format rows
    #[arg(long, default_value_t, value_name = "zstd or jpeg:QUALITY")]
    images: Images,
    /// Streams whose rows OUT/tensors.zarr has, too, at their own stamps; only with --format zarr
    #[arg(long, value_delimiter = ',', value_name = "STREAM,...")]
    rows: Vec<String>,
    /// Which episodes, and how.
    #[command(flatten)]
    pub common: EpisodeArgs,
    /// Replay only the bags of one of N shares. If several processes have a share each, every bag is in one of them
    #[arg(long, value_name = "K/N")]
    share: Option<Share>,
    /// Leave the parts of a store as they are, for a run with --take
    #[arg(long)]
    parts_only: bool,
    /// Replace results that were made with another configuration or other options. Without it, they stay, and that is an
    /// error
    #[arg(long)]
    replace: bool,
    /// Take results from the folder of another run, which had a share of these bags and the same options; may be given
    /// several times
    #[arg(long, value_name = "FOLDER")]
    take: Vec<PathBuf>,
    /// Leave the digests out, as a node with `digest: false` does
    #[arg(long)]
    no_digest: bool,
    /// Print what became of each episode as JSON; times are in nanoseconds
    #[arg(long)]
    pub(super) json: bool,
}

// Which episodes are replayed, and how: what the commands and functions of the Python package take too. It has no doc
// comment, because clap would take that for the help of the command.
#[derive(Args)]
#[allow(missing_docs)]
pub struct EpisodeArgs {
    /// Rate of the ticks [Hz], in place of the configuration's
    #[arg(long)]
    pub rate_hz: Option<f64>,
    /// The first instant: seconds from the start of each bag, or since 1970
    #[arg(long, conflicts_with = "episodes")]
    start: Option<Moment>,
    /// The last instant: seconds from the start of each bag, or since 1970
    #[arg(long, conflicts_with = "episodes")]
    end: Option<Moment>,
    /// Episodes in the bags: a CSV file with the columns start and end [s], bag (its name; required if there are
    /// several bags) and, if wanted, task
    #[arg(long, value_name = "FILE.csv")]
    episodes: Option<PathBuf>,
    /// Episodes by a number of a topic, such as /recording or /joy:buttons[0]: one lasts while it is not zero
    #[arg(long, value_name = "TOPIC[:PATH]", conflicts_with_all = ["start", "end", "episodes"])]
    episodes_by: Option<EpisodeTopic>,
    /// A topic of the configuration that has another name in the bags; may be given several times
    #[arg(long, value_name = "FROM:=TO")]
    pub remap: Vec<Remap>,
    /// Which clock the ticks are on. auto: /clock if the bag has it, else the receive stamps; receive: the receive
    /// stamps; clock: /clock; header: the newest stamp of the messages, for a simulator's bag without /clock;
    /// header:/TOPIC: the stamps of one topic
    #[arg(long, value_name = "SOURCE", default_value = "auto")]
    pub time: TimeSource,
    /// Where to compute: auto, cpu or cuda
    #[arg(long, default_value = "auto")]
    pub backend: Choice,
    /// Numbers of the GPUs, which the episodes share, or all
    #[arg(long, value_delimiter = ',', default_value = "0", value_name = "N,N... or all")]
    device: Vec<Gpu>,
    /// Episodes at once; by default as many as there are processors
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
}

/// A GPU on the command line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Gpu {
    All,
    Number(usize),
}

impl std::str::FromStr for Gpu {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.parse()) {
            ("all", _) => Ok(Gpu::All),
            (_, Ok(number)) => Ok(Gpu::Number(number)),
            _ => Err(format!("expected a number or all, found '{text}'")),
        }
    }
}

/// What is written.
#[derive(Clone, Copy, Default, ValueEnum)]
enum Written {
    /// Tensors as messages: OUT/NAME.mcap per episode
    #[default]
    Mcap,
    /// Tensors as arrays of all episodes, one after the other: OUT/tensors.zarr
    Zarr,
    /// The rows of every stream at their own stamps, likewise: OUT/rows.zarr
    Rows,
}

impl From<Written> for Format {
    fn from(written: Written) -> Self {
        match written {
            Written::Mcap => Format::Mcap,
            Written::Zarr => Format::Zarr,
            Written::Rows => Format::Rows,
        }
    }
}

/// How elements of bf16 are stored.
#[derive(Clone, Copy, ValueEnum)]
enum StoredBf16 {
    /// Their bits; an attribute says so
    Uint16,
    /// The same numbers, in twice the bytes
    F32,
}

/// Why there is nothing to replay.
#[derive(Debug, thiserror::Error)]
pub enum AskedError {
    /// An argument does not fit.
    #[error("{0}")]
    Wrong(String),
    /// The bags have no such episodes, or there is no such GPU.
    #[error(transparent)]
    Failed(#[from] ReplayError),
}

impl AskedError {
    fn wrong(error: impl std::fmt::Display) -> Self {
        AskedError::Wrong(error.to_string())
    }

    /// The error of clap in one line.
    fn of(error: &clap::Error) -> Self {
        let context = |kind| error.get(kind).map(ToString::to_string).unwrap_or_default();
        // `--time <SOURCE>`
        let argument = context(ContextKind::InvalidArg);
        let option = argument.split(' ').next().unwrap_or_default();
        let found = context(ContextKind::InvalidValue);
        let source = std::error::Error::source(error);
        let of_value = match (error.kind(), error.get(ContextKind::ValidValue), source) {
            (ErrorKind::InvalidValue, Some(ContextValue::Strings(names)), _) => {
                Some(format!("expected {}, found '{found}'", listed(names)))
            }
            (ErrorKind::ValueValidation, _, Some(source)) => match source.to_string() {
                why if why.contains("found") => Some(why),
                why => Some(format!("{why}: '{found}'")),
            },
            _ => None,
        };
        let text = error.render().to_string();
        let paragraph = text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ");
        AskedError::Wrong(match of_value {
            Some(why) => format!("{option}: {why}"),
            None => paragraph.lines().map(str::trim).collect::<Vec<_>>().join(" "),
        })
    }
}

/// `a, b or c`
fn listed(names: &[String]) -> String {
    match names {
        [before @ .., last] if !before.is_empty() => format!("{} or {last}", before.join(", ")),
        names => names.concat(),
    }
}

/// Words behind the name of a command, as a command line of their own.
#[derive(Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct Words<A: Args> {
    #[command(flatten)]
    args: A,
}

fn parsed<A: Args>(words: impl IntoIterator<Item = OsString>) -> Result<A, AskedError> {
    Words::try_parse_from(words).map(|of: Words<A>| of.args).map_err(|error| AskedError::of(&error))
}

impl ReplayArgs {
    /// Reads the words behind `robocache replay`.
    ///
    /// # Errors
    /// [`AskedError::Wrong`] names the option that does not fit.
    pub fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Self, AskedError> {
        parsed(words)
    }

    /// Checks what no option says by itself.
    ///
    /// # Errors
    /// Two options do not go together.
    pub fn check(&self) -> Result<(), AskedError> {
        if self.bf16.is_some() && matches!(self.format, Written::Mcap) {
            let why = "--bf16: expected --format zarr or rows, found mcap, which has bf16";
            return Err(AskedError::wrong(why));
        }
        if !self.rows.is_empty() && !matches!(self.format, Written::Zarr) {
            let why = "--rows: expected --format zarr, found another: --format rows has all rows";
            return Err(AskedError::wrong(why));
        }
        let format = match self.format {
            Written::Mcap => "mcap",
            Written::Zarr => "zarr",
            Written::Rows => return Ok(()),
        };
        match self.images {
            Images::Zstd => Ok(()),
            images @ Images::Jpeg(_) => Err(AskedError::Wrong(format!(
                "--images {images}: expected --format rows, found {format}, which has tensors"
            ))),
        }
    }

    /// The episodes, and how they are replayed.
    ///
    /// # Errors
    /// There are no such bags, episodes or GPUs.
    pub fn asked(&self) -> Result<(Vec<Episode>, Options), AskedError> {
        self.check()?;
        let (bags, episodes) = self.common.episodes(&self.bags, &self.out)?;
        self.asked_of(&bags, episodes)
    }

    /// The episodes of these that the share has, and how they are replayed. The bags of the command line are not
    /// looked at. `bags` are all bags in their order, or what stands for them.
    ///
    /// # Errors
    /// Options do not go together, or there are no such GPUs.
    pub fn asked_of(
        &self,
        bags: &[PathBuf],
        mut episodes: Vec<Episode>,
    ) -> Result<(Vec<Episode>, Options), AskedError> {
        self.check()?;
        let common = &self.common;
        if let Some(share) = self.share {
            share.keep(bags, &mut episodes);
        }
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let options = Options {
            config: self.config.clone(),
            rate_hz: common.rate_hz,
            remaps: common.remap.clone(),
            time: common.time.clone(),
            backend: common.backend,
            devices: common.devices()?,
            digest: !self.no_digest,
            out: self.out.clone(),
            jobs: common.jobs.map_or(cores, usize::from).min(episodes.len()),
            format: self.format.into(),
            bf16: match self.bf16 {
                None | Some(StoredBf16::Uint16) => Bf16::Uint16,
                Some(StoredBf16::F32) => Bf16::F32,
            },
            images: self.images,
            rows: self.rows.clone(),
            parts_only: self.parts_only,
            replace: self.replace,
            take: self.take.clone(),
            kept_in: None,
        };
        Ok((episodes, options))
    }
}

impl EpisodeArgs {
    /// The bags at these paths and their episodes. Results in the folder `out` are no bags.
    fn episodes(
        &self,
        paths: &[PathBuf],
        out: &Path,
    ) -> Result<(Vec<PathBuf>, Vec<Episode>), AskedError> {
        let bags = replay::find_bags(paths, out).map_err(AskedError::wrong)?;
        let division = match (&self.episodes, &self.episodes_by) {
            (Some(list), _) => Division::Listed(read_episodes(list).map_err(AskedError::wrong)?),
            (None, Some(topic)) => Division::ByTopic(topic.clone()),
            (None, None) => Division::Whole,
        };
        let parts = Parts { start: self.start, end: self.end, division };
        let episodes = replay::episodes(&bags, &parts)?;
        Ok((bags, episodes))
    }

    /// Whether an option says which part of a bag is an episode.
    pub fn divides(&self) -> bool {
        let Self { start, end, episodes, episodes_by, .. } = self;
        start.is_some() || end.is_some() || episodes.is_some() || episodes_by.is_some()
    }

    /// The numbers of the GPUs.
    fn devices(&self) -> Result<Vec<usize>, AskedError> {
        let numbers = self.device.iter().filter_map(|gpu| match gpu {
            Gpu::Number(number) => Some(*number),
            Gpu::All => None,
        });
        match self.device.contains(&Gpu::All) {
            true => Ok(backend::devices(self.backend).map_err(ReplayError::from)?),
            false => Ok(numbers.collect()),
        }
    }
}

/// What a replay into memory is asked for: bags and [`EpisodeArgs`].
#[derive(Args)]
struct InMemoryArgs {
    #[arg(required = true, value_name = "BAG")]
    bags: Vec<PathBuf>,
    #[command(flatten)]
    common: EpisodeArgs,
}

/// Reads words as of `robocache replay` for a replay into memory. Returns the episodes, and how they are replayed.
///
/// # Errors
/// An option does not fit; there are no such bags or episodes.
pub fn in_memory(
    words: impl IntoIterator<Item = OsString>,
) -> Result<(Vec<Episode>, EpisodeArgs), AskedError> {
    let InMemoryArgs { bags, common } = parsed(words)?;
    let (_, episodes) = common.episodes(&bags, Path::new(""))?;
    Ok((episodes, common))
}

/// An option of `robocache replay`, for a command line that passes it on.
#[derive(Serialize)]
pub struct OfferedOption {
    /// `--NAME`
    name: String,
    /// What its value is called; `None` if it has no value.
    metavar: Option<String>,
    /// The values that it may have; empty if there is no list of them.
    choices: Vec<String>,
    /// Whether it may be given several times.
    repeats: bool,
    /// What it does.
    help: String,
    /// Whether every command that replays has it.
    is_common: bool,
}

/// The options of `robocache replay`, in the order of its help.
pub fn offered_options() -> Vec<OfferedOption> {
    let common = EpisodeArgs::augment_args(clap::Command::new("common"));
    let is_common = |id: &clap::Id| common.get_arguments().any(|argument| argument.get_id() == id);
    let command = ReplayArgs::augment_args(clap::Command::new("replay"));
    let offered = |argument: &clap::Arg| {
        let values = argument.get_possible_values();
        let takes_value = argument.get_action().takes_values();
        Some(OfferedOption {
            name: format!("--{}", argument.get_long()?),
            metavar: argument
                .get_value_names()
                .filter(|_| takes_value)
                .map(|names| names.join(" ")),
            choices: match takes_value {
                true => values.iter().map(|value| value.get_name().to_owned()).collect(),
                false => Vec::new(),
            },
            repeats: matches!(argument.get_action(), ArgAction::Append)
                && argument.get_value_delimiter().is_none(),
            help: argument.get_help().map(StyledStr::to_string).unwrap_or_default(),
            is_common: is_common(argument.get_id()),
        })
    };
    command.get_arguments().filter_map(offered).collect()
}

#[cfg(test)]
mod tests;
