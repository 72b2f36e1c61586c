//! The text of a configuration. What is accepted must also give a report.
#![no_main]

use libfuzzer_sys::fuzz_target;
use robocache::check::Report;
use robocache::config;

fuzz_target!(|text: &str| {
    match config::parse(text, "fuzz.yaml") {
        Ok(config) => drop(Report::new(&config).to_string()),
        // A message must not be much longer than what it is about.
        Err(error) => assert!(error.to_string().len() < 100_000 + 100 * text.len()),
    }
});
