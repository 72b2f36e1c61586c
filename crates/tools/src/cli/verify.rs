//! `robocache verify`

use std::io::Write;
use std::path::PathBuf;

use crate::verify::{CommandsReport, Different, Late, SlowRow, VerifyReport, verify};
use clap::Args;
use robocache_core::backend::Choice;

use super::{Error, FAILURE, SUCCESS};

/// Replay a recording of the node, and compare each tensor with the one that the node published, by its digest.
///
/// A recording is made with the node's parameter record_to. It has the messages, the configuration and all else
/// that influences the tensors, except the program: use the version that recorded it. The messages are replayed in
/// the order of their arrivals. If every stream has enough lag, all tensors are the same, bit for bit. If a stream
/// has too little lag, the report says which ticks differ, which message was late, by how much, and which lag would
/// have done.
///
/// A tick that differs while messages are missing in the recording counts as unverifiable, not as different.
///
/// Exit code: 0 if all ticks that can be compared are the same; 3 if some differ; 1 if nothing can be compared, or
/// most ticks or command ticks are unverifiable; 2 if the command line is wrong.
#[derive(Args)]
pub(super) struct VerifyArgs {
    /// The folder of a recording
    recording: PathBuf,
    /// Processor that computes: auto, cpu or cuda
    #[arg(long, default_value = "auto")]
    backend: Choice,
    /// Number of the GPU
    #[arg(long, default_value_t = 0)]
    device: usize,
    /// Print everything as JSON; times are in nanoseconds
    #[arg(long)]
    json: bool,
}

/// Ticks that the text lists.
const LISTED: usize = 5;
/// The exit code if ticks or commands differ.
const DIFFERENT: u8 = 3;

/// Runs the command.
pub(super) fn run(args: &VerifyArgs) -> Result<u8, Error> {
    super::log_warnings();
    let report = verify(&args.recording, args.backend, args.device)?;
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?;
    } else {
        describe(&mut out, &report)?;
    }
    out.flush()?;
    let of_commands = report.commands.as_ref().map_or(0, |commands| commands.differing);
    Ok(match (report.is_equal(), report.differing + of_commands) {
        (true, _) => SUCCESS,
        (false, 1..) => DIFFERENT,
        (false, 0) => {
            super::say(if report.is_mostly_unverifiable() {
                "most ticks are unverifiable, so the others prove little"
            } else if report.has_mostly_unverifiable_commands() {
                "most command ticks are unverifiable, so the others prove little"
            } else {
                "no tensor could be compared"
            });
            FAILURE
        }
    })
}

fn describe(out: &mut impl Write, report: &VerifyReport) -> std::io::Result<()> {
    let VerifyReport { equal, different, differing, unverifiable, messages, .. } = report;
    let version = if report.is_of_this_version() { "" } else { &report.version };
    let of_version = if version.is_empty() { "" } else { ", recorded by version " };
    writeln!(
        out,
        "{}{of_version}{version}: {equal} ticks are the same, {differing} differ, {unverifiable} are unverifiable \
         ({messages} messages)",
        report.recording,
    )?;
    for (count, what) in [
        (report.held_back, "of the same ticks were held back"),
        (report.unsent, "tensors were replaced by newer ones before they were sent"),
        (report.overruns, "ticks were not served by the node"),
        (report.overloads, "messages were dropped by the node, because its encoders were too slow"),
        (report.missing, "messages are missing in the recording, because the disk was too slow"),
        (
            report.missing_events,
            "events are missing, because the disk was too slow; among them may be ticks",
        ),
        (report.damaged, "messages are missing, because a part of a file is damaged"),
    ] {
        if count > 0 {
            writeln!(out, "  {count} {what}")?;
        }
    }
    if report.is_cut {
        writeln!(
            out,
            "  its first files were deleted, because it reached its limit of size or age"
        )?;
    }
    if !report.missing_streams.is_empty() {
        let names = report.missing_streams.join(", ");
        writeln!(out, "  not recorded, so not compared: {names}")?;
    }
    if !report.complete {
        writeln!(out, "  the recording has no end: the node was killed, or the disk was full")?;
    }
    if let Some(commands) = &report.commands {
        describe_commands(out, commands)?;
    }
    for stream in report.streams.iter().filter(|stream| stream.ticks > 0) {
        let lag = ms(stream.lag_ns);
        write!(out, "  {}: {} ticks, lag_ms {lag}", stream.stream, stream.ticks)?;
        if let Some(latest_ns) = stream.latest_ns.filter(|latest_ns| *latest_ns > 0) {
            write!(out, ", a row was up to {} ms late", ms(latest_ns))?;
        }
        match stream.lag_that_does_ns {
            Some(does_ns) => writeln!(out, "; lag_ms: {} would have done", ms_up(does_ns))?,
            None => writeln!(out, "; it looks ahead, so no lag would have done")?,
        }
        if let Some(row) = &stream.slowest {
            describe_slowest(out, row)?;
        }
        if stream.too_old > 0 {
            let count = stream.too_old;
            writeln!(
                out,
                "    {count} messages are left out: they were too old for any tick when they arrived"
            )?;
        }
    }
    for tick in different.iter().take(LISTED) {
        describe_tick(out, tick)?;
    }
    if *differing > LISTED as u64 {
        writeln!(out, "  and {} more; --json lists the first 1000", differing - LISTED as u64)?;
    }
    if report.unexplained > 0 {
        let count = report.unexplained;
        let frames = match report.has_frames {
            true => ": it does not tell when the node had transforms and CameraInfo",
            false => "",
        };
        writeln!(out, "  {count} ticks differ for no cause that the recording shows{frames}")?;
    }
    for problem in &report.problems {
        writeln!(out, "  {problem}")?;
    }
    if report.more_problems > 0 {
        writeln!(out, "  and {} more like these", report.more_problems)?;
    }
    Ok(())
}

/// Describes whether the commands are the same.
fn describe_commands(out: &mut impl Write, report: &CommandsReport) -> std::io::Result<()> {
    let CommandsReport { chunks, equal, differing, unverifiable, first } = report;
    writeln!(
        out,
        "  commands: {equal} command ticks are the same, {differing} differ, {unverifiable} are unverifiable ({chunks} \
         chunks)"
    )?;
    let Some(first) = first else { return Ok(()) };
    writeln!(
        out,
        "    the first one that differs is {} of epoch {}: the arithmetic is another one",
        first.tick, first.epoch
    )?;
    for (group, command) in &first.replayed {
        match command {
            Some(values) => writeln!(out, "      {group}: {values:?} in the replay")?,
            None => writeln!(out, "      {group}: no command in the replay")?,
        }
    }
    Ok(())
}

/// Why a stream's lag must be so long.
fn describe_slowest(out: &mut impl Write, row: &SlowRow) -> std::io::Result<()> {
    let SlowRow { input, stamp_ns, arrived_ns, ready_ns, needs_ns } = row;
    let since = match needs_ns - ready_ns {
        2.. => format!(", and the row before it was {} ms older", ms(needs_ns - ready_ns)),
        _ => String::new(),
    };
    let [arrived, ready] = [*arrived_ns, *ready_ns].map(ms);
    writeln!(
        out,
        "    for the message of {input} stamped {stamp_ns}: it arrived {arrived} ms after its stamp and was a row after \
         {ready} ms{since}"
    )
}

fn describe_tick(out: &mut impl Write, tick: &Different) -> std::io::Result<()> {
    let Different { tick, late, early, .. } = tick;
    if late.is_empty() && early.is_empty() {
        return writeln!(out, "  tick {tick}: no cause is known");
    }
    for Late { input, ready_ns, arrived_ns, .. } in late {
        let arrived = arrived_ns.map_or(String::new(), |arrived_ns| {
            format!("arrived {} ms before it and ", ms(arrived_ns.saturating_neg()))
        });
        writeln!(
            out,
            "  tick {tick}: a message of {input} {arrived}was a row {} ms after it",
            ms(*ready_ns)
        )?;
    }
    for Late { input, arrived_ns, .. } in early {
        let after = ms(arrived_ns.unwrap_or(0));
        writeln!(
            out,
            "  tick {tick}: it was served late, after a message of {input} that came {after} ms after its instant"
        )?;
    }
    Ok(())
}

/// Nanoseconds as milliseconds.
fn ms(nanos: i64) -> f64 {
    (nanos as f64 / 1e3).round() / 1e3
}

/// Nanoseconds as milliseconds, rounded up to tenths.
fn ms_up(nanos: i64) -> f64 {
    (nanos as f64 / 1e5).ceil() / 10.0
}
