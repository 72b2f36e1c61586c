//! How far apart the rows of a stream are.

use super::Pipeline;
use crate::ring::Ring;
use crate::spec::StreamId;

/// Spacings that are read from a ring, at most: the newest.
const NEWEST: usize = 64;
/// The longest usual spacing is the longest without this share of outliers, which are lost messages
/// or pauses: one in 16.
const OUTLIERS: usize = 16;

/// Distances of neighbouring rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spacings {
    /// The mean \[ns\].
    pub mean_ns: i64,
    /// The longest usual one \[ns\].
    pub longest_ns: i64,
}

impl Pipeline {
    /// The spacings of a stream's newest rows, at most 64. If the stream has several rings, each
    /// number is that of the ring that asks for more: the densest or the sparsest. `None` if no
    /// ring has two rows.
    pub fn spacings(&self, stream: StreamId) -> Option<Spacings> {
        let mut found: Option<Spacings> = None;
        for id in self.layout.rings_of(stream) {
            let mut spacings = [0; NEWEST];
            // Copied first, because a tick waits for the lock.
            let count = newest_spacings(&self.lock_rings().rings[id.index()], &mut spacings);
            if let Some(ring) = summary(&mut spacings[..count]) {
                let others = found.unwrap_or(ring);
                found = Some(Spacings {
                    mean_ns: ring.mean_ns.min(others.mean_ns),
                    longest_ns: ring.longest_ns.max(others.longest_ns),
                });
            }
        }
        found
    }
}

/// Reads the newest spacings of a ring and returns how many there are.
fn newest_spacings(ring: &Ring, spacings: &mut [i64; NEWEST]) -> usize {
    let count = ring.len().saturating_sub(1).min(NEWEST);
    for (k, spacing) in spacings.iter_mut().take(count).enumerate() {
        let newer = ring.len() - 1 - k;
        *spacing = ring.entry(newer).stamp.since(ring.entry(newer - 1).stamp);
    }
    count
}

/// Summarises spacings; `None` if there are none.
fn summary(spacings: &mut [i64]) -> Option<Spacings> {
    spacings.sort_unstable();
    let usual = spacings.len() - spacings.len() / OUTLIERS;
    let longest_ns = *spacings.get(usual.checked_sub(1)?)?;
    // A pause would hide how dense the rows are.
    let sum: i128 = spacings[..usual].iter().map(|ns| i128::from(*ns)).sum();
    let mean_ns = i64::try_from(sum / usual as i128).unwrap_or(i64::MAX);
    Some(Spacings { mean_ns, longest_ns })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Stamp;

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
}
