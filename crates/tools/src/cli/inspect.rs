//! `robocache inspect`

use std::fs::File;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use crate::inspect::{Inspection, Starter, inspect, report};
use crate::report::counted;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use robocache_data::bag::Bag;
use robocache_data::replay::{BagDefinitions, Progress, find_bags};
use robocache_ops::time::Stamp;

use super::{Error, FAILURE, SUCCESS, say};

/// Say what a bag has: topics, rates, gaps, stamps, delays, clocks, frames, damage.
///
/// Reads bags of rosbag2, MCAP and sqlite3, compressed or not, split or not, and folders of bags. It needs no
/// ROS. It prints one row per topic: rate and intervals by the headers' stamps (by the arrivals if there are
/// none), gaps (more than 2.5 usual intervals), delays from stamp to arrival, quality of service. Then it prints
/// what the messages hold, the frames, and what you should know.
///
/// With --write-config, it writes a configuration that `robocache replay` runs with this bag, annotated with what was
/// found. `robocache check --bag BAG` checks it with the definitions in the bag.
///
/// Exit code: 0 if every bag was read; 1 if one could not be read; 2 if the command line is wrong. If a bag is
/// damaged and the rest could be read, the damage is listed, and the exit code is 0.
#[derive(Args)]
pub(super) struct InspectArgs {
    /// Bags, or folders of bags
    #[arg(required = true, value_name = "BAG")]
    bags: Vec<PathBuf>,
    /// Print everything as JSON: a list with an entry for each bag; times are in nanoseconds
    #[arg(long)]
    json: bool,
    /// Write a report for a browser: the table, a timeline, delays and intervals as histograms
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write a starting configuration for the bag into a new file; there must be one bag
    #[arg(long, value_name = "FILE")]
    write_config: Option<PathBuf>,
}

/// Runs the command.
pub(super) fn run(args: &InspectArgs) -> Result<u8, Error> {
    let bags = find_bags(&args.bags, Path::new(""))?;
    if let (Some(_), [_, second, ..]) = (&args.write_config, &bags[..]) {
        return Err(format!(
            "--write-config: expected one bag, found {} too; give the one that the configuration is for",
            second.display()
        )
        .into());
    }
    let mut found = Vec::new();
    let mut failed = false;
    let mut out = std::io::stdout().lock();
    for path in &bags {
        match look(path) {
            Ok(inspection) if args.json => found.push(inspection),
            Ok(inspection) => {
                let gap = if found.is_empty() { "" } else { "\n" };
                write!(out, "{gap}{inspection}")?;
                found.push(inspection);
            }
            Err(error) => {
                say(&error.to_string());
                failed = true;
            }
        }
    }
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&found)?)?;
    }
    out.flush()?;
    if let Some(file) = &args.html {
        std::fs::write(file, report(&found).html())
            .map_err(|error| format!("{}: {error}", file.display()))?;
    }
    if let (Some(file), [inspection]) = (&args.write_config, &found[..]) {
        write_config(file, inspection, &bags[0])?;
    }
    Ok(if failed { FAILURE } else { SUCCESS })
}

/// Writes a configuration for an inspected bag, and says what it leaves out.
fn write_config(file: &Path, inspection: &Inspection, bag: &Path) -> Result<(), Error> {
    let definitions = BagDefinitions::new(&Bag::open(bag)?)?;
    let starter = Starter::new(inspection, &definitions)
        .map_err(|why| format!("{}: {why}", bag.display()))?;
    let at_file = |error: std::io::Error| format!("{}: {error}", file.display());
    // An existing configuration is not overwritten, because the user may have changed it.
    let mut written = File::create_new(file).map_err(at_file)?;
    written.write_all(starter.text.as_bytes()).map_err(at_file)?;
    written.sync_all().map_err(at_file)?;
    for (topic, why) in &starter.left_out {
        say(&format!("{topic} is left out: {why}"));
    }
    let streams = counted(starter.streams.len() as u64, "stream", "streams");
    say(&format!("{}: {streams}", file.display()));
    Ok(())
}

/// Inspects a bag, with a bar if there is a terminal.
pub(super) fn look(path: &Path) -> Result<Inspection, Error> {
    let bag = Bag::open(path)?;
    let bar = Bar::new(bag.span().unwrap_or_default());
    let inspection = inspect(&bag, &bar);
    bar.clear();
    Ok(inspection?)
}

/// How far the reading of a bag is.
pub(super) struct Bar {
    bar: ProgressBar,
    first: Stamp,
}

impl Bar {
    /// For a bag from the first to the last instant.
    pub(super) fn new(span: (Stamp, Stamp)) -> Self {
        let (first, last) = span;
        let bar = match std::io::stderr().is_terminal() {
            true => ProgressBar::new(last.since(first).max(0) as u64),
            false => ProgressBar::hidden(),
        };
        let style = ProgressStyle::with_template("{wide_bar} {percent} %, {eta} left");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Bar { bar, first }
    }

    /// Takes the bar away.
    pub(super) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

impl Progress for Bar {
    fn at(&self, now: Stamp) -> bool {
        self.bar.set_position(now.since(self.first).max(0) as u64);
        true
    }
}
