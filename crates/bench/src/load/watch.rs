//! A policy that takes every tensor and notes how it came.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::Args;
use robocache_core::cdr::{CdrError, Reader};
use robocache_core::message::{MessageError, SegmentRead, TensorRead};
use robocache_rcl::{Qos, SerializedMessage, Subscription, Wake};
use serde::Serialize;

use super::{LoadError, node};

/// Topic and times of a watch.
#[derive(Args)]
pub(crate) struct WatchOptions {
    /// Topic of the tensors
    #[arg(long, default_value = "/fused_tensor")]
    topic: String,
    /// How long to watch, from the first tensor on [s]
    #[arg(long, default_value_t = 60.0)]
    seconds: f64,
    /// How long to wait for the first tensor [s]
    #[arg(long, default_value_t = 60.0)]
    patience_s: f64,
}

/// Quantiles of a set of durations \[ms\]; all 0 if it is empty.
#[derive(Debug, Default, Serialize)]
struct Quantiles {
    count: usize,
    p50_ms: f64,
    p99_ms: f64,
    max_ms: f64,
}

/// Tensors that a watch saw.
#[derive(Debug, Serialize)]
struct SeenTensors {
    tensors: u64,
    /// Ticks between two tensors that never came.
    missed: u64,
    /// From a tick's instant to the arrival of its tensor.
    latency: Quantiles,
    /// By segment: the age of the newest step of each tick, lag included, where it is valid.
    age: BTreeMap<String, Quantiles>,
    /// By segment: the share of valid steps.
    valid_share: BTreeMap<String, f64>,
    /// The node's last diagnostics: values by part and key.
    diagnostics: BTreeMap<String, BTreeMap<String, String>>,
}

/// Watches for the given time, and prints what was seen.
pub(crate) fn run(options: &WatchOptions) -> Result<(), LoadError> {
    let node = node("robocache_watch")?;
    let mut tensors =
        node.subscribe(&options.topic, "robocache_ros/msg/FusedTensor", Qos::reliable(5))?;
    let mut reports =
        node.subscribe("/diagnostics", "diagnostic_msgs/msg/DiagnosticArray", Qos::reliable(5))?;
    let wake = Arc::new(Wake::default());
    tensors.tell(&wake)?;
    reports.tell(&wake)?;
    let mut message = SerializedMessage::default();
    let mut notes = Notes::default();
    let mut end = Instant::now() + Duration::from_secs_f64(options.patience_s);
    while Instant::now() < end {
        wake.wait(Duration::from_millis(50));
        while tensors.take(&mut message)?.is_some() {
            if notes.tensors == 0 {
                end = Instant::now() + Duration::from_secs_f64(options.seconds);
            }
            let tensor = TensorRead::read(&message).map_err(|source| error(&tensors, source))?;
            notes.note(&tensor);
        }
        while reports.take(&mut message)?.is_some() {
            notes
                .diagnostics
                .extend(diagnostics(&message).map_err(|source| error(&reports, source))?);
        }
    }
    println!("{}", serde_json::to_string(&notes.seen())?);
    Ok(())
}

fn error(subscription: &Subscription, source: impl Into<MessageError>) -> LoadError {
    LoadError::Message { topic: subscription.topic(), source: source.into() }
}

#[derive(Default)]
struct Notes {
    tensors: u64,
    missed: u64,
    last: Option<u64>,
    latency_ns: Vec<i64>,
    age_ns: BTreeMap<String, Vec<i64>>,
    /// Valid steps and all steps.
    steps: BTreeMap<String, (u64, u64)>,
    diagnostics: BTreeMap<String, BTreeMap<String, String>>,
}

impl Notes {
    fn note(&mut self, tensor: &TensorRead<'_>) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.tensors += 1;
        self.missed += self.last.map_or(0, |last| tensor.tick.saturating_sub(last + 1));
        self.last = Some(tensor.tick);
        self.latency_ns.push(now.as_nanos() as i64 - tensor.stamp.nanos());
        for SegmentRead { name, valid, targets, ages_ns, .. } in &tensor.segments {
            let steps = self.steps.entry(name.clone()).or_default();
            steps.0 += valid.iter().filter(|valid| **valid != 0).count() as u64;
            steps.1 += valid.len() as u64;
            if let (Some(1), Some(target), Some(age_ns)) =
                (valid.last(), targets.last(), ages_ns.last())
            {
                // The tick minus the stamp of the newest row used.
                let age_ns = age_ns.saturating_add(tensor.stamp.since(*target));
                self.age_ns.entry(name.clone()).or_default().push(age_ns);
            }
        }
    }

    fn seen(self) -> SeenTensors {
        let share = |(valid, all): (u64, u64)| valid as f64 / all.max(1) as f64;
        SeenTensors {
            tensors: self.tensors,
            missed: self.missed,
            latency: quantiles(self.latency_ns),
            age: self.age_ns.into_iter().map(|(name, ages)| (name, quantiles(ages))).collect(),
            valid_share: self.steps.into_iter().map(|(name, steps)| (name, share(steps))).collect(),
            diagnostics: self.diagnostics,
        }
    }
}

fn quantiles(mut nanos: Vec<i64>) -> Quantiles {
    nanos.sort_unstable();
    let Some(last) = nanos.len().checked_sub(1) else { return Quantiles::default() };
    let at = |share: f64| nanos[((last as f64 * share).ceil() as usize).min(last)] as f64 / 1e6;
    Quantiles { count: nanos.len(), p50_ms: at(0.5), p99_ms: at(0.99), max_ms: at(1.0) }
}

fn text(reader: &mut Reader<'_>) -> Result<String, CdrError> {
    Ok(String::from_utf8_lossy(reader.string_bytes()?).into_owned())
}

type Values = BTreeMap<String, String>;

/// Reads a `diagnostic_msgs/msg/DiagnosticArray`. A part's own words are under the key `message`.
fn diagnostics(message: &[u8]) -> Result<BTreeMap<String, Values>, CdrError> {
    let mut reader = Reader::new(message)?;
    reader.i32()?;
    reader.u32()?;
    reader.string_bytes()?;
    let count = reader.u32()?;
    (0..count).map(|_| status(&mut reader)).collect()
}

fn status(reader: &mut Reader<'_>) -> Result<(String, Values), CdrError> {
    reader.u8()?;
    let name = text(reader)?;
    let words = text(reader)?;
    reader.string_bytes()?;
    let count = reader.u32()?;
    let pair = |_| Ok((text(reader)?, text(reader)?));
    let mut values = (0..count).map(pair).collect::<Result<Values, _>>()?;
    values.insert("message".to_owned(), words);
    let part = name.split_once(": ").map_or(name.clone(), |(_, part)| part.to_owned());
    Ok((part, values))
}

#[cfg(test)]
mod tests;
