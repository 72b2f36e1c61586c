//! `robocache replay`

use std::collections::HashMap;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use robocache_core::backend::{self, Choice};
use robocache_data::output::Bf16;
use robocache_data::replay::batch::{self, BatchProgress, EpisodeOutcome, Results};
use robocache_data::replay::{
    self, Division, EdgeTopic, Episode, Format, Moment, Options, Parts, Remap, Share, Summary,
    TimeSource, read_episodes,
};
use robocache_ops::time::Stamp;

use super::{Error, FAILURE, SUCCESS, is_broken_pipe, say};

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
    episodes_by: Option<EdgeTopic>,
    /// A topic of the configuration that has another name in the bags; may be given several times
    #[arg(long, value_name = "FROM:=TO")]
    remap: Vec<Remap>,
    /// Which clock the ticks are on. auto: /clock if the bag has it, else the receive stamps; receive: the receive
    /// stamps; clock: /clock; header: the newest stamp of the messages, for a simulator's bag without /clock;
    /// header:/TOPIC: the stamps of one topic
    #[arg(long, value_name = "SOURCE", default_value = "auto")]
    time: TimeSource,
    /// Where to compute: auto, cpu or cuda
    #[arg(long, default_value = "auto")]
    backend: Choice,
    /// Numbers of the GPUs, which the episodes share, or all
    #[arg(long, value_delimiter = ',', default_value = "0", value_name = "N,N... or all")]
    device: Vec<Gpu>,
    /// Episodes at once; by default as many as there are processors
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
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
    json: bool,
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

/// The numbers of the GPUs.
fn devices(named: &[Gpu], choice: Choice) -> Result<Vec<usize>, Error> {
    let numbers = named.iter().filter_map(|gpu| match gpu {
        Gpu::Number(number) => Some(*number),
        Gpu::All => None,
    });
    match named.contains(&Gpu::All) {
        true => Ok(backend::devices(choice)?),
        false => Ok(numbers.collect()),
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

/// Runs the command.
pub fn run(args: &ReplayArgs) -> Result<u8, Error> {
    let bars = MultiProgress::new();
    log_beside(&bars);
    let (episodes, options) = asked(args)?;
    let stop = Arc::new(AtomicBool::new(false));
    stop_on_interrupt(&stop)?;
    let watch = Bars::new(bars, episodes.len());
    let Results { outcomes, store } = batch::run_all(&episodes, &options, &watch, &stop)?;
    watch.close();
    let is_stored = store.inspect_err(|error| say(&format!("no new store: {error}"))).is_ok();
    let good = |outcome: &EpisodeOutcome| {
        matches!(outcome, EpisodeOutcome::Done(_) | EpisodeOutcome::Kept(_))
    };
    match report(&outcomes, args.json) {
        // Whether anybody reads on does not change what became of the episodes.
        Err(error) if !is_broken_pipe(&*error) => Err(error),
        _ if is_stored && outcomes.iter().all(good) => Ok(SUCCESS),
        _ => Ok(FAILURE),
    }
}

/// What the result of each episode would be made of, in words: its name, and all that its bytes depend on. Nothing is
/// replayed.
pub fn made_of(args: &ReplayArgs) -> Result<Vec<(String, String)>, Error> {
    let (episodes, options) = asked(args)?;
    Ok(batch::made_of_all(&episodes, &options)?)
}

/// The episodes that a command line asks for, and how they are replayed.
fn asked(args: &ReplayArgs) -> Result<(Vec<Episode>, Options), Error> {
    if args.bf16.is_some() && matches!(args.format, Written::Mcap) {
        return Err("--bf16: expected --format zarr or rows, found mcap, which has bf16".into());
    }
    let bags = replay::find_bags(&args.bags, &args.out)?;
    let division = match (&args.episodes, &args.episodes_by) {
        (Some(list), _) => Division::Listed(read_episodes(list)?),
        (None, Some(topic)) => Division::Edges(topic.clone()),
        (None, None) => Division::Whole,
    };
    let parts = Parts { start: args.start, end: args.end, division };
    let mut episodes = replay::episodes(&bags, &parts)?;
    if let Some(share) = args.share {
        share.keep(&bags, &mut episodes);
    }
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let options = Options {
        config: args.config.clone(),
        rate_hz: args.rate_hz,
        remaps: args.remap.clone(),
        time: args.time.clone(),
        backend: args.backend,
        devices: devices(&args.device, args.backend)?,
        digest: !args.no_digest,
        out: args.out.clone(),
        jobs: args.jobs.map_or(cores, usize::from).min(episodes.len()),
        format: args.format.into(),
        bf16: match args.bf16 {
            None | Some(StoredBf16::Uint16) => Bf16::Uint16,
            Some(StoredBf16::F32) => Bf16::F32,
        },
        parts_only: args.parts_only,
        replace: args.replace,
        take: args.take.clone(),
    };
    Ok((episodes, options))
}

/// Ends the run at the first interrupt, so that nothing incomplete stays, and the program at the second.
fn stop_on_interrupt(stop: &Arc<AtomicBool>) -> Result<(), Error> {
    let stop = Arc::clone(stop);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new().name("interrupt".into()).spawn(move || {
        runtime.block_on(async {
            while tokio::signal::ctrl_c().await.is_ok() {
                if stop.swap(true, Ordering::Relaxed) {
                    std::process::exit(130);
                }
                say("stopping; once more to stop at once");
            }
        });
    })?;
    Ok(())
}

/// What became of the episodes, for people or programs.
fn report(outcomes: &[EpisodeOutcome], json: bool) -> Result<(), Error> {
    let mut out = std::io::stdout().lock();
    if json {
        writeln!(out, "{}", serde_json::to_string_pretty(outcomes)?)?;
    } else {
        for outcome in outcomes {
            match outcome {
                EpisodeOutcome::Done(summary) => describe(&mut out, summary, "")?,
                EpisodeOutcome::Kept(summary) => describe(&mut out, summary, " (kept)")?,
                EpisodeOutcome::Failed { name, error } => say(&format!("{name}: failed: {error}")),
                EpisodeOutcome::Stopped { name } => say(&format!("{name}: stopped, and left out")),
            }
        }
    }
    Ok(out.flush()?)
}

/// A few lines about an episode.
fn describe(out: &mut impl Write, summary: &Summary, note: &str) -> std::io::Result<()> {
    let Summary { name, ticks, held_back, overruns, .. } = summary;
    write!(out, "{name}:")?;
    if summary.streams.values().any(|stream| stream.steps > 0) || *ticks > 0 {
        write!(out, " {ticks} ticks")?;
    }
    for (count, what) in [(held_back, "held back"), (overruns, "passed over by the clock")] {
        if *count > 0 {
            write!(out, ", {count} {what}")?;
        }
    }
    if let Some(tick) = summary.skew.tick {
        let ms = summary.skew.largest_ns as f64 / 1e6;
        write!(out, ", largest skew {ms:.3} ms (tick {tick})")?;
    }
    writeln!(out, "{note}")?;
    for (stream, numbers) in &summary.streams {
        write!(out, "  {stream}: {} rows", numbers.rows)?;
        if let Some(share) = numbers.valid_share {
            write!(out, ", {:.2} % of the steps valid", 100.0 * share)?;
        }
        for (reason, steps) in &numbers.invalid {
            write!(out, ", {reason} {steps}")?;
        }
        writeln!(out)?;
    }
    for (input, numbers) in &summary.inputs {
        for (reason, messages) in &numbers.dropped {
            writeln!(out, "  {input}: {messages} of {} dropped: {reason}", numbers.received)?;
        }
        for (reason, parts) in &numbers.parts_dropped {
            writeln!(out, "  {input}: {parts} parts of messages dropped: {reason}")?;
        }
        if numbers.waiting > 0 {
            writeln!(out, "  {input}: {} still wait for a transform", numbers.waiting)?;
        }
    }
    for topic in &summary.missing {
        writeln!(out, "  {topic}: not in the bag")?;
    }
    for topic in &summary.untyped {
        writeln!(out, "  {topic}: the bag does not say its type; the configuration's is believed")?;
    }
    for problem in &summary.problems {
        writeln!(out, "  {problem}")?;
    }
    if summary.more_problems > 0 {
        writeln!(out, "  and {} more like these", summary.more_problems)?;
    }
    Ok(())
}

/// Writes warnings to stderr, above the bars if there are any.
fn log_beside(bars: &MultiProgress) {
    let bars = bars.clone();
    let writer = move || Line { bars: bars.clone(), bytes: Vec::new() };
    let log = tracing_subscriber::fmt().with_max_level(tracing::Level::WARN).without_time();
    log.with_target(false).with_ansi(false).with_writer(writer).init();
}

/// A line of the log.
struct Line {
    bars: MultiProgress,
    bytes: Vec<u8>,
}

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let line = String::from_utf8_lossy(&self.bytes);
        self.bars.suspend(|| say(line.trim_end()));
    }
}

/// One bar for all episodes: of them, seconds of data, speed, and the time left. There is none without a
/// terminal.
struct Bars {
    bar: ProgressBar,
    started: Instant,
    state: Mutex<ProgressState>,
}

#[derive(Default)]
struct ProgressState {
    /// Episodes under way: the first, the last and the present instant.
    running: HashMap<String, [Stamp; 3]>,
    /// Nanoseconds of data of the episodes that have ended, and how many these are.
    done_ns: i64,
    ended: usize,
    shown: Option<Instant>,
}

/// Time between two looks of the bar.
const PERIOD: Duration = Duration::from_millis(100);

impl Bars {
    fn new(bars: MultiProgress, episodes: usize) -> Self {
        // Thousandths of an episode, as how long each is shows when it begins.
        let bar = ProgressBar::new(1000 * episodes as u64);
        let bar =
            if std::io::stderr().is_terminal() { bars.add(bar) } else { ProgressBar::hidden() };
        let style = ProgressStyle::with_template("{wide_bar} {msg}, {eta} left");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Bars { bar, started: Instant::now(), state: Mutex::default() }
    }

    fn close(&self) {
        self.bar.finish_and_clear();
    }

    fn update(&self, force: bool, change: impl FnOnce(&mut ProgressState)) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut state);
        if !force && state.shown.is_some_and(|shown| shown.elapsed() < PERIOD) {
            return;
        }
        state.shown = Some(Instant::now());
        let spans = || state.running.values();
        let running_ns: i64 = spans().map(|[first, _, now]| now.since(*first).max(0)).sum();
        let share = |[first, last, now]: &[Stamp; 3]| {
            let whole = last.since(*first).max(1) as f64;
            (now.since(*first).max(0) as f64 / whole).min(1.0)
        };
        let thousandths: f64 = spans().map(|span| 1000.0 * share(span)).sum();
        let seconds = (state.done_ns.saturating_add(running_ns)) as f64 / 1e9;
        let speed = seconds / self.started.elapsed().as_secs_f64().max(1e-3);
        let episodes = self.bar.length().unwrap_or(0) / 1000;
        let ended = state.ended;
        self.bar.set_position(1000 * ended as u64 + thousandths as u64);
        self.bar.set_message(format!(
            "{ended}/{episodes} episodes, {seconds:.0} s of data, {speed:.1} times real time"
        ));
    }
}

impl BatchProgress for Bars {
    fn begins(&self, episode: &Episode, first: Stamp, last: Stamp) {
        let name = episode.name.clone();
        self.update(true, |state| {
            state.running.insert(name, [first, last, first]);
        });
    }

    fn at(&self, episode: &Episode, now: Stamp) {
        self.update(false, |state| {
            if let Some(span) = state.running.get_mut(&episode.name) {
                span[2] = now;
            }
        });
    }

    fn joins(&self, done: usize, of: usize) {
        if done == 1 {
            self.bar.set_length(of as u64);
            self.bar.set_message("files of the store");
        }
        self.bar.set_position(done as u64);
    }

    fn ends(&self, episode: &Episode, _: &EpisodeOutcome) {
        self.update(true, |state| {
            if let Some([first, _, now]) = state.running.remove(&episode.name) {
                state.done_ns = state.done_ns.saturating_add(now.since(first).max(0));
            }
            state.ended += 1;
        });
    }
}
