//! The node: sensor topics in, one fused tensor per control tick out. See `--help`.

use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use robocache::{Console, Invocation, NodeError, RosArgs, Signals};
use robocache_runtime::TimeSource;
use tracing_appender::non_blocking::NonBlockingBuilder;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Log lines that may wait for stderr.
const LOG_LINES: usize = 4096;

fn main() -> ExitCode {
    // Names, parameters and paths in ROS are UTF-8.
    let arguments: Result<Vec<String>, _> =
        std::env::args_os().skip(1).map(OsString::into_string).collect();
    let invocation = arguments
        .map_err(|arg| format!("expected UTF-8, found {:?}", arg.to_string_lossy()))
        .and_then(robocache::parse_args);
    match invocation {
        Ok(Invocation::Help) => say(&robocache::help()),
        Ok(Invocation::Version) => say(&format!("fusion_node {}\n", env!("CARGO_PKG_VERSION"))),
        Ok(Invocation::Run(args)) => {
            robocache::ensure_profile();
            robocache_ops::heap::bound_freed_memory();
            return run(&args);
        }
        Err(message) => {
            eprintln!("fusion_node: {message}");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

/// Writes to stdout until the reader closes it: a reader such as `head` may have seen enough.
fn say(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

fn run(args: &RosArgs) -> ExitCode {
    let time = TimeSource::real();
    // Before the first thread.
    let console = Console::from_env(std::io::stderr().is_terminal(), time.clone());
    // A separate thread writes the logs, so that no thread with a deadline waits for the reader of
    // stderr. If its queue is full, lines are dropped and counted.
    let (writer, flush) = NonBlockingBuilder::default()
        .lossy(true)
        .buffered_lines_limit(LOG_LINES)
        .thread_name("log")
        .finish(std::io::stderr());
    let lost = writer.error_counter();
    let stderr = tracing_subscriber::fmt::layer().event_format(console).with_writer(writer);
    let (rosout, records) = robocache::rosout_layer(time.clone());
    tracing_subscriber::registry()
        .with(robocache::log_filter(args))
        .with(stderr)
        .with(rosout)
        .init();
    let outcome = run_until_signal(records, time);
    if lost.dropped_lines() > 0 {
        // Not written directly: the end must not wait for the reader of stderr either.
        tracing::warn!("{} log lines were lost on stderr", lost.dropped_lines());
    }
    drop(flush);
    match outcome {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(NodeError::Hangs)) => robocache_rcl::leave(1),
        // The error has been logged.
        Ok(Err(_)) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("fusion_node: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the node until a signal. The outer error is that of tokio or a signal handler, the inner
/// one that of the node.
fn run_until_signal(
    records: robocache::Records,
    time: TimeSource,
) -> std::io::Result<Result<(), NodeError>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = runtime.block_on(async {
        let mut signals = Signals::new(time.clone())?;
        Ok(robocache::run(records, &mut signals, time).await)
    });
    // If the middleware hangs, a thread waits for it without an end.
    runtime.shutdown_background();
    outcome
}
