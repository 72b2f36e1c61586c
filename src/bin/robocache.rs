//! The command line: see [`robocache::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    robocache::cli::run(std::env::args_os()).into()
}
