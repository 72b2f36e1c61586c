//! The command line: see [`robocache_tools::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    robocache_tools::cli::run(std::env::args_os()).into()
}
