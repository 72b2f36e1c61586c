//! A timeline: a bar per row shows what was when.

use std::fmt::Write;

use super::COLUMNS;
use super::chart::{COLOURS, Figure, legend, share, x_labels};
use super::html::escaped;
use super::scale::ticks;

/// Most rows of a timeline.
const MAX_ROWS: usize = 200;

/// Meaning of a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// As it should be.
    Good,
    /// Worth a look.
    Notice,
    /// Not as it should be.
    Bad,
    /// Nothing that matters.
    Quiet,
    /// One of the colours of curves, by number.
    Series(usize),
}

impl Tone {
    fn class(self) -> String {
        match self {
            Tone::Good => "good".into(),
            Tone::Notice => "notice".into(),
            Tone::Bad => "bad".into(),
            Tone::Quiet => "quiet".into(),
            Tone::Series(at) => format!("b{}", at % COLOURS),
        }
    }
}

/// Rows of coloured spans over a common axis of time.
#[derive(Clone, Debug)]
pub struct Timeline {
    title: String,
    label: String,
    range: (f64, f64),
    kinds: Vec<(String, Tone)>,
    rows: Vec<(String, Vec<Option<u8>>)>,
    left_out: usize,
}

impl Timeline {
    /// An empty timeline over a range. The kinds of spans have names and colours; in a column with several
    /// kinds, the last of them in this list is shown. So the rare and bad ones come last.
    pub fn new(title: &str, label: &str, range: (f64, f64), kinds: &[(&str, Tone)]) -> Self {
        let kinds = kinds.iter().take(usize::from(u8::MAX));
        Timeline {
            title: title.to_owned(),
            label: label.to_owned(),
            range,
            kinds: kinds.map(|(name, tone)| ((*name).to_owned(), *tone)).collect(),
            rows: Vec::new(),
            left_out: 0,
        }
    }

    /// Adds a row of spans (from, to, number of the kind). A span without length, such as a message, is one
    /// column wide: a thousandth of the range.
    pub fn row(
        &mut self,
        name: &str,
        spans: impl IntoIterator<Item = (f64, f64, usize)>,
    ) -> &mut Self {
        if self.rows.len() == MAX_ROWS {
            self.left_out += 1;
            return self;
        }
        let mut columns = vec![None; COLUMNS];
        for (from, to, kind) in spans {
            let place = |value| share(self.range, value) * COLUMNS as f64;
            let left = place(from);
            let right = place(to);
            let seen = left.is_finite() && right.is_finite() && right >= 0.0;
            if !seen || left > COLUMNS as f64 || kind >= self.kinds.len() {
                continue;
            }
            let first = (left.max(0.0) as usize).min(COLUMNS - 1);
            let end = (right.ceil() as usize).clamp(first + 1, COLUMNS);
            for column in &mut columns[first..end] {
                *column = (*column).max(Some(kind as u8));
            }
        }
        self.rows.push((name.to_owned(), columns));
        self
    }

    fn draw(&self) -> String {
        let kinds =
            self.kinds.iter().map(|(name, tone)| (&**name, format!("dot {}", tone.class())));
        let mut out = legend(kinds);
        let title = escaped(&self.title);
        let _ = write!(out, "<div class=rows role=img aria-label=\"{title}\">");
        let ticks = ticks(self.range, 8);
        let mut grid = String::new();
        for (value, _) in &ticks {
            let _ = write!(grid, "M{:.1} 0V20", share(self.range, *value) * COLUMNS as f64);
        }
        for (name, columns) in &self.rows {
            let name = escaped(name);
            let _ = write!(
                out,
                "<div class=rl>{name}</div><div class=rb><svg viewBox=\"0 0 {COLUMNS} 20\" \
                 preserveAspectRatio=none><path class=grid d=\"{grid}\"/>{}</svg></div>",
                self.spans(columns)
            );
        }
        let labels = x_labels(self.range, &ticks);
        let label = escaped(&self.label);
        let _ = write!(
            out,
            "<div class=rl></div>{labels}<div class=rl></div><div class=xt>{label}</div></div>"
        );
        if self.left_out > 0 {
            let _ = write!(out, "<p class=about>{} more rows are left out.</p>", self.left_out);
        }
        out
    }

    /// Rectangles of equal neighbours.
    fn spans(&self, columns: &[Option<u8>]) -> String {
        let mut out = String::new();
        let mut at = 0;
        for run in columns.chunk_by(|a, b| a == b) {
            if let Some((_, tone)) = run[0].and_then(|kind| self.kinds.get(usize::from(kind))) {
                let class = tone.class();
                let width = run.len();
                let _ =
                    write!(out, "<rect class=\"{class}\" x={at} y=2 width={width} height=16 />");
            }
            at += run.len();
        }
        out
    }
}

impl From<&Timeline> for Figure {
    fn from(timeline: &Timeline) -> Self {
        Figure::of(timeline.draw())
    }
}
