//! Reports: one HTML file with tables, pictures and charts, which needs no network and no script.
//!
//! A [`Page`] has tiles and [`Section`]s. A section has paragraphs, [`Table`]s, [`Picture`]s and [`Figure`]s:
//! a [`Plot`] of lines, steps and dots, a [`Histogram`], a [`Timeline`] of what was when, a [`HeatMap`].
//!
//! The writer keeps these rules, whatever it is given:
//!
//! - Every text is escaped: names of topics and files are not trusted.
//! - The same input gives the same bytes. There is no date that the caller did not write.
//! - The size is bounded: a curve keeps the first, lowest, highest and last point of each of [`COLUMNS`]
//!   columns, a large picture becomes smaller, and lists have a largest length.
//! - Charts are as wide as the page, and their text keeps its size. Each has a name for screen readers.
//! - Colours follow the reader's light or dark theme.

mod chart;
mod heat_map;
mod histogram;
mod html;
mod page;
mod picture;
mod plot;
mod scale;
mod section;
mod table;
mod thin;
mod timeline;

pub use chart::Figure;
pub use heat_map::HeatMap;
pub use histogram::Histogram;
pub use page::Page;
pub use picture::Picture;
pub use plot::Plot;
pub use scale::{counted, number, significant};
pub use section::Section;
pub use table::Table;
pub use timeline::{Timeline, Tone};

/// Columns of a chart: the width of its coordinates. More detail than this is thinned out.
pub const COLUMNS: usize = 1000;

#[cfg(test)]
mod tests;
