//! Notes when a required stream begins to hold ticks back, and when it ends.
//!
//! The tick thread must not log. So what is noted waits here for the thread that reports to people.

use std::time::Duration;

use super::pace::Pace;
use robocache_core::spec::StreamId;

/// Most lines that wait for the thread that logs them. It looks several times a second, and [`Pace`] allows one a second.
const LINES: usize = 8;

/// State of the log about ticks that are held back.
#[derive(Debug, Default)]
pub(crate) struct Holding {
    /// The stream that holds ticks back by the last line; `None` if none does.
    said: Option<StreamId>,
    /// Ticks held back since the line that it began.
    ticks: u64,
    /// The state of the newest tick.
    state: HoldingState,
    pace: Pace,
    /// The lines to log, the oldest first.
    lines: [Option<HoldingLine>; LINES],
}

/// A row of ticks that one stream holds back, or that are published.
#[derive(Clone, Copy, Debug, Default)]
struct HoldingState {
    /// The stream; `None` if no stream holds them back.
    by: Option<StreamId>,
    /// The first tick.
    first: i64,
    /// How many of them are held back.
    held_back: u64,
}

/// A line for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HoldingLine {
    /// A stream begins to hold ticks back.
    Begins {
        /// The stream.
        stream: StreamId,
        /// The first tick that it holds back.
        first: i64,
    },
    /// No stream holds ticks back any more.
    Ends {
        /// The stream that did.
        stream: StreamId,
        /// The first tick that is published.
        first: i64,
        /// How many ticks it held back, or others meanwhile.
        ticks: u64,
    },
}

impl Holding {
    /// Notes a tick that `by` holds back; that is published, if it is `None`. If that changes with each tick, some lines
    /// are left out; the last one is always true. This allocates nothing.
    pub(crate) fn note(&mut self, now: Duration, tick: i64, by: Option<StreamId>) {
        let is_new = by != self.state.by;
        if is_new {
            self.state = HoldingState { by, first: tick, held_back: 0 };
        }
        self.state.held_back += u64::from(by.is_some());
        self.ticks += u64::from(by.is_some());
        let may_log = |pace: &mut Pace| match is_new {
            true => pace.asks(now),
            false => pace.asks_again(now),
        };
        if by != self.said && may_log(&mut self.pace) {
            self.say();
        }
    }

    /// Adds the line about the present state.
    fn say(&mut self) {
        let HoldingState { by, first, held_back } = self.state;
        let line = match (self.said, by) {
            (before, Some(stream)) => {
                if before.is_some() {
                    // Another stream begins its own count.
                    self.ticks = held_back;
                }
                HoldingLine::Begins { stream, first }
            }
            (Some(stream), None) => {
                HoldingLine::Ends { stream, first, ticks: std::mem::take(&mut self.ticks) }
            }
            (None, None) => return,
        };
        self.said = by;
        let free = self.lines.iter().position(Option::is_none).unwrap_or_else(|| {
            // Nobody logs them. The newest ones tell how it is now.
            self.lines.rotate_left(1);
            LINES - 1
        });
        self.lines[free] = Some(line);
    }

    /// How many lines wait.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.lines.iter().flatten().count()
    }

    /// Takes the lines to log, the oldest first.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = HoldingLine> + use<> {
        std::mem::take(&mut self.lines).into_iter().flatten()
    }
}

#[cfg(test)]
mod tests;
