use super::*;
use robocache_ops::time::Stamp;

fn ring(capacity: usize, stamps: impl IntoIterator<Item = i64>) -> Ring {
    let mut ring = Ring::new(capacity);
    for stamp in stamps {
        let lease = ring.lease().unwrap();
        ring.insert(Stamp::from_nanos(stamp), 0, lease);
    }
    ring
}

fn of(ring: &Ring) -> Option<Spacings> {
    let mut spacings = [0; NEWEST];
    let count = newest_spacings(ring, &mut spacings);
    summary(&mut spacings[..count])
}

#[test]
fn spacings_are_those_of_the_newest_rows() {
    assert_eq!(of(&ring(8, [5])), None);
    assert_eq!(of(&ring(8, [5, 15])), Some(Spacings { mean_ns: 10, longest_ns: 10 }));
    // A hundred rows 1000 ns apart, then 65 that are 10 and 30 ns apart in turn.
    let old = (0..100).map(|k| k * 1000);
    let new = (0..65).map(|k| 100_000 + k * 20 + 10 * (k % 2));
    let found = of(&ring(256, old.chain(new))).unwrap();
    assert_eq!(found.longest_ns, 30);
    assert!((18..=20).contains(&found.mean_ns), "{found:?}");
}

#[test]
fn a_lost_message_is_not_usual() {
    let stamps = (0..64).filter(|k| k % 20 != 7).map(|k| k * 10);
    assert_eq!(of(&ring(64, stamps)).unwrap().longest_ns, 10);
    // The jitter of every other message is.
    let stamps = (0..64).map(|k| k * 10 + 3 * (k % 2));
    assert_eq!(of(&ring(64, stamps)).unwrap().longest_ns, 13);
}
