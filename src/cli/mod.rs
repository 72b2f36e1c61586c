//! The command line of robocache, for its executable and for the Python package's.

#[cfg(feature = "replay")]
mod calibrate;
mod check;
#[cfg(feature = "replay")]
mod inspect;
#[cfg(feature = "replay")]
mod replay;
#[cfg(feature = "replay")]
mod verify;
#[cfg(feature = "replay")]
mod view;

use std::ffi::OsString;
use std::io::{ErrorKind, Write};

use clap::{Parser, Subcommand};

/// The exit code of a command that did what it was asked.
const SUCCESS: u8 = 0;
/// The exit code of one that did not.
const FAILURE: u8 = 1;

/// What the Python package adds.
const IN_PYTHON: &str = "\
With the Python package (pip install 'robocache[lerobot,ray]'):
  robocache to-lerobot     Replay bags and write a LeRobot dataset
  python -m robocache.ray  Run replay and to-lerobot on a Ray cluster";

/// What ends a command.
type Error = Box<dyn std::error::Error>;

/// Resamples every sensor stream of a robot at the same instants, into one tensor per control tick.
#[derive(Parser)]
#[command(version, propagate_version = true, arg_required_else_help = true, after_help = IN_PYTHON)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    #[cfg(feature = "replay")]
    Calibrate(calibrate::CalibrateArgs),
    Check(check::CheckArgs),
    #[cfg(feature = "replay")]
    Inspect(inspect::InspectArgs),
    #[cfg(feature = "replay")]
    Replay(Box<replay::ReplayArgs>),
    #[cfg(feature = "replay")]
    Verify(verify::VerifyArgs),
    #[cfg(feature = "replay")]
    View(view::ViewArgs),
}

/// Runs a command line. Its first argument is the name of the program. Returns the exit code: 0 if the
/// command did what it was asked, 2 if the command line is wrong, otherwise what the command's help says.
///
/// A command may write to stdout and stderr, listen for interrupts, and set the program's log, so a program
/// runs one at most.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let command = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli.command,
        // Help is one too. If nobody reads it, there is nothing to do.
        Err(error) => {
            let _ = error.print();
            return error.exit_code() as u8;
        }
    };
    let result = match command {
        #[cfg(feature = "replay")]
        Command::Calibrate(args) => calibrate::run(&args),
        Command::Check(args) => check::run(&args).map(|()| SUCCESS),
        #[cfg(feature = "replay")]
        Command::Inspect(args) => inspect::run(&args),
        #[cfg(feature = "replay")]
        Command::Replay(args) => replay::run(&args),
        #[cfg(feature = "replay")]
        Command::Verify(args) => verify::run(&args),
        #[cfg(feature = "replay")]
        Command::View(args) => view::run(&args).map(|()| SUCCESS),
    };
    match result {
        Ok(code) => code,
        // A reader such as `head` has seen enough.
        Err(error) if is_broken_pipe(&*error) => SUCCESS,
        Err(error) => {
            say(&error.to_string());
            FAILURE
        }
    }
}

/// Whether nobody reads the output any more.
fn is_broken_pipe(error: &(dyn std::error::Error + 'static)) -> bool {
    let io = error.downcast_ref::<std::io::Error>();
    io.is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}

/// Writes warnings to stderr.
#[cfg(feature = "replay")]
fn log_warnings() {
    let log = tracing_subscriber::fmt().with_max_level(tracing::Level::WARN).without_time();
    log.with_target(false).with_ansi(false).with_writer(std::io::stderr).init();
}

/// Writes a line to stderr, if anybody reads it.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
