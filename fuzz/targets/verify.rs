//! Recordings of a node: foreign messages and events, as `robocache verify` and `robocache view` read them. The
//! input is that of `fuzz/records.rs`; the first byte says whether a simulator had the clock.

use std::fs;

use super::super::{recording, records};
use robocache_core::backend::Choice;
use robocache_tools::verify::verify;
use robocache_tools::view::{ViewOptions, page};

pub(crate) fn run(input: &[u8]) {
    let Some((simulated, input)) = input.split_first() else { return };
    let path = records::folder("verify").join("x.mcap");
    let about = recording::about(simulated % 2 == 1);
    records::bag(&path, &recording::topics(), Some(&about), &records::read(input));
    let report = verify(&path, Choice::Cpu, 0).unwrap_or_else(|error| panic!("{error}"));
    drop(serde_json::to_string(&report).expect("JSON"));
    if let Ok(page) = page(&path, &ViewOptions::default()) {
        drop(page.html());
    }
    fs::remove_file(&path).expect("the file");
}
