//! Statuses, written and read.

use super::*;

fn joints() -> Vec<String> {
    ["shoulder", "b"].map(str::to_owned).to_vec()
}

fn refused(count: usize) -> Vec<RefusedChunk> {
    let longest = Refusal::ALL.into_iter().max_by_key(|refusal| refusal.word().len()).unwrap();
    let refused =
        |at: usize| RefusedChunk { writer: u64::MAX - 1, sequence: at as u64, refusal: longest };
    (0..count).map(refused).collect()
}

fn counts() -> GroupCounts {
    let mut counts = GroupCounts { commands: 70, chunks: 9, ..GroupCounts::default() };
    (counts.chunks_late, counts.rows_late) = (2, 7);
    counts.clipped = vec![0, 31];
    counts
}

fn status<'a>(
    refused: &'a [RefusedChunk],
    counts: &'a GroupCounts,
    joints: &'a [String],
) -> CommandStatus<'a> {
    CommandStatus {
        stamp: Stamp::from_nanos(1_020_000_000),
        run: 7,
        group: "arm",
        stage: Stage::Waiting,
        waits_for: WaitsFor::FirstRow,
        newest: Some(Newest { writer: 5, sequence: 8, delay_ticks: 3 }),
        refused,
        counts,
        joints,
    }
}

#[test]
fn a_status_is_read_as_it_was_written() {
    let refused = refused(2);
    let counts = counts();
    let joints = joints();
    let status = status(&refused, &counts, &joints);
    let read = ReceivedStatus::read(&status.to_cdr(Vec::new())).unwrap().unwrap();
    let clipped = vec![("shoulder".to_owned(), 0), ("b".to_owned(), 31)];
    let expected = ReceivedStatus {
        stamp: status.stamp,
        run: 7,
        group: "arm".to_owned(),
        stage: Stage::Waiting,
        waits_for: WaitsFor::FirstRow,
        newest: status.newest,
        refused: refused.clone(),
        commands: 70,
        chunks: 9,
        chunks_late: 2,
        rows_late: 7,
        clipped,
    };
    assert_eq!(read, expected);
    let without = CommandStatus { newest: None, refused: &[], ..status };
    let read = ReceivedStatus::read(&without.to_cdr(Vec::new())).unwrap().unwrap();
    assert_eq!((read.newest, read.refused), (None, vec![]));
}

#[test]
fn a_status_that_was_cut_is_an_error_and_an_unknown_stage_is_none() {
    let refused = refused(1);
    let counts = counts();
    let joints = joints();
    let mut message = status(&refused, &counts, &joints).to_cdr(Vec::new());
    for len in 0..message.len() {
        assert!(ReceivedStatus::read(&message[..len]).is_err(), "{len}");
    }
    // Behind the stamp, the run, and the name of the group.
    let stage = 4 + 8 + 8 + 4 + "arm".len() + 1;
    assert_eq!(message[stage], Stage::Waiting as u8);
    message[stage] = 99;
    assert_eq!(ReceivedStatus::read(&message), Ok(None));
}

#[test]
fn no_status_has_more_bytes_than_the_most() {
    let text = "rate_hz: 100\nstreams: {joints: {type: sensor_msgs/JointState, topic: /joints, joints: [shoulder, b], \
                max_age_ms: 50}}\ncommands: {rate_hz: 250, groups: {arm: {joints: [shoulder, b], rows: {steps: 5, \
                step_ms: 20}, start_from: joints, watchdog_ms: 500, limits: none, on_stall: hold, on_end: hold, \
                output: {topic: /c, type: std_msgs/msg/Float64MultiArray}}}}\n";
    let config = crate::config::parse(text, "test.yaml").unwrap();
    let spec = &config.commands.unwrap().groups[0];
    let refused = refused(MOST_REFUSED);
    let counts = counts();
    let joints = joints();
    let bytes = status(&refused, &counts, &joints).to_cdr(Vec::new()).len();
    let most = CommandStatus::most_bytes(spec);
    assert!((bytes..bytes + 400).contains(&most), "{most} of {bytes}");
}
