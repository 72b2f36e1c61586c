//! A configuration that is ready to work: its memory, on a GPU too, its publishers and its shared memory.

use std::sync::Arc;

use super::base::Base;
use super::commander::STATUS_TOPIC;
use super::connection::PublisherSpec;
use super::error::NodeError;
use super::fastdds::segment_warning;
use super::info;
use super::param_services;
use super::params::{Declared, OutputType, Settings};
use super::shared::{SharedActions, SharedPublishers};
use robocache_core::backend::{self, Backend};
use robocache_core::config::describe;
use robocache_core::contract::{Contract, DifferenceKind, refused};
use robocache_core::layout::Layout;
use robocache_core::message::Envelope;
use robocache_core::pipeline::Pipeline;
use robocache_core::spec::Config;
use robocache_link::{CHUNK_TOPIC, CLOCK_TOPIC, Handed};
use robocache_ops::sync::lock;
use robocache_runtime::{Clock, Runtime, TimeSource};
use robocache_shared::TensorPublisher;

/// A configuration that is ready to work.
pub(crate) struct Configured {
    pub settings: Settings,
    /// The names and values of the parameters, for people.
    pub parameters: Vec<(String, String)>,
    pub spec: Arc<PublisherSpec>,
    /// The form of the messages, if it is not that of the tensors themselves.
    pub list: Option<Envelope>,
    /// Home of the publisher into shared memory while no thread publishes; empty if the tensors are not shared.
    pub tensors: Handed<TensorPublisher>,
    /// The way back in shared memory; empty without commands, too.
    pub actions: SharedActions,
    /// Holds the memory of all rows.
    backend: Arc<dyn Backend>,
}

impl Configured {
    /// Takes all that a configuration needs, and makes its publishers.
    ///
    /// # Errors
    /// Says what cannot be used or had. [`Configured::end`] gives back what was taken before.
    pub(crate) fn new(base: &Base, settings: Settings, config: Config) -> Result<Self, NodeError> {
        check_contract(&settings, &config)?;
        check_streams(&settings, &config)?;
        if config.commands.is_some() && settings.output_type != OutputType::FusedTensor {
            return Err(NodeError::CommandsOfTensorList);
        }
        let backend = choose_backend(&settings, &config)?;
        tracing::info!(
            "{}: {} streams at {} Hz on the {} backend",
            settings.config_file.display(),
            config.streams.len(),
            config.rate_hz,
            backend.name(),
        );
        let topics = base.connections.resolve(config.inputs.iter().map(|input| &input.topic))?;
        check_command_topics(base, &config, &topics)?;
        // What does not depend on the clock is made and checked with it; it does not run.
        let runtime = new_runtime(&settings, &config, &backend, &base.time)?;
        let info = info::message(&runtime, &topics);
        let list = list_form(&settings, &runtime.pipeline)?;
        let tensors = Handed::default();
        let mut actions = SharedActions::default();
        if let Some(service) = &settings.shared_output {
            let shared = SharedPublishers::new(service, &runtime.pipeline, &info)?;
            tensors.leave(shared.tensors);
            lock(&base.watched).shared = Some(shared.info);
            if let Some(commands) = &config.commands {
                actions = SharedActions::new(service, commands)?;
            }
        }
        let message_bytes = describe::shared_memory::message_bytes(&config);
        if let Some(warning) = segment_warning("the tensor message", message_bytes) {
            tracing::warn!("{warning}");
        }
        let output_type = settings.output_type;
        let shows = settings.visualize_period.is_some();
        let spec =
            Arc::new(PublisherSpec { config, topics, output_type, shows, message_bytes, info });
        base.connections.publish(&spec)?;
        lock(&base.watched).set_period(settings.diagnostics_period);
        let in_words = |it: Declared| (it.name.to_owned(), param_services::in_words(&it.value));
        let parameters: Vec<_> = base.store.declared().into_iter().map(in_words).collect();
        for (name, value) in &parameters {
            tracing::debug!("parameter {name}: {value}");
        }
        Ok(Configured { settings, parameters, spec, list, tensors, actions, backend })
    }

    /// A runtime for one stretch of work, which is a run of its own. It begins with empty rings, so that what it makes
    /// follows from its messages alone.
    ///
    /// # Errors
    /// The program cannot do what the configuration asks for.
    pub(crate) fn runtime(&self, time: &TimeSource) -> Result<Runtime, NodeError> {
        new_runtime(&self.settings, &self.spec.config, &self.backend, time)
    }

    /// Gives back what a configuration took, also one that did not become ready.
    pub(crate) fn end(configured: Option<Self>, base: &Base) {
        base.connections.end_publishers();
        lock(&base.watched).shared = None;
        drop(configured);
    }
}

fn new_runtime(
    settings: &Settings,
    config: &Config,
    backend: &Arc<dyn Backend>,
    time: &TimeSource,
) -> Result<Runtime, NodeError> {
    let clock = match settings.use_sim_time {
        true => Clock::simulated(config.grid, time.clone()),
        false => Clock::system(config.grid, time.clone()),
    };
    let pipeline = Pipeline::new(config.clone(), Arc::clone(backend))?.with_run(time.draw_run());
    let mut runtime = Runtime::new(pipeline, clock).with_commands();
    runtime.digest = settings.digest;
    Ok(runtime)
}

/// Checks that commands have topics of their own, with the names that they have after remapping: commands on the topic of a
/// measured joint would close a loop.
fn check_command_topics(base: &Base, config: &Config, inputs: &[String]) -> Result<(), NodeError> {
    let Some(commands) = &config.commands else { return Ok(()) };
    let own = [CHUNK_TOPIC, STATUS_TOPIC, CLOCK_TOPIC].map(str::to_owned);
    let own = base.connections.resolve(own.iter().chain([&config.output_topic]))?;
    let outputs = commands.groups.iter().map(|group| &group.output.topic);
    let outputs = base.connections.resolve(outputs)?;
    for (at, topic) in outputs.iter().enumerate() {
        if inputs.contains(topic) || own.contains(topic) || outputs[..at].contains(topic) {
            let group = commands.groups[at].name.clone();
            return Err(NodeError::CommandTopic { group, topic: topic.clone() });
        }
    }
    Ok(())
}

/// Checks that the configuration has the streams that are to be recorded.
fn check_streams(settings: &Settings, config: &Config) -> Result<(), NodeError> {
    let names: Vec<&str> = config.streams.iter().map(|stream| stream.name.as_str()).collect();
    match settings.record_streams.iter().find(|name| !names.contains(&name.as_str())) {
        None => Ok(()),
        Some(unknown) => Err(NodeError::Parameter {
            name: "record_streams",
            expected: format!("streams of the configuration ({})", names.join(", ")),
            found: format!("'{unknown}'"),
        }),
    }
}

/// Checks that the configuration makes what the policy was trained with, if the policy's contract is given.
fn check_contract(settings: &Settings, config: &Config) -> Result<(), NodeError> {
    let Some(folder) = &settings.contract else { return Ok(()) };
    let trained = Contract::load(folder)?;
    let differences = trained.differences(&Contract::of_node(config));
    let refused = refused(&differences);
    if !refused.is_empty() {
        return Err(NodeError::Contract { folder: folder.clone(), differences: refused });
    }
    for difference in &differences {
        let kind = difference.kind.name();
        let sentence = &difference.sentence;
        match difference.kind {
            DifferenceKind::Validity => tracing::warn!("contract, {kind}: {sentence}"),
            _ => tracing::info!("contract, {kind}: {sentence}"),
        }
    }
    tracing::info!("the contract {} of {} is kept", trained.digest(), folder.display());
    Ok(())
}

fn choose_backend(settings: &Settings, config: &Config) -> Result<Arc<dyn Backend>, NodeError> {
    let device = settings.device as usize;
    backend::create(settings.backend, device, config, &Layout::new(config))
        .map_err(NodeError::Backend)
}

/// The form of the messages, if it is not that of the tensors themselves.
fn list_form(settings: &Settings, pipeline: &Pipeline) -> Result<Option<Envelope>, NodeError> {
    match settings.output_type {
        OutputType::FusedTensor => Ok(None),
        OutputType::IsaacTensorList => {
            let base_frame = &pipeline.config().base_frame;
            Ok(Some(Envelope::isaac_tensor_list(pipeline.layout(), base_frame)?))
        }
    }
}
