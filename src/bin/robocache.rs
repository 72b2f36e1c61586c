//! The command line of robocache.

use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use robocache::check::Report;
use robocache::config;
use robocache::schema::Prefixes;

/// Resamples every sensor stream of a robot at the same instants, into one tensor per control tick.
#[derive(Parser)]
#[command(version, propagate_version = true, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Check(CheckArgs),
}

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
struct CheckArgs {
    /// The configuration file (YAML)
    config: PathBuf,
    /// Print everything as JSON, with all defaults; times are in nanoseconds, sizes in bytes
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Check(args) => check(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // A reader such as `head` has seen enough.
        Err(error) if is_broken_pipe(&*error) => ExitCode::SUCCESS,
        Err(error) => {
            say(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

/// Whether nobody reads the output any more.
fn is_broken_pipe(error: &(dyn std::error::Error + 'static)) -> bool {
    let io = error.downcast_ref::<std::io::Error>();
    io.is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}

/// Writes a line to stderr, if anybody reads it.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

fn check(args: &CheckArgs) -> Result<(), Box<dyn std::error::Error>> {
    let report = Report::new(&config::load(&args.config)?, &Prefixes::of_environment());
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
