//! Messages of every type in a bag, as `robocache inspect` looks at them. What it suggests is a configuration. The
//! input is that of `fuzz/records.rs`; its topics are those of `fuzz/streams.yaml`.

use std::fs;
use std::sync::LazyLock;

use super::super::{records, streams};
use robocache_core::config;
use robocache_data::bag::Bag;
use robocache_data::replay::{BagDefinitions, Progress};
use robocache_ops::time::Stamp;
use robocache_tools::inspect::{Starter, inspect, report};

struct Always;

impl Progress for Always {
    fn at(&self, _now: Stamp) -> bool {
        true
    }
}

static TOPICS: LazyLock<Vec<records::Topic>> = LazyLock::new(streams::topics);

pub(crate) fn run(input: &[u8]) {
    let path = records::folder("inspect").join("x.mcap");
    records::bag(&path, &TOPICS, None, &records::read(input));
    let bag = Bag::open(&path).expect("a bag");
    let found = inspect(&bag, &Always).expect("the file is there");
    drop(found.to_string());
    let definitions = BagDefinitions::new(&bag).expect("definitions that agree");
    if let Ok(starter) = Starter::new(&found, &definitions) {
        let config = config::parse_with(&starter.text, "starter.yaml", &definitions);
        config.unwrap_or_else(|error| panic!("{error}\n{}", starter.text));
    }
    drop(report(&[found]).html());
    fs::remove_file(&path).expect("the file");
}
