//! Episodes of a node that works: each is replayed as the node made it, from its first tick on.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use super::node::{By, Node, config_text, drive, simulate, verified};
use robocache_data::bag::Bag;
use robocache_data::episodes::{Episodes, Reading};
use robocache_data::recording::{
    Ending, EpisodeRequest, Mark, MarkRequest, NotRecorded, RecordOptions, has_end,
};
use robocache_data::replay::batch::{EpisodeOutcome, run_all};
use robocache_data::replay::{Episode, EpisodesRequest, Format, Progress, ReplayRequest};
use robocache_data::store::read::{self, Array};
use robocache_ops::time::Stamp;
use robocache_testing::patience;
use robocache_tools::inspect::{Inspection, inspect};

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

/// A replay of these bags to `out`, with the configuration of this text.
fn request(bags: &Path, out: &Path, text: &str, format: Format) -> ReplayRequest {
    std::fs::create_dir_all(out).unwrap();
    let config = out.join("robot.yaml");
    std::fs::write(&config, text).unwrap();
    let episodes = EpisodesRequest { bags: vec![bags.to_owned()], ..Default::default() };
    ReplayRequest { episodes, config, out: out.to_owned(), format, ..Default::default() }
}

fn outcomes(request: &ReplayRequest) -> Vec<EpisodeOutcome> {
    let (episodes, options) = request.asked().unwrap();
    let results = run_all(&episodes, &options, &(), &AtomicBool::new(false)).unwrap();
    results.store.unwrap();
    results.outcomes
}

/// Replays all episodes to a store of tensors. Returns the ticks of each, and the store.
fn replayed(bags: &Path, out: &Path, text: &str) -> (Vec<u64>, PathBuf) {
    let ticks = |outcome: EpisodeOutcome| match outcome {
        EpisodeOutcome::Done(summary) => summary.ticks,
        other => panic!("{other:?}"),
    };
    let outcomes = outcomes(&request(bags, out, text, Format::Zarr));
    (outcomes.into_iter().map(ticks).collect(), out.join("tensors.zarr"))
}

/// Records two episodes, `a` and `b`, each of 40 ticks with a task and a mark.
fn two_episodes(runs: &Path, text: &str) {
    let node = Node::start(text, runs, by_episodes, By::Test);
    drive(&node, 120, 8, 12);
    for name in ["a", "b"] {
        begin(&node, name, "pick");
        drive(&node, 20, 8, 12);
        mark(&node, "success", name).unwrap();
        drive(&node, 20, 8, 12);
        node.recorder.end().unwrap();
        drive(&node, 20, 8, 12);
    }
    node.stop();
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
            simulate(&node, epoch, 300, |k| match k {
                150 => episodes.push(begin(&node, "", "")),
                250 => drop(node.recorder.end().unwrap()),
                _ => {}
            });
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

#[test]
fn rows_of_episodes_have_tasks_and_marks_and_no_window_is_from_before_the_begin() {
    let folder = tempfile::tempdir().unwrap();
    let runs = folder.path().join("runs");
    let out = folder.path().join("out");
    let text = config_text(300.0, 300.0);
    two_episodes(&runs, &text);
    let episodes = found(&runs);
    assert_eq!(outcomes(&request(&runs, &out, &text, Format::Rows)).len(), 2);
    let reading = Reading { threads: 1, ..Reading::default() };
    let rows = Episodes::of_store(&out.join("rows.zarr"), reading).unwrap();
    for (about, name) in rows.episodes.iter().zip(["a", "b"]) {
        assert_eq!((about.name.as_str(), about.task.as_deref()), (name, Some("pick")));
        assert_eq!(about.marks.len(), 1);
        assert_eq!(
            (about.marks[0].name.as_str(), about.marks[0].value.as_str()),
            ("success", name)
        );
    }
    let begins: Vec<i64> = episodes.iter().map(|episode| episode.begins.unwrap().nanos()).collect();
    for stream in ["wrench", "joints", "camera", "grey"] {
        // Rows from before fill the rings: so windows begin with the episode.
        let from: Vec<i64> = rows.reach(stream).unwrap().iter().map(|reach| reach.0).collect();
        assert_eq!(from, begins, "{stream}");
    }
}

#[test]
fn episodes_that_are_replayed_one_by_one_are_joined_by_the_replay_of_all() {
    let folder = tempfile::tempdir().unwrap();
    let runs = folder.path().join("runs");
    let text = config_text(300.0, 300.0);
    two_episodes(&runs, &text);
    for format in [Format::Zarr, Format::Rows] {
        let out = folder.path().join(format.to_string());
        let all = request(&runs, &out, &text, format);
        for round in 0..2 {
            for name in ["a", "b"] {
                let mut one = request(&runs.join(name), &out, &text, format);
                one.parts_only = true;
                let outcomes = outcomes(&one);
                // The second time there is a store, which has the episode.
                let is_kept = matches!(outcomes.as_slice(), [EpisodeOutcome::Kept(_)]);
                assert_eq!((outcomes.len(), is_kept), (1, round == 1), "{outcomes:?}");
            }
            // A report beside the files of a recording is no message of it.
            std::fs::write(runs.join("a/report.html"), round.to_string()).unwrap();
            let outcomes = outcomes(&all);
            assert!(
                outcomes.iter().all(|of| matches!(of, EpisodeOutcome::Kept(_))),
                "{outcomes:?}"
            );
        }
        let store = out.join(format.store().unwrap());
        let kind = if format == Format::Rows { "rows" } else { "tensors" };
        let about = read::about(&store, kind).unwrap();
        assert_eq!(about["episodes"].as_array().unwrap().len(), 2);
    }
}

struct ToItsEnd;

impl Progress for ToItsEnd {
    fn at(&self, _now: Stamp) -> bool {
        true
    }
}

#[test]
fn a_folder_says_whether_its_episode_has_ended() {
    let folder = tempfile::tempdir().unwrap();
    let runs = folder.path().join("runs");
    let node = Node::start(&config_text(300.0, 300.0), &runs, by_episodes, By::Test);
    drive(&node, 60, 8, 12);
    let episode = begin(&node, "a", "pick");
    drive(&node, 20, 8, 12);
    mark(&node, "success", "true").unwrap();
    node.time.advance(std::time::Duration::from_millis(300));
    robocache_testing::until("the recording", || Ending::of(&episode) == Ending::Running);
    // It would be taken for a short one.
    let asked = EpisodesRequest { bags: vec![runs.clone()], ..Default::default() };
    let error = asked.find(Path::new("")).unwrap_err().to_string();
    assert!(error.contains("or are still being recorded"), "{error}");
    node.recorder.end().unwrap();
    node.stop();
    assert_eq!(Ending::of(&episode), Ending::Complete);
    assert_eq!(has_end(&episode).unwrap(), Some(true));
    let told = |bag: &Path| inspect(&Bag::open(bag).unwrap(), &ToItsEnd).unwrap();
    let says_so = |found: &Inspection| {
        found.notes.iter().any(|note| note.contains("was not ended: the node"))
    };
    let whole = told(&episode);
    assert_eq!((whole.ended, says_so(&whole)), (Some(true), false));
    // As after kill -9: no process holds the folder, and neither the file nor the folder has an end.
    let file = std::fs::read(episode.join("a_0.mcap")).unwrap();
    std::fs::write(episode.join("a_0.mcap"), &file[..file.len() * 2 / 3]).unwrap();
    std::fs::remove_file(episode.join("metadata.yaml")).unwrap();
    assert_eq!(Ending::of(&episode), Ending::Killed);
    let killed = told(&episode);
    assert_eq!((killed.ended, says_so(&killed)), (Some(false), true));
    let known = &found(&runs)[0];
    assert_eq!((known.name.as_str(), known.task.as_deref()), ("a", Some("pick")));
    assert_eq!((&known.bag, known.marks.len()), (&episode.canonicalize().unwrap(), 1));
    // A file without its head may be of any recorder.
    std::fs::write(episode.join("a_0.mcap"), &file[..20]).unwrap();
    assert_eq!(Ending::of(&episode), Ending::Unknown);
}
