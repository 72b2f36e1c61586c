//! The report of `robocache check` as tables for people.

use std::fmt::{self, Display};

use super::stream::joints;
use super::{Report, SegmentReport};
use crate::layout::{Holds, Segment};
use crate::spec::Config;
use robocache_ops::time::NANOS_PER_MS;

/// Columns of a terminal that lists fit in. Names of the user's choice may need more.
const COLUMNS: usize = 120;
/// Columns of the label of a sum.
pub(super) const LABEL: usize = 12;

/// Contents of a segment's row, in words.
pub(super) fn contents(config: &Config, segment: &Segment) -> String {
    let spec = config.stream(segment.stream);
    if segment.holds == Holds::Coordinates {
        return "z, y, x of each voxel".to_owned();
    }
    let plain = spec.encoder.as_vector().is_some_and(|vector| vector.outputs.is_empty());
    let inputs = config.inputs_of(segment.stream).map(|id| config.input(id));
    let joints = plain.then(|| joints(inputs)).flatten();
    let joints = joints.and_then(|(fields, joints)| in_words(&fields, &joints));
    joints.unwrap_or_else(|| spec.encoder.contents(spec.dtype))
}

/// The joints in the order of the row: those of the first field, then those of the next.
fn in_words(fields: &[String], joints: &[String]) -> Option<String> {
    let (first, others) = fields.split_first()?;
    let others = others.iter().map(|field| format!("; {field} of the same"));
    Some(format!("{first} of {}", joints.join(", ")) + &others.collect::<String>())
}

impl SegmentReport {
    /// Returns where its messages come from, for the table: a line per input.
    fn sources(&self) -> impl Iterator<Item = [String; 5]> + use<'_> {
        let inputs = self.types.iter().zip(&self.topics).zip(&self.timelines);
        inputs.enumerate().map(|(input, ((ros_type, topic), timeline))| {
            let first = |words: String| if input == 0 { words } else { String::new() };
            [
                first(self.name.clone()),
                ros_type.clone(),
                topic.clone(),
                (*timeline).into(),
                first(format!("{} ({})", self.ring_rows, bytes(self.ring_bytes as f64))),
            ]
        })
    }

    /// Returns the target times in words, for the table.
    fn targets(&self) -> String {
        let ahead = self.targets_ns.len() - self.horizon_steps.min(self.targets_ns.len());
        // The present target is of the history, and the horizon is what lies after it.
        match self.targets_ns.split_at((ahead + 1).min(self.targets_ns.len())) {
            (history, []) => series(history),
            ([present], horizon) => series(&[&[*present], horizon].concat()),
            (history, horizon) => format!("{}; {}", series(history), series(horizon)),
        }
    }
}

/// Returns target times at equal distances in words.
pub(super) fn series(targets_ns: &[i64]) -> String {
    let ms = |ns: i64| ns as f64 / NANOS_PER_MS as f64;
    let at = |ns: i64| match ns {
        1.. => format!("tick + {} ms", ms(ns)),
        _ => format!("tick - {} ms", ms(-ns)),
    };
    match targets_ns {
        [first, second, .., last] => {
            format!("{} to {}, {} ms apart", at(*first), at(*last), ms(second - first))
        }
        [first, last] => format!("{} and {}", at(*first), at(*last)),
        [only] => at(*only),
        [] => String::new(),
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let layout = |segment: &SegmentReport| {
            let dims: Vec<_> = segment.shape.iter().map(usize::to_string).collect();
            [
                segment.name.clone(),
                format!("[{}]", dims.join(", ")),
                segment.dtype.into(),
                segment.byte_len.to_string(),
                segment.byte_offset.to_string(),
                segment.strategy.into(),
                segment.targets(),
            ]
        };
        table(
            f,
            ["segment", "shape", "dtype", "bytes", "offset", "strategy", "target times"],
            self.segments.iter().map(layout),
        )?;
        writeln!(f)?;
        let sources = self.segments.iter().flat_map(SegmentReport::sources);
        table(f, ["segment", "type", "topic", "timeline", "ring rows"], sources)?;
        writeln!(f)?;
        self.contents(f)?;
        writeln!(f)?;
        self.sums(f)?;
        self.shared_memory.fmt(f)?;
        let Some(commands) = &self.commands else { return Ok(()) };
        writeln!(f)?;
        commands.fmt(f)
    }
}

impl Report {
    /// Writes what the rows hold, with as many lines as that needs.
    fn contents(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.segments.iter().map(|segment| segment.name.as_str());
        let width = names.chain(["segment"]).map(|name| name.chars().count()).max().unwrap_or(0);
        let mut row = |name: &str, contents: &str| {
            for (at, line) in
                wrapped(contents, COLUMNS.saturating_sub(width + 2)).iter().enumerate()
            {
                let name = if at == 0 { name } else { "" };
                writeln!(f, "{name:<width$}  {line}")?;
            }
            Ok(())
        };
        row("segment", "contents, in the order of a row")?;
        self.segments.iter().try_for_each(|segment| row(&segment.name, &segment.contents))
    }

    /// Rates and memory, a line each.
    fn sums(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "output      {} in {}", self.output_topic, self.base_frame)?;
        writeln!(f, "ticks       {} Hz, every {} ns", self.rate_hz, self.period_ns)?;
        writeln!(
            f,
            "tensor      {} bytes per tick, {:.1} MB/s",
            self.bytes_per_tick,
            self.bytes_per_second / 1e6
        )?;
        for stream in &self.streams {
            if let Some(camera) = &stream.camera_info {
                writeln!(f, "undistort   {} by {}", stream.name, camera.topic)?;
            }
        }
        writeln!(f, "rings       {} in memory", bytes(self.ring_bytes as f64))?;
        for stream in &self.streams {
            if let Some(kept) = stream.kept_bytes {
                let most = bytes(kept as f64);
                writeln!(f, "clouds      at most {most} in memory, kept for {}", stream.name)?;
            }
        }
        let [gpu, pinned] = [self.gpu_bytes, self.pinned_bytes].map(|count| bytes(count as f64));
        writeln!(f, "messages    {gpu} on a GPU that encodes, {pinned} in pinned memory")?;
        // Below the first line, the others begin where its words do.
        let words = wrapped(&self.recording.words(), COLUMNS - LABEL);
        let labels = ["recording"].into_iter().chain(std::iter::repeat(""));
        words.iter().zip(labels).try_for_each(|(line, label)| writeln!(f, "{label:<LABEL$}{line}"))
    }
}

/// Writes a table below its head.
pub(super) fn table<const N: usize>(
    f: &mut fmt::Formatter<'_>,
    head: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
) -> fmt::Result {
    let rows: Vec<_> = [head.map(String::from)].into_iter().chain(rows).collect();
    crate::table::write(f, &rows)
}

/// Breaks a text into lines of at most `columns` characters. A longer word has a line of its own.
fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let open = lines.len() - 1;
        let line = &mut lines[open];
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= columns {
            *line = format!("{line} {word}");
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

/// Bytes in words.
pub(super) fn bytes(count: f64) -> String {
    match count {
        _ if count >= 1e9 => format!("{:.1} GB", count / 1e9),
        _ if count >= 1e6 => format!("{:.1} MB", count / 1e6),
        _ => format!("{:.1} kB", count / 1e3),
    }
}
