//! Tables for a terminal.

use std::fmt::{Formatter, Result};

/// Writes a table. A column is as wide as its widest cell, and two spaces separate columns.
pub fn write<const N: usize>(f: &mut Formatter<'_>, rows: &[[String; N]]) -> Result {
    let width =
        |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    for row in rows {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
        writeln!(f, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    Ok(())
}
