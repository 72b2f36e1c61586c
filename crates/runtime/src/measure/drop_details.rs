//! Details of the newest drops of an input: what was expected and what was found.

use std::time::Duration;

use super::pace::Pace;
use robocache_core::rejected::{DropReason, Rejected};

/// How long a suggestion of another name counts: names become known one by one.
const SUGGESTED: Duration = Duration::from_secs(1);

/// The details of the newest drops of an input, by reason.
#[derive(Debug, Default)]
pub(crate) struct DropDetails {
    by_reason: [Detail; DropReason::ALL.len()],
    /// The reason of the newest drop, and when it was.
    newest: Option<(DropReason, Duration)>,
}

/// The details of one reason.
#[derive(Debug, Default)]
struct Detail {
    /// Of the newest drop; empty before the first.
    newest: String,
    /// The name that was probably meant, with a semicolon in front, and when it was looked for.
    suggestion: (String, Option<Duration>),
    /// The detail that was logged last; `None` if nothing was.
    said: Option<String>,
    pace: Pace,
}

impl DropDetails {
    /// Notes a drop at `now`. `suggest` names what was probably meant. Returns the words to log, if there is something
    /// new to say: the first drop of a reason, or another detail than the one that was logged.
    pub(crate) fn note(
        &mut self,
        now: Duration,
        rejected: &Rejected,
        suggest: impl FnOnce() -> Option<String>,
    ) -> Option<String> {
        self.newest = Some((rejected.reason, now));
        let detail = &mut self.by_reason[rejected.reason as usize];
        detail.newest.clone_from(&rejected.detail);
        let looked = detail.suggestion.1;
        if looked.is_none_or(|looked| now.saturating_sub(looked) >= SUGGESTED) {
            let suggestion = suggest().map(|words| format!("; {words}"));
            detail.suggestion = (suggestion.unwrap_or_default(), Some(now));
        }
        let words = format!("{}{}", detail.newest, detail.suggestion.0);
        if detail.said.as_ref().is_some_and(|said| is_alike(said, &words)) || !detail.pace.asks(now)
        {
            return None;
        }
        detail.said = Some(words.clone());
        Some(words)
    }

    /// The detail of the newest drop for a reason; `None` if there was none.
    pub(crate) fn of(&self, reason: DropReason) -> Option<String> {
        let Detail { newest, suggestion, .. } = &self.by_reason[reason as usize];
        (!newest.is_empty()).then(|| format!("{newest}{}", suggestion.0))
    }

    /// The reason and the detail of the newest drop, in words; `None` before the first.
    pub(crate) fn last(&self) -> Option<String> {
        let (reason, _) = self.newest?;
        Some(format!("{}: {}", reason.name(), self.of(reason).unwrap_or_default()))
    }

    /// When the newest drop was; `None` before the first.
    pub(crate) fn last_at(&self) -> Option<Duration> {
        self.newest.map(|(_, at)| at)
    }
}

/// True if two details say the same of other numbers. A number inside of a name, such as `joint_1`, is none.
fn is_alike(a: &str, b: &str) -> bool {
    let mut a = a.split(' ');
    let mut b = b.split(' ');
    loop {
        match (a.next(), b.next()) {
            (None, None) => return true,
            (Some(a), Some(b)) if a == b || (is_number(a) && is_number(b)) => {}
            _ => return false,
        }
    }
}

fn is_number(word: &str) -> bool {
    let word = word.trim_matches(['(', ')', '[', ']', ',', ';', ':', '%']);
    word.parse::<f64>().is_ok()
}

#[cfg(test)]
mod tests;
