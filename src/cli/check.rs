//! `robocache check`

use std::io::Write;
use std::path::PathBuf;

use crate::check::Report;
use crate::config;
#[cfg(feature = "replay")]
use crate::replay::{BagDefinitions, bag::Bag};
use crate::schema::Prefixes;
use crate::spec::Config;
use clap::Args;

use super::{Error, say};

/// Validate a configuration and print its tensor.
///
/// Prints one row per stream: message type, topic, strategy, shape (the first dimension is the
/// history, oldest first), element type, bytes, byte offset in the packed tensor, rows and memory
/// of its ring, the timeline of its stamps, and target times relative to the tick. Then prints the
/// size of the tensor, its bandwidth, the memory for rings and for the largest messages, and the
/// shared memory that Fast DDS needs: the node's segment, and per input the segment at its publisher.
/// A warning is a line on stderr, and an entry of the JSON.
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
    /// A bag whose definitions of messages streams with `select` need; by default those of the sourced ROS
    #[cfg(feature = "replay")]
    #[arg(long)]
    bag: Option<PathBuf>,
}

/// Reads the configuration, with the definitions of a bag if one is given.
fn load(args: &CheckArgs) -> Result<Config, Error> {
    #[cfg(feature = "replay")]
    if let Some(bag) = &args.bag {
        let definitions = BagDefinitions::new(&Bag::open(bag)?)?;
        let file = args.config.display().to_string();
        return Ok(config::parse_with(&config::read(&args.config)?, &file, &definitions)?);
    }
    Ok(config::load(&args.config)?)
}

/// Runs the command.
pub fn run(args: &CheckArgs) -> Result<(), Error> {
    let report = Report::new(&load(args)?, &Prefixes::of_environment());
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
