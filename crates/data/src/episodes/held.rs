//! Histories that a ring cannot hold: a tick had dropped the rows that their first steps need.

use super::{EpisodeError, Stream, memory};
use robocache_ops::time::NANOS_PER_S;
use robocache_ops::windows::{Visibility, WindowStream};

/// Checks that the rows of the earliest step were in the ring at most instants. Windows of plans and those that see all
/// rows do not depend on the ring.
///
/// # Errors
/// More than half of the rows had left the ring before a window needs them.
pub(super) fn check(stream: &Stream, windows: &WindowStream) -> Result<(), EpisodeError> {
    let reach = windows.offsets_ns.iter().map(|offset| offset.saturating_neg()).max().unwrap_or(0);
    if windows.view == Visibility::All || stream.means.plans || reach <= 0 {
        return Ok(());
    }
    for ring in &stream.rings {
        let stamps: &[i64] = memory::numbers(&ring.stamp_ns, "stamp_ns")?;
        let left: &[i64] = memory::numbers(&ring.left_ns, "left_ns")?;
        let replaced = ring.replaced.bytes();
        let mut spare: Vec<i64> = Vec::new();
        for span in &ring.spans {
            let rows = span.range();
            let pairs = rows.clone().zip(rows.skip(1));
            // A row gives the value until the next one does.
            let dropped = pairs.filter(|(row, _)| left[*row] != i64::MAX && replaced[*row] == 0);
            spare.extend(dropped.map(|(row, next)| left[row].saturating_sub(stamps[next])));
        }
        let short = spare.iter().filter(|held| **held < reach).count();
        if 2 * short > spare.len() {
            let held = median(&mut spare) as f64 / NANOS_PER_S as f64;
            let reach = reach as f64 / NANOS_PER_S as f64;
            let what = format!("history of '{}'", stream.means.name);
            let expected = format!(
                "{held:.3} s or less, which the node's ring holds, or rows: all for all rows of the bag"
            );
            return Err(EpisodeError::of(what, expected, format!("{reach:.3} s")));
        }
    }
    Ok(())
}

/// The number in the middle; 0 if there is none.
fn median(numbers: &mut [i64]) -> i64 {
    if numbers.is_empty() {
        return 0;
    }
    let middle = numbers.len() / 2;
    *numbers.select_nth_unstable(middle).1
}
