//! Options of the command line.

use std::path::PathBuf;

use clap::Parser;
use robocache_core::backend::Choice;

/// Time the kernels and whole ticks on a backend.
///
/// Every output is compared with that of the CPU backend; a difference ends the run. Times are in
/// microseconds: medians, 10th and 99th percentiles. The floor of a case is the time to move its
/// bytes through device memory, plus that of an empty kernel; targets are for an H100.
///
/// With --soak-s it ticks at 1 kHz for that long instead, in the node's own runtime, while a
/// simulated robot sends messages. It reports how punctual ticks were beside a bare thread that only
/// sleeps, what went on during each overrun, and the memory. Every 499th tick is compared with the CPU
/// backend. The exit code is 1 if bits differ, if memory grows, if ticks took so long that others were
/// missed, if the encoder could not keep up with images or clouds, and if too few ticks were compared.
/// If the host did not run the thread in time, the reader judges the missed ticks, unless
/// --no-overruns is given.
#[derive(Clone, Debug, Parser)]
#[command(version)]
pub(crate) struct Options {
    /// Backend that computes: auto, cpu or cuda
    #[arg(long, default_value = "auto")]
    pub backend: Choice,
    /// Number of the GPU
    #[arg(long, default_value_t = 0)]
    pub device: usize,
    /// Times taken per case, at least 1
    #[arg(long, default_value_t = 200, value_parser = at_least_one)]
    pub repeats: usize,
    /// Only the cases whose name contains this text; the others are not even set up
    #[arg(long, value_name = "TEXT")]
    pub case: Option<String>,
    /// In place of the times: seconds of ticks at 1 kHz with all streams of the reference robot live
    #[arg(long, default_value_t = 0, value_name = "SECONDS", conflicts_with = "case")]
    #[arg(value_parser = clap::value_parser!(u64).range(..=86_400))]
    pub soak_s: u64,
    /// With --soak-s: images from 64x48 to 1280x960 and clouds of 0 to 131072 points
    #[arg(long, requires = "soak_s")]
    pub random_sizes: bool,
    /// With --soak-s: fail for any tick that was not served, even if the host did not run the thread
    /// in time
    #[arg(long, requires = "soak_s")]
    pub no_overruns: bool,
    /// Write the results to this file too, as JSON
    #[arg(long)]
    pub json: Option<PathBuf>,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    let number: Option<u32> = text.parse().ok().filter(|number| *number > 0);
    number.map(|number| number as usize).ok_or("expected a number of at least 1".into())
}
