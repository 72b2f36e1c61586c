//! A node that is killed leaves a file that ends anywhere. It is read up to the last second.

use std::fs;
use std::time::Duration;

use super::node::{By, Node, config_text, drive, verified};
use robocache_data::bag::Bag;
use robocache_data::recording::{EpisodeRequest, RecordOptions};
use robocache_ops::time::{NANOS_PER_S, Stamp};
use robocache_testing::{patience, until};

/// Places at which the file is cut.
const CUTS: u64 = 100;

/// The time of the log of the last message of a bag, and whether the bag says that it has no end.
fn last(recording: &std::path::Path) -> (Option<Stamp>, bool) {
    let bag = Bag::open(recording).unwrap();
    let mut messages = bag.messages(&vec![true; bag.topics.len()]).unwrap();
    let last = messages.by_ref().map(|recorded| recorded.received).max();
    let told = bag.problems.iter().chain(&messages.problems.first).next().is_some();
    (last, told)
}

#[test]
fn a_file_that_is_cut_at_any_place_is_read_up_to_the_last_second() {
    let folder = tempfile::tempdir().unwrap();
    let by_episodes = |options: &mut RecordOptions| {
        options.episodes = true;
        options.end = patience();
    };
    let node = Node::start(&config_text(300.0, 300.0), folder.path(), by_episodes, By::Test);
    drive(&node, 60, 8, 12);
    let now = node.runtime.clock.now().unwrap();
    let at = Some((now.epoch, now.stamp));
    let episode = node.recorder.begin(EpisodeRequest { at, ..Default::default() }).unwrap();
    let file = fs::read_dir(&episode).unwrap().next().unwrap().unwrap().path();
    let size = || fs::metadata(&file).unwrap().len();
    // After each 100 ms: how large the file was at least by then, once its writer had a quarter of a second.
    let mut sizes: Vec<(Stamp, u64)> = Vec::new();
    for _ in 0..40 {
        let before = size();
        let at = node.now();
        drive(&node, 10, 8, 12);
        node.time.advance(Duration::from_millis(300));
        until("the file grows", || size() > before);
        sizes.push((at, size()));
    }
    let file_name = file.file_name().unwrap().to_owned();
    let whole = fs::read(&file).unwrap();
    let (all, _) = last(&episode);
    let cut = tempfile::tempdir().unwrap();
    let copy = cut.path().join(&file_name);
    let mut newest = Stamp::MIN;
    for k in 1..=CUTS {
        let end = whole.len() as u64 * k / CUTS;
        fs::write(&copy, &whole[..end as usize]).unwrap();
        // The header may be cut, too: then there is nothing to read.
        let killed_at = sizes.iter().rev().find(|(_, size)| *size <= end).map(|(at, _)| *at);
        let Some(killed_at) = killed_at else { continue };
        let (read, told) = last(&copy);
        let read = read.unwrap();
        assert!(told, "cut at {end}: it does not say so");
        assert!(killed_at.since(read) <= NANOS_PER_S, "cut at {end}: {read} of {killed_at}");
        assert!(read >= newest && Some(read) <= all, "cut at {end}");
        newest = read;
        let report = verified(&copy);
        assert_eq!((report.different, report.complete), (vec![], false), "cut at {end}");
    }
    assert!(newest > Stamp::MIN);
    node.stop();
}
