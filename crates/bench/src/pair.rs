//! A pipeline on the backend under test, and one on the CPU to compare with.

use std::sync::Arc;
use std::time::Instant;

use robocache_core::backend::cpu::CpuBackend;
use robocache_core::backend::{Backend, create};
use robocache_core::config;
use robocache_core::layout::Layout;
use robocache_core::pipeline::{Arrival, Pipeline};
use robocache_core::spec::{Config, InputId};
use serde::Serialize;

use crate::error::BenchError;
use crate::options::Options;

/// Processor of the pipeline under test.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Hardware {
    /// Name of the backend.
    pub backend: &'static str,
    /// Name of the GPU, or `cpu`.
    pub device: String,
}

impl Default for Hardware {
    fn default() -> Self {
        Hardware { backend: "cpu", device: "cpu".into() }
    }
}

/// Two pipelines of one configuration.
pub(crate) struct PipelinePair {
    /// On the backend under test.
    pub subject: Pipeline,
    /// On the CPU.
    pub oracle: Pipeline,
}

impl PipelinePair {
    /// Pipelines of the configuration `text`; notes the name of the backend in `hardware`.
    pub(crate) fn new(
        text: &str,
        options: &Options,
        hardware: &mut Hardware,
    ) -> Result<Self, BenchError> {
        let config = parse(text)?;
        let layout = Layout::new(&config);
        let backend: Arc<dyn Backend> = create(options.backend, options.device, &config, &layout)?;
        hardware.backend = backend.name();
        let oracle = Arc::new(CpuBackend::new(&config, &layout)?);
        Ok(PipelinePair {
            subject: Pipeline::new(config.clone(), backend)?,
            oracle: Pipeline::new(config, oracle)?,
        })
    }

    /// Gives a message to the subject, and if `both` to the oracle too. Returns how long the
    /// subject took \[us\].
    pub(crate) fn push(&self, input: usize, message: &[u8], both: bool) -> Result<f64, BenchError> {
        let start = Instant::now();
        push(&self.subject, input, message)?;
        let us = start.elapsed().as_secs_f64() * 1e6;
        if both {
            push(&self.oracle, input, message)?;
        }
        Ok(us)
    }
}

/// A configuration of the benchmark.
pub(crate) fn parse(text: &str) -> Result<Config, BenchError> {
    config::parse(text, "bench.yaml").map_err(|error| BenchError::Dropped {
        case: "configuration".into(),
        found: error.to_string(),
    })
}

/// Gives a message to a pipeline, which must take it.
pub(crate) fn push(pipeline: &Pipeline, input: usize, message: &[u8]) -> Result<(), BenchError> {
    let input = InputId::new(input);
    let taken = pipeline.push(input, message, Arrival::default());
    taken.map(|_| ()).map_err(|error| BenchError::Dropped {
        case: pipeline.config().input(input).name.clone(),
        found: error.to_string(),
    })
}

/// Checks that two outputs are the same.
pub(crate) fn compare(case: &str, found: &[u8], expected: &[u8]) -> Result<(), BenchError> {
    if found == expected {
        return Ok(());
    }
    let found = match found.iter().zip(expected).position(|(found, expected)| found != expected) {
        Some(byte) => format!("another byte {byte}"),
        None => format!("{} bytes in place of {}", found.len(), expected.len()),
    };
    Err(BenchError::Mismatch { case: case.into(), found })
}
