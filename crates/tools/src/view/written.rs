//! Reports that another program has put together: titles, texts, tables and curves in a JSON file.

use std::path::Path;

use serde::Deserialize;

use super::source::ViewError;
use crate::report::{Page, Plot, Section, Table};

/// The version of the format.
const VERSION: u32 = 1;
/// Diameter of a dot \[px\].
const DOT_PX: f64 = 3.0;

/// Whether a JSON file says that it is such a report.
pub fn is_one(bytes: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Kind {
        robocache_report: Option<serde::de::IgnoredAny>,
    }
    serde_json::from_slice::<Kind>(bytes).is_ok_and(|kind| kind.robocache_report.is_some())
}

/// A report, the content of a JSON file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    /// 1.
    robocache_report: u32,
    title: String,
    /// Lines below the title.
    #[serde(default)]
    about: Vec<String>,
    /// What was shown to be right, in a sentence.
    #[serde(default)]
    passed: Option<String>,
    /// What was wrong; empty if nothing was.
    #[serde(default)]
    problems: Vec<String>,
    /// A value and what it is.
    #[serde(default)]
    tiles: Vec<[String; 2]>,
    sections: Vec<Part>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Part {
    title: String,
    blocks: Vec<Block>,
}

/// What a section has, from top to bottom.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Block {
    /// A paragraph.
    Text(String),
    /// A table. The first `texts` columns are texts, the others numbers.
    Table { head: Vec<String>, texts: usize, rows: Vec<Vec<String>> },
    /// Curves over one axis.
    Plot { title: String, x: String, y: String, caption: String, curves: Vec<Curve> },
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Curve {
    name: String,
    /// Whether its points are drawn without lines.
    #[serde(default)]
    dots: bool,
    /// x and y; no y is a gap.
    points: Vec<(f64, Option<f64>)>,
}

/// Makes the page of such a report. `bytes` are the content of the file.
///
/// # Errors
/// It is not of this format.
pub fn page(path: &Path, bytes: &[u8]) -> Result<Page, ViewError> {
    let wrong = |why: String| ViewError::Written { path: path.to_owned(), why };
    let read: Written = serde_json::from_slice(bytes).map_err(|error| wrong(error.to_string()))?;
    if read.robocache_report != VERSION {
        return Err(wrong(format!("expected version {VERSION}, found {}", read.robocache_report)));
    }
    let mut page = Page::new(&read.title);
    for line in &read.about {
        page.about(line);
    }
    match (&read.passed, &read.problems[..]) {
        (Some(passed), []) => _ = page.passed(passed),
        (None, []) => {}
        (_, problems) => _ = page.failed("Failed", problems),
    }
    for [value, what] in &read.tiles {
        page.tile(value, what);
    }
    for part in &read.sections {
        let mut section = Section::new(&part.title);
        for block in &part.blocks {
            block.write(&mut section).map_err(wrong)?;
        }
        page.add(section);
    }
    Ok(page)
}

impl Block {
    /// Adds it to a section, or says what is wrong with it.
    fn write(&self, section: &mut Section) -> Result<(), String> {
        match self {
            Block::Text(text) => _ = section.text(text),
            Block::Table { head, texts, rows } => {
                let mut table = Table::new(head).texts(*texts);
                for row in rows {
                    if row.len() != head.len() {
                        let (expected, found) = (head.len(), row.len());
                        return Err(format!("a table: expected {expected} cells, found {found}"));
                    }
                    table.row(row);
                }
                section.table(&table);
            }
            Block::Plot { title, x, y, caption, curves } => {
                let mut plot = Plot::new(title, x, y);
                for curve in curves {
                    let points = curve.points.iter().map(|(x, y)| (*x, y.unwrap_or(f64::NAN)));
                    match curve.dots {
                        true => _ = plot.dots(&curve.name, DOT_PX, points),
                        false => _ = plot.line(&curve.name, points),
                    }
                }
                section.figure(&plot, caption);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
