//! Shrinks a run that fails.

use std::path::Path;

use crate::faults::Fault;
use crate::run::{Outcome, run};

/// A run that fails, with the fewest faults and the shortest time that were found.
#[derive(Debug)]
pub struct Shrunk {
    /// Faults that it needs.
    pub mask: u64,
    /// Time of faults that it needs \[s\].
    pub seconds: u64,
    /// The run.
    pub outcome: Outcome,
}

/// Takes faults and time away from a run that fails, as long as it fails. The recordings go below `folder`.
///
/// # Errors
/// A run does not begin.
pub fn shrink(seed: u64, failed: Outcome, seconds: u64, folder: &Path) -> Result<Shrunk, String> {
    let mut shrunk = Shrunk { mask: failed.faults, seconds, outcome: failed };
    for fault in Fault::ALL {
        if shrunk.mask & fault.bit() != 0 {
            let mask = shrunk.mask & !fault.bit();
            shrunk.try_with(seed, mask, shrunk.seconds, folder)?;
        }
    }
    let mut step = seconds / 2;
    while step > 0 {
        if step < shrunk.seconds {
            shrunk.try_with(seed, shrunk.mask, shrunk.seconds - step, folder)?;
        }
        step /= 2;
    }
    Ok(shrunk)
}

impl Shrunk {
    fn try_with(
        &mut self,
        seed: u64,
        mask: u64,
        seconds: u64,
        folder: &Path,
    ) -> Result<(), String> {
        let outcome = run(seed, mask, seconds, folder)?;
        if outcome.violation.is_some() {
            *self = Shrunk { mask, seconds, outcome };
        }
        Ok(())
    }
}
