//! Sending a schedule's messages at their instants.

use super::robot::Robot;
use super::schedule::{Schedule, SensorMessage};
use super::stream::Stream;
use robocache_ops::time::NANOS_PER_MS;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A message sent this long after its instant is counted as late \[ns\].
const LATE_NS: i64 = 2 * NANOS_PER_MS;
/// A message that is later than this is not sent at all \[ns\], unless the options ask for it: to catch up on more would
/// be a burst that no robot sends.
const TOO_LATE_NS: i64 = 100 * NANOS_PER_MS;
/// Longest sleep \[ns\], so that a stop takes effect in time.
const NAP_NS: i64 = 100 * NANOS_PER_MS;

/// The outcomes of a stream's messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counts {
    /// Sent, the late and reordered ones included.
    pub sent: u64,
    /// Not sent, as the options ask.
    pub dropped: u64,
    /// Sent after their successor, as the options ask.
    pub reordered: u64,
    /// Sent more than 2 ms after their instant, because the machine was busy.
    pub late: u64,
    /// Not sent, because they were more than 100 ms late; none with `no_skip`.
    pub skipped: u64,
}

/// Counts by name of the stream.
pub type SentCounts = BTreeMap<&'static str, Counts>;

/// The clock of a run.
pub trait Pace {
    /// Nanoseconds on the robot's clock since the schedule's start.
    fn now_ns(&self) -> i64;
    /// Real time in which the robot's clock advances by `ns` nanoseconds \[ns\].
    fn real_ns(&self, ns: i64) -> i64;
}

/// Sends until the schedule ends or `stop` is set. Each message is made before its instant and sent
/// at its instant. Instants are absolute, so delays do not add up. If `publish` fails, the run
/// ends.
pub fn drive<E>(
    robot: &Robot,
    schedule: Schedule,
    pace: &impl Pace,
    stop: &AtomicBool,
    publish: impl FnMut(&SensorMessage, &[u8]) -> Result<(), E>,
) -> Result<SentCounts, E> {
    drive_messages(|event, buffer| robot.message(event, buffer), schedule, pace, stop, publish)
}

/// As [`drive()`], with messages that `make` makes in the memory that it is given.
pub fn drive_messages<E>(
    mut make: impl FnMut(&SensorMessage, Vec<u8>) -> Vec<u8>,
    mut schedule: Schedule,
    pace: &impl Pace,
    stop: &AtomicBool,
    mut publish: impl FnMut(&SensorMessage, &[u8]) -> Result<(), E>,
) -> Result<SentCounts, E> {
    let mut counts = [Counts::default(); Stream::ALL.len()];
    let mut buffer = Vec::new();
    let skips = schedule.skips();
    for event in schedule.by_ref() {
        let count = &mut counts[event.stream as usize];
        if skips && late_ns(pace, &event) > TOO_LATE_NS {
            count.skipped += 1;
            if stop.load(Ordering::Relaxed) {
                break;
            }
            continue;
        }
        buffer = make(&event, buffer);
        if !wait_until(pace, &event, stop) {
            break;
        }
        count.late += u64::from(late_ns(pace, &event) > LATE_NS);
        publish(&event, &buffer)?;
        count.sent += 1;
    }
    let report = Stream::ALL.into_iter().map(|stream| {
        let faults = schedule.faults(stream);
        let count = counts[stream as usize];
        (stream.name(), Counts { dropped: faults.dropped, reordered: faults.reordered, ..count })
    });
    Ok(report.filter(|(_, count)| *count != Counts::default()).collect())
}

fn late_ns(pace: &impl Pace, event: &SensorMessage) -> i64 {
    pace.real_ns(pace.now_ns().saturating_sub(event.due_ns))
}

/// False if `stop` was set before the event's instant.
fn wait_until(pace: &impl Pace, event: &SensorMessage, stop: &AtomicBool) -> bool {
    loop {
        if stop.load(Ordering::Relaxed) {
            return false;
        }
        let left = -late_ns(pace, event);
        if left <= 0 {
            return true;
        }
        std::thread::sleep(Duration::from_nanos(left.min(NAP_NS).unsigned_abs()));
    }
}
