//! Loads, timings and soak tests: four programs.
//!
//! `robocache_bench`, which begins here, times kernels and whole ticks. It compares every output with that
//! of the CPU backend in the same run.
//!
//! - [`timer`]: times of kernels. [`clouds`], [`batches`]: kernels that are timed alone.
//! - [`robot`]: whole messages and ticks of the reference robot. [`messages`]: what it publishes.
//! - [`pair`]: a pipeline on the backend under test, beside one on the CPU.
//! - [`soak`]: ticks at 1 kHz in the node's runtime, for hours.
//!
//! The other programs, each for itself: `load/` is a robot with many sensors and a policy, as ROS
//! processes; `recording.rs` writes large bags and replays them; `jpeg.rs` times the way of a JPEG file.

mod batches;
mod clouds;
mod messages;
mod pair;
mod robot;
mod soak;
mod timer;

use std::fmt;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use robocache_core::backend::{BackendError, Choice};
use robocache_core::pipeline::SpecError;
use robocache_ops::device::DeviceError;
use robocache_runtime::RuntimeError;
use serde::Serialize;

use soak::SoakReport;

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
struct Options {
    /// Where to compute: auto, cpu or cuda
    #[arg(long, default_value = "auto")]
    backend: Choice,
    /// Number of the GPU
    #[arg(long, default_value_t = 0)]
    device: usize,
    /// Times taken per case, at least 1
    #[arg(long, default_value_t = 200, value_parser = at_least_one)]
    repeats: usize,
    /// Only the cases whose name contains this text; the others are not even set up
    #[arg(long, value_name = "TEXT")]
    case: Option<String>,
    /// In place of the times: seconds of ticks at 1 kHz with all streams of the reference robot live
    #[arg(long, default_value_t = 0, value_name = "SECONDS", conflicts_with = "case")]
    #[arg(value_parser = clap::value_parser!(u64).range(..=86_400))]
    soak_s: u64,
    /// With --soak-s: images from 64x48 to 1280x960 and clouds of 0 to 131072 points
    #[arg(long, requires = "soak_s")]
    random_sizes: bool,
    /// With --soak-s: fail for any tick that was not served, even if the host did not run the thread
    /// in time
    #[arg(long, requires = "soak_s")]
    no_overruns: bool,
    /// Write the results to this file too, as JSON
    #[arg(long)]
    json: Option<PathBuf>,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    let number: Option<u32> = text.parse().ok().filter(|number| *number > 0);
    number.map(|number| number as usize).ok_or("expected a number of at least 1".into())
}

fn main() -> ExitCode {
    match print(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn print(options: &Options) -> Result<(), Box<dyn std::error::Error>> {
    let report = run(options)?;
    if let Some(path) = &options.json {
        std::fs::write(path, serde_json::to_string_pretty(&report)?)?;
    }
    write!(std::io::stdout().lock(), "{report}")?;
    Ok(report.verdict()?)
}

/// Why a benchmark has no result.
#[derive(Debug, thiserror::Error)]
enum BenchError {
    /// The backend failed.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// An encoder failed.
    #[cfg(feature = "cuda")]
    #[error(transparent)]
    Encode(#[from] robocache_core::encoder::EncodeError),
    /// The GPU failed.
    #[error("GPU: {0}")]
    Device(#[from] DeviceError),
    /// A thread of the runtime failed.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// An output differs from that of the CPU backend: its times say nothing.
    #[error("{case}: expected the bits of the CPU backend, found {found}")]
    Mismatch {
        /// The case.
        case: String,
        /// What differs.
        found: String,
    },
    /// No case has such a name.
    #[error("case: expected a part of one of these names, found {found:?}\n  {}", names.join("\n  "))]
    NoCase {
        /// What was asked for.
        found: String,
        /// The cases of this backend.
        names: Vec<String>,
    },
    /// Bits differ, memory grows, or ticks take too long, while ticks go on.
    #[error("ticks at 1 kHz: {0}")]
    Soak(String),
    /// A configuration of the benchmark is at fault.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The pipeline dropped what it was given.
    #[error("{case}: expected the message to be taken, found {found}")]
    Dropped {
        /// The case.
        case: String,
        /// Why.
        found: String,
    },
}

/// All times of a run.
#[derive(Debug, Serialize)]
struct Report {
    /// The commit that was built, or `unknown`.
    pub commit: &'static str,
    /// Name of the backend.
    pub backend: &'static str,
    /// Name of the GPU, or `cpu`.
    pub device: String,
    /// Bandwidth of a copy in device memory, bytes read plus bytes written \[GB/s\].
    pub copy_gb_per_s: Option<f64>,
    /// Time of an empty kernel in a graph \[us\].
    pub empty_us: Option<f64>,
    /// The cases.
    pub cases: Vec<Case>,
    /// Ticks at 1 kHz.
    pub soak: Option<SoakReport>,
    /// Cases that were not asked for.
    #[serde(skip)]
    skipped: Vec<String>,
}

/// Times of one case \[us\].
#[derive(Debug, Serialize)]
struct Case {
    /// What was timed.
    pub name: String,
    /// Median.
    pub median_us: f64,
    /// 10th percentile.
    pub p10_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// Median where no call starts before the last one has ended.
    pub alone_us: Option<f64>,
    /// The same, of one input and one output again and again, which stay in the cache.
    pub warm_us: Option<f64>,
    /// Least bytes that have to move through device memory.
    pub bytes: Option<u64>,
    /// Their time at the bandwidth of a copy, plus the time of an empty kernel \[us\].
    pub floor_us: Option<f64>,
    /// The target on an H100 \[us\].
    pub target_us: Option<f64>,
}

impl Case {
    /// From single times: at least one.
    fn new(name: impl Into<String>, mut times: Vec<f64>) -> Self {
        times.sort_by(f64::total_cmp);
        let at = |share: f64| times[((times.len() - 1) as f64 * share).round() as usize];
        Case {
            name: name.into(),
            median_us: at(0.5),
            p10_us: at(0.1),
            p99_us: at(0.99),
            alone_us: None,
            warm_us: None,
            bytes: None,
            floor_us: None,
            target_us: None,
        }
    }

    /// From the times of kernels.
    #[cfg(feature = "cuda")]
    fn of_kernels(name: impl Into<String>, times: timer::Times) -> Self {
        let alone = Case::new("", times.alone).median_us;
        Case { alone_us: Some(alone), ..Case::new(name, times.each) }
    }

    /// With the times of one input and one output.
    #[cfg(feature = "cuda")]
    fn warm(self, times: timer::Times) -> Self {
        Case { warm_us: Some(Case::new("", times.alone).median_us), ..self }
    }

    #[cfg(feature = "cuda")]
    fn bytes(self, bytes: u64) -> Self {
        Case { bytes: Some(bytes), ..self }
    }

    fn target(self, us: f64) -> Self {
        Case { target_us: Some(us), ..self }
    }
}

impl Report {
    /// Whether the case `name` was asked for; notes it if not. To be asked before any set-up.
    fn wants(&mut self, options: &Options, name: &str) -> bool {
        let wanted = options.case.as_ref().is_none_or(|text| name.contains(text.as_str()));
        if !wanted {
            self.skipped.push(name.into());
        }
        wanted
    }

    /// Whether all is as it should be.
    ///
    /// # Errors
    /// [`BenchError::Soak`] with what a soak found wrong.
    fn verdict(&self) -> Result<(), BenchError> {
        match &self.soak {
            Some(soak) if !soak.problems.is_empty() => {
                Err(BenchError::Soak(soak.problems.join("; ")))
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} backend on {}", self.backend, self.device)?;
        if let Some(soak) = &self.soak {
            return write!(f, "{soak}");
        }
        if let (Some(copy), Some(empty)) = (self.copy_gb_per_s, self.empty_us) {
            writeln!(f, "copy {copy:.0} GB/s, empty kernel {empty:.2} us")?;
        }
        let columns = ["median us", "p10", "p99", "alone", "warm", "floor", "x floor", "target"];
        write!(f, "{:52}", "case")?;
        columns.iter().try_for_each(|column| write!(f, " {column:>9}"))?;
        writeln!(f)?;
        let number = |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:.2}"));
        for case in &self.cases {
            let ratio = case.floor_us.map(|floor| case.median_us / floor);
            let values = [
                Some(case.median_us),
                Some(case.p10_us),
                Some(case.p99_us),
                case.alone_us,
                case.warm_us,
                case.floor_us,
                ratio,
                case.target_us,
            ];
            write!(f, "{:52}", case.name)?;
            values.iter().try_for_each(|value| write!(f, " {:>9}", number(*value)))?;
            let missed = case.target_us.is_some_and(|target| case.median_us > target);
            writeln!(f, "{}", if missed { "  missed" } else { "" })?;
        }
        Ok(())
    }
}

/// Runs the benchmarks, or the soak if one is asked for.
///
/// # Errors
/// [`BenchError::Mismatch`] as soon as an output is not that of the CPU backend;
/// [`BenchError::NoCase`] if no name contains what was asked for. [`Report::verdict`] judges what a
/// soak finds.
fn run(options: &Options) -> Result<Report, BenchError> {
    let mut report = Report {
        commit: option_env!("ROBOCACHE_COMMIT").unwrap_or("unknown"),
        backend: "cpu",
        device: "cpu".into(),
        copy_gb_per_s: None,
        empty_us: None,
        cases: Vec::new(),
        soak: None,
        skipped: Vec::new(),
    };
    if options.soak_s > 0 {
        soak::run(options, &mut report)?;
        return Ok(report);
    }
    #[cfg(feature = "cuda")]
    if options.backend != Choice::Cpu {
        match robocache_ops::device::Device::open(options.device) {
            Ok(device) => kernels(&device, options, &mut report)?,
            Err(error) if options.backend == Choice::Cuda => {
                return Err(error.into());
            }
            Err(_) => {}
        }
    }
    robot::run(options, &mut report)?;
    match &options.case {
        Some(text) if report.cases.is_empty() => {
            Err(BenchError::NoCase { found: text.clone(), names: report.skipped })
        }
        _ => {
            floors(&mut report);
            Ok(report)
        }
    }
}

/// The kernels by themselves.
#[cfg(feature = "cuda")]
fn kernels(
    device: &std::sync::Arc<robocache_ops::device::Device>,
    options: &Options,
    report: &mut Report,
) -> Result<(), BenchError> {
    const COPIED: usize = 1 << 30;
    let timer = timer::Timer::new(device)?;
    device.name().clone_into(&mut report.device);
    report.backend = "cuda";
    let copy = Case::new("copy", timer.copy(COPIED, options.repeats.min(20))?);
    report.copy_gb_per_s = Some(2.0 * COPIED as f64 / copy.median_us / 1e3);
    let empty = Case::of_kernels("empty kernel", timer.empty(100, options.repeats)?);
    // The floors need it in any case.
    report.empty_us = Some(empty.median_us);
    if report.wants(options, &empty.name) {
        report.cases.push(empty);
    }
    batches::run(device, &timer, options, report)?;
    clouds::run(device, &timer, options, report)
}

fn floors(report: &mut Report) {
    let (Some(copy), Some(empty)) = (report.copy_gb_per_s, report.empty_us) else { return };
    for case in &mut report.cases {
        case.floor_us = case.bytes.map(|bytes| bytes as f64 / copy / 1e3 + empty);
    }
}
