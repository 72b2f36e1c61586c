//! Reports of a live node, from what a program beside it has measured.

use std::collections::BTreeMap;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use super::raw::{self, Compared};
use super::source::ViewError;
use super::track::Track;
use super::{parts, pictures};
use crate::report::{Histogram, Page, Section, Table, number, significant};
use robocache_core::message::TensorInfo;
use robocache_ops::time::Stamp;

/// Most bytes of a file of measurements.
const MAX_BYTES: u64 = 256 << 20;
/// The version of the format.
const VERSION: u32 = 1;

/// What a program beside a node has measured: the content of a JSON file. Times are in nanoseconds.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Measurements {
    /// 1.
    robocache_measurements: u32,
    title: String,
    /// Lines below the title.
    #[serde(default)]
    about: Vec<String>,
    /// Why the run failed; empty if it passed.
    #[serde(default)]
    problems: Vec<String>,
    /// Rate of the ticks \[Hz\].
    rate_hz: f64,
    /// The measured window in Unix time.
    window_ns: [i64; 2],
    /// Distinct ticks in the window: received, and those that there were.
    ticks: [u64; 2],
    /// From a tick's instant to the subscriber's callback, for each tick of the window.
    #[serde(default)]
    latencies_ns: Vec<i64>,
    /// The newest diagnostics of the node's ticks, as published: key to text.
    #[serde(default)]
    node: BTreeMap<String, String>,
    /// Those of each stream, in any order.
    #[serde(default)]
    streams: BTreeMap<String, BTreeMap<String, String>>,
    /// A serialized `FusedTensorInfo`, in base64.
    #[serde(default)]
    info: Option<String>,
    /// Some serialized `FusedTensor`s, in base64.
    #[serde(default)]
    tensors: Vec<String>,
    /// Channels as they were published, and as the tensors had them.
    #[serde(default)]
    curves: Vec<Curve>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Curve {
    /// The segment.
    stream: String,
    name: String,
    /// What its values are, with the unit: "position \[rad\]".
    value: String,
    /// Stamp and value of each message.
    raw: Vec<(i64, f64)>,
    /// Target, value and age of each tensor.
    aligned: Vec<(i64, f64, i64)>,
}

/// Reads a file that another program has written.
///
/// # Errors
/// It cannot be read, or is too large.
pub fn read(path: &Path) -> Result<Vec<u8>, ViewError> {
    let io = |source| ViewError::Io { path: path.to_owned(), source };
    let size = std::fs::metadata(path).map_err(io)?.len();
    if size > MAX_BYTES {
        let why = format!("expected at most {MAX_BYTES} bytes, found {size}");
        return Err(ViewError::Measurements { path: path.to_owned(), why });
    }
    std::fs::read(path).map_err(io)
}

/// Makes the report of measurements, the content of a file.
///
/// # Errors
/// It is not of this format.
pub fn page(path: &Path, bytes: &[u8]) -> Result<Page, ViewError> {
    let wrong = |why: String| ViewError::Measurements { path: path.to_owned(), why };
    let read: Measurements =
        serde_json::from_slice(bytes).map_err(|error| wrong(error.to_string()))?;
    if read.robocache_measurements != VERSION {
        let found = read.robocache_measurements;
        return Err(wrong(format!("expected version {VERSION}, found {found}")));
    }
    let decode = |key: &str, text: &String| {
        STANDARD.decode(text).map_err(|error| wrong(format!("{key}: expected base64: {error}")))
    };
    let info = match &read.info {
        Some(text) => Some(TensorInfo::read(&decode("info", text)?).map_err(|error| {
            wrong(format!("info: expected a robocache_ros/msg/FusedTensorInfo: {error}"))
        })?),
        None => None,
    };
    let mut track = Track::new(info);
    for text in &read.tensors {
        let tensor = decode("tensors", text)?;
        if let Some(at) = track.note(&tensor) {
            track.keep(at, &tensor);
        }
    }
    Ok(read.page(&track))
}

impl Measurements {
    fn page(&self, track: &Track) -> Page {
        let mut page = Page::new(&self.title);
        self.about.iter().for_each(|line| {
            page.about(line);
        });
        let [received, expected] = self.ticks;
        if self.problems.is_empty() {
            page.passed(&format!("Passed: {received} of {expected} ticks arrived."));
        } else {
            page.failed("Failed", &self.problems);
        }
        let mut latencies: Vec<f64> = self.latencies_ns.iter().map(|ns| *ns as f64 / 1e6).collect();
        latencies.sort_by(f64::total_cmp);
        self.tiles(track, &latencies, &mut page);
        let sections = [
            pictures::cameras(std::slice::from_ref(track)),
            pictures::grids(std::slice::from_ref(track)),
            self.compared(track),
            self.latency(&latencies),
            self.table(track),
            parts::layout(track),
        ];
        sections.into_iter().filter(|section| !section.is_empty()).for_each(|section| {
            page.add(section);
        });
        page
    }

    fn tiles(&self, track: &Track, latencies: &[f64], page: &mut Page) {
        let seconds = (self.window_ns[1].saturating_sub(self.window_ns[0])) as f64 / 1e9;
        let rate = self.ticks[0] as f64 / seconds;
        let wanted = significant(self.rate_hz, 5);
        page.tile(&format!("{} Hz", number(rate, 1)), &format!("received, of {wanted} Hz"));
        let node = |key| value(&self.node, key);
        page.tile(&ms(node("total_latency_p50_ms")), "tick latency p50");
        page.tile(&ms(node("total_latency_p99_ms")), "tick latency p99");
        page.tile(&ms(quantile(latencies, 0.5)), "tick to policy p50");
        page.tile(&text(node("overruns"), 0, ""), "overruns");
        if track.tensor_bytes == 0 {
            return;
        }
        let size = track.tensor_bytes as f64 / 1e6;
        let flow = format!("per tick, {} MB/s", number(size * self.rate_hz, 0));
        page.tile(&format!("{} MB", number(size, 2)), &flow);
    }

    /// Raw against aligned curves, stream by stream.
    fn compared(&self, track: &Track) -> Section {
        let mut section = Section::new("Raw against aligned");
        let mut streams: Vec<&str> =
            self.curves.iter().map(|curve| curve.stream.as_str()).collect();
        streams.dedup();
        for stream in streams {
            let of: Vec<&Curve> =
                self.curves.iter().filter(|curve| curve.stream == stream).collect();
            let curves: Vec<Compared> = of.iter().map(|curve| curve.compared()).collect();
            let info = track.info.as_ref().and_then(|info| info.segment(stream));
            let lag_ns = info.map(|info| info.lag_ns);
            let interpolates = info.is_some_and(|info| info.max_gap_ns > 0);
            section.heading(stream, "");
            if !raw::write(&mut section, &curves, &of[0].value, lag_ns, interpolates) {
                section.text("No raw messages were recorded.");
            }
        }
        section
    }

    fn latency(&self, latencies: &[f64]) -> Section {
        let mut section = Section::new("Latency");
        if latencies.is_empty() {
            section.text("No tensor arrived in the measured window.");
            return section;
        }
        let [p50, p99, max] = [0.5, 0.99, 1.0].map(|share| quantile(latencies, share));
        let label = "from the tick's instant to the subscriber's callback [ms]";
        let mut histogram = Histogram::of("latency histogram", label, "ticks", latencies);
        for (name, value) in [("p50", p50), ("p99", p99)] {
            histogram.mark(&format!("{name} {}", ms(value)), value.unwrap_or_default());
        }
        let caption = format!(
            "Latency of {} ticks at a subscriber beside the policy; the slowest 0.2 % share the last bar",
            latencies.len()
        );
        section.figure(&histogram, &caption);
        let mut table = Table::new(&["latency [ms]", "p50", "p99", "max"]);
        let mut row = |what: &str, values: [Option<f64>; 3]| {
            let [p50, p99, max] = values.map(|value| text(value, 2, ""));
            table.row(&[what, &p50, &p99, &max]);
        };
        let of = |prefix: &str| {
            ["p50", "p99", "max"].map(|which| value(&self.node, &format!("{prefix}_{which}_ms")))
        };
        row("tick to callback", [p50, p99, max]);
        row("tick to published, whole run", of("total_latency"));
        row("tick to published, last second", of("latency"));
        section.table(&table);
        section
    }

    /// The newest diagnostics of each stream.
    fn table(&self, track: &Track) -> Section {
        let mut section = Section::new("Streams");
        let head =
            ["stream", "topic", "type", "strategy", "rate", "age", "valid", "received", "drops"];
        let mut table = Table::new(&head).texts(4);
        let infos = track.info.iter().flat_map(|info| &info.segments);
        for info in infos.filter(|info| info.encoder != "voxel_coordinates") {
            let empty = BTreeMap::new();
            let values = self.streams.get(&info.name).unwrap_or(&empty);
            let of = |key| value(values, key);
            table.row(&[
                info.name.clone(),
                info.topics.join(" "),
                info.ros_types.first().cloned().unwrap_or_default(),
                info.strategy.clone(),
                text(of("rate_hz"), 1, " Hz"),
                text(of("age_ms").filter(|age| *age < NO_AGE_MS), 1, " ms"),
                text(of("valid_share").map(|share| 100.0 * share), 1, " %"),
                text(of("received"), 0, ""),
                drops(values),
            ]);
        }
        if !table.is_empty() {
            section.table(&table);
        }
        section
    }
}

/// An age above this means "no row" \[ms\].
const NO_AGE_MS: f64 = 1e9;

impl Curve {
    fn compared(&self) -> Compared {
        let at = Stamp::from_nanos;
        Compared {
            name: self.name.clone(),
            raw: self.raw.iter().map(|(stamp, value)| (at(*stamp), *value)).collect(),
            aligned: self.aligned.iter().map(|(to, value, age)| (at(*to), *value, *age)).collect(),
        }
    }
}

/// A value of diagnostics as a number.
fn value(values: &BTreeMap<String, String>, key: &str) -> Option<f64> {
    values.get(key)?.trim().parse().ok().filter(|value: &f64| value.is_finite())
}

fn text(value: Option<f64>, decimals: usize, unit: &str) -> String {
    value.map_or("\u{2013}".to_owned(), |value| number(value, decimals) + unit)
}

fn ms(value: Option<f64>) -> String {
    text(value, 2, " ms")
}

fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    Some(sorted[(last as f64 * share).round() as usize])
}

/// The drops by reason, such as "3 late, 1 malformed"; their number if there are none.
fn drops(values: &BTreeMap<String, String>) -> String {
    let reasons = values.keys().filter_map(|key| key.strip_prefix("dropped."));
    let count = |reason: &str| value(values, &format!("dropped.{reason}"));
    let told = reasons.filter_map(|reason| {
        let count = count(reason).filter(|count| *count > 0.0)?;
        Some(format!("{} {reason}", number(count, 0)))
    });
    let told = told.collect::<Vec<_>>().join(", ");
    if told.is_empty() { text(value(values, "dropped"), 0, "") } else { told }
}
