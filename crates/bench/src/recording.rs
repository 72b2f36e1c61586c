//! Recordings of the reference robot, and how fast they are replayed.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use clap::{Parser, Subcommand, ValueEnum};
use mcap::records::MessageHeader;
use mcap::{WriteOptions, Writer};
use robocache_core::backend::{self, Backend, Choice};
use robocache_core::cdr::messages::CompressedImage;
use robocache_core::config;
use robocache_core::layout::Layout;
use robocache_core::message::TensorMessage;
use robocache_core::pipeline::{LeftRow, Pipeline, RowSink};
use robocache_core::spec::Config;
use robocache_data::bag::Bag;
use robocache_data::file::OutputError;
use robocache_data::output::Output;
use robocache_data::replay::{AskedClock, Episode, Playing, Progress, ReplayError, Wiring, run};
use robocache_ops::device::RowMemory;
use robocache_ops::time::Stamp;
use robocache_runtime::{ROWS_AHEAD, Tick};
use robocache_sim::{Robot, SimOptions, Stream};

type Error = Box<dyn std::error::Error>;

/// Write a recording of the reference robot, or time the parts of a replay that write nothing.
#[derive(Parser)]
#[command(version)]
struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Write a bag: MCAP in chunks of 768 KiB with checksums, not compressed, as ros2 bag does by default
    Write {
        /// The file
        bag: PathBuf,
        /// Seconds of data; 60 have 4.6 GB
        #[arg(long, default_value_t = 60.0)]
        seconds: f64,
        /// A JPEG file that the cameras send as CompressedImage in place of their images
        #[arg(long)]
        jpeg: Option<PathBuf>,
    },
    /// Print the seconds that a part of the replay takes, as JSON. Backends are made before and freed after, as in a long run
    Time {
        /// The bags; all are replayed at once
        #[arg(required = true)]
        bags: Vec<PathBuf>,
        /// The configuration
        #[arg(long)]
        config: PathBuf,
        /// Which part
        #[arg(long, value_enum)]
        what: What,
        /// Backend that computes
        #[arg(long, default_value = "cpu")]
        backend: Choice,
        /// Threads that encode, for each bag
        #[arg(long, default_value_t = 2)]
        threads: usize,
    },
}

/// A part of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum What {
    /// Messages are read
    Read,
    /// Messages are read and encoded; rows are handed over in memory
    Rows,
    /// Messages are read and encoded; rows are handed over, and every tick is made in memory
    Ticks,
}

fn main() -> ExitCode {
    let done = match Options::parse().command {
        Command::Write { bag, seconds, jpeg } => write(&bag, seconds, jpeg.as_deref()),
        Command::Time { bags, config, what, backend, threads } => {
            time(&bags, &config, what, backend, threads)
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// When the recording begins: a multiple of every period.
const START: Stamp = Stamp::from_nanos(1_795_000_000_000_000_000);
/// Size of rosbag2's chunks \[bytes\].
const CHUNK: u64 = 768 << 10;

fn write(path: &Path, seconds: f64, jpeg: Option<&Path>) -> Result<(), Error> {
    let jpeg = jpeg.map(std::fs::read).transpose()?;
    let robot = Robot::new(SimOptions { duration: seconds, ..SimOptions::default() })?;
    let options = WriteOptions::new().compression(None).profile("ros2").chunk_size(Some(CHUNK));
    let mut writer = Writer::with_options(BufWriter::new(File::create(path)?), options)?;
    let mut channels = BTreeMap::new();
    let mut buffer = Vec::new();
    for (sequence, event) in (1..).zip(robot.schedule(START)) {
        let jpeg = match event.stream {
            Stream::CameraFront | Stream::CameraWrist => jpeg.as_deref(),
            _ => None,
        };
        let channel = match channels.get(&event.stream) {
            Some(channel) => *channel,
            None => {
                // The streams of this robot need no definitions.
                let ros_type = match jpeg {
                    Some(_) => "sensor_msgs/msg/CompressedImage",
                    None => event.stream.ros_type(),
                };
                let schema = writer.add_schema(ros_type, "ros2msg", b"")?;
                let topic = event.stream.topic();
                let channel = writer.add_channel(schema, topic, "cdr", &BTreeMap::new())?;
                channels.insert(event.stream, channel);
                channel
            }
        };
        buffer = match jpeg {
            Some(file) => {
                let stamp = event.stamp;
                let message = CompressedImage { stamp, frame_id: "camera", format: "jpeg" };
                message.to_cdr(buffer, |data| data.extend_from_slice(file))
            }
            None => robot.message(&event, buffer),
        };
        let log_time = event.send_at.nanos() as u64;
        let header =
            MessageHeader { channel_id: channel, sequence, log_time, publish_time: log_time };
        writer.write_to_known_channel(&header, &buffer)?;
    }
    writer.finish()?;
    Ok(())
}

/// Takes tensors, as a policy that is trained from memory would: copies them.
#[derive(Default)]
struct CopiedTensors {
    ticks: bool,
    count: u64,
    bytes: u64,
    copy: Vec<u8>,
}

impl Output for CopiedTensors {
    fn takes_ticks(&self) -> bool {
        self.ticks
    }

    fn tick(&mut self, _: Tick, message: &TensorMessage) -> Result<(), OutputError> {
        self.copy.clear();
        self.copy.extend_from_slice(message.data());
        self.count += 1;
        self.bytes += self.copy.len() as u64;
        Ok(())
    }
}

/// Counts rows and their bytes.
#[derive(Clone, Default)]
struct Counted(Arc<[AtomicU64; 2]>);

impl RowSink for Counted {
    fn row(&self, _: &LeftRow<'_>, bytes: &mut RowMemory) {
        self.0[0].fetch_add(1, Ordering::Relaxed);
        self.0[1].fetch_add(bytes.len() as u64, Ordering::Relaxed);
    }
}

struct Always;

impl Progress for Always {
    fn at(&self, _: Stamp) -> bool {
        true
    }
}

/// A bag, and what replays a part of it.
struct Replay {
    bag: Bag,
    episode: Episode,
    wiring: Wiring,
    /// `None` if messages are only read.
    pipeline: Option<Pipeline>,
    /// Of the pipeline.
    backend: Option<Arc<dyn Backend>>,
    output: CopiedTensors,
    counted: Counted,
    playing: Playing,
}

impl Replay {
    fn new(
        path: &Path,
        config: &Config,
        what: What,
        choice: Choice,
        threads: usize,
    ) -> Result<Self, Error> {
        let bag = Bag::open(path)?;
        let counted = Counted::default();
        let (pipeline, backend) = match what {
            What::Read => (None, None),
            What::Rows | What::Ticks => {
                let backend = backend::create(choice, 0, config, &Layout::new(config))?;
                let mut pipeline = Pipeline::new(config.clone(), Arc::clone(&backend))?;
                if what == What::Rows {
                    pipeline.keep_rows(Box::new(counted.clone()));
                }
                (Some(pipeline), Some(backend))
            }
        };
        Ok(Replay {
            wiring: Wiring::new(&bag, config, &[], &AskedClock::Auto)?,
            bag,
            episode: Episode { bag: path.to_owned(), ..Episode::default() },
            pipeline,
            backend,
            output: CopiedTensors { ticks: what == What::Ticks, ..CopiedTensors::default() },
            counted,
            playing: Playing { digest: false, threads },
        })
    }

    /// Messages or rows or ticks, and their bytes.
    fn run(mut self) -> Result<(u64, u64), ReplayError> {
        let output = &mut self.output;
        match self.pipeline {
            None => {
                for recorded in self.bag.messages(&self.wiring.wanted())? {
                    output.count += 1;
                    output.bytes += recorded.bytes.len() as u64;
                }
            }
            Some(pipeline) => {
                let of = &self.episode;
                let playing = self.playing;
                run(&self.bag, of, &self.wiring, pipeline, output, playing, &Always)?;
            }
        }
        let [rows, bytes] = self.counted.0.each_ref().map(|count| count.load(Ordering::Relaxed));
        Ok((output.count + rows, output.bytes + bytes))
    }
}

fn time(
    paths: &[PathBuf],
    config: &Path,
    what: What,
    choice: Choice,
    threads: usize,
) -> Result<(), Error> {
    let config = config::parse(&std::fs::read_to_string(config)?, &config.display().to_string())?;
    let config = if threads > 1 { config.with_rows_ahead(ROWS_AHEAD) } else { config };
    let begun = Instant::now();
    let replays = paths.iter().map(|path| Replay::new(path, &config, what, choice, threads));
    let replays = replays.collect::<Result<Vec<_>, _>>()?;
    // They are freed behind the clock: a long run keeps them from one episode to the next.
    let kept: Vec<_> = replays.iter().filter_map(|replay| replay.backend.clone()).collect();
    let started = Instant::now();
    let cpu = cpu_seconds()?;
    let done = std::thread::scope(|scope| {
        let running = replays.into_iter().map(|replay| scope.spawn(move || replay.run()));
        let running: Vec<_> = running.collect();
        running.into_iter().map(std::thread::ScopedJoinHandle::join).collect::<Vec<_>>()
    });
    let wall_s = started.elapsed().as_secs_f64();
    let cpu_s = cpu_seconds()? - cpu;
    drop(kept);
    let mut count = 0;
    let mut bytes = 0;
    for each in done {
        let (own, of_it) = each.map_err(|_| "a thread of the replay panicked")??;
        (count, bytes) = (count + own, bytes + of_it);
    }
    let report = serde_json::json!({
        "prepare_s": (started - begun).as_secs_f64(),
        "wall_s": wall_s,
        "cpu_s": cpu_s,
        "count": count,
        "bytes": bytes,
        "peak_anonymous_mb": peak_anonymous_mb()?,
    });
    writeln!(std::io::stdout().lock(), "{report}")?;
    Ok(())
}

/// Processor time of this process so far \[s\]: fields 14 and 15 of `/proc/self/stat`, in hundredths.
fn cpu_seconds() -> Result<f64, Error> {
    let text = std::fs::read_to_string("/proc/self/stat")?;
    let after = text.rsplit_once(')').ok_or("/proc/self/stat: expected a name in brackets")?.1;
    let fields: Vec<f64> =
        after.split_whitespace().filter_map(|field| field.parse().ok()).collect();
    // The state, a letter, is left out.
    Ok((fields[10] + fields[11]) / 100.0)
}

/// Anonymous memory at the end, which does not shrink before \[MB\].
fn peak_anonymous_mb() -> Result<f64, Error> {
    let text = std::fs::read_to_string("/proc/self/status")?;
    let line = text.lines().find(|line| line.starts_with("RssAnon:")).ok_or("no RssAnon")?;
    let kb: f64 = line.split_whitespace().nth(1).ok_or("no number")?.parse()?;
    Ok(kb / 1e3)
}
