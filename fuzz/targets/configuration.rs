//! The text of a configuration. What is accepted must also give a report.

use super::super::streams;
use super::text;
use robocache_core::config;
use robocache_core::config::describe::Report;
use robocache_core::schema::Prefixes;

pub(crate) fn run(input: &[u8]) {
    let text = text(input);
    match config::parse_with(text, "fuzz.yaml", &streams::Types) {
        Ok(config) => drop(Report::new(&config, &Prefixes::default()).to_string()),
        // A message must not be much longer than what it is about.
        Err(error) => assert!(error.to_string().len() < 100_000 + 100 * text.len()),
    }
}
