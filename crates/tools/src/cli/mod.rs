//! The command line of robocache, for its executable and for the Python package's.

mod calibrate;
mod check;
mod inspect;
mod replay;
mod replay_args;
mod verify;
mod view;

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::process;

use clap::{Args, Parser, Subcommand};

use crate::bars::say;
use replay_args::ReplayArgs;

/// The exit code of a command that did what it was asked.
const SUCCESS: u8 = 0;
/// The exit code of one that did not.
const FAILURE: u8 = 1;

/// Commands that the Python package adds.
const IN_PYTHON: &str = "\
In the Python package, which a sourced workspace has, or pip install 'dist/WHEEL.whl[import,lerobot,ray]' after `make wheel`:
  python -m robocache import      Read a dataset (LeRobot, RLDS, RoboMimic, LIBERO, CALVIN) into rows or tensors
  python -m robocache to-lerobot  Replay bags and write a LeRobot dataset, or one for GR00T
  python -m robocache watch       Convert each episode of a folder while the next one is recorded
  python -m robocache.ray         Run replay, to-lerobot and import on a Ray cluster";

/// Error that ends a command.
type Error = Box<dyn std::error::Error>;

/// Resamples every sensor stream of a robot at the same instants, into one tensor per control tick.
#[derive(Parser)]
#[command(name = "robocache", version, propagate_version = true, arg_required_else_help = true, after_help = IN_PYTHON)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Calibrate(calibrate::CalibrateArgs),
    Check(check::CheckArgs),
    #[command(name = "import", hide = true, disable_help_flag = true)]
    Import(PythonWords),
    Inspect(inspect::InspectArgs),
    Replay(Box<ReplayArgs>),
    #[command(name = "to-lerobot", hide = true, disable_help_flag = true)]
    ToLerobot(PythonWords),
    Verify(verify::VerifyArgs),
    View(view::ViewArgs),
    #[command(hide = true, disable_help_flag = true)]
    Watch(PythonWords),
}

/// Words for a command of the Python package, which takes it before this command line.
#[derive(Args)]
struct PythonWords {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// Runs a command line. Its first argument is the name of the program. Returns the exit code: 0 if the
/// command did what it was asked, 2 if the command line is wrong, otherwise what the command's help says.
///
/// A command may write to stdout and stderr, listen for interrupts, and set the program's log, so a program
/// runs one at most.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let command = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli.command,
        // Help is an error too. If the output is closed, there is nothing to do.
        Err(error) => {
            let _ = error.print();
            return error.exit_code() as u8;
        }
    };
    let result = match command {
        Command::Calibrate(args) => calibrate::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Import(given) => Err(in_python("import", &given)),
        Command::Inspect(args) => inspect::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::ToLerobot(given) => Err(in_python("to-lerobot", &given)),
        Command::Verify(args) => verify::run(&args),
        Command::View(args) => view::run(&args).map(|()| SUCCESS),
        Command::Watch(given) => Err(in_python("watch", &given)),
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

/// Runs the command of the words in the Python package. The first word is what to say if this Python lacks the package.
const RUN_IN_PYTHON: &str = "\
import runpy, sys
lacking = sys.argv.pop(1)
try:
    import robocache
except (Exception, SystemExit):
    sys.exit(lacking)
runpy.run_module('robocache', run_name='__main__', alter_sys=True)";

/// Goes on in this process as `python3 -m robocache COMMAND`. Returns what to do if there is no `python3`.
fn in_python(name: &str, given: &PythonWords) -> Error {
    let lacking =
        format!("{name}: expected the Python package, which python3 does not have\n{IN_PYTHON}");
    let mut python = process::Command::new("python3");
    // It only returns if there is no python3 that can be run: the error says no more than the hint.
    let _ = python.args(["-c", RUN_IN_PYTHON, &lacking, name]).args(&given.words).exec();
    lacking.into()
}

/// True if the reader has closed the output.
fn is_broken_pipe(error: &(dyn std::error::Error + 'static)) -> bool {
    let io = error.downcast_ref::<std::io::Error>();
    io.is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}

/// Writes warnings to stderr.
fn log_warnings() {
    let log = tracing_subscriber::fmt().with_max_level(tracing::Level::WARN).without_time();
    let log = log.with_target(false).with_ansi(false).with_writer(std::io::stderr);
    // A program that has a log of its own keeps it.
    let _ = log.try_init();
}
