//! `robocache check`

use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use robocache_core::config;
use robocache_core::config::describe::Report;
use robocache_core::contract::{Contract, Difference, DifferenceKind, refused};
use robocache_core::schema::Prefixes;
use robocache_core::spec::Config;
use robocache_data::bag::Bag;
use robocache_data::recording::{Files, OnDisk};
use robocache_data::replay::{AskedClock, BagDefinitions, Remap, Wiring, names};
use serde::Serialize;

use super::{Error, FAILURE, SUCCESS, say};
use crate::foxglove;
use crate::policy::{self, Checkpoint, Findings};

/// Validate a configuration and print its tensor.
///
/// Prints one row per segment: shape (the first dimension is the history, oldest first), element type, bytes, byte
/// offset in the packed tensor, strategy, and target times relative to the tick. Then where it is from: message type,
/// topic, the timeline of its stamps, rows and memory of its ring. Then its contents: the order of joints and
/// channels, and the range of an image's values. Then prints the size of the tensor, its bandwidth, the memory for
/// rings and for the largest messages, and the memory of the middleware that RMW_IMPLEMENTATION names: the shared memory
/// that Fast DDS (the default) needs for the node and per input for its publisher, or the receive buffers that another
/// one needs. Also the shared memory for policies without ROS, and how much a recording writes in a second.
/// A warning is a line on stderr, and an entry of the JSON.
///
/// With --contract, it is an error if the policy was trained with other values: each difference is a line on stderr, and
/// nothing else is printed. Differences in validity, in transport, and in what a dataset does not know come first on
/// stdout. --accept KEY accepts one difference from then on. With --policy, the same of what a checkpoint of LeRobot
/// says (ACT, Diffusion, SmolVLA, pi0); what it does not say is listed as unknown.
///
/// With --bag, it is an error if a topic has another type in the bag, or if no stream has its topic there. If some topics
/// are missing, that is a warning.
///
/// Exit code: 0 if the configuration is valid, and serves what the policy was trained with; 1 if it is not; 2 if the command line is wrong. Each
/// problem of the configuration is a line on stderr: FILE:LINE: KEY: expected ..., found ...
#[derive(Args)]
#[command(after_help = "Every key of the file is explained in config/robocache.yaml.")]
pub(super) struct CheckArgs {
    /// The configuration file (YAML)
    config: PathBuf,
    /// Print everything as JSON, with all defaults; times are in nanoseconds, sizes in bytes
    #[arg(long)]
    json: bool,
    /// A bag for which the configuration is: its topics and types are compared, and streams with `select` read by its
    /// definitions of messages; by default by those of the sourced ROS
    #[arg(long)]
    bag: Option<PathBuf>,
    /// A topic of the configuration that has another name in this bag; may be given several times
    #[arg(long, value_name = "FROM:=TO", requires = "bag")]
    remap: Vec<Remap>,
    /// The folder of recordings, or where it will be: prints for how many minutes its disk has room
    #[arg(long, value_name = "DIR")]
    record_to: Option<PathBuf>,
    /// A folder with the contract of a policy, a store or a dataset: compare it without running
    #[arg(long, value_name = "DIR")]
    contract: Option<PathBuf>,
    /// A difference that the policy shall be served with, by its name in the sentence, such as wrist.targets_ns; may be
    /// given several times. It is written into the contract with what this configuration serves
    #[arg(long, value_name = "KEY", requires = "contract")]
    accept: Vec<String>,
    /// A folder with a checkpoint of LeRobot (config.json): compare what it takes with what the configuration makes
    #[arg(long, value_name = "DIR")]
    policy: Option<PathBuf>,
    /// Write a layout for Foxglove: the cameras, clouds and joints of this configuration, the ages of its tensor, and the
    /// node's diagnostics. It is for a node without a namespace
    #[arg(long, value_name = "FILE")]
    foxglove: Option<PathBuf>,
}

/// Content of the printed JSON.
#[derive(Serialize)]
struct Printed<'a> {
    #[serde(flatten)]
    report: &'a Report,
    #[serde(skip_serializing_if = "Option::is_none")]
    room: Option<&'a RecordingRoom>,
    /// Differences between the training of the policy and the configuration: key, kind and sentence of each.
    #[serde(skip_serializing_if = "Option::is_none")]
    differences: Option<&'a [Difference]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    checkpoint: Option<&'a Findings>,
}

/// The room for recordings.
#[derive(Serialize)]
struct RecordingRoom {
    folder: PathBuf,
    /// Space that a recording may take \[bytes\]; the rest of the free disk is for others.
    bytes: u64,
    /// For so long there is room, at least; `None` if the rate of a topic is not known.
    minutes: Option<f64>,
}

impl RecordingRoom {
    /// The room on the disk of this folder for what the report says.
    fn of(folder: &Path, report: &Report) -> Result<Self, Error> {
        // The node makes the folder.
        let there = folder.ancestors().find(|path| path.is_dir()).unwrap_or(Path::new("."));
        let room = OnDisk.room(there).ok_or_else(|| format!("{}: no disk", folder.display()))?;
        let rate = report.recording.bytes_per_second;
        let is_known = report.recording.unknown.is_empty() && rate > 0.0;
        let bytes = room.usable();
        let minutes = is_known.then_some(bytes as f64 / rate / 60.0);
        Ok(RecordingRoom { folder: folder.to_owned(), bytes, minutes })
    }
}

impl fmt::Display for RecordingRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gb = self.bytes as f64 / 1e9;
        let folder = self.folder.display();
        write!(f, "room        {gb:.1} GB for recordings in {folder}: ")?;
        match self.minutes {
            Some(minutes) => writeln!(f, "at least {minutes:.0} minutes"),
            None => writeln!(f, "for how long is not known"),
        }
    }
}

/// Reads the configuration, with the definitions of a bag if one is given. Also returns what this bag lacks.
fn load(args: &CheckArgs) -> Result<(Config, Vec<String>), Error> {
    if let Some(path) = &args.bag {
        let bag = Bag::open(path)?;
        let definitions = BagDefinitions::new(&bag)?;
        let config = definitions.configuration(&config::read(&args.config)?, &args.config, None)?;
        let wiring = Wiring::new(&bag, &config, &args.remap, &AskedClock::Auto)?;
        let has = names(&bag);
        let lacks = |topic: &String| format!("{topic}: not in the bag, which has {has}");
        return Ok((config, wiring.missing.iter().map(lacks).collect()));
    }
    Ok((config::load(&args.config)?, Vec::new()))
}

/// Reads the contract that is given, after it accepts what it shall, and compares the configuration with it.
fn compare(args: &CheckArgs, config: &Config) -> Result<Option<Vec<Difference>>, Error> {
    let Some(path) = &args.contract else { return Ok(None) };
    let served = Contract::of_node(config);
    let trained = match args.accept.as_slice() {
        [] => Contract::load(path)?,
        keys => Contract::accept(path, &served, keys)?,
    };
    Ok(Some(trained.differences(&served)))
}

/// The lines about a contract and a checkpoint, without what is refused.
fn kept(args: &CheckArgs, found: Option<&[Difference]>, checkpoint: Option<&Findings>) -> String {
    let mut lines = Vec::new();
    let found = found.unwrap_or_default();
    if let (Some(path), true) = (&args.contract, refused(found).is_empty()) {
        lines.push(format!("contract    kept: {}", path.display()));
    }
    let others = found.iter().filter(|of| of.kind != DifferenceKind::Values);
    lines.extend(others.map(|of| format!("{:<12}{}", of.kind.name(), of.sentence)));
    if let Some(Findings { policy, differences, unknown }) = checkpoint {
        if differences.is_empty() {
            lines.push(format!("policy      {policy}: takes what the configuration makes"));
        }
        lines.extend(unknown.iter().map(|sentence| format!("unknown     {sentence}")));
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// Runs the command, and returns its exit code.
pub(super) fn run(args: &CheckArgs) -> Result<u8, Error> {
    let (config, lacks) = load(args)?;
    if let Some(file) = &args.foxglove {
        std::fs::write(file, format!("{:#}\n", foxglove::layout(&config)))
            .map_err(|error| format!("{}: {error}", file.display()))?;
    }
    let differences = compare(args, &config)?;
    let checkpoint = args.policy.as_ref().map(|path| Checkpoint::read(path)).transpose()?;
    let checkpoint = checkpoint.map(|checkpoint| policy::compare(&checkpoint, &config));
    let mut report = Report::new(&config, &Prefixes::of_environment());
    report.warnings.extend(lacks);
    // An empty variable counts as not set, as for ROS.
    if let Some(named) = std::env::var("RMW_IMPLEMENTATION").ok().filter(|name| !name.is_empty()) {
        report.shared_memory.middleware = named;
    }
    let room = args.record_to.as_ref().map(|folder| RecordingRoom::of(folder, &report));
    let room = room.transpose()?;
    for warning in &report.warnings {
        say(&format!("{}: warning: {warning}", args.config.display()));
    }
    let mut all = refused(differences.as_deref().unwrap_or_default());
    all.extend(checkpoint.iter().flat_map(|found| found.differences.iter().cloned()));
    all.iter().for_each(|sentence| say(&format!("{}: {sentence}", args.config.display())));
    let mut out = std::io::stdout().lock();
    if args.json {
        let differences = differences.as_deref();
        let room = room.as_ref();
        let checkpoint = checkpoint.as_ref();
        let printed = Printed { report: &report, room, differences, checkpoint };
        writeln!(out, "{}", serde_json::to_string_pretty(&printed)?)?;
    } else {
        write!(out, "{}", kept(args, differences.as_deref(), checkpoint.as_ref()))?;
        // Who is refused reads why, and not the table.
        if all.is_empty() {
            write!(out, "{report}")?;
            room.iter().try_for_each(|room| write!(out, "{room}"))?;
        }
    }
    out.flush()?;
    Ok(if all.is_empty() { SUCCESS } else { FAILURE })
}
