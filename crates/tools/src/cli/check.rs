//! `robocache check`

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use robocache_core::config;
use robocache_core::config::describe::Report;
use robocache_core::schema::Prefixes;
use robocache_core::spec::Config;
use robocache_data::bag::Bag;
use robocache_data::replay::{BagDefinitions, Remap, TimeSource, Wiring, names};

use super::{Error, say};

/// Validate a configuration and print its tensor.
///
/// Prints one row per segment: shape (the first dimension is the history, oldest first), element type, bytes, byte
/// offset in the packed tensor, strategy, and target times relative to the tick. Then where it is from: message type,
/// topic, the timeline of its stamps, rows and memory of its ring. Then its contents: the order of joints and
/// channels, and the range of an image's values. Then prints the size of the tensor, its bandwidth, the memory for
/// rings and for the largest messages, and the shared memory: what Fast DDS needs for the node, what policies without
/// ROS need, and per input what Fast DDS needs for its publisher.
/// A warning is a line on stderr, and an entry of the JSON.
///
/// With --bag, it is an error if a topic has another type in the bag, or if no stream has its topic there. If some topics
/// are missing, that is a warning.
///
/// Exit code: 0 if the configuration is valid; 1 if it is not; 2 if the command line is wrong. Each
/// problem of the configuration is a line on stderr: FILE:LINE: KEY: expected ..., found ...
#[derive(Args)]
#[command(after_help = "Every key of the file is explained in config/robocache.yaml.")]
pub struct CheckArgs {
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
}

/// Reads the configuration, with the definitions of a bag if one is given. Also returns what this bag lacks.
fn load(args: &CheckArgs) -> Result<(Config, Vec<String>), Error> {
    if let Some(path) = &args.bag {
        let bag = Bag::open(path)?;
        let definitions = BagDefinitions::new(&bag)?;
        let config = definitions.configuration(&config::read(&args.config)?, &args.config, None)?;
        let wiring = Wiring::new(&bag, &config, &args.remap, &TimeSource::Auto)?;
        let has = names(&bag);
        let lacks = |topic: &String| format!("{topic}: not in the bag, which has {has}");
        return Ok((config, wiring.missing.iter().map(lacks).collect()));
    }
    Ok((config::load(&args.config)?, Vec::new()))
}

/// Runs the command.
pub fn run(args: &CheckArgs) -> Result<(), Error> {
    let (config, lacks) = load(args)?;
    let mut report = Report::new(&config, &Prefixes::of_environment());
    report.warnings.extend(lacks);
    for warning in &report.warnings {
        say(&format!("{}: warning: {warning}", args.config.display()));
    }
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?;
    } else {
        write!(out, "{report}")?;
    }
    out.flush()?;
    Ok(())
}
