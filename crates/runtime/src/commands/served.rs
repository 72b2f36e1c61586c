//! Which ticks were served, so that nobody answers a tensor that was never sent.

use std::sync::atomic::{AtomicU64, Ordering};

use robocache_ops::time::Epoch;

/// Ticks that it remembers: those of ten seconds at the highest rate, 2,000 Hz, and more.
const TICKS: usize = 1 << 15;

/// The newest ticks that were served, each with its epoch. One thread notes them.
#[derive(Debug)]
pub(crate) struct Served(Box<[AtomicU64]>);

impl Default for Served {
    fn default() -> Self {
        Served((0..TICKS).map(|_| AtomicU64::new(0)).collect())
    }
}

impl Served {
    /// Notes a tick.
    pub(crate) fn note(&self, epoch: Epoch, tick: i64) {
        self.0[slot(tick)].store(word(epoch.number(), tick), Ordering::Release);
    }

    /// True if the tick was served in this epoch, and is one of the newest.
    pub(crate) fn contains(&self, epoch: u64, tick: i64) -> bool {
        self.0[slot(tick)].load(Ordering::Acquire) == word(epoch, tick)
    }
}

fn slot(tick: i64) -> usize {
    tick.rem_euclid(TICKS as i64) as usize
}

/// Tells the ticks of a slot apart; never 0. Of the epoch, its newest 15 bits count.
fn word(epoch: u64, tick: i64) -> u64 {
    let turn = tick.div_euclid(TICKS as i64) as u64 & 0xffff_ffff_ffff;
    1 << 63 | (epoch & 0x7fff) << 48 | turn
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_knows_the_newest_ticks_of_each_epoch() {
        let served = Served::default();
        assert!(!served.contains(0, 0), "nothing was served yet");
        for tick in -3..40_000 {
            served.note(Epoch::numbered(3), tick);
        }
        assert!(served.contains(3, 39_999) && served.contains(3, 7_232));
        assert!(!served.contains(3, 7_231), "that is long ago");
        assert!(!served.contains(3, 40_000) && !served.contains(2, 39_999));
        served.note(Epoch::numbered(4), 39_999);
        assert!(served.contains(4, 39_999) && !served.contains(3, 39_999));
    }
}
