//! A runtime with all its threads records itself, and the recording is verified.

mod disk;
mod lag;
mod node;
mod script;
mod waited;

use std::fs::OpenOptions;
use std::time::Duration;

use node::{
    CAMERA, JOINTS, Node, WRENCH, config_text, drive, image, joints, page, verified, wrench,
};
use robocache_core::backend::Choice;
use robocache_ops::time::{NANOS_PER_MS, Stamp};
use robocache_runtime::Transit;
use robocache_tools::verify::verify;

const LENGTH: Duration = Duration::from_secs(3);

#[test]
fn with_enough_lag_every_tick_is_equal() {
    let folder = tempfile::tempdir().unwrap();
    let text = config_text(600.0, 600.0);
    // Files of a megabyte: some ten of them.
    let node = Node::start(&text, folder.path(), |options| options.split_bytes = 1 << 20, false);
    drive(&node, LENGTH, 8, 12);
    let published = node.runtime.ticks.published.get();
    let recording = node.stop();
    let report = verified(&recording);
    assert_eq!(report.different, []);
    assert!(report.equal >= published && published > 150, "{published}");
    assert_eq!((report.unverifiable, report.missing, report.complete), (0, 0, true));
    assert_eq!(report.problems, Vec::<String>::new());
    let files = std::fs::read_dir(&recording).unwrap().count();
    assert!(files > 10, "{files} files");
    let html = page(&recording, "complete");
    assert!(html.contains("The recording is complete."));
    let row = |ticks| format!("<th scope=row>a tensor</th><td class=n>{ticks}</td>");
    // A tick may be published while the node ends.
    assert!([0, 1].iter().any(|more| html.contains(&row(published + more))), "{published}");
}

#[test]
fn a_lag_that_is_too_short_is_named_with_the_stream_and_the_lag_that_would_do() {
    let folder = tempfile::tempdir().unwrap();
    // The image takes milliseconds to encode and arrives 60 ms after its stamp.
    let node = Node::start(&config_text(600.0, 20.0), folder.path(), |_| {}, false);
    drive(&node, LENGTH, 8, 60);
    let report = verified(&node.stop());
    assert!(!report.different.is_empty());
    assert_eq!(report.unexplained, 0);
    for tick in &report.different {
        assert!(tick.late.iter().chain(&tick.early).all(|row| row.stream == "camera"), "{tick:?}");
    }
    let lag = |name: &str| {
        report.streams.iter().find(|s| s.stream == name).unwrap().lag_that_does_ns.unwrap()
    };
    let does_ns = lag("camera");
    assert!((55..400).contains(&(does_ns / NANOS_PER_MS)), "{does_ns}");
    assert!(lag("wrench") < 200 * NANOS_PER_MS);
    // With that lag, and what one more run may take longer, all are equal.
    let lag_ms = does_ns as f64 / 1e6 + 150.0;
    let node = Node::start(&config_text(600.0, lag_ms), folder.path(), |_| {}, false);
    drive(&node, LENGTH, 8, 60);
    assert_eq!(verified(&node.stop()).different, []);
}

#[test]
fn what_the_node_dropped_for_its_encoders_is_dropped_in_the_replay() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(&config_text(600.0, 600.0), folder.path(), |_| {}, false);
    let mut bytes = image(Stamp::ZERO, 480, 3);
    for burst in 0..30 {
        // More at once than may wait for the encoders; all of them fit the recorder's queue.
        for k in 0..8 {
            let (sec, nanosec) = robocache_runtime::system_now().offset(-k).to_sec_nanosec();
            bytes[4..8].copy_from_slice(&sec.to_le_bytes());
            bytes[8..12].copy_from_slice(&nanosec.to_le_bytes());
            // So that each image looks different.
            bytes[100_000] = 8 * burst + k as u8;
            node.receive(CAMERA, bytes.clone());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    // For the ticks that see the last of them.
    std::thread::sleep(Duration::from_millis(700));
    let report = verified(&node.stop());
    assert_eq!((report.different, report.unverifiable), (vec![], 0));
    assert!(report.overloads > 30 && report.equal > 50, "{}", report.overloads);
}

#[test]
fn an_end_that_is_cut_off_is_read_up_to_there() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(&config_text(600.0, 600.0), folder.path(), |_| {}, false);
    drive(&node, LENGTH, 8, 12);
    let recording = node.stop();
    let whole = verified(&recording).equal;
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
    let node = Node::start(&config_text(600.0, 600.0), folder.path(), |_| {}, false);
    drive(&node, Duration::from_millis(300), 8, 12);
    let recording = node.stop();
    assert!(verified(&recording).equal > 0);
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
        let node = Node::start(&text, folder.path(), |_| {}, true);
        for epoch in 0..2 {
            for k in 0..400_u64 {
                let now = Stamp::from_nanos(5_000_000_000 + k as i64 * 5 * NANOS_PER_MS);
                node.runtime.sim_clock().unwrap().set(now, Transit::UNKNOWN);
                node.receive(WRENCH, wrench(now, (k + 1000 * epoch) as f64 / 100.0));
                node.receive(JOINTS, joints(now, &["a", "b", "g"], k as f64));
                if k % 16 == 0 {
                    node.receive(CAMERA, image(now, 48, k));
                }
                std::thread::sleep(Duration::from_millis(3));
            }
        }
        let published = node.runtime.ticks.published.get();
        let report = verified(&node.stop());
        assert_eq!(report.different, []);
        assert!(report.equal >= published && published > 300, "{published}");
    }
}

#[test]
fn a_damaged_recording_is_read_as_far_as_it_goes() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(&config_text(600.0, 600.0), folder.path(), |_| {}, false);
    drive(&node, Duration::from_millis(700), 8, 12);
    let recording = node.stop();
    let name = format!("{}_0.mcap", recording.file_name().unwrap().to_str().unwrap());
    let whole = std::fs::read(recording.join(&name)).unwrap();
    let all = verified(&recording);
    let (mut read, mut damaged) = (0, 0);
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
    let node = Node::start(&text, folder.path(), |options| options.manifest.digest = false, false);
    let error = verify(&node.stop(), Choice::Cpu, 0).unwrap_err().to_string();
    assert!(error.ends_with("the node ran with `digest: false`"), "{error}");
}
