//! The words of `robocache replay`. They fill a [`ReplayRequest`].

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use robocache_core::backend::Choice;
use robocache_data::output::{Bf16, Images};
use robocache_data::replay::{
    AskedClock, AskedGpu, Busy, EpisodeTopic, EpisodesRequest, Format, Jobs, Moment, Remap,
    ReplayRequest, Share,
};

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
pub(super) struct ReplayArgs {
    /// Bags, or folders of bags
    #[arg(required = true, value_name = "BAG")]
    bags: Vec<PathBuf>,
    /// The configuration file (YAML)
    #[arg(long)]
    config: PathBuf,
    /// The folder of the results
    #[arg(long)]
    out: PathBuf,
    /// Format of the results
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
    common: EpisodeArgs,
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

// The words of an `EpisodesRequest`. It has no doc comment, because clap would take that for the help of the command.
#[derive(Args)]
struct EpisodeArgs {
    /// Rate of the ticks [Hz], in place of the configuration's
    #[arg(long)]
    rate_hz: Option<f64>,
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
    remap: Vec<Remap>,
    /// Which clock the ticks are on. auto: /clock if the bag has it, else the receive stamps; receive: the receive
    /// stamps; clock: /clock; header: the newest stamp of the messages, for a simulator's bag without /clock;
    /// header:/TOPIC: the stamps of one topic
    #[arg(long, value_name = "SOURCE", default_value = "auto")]
    time: AskedClock,
    /// Processor that computes: auto, cpu or cuda
    #[arg(long, default_value = "auto")]
    backend: Choice,
    /// Numbers of the GPUs, which the episodes share, or all
    #[arg(long, value_delimiter = ',', default_value = "0", value_name = "N,N... or all")]
    device: Vec<AskedGpu>,
    /// Episodes at once; by default as many as there are processors
    #[arg(long)]
    jobs: Option<Jobs>,
}

/// Format of the results.
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
    /// Their values, in twice the bytes
    F32,
}

impl From<StoredBf16> for Bf16 {
    fn from(stored: StoredBf16) -> Self {
        match stored {
            StoredBf16::Uint16 => Bf16::Uint16,
            StoredBf16::F32 => Bf16::F32,
        }
    }
}

impl ReplayArgs {
    /// The request that the words make.
    pub(super) fn request(&self) -> ReplayRequest {
        let EpisodeArgs { rate_hz, start, end, episodes, episodes_by, .. } = &self.common;
        let EpisodeArgs { remap, time, backend, device, jobs, .. } = &self.common;
        let episodes = EpisodesRequest {
            bags: self.bags.clone(),
            rate_hz: *rate_hz,
            start: *start,
            end: *end,
            list: episodes.clone(),
            by_topic: episodes_by.clone(),
            remaps: remap.clone(),
            time: time.clone(),
            backend: *backend,
            gpus: device.clone(),
            jobs: *jobs,
        };
        ReplayRequest {
            episodes,
            config: self.config.clone(),
            out: self.out.clone(),
            format: self.format.into(),
            bf16: self.bf16.map(Bf16::from),
            images: self.images,
            rows: self.rows.clone(),
            share: self.share,
            parts_only: self.parts_only,
            replace: self.replace,
            take: self.take.clone(),
            no_digest: self.no_digest,
            kept_in: None,
            busy: Busy::Fails,
        }
    }
}

#[cfg(test)]
mod tests;
