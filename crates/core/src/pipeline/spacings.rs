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
    let newest = ring.entries().rev();
    let pairs = newest.clone().zip(newest.skip(1));
    let found = spacings.iter_mut().zip(pairs);
    found.map(|(spacing, (newer, older))| *spacing = newer.stamp.since(older.stamp)).count()
}

/// Summarises spacings; `None` if `spacings` is empty.
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
mod tests;
