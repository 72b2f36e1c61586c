//! The writers of chunks in a bag. `crates/tools/tests` replays whole recordings.

use super::*;
use robocache_core::command::SentChunk;

fn chunk(sequence: u64, tick: i64) -> Vec<u8> {
    let names = ["a".to_owned()];
    let sent = SentChunk {
        run: 3,
        epoch: 1,
        stamp: Stamp::from_nanos(tick * 10_000_000),
        tick,
        sequence,
        group: "arm",
        names: &names,
        values: &[0.5],
        reference: &[],
    };
    sent.to_cdr(Vec::new())
}

#[test]
fn a_sequence_that_begins_again_with_a_newer_tensor_is_of_another_writer() {
    let mut seen = WriterSeen::default();
    let mut number = |sequence, tick| seen.number(2, &chunk(sequence, tick));
    let first = 2 << 32;
    assert_eq!(number(5, 100), first);
    assert_eq!(number(5, 100), first, "it came twice");
    assert_eq!(number(7, 110), first);
    assert_eq!(number(6, 105), first, "it came out of order");
    assert_eq!(number(1, 120), first + 1, "the policy was started again");
    assert_eq!(number(2, 130), first + 1);
    assert_eq!(seen.number(2, &[1, 2, 3]), first + 1, "nobody knows what it is");
}
