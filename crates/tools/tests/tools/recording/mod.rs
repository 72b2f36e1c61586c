//! A runtime with all its threads records itself, and the recording is verified.

mod commands;
mod cost;
mod cut;
mod disk;
mod episodes;
mod lag;
mod node;
mod script;
mod waited;

use std::fs::OpenOptions;
use std::sync::atomic::Ordering;
use std::time::Duration;

use node::{
    By, CAMERA, GREY, Node, config_text, drive, drive_live, image, page, send_image, simulate,
    vectors, verified,
};
use robocache_core::backend::Choice;
use robocache_data::recording::RecordOptions;
use robocache_ops::sync::lock;
use robocache_ops::time::{NANOS_PER_MS, Stamp};
use robocache_testing::until;
use robocache_tools::verify::{VerifyReport, verify};

#[test]
fn with_enough_lag_every_tick_is_equal() {
    let folder = tempfile::tempdir().unwrap();
    let text = config_text(600.0, 600.0);
    // Files of a megabyte: some ten of them.
    let split = |options: &mut RecordOptions| {
        options.split_bytes = 1 << 20;
    };
    let node = Node::start(&text, folder.path(), split, By::Test);
    drive(&node, 200, 8, 12);
    assert_eq!(node.published(), 200);
    let recording = node.stop();
    let report = verified(&recording);
    assert_eq!(report.different, []);
    assert_eq!((report.equal, report.unverifiable, report.missing), (200, 0, 0));
    assert_eq!((report.overruns, report.unsent, report.complete), (0, 0, true));
    assert_eq!(report.problems, Vec::<String>::new());
    let files = std::fs::read_dir(&recording).unwrap().count();
    assert!(files > 10, "{files} files");
    let html = page(&recording, "complete");
    assert!(html.contains("The recording is complete."));
    assert!(html.contains("<th scope=row>a tensor</th><td class=n>200</td>"));
}

/// The only one by the system's clock. If the machine pauses, rows are late. Then the report says which.
#[test]
fn a_live_node_is_verified() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(&config_text(600.0, 600.0), folder.path(), |_| {}, By::System);
    drive_live(&node, Duration::from_secs(1));
    until("a tick", || node.published() > 0);
    let published = node.published();
    let report = verified(&node.stop());
    assert_eq!((report.unexplained, report.unverifiable, report.missing), (0, 0, 0));
    assert!(report.complete && report.missing_events == 0);
    // A tick may be published while the node ends.
    assert!(report.equal + report.differing >= published, "{published}");
    assert_eq!(report.problems, Vec::<String>::new());
}

/// Runs a node whose images arrive 12 ms after their stamps, and are rows three ticks later.
fn with_slow_images(lag_ms: f64) -> VerifyReport {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(&config_text(600.0, lag_ms), folder.path(), |_| {}, By::Test);
    for k in 0..20 {
        // At a tick.
        vectors(&node, 5, 8, |_| ());
        let closed = lock(&node.gate.open);
        send_image(&node, node.now().offset(-12 * NANOS_PER_MS), k);
        // Before the next tick, which is to see it.
        node.settle_of(GREY);
        vectors(&node, 30, 8, |_| ());
        drop(closed);
        node.settle();
        vectors(&node, 5, 8, |_| ());
    }
    assert_eq!(node.published(), 80);
    verified(&node.stop())
}

#[test]
fn a_lag_that_is_too_short_is_named_with_the_stream_and_the_lag_that_would_do() {
    let report = with_slow_images(20.0);
    assert_eq!((report.differing, report.equal, report.unexplained), (60, 20, 0));
    for tick in &report.different {
        assert!(tick.late.iter().chain(&tick.early).all(|row| row.stream == "camera"), "{tick:?}");
    }
    let lag_ns = |name: &str| {
        report.streams.iter().find(|s| s.stream == name).unwrap().lag_that_does_ns.unwrap()
    };
    let does_ms = (lag_ns("camera") as f64 / 1e5).ceil() / 10.0;
    assert!((42.0..=42.1).contains(&does_ms), "{does_ms}");
    assert!(lag_ns("wrench") <= 20 * NANOS_PER_MS, "{}", lag_ns("wrench"));
    let report = with_slow_images(does_ms);
    assert_eq!((report.differing, report.equal), (0, 80));
}

#[test]
fn what_the_node_dropped_for_its_encoders_is_dropped_in_the_replay() {
    const BURSTS: u64 = 30;
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(&config_text(600.0, 600.0), folder.path(), |_| {}, By::Test);
    let mut bytes = image(Stamp::ZERO, 480, 3);
    for burst in 0..BURSTS {
        node.go_on(50);
        let closed = lock(&node.gate.open);
        // An encoder has the first one, and four wait for it. Three are too many.
        for k in 0..8_u8 {
            let (sec, nanosec) = node.now().offset(-i64::from(k)).to_sec_nanosec();
            bytes[4..8].copy_from_slice(&sec.to_le_bytes());
            bytes[8..12].copy_from_slice(&nanosec.to_le_bytes());
            // So that each image looks different.
            bytes[100_000] = 8 * burst as u8 + k;
            let begun = node.gate.begun.load(Ordering::Acquire);
            node.receive(CAMERA, bytes.clone());
            if k == 0 {
                until("an encoder", || node.gate.begun.load(Ordering::Acquire) > begun);
            }
        }
        drop(closed);
        node.settle();
    }
    // For the ticks that see the last of them.
    node.go_on(700);
    let published = node.published();
    let report = verified(&node.stop());
    assert_eq!((report.different, report.unverifiable), (vec![], 0));
    assert_eq!((report.overloads, report.equal), (3 * BURSTS, published));
}

#[test]
fn an_end_that_is_cut_off_is_read_up_to_there() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(&config_text(600.0, 600.0), folder.path(), |_| {}, By::Test);
    drive(&node, 300, 8, 12);
    let recording = node.stop();
    let whole = verified(&recording).equal;
    assert_eq!(whole, 300);
    std::fs::remove_file(recording.join("metadata.yaml")).unwrap();
    let name = format!("{}_0.mcap", recording.file_name().unwrap().to_str().unwrap());
    let file = OpenOptions::new().write(true).open(recording.join(name)).unwrap();
    let size = file.metadata().unwrap().len();
    file.set_len(size * 2 / 3 + 1).unwrap();
    let report = verified(&recording);
    assert_eq!(report.different, []);
    assert!(!report.complete && report.equal < whole && report.equal > whole / 3, "{whole}");
}

#[test]
fn a_recording_with_a_file_that_cannot_be_read_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(&config_text(600.0, 600.0), folder.path(), |_| {}, By::Test);
    drive(&node, 30, 8, 12);
    let recording = node.stop();
    assert_eq!(verified(&recording).equal, 30);
    let name = recording.file_name().unwrap().to_str().unwrap();
    let metadata = recording.join("metadata.yaml");
    let text = std::fs::read_to_string(&metadata).unwrap();
    let listed = format!("    - \"{name}_0.mcap\"\n");
    assert!(text.contains(&listed), "{text}");
    let more = format!("{listed}    - \"{name}_1.mcap\"\n");
    std::fs::write(&metadata, text.replace(&listed, &more)).unwrap();
    // The system opens this file, but cannot read its first byte: as on a disk that fails.
    std::os::unix::fs::symlink("/proc/self/mem", recording.join(format!("{name}_1.mcap"))).unwrap();
    let error = verify(&recording, Choice::Cpu, 0).unwrap_err().to_string();
    assert!(error.contains("_1.mcap: Input/output error"), "{error}");
}

#[test]
fn a_simulator_that_starts_again_is_verified_in_both_epochs() {
    let folder = tempfile::tempdir().unwrap();
    let text = config_text(600.0, 600.0).replace("streams:", "timeline: receive\nstreams:");
    for text in [config_text(600.0, 600.0), text] {
        let node = Node::start(&text, folder.path(), |_| {}, By::Simulator);
        (0..2).for_each(|epoch| simulate(&node, epoch, 400, |_| ()));
        assert_eq!(node.published(), 400);
        let report = verified(&node.stop());
        assert_eq!(report.different, []);
        assert_eq!((report.equal, report.unverifiable), (400, 0));
    }
}

#[test]
fn a_damaged_recording_is_read_as_far_as_it_goes() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(&config_text(600.0, 600.0), folder.path(), |_| {}, By::Test);
    drive(&node, 70, 8, 12);
    let recording = node.stop();
    let name = format!("{}_0.mcap", recording.file_name().unwrap().to_str().unwrap());
    let whole = std::fs::read(recording.join(&name)).unwrap();
    let all = verified(&recording);
    let mut read = 0;
    let mut damaged = 0;
    for k in 1..16_usize {
        let mut bytes = whole.clone();
        let at = k.wrapping_mul(2_654_435_761) % bytes.len();
        bytes[at..(at + 3).min(whole.len())].fill(0xa5);
        std::fs::write(recording.join(&name), &bytes).unwrap();
        // It ends, and says what is wrong, or that nothing can be compared.
        if let Ok(report) = verify(&recording, Choice::Cpu, 0) {
            read += 1;
            assert_eq!(report.different, [], "byte {at}");
            if report.problems.is_empty() && report.damaged == 0 && report.complete {
                // The damage is in an index that is not needed: nothing is lost.
                assert_eq!((report.messages, report.equal), (all.messages, all.equal), "byte {at}");
            } else {
                damaged += 1;
            }
        }
    }
    assert!(read > 5 && damaged > 3, "{read} {damaged}");
}

#[test]
fn another_bag_and_one_without_digests_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let error = verify(folder.path(), Choice::Cpu, 0).unwrap_err().to_string();
    assert!(error.ends_with("(its parameter record_to), found no .mcap file"), "{error}");
    let text = config_text(600.0, 600.0);
    let undigested = |options: &mut RecordOptions| {
        options.manifest.digest = false;
    };
    let node = Node::start(&text, folder.path(), undigested, By::Test);
    let error = verify(&node.stop(), Choice::Cpu, 0).unwrap_err().to_string();
    assert!(error.ends_with("the node ran with `digest: false`"), "{error}");
}
