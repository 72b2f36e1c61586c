//! Episodes of a node that works: each is replayed as the node made it, from its first tick on.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use super::node::{
    By, CAMERA, GREY, JOINTS, Node, WRENCH, config_text, drive, image, joints, verified, wrench,
};
use robocache_data::recording::{EpisodeRequest, Mark, MarkRequest, NotRecorded, RecordOptions};
use robocache_data::replay::batch::{EpisodeOutcome, run_all};
use robocache_data::replay::{Episode, EpisodesRequest, Format, ReplayRequest};
use robocache_data::store::read::Array;
use robocache_ops::time::{NANOS_PER_MS, Stamp};
use robocache_testing::patience;

fn by_episodes(options: &mut RecordOptions) {
    options.episodes = true;
    options.end = patience();
}

fn begin(node: &Node, name: &str, task: &str) -> PathBuf {
    let now = node.runtime.clock.now().unwrap();
    let at = Some((now.epoch, now.stamp));
    let asked = EpisodeRequest { name: name.to_owned(), task: task.to_owned(), at };
    node.recorder.begin(asked).unwrap()
}

fn mark(node: &Node, name: &str, value: &str) -> Result<PathBuf, NotRecorded> {
    let at = Some(node.now());
    node.recorder.mark(MarkRequest { name: name.to_owned(), value: value.to_owned(), at })
}

/// Checks that the node and the replay have the same tensors, as many as this.
fn is_equal(episode: &Path, ticks: u64) {
    let report = verified(episode);
    assert_eq!(report.different, []);
    assert_eq!((report.equal, report.unverifiable, report.missing), (ticks, 0, 0));
    assert_eq!((report.complete, report.problems), (true, Vec::<String>::new()));
}

fn found(bags: &Path) -> Vec<Episode> {
    let request = EpisodesRequest { bags: vec![bags.to_owned()], ..Default::default() };
    request.find(Path::new("")).unwrap()
}

/// Replays all episodes to a store of tensors. Returns the ticks of each, and the store.
fn replayed(bags: &Path, out: &Path, text: &str) -> (Vec<u64>, PathBuf) {
    std::fs::create_dir_all(out).unwrap();
    let config = out.join("robot.yaml");
    std::fs::write(&config, text).unwrap();
    let episodes = EpisodesRequest { bags: vec![bags.to_owned()], ..Default::default() };
    let out = out.to_owned();
    let request =
        ReplayRequest { episodes, config, out, format: Format::Zarr, ..Default::default() };
    let (episodes, options) = request.asked().unwrap();
    let results = run_all(&episodes, &options, &(), &AtomicBool::new(false)).unwrap();
    results.store.unwrap();
    let ticks = |outcome: &EpisodeOutcome| match outcome {
        EpisodeOutcome::Done(summary) => summary.ticks,
        other => panic!("{other:?}"),
    };
    (results.outcomes.iter().map(ticks).collect(), options.out.join("tensors.zarr"))
}

#[test]
fn the_first_tick_of_an_episode_is_that_of_the_node() {
    let folder = tempfile::tempdir().unwrap();
    let text = config_text(300.0, 300.0);
    let runs = folder.path().join("runs");
    let node = Node::start(&text, &runs, by_episodes, By::Test);
    // The rings are full before, and go on.
    drive(&node, 120, 8, 12);
    assert!(std::fs::read_dir(&runs).unwrap().next().is_none(), "nothing is written");
    let mut episodes = Vec::new();
    for name in ["", "pick_cup"] {
        episodes.push(begin(&node, name, "pick the cup"));
        drive(&node, 40, 8, 12);
        assert_eq!(node.recorder.end().unwrap(), *episodes.last().unwrap());
        drive(&node, 30, 8, 12);
    }
    assert_eq!(node.published(), 260);
    node.stop();
    episodes.iter().for_each(|episode| is_equal(episode, 40));
    assert_eq!(episodes[1], runs.join("pick_cup"));
    // A replay has the same ticks, and each value of the first one is valid.
    let (ticks, store) = replayed(&runs, &folder.path().join("out"), &text);
    assert_eq!(ticks, [40, 40]);
    let arrays = std::fs::read_dir(store.join("data")).unwrap().map(|entry| entry.unwrap().path());
    let is_valid = |path: &PathBuf| path.to_string_lossy().ends_with(".valid");
    let arrays: Vec<PathBuf> = arrays.filter(is_valid).collect();
    assert!(arrays.len() >= 4, "{arrays:?}");
    for array in arrays {
        let mut valid = Array::of(&array).unwrap();
        for row in [0, 40] {
            let row = valid.row(row).unwrap();
            assert!(!row.is_empty() && row.iter().all(|flag| *flag == 1), "{array:?}: {row:?}");
        }
    }
}

#[test]
fn an_episode_after_a_reset_of_a_simulator_is_that_of_the_node() {
    let folder = tempfile::tempdir().unwrap();
    let text = config_text(300.0, 300.0).replace("streams:", "timeline: receive\nstreams:");
    for (at, text) in [config_text(300.0, 300.0), text].into_iter().enumerate() {
        let runs = folder.path().join(at.to_string());
        let node = Node::start(&text, &runs, by_episodes, By::Simulator);
        let mut episodes = Vec::new();
        for epoch in 0..3 {
            node.set_clock(Stamp::from_nanos(5_005 * NANOS_PER_MS));
            for k in 0..300_u64 {
                node.go_on(5);
                let now = node.now();
                node.receive(WRENCH, wrench(now, (k + 1000 * epoch) as f64 / 100.0));
                node.receive(JOINTS, joints(now, &["a", "b", "g"], k as f64));
                if k % 16 == 0 {
                    node.receive(CAMERA, image(now, 48, k));
                    node.receive(GREY, image(now, 48, k));
                    node.settle();
                }
                match k {
                    150 => episodes.push(begin(&node, "", "")),
                    250 => drop(node.recorder.end().unwrap()),
                    _ => {}
                }
            }
        }
        node.stop();
        assert_eq!(episodes.len(), 3);
        episodes.iter().for_each(|episode| is_equal(episode, 50));
        let (ticks, _) = replayed(&runs, &folder.path().join(format!("out{at}")), &text);
        assert_eq!(ticks, [50, 50, 50]);
    }
}

#[test]
fn names_tasks_and_marks_reach_the_episodes_and_a_discarded_one_is_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let text = config_text(300.0, 300.0);
    let runs = folder.path().join("runs");
    let node = Node::start(&text, &runs, by_episodes, By::Test);
    drive(&node, 60, 8, 12);
    assert_eq!(node.recorder.end(), Err(NotRecorded::Idle));
    assert_eq!(mark(&node, "success", "true"), Err(NotRecorded::Idle));
    let bad = EpisodeRequest { name: "../up".to_owned(), ..Default::default() };
    assert!(matches!(node.recorder.begin(bad), Err(NotRecorded::Name(..))));
    let mut at = Stamp::ZERO;
    for name in ["a", "b", "a"] {
        let episode = begin(&node, name, "pick");
        let again = EpisodeRequest::default();
        assert_eq!(node.recorder.begin(again), Err(NotRecorded::Recording(episode.clone())));
        drive(&node, 20, 8, 12);
        at = node.now();
        assert_eq!(mark(&node, "intervention", "1"), Ok(episode));
        assert!(matches!(mark(&node, "a b", ""), Err(NotRecorded::Name(..))));
        if name == "b" {
            mark(&node, "discard", "true").unwrap();
        }
        node.recorder.end().unwrap();
    }
    node.stop();
    let episodes = found(&runs);
    let names: Vec<_> = episodes.iter().map(|episode| episode.name.as_str()).collect();
    assert_eq!(names, ["a", "a-2"]);
    assert!(episodes.iter().all(|episode| episode.task.as_deref() == Some("pick")));
    let expected =
        Mark { at_ns: Some(at.nanos()), name: "intervention".to_owned(), value: "1".to_owned() };
    assert_eq!(episodes[1].marks, [expected]);
    let (ticks, store) = replayed(&runs, &folder.path().join("out"), &text);
    assert_eq!(ticks, [20, 20]);
    let about = std::fs::read_to_string(store.join("zarr.json")).unwrap();
    assert!(about.contains("intervention") && about.contains(&at.nanos().to_string()));
}

#[test]
fn the_whole_run_has_no_episodes_and_takes_marks() {
    let folder = tempfile::tempdir().unwrap();
    let change = |options: &mut RecordOptions| options.end = patience();
    let node = Node::start(&config_text(300.0, 300.0), folder.path(), change, By::Test);
    drive(&node, 10, 8, 12);
    assert_eq!(node.recorder.begin(EpisodeRequest::default()), Err(NotRecorded::WholeRun));
    assert_eq!(node.recorder.end(), Err(NotRecorded::WholeRun));
    let recording = mark(&node, "success", "true").unwrap();
    node.stop();
    assert_eq!(Mark::read(&recording).unwrap().len(), 1);
    is_equal(&recording, 10);
}

#[test]
fn messages_that_had_no_room_before_an_episode_make_ticks_unverifiable_and_not_different() {
    let folder = tempfile::tempdir().unwrap();
    let change = |options: &mut RecordOptions| {
        by_episodes(options);
        // One image of the rings has room.
        options.lead_bytes = 1 << 20;
    };
    let node = Node::start(&config_text(300.0, 300.0), folder.path(), change, By::Test);
    drive(&node, 120, 8, 12);
    let episode = begin(&node, "", "");
    drive(&node, 40, 8, 12);
    node.recorder.end().unwrap();
    node.stop();
    let report = verified(&episode);
    assert_eq!(report.different, []);
    assert!(report.missing > 0 && report.unverifiable > 0, "{report:?}");
    assert_eq!((report.equal + report.unverifiable, report.complete), (40, true));
}
