//! Why merged rows lack clouds.

use super::{Cause, CauseKind, Evidence, InputEvidence, moment, round_up_ms};

impl Evidence<'_> {
    /// Rows lack a cloud that a step must have, or hold one that is too old.
    pub(super) fn incomplete(&self) -> Cause {
        let missing = self.missing();
        let silent: Vec<_> = missing.iter().filter(|input| input.silent).collect();
        if !silent.is_empty() {
            let topics: Vec<_> = silent.into_iter().map(|input| input.stopped()).collect();
            let words = format!("rows lack the clouds of {}", topics.join(" and "));
            return Cause { kind: CauseKind::CloudsMissing, words };
        }
        if let Some(dropped) = missing.into_iter().find_map(|input| self.dropped(input)) {
            return dropped;
        }
        // If one is silent, the others make up for it. A row with the last cloud of one that has just
        // stopped is invalid, also if no step needs it.
        let heard = self.inputs.iter().filter(|input| !input.silent);
        if let Some(stopped) = Self::stopped(heard) {
            return stopped;
        }
        let max_age_ns = self.spec.merge.iter().flat_map(|merge| &merge.max_age_ns);
        let mut timed = self.inputs.iter().zip(max_age_ns).filter(|(input, _)| !input.silent);
        let short = timed.find_map(|(input, max_age_ns)| {
            let period_ns = i64::try_from(input.interval?.as_nanos()).unwrap_or(i64::MAX);
            let oldest_ns = input.delay.p99_ns.saturating_add(period_ns) - self.spec.lag_ns;
            (oldest_ns > *max_age_ns).then_some((input, period_ns, oldest_ns))
        });
        let Some((input, period_ns, oldest_ns)) = short.filter(|_| !self.loses()) else {
            return moment();
        };
        let words = format!(
            "a cloud of {} comes every {} ms and up to {} ms after its stamp: raise its max_age_ms to {}",
            input.topic,
            round_up_ms(period_ns),
            round_up_ms(input.delay.p99_ns),
            round_up_ms(oldest_ns),
        );
        Cause { kind: CauseKind::AgeShort, words }
    }

    /// The inputs that give no clouds, of those that a step needs. None if the others suffice.
    fn missing(&self) -> Vec<&InputEvidence> {
        let Some(merge) = &self.spec.merge else { return Vec::new() };
        let gives = |input: &InputEvidence| !input.silent && self.dropped(input).is_none();
        let inputs = || self.inputs.iter().enumerate();
        let given = inputs().filter(|(_, input)| gives(input));
        let given = given.fold(0, |bits, (at, _)| bits | 1u32.checked_shl(at as u32).unwrap_or(0));
        if merge.suffices(given) {
            return Vec::new();
        }
        let missing = inputs().filter(|(at, input)| merge.needs(*at) && !gives(input));
        missing.map(|(_, input)| input).collect()
    }
}
