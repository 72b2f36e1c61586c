//! Contracts: which keys of a configuration bear on what a policy takes.

mod keys;
mod report;

use std::path::Path;

use robocache_core::config;
use robocache_core::contract::Contract;
use robocache_core::schema::Prefixes;
use robocache_core::spec::Config;

/// A configuration, with the definitions of the tests.
fn parsed(text: &str) -> Config {
    let definitions = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/definitions");
    let parsed = config::parse_with(text, "test.yaml", &Prefixes::new(vec![definitions]));
    parsed.unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn contract(text: &str) -> Contract {
    Contract::of(&parsed(text))
}
