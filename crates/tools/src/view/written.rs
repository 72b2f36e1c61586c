//! Reports that another program has put together: titles, texts, tables, curves and tensors in a JSON file.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use super::raw::{self, Compared};
use super::source::ViewError;
use super::track::Track;
use super::{parts, pictures};
use crate::report::{Histogram, Page, Plot, Section, Table};
use robocache_core::message::TensorInfo;
use robocache_ops::time::Stamp;

/// Most bytes of a file.
const MAX_BYTES: u64 = 256 << 20;
/// The version of the format.
const VERSION: u32 = 1;
/// Diameter of a dot \[px\].
const DOT_PX: f64 = 3.0;

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
    /// Properties that were shown to be right, in a sentence.
    #[serde(default)]
    passed: Option<String>,
    /// Problems; empty if there were none.
    #[serde(default)]
    problems: Vec<String>,
    /// A value and what it is.
    #[serde(default)]
    tiles: Vec<[String; 2]>,
    /// A serialized `FusedTensorInfo`, in base64.
    #[serde(default)]
    info: Option<String>,
    /// Some serialized `FusedTensor`s, in base64. Their images and grids come before the sections, and their layout
    /// after them.
    #[serde(default)]
    tensors: Vec<String>,
    sections: Vec<ReportSection>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReportSection {
    title: String,
    blocks: Vec<Block>,
}

/// A block of a section. Blocks are from top to bottom.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Block {
    /// A paragraph.
    Text(String),
    /// A table. The first `texts` columns are texts, the others numbers.
    Table { head: Vec<String>, texts: usize, rows: Vec<Vec<String>> },
    /// Curves over one axis.
    Plot { title: String, x: String, y: String, caption: String, curves: Vec<Curve> },
    /// How often which values are. A mark is a name and a value.
    Histogram {
        title: String,
        x: String,
        y: String,
        caption: String,
        values: Vec<f64>,
        #[serde(default)]
        marks: Vec<(String, f64)>,
    },
    /// Channels of a segment, as they were published and as the tensors had them. `value` is what they are, with
    /// the unit: "position \[rad\]".
    Compared { stream: String, value: String, channels: Vec<Channel> },
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Curve {
    name: String,
    /// True if the curve's points are drawn without lines.
    #[serde(default)]
    dots: bool,
    /// x and y; no y is a gap.
    points: Vec<(f64, Option<f64>)>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Channel {
    name: String,
    /// Stamp \[ns\] and value of each message.
    raw: Vec<(i64, f64)>,
    /// Target \[ns\], value and age \[ns\] of each tensor.
    aligned: Vec<(i64, f64, i64)>,
}

/// Makes the page of such a report.
///
/// # Errors
/// The file cannot be read, is too large, or is not of this format.
pub(super) fn page(path: &Path) -> Result<Page, ViewError> {
    let io = |source| ViewError::Io { path: path.to_owned(), source };
    let size = std::fs::metadata(path).map_err(io)?.len();
    let made = match size > MAX_BYTES {
        true => Err(format!("expected at most {MAX_BYTES} bytes, found {size}")),
        false => page_of(&std::fs::read(path).map_err(io)?),
    };
    made.map_err(|why| ViewError::Written { path: path.to_owned(), why })
}

/// Makes the page from the content of the file, or says what is wrong with it.
fn page_of(bytes: &[u8]) -> Result<Page, String> {
    let read: Written = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    if read.robocache_report != VERSION {
        return Err(format!("expected version {VERSION}, found {}", read.robocache_report));
    }
    let track = read.track()?;
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
    let tracks = std::slice::from_ref(&track);
    let mut sections = vec![pictures::cameras(tracks), pictures::grids(tracks)];
    for part in &read.sections {
        let mut section = Section::new(&part.title);
        for block in &part.blocks {
            block.write(&track, &mut section)?;
        }
        sections.push(section);
    }
    sections.push(parts::layout(&track));
    sections.into_iter().filter(|section| !section.is_empty()).for_each(|section| {
        page.add(section);
    });
    Ok(page)
}

impl Written {
    /// Reads the tensors.
    fn track(&self) -> Result<Track, String> {
        let decode = |key: &str, text: &String| {
            STANDARD.decode(text).map_err(|error| format!("{key}: expected base64: {error}"))
        };
        let read = |text: &String| {
            let expected = "info: expected a robocache_ros/msg/FusedTensorInfo";
            TensorInfo::read(&decode("info", text)?).map_err(|error| format!("{expected}: {error}"))
        };
        let mut track = Track::new(self.info.as_ref().map(read).transpose()?);
        for text in &self.tensors {
            let tensor = decode("tensors", text)?;
            if let Some(at) = track.note(&tensor) {
                track.keep(at, &tensor);
            }
        }
        Ok(track)
    }
}

impl Block {
    /// Adds it to a section, or says what is wrong with it.
    fn write(&self, track: &Track, section: &mut Section) -> Result<(), String> {
        match self {
            Block::Text(text) => _ = section.text(text),
            Block::Table { head, texts, rows } => {
                let mut table = Table::new(head).texts(*texts);
                for row in rows {
                    if row.len() != head.len() {
                        let expected = head.len();
                        let found = row.len();
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
            Block::Histogram { title, x, y, caption, values, marks } => {
                let mut histogram = Histogram::of(title, x, y, values);
                for (name, value) in marks {
                    histogram.mark(name, *value);
                }
                section.figure(&histogram, caption);
            }
            Block::Compared { stream, value, channels } => {
                let curves: Vec<_> = channels.iter().map(Channel::compared).collect();
                let info = track.info.as_ref().and_then(|info| info.segment(stream));
                let lag_ns = info.map(|info| info.lag_ns);
                let interpolates = info.is_some_and(|info| info.max_gap_ns > 0);
                section.heading(stream, "");
                if !raw::write(section, &curves, value, lag_ns, interpolates) {
                    section.text("No raw messages were recorded.");
                }
            }
        }
        Ok(())
    }
}

impl Channel {
    fn compared(&self) -> Compared {
        let at = Stamp::from_nanos;
        Compared {
            name: self.name.clone(),
            raw: self.raw.iter().map(|(stamp, value)| (at(*stamp), *value)).collect(),
            aligned: self.aligned.iter().map(|(to, value, age)| (at(*to), *value, *age)).collect(),
        }
    }
}

#[cfg(test)]
mod tests;
