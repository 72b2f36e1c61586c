//! A policy that takes every tensor and notes how it came.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::Args;
use robocache_core::cdr::{CdrError, Reader};
use robocache_rcl::{Qos, SerializedMessage, Subscription, WaitSet, Waitable};
use serde::Serialize;

use super::{LoadError, node};

/// What to watch.
#[derive(Args)]
pub struct Options {
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

/// What was seen.
#[derive(Debug, Serialize)]
struct Seen {
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

/// A tensor's head.
#[derive(Debug, Default)]
struct Head {
    stamp_ns: i64,
    tick: u64,
    segments: Vec<Segment>,
}

#[derive(Debug)]
struct Segment {
    name: String,
    valid: Vec<u8>,
    /// Tick minus the stamp of the newest row used, by step \[ns\].
    age_ns: Vec<i64>,
}

/// Watches for the given time, and prints what was seen.
pub fn run(options: &Options) -> Result<(), LoadError> {
    let node = node("robocache_watch")?;
    let tensors =
        node.subscribe(&options.topic, "robocache_ros/msg/FusedTensor", Qos::reliable(5))?;
    let reports =
        node.subscribe("/diagnostics", "diagnostic_msgs/msg/DiagnosticArray", Qos::reliable(5))?;
    let mut set = WaitSet::new(&node.context())?;
    let mut message = SerializedMessage::default();
    let mut notes = Notes::default();
    let mut end = Instant::now() + Duration::from_secs_f64(options.patience_s);
    while Instant::now() < end {
        let waitables = [Waitable::from(&tensors), Waitable::from(&reports)];
        set.wait(waitables, Duration::from_millis(50))?;
        tensors.events().take()?;
        reports.events().take()?;
        while tensors.take(&mut message)?.is_some() {
            if notes.tensors == 0 {
                end = Instant::now() + Duration::from_secs_f64(options.seconds);
            }
            let head = head(&message).map_err(|source| error(&tensors, source))?;
            notes.note(&head);
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

fn error(subscription: &Subscription, source: CdrError) -> LoadError {
    LoadError::Message { topic: subscription.topic(), source }
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
    fn note(&mut self, head: &Head) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.tensors += 1;
        self.missed += self.last.map_or(0, |last| head.tick.saturating_sub(last + 1));
        self.last = Some(head.tick);
        self.latency_ns.push(now.as_nanos() as i64 - head.stamp_ns);
        for Segment { name, valid, age_ns } in &head.segments {
            let steps = self.steps.entry(name.clone()).or_default();
            steps.0 += valid.iter().filter(|valid| **valid != 0).count() as u64;
            steps.1 += valid.len() as u64;
            if let (Some(1), Some(age)) = (valid.last(), age_ns.last()) {
                self.age_ns.entry(name.clone()).or_default().push(*age);
            }
        }
    }

    fn seen(self) -> Seen {
        let share = |(valid, all): (u64, u64)| valid as f64 / all.max(1) as f64;
        Seen {
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

/// Reads a `robocache_ros/msg/FusedTensor` up to its data.
fn head(message: &[u8]) -> Result<Head, CdrError> {
    let mut reader = Reader::new(message)?;
    let (sec, nanosec) = (reader.i32()?, reader.u32()?);
    reader.string_bytes()?;
    let stamp_ns = i64::from(sec) * 1_000_000_000 + i64::from(nanosec);
    let tick = reader.u64()?;
    reader.u64()?; // the digest
    let count = reader.u32()?;
    let segments = (0..count).map(|_| segment(&mut reader, stamp_ns)).collect::<Result<_, _>>()?;
    Ok(Head { stamp_ns, tick, segments })
}

/// Reads a `robocache_ros/msg/TensorSegment`.
fn segment(reader: &mut Reader<'_>, stamp_ns: i64) -> Result<Segment, CdrError> {
    let name = text(reader)?;
    reader.u8()?;
    reader.u8()?;
    reader.u16()?;
    numbers(reader, Reader::i64)?; // the shape
    reader.u64()?; // the offset
    let valid = reader.bytes()?.to_vec();
    let targets = numbers(reader, Reader::i64)?;
    let ages = numbers(reader, Reader::i64)?;
    numbers(reader, Reader::u32)?; // the counts
    numbers(reader, Reader::u32)?; // the inputs
    let age = |(target, age): (i64, i64)| age.saturating_add(stamp_ns - target);
    let age_ns = targets.into_iter().zip(ages).map(age).collect();
    Ok(Segment { name, valid, age_ns })
}

fn text(reader: &mut Reader<'_>) -> Result<String, CdrError> {
    Ok(String::from_utf8_lossy(reader.string_bytes()?).into_owned())
}

fn numbers<'a, T>(
    reader: &mut Reader<'a>,
    number: impl Fn(&mut Reader<'a>) -> Result<T, CdrError>,
) -> Result<Vec<T>, CdrError> {
    let count = reader.u32()?;
    (0..count).map(|_| number(reader)).collect()
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
