//! The node: sensor topics in, one fused tensor per control tick out. See `--help`.

use std::io::IsTerminal;
use std::process::ExitCode;

use robocache::node::{self, Invocation, NodeError, RosArgs};
use tokio::signal::unix::{SignalKind, signal};
use tracing_appender::non_blocking::NonBlockingBuilder;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Log lines that wait for stderr.
const LOG_LINES: usize = 4096;

fn main() -> ExitCode {
    // Arguments that are not UTF-8 would panic inside r2r.
    let arguments: Result<Vec<String>, _> =
        std::env::args_os().skip(1).map(|arg| arg.into_string()).collect();
    let invocation = arguments
        .map_err(|arg| format!("expected UTF-8, found {arg:?}"))
        .and_then(node::parse_args);
    match invocation {
        Ok(Invocation::Help) => print!("{}", node::HELP),
        Ok(Invocation::Version) => println!("fusion_node {}", env!("CARGO_PKG_VERSION")),
        Ok(Invocation::Run(args)) => {
            node::ensure_profile();
            return run(&args);
        }
        Err(message) => {
            eprintln!("fusion_node: {message}");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

fn run(args: &RosArgs) -> ExitCode {
    // A thread of its own writes the logs, so that none with a deadline waits for whoever reads
    // them; beyond what it holds, lines are dropped and counted.
    let (writer, flush) = NonBlockingBuilder::default()
        .lossy(true)
        .buffered_lines_limit(LOG_LINES)
        .thread_name("log")
        .finish(std::io::stderr());
    let lost = writer.error_counter();
    let stderr = tracing_subscriber::fmt::layer()
        .with_writer(writer)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false);
    let (rosout, records) = node::rosout_layer();
    tracing_subscriber::registry().with(node::log_filter(args)).with(stderr).with(rosout).init();
    let outcome = run_until_signal(args, records);
    if lost.dropped_lines() > 0 {
        // Not written directly: whoever does not read would hold up the end, too.
        tracing::warn!("{} lines of the log were lost on stderr", lost.dropped_lines());
    }
    drop(flush);
    match outcome {
        Ok(Ok(())) => ExitCode::SUCCESS,
        // It has been logged.
        Ok(Err(_)) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("fusion_node: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The outcome of the node; on the outside, that of what is needed to run it.
fn run_until_signal(
    args: &RosArgs,
    records: node::Records,
) -> std::io::Result<Result<(), NodeError>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let shutdown = async {
            tokio::select! {
                _ = interrupt.recv() => "SIGINT",
                _ = terminate.recv() => "SIGTERM",
            }
        };
        Ok(node::run(args, records, shutdown).await)
    })
}
