//! Files of bags: MCAP and sqlite3, plain or in zstd.

use std::fs;

use robocache_data::bag::Bag;
use robocache_data::replay::BagDefinitions;

use super::super::records;

/// By the first byte.
const NAMES: [&str; 3] = ["x.mcap", "x.db3", "x.mcap.zstd"];
/// A small file may have any number of rows.
const MOST_MESSAGES: usize = 10_000;

pub(crate) fn run(input: &[u8]) {
    let Some((choice, bytes)) = input.split_first() else { return };
    let path = records::folder("bags").join(NAMES[usize::from(*choice) % NAMES.len()]);
    fs::write(&path, bytes).expect("a file");
    if let Ok(bag) = Bag::open(&path) {
        let _ = BagDefinitions::new(&bag);
        let mut messages = bag.messages(&vec![true; bag.topics.len()]).expect("the file is there");
        let mut ordered = true;
        let mut last = None;
        for message in messages.by_ref().take(MOST_MESSAGES) {
            ordered &= last.is_none_or(|last| last <= message.received);
            last = Some(message.received);
        }
        // Only a chunk whose messages are not of the time that it names may break the order.
        let told = messages.problems.first.len() + bag.problems.len() > 0;
        assert!(ordered || told, "messages out of order, and nothing is told");
    }
    fs::remove_file(&path).expect("the file");
}
