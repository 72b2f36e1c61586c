//! Observation of one topic of a bag.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Offer;
use super::content::{Content, ContentReport};
use super::notes::OTHER_CLOCK_NS;
use super::series::{Intervals, Series};
use super::sketch::{Distribution, Sketch};
use robocache_core::sample::{Header, StampError};
use robocache_ops::time::{NANOS_PER_S, Stamp};

/// Most names of frames that are kept of a topic.
const MOST_FRAMES: usize = 32;
/// Parts of the recording in which messages are counted.
pub const BINS: usize = 240;
/// Shortest recording that tells a drift \[ns\].
const DRIFT_NS: i64 = 20 * NANOS_PER_S;

/// Collects what inspect reports about a topic.
#[derive(Debug)]
pub(super) struct TopicScan {
    messages: u64,
    bytes: u64,
    largest_bytes: usize,
    /// The first and the last receive stamp.
    span: Option<[Stamp; 2]>,
    /// The receive stamps.
    pub received: Series,
    stamped: Series,
    delays: Sketch,
    /// The newest stamp of all topics minus that of the message.
    behind: Sketch,
    stamps: Stamps,
    unreadable: u64,
    first_problem: Option<String>,
    frame_ids: BTreeMap<String, u64>,
    bins: Vec<Bin>,
    /// Contents of its messages.
    pub content: Content,
}

/// The messages of a part of the recording.
#[derive(Clone, Copy, Debug, Default)]
struct Bin {
    messages: u32,
    /// The least delay, and when it was received.
    least: Option<(i64, Stamp)>,
}

/// The stamps in the headers of a topic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stamps {
    /// Headers.
    pub headers: u64,
    /// Stamps of zero: not set.
    pub zero: u64,
    /// Stamps whose nanoseconds are a second or more.
    pub bad: u64,
}

/// Report of inspect about a topic. Times are in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TopicReport {
    /// Its name.
    pub name: String,
    /// The type of its messages.
    pub ros_type: String,
    /// Messages that were read.
    pub messages: u64,
    /// Bytes of all messages.
    pub bytes: u64,
    /// Bytes of the largest.
    pub largest_bytes: usize,
    /// The first receive stamp \[ns\].
    pub first_ns: Option<i64>,
    /// The last receive stamp \[ns\].
    pub last_ns: Option<i64>,
    /// By the receive stamps.
    pub received: Intervals,
    /// By the stamps of the headers; `None` without stamps.
    pub stamped: Option<Intervals>,
    /// The stamps of the headers.
    pub stamps: Stamps,
    /// Arrival minus stamp, on the clock of the node: a simulator's if the bag has `/clock`, or lacks it
    /// ([`Inspection::lacks_clock`](super::Inspection::lacks_clock)).
    pub delay: Option<Distribution>,
    /// How fast the least delay grows \[parts per million\]; `None` if it does not, or if the recording is short.
    pub drift_ppm: Option<f64>,
    /// Messages that are not what their type says.
    pub unreadable: u64,
    /// The first of these.
    pub first_problem: Option<String>,
    /// The frames of the headers, with the messages of each.
    pub frame_ids: BTreeMap<String, u64>,
    /// QoS that the publishers offered.
    pub offers: Vec<Offer>,
    /// Contents of its messages.
    pub content: Option<ContentReport>,
    /// Messages in each part of the recording, all parts being as long.
    pub timeline: Vec<u32>,
    /// Delays with their numbers, in ascending order.
    pub delays: Vec<(i64, u64)>,
    /// Intervals with their numbers, in ascending order.
    pub intervals: Vec<(i64, u64)>,
}

impl TopicReport {
    /// Measure of its intervals and gaps, in words.
    pub(super) fn measure(&self) -> &'static str {
        if self.stamped.is_some() { "header.stamp" } else { "the arrivals" }
    }
}

impl TopicScan {
    /// Of a topic whose messages hold this.
    pub(super) fn new(content: Content) -> Self {
        TopicScan {
            messages: 0,
            bytes: 0,
            largest_bytes: 0,
            span: None,
            received: Series::default(),
            stamped: Series::default(),
            delays: Sketch::default(),
            behind: Sketch::default(),
            stamps: Stamps::default(),
            unreadable: 0,
            first_problem: None,
            frame_ids: BTreeMap::new(),
            bins: vec![Bin::default(); BINS],
            content,
        }
    }

    /// Takes the arrival of a message in part `bin` of the recording.
    pub(super) fn arrival(&mut self, received: Stamp, bytes: usize, bin: usize) {
        self.messages += 1;
        self.bytes += bytes as u64;
        self.largest_bytes = self.largest_bytes.max(bytes);
        let [first, last] = self.span.unwrap_or([received; 2]);
        self.span = Some([first.min(received), last.max(received)]);
        self.bins[bin].messages = self.bins[bin].messages.saturating_add(1);
    }

    /// Takes the header of the message. `now` is when it arrived, on the node's clock, and `newest` the newest stamp.
    /// Returns the delay.
    pub(super) fn header(
        &mut self,
        header: Header<'_>,
        [now, newest]: [Option<Stamp>; 2],
        received: Stamp,
        bin: usize,
    ) -> Option<i64> {
        self.stamps.headers += 1;
        if let Some(count) = self.frame_ids.get_mut(header.frame_id) {
            *count += 1;
        } else if self.frame_ids.len() < MOST_FRAMES {
            self.frame_ids.insert(header.frame_id.to_owned(), 1);
        }
        let stamp = match header.stamp {
            Ok(stamp) => stamp,
            Err(StampError::Zero) => {
                self.stamps.zero += 1;
                return None;
            }
            Err(StampError::Nanosec(_) | StampError::Sec(_)) => {
                self.stamps.bad += 1;
                return None;
            }
        };
        self.stamped.take(stamp);
        newest.into_iter().for_each(|newest| self.behind.record(newest.since(stamp)));
        let delay = now?.since(stamp);
        self.delays.record(delay);
        let least = &mut self.bins[bin].least;
        if least.is_none_or(|(least, _)| delay < least) {
            *least = Some((delay, received));
        }
        Some(delay)
    }

    /// Notes that a message is not what its type says.
    pub(super) fn unreadable(&mut self, why: impl ToString) {
        self.unreadable += 1;
        self.first_problem.get_or_insert_with(|| why.to_string());
    }

    /// True if the stamps are not of the recorder's clock, but of that of the newest stamp. `None` without stamps.
    pub(super) fn is_of_the_newest_stamp(&self) -> Option<bool> {
        let usual = |sketch: &Sketch| Some(sketch.distribution()?.p50_ns.saturating_abs());
        let delay_ns = usual(&self.delays)?;
        let behind_ns = usual(&self.behind)?;
        Some(delay_ns > OTHER_CLOCK_NS && behind_ns <= OTHER_CLOCK_NS)
    }

    /// Report about the topic. `by_stamps`: delays are against the newest stamp.
    pub(super) fn report(
        &self,
        name: &str,
        ros_type: &str,
        offers: Vec<Offer>,
        by_stamps: bool,
    ) -> TopicReport {
        let delays = if by_stamps { &self.behind } else { &self.delays };
        let has_stamps = self.stamps.headers > 0;
        let by_stamp = has_stamps && self.stamped.sketch().count() > 0;
        let intervals = if by_stamp { &self.stamped } else { &self.received };
        TopicReport {
            name: name.to_owned(),
            ros_type: ros_type.to_owned(),
            messages: self.messages,
            bytes: self.bytes,
            largest_bytes: self.largest_bytes,
            first_ns: self.span.map(|[first, _]| first.nanos()),
            last_ns: self.span.map(|[_, last]| last.nanos()),
            received: self.received.finish(),
            stamped: has_stamps.then(|| self.stamped.finish()),
            stamps: self.stamps,
            delay: delays.distribution(),
            drift_ppm: self.drift_ppm().filter(|_| !by_stamps),
            unreadable: self.unreadable,
            first_problem: self.first_problem.clone(),
            frame_ids: self.frame_ids.clone(),
            offers,
            content: self.content.report(),
            timeline: self.bins.iter().map(|bin| bin.messages).collect(),
            delays: delays.buckets().collect(),
            intervals: intervals.sketch().buckets().collect(),
        }
    }

    /// The slope of the least delays of the parts, by least squares, if it is more than what they scatter.
    /// The least delay is that of a message that waited for nothing, so load does not move it.
    fn drift_ppm(&self) -> Option<f64> {
        let least: Vec<(i64, Stamp)> = self.bins.iter().filter_map(|bin| bin.least).collect();
        let [(base, began), .., (_, ended)] = least[..] else { return None };
        if least.len() < BINS / 4 || ended.since(began) < DRIFT_NS {
            return None;
        }
        let points = || {
            let point = |(delay, at): &(i64, Stamp)| {
                [at.since(began) as f64 * 1e-9, delay.saturating_sub(base) as f64 * 1e-9]
            };
            least.iter().map(point)
        };
        let count = least.len() as f64;
        let [mean_t, mean_d] = [0, 1].map(|axis| points().map(|p| p[axis]).sum::<f64>() / count);
        let spread: f64 = points().map(|p| (p[0] - mean_t).powi(2)).sum();
        let slope = points().map(|p| (p[0] - mean_t) * (p[1] - mean_d)).sum::<f64>() / spread;
        let rest = |p: [f64; 2]| p[1] - mean_d - slope * (p[0] - mean_t);
        let rest = (points().map(|p| rest(p).powi(2)).sum::<f64>() / count).sqrt();
        let grown = slope * ended.since(began) as f64 * 1e-9;
        (grown.abs() > 4.0 * rest && grown.abs() > 5e-4).then_some(slope * 1e6)
    }
}
