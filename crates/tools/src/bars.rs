//! The bar of a replay, and the log above it: for the command line, and for the Python package.

use std::collections::HashMap;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use robocache_data::replay::Episode;
use robocache_data::replay::batch::{BatchProgress, EpisodeOutcome};
use robocache_ops::time::Stamp;

/// The bars of the process.
static BARS: LazyLock<MultiProgress> = LazyLock::new(MultiProgress::new);

/// Writes a line to stderr, if anybody reads it.
pub(crate) fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Writes warnings to stderr, above the bars if there are any. If the process has a log already, that one stays.
pub fn log_above_bars() {
    let log = tracing_subscriber::fmt().with_max_level(tracing::Level::WARN).without_time();
    let _ = log.with_target(false).with_ansi(false).with_writer(Line::default).try_init();
}

/// A line of the log.
#[derive(Default)]
struct Line {
    bytes: Vec<u8>,
}

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let line = String::from_utf8_lossy(&self.bytes);
        BARS.suspend(|| say(line.trim_end()));
    }
}

/// One bar for all episodes: of them, seconds of data, speed, and the time left. Without a terminal, no bar is shown.
pub struct Bars {
    bar: ProgressBar,
    started: Instant,
    state: Mutex<ProgressState>,
}

#[derive(Default)]
struct ProgressState {
    /// Episodes under way: the first, the last and the present instant.
    running: HashMap<String, [Stamp; 3]>,
    /// Nanoseconds of data of the episodes that have ended, and how many these are.
    done_ns: i64,
    ended: usize,
    shown: Option<Instant>,
}

/// Time between two looks of the bar.
const PERIOD: Duration = Duration::from_millis(100);

impl Bars {
    /// The bar of `episodes` episodes.
    pub fn new(episodes: usize) -> Self {
        // Thousandths of an episode, as how long each is shows when it begins.
        let bar = ProgressBar::new(1000 * episodes as u64);
        let bar =
            if std::io::stderr().is_terminal() { BARS.add(bar) } else { ProgressBar::hidden() };
        let style = ProgressStyle::with_template("{wide_bar} {msg}, {eta} left");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Bars { bar, started: Instant::now(), state: Mutex::default() }
    }

    /// Removes the bar.
    pub fn close(&self) {
        self.bar.finish_and_clear();
    }

    fn update(&self, force: bool, change: impl FnOnce(&mut ProgressState)) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut state);
        if !force && state.shown.is_some_and(|shown| shown.elapsed() < PERIOD) {
            return;
        }
        state.shown = Some(Instant::now());
        let spans = || state.running.values();
        let running_ns: i64 = spans().map(|[first, _, now]| now.since(*first).max(0)).sum();
        let share = |[first, last, now]: &[Stamp; 3]| {
            let whole = last.since(*first).max(1) as f64;
            (now.since(*first).max(0) as f64 / whole).min(1.0)
        };
        let thousandths: f64 = spans().map(|span| 1000.0 * share(span)).sum();
        let seconds = (state.done_ns.saturating_add(running_ns)) as f64 / 1e9;
        let speed = seconds / self.started.elapsed().as_secs_f64().max(1e-3);
        let episodes = self.bar.length().unwrap_or(0) / 1000;
        let ended = state.ended;
        self.bar.set_position(1000 * ended as u64 + thousandths as u64);
        self.bar.set_message(format!(
            "{ended}/{episodes} episodes, {seconds:.0} s of data, {speed:.1} times real time"
        ));
    }
}

impl BatchProgress for Bars {
    fn waits(&self, out: &Path) {
        tracing::warn!(
            "{}: another run writes into it, and this one waits for its end",
            out.display()
        );
    }

    fn begins(&self, episode: &Episode, first: Stamp, last: Stamp) {
        let name = episode.name.clone();
        self.update(true, |state| {
            state.running.insert(name, [first, last, first]);
        });
    }

    fn at(&self, episode: &Episode, now: Stamp) {
        self.update(false, |state| {
            if let Some(span) = state.running.get_mut(&episode.name) {
                span[2] = now;
            }
        });
    }

    fn joins(&self, done: usize, of: usize) {
        if done == 1 {
            self.bar.set_length(of as u64);
            self.bar.set_message("files of the store");
        }
        self.bar.set_position(done as u64);
    }

    fn ends(&self, episode: &Episode, _: &EpisodeOutcome) {
        self.update(true, |state| {
            if let Some([first, _, now]) = state.running.remove(&episode.name) {
                state.done_ns = state.done_ns.saturating_add(now.since(first).max(0));
            }
            state.ended += 1;
        });
    }
}
