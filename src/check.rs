//! The report of `robocache check`: the streams and the tensor of a configuration.

pub mod shared_memory;
mod stream;

use std::fmt::{self, Display};

use serde::Serialize;

pub use shared_memory::SharedMemory;
pub use stream::{InputReport, StreamReport};

use crate::layout::{Layout, Segment};
use crate::spec::{Config, InputId};
use crate::time::NANOS_PER_MS;

/// A configuration with all defaults, and its tensor. Its text is a table for people. Its
/// serialized form has everything, so that a program needs no defaults of its own.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Rate of the ticks \[Hz\].
    pub rate_hz: f64,
    /// Nanoseconds between ticks.
    pub period_ns: i64,
    /// Distance of the newest target from its tick \[ns\].
    pub lag_ns: i64,
    /// `header` or `receive`.
    pub timeline: &'static str,
    /// Frame of the tensor.
    pub base_frame: String,
    /// Topic of the tensor, before remapping.
    pub output_topic: String,
    /// The streams, with every default filled in.
    pub streams: Vec<StreamReport>,
    /// One row per stream, in packed order.
    pub segments: Vec<SegmentReport>,
    /// Bytes of one tick's tensor.
    pub bytes_per_tick: usize,
    /// Bytes of all tensors in one second.
    pub bytes_per_second: f64,
    /// Memory of all rings \[bytes\].
    pub ring_bytes: usize,
    /// What Fast DDS needs, in this node and in the publishers of its inputs.
    pub shared_memory: SharedMemory,
}

/// One stream and its segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SegmentReport {
    /// Name of the stream and the segment.
    pub name: String,
    /// ROS type of the messages.
    #[serde(rename = "type")]
    pub ros_type: &'static str,
    /// Topics of its inputs, before remapping.
    pub topics: Vec<String>,
    /// `hold`, `nearest`, `linear` or `slerp`.
    pub strategy: &'static str,
    /// Shape of the segment; the first dimension is the history.
    pub shape: Vec<usize>,
    /// Element type.
    pub dtype: &'static str,
    /// Start in the packed tensor \[bytes\].
    pub byte_offset: usize,
    /// Length in the packed tensor \[bytes\].
    pub byte_len: usize,
    /// Rows that each ring holds.
    pub ring_rows: usize,
    /// Memory of the rows and the spare slots, with 4 bytes per element \[bytes\].
    pub ring_bytes: usize,
    /// Target times relative to the tick \[ns\], oldest first. None is positive.
    pub targets_ns: Vec<i64>,
}

impl Report {
    /// Makes the report of `config`.
    pub fn new(config: &Config) -> Report {
        let layout = Layout::new(config);
        let segment = |segment: &Segment| SegmentReport::new(config, segment);
        let segments: Vec<_> = layout.segments().iter().map(segment).collect();
        Report {
            rate_hz: config.rate_hz,
            period_ns: config.grid.period_ns(),
            lag_ns: config.lag_ns,
            timeline: config.timeline.name(),
            base_frame: config.base_frame.clone(),
            output_topic: config.output_topic.clone(),
            streams: config.stream_ids().map(|id| StreamReport::new(config, id)).collect(),
            bytes_per_tick: layout.byte_len(),
            bytes_per_second: layout.byte_len() as f64 * config.rate_hz,
            ring_bytes: segments.iter().map(|segment| segment.ring_bytes).sum(),
            segments,
            shared_memory: SharedMemory::new(config),
        }
    }
}

impl SegmentReport {
    fn new(config: &Config, segment: &Segment) -> SegmentReport {
        let spec = config.stream(segment.stream);
        let lag_ns = config.lag_ns;
        let inputs: Vec<InputId> = config.inputs_of(segment.stream).collect();
        let topics = inputs.iter().map(|input| config.input(*input).topic.clone()).collect();
        let ros_type = inputs.first().map_or("", |input| config.input(*input).ros_type);
        let steps = spec.history_steps as i64;
        SegmentReport {
            name: spec.name.clone(),
            ros_type,
            topics,
            strategy: spec.strategy().name(),
            shape: segment.shape.clone(),
            dtype: segment.dtype.name(),
            byte_offset: segment.byte_offset,
            byte_len: segment.byte_len,
            ring_rows: spec.ring_rows,
            ring_bytes: (spec.ring_rows + 1) * segment.step_len * size_of::<f32>(),
            targets_ns: (1..=steps).map(|j| -lag_ns - (steps - j) * spec.history_step_ns).collect(),
        }
    }

    /// Returns the target times in words, for the table.
    fn targets(&self) -> String {
        let ago = |ns: i64| format!("{} ms", -ns as f64 / NANOS_PER_MS as f64);
        match self.targets_ns.as_slice() {
            [first, second, .., last] => format!(
                "tick - {} to tick - {}, {} apart",
                ago(*first),
                ago(*last),
                ago(first - second)
            ),
            [first, last] => format!("tick - {} and tick - {}", ago(*first), ago(*last)),
            [only] => format!("tick - {}", ago(*only)),
            [] => String::new(),
        }
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let row = |segment: &SegmentReport| {
            let dims: Vec<_> = segment.shape.iter().map(usize::to_string).collect();
            [
                segment.name.clone(),
                segment.ros_type.into(),
                segment.topics.join(" "),
                segment.strategy.into(),
                format!("[{}]", dims.join(", ")),
                segment.dtype.into(),
                segment.byte_len.to_string(),
                segment.byte_offset.to_string(),
                format!("{} ({})", segment.ring_rows, bytes(segment.ring_bytes as f64)),
                segment.targets(),
            ]
        };
        let head = [
            "segment",
            "type",
            "topic",
            "strategy",
            "shape",
            "dtype",
            "bytes",
            "offset",
            "ring rows",
            "target times",
        ];
        let rows: Vec<_> =
            [head.map(String::from)].into_iter().chain(self.segments.iter().map(row)).collect();
        table(f, &rows)?;
        writeln!(f)?;
        writeln!(f, "output      {} in {}", self.output_topic, self.base_frame)?;
        writeln!(
            f,
            "ticks       {} Hz, every {} ns, by {} stamps",
            self.rate_hz, self.period_ns, self.timeline
        )?;
        writeln!(
            f,
            "tensor      {} bytes per tick, {:.1} MB/s",
            self.bytes_per_tick,
            self.bytes_per_second / 1e6
        )?;
        writeln!(f, "rings       {} in memory", bytes(self.ring_bytes as f64))?;
        self.shared_memory.fmt(f)
    }
}

/// Writes a table. A column is as wide as its widest cell, and two spaces separate columns.
fn table<const N: usize>(f: &mut fmt::Formatter<'_>, rows: &[[String; N]]) -> fmt::Result {
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    for row in rows {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
        writeln!(f, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    Ok(())
}

fn bytes(count: f64) -> String {
    match count {
        _ if count >= 1e9 => format!("{:.1} GB", count / 1e9),
        _ if count >= 1e6 => format!("{:.1} MB", count / 1e6),
        _ => format!("{:.1} kB", count / 1e3),
    }
}
