//! Recordings that take less room: compressed, a ring of files, and without some streams.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::node::{By, CAMERA, Node, config_text, drive, page, send_image, vectors, verified};
use robocache_data::bag::Bag;
use robocache_data::recording::{ChunkCompression, Manifest, RecordLimits, RecordOptions};
use robocache_data::replay::batch::{EpisodeOutcome, run_all};
use robocache_data::replay::{EpisodesRequest, Format, Progress, ReplayRequest};
use robocache_ops::sync::lock;
use robocache_ops::time::{NANOS_PER_S, Stamp};
use robocache_runtime::Recorder;
use robocache_testing::patience;
use robocache_tools::inspect::inspect;

/// Nobody looks how far it is.
struct Quiet;

impl Progress for Quiet {
    fn at(&self, _: Stamp) -> bool {
        true
    }
}

/// The files of a recording with this ending, without their folder.
fn files(recording: &Path, ending: &str) -> Vec<String> {
    let entries = fs::read_dir(recording).unwrap().map(|entry| entry.unwrap().file_name());
    let names = entries.map(|name| name.into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.ends_with(ending)).collect();
    names.sort();
    names
}

fn size(recording: &Path) -> u64 {
    let size = |name: &String| fs::metadata(recording.join(name)).unwrap().len();
    files(recording, "").iter().map(size).sum()
}

/// How many ticks a replay of the recordings in a folder has.
fn replayed(runs: &Path, out: &Path, text: &str) -> u64 {
    fs::create_dir_all(out).unwrap();
    let config = out.join("robot.yaml");
    fs::write(&config, text).unwrap();
    let episodes = EpisodesRequest { bags: vec![runs.to_owned()], ..Default::default() };
    let out = out.to_owned();
    let format = Format::Zarr;
    let request = ReplayRequest { episodes, config, out, format, ..Default::default() };
    let (episodes, options) = request.asked().unwrap();
    let results = run_all(&episodes, &options, &(), &AtomicBool::new(false)).unwrap();
    match &results.outcomes[..] {
        [EpisodeOutcome::Done(summary)] => summary.ticks,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_compressed_recording_is_smaller_and_equal() {
    let folder = tempfile::tempdir().unwrap();
    let record = |compression| {
        let change = |options: &mut RecordOptions| {
            options.compression = compression;
            options.split_bytes = 12 << 20;
            options.end = patience();
        };
        let node = Node::start(&config_text(300.0, 300.0), folder.path(), change, By::Test);
        drive(&node, 100, 8, 12);
        node.await_disk();
        let recording = node.stop();
        let report = verified(&recording);
        assert_eq!((report.different, report.problems), (vec![], vec![]));
        assert_eq!((report.equal, report.complete), (100, true));
        recording
    };
    let [none, zstd] = [ChunkCompression::None, ChunkCompression::Zstd].map(record);
    assert!(files(&zstd, ".mcap").len() > 1);
    assert!(size(&zstd) * 3 < size(&none) * 2, "{} of {}", size(&zstd), size(&none));
}

/// Records 4 s with these limits. Returns the recording, and a copy from before its end.
fn ring(folder: &Path, limits: RecordLimits, by: By) -> (PathBuf, PathBuf) {
    let change = |options: &mut RecordOptions| {
        options.limits = limits;
        options.end = patience();
    };
    let node = Node::start(&config_text(300.0, 300.0), &folder.join("runs"), change, by);
    drive(&node, 300, 8, 12);
    node.await_disk();
    let recording = node.recorder.folder();
    // A node that is killed leaves the files as they are.
    let killed = folder.join("killed").join(recording.file_name().unwrap());
    fs::create_dir_all(&killed).unwrap();
    for name in files(&recording, "") {
        fs::copy(recording.join(&name), killed.join(&name)).unwrap();
    }
    assert_eq!(files(&killed, ".yaml"), Vec::<String>::new());
    drive(&node, 100, 8, 12);
    node.await_disk();
    let status = node.recorder.status();
    assert!(status.deleted > 100 && status.failed.is_none(), "{status:?}");
    (node.stop(), killed)
}

/// Checks what is left of a recording. Returns how many of its ticks are equal.
fn is_equal_from_its_begin_on(recording: &Path, is_complete: bool) -> u64 {
    let report = verified(recording);
    assert!(report.is_cut);
    assert_eq!(report.different, []);
    assert_eq!((report.unverifiable, report.missing, report.damaged), (0, 0, 0));
    assert_eq!(report.complete, is_complete);
    // The last file of a node that was killed has no end.
    assert_eq!(report.problems.len(), usize::from(!is_complete), "{:?}", report.problems);
    let told = |notes: &[String]| notes.iter().any(|note| note.contains("files were deleted"));
    let bag = Bag::open(recording).unwrap();
    assert!(told(&inspect(&bag, &Quiet).unwrap().notes));
    report.equal
}

#[test]
fn a_ring_of_files_keeps_its_limit_and_begins_as_an_episode_does() {
    for by in [By::Test, By::Simulator] {
        let folder = tempfile::tempdir().unwrap();
        let most = 80 << 20;
        let limits = RecordLimits { bytes: Some(most), age: None };
        let (recording, killed) = ring(folder.path(), limits, by);
        let names = files(&recording, ".mcap");
        assert!(size(&recording) <= most && size(&recording) > most / 4, "{}", size(&recording));
        assert_eq!(files(&recording, ".lead"), Vec::<String>::new());
        let first = format!("{}_0.mcap", recording.file_name().unwrap().to_str().unwrap());
        assert!(names.len() >= 3 && !names.contains(&first), "{names:?}");
        let metadata = fs::read_to_string(recording.join("metadata.yaml")).unwrap();
        assert!(names.iter().all(|name| metadata.contains(name.as_str())));
        assert_eq!(metadata.matches(".mcap").count(), 2 * names.len());
        let equal = is_equal_from_its_begin_on(&recording, true);
        assert!((30..400).contains(&equal), "{equal}");
        // All values of the first tick are valid, as the rings were full. A reader of other bags has each message once.
        let ticks = replayed(
            &folder.path().join("runs"),
            &folder.path().join("out"),
            &config_text(300.0, 300.0),
        );
        assert!(ticks.abs_diff(equal) <= 1, "{ticks} of {equal}");
        assert!(is_equal_from_its_begin_on(&killed, false) > 20);
    }
}

#[test]
fn a_limit_of_age_keeps_the_messages_of_this_time() {
    let folder = tempfile::tempdir().unwrap();
    let limits = RecordLimits { bytes: None, age: Some(Duration::from_secs(2)) };
    let (recording, _) = ring(folder.path(), limits, By::Test);
    let equal = is_equal_from_its_begin_on(&recording, true);
    // A file has a quarter of a second: the oldest one may have as much more, and the newest one.
    assert!((200..=255).contains(&equal), "{equal}");
    let begins = Manifest::read(&recording).unwrap().begins.unwrap();
    let (_, last) = Bag::open(&recording).unwrap().span().unwrap();
    assert!((2.0..2.6).contains(&(last.since(begins) as f64 / NANOS_PER_S as f64)));
}

#[test]
fn files_that_a_user_deletes_do_not_end_a_ring() {
    let folder = tempfile::tempdir().unwrap();
    let change = |options: &mut RecordOptions| {
        options.limits = RecordLimits { bytes: Some(80 << 20), age: None };
        options.end = patience();
    };
    let node = Node::start(&config_text(300.0, 300.0), folder.path(), change, By::Test);
    drive(&node, 150, 8, 12);
    node.await_disk();
    let recording = node.recorder.folder();
    let number = |name: &str| -> usize {
        let (_, number) = name.strip_suffix(".mcap").unwrap().rsplit_once('_').unwrap();
        number.parse().unwrap()
    };
    let mut ended = files(&recording, ".mcap");
    ended.sort_by_key(|name| number(name));
    ended.pop();
    assert!(ended.len() > 1, "{ended:?}");
    for name in ended.iter().chain(&files(&recording, ".lead")) {
        fs::remove_file(recording.join(name)).unwrap();
    }
    drive(&node, 450, 8, 12);
    node.await_disk();
    let status = node.recorder.status();
    assert!(status.deleted > 100 && status.failed.is_none(), "{status:?}");
    is_equal_from_its_begin_on(&node.stop(), true);
}

/// Keeps these streams alone.
fn streams(names: &[&str]) -> impl Fn(&mut RecordOptions) + use<> {
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    move |options: &mut RecordOptions| {
        options.manifest.streams = Some(names.clone());
        options.end = patience();
    }
}

#[test]
fn without_some_streams_the_others_are_compared() {
    let folder = tempfile::tempdir().unwrap();
    let text = config_text(300.0, 300.0);
    let node = Node::start(&text, folder.path(), streams(&["wrench", "joints"]), By::Test);
    drive(&node, 100, 8, 12);
    let recording = node.stop();
    let report = verified(&recording);
    assert_eq!((report.different, report.problems), (vec![], vec![]));
    assert_eq!(report.missing_streams, ["camera", "grey"]);
    assert_eq!((report.equal, report.unverifiable, report.complete), (100, 0, true));
    let bag = Bag::open(&recording).unwrap();
    let topics: Vec<&str> = bag.topics.iter().map(|topic| topic.name.as_str()).collect();
    assert_eq!(topics, ["/fusion_node/recording", "/joints", "/wrench"]);
    let notes = inspect(&bag, &Quiet).unwrap().notes;
    assert!(notes.iter().any(|note| note.contains("these streams alone: wrench, joints")));
    assert_eq!(Manifest::read(&recording).unwrap().streams.unwrap(), ["wrench", "joints"]);
    page(&recording, "streams");
}

#[test]
fn a_stream_that_is_recorded_is_compared_and_another_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    // The camera's rows are late, the others are not.
    let record = |names: &[&str]| {
        let text = config_text(300.0, 20.0);
        let node = Node::start(&text, &folder.path().join(names[0]), streams(names), By::Test);
        drive(&node, 60, 8, 12);
        let held = lock(&node.gate.open);
        send_image(&node, node.now().offset(-NANOS_PER_S / 100), 1);
        vectors(&node, 100, 8, |_| {});
        drop(held);
        node.settle_of(CAMERA);
        drive(&node, 40, 8, 12);
        verified(&node.stop())
    };
    let without = record(&["wrench", "grey"]);
    assert_eq!((without.different, without.equal), (vec![], 110));
    let with = record(&["camera"]);
    assert!(with.differing > 0 && with.equal > 60, "{with:?}");
    assert!(with.different.iter().all(|tick| tick.late.iter().all(|late| late.stream == "camera")));
}
