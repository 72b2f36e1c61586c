//! Files of a checkpoint, and a contract, as seeds.

use robocache_core::config;
use robocache_core::contract::Contract;
use serde_json::json;

use super::streams::Types;

/// A byte for the file, and its content.
pub(crate) fn files() -> Vec<Vec<u8>> {
    let text = include_str!("streams.yaml");
    let config = config::parse_with(text, "streams.yaml", &Types).expect("a configuration");
    vec![
        [&[0][..], include_bytes!("checkpoint/config.json")].concat(),
        [&[1][..], include_bytes!("checkpoint/policy_preprocessor.json")].concat(),
        [&[2][..], &statistics()].concat(),
        [&[3][..], Contract::of(&config).to_string().as_bytes()].concat(),
    ]
}

/// Numbers of both types, as safetensors.
fn statistics() -> Vec<u8> {
    let header = json!({
        "observation.state.q01": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]},
        "observation.state.q99": {"dtype": "F64", "shape": [4], "data_offsets": [16, 48]},
        "observation.images.camera.mean": {"dtype": "F32", "shape": [3], "data_offsets": [0, 12]},
        "observation.images.camera.std": {"dtype": "F32", "shape": [3], "data_offsets": [4, 16]},
    });
    let header = header.to_string();
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &[1; 48]].concat()
}
