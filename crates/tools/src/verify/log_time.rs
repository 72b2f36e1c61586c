//! The time of the log, for what is waited for.

use robocache_ops::time::{NANOS_PER_S, Stamp};

/// Longest step of it \[ns\]. A log is silent for longer if the machine was suspended. What was waited for then comes
/// after that silence.
const STEP_NS: i64 = NANOS_PER_S;

/// The time of the log without its long silences.
#[derive(Debug, Default)]
pub(super) struct LogTime {
    /// The newest time of the log; `None` before the first.
    newest: Option<Stamp>,
    passed_ns: i64,
}

impl LogTime {
    /// Returns the time when the log is at this one.
    pub(super) fn at(&mut self, logged: Stamp) -> Stamp {
        let newest = *self.newest.get_or_insert(logged);
        self.newest = Some(newest.max(logged));
        self.passed_ns += logged.since(newest).clamp(0, STEP_NS);
        Stamp::from_nanos(self.passed_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suspend_is_a_short_time() {
        let mut time = LogTime::default();
        let mut at = |s: i64| time.at(Stamp::from_nanos(s * NANOS_PER_S / 10)).nanos();
        assert_eq!([at(500), at(505), at(505)], [0, NANOS_PER_S / 2, NANOS_PER_S / 2]);
        // The log goes back for a moment. Then the machine is suspended for an hour.
        assert_eq!([at(503), at(505)], [NANOS_PER_S / 2; 2]);
        assert_eq!(at(36_505), 3 * NANOS_PER_S / 2);
        assert_eq!(at(36_507), 17 * NANOS_PER_S / 10);
    }
}
