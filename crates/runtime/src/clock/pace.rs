//! How fast a simulator's clock runs, measured from its messages.

use std::time::Duration;

/// Number of recent steps from which the pace is measured. Their medians ignore a pause, a burst or
/// a single step by hand.
const STEPS: usize = 9;
/// With fewer steps there is no pace.
const ENOUGH: usize = 3;

/// The recent steps of `/clock`.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// The simulated time \[ns\] and the real time of each step.
    steps: [(i64, Duration); STEPS],
    count: usize,
}

impl Pace {
    /// Notes that the clock advanced by `step_ns` \[ns\], which is positive, after this real time.
    pub(super) fn note(&mut self, step_ns: i64, after: Duration) {
        self.steps[self.count % STEPS] = (step_ns, after);
        self.count += 1;
    }

    /// Returns the usual step of the clock \[ns\]; `None` before it is known.
    pub(super) fn step_ns(&self) -> Option<i64> {
        self.median(|(step_ns, _)| step_ns as f64).map(|step_ns| step_ns as i64)
    }

    /// Returns how far the clock is probably past its last reading \[ns\], which is this old. The result is less than
    /// every recent step, and 0 if the pace is unknown.
    pub(super) fn past_reading_ns(&self, age: Duration) -> i64 {
        let rate = self.median(|(step_ns, real)| step_ns as f64 / real.as_nanos().max(1) as f64);
        let known = &self.steps[..self.count.min(STEPS)];
        // The least step: the next reading may come that soon.
        let least = known.iter().map(|(step_ns, _)| *step_ns).min();
        let (Some(rate), Some(step_ns)) = (rate, least) else { return 0 };
        // A float as large as an i64 saturates.
        let past = (age.as_nanos() as f64 * rate) as i64;
        past.clamp(0, (step_ns - 1).max(0))
    }

    fn median(&self, value: impl Fn((i64, Duration)) -> f64) -> Option<f64> {
        let known = self.count.min(STEPS);
        if known < ENOUGH {
            return None;
        }
        let mut values = self.steps.map(value);
        let values = &mut values[..known];
        values.sort_unstable_by(f64::total_cmp);
        Some(values[known / 2])
    }
}

#[cfg(test)]
mod tests;
