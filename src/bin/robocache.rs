//! The command line of robocache.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use robocache::backend::Choice;
use robocache::bench::{self, Options};
use robocache::check::Report;
use robocache::config;

/// Every sensor stream of a robot at the same instants, in one tensor per control tick.
#[derive(Parser)]
#[command(version, propagate_version = true, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Check(CheckArgs),
    Bench(BenchArgs),
}

/// Validate a configuration and print the tensor that it results in.
///
/// Prints one row per stream: message type, topic, strategy, shape (the first dimension is the
/// history, oldest first), element type, bytes, byte offset in the packed tensor, rows and memory
/// of its ring, and the instants relative to the tick at which it is resampled; then the size of
/// the tensor and its bandwidth.
///
/// Exit code: 0 when the configuration is valid; 1 when it is not, with every problem on stderr as
/// FILE:LINE: KEY: expected ..., found ...; 2 for a wrong command line.
#[derive(Args)]
#[command(after_help = "Every key of the file is explained in config/robocache.yaml.")]
struct CheckArgs {
    /// The configuration file (YAML)
    config: PathBuf,
    /// Print JSON; times are in nanoseconds, sizes in bytes
    #[arg(long)]
    json: bool,
}

/// Time the kernels and whole ticks on a backend.
///
/// Every output is compared with that of the CPU backend; a difference ends the run. Times are in
/// microseconds: medians, 10th and 99th percentiles. The floor of a case is the time to move its
/// bytes through device memory, plus that of an empty kernel; targets are for an H100.
///
/// With --soak-s it ticks at 1 kHz for that long instead, in threads like the node's, while
/// messages arrive. It reports how punctual ticks were beside a bare thread that only sleeps, what
/// went on during each overrun, and the memory; every 499th tick is compared with the CPU backend.
/// An exit code of 1 stands for bits that differ, memory that grows, ticks that took so long that
/// others were missed, images or clouds that the encoder could not keep up with, and too few
/// comparisons. Ticks missed because the host did not run the thread in time are for the reader to
/// judge, unless --no-overruns is given.
#[derive(Args)]
struct BenchArgs {
    /// Where to compute: auto, cpu or cuda
    #[arg(long, default_value = "auto")]
    backend: Choice,
    /// Number of the GPU
    #[arg(long, default_value_t = 0)]
    device: usize,
    /// Times taken per case, at least 1
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    repeats: u32,
    /// Only the cases whose name contains this text; the others are not even set up
    #[arg(long, value_name = "TEXT", conflicts_with = "soak_s")]
    case: Option<String>,
    /// In place of the times: seconds of ticks at 1 kHz with all streams of the reference robot live
    #[arg(long, default_value_t = 0, value_name = "SECONDS")]
    #[arg(value_parser = clap::value_parser!(u64).range(..=86_400))]
    soak_s: u64,
    /// With --soak-s: images from 64x48 to 1280x960 and clouds of 0 to 131072 points
    #[arg(long, requires = "soak_s")]
    random_sizes: bool,
    /// With --soak-s: fail for any tick that was not served, even where the host did not run the
    /// thread in time
    #[arg(long, requires = "soak_s")]
    no_overruns: bool,
    /// Write the results to this file too, as JSON
    #[arg(long)]
    json: Option<PathBuf>,
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Check(args) => check(&args),
        Command::Bench(args) => bench(args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn check(args: &CheckArgs) -> Result<(), Box<dyn std::error::Error>> {
    let report = Report::new(&config::load(&args.config)?);
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?;
    } else {
        write!(out, "{report}")?;
    }
    Ok(())
}

fn bench(args: BenchArgs) -> Result<(), Box<dyn std::error::Error>> {
    let report = bench::run(&Options {
        backend: args.backend,
        device: args.device,
        repeats: args.repeats as usize,
        case: args.case,
        soak_s: args.soak_s,
        random_sizes: args.random_sizes,
        no_overruns: args.no_overruns,
    })?;
    if let Some(path) = &args.json {
        std::fs::write(path, serde_json::to_string_pretty(&report)?)?;
    }
    write!(std::io::stdout().lock(), "{report}")?;
    Ok(report.verdict()?)
}
