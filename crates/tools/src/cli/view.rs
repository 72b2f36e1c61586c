//! `robocache view`

use std::path::{Path, PathBuf};

use crate::view::{self, Against, ViewOptions};
use clap::Args;
use robocache_data::replay::{AskedClock, Remap};

use super::{Error, say};

/// Make a report of tensors, rows or a recording: what the policy sees, as pictures, curves and numbers.
///
/// OUTPUT is what `robocache replay` has written, a folder or a file, or any bag with messages of
/// robocache_ros/msg/FusedTensor. The report is one HTML file, which needs no network and no script: images
/// without their normalisation, depth, voxel grids from above and from the side, curves of vectors, validity
/// and ages over time with the reasons, ticks without a tensor, the layout of the tensor, the configuration.
///
/// The vectors, validity and ages of all tensors are read, and images of a few. If an output is larger than
/// --read-mib, or an episode has more than 200,000 ticks, a part is read, and the report says which.
///
/// Of a store of rows, the report shows each stream at its own stamps. Of a recording of the node (its parameter
/// record_to), it shows what was received, dropped and missing, the ticks, and the delays.
///
/// OUTPUT may also be a JSON file with a report that a program has put together, as the demo does: texts, tables,
/// curves and tensors. docs/view.md has its keys.
///
/// Exit code: 0 if the report was written; 1 if not; 2 if the command line is wrong.
#[derive(Args)]
pub(super) struct ViewArgs {
    /// A result of robocache replay, its folder, a bag with tensors, or a recording of the node
    output: PathBuf,
    /// The report; by default report.html in the folder of OUTPUT. Of a store, it is beside the store
    #[arg(long, value_name = "FILE.html")]
    out: Option<PathBuf>,
    /// An episode to show, by name; may be given several times. By default the first three
    #[arg(long, value_name = "NAME")]
    episode: Vec<String>,
    /// The bag that the tensors were made of: curves of its rows are drawn beside those of the tensors
    #[arg(long)]
    bag: Option<PathBuf>,
    /// A topic of the configuration that has another name in this bag; may be given several times
    #[arg(long, value_name = "FROM:=TO", requires = "bag")]
    remap: Vec<Remap>,
    /// Which clock the ticks were on, as of robocache replay
    #[arg(long, value_name = "SOURCE", default_value = "auto", requires = "bag")]
    time: AskedClock,
    /// The configuration's file, if it names other files: these are looked for beside it
    #[arg(long, value_name = "FILE.yaml", requires = "bag")]
    config: Option<PathBuf>,
    /// Also write a Rerun recording, which `rerun FILE.rrd` opens. It needs Python with rerun-sdk: the python3 of
    /// the PATH, or the one that the variable PYTHON names
    #[arg(long, value_name = "FILE.rrd")]
    rerun: Option<PathBuf>,
    /// Pictures of each stream of images
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=32))]
    pictures: u8,
    /// How much view goes through at most, of all episodes together [MiB]: of an MCAP file whole tensors; of a
    /// store the vectors, validity and ages alone
    #[arg(long, default_value_t = 65536, value_parser = clap::value_parser!(u32).range(1..))]
    read_mib: u32,
}

/// Runs the command.
pub(super) fn run(args: &ViewArgs) -> Result<(), Error> {
    let options = ViewOptions {
        episodes: args.episode.clone(),
        pictures: usize::from(args.pictures),
        budget: u64::from(args.read_mib) << 20,
        against: args.bag.as_ref().map(|bag| Against {
            bag: bag.clone(),
            remaps: args.remap.clone(),
            time: args.time.clone(),
            config: args.config.clone(),
        }),
        ..ViewOptions::default()
    };
    let page = view::page(&args.output, &options)?;
    let out = args.out.clone().unwrap_or_else(|| beside(&args.output));
    std::fs::write(&out, page.html()).map_err(|error| format!("{}: {error}", out.display()))?;
    say(&format!("report: {}", out.display()));
    if let Some(recording) = &args.rerun {
        view::rerun::write(&args.output, &options, recording)?;
        say(&format!("Rerun recording: {}", recording.display()));
    }
    Ok(())
}

/// The report in the folder of an output. A replay replaces a whole store: its report is beside it.
fn beside(output: &Path) -> PathBuf {
    let is_in = output.is_dir() && !view::source::is_store(output);
    // A path such as `.` does not say what it is in.
    let whole = output.file_name().is_none().then(|| output.canonicalize().ok()).flatten();
    let folder = if is_in { Some(output) } else { whole.as_deref().unwrap_or(output).parent() };
    folder.unwrap_or(Path::new("")).join("report.html")
}
