//! The node: sensor topics in, one fused tensor per control tick out. See `--help`.

use std::io::IsTerminal;
use std::process::ExitCode;

use robocache::node::{self, Invocation, RosArgs};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

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
        Ok(Invocation::Run(args)) => return run(&args),
        Err(message) => {
            eprintln!("fusion_node: {message}");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

fn run(args: &RosArgs) -> ExitCode {
    let stderr = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false);
    let (rosout, records) = node::rosout_layer();
    tracing_subscriber::registry().with(node::log_filter(args)).with(stderr).with(rosout).init();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let outcome = runtime.map_err(|error| error.to_string()).and_then(|runtime| {
        runtime.block_on(async {
            let mut interrupt = signal(SignalKind::interrupt()).map_err(|e| e.to_string())?;
            let mut terminate = signal(SignalKind::terminate()).map_err(|e| e.to_string())?;
            let shutdown = async {
                tokio::select! {
                    _ = interrupt.recv() => "SIGINT",
                    _ = terminate.recv() => "SIGTERM",
                }
            };
            node::run(args, records, shutdown).await.map_err(|error| error.to_string())
        })
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("fusion_node: {message}");
            ExitCode::FAILURE
        }
    }
}
