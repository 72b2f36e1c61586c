//! Loads, timings and soak tests: four programs.
//!
//! `robocache_bench`, which begins here, times kernels and whole ticks. It compares every output with that
//! of the CPU backend in the same run.
//!
//! - [`timer`]: times of kernels. [`clouds`], [`batches`]: kernels that are timed alone.
//! - [`robot`]: whole messages and ticks of the reference robot. [`messages`]: what it publishes.
//! - [`pair`]: a pipeline on the backend under test, beside one on the CPU.
//! - [`soak`]: ticks at 1 kHz in the node's runtime, for hours. [`report`]: all of it as text and JSON.
//!
//! The other programs, each for itself: `load/` is a robot with many sensors and a policy, as ROS
//! processes; `recording.rs` writes large bags and replays them; `jpeg.rs` times the way of a JPEG file.

mod batches;
mod clouds;
mod error;
mod messages;
mod options;
mod pair;
mod report;
mod robot;
mod soak;
mod timer;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
#[cfg(feature = "cuda")]
use robocache_core::backend::Choice;

use error::BenchError;
use options::Options;
use pair::Hardware;
#[cfg(feature = "cuda")]
use report::Case;
use report::RunTimes;

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

/// Runs the benchmarks, or the soak if one is asked for.
///
/// # Errors
/// [`BenchError::Mismatch`] as soon as an output is not that of the CPU backend;
/// [`BenchError::NoCase`] if no name contains what was asked for. [`RunTimes::verdict`] judges what a
/// soak finds.
fn run(options: &Options) -> Result<RunTimes, BenchError> {
    let mut report = RunTimes {
        commit: option_env!("ROBOCACHE_COMMIT").unwrap_or("unknown"),
        hardware: Hardware::default(),
        copy_gb_per_s: None,
        empty_us: None,
        cases: Vec::new(),
        soak: None,
        skipped: Vec::new(),
    };
    if options.soak_s > 0 {
        report.soak = Some(soak::run(options, &mut report.hardware)?);
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
            report.set_floors();
            Ok(report)
        }
    }
}

/// The kernels by themselves.
#[cfg(feature = "cuda")]
fn kernels(
    device: &std::sync::Arc<robocache_ops::device::Device>,
    options: &Options,
    report: &mut RunTimes,
) -> Result<(), BenchError> {
    const COPIED: usize = 1 << 30;
    let timer = timer::Timer::new(device)?;
    report.hardware = Hardware { backend: "cuda", device: device.name().to_owned() };
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
