//! `robocache calibrate`

use std::io::Write;
use std::path::PathBuf;

use crate::calibrate::{CalibrateOptions, Calibration, calibrate};
use clap::Args;
use robocache_core::config;
use robocache_data::bag::Bag;
use robocache_data::replay::{BagDefinitions, find_bags};

use super::inspect::Bar;
use super::{Error, SUCCESS};

/// Find the constant latency of a stream against another, from how they move.
///
/// Compares how fast both change: the joints, the rates of an IMU or a twist, any numbers, or the pixels of
/// images. The shift at which they are most alike is the offset. Prints it with its 95 % interval, and the line
/// `stamp_offset_ms` to paste. Says why if the recording does not tell it: no motion, periodic motion, too little.
///
/// Exit code: 0 if the offset was found; 1 if not; 2 if the command line is wrong.
#[derive(Args)]
#[command(
    after_help = "How to move the robot for it, and what it cannot find: docs/inspect.md. The simulated robot \
    moves so with `sensor_sim --bursts`; without it, its motion is periodic."
)]
pub(super) struct CalibrateArgs {
    /// The bag
    bag: PathBuf,
    /// The stream whose stamps are right: a topic, or the name of a stream in the configuration
    #[arg(long)]
    reference: String,
    /// The stream whose stamps are wrong: a topic, or the name of a stream in the configuration
    #[arg(long)]
    stream: String,
    /// The configuration file (YAML): its names of streams, joints, selections and offsets count
    #[arg(long)]
    config: Option<PathBuf>,
    /// Look for offsets up to this one, in both directions [ms], 10 to 10000
    #[arg(long, value_name = "MS", default_value_t = 500, value_parser = clap::value_parser!(u32).range(10..=10_000))]
    max_offset_ms: u32,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(super) fn run(args: &CalibrateArgs) -> Result<u8, Error> {
    let bags = find_bags(std::slice::from_ref(&args.bag), std::path::Path::new(""))?;
    if let [_, second, ..] = &bags[..] {
        return Err(format!("expected one bag, found {} too", second.display()).into());
    }
    let bag = Bag::open(bags.first().unwrap_or(&args.bag))?;
    let config = match &args.config {
        None => None,
        Some(path) => {
            let definitions = BagDefinitions::new(&bag)?;
            Some(definitions.configuration(&config::read(path)?, path, None)?)
        }
    };
    let options = CalibrateOptions {
        reference: args.reference.clone(),
        stream: args.stream.clone(),
        most_ns: i64::from(args.max_offset_ms) * robocache_ops::time::NANOS_PER_MS,
    };
    let bar = Bar::new(bag.span().unwrap_or_default());
    let found = calibrate(&bag, config.as_ref(), &options, &bar);
    bar.clear();
    let found = found?;
    let mut out = std::io::stdout().lock();
    match args.json {
        true => writeln!(out, "{}", serde_json::to_string_pretty(&found)?)?,
        false => write(&mut out, &found)?,
    }
    out.flush()?;
    Ok(SUCCESS)
}

fn write(out: &mut dyn Write, found: &Calibration) -> std::io::Result<()> {
    let Calibration { reference, stream, offset_ms, uncertainty_ms, .. } = found;
    let [of_reference, of_stream] = found.motion;
    let how = match *offset_ms {
        offset if offset.abs() <= *uncertainty_ms => {
            "zero is within it, so the stamps may be right".to_owned()
        }
        offset if offset > 0.0 => format!("its stamps are {offset:.2} ms too early"),
        offset => format!("its stamps are {:.2} ms too late", -offset),
    };
    writeln!(out, "reference    {reference}: {of_reference}")?;
    writeln!(out, "stream       {stream}: {of_stream}")?;
    writeln!(out, "offset       {offset_ms:.2} ms +- {uncertainty_ms:.2} ms (95 %): {how}")?;
    writeln!(
        out,
        "correlation  {:.2}, {:.1} times what chance gives, over {:.0} s",
        found.correlation, found.sigmas, found.seconds
    )?;
    let [first, second] = found.halves_ms;
    let drifts = if found.drifts { ": IT CHANGES, so one number does not correct it" } else { "" };
    writeln!(out, "halves       {first:.2} ms and {second:.2} ms{drifts}")?;
    if offset_ms.abs() <= *uncertainty_ms {
        return writeln!(
            out,
            "\nThe recording shows no offset: leave stamp_offset_ms of {stream} as it is."
        );
    }
    writeln!(out, "\nFor the stream of {stream}:\n\n    stamp_offset_ms: {}", found.stamp_offset_ms)
}
