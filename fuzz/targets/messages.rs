//! Messages of every type, from their bytes to rows. The first byte chooses the stream of
//! `fuzz/streams.yaml`; the rest is the serialized message.
#![no_main]

use std::sync::{Arc, OnceLock};

use libfuzzer_sys::fuzz_target;
use robocache::backend::cpu::CpuBackend;
use robocache::config;
use robocache::layout::Layout;
use robocache::pipeline::{Arrival, Pipeline, PushError};

fn pipeline() -> &'static Pipeline {
    static PIPELINE: OnceLock<Pipeline> = OnceLock::new();
    PIPELINE.get_or_init(|| {
        let text = include_str!("../streams.yaml");
        let config = config::parse(text, "streams.yaml").unwrap_or_else(|error| panic!("{error}"));
        let layout = Layout::new(&config);
        let backend = CpuBackend::new(&config, &layout).expect("a backend");
        Pipeline::new(config, Arc::new(backend)).expect("a pipeline")
    })
}

fuzz_target!(|input: &[u8]| {
    let Some((choice, message)) = input.split_first() else { return };
    let inputs: Vec<_> = pipeline().config().input_ids().collect();
    let input = inputs[usize::from(*choice) % inputs.len()];
    if let Err(PushError::Backend(error)) = pipeline().push(input, message, Arrival::default()) {
        panic!("{error}");
    }
});
