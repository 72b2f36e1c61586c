//! The newest measured values that commands begin at. A command tick reads them without a lock.
//!
//! A row of a ring has been encoded, and a tick may hold the rings' lock. So the values of each sample are noted here as
//! the message has them, in a cell per ring.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering, fence};

use super::Pipeline;
use crate::encoder::EncoderSpec;
use crate::layout::Layout;
use crate::spec::{Config, RingId, StreamId};
use robocache_ops::time::{Epoch, Stamp};

/// Times that a reader tries. Each fails only if a whole sample was written meanwhile.
const TRIES: usize = 16;

/// All cells, and who reads them.
#[derive(Default)]
pub(super) struct Measured {
    /// Per ring: its newest sample, if a group begins there.
    cells: Vec<Option<Cell>>,
    /// Per group of commands.
    starts: Vec<Start>,
}

/// The newest sample of a ring, in one of two places. One thread at a time writes the other place, and then makes it the
/// newest one. So a reader never waits for a writer, not even for one that was interrupted while it writes.
struct Cell {
    /// Samples so far. The newest one is at the place of this parity.
    count: AtomicU64,
    places: [CellPlace; 2],
}

/// A sample.
struct CellPlace {
    /// Number of the epoch.
    epoch: AtomicU64,
    stamp: AtomicI64,
    /// Bits of the values.
    values: Vec<AtomicU64>,
}

/// Sources of a group's measured values.
struct Start {
    /// By ring: the joints, each with its position in the samples.
    rings: Vec<(RingId, Vec<(usize, usize)>)>,
    joints: usize,
    max_age_ns: i64,
}

impl Measured {
    /// The cells that the commands of a configuration need.
    pub(super) fn new(config: &Config, layout: &Layout) -> Self {
        let groups = config.commands.iter().flat_map(|commands| &commands.groups);
        let starts: Vec<Start> = groups
            .map(|group| {
                let stream = group.start_from.stream;
                let channels = &group.start_from.channels;
                let mut rings: Vec<(RingId, Vec<(usize, usize)>)> = Vec::new();
                for (joint, channel) in channels.iter().enumerate() {
                    let Some((ring, at)) = place(config, layout, stream, *channel) else {
                        continue;
                    };
                    match rings.iter_mut().find(|(known, _)| *known == ring) {
                        Some((_, joints)) => joints.push((joint, at)),
                        None => rings.push((ring, vec![(joint, at)])),
                    }
                }
                let max_age_ns = config.stream(stream).rule.max_age_ns;
                Start { rings, joints: channels.len(), max_age_ns }
            })
            .collect();
        let mut cells: Vec<Option<Cell>> = layout.rings().iter().map(|_| None).collect();
        for (ring, _) in starts.iter().flat_map(|start| &start.rings) {
            let len = layout.ring(*ring).row_len;
            cells[ring.index()].get_or_insert_with(|| Cell::new(len));
        }
        Measured { cells, starts }
    }

    /// Notes a sample that became a row. The caller holds the lock under which rows of this ring are encoded.
    pub(super) fn note(&self, ring: RingId, epoch: Epoch, stamp: Stamp, values: &[f64]) {
        if let Some(cell) = &self.cells[ring.index()] {
            cell.write(epoch, stamp, values);
        }
    }
}

/// The ring of a channel of a stream, and its position in the samples.
fn place(
    config: &Config,
    layout: &Layout,
    stream: StreamId,
    channel: usize,
) -> Option<(RingId, usize)> {
    let EncoderSpec::Vector(vector) = &config.stream(stream).encoder else { return None };
    layout.rings_of(stream).zip(&vector.groups).find_map(|(ring, group)| {
        let at = group.channels.iter().position(|known| *known == channel)?;
        Some((ring, at))
    })
}

impl Cell {
    fn new(len: usize) -> Self {
        let place = || CellPlace {
            epoch: AtomicU64::new(0),
            stamp: AtomicI64::new(i64::MIN),
            values: (0..len).map(|_| AtomicU64::new(f64::NAN.to_bits())).collect(),
        };
        Cell { count: AtomicU64::new(0), places: [place(), place()] }
    }

    /// The place of the sample of this number.
    fn place(&self, count: u64) -> &CellPlace {
        &self.places[usize::from(count % 2 == 1)]
    }

    /// Writes a sample, unless a newer one is there.
    fn write(&self, epoch: Epoch, stamp: Stamp, values: &[f64]) {
        let count = self.count.load(Ordering::Relaxed);
        let newest = self.place(count);
        let known = (newest.epoch.load(Ordering::Relaxed), newest.stamp.load(Ordering::Relaxed));
        if (epoch.number(), stamp.nanos()) < known {
            return;
        }
        // A reader of the sample before this one must see the count that says that its place is written again.
        fence(Ordering::Release);
        let place = self.place(count + 1);
        place.epoch.store(epoch.number(), Ordering::Relaxed);
        place.stamp.store(stamp.nanos(), Ordering::Relaxed);
        for (cell, value) in place.values.iter().zip(values) {
            cell.store(value.to_bits(), Ordering::Relaxed);
        }
        self.count.store(count + 1, Ordering::Release);
    }

    /// Reads what `read` takes of the newest sample: its epoch, its stamp and its values.
    fn read<T>(&self, mut read: impl FnMut(u64, Stamp, &[AtomicU64]) -> T) -> Option<T> {
        (0..TRIES).find_map(|_| {
            let count = self.count.load(Ordering::Acquire);
            let place = self.place(count);
            let epoch = place.epoch.load(Ordering::Relaxed);
            let stamp = Stamp::from_nanos(place.stamp.load(Ordering::Relaxed));
            let found = read(epoch, stamp, &place.values);
            fence(Ordering::Acquire);
            // While the count is the same, only the other place is written.
            (self.count.load(Ordering::Relaxed) == count).then_some(found)
        })
    }
}

impl Pipeline {
    /// Reads the newest measured values that the commands of a group begin at, one per joint. Values that arrived together
    /// are of one sample. Returns false if one is missing, too old at this instant, of another epoch, or no number.
    pub fn measured(&self, group: usize, epoch: u64, now: Stamp, values: &mut [f64]) -> bool {
        let Start { rings, joints, max_age_ns } = &self.measured.starts[group];
        let mut count = 0;
        for (ring, places) in rings {
            let Some(cell) = &self.measured.cells[ring.index()] else { return false };
            let is_valid = cell.read(|of, stamp, bits| {
                for (joint, at) in places {
                    values[*joint] = f64::from_bits(bits[*at].load(Ordering::Relaxed));
                }
                let is_finite = places.iter().all(|(joint, _)| values[*joint].is_finite());
                of == epoch && now.since(stamp) <= *max_age_ns && is_finite
            });
            if is_valid != Some(true) {
                return false;
            }
            count += places.len();
        }
        count == *joints && values.len() == *joints
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    /// The epoch, the stamp and the values of the newest sample.
    fn read(cell: &Cell) -> Option<(u64, i64, Vec<f64>)> {
        cell.read(|epoch, stamp, bits| {
            let value = |bits: &AtomicU64| f64::from_bits(bits.load(Ordering::Relaxed));
            (epoch, stamp.nanos(), bits.iter().map(value).collect())
        })
    }

    #[test]
    fn a_reader_never_sees_parts_of_two_samples() {
        let cell = Cell::new(3);
        let stop = AtomicBool::new(false);
        cell.write(Epoch::numbered(1), Stamp::ZERO, &[0.0; 3]);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for at in 0..200_000i64 {
                    cell.write(Epoch::numbered(1), Stamp::from_nanos(at), &[at as f64; 3]);
                }
                stop.store(true, Ordering::Relaxed);
            });
            let mut seen = 0u64;
            while !stop.load(Ordering::Relaxed) || seen == 0 {
                if let Some((epoch, stamp, values)) = read(&cell) {
                    assert_eq!((epoch, &values[..]), (1, &[stamp as f64; 3][..]));
                    seen += 1;
                }
            }
        });
    }

    #[test]
    fn a_writer_that_is_interrupted_holds_up_no_reader() {
        let cell = Cell::new(1);
        cell.write(Epoch::numbered(1), Stamp::from_nanos(5), &[5.0]);
        // Half of the next sample is written.
        cell.place(2).stamp.store(6, Ordering::Relaxed);
        assert_eq!(read(&cell), Some((1, 5, vec![5.0])));
    }

    #[test]
    fn an_older_sample_changes_nothing() {
        let cell = Cell::new(1);
        cell.write(Epoch::numbered(1), Stamp::from_nanos(5), &[5.0]);
        cell.write(Epoch::numbered(1), Stamp::from_nanos(4), &[4.0]);
        assert_eq!(read(&cell), Some((1, 5, vec![5.0])));
        cell.write(Epoch::numbered(2), Stamp::from_nanos(1), &[1.0]);
        assert_eq!(read(&cell), Some((2, 1, vec![1.0])));
    }
}
