//! `robocache replay`

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use robocache_data::replay::batch::{self, EpisodeOutcome, Results};
use robocache_data::replay::{CommandsSummary, GroupSummary, JpegSummary, Summary};

use super::replay_args::ReplayArgs;
use super::{Error, FAILURE, SUCCESS, is_broken_pipe, say};
use crate::bars::{Bars, log_above_bars};

/// Runs the command.
pub(super) fn run(args: &ReplayArgs) -> Result<u8, Error> {
    log_above_bars();
    let (episodes, options) = args.request().asked()?;
    let stop = Arc::new(AtomicBool::new(false));
    stop_on_interrupt(&stop)?;
    let watch = Bars::new(episodes.len());
    let Results { outcomes, store } = batch::run_all(&episodes, &options, &watch, &stop)?;
    watch.close();
    let is_stored = store.inspect_err(|error| say(&format!("no new store: {error}"))).is_ok();
    let good = |outcome: &EpisodeOutcome| {
        matches!(outcome, EpisodeOutcome::Done(_) | EpisodeOutcome::Kept(_))
    };
    match report(&outcomes, args.json) {
        // If the reader closes the output, the outcomes of the episodes do not change.
        Err(error) if !is_broken_pipe(&*error) => Err(error),
        _ if is_stored && outcomes.iter().all(good) => Ok(SUCCESS),
        _ => Ok(FAILURE),
    }
}

/// Ends the run at the first interrupt, so that nothing incomplete stays, and the program at the second.
fn stop_on_interrupt(stop: &Arc<AtomicBool>) -> Result<(), Error> {
    let stop = Arc::clone(stop);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new().name("interrupt".into()).spawn(move || {
        runtime.block_on(async {
            while tokio::signal::ctrl_c().await.is_ok() {
                if stop.swap(true, Ordering::Relaxed) {
                    std::process::exit(130);
                }
                say("stopping; once more to stop at once");
            }
        });
    })?;
    Ok(())
}

/// Prints the outcomes of the episodes, for people or programs.
fn report(outcomes: &[EpisodeOutcome], json: bool) -> Result<(), Error> {
    let mut out = std::io::stdout().lock();
    if json {
        writeln!(out, "{}", serde_json::to_string_pretty(outcomes)?)?;
    } else {
        for outcome in outcomes {
            match outcome {
                EpisodeOutcome::Done(summary) => describe(&mut out, summary, "")?,
                EpisodeOutcome::Kept(summary) => describe(&mut out, summary, " (kept)")?,
                EpisodeOutcome::Failed { name, error } => say(&format!("{name}: failed: {error}")),
                EpisodeOutcome::Stopped { name } => say(&format!("{name}: stopped, and left out")),
            }
        }
    }
    Ok(out.flush()?)
}

/// A few lines about an episode.
fn describe(out: &mut impl Write, summary: &Summary, note: &str) -> std::io::Result<()> {
    let Summary { name, ticks, held_back, overruns, .. } = summary;
    write!(out, "{name}:")?;
    if summary.streams.values().any(|stream| stream.steps > 0) || *ticks > 0 {
        write!(out, " {ticks} ticks")?;
    }
    for (count, what) in [(held_back, "held back"), (overruns, "passed over by the clock")] {
        if *count > 0 {
            write!(out, ", {count} {what}")?;
        }
    }
    if let Some(tick) = summary.skew.tick {
        let ms = summary.skew.largest_ns as f64 / 1e6;
        write!(out, ", largest skew {ms:.3} ms (tick {tick})")?;
    }
    writeln!(out, "{note}")?;
    for (stream, numbers) in &summary.streams {
        write!(out, "  {stream}: {} rows", numbers.rows)?;
        if let Some(share) = numbers.valid_share {
            write!(out, ", {:.2} % of the steps valid", 100.0 * share)?;
        }
        for (reason, steps) in &numbers.invalid {
            write!(out, ", {reason} {steps}")?;
        }
        if let Some(JpegSummary { images, bytes_before, bytes, psnr_db }) = &numbers.jpeg {
            let [before, after] = [bytes_before, bytes].map(|bytes| *bytes as f64 / 1e6);
            write!(out, ", {images} images as JPEG: {after:.1} of {before:.1} MB")?;
            match psnr_db {
                Some(psnr_db) => write!(out, ", PSNR {psnr_db:.1} dB")?,
                None => write!(out, ", without error")?,
            }
        }
        writeln!(out)?;
    }
    for (input, numbers) in &summary.inputs {
        for (reason, messages) in &numbers.dropped {
            writeln!(out, "  {input}: {messages} of {} dropped: {reason}", numbers.received)?;
        }
        for (reason, parts) in &numbers.parts_dropped {
            writeln!(out, "  {input}: {parts} parts of messages dropped: {reason}")?;
        }
        if numbers.waiting > 0 {
            writeln!(out, "  {input}: {} still wait for a transform", numbers.waiting)?;
        }
    }
    if let Some(commands) = &summary.commands {
        describe_commands(out, commands)?;
    }
    for topic in &summary.missing {
        writeln!(out, "  {topic}: not in the bag")?;
    }
    for topic in &summary.untyped {
        writeln!(out, "  {topic}: the bag does not say its type; the configuration's is believed")?;
    }
    for problem in &summary.problems {
        writeln!(out, "  {problem}")?;
    }
    if summary.more_problems > 0 {
        writeln!(out, "  and {} more like these", summary.more_problems)?;
    }
    Ok(())
}

/// The lines about commands.
fn describe_commands(out: &mut impl Write, commands: &CommandsSummary) -> std::io::Result<()> {
    if !commands.written {
        return writeln!(out, "  commands: not made, because this output takes none");
    }
    let of = match commands.of_recording {
        true => "as the node made them",
        false => "by the receive stamps of the chunks",
    };
    writeln!(out, "  commands: {} command ticks, {of}", commands.ticks)?;
    for (count, what) in [
        (commands.differing, "are not what the node made, and are left out"),
        (commands.unverifiable, "follow an event that is missing, differ, and are left out"),
    ] {
        if count > 0 {
            writeln!(out, "  commands: {count} command ticks {what}")?;
        }
    }
    if commands.waiting > 0 {
        let waiting = commands.waiting;
        writeln!(
            out,
            "  commands: {waiting} chunks waited for a command tick, and none found them"
        )?;
    }
    for (reason, chunks) in &commands.refused {
        writeln!(out, "  commands: {chunks} chunks of no group refused: {reason}")?;
    }
    for (name, group) in &commands.groups {
        let GroupSummary { sent, chunks, chunks_late, rows_late, .. } = group;
        write!(out, "  commands of {name}: {sent} sent, {chunks} chunks, {rows_late} rows late")?;
        if *chunks_late > 0 {
            write!(out, ", {chunks_late} chunks with all rows late")?;
        }
        for (reason, chunks) in &group.refused {
            write!(out, ", {chunks} chunks refused: {reason}")?;
        }
        for (joint, count) in &group.clipped {
            write!(out, ", {joint} clipped {count}")?;
        }
        writeln!(out)?;
    }
    Ok(())
}
