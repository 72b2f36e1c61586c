//! Tables.

use std::fmt::Write;

use super::chart::COLOURS;
use super::html::escaped;

/// Most rows that a table shows.
const MAX_ROWS: usize = 500;

/// A table: a head, and rows of as many cells.
#[derive(Clone, Debug)]
pub struct Table {
    head: Vec<String>,
    texts: usize,
    keys: bool,
    rows: Vec<Vec<String>>,
    left_out: usize,
}

impl Table {
    /// A table with these columns. The first has texts, the others numbers.
    pub fn new(head: &[impl AsRef<str>]) -> Self {
        let head = head.iter().map(|cell| cell.as_ref().to_owned()).collect();
        Table { head, texts: 1, keys: false, rows: Vec::new(), left_out: 0 }
    }

    /// The first `columns` columns are texts, which begin at the left; the others are numbers, which end at the right.
    pub fn texts(mut self, columns: usize) -> Self {
        self.texts = columns;
        self
    }

    /// Each row begins with a colour, those of [`Section::shares`](super::Section::shares) in their order.
    pub fn keys(mut self) -> Self {
        self.keys = true;
        self
    }

    /// Adds a row. Cells that are missing are empty, and those beyond the head are left out.
    pub fn row(&mut self, cells: &[impl AsRef<str>]) -> &mut Self {
        if self.rows.len() == MAX_ROWS {
            self.left_out += 1;
            return self;
        }
        let cell = |at: usize| cells.get(at).map_or(String::new(), |cell| cell.as_ref().to_owned());
        self.rows.push((0..self.head.len()).map(cell).collect());
        self
    }

    /// True if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Writes the table.
    pub(super) fn write(&self, out: &mut String) {
        let kind = |at: usize| if at < self.texts { "" } else { " class=n" };
        out.push_str("<div class=scroll tabindex=0><table><thead><tr>");
        for (at, cell) in self.head.iter().enumerate() {
            let _ = write!(out, "<th scope=col{}>{}</th>", kind(at), escaped(cell));
        }
        out.push_str("</tr></thead><tbody>");
        for (line, row) in self.rows.iter().enumerate() {
            out.push_str("<tr>");
            for (at, cell) in row.iter().enumerate() {
                let cell = escaped(cell);
                let _ = match at {
                    0 if self.keys => {
                        let colour = line % COLOURS;
                        write!(out, "<th scope=row><i class=\"key b{colour}\"></i>{cell}</th>")
                    }
                    0 => write!(out, "<th scope=row{}>{cell}</th>", kind(0)),
                    _ => write!(out, "<td{}>{cell}</td>", kind(at)),
                };
            }
            out.push_str("</tr>");
        }
        out.push_str("</tbody></table></div>");
        if self.left_out > 0 {
            let _ = write!(out, "<p class=about>{} more rows are left out.</p>", self.left_out);
        }
    }
}
