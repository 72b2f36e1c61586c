//! Contents of a bag, and what is wrong with it.
//!
//! One pass reads all messages in the order of writing. Memory does not grow with the length of a bag:
//! durations are counted in buckets ([`Sketch`]), lists of names and forms are bounded.
//!
//! 1. [`topic`] collects the stamps and delays of a topic, [`content`] and [`points`] what its messages hold.
//! 2. [`clocks`] collects what happened to the clocks, [`frames`] the tree of frames.
//! 3. [`notes`] says in words what a user should know, and [`starter`] writes a configuration.

mod clocks;
mod content;
mod frames;
mod html;
mod notes;
mod points;
mod series;
mod sketch;
mod starter;
mod table;
mod topic;

pub use clocks::{ClockEvent, ClockReport, RecorderReport};
pub use content::{CameraForm, ContentReport, ImageForm, ImageForms, JointSet, Joints};
pub use frames::{FramesReport, LinkReport};
pub use html::page as report;
pub use points::{CloudReport, FieldForm, TimeField};
pub use robocache_data::bag::Offer;
pub use series::{GAP_FACTOR, Gap, Intervals, Series};
pub use sketch::{Distribution, Sketch};
pub use starter::Starter;
pub use topic::{BINS, Stamps, TopicReport};

use std::sync::Arc;

use serde::Serialize;

use clocks::{RecorderClock, SimulatedClock};
use content::Content;
use frames::Frames;
use robocache_core::cdr::Reader;
use robocache_core::input::{self, CAMERA_INFO, MessageType, TF_MESSAGE};
use robocache_core::schema::{self, Definitions, Prefixes, Survey};
use robocache_core::tf::Transform;
use robocache_data::bag::{Bag, CDR, Problem, Problems, Recorded, Sorted, Topic};
use robocache_data::recording::{EVENT_TYPE, Manifest, RecordingEvent};
use robocache_data::replay::stamps::StampClock;
use robocache_data::replay::{BagDefinitions, Progress, ReplayError};
use robocache_ops::time::Stamp;
use robocache_runtime::decode_clock;
use topic::TopicScan;

/// Messages between two calls of [`Progress::at`].
const PER_REPORT: u64 = 1024;
/// The type of a simulator's clock, and its topic.
const CLOCK: [&str; 2] = ["rosgraph_msgs/msg/Clock", "/clock"];

/// Contents of a bag. Times are in nanoseconds.
#[derive(Debug, Serialize)]
pub struct Inspection {
    /// The bag.
    pub bag: String,
    /// Its files.
    pub files: usize,
    /// The first receive stamp; `None` without messages.
    pub first_ns: Option<i64>,
    /// The last receive stamp.
    pub last_ns: Option<i64>,
    /// Messages that were read.
    pub messages: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// True if the bag was read to its end.
    pub whole: bool,
    /// True if it is a recording of the node with its end; `None` if it is another bag.
    pub ended: Option<bool>,
    /// In the order of their names.
    pub topics: Vec<TopicReport>,
    /// The simulator's clock, if there is one.
    pub clock: Option<ClockReport>,
    /// True if all stamps are of one clock that the bag lacks, as a simulator's without `/clock`. Delays are on that
    /// clock then: the newest stamp so far.
    pub lacks_clock: bool,
    /// The recorder's clock.
    pub recorder: RecorderReport,
    /// The frames.
    pub frames: FramesReport,
    /// Problems of reading: the first of them.
    pub problems: Vec<String>,
    /// How many more there are.
    pub more_problems: u64,
    /// Notes for a user, in words.
    pub notes: Vec<String>,
    #[serde(skip)]
    tree: Frames,
}

impl Inspection {
    /// True if stamps are those of a simulator, whose clock moves in steps.
    pub(crate) fn is_simulated(&self) -> bool {
        self.clock.is_some() || self.lacks_clock
    }

    /// How long the recording is \[ns\].
    pub fn length_ns(&self) -> i64 {
        self.first_ns.zip(self.last_ns).map_or(0, |(first, last)| last.saturating_sub(first))
    }

    /// Takes points of `frame` to `base` by the newest transforms of the bag; `None` if they are not joined. Also
    /// says whether all links between the frames are fixed.
    pub fn place(&self, base: &str, frame: &str) -> Option<(Transform, bool)> {
        self.tree.transform(base, frame)
    }

    /// True if the bag's tree has a frame.
    pub fn has_frame(&self, frame: &str) -> bool {
        self.tree.has(frame)
    }

    /// A topic by its name.
    pub fn topic(&self, name: &str) -> Option<&TopicReport> {
        self.topics.iter().find(|topic| topic.name == name)
    }
}

/// How the stamps of a topic are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stamped {
    Header,
    /// In each transform; whether they are fixed.
    Transforms(bool),
    Clock,
    /// No message has one.
    No,
    /// No message has one, and the messages come in bursts: the events of a recording of the node.
    Events,
}

/// Reads a bag.
///
/// # Errors
/// If the bag can no longer be read. What is damaged is in [`Inspection::problems`].
pub fn inspect(bag: &Bag, progress: &dyn Progress) -> Result<Inspection, ReplayError> {
    inspect_some(bag, &vec![true; bag.topics.len()], progress)
}

/// As [`inspect`], but reads only some of the topics. `wanted` has an entry for each of [`Bag::topics`].
///
/// # Errors
/// As for [`inspect`].
pub fn inspect_some(
    bag: &Bag,
    wanted: &[bool],
    progress: &dyn Progress,
) -> Result<Inspection, ReplayError> {
    let mut problems = Problems::default();
    bag.problems.iter().cloned().for_each(|problem| problems.push(problem));
    let definitions: Box<dyn Definitions> = match BagDefinitions::new(bag) {
        Ok(definitions) => Box::new(definitions),
        Err(why) => {
            problems.push(Problem::damage(&bag.path, why.to_string()));
            Box::new(Prefixes::of_environment())
        }
    };
    let mut look = Look::new(bag, &*definitions);
    let mut messages = bag.messages_sorted(wanted, Sorted::AsWritten)?;
    let mut whole = true;
    for message in messages.by_ref() {
        if look.messages.is_multiple_of(PER_REPORT) && !progress.at(message.received) {
            whole = false;
            break;
        }
        look.take(&message);
    }
    problems.join(std::mem::take(&mut messages.problems));
    Ok(look.finish(&problems, whole))
}

/// A pass over a bag.
struct Look<'a> {
    bag: &'a Bag,
    first: Stamp,
    length_ns: i64,
    stamped: Vec<Stamped>,
    scans: Vec<TopicScan>,
    recorder: RecorderClock,
    clock: SimulatedClock,
    frames: Frames,
    messages: u64,
    bytes: u64,
    span: Option<[Stamp; 2]>,
    /// As of [`Inspection::ended`].
    ended: Option<bool>,
    /// True if a simulator's clock sets that of the node.
    is_simulated: bool,
    /// The newest stamp, and which topics set it.
    stamps: StampClock,
    sets_stamps: Vec<bool>,
}

impl<'a> Look<'a> {
    fn new(bag: &'a Bag, definitions: &dyn Definitions) -> Self {
        let (first, last) = bag.span().unwrap_or_default();
        let mut stamped = Vec::new();
        let mut scans = Vec::new();
        for topic in &bag.topics {
            let (how, content) = way(topic, definitions);
            stamped.push(how);
            scans.push(TopicScan::new(content));
        }
        let is_clock = |topic: &Topic| is_clock(topic) && topic.messages != Some(0);
        let sets = |(topic, how): (&Topic, &Stamped)| *how == Stamped::Header && measures(topic);
        let sets_stamps = bag.topics.iter().zip(&stamped).map(sets).collect();
        Look {
            bag,
            first,
            length_ns: last.since(first).max(1),
            recorder: RecorderClock::new(scans.len()),
            stamped,
            scans,
            clock: SimulatedClock::default(),
            frames: Frames::default(),
            messages: 0,
            bytes: 0,
            span: None,
            ended: None,
            is_simulated: bag.topics.iter().any(is_clock),
            stamps: StampClock::default(),
            sets_stamps,
        }
    }

    fn take(&mut self, message: &Recorded) {
        let Recorded { topic, received, bytes, .. } = message;
        let topic = *topic;
        let received = *received;
        self.messages += 1;
        self.bytes += bytes.len() as u64;
        let [first, last] = self.span.unwrap_or([received; 2]);
        self.span = Some([first.min(received), last.max(received)]);
        let past = i128::from(received.since(self.first).max(0));
        let bin = (past * BINS as i128 / i128::from(self.length_ns)).min(BINS as i128 - 1) as usize;
        let now = if self.is_simulated { self.clock.now() } else { Some(received) };
        let scan = &mut self.scans[topic];
        scan.arrival(received, bytes.len(), bin);
        if self.stamped[topic] != Stamped::Events {
            scan.received.take(received);
        }
        let mut delay = None;
        match self.stamped[topic] {
            Stamped::Header => {
                match Reader::new(bytes).map_err(Into::into).and_then(|mut reader| {
                    let header = input::header(&mut reader)?;
                    if let (Ok(stamp), true) = (header.stamp, self.sets_stamps[topic]) {
                        self.stamps.take(topic, stamp, received);
                    }
                    let newest = self.stamps.now();
                    let delay = scan.header(header, [now, newest], received, bin);
                    Ok::<_, robocache_core::rejected::Rejected>(delay)
                }) {
                    Ok(found) => delay = found,
                    Err(why) => scan.unreadable(why),
                }
            }
            Stamped::Transforms(fixed) => {
                // Latched transforms may be of any age.
                let clocks = [now, self.stamps.now()].map(|now| now.filter(|_| !fixed));
                let mut first = true;
                let header = |header: input::Header<'_>| {
                    if std::mem::take(&mut first) {
                        scan.header(header, clocks, received, bin);
                    }
                };
                if let Err(why) = self.frames.take(fixed, bytes, header) {
                    scan.unreadable(why);
                }
            }
            Stamped::Clock => match decode_clock(bytes) {
                Ok(Some(reading)) => self.clock.take(reading, received),
                Ok(None) => scan.unreadable("nanoseconds of a second or more"),
                Err(why) => scan.unreadable(why),
            },
            Stamped::Events => {
                let is_end = matches!(RecordingEvent::read(bytes), Ok(RecordingEvent::End));
                self.ended = Some(is_end || self.ended == Some(true));
            }
            Stamped::No => {}
        }
        if let Err(why) = scan.content.take(&self.bag.topics[topic].ros_type, bytes) {
            scan.unreadable(why);
        }
        self.recorder.take(topic, received, delay.filter(|_| !self.is_simulated));
    }

    fn finish(self, problems: &Problems, whole: bool) -> Inspection {
        let stamped = || self.scans.iter().zip(&self.sets_stamps).filter(|(_, sets)| **sets);
        let by_other_clock = stamped().filter_map(|(scan, _)| scan.is_of_the_newest_stamp());
        let mut by_other_clock = by_other_clock.peekable();
        let lacks_clock = !self.is_simulated
            && by_other_clock.peek().is_some()
            && by_other_clock.all(std::convert::identity);
        let report = |(topic, scan): (&Topic, &TopicScan)| {
            let offers = topic.offers();
            scan.report(&topic.name, &topic.ros_type, offers, lacks_clock)
        };
        let mut inspection = Inspection {
            bag: self.bag.path.display().to_string(),
            files: self.bag.files(),
            first_ns: self.span.map(|[first, _]| first.nanos()),
            last_ns: self.span.map(|[_, last]| last.nanos()),
            messages: self.messages,
            bytes: self.bytes,
            whole,
            ended: self.ended,
            topics: self.bag.topics.iter().zip(&self.scans).map(report).collect(),
            clock: self.clock.report(),
            lacks_clock,
            recorder: self.recorder.finish(),
            frames: self.frames.report(),
            problems: problems.first.iter().map(ToString::to_string).collect(),
            more_problems: problems.more,
            notes: Vec::new(),
            tree: self.frames,
        };
        inspection.notes = notes::notes(&inspection);
        // Another bag says nothing of the kind.
        let manifest = Manifest::read(&self.bag.path);
        inspection.notes.extend(manifest.iter().flat_map(Manifest::notes));
        inspection
    }
}

fn is_clock(topic: &Topic) -> bool {
    topic.ros_type == CLOCK[0] && topic.name == CLOCK[1]
}

/// True if the stamps of a type's messages are those of measurements: not when a plan begins, nor the stamp of a
/// latched message.
fn measures(topic: &Topic) -> bool {
    let known = MessageType::find(&topic.ros_type);
    let is_plan = known.is_some_and(|known| matches!(known.content, input::Content::Trajectory));
    !is_plan && topic.ros_type != CAMERA_INFO
}

/// How the messages of a topic are looked at.
fn way(topic: &Topic, definitions: &dyn Definitions) -> (Stamped, Content) {
    let ros_type = topic.ros_type.as_str();
    if topic.format != CDR {
        return (Stamped::No, Content::Other);
    }
    if ros_type == EVENT_TYPE {
        return (Stamped::Events, Content::Other);
    }
    if ros_type == CLOCK[0] {
        // Another topic with clocks sets none.
        let how = if is_clock(topic) { Stamped::Clock } else { Stamped::No };
        return (how, Content::Other);
    }
    if ros_type == TF_MESSAGE {
        let fixed = topic.name.ends_with("tf_static");
        return (Stamped::Transforms(fixed), Content::Other);
    }
    if MessageType::find(ros_type).is_some() || ros_type == CAMERA_INFO {
        return (Stamped::Header, Content::new(ros_type, None));
    }
    let root: Option<Arc<schema::Struct>> = schema::resolve(ros_type, definitions).ok();
    let has_header = root.as_ref().is_some_and(|root| root.has_header());
    let survey = root.and_then(|root| Survey::new(&root).ok());
    let how = if has_header { Stamped::Header } else { Stamped::No };
    (how, Content::new(ros_type, survey))
}
