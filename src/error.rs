//! Errors that end the node.

use std::path::PathBuf;

use robocache_core::backend::BackendError;
use robocache_core::config::ConfigError;
use robocache_core::contract::ContractError;
use robocache_core::message::LacksElement;
use robocache_core::pipeline::SpecError;
use robocache_data::recording::RecordError;
use robocache_link::LinkError;
use robocache_rcl::RclError;
use robocache_runtime::RuntimeError;
use robocache_shared::SharedError;

/// Why the node did not start, or stopped.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// An operation of rcl failed.
    #[error(transparent)]
    Ros(#[from] RclError),
    /// Messages are no longer taken, or the graph cannot be watched.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The ROS arguments cannot be read.
    #[error("ROS arguments: {0}")]
    RosArguments(String),
    /// A parameter with an unknown name that is almost a known one.
    #[error("parameter {name}: no such name, did you mean {near}?")]
    UnknownParameter {
        /// The unknown name.
        name: String,
        /// The known name.
        near: &'static str,
    },
    /// A parameter of the wrong type or with an unusable value.
    #[error("parameter {name}: expected {expected}, found {found}")]
    Parameter {
        /// The parameter's name.
        name: &'static str,
        /// Which values it may have.
        expected: String,
        /// Which value it has.
        found: String,
    },
    /// An environment variable with an unusable value.
    #[error("{name}: expected {expected}, found {found}")]
    Variable {
        /// The name of the variable.
        name: &'static str,
        /// Which values it may have.
        expected: &'static str,
        /// Which value it has.
        found: String,
    },
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The program cannot do what the configuration asks for.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The backend did not start.
    #[error("start the backend: {0}")]
    Backend(#[source] BackendError),
    /// The recording does not begin.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The message type lacks the elements of a segment.
    #[error("output_type: {0}")]
    OutputType(#[from] LacksElement),
    /// The messages lack what a chunk of actions must copy.
    #[error(
        "parameter output_type: expected fused_tensor, because the configuration has `commands`, found \
         isaac_tensor_list: a TensorList has no run and no epoch for the chunks that answer it"
    )]
    CommandsOfTensorList,
    /// Commands go to a topic that something else has.
    #[error(
        "commands.groups.{group}.output.topic: expected a topic of its own after remapping, found {topic}, which the node \
         already reads or publishes"
    )]
    CommandTopic {
        /// The group.
        group: String,
        /// The full name.
        topic: String,
    },
    /// The contract of the policy cannot be read.
    #[error("parameter contract: {0}")]
    ContractFile(#[from] ContractError),
    /// The configuration makes other tensors than those of the contract.
    #[error("parameter contract: {}: the policy would not be served what it was trained with:\n  {}", folder.display(), differences.join("\n  "))]
    Contract {
        /// Folder of the contract.
        folder: PathBuf,
        /// A sentence each.
        differences: Vec<String>,
    },
    /// The tensors cannot be shared.
    #[error("shared_output: {0}")]
    Shared(#[from] SharedError),
    /// The middleware, or a driver, does not return. The threads that wait for it do not end.
    #[error("the middleware hangs, or a driver: the process ends without it")]
    Hangs,
    /// The thread that starts the node, changes its state or ends it panicked.
    #[error("the thread that starts the node, changes its state or ends it panicked")]
    Panicked,
    /// A thread failed.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
}
