//! The text of a configuration. What is accepted must also give a report.
#![no_main]

// The other target takes the rest of it.
#[allow(dead_code)]
#[path = "../streams.rs"]
mod streams;

use libfuzzer_sys::fuzz_target;
use robocache_core::config;
use robocache_core::config::describe::Report;
use robocache_core::schema::Prefixes;

fuzz_target!(|text: &str| {
    match config::parse_with(text, "fuzz.yaml", &streams::Types) {
        Ok(config) => drop(Report::new(&config, &Prefixes::default()).to_string()),
        // A message must not be much longer than what it is about.
        Err(error) => assert!(error.to_string().len() < 100_000 + 100 * text.len()),
    }
});
