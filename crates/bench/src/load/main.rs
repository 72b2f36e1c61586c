//! A robot with many large sensors and a policy, as processes of their own: a load for the node.
//!
//! `robocache_load rig` publishes, `robocache_load watch` subscribes to the tensors. The node runs
//! between them. `benches/six_cameras.py` starts all three.

mod rig;
mod watch;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use robocache_core::message::MessageError;
use robocache_rcl::{Context, Node, RclError};

/// Loads a node: a robot with many large sensors, or a policy that watches the tensors.
#[derive(Parser)]
#[command(version)]
struct LoadOptions {
    #[command(subcommand)]
    role: Role,
}

#[derive(Subcommand)]
enum Role {
    /// Publish images, clouds and joints at exact rates; print what was sent as JSON
    Rig(rig::RigOptions),
    /// Take the tensors for a while; print how they came, and the node's last diagnostics, as JSON
    Watch(watch::WatchOptions),
}

/// Why the load did not run.
#[derive(Debug, thiserror::Error)]
enum LoadError {
    /// An operation of rcl failed.
    #[error(transparent)]
    Ros(#[from] RclError),
    /// A message that the node published is not what its type says.
    #[error("a message of {topic}: {source}")]
    Message { topic: String, source: MessageError },
    /// No node subscribed.
    #[error("no subscription to {topic} in {patience:?}")]
    Alone { topic: String, patience: Duration },
    /// The cameras' file cannot be read.
    #[error("{}: {source}", path.display())]
    Image { path: PathBuf, source: std::io::Error },
    /// A thread panicked.
    #[error("a thread panicked")]
    Panicked,
    /// The result cannot be written.
    #[error("write the result: {0}")]
    Output(#[from] serde_json::Error),
}

/// A node of this program. Its arguments are none of ROS's.
fn node(name: &str) -> Result<Node, LoadError> {
    let context = Context::from_args([name.into()], None)?;
    Ok(Node::new(&context, name, "")?)
}

fn main() -> ExitCode {
    let outcome = match LoadOptions::parse().role {
        Role::Rig(options) => rig::run(&options),
        Role::Watch(options) => watch::run(&options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("robocache_load: {error}");
            ExitCode::FAILURE
        }
    }
}
