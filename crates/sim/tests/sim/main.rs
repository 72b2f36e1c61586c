//! The synthetic robot: its truth is consistent, its schedule has the faults of the options, and
//! its messages hold the truth.

mod follower;
mod messages;
mod options;
mod schedule;
mod truth;

use robocache_ops::time::Stamp;
use robocache_sim::SimOptions;

/// An instant of this century, so large a stamp that a lack of precision would show.
const EPOCH: Stamp = Stamp::from_nanos(1_795_000_000_123_456_789);

fn options(change: impl FnOnce(&mut SimOptions)) -> SimOptions {
    let mut options = SimOptions { duration: 1.0, ..SimOptions::default() };
    change(&mut options);
    options
}
