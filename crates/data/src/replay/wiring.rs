//! Which topic of a bag feeds which input of a configuration.

use super::{BagDefinitions, ReplayError};
use crate::bag::{Bag, CDR, Topic};
use crate::commands::CHUNK_TYPE;
use crate::recording::EVENT_TYPE;
use robocache_core::input::{CAMERA_INFO, MessageType};
use robocache_core::schema::{self, Definitions};
use robocache_core::spec::{Config, Durability, InputId, InputSpec, Timeline};

/// The topic of a simulator's clock.
const CLOCK_TOPIC: &str = "/clock";
/// Its type.
const CLOCK_TYPE: &str = "rosgraph_msgs/msg/Clock";
/// The name of the node, which begins its private topics.
const NODE: &str = "/fusion_node";

/// A topic of the configuration that has another name in the bag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remap {
    /// Its name in the configuration.
    pub from: String,
    /// Its name in the bag.
    pub to: String,
}

impl std::str::FromStr for Remap {
    type Err = String;

    /// Reads `FROM:=TO`, as ROS writes it.
    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(":=") {
            Some((from, to)) if !from.is_empty() && !to.is_empty() => {
                Ok(Remap { from: absolute(from), to: absolute(to) })
            }
            _ => Err(format!("expected FROM:=TO, found '{text}'")),
        }
    }
}

/// Clock of the ticks, as the user asks for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AskedClock {
    /// A simulator's if the bag has messages on `/clock`, else the recorder's.
    #[default]
    Auto,
    /// The recorder's: the receive stamps.
    Receive,
    /// A simulator's, by the messages on `/clock`.
    Clock,
    /// A simulator's, by the stamps in the headers of the messages of all streams.
    Header,
    /// A simulator's, by the stamps in the headers of this topic.
    HeaderOf(String),
}

impl AskedClock {
    /// Values that a user can write.
    pub const EXPECTED: &str = "auto, receive, clock, header or header:/TOPIC";
}

impl std::str::FromStr for AskedClock {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.strip_prefix("header:")) {
            ("auto", _) => Ok(AskedClock::Auto),
            ("receive", _) => Ok(AskedClock::Receive),
            ("clock", _) => Ok(AskedClock::Clock),
            ("header", _) => Ok(AskedClock::Header),
            (_, Some(topic)) if topic.starts_with('/') => {
                Ok(AskedClock::HeaderOf(topic.to_owned()))
            }
            _ => Err(format!("expected {}, found '{text}'", AskedClock::EXPECTED)),
        }
    }
}

/// Source of a replay's clock. Topics are positions in the bag.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ClockSource {
    /// The receive stamps.
    #[default]
    Recorder,
    /// The messages of a topic, which are readings of a simulator's clock.
    Clock(usize),
    /// The newest stamp of the messages of the topics that are true.
    Headers(Vec<bool>),
}

impl ClockSource {
    /// True if the messages of a topic set the clock.
    fn reads(&self, topic: usize) -> bool {
        match self {
            ClockSource::Recorder => false,
            ClockSource::Clock(of) => *of == topic,
            ClockSource::Headers(of) => of[topic],
        }
    }

    /// True if the clock is a simulator's.
    pub fn is_simulated(&self) -> bool {
        *self != ClockSource::Recorder
    }
}

/// Which topics are read, and where their messages go.
#[derive(Clone, Debug)]
pub struct Wiring {
    /// The inputs of each of the bag's topics.
    pub feeds: Vec<Vec<InputId>>,
    /// The inputs whose messages are latched: their publishers offered it, and the configuration does not forbid it.
    pub latched: Vec<InputId>,
    /// True if a node recorded the bag.
    pub is_of_node: bool,
    /// Source of the clock.
    pub clock: ClockSource,
    /// The topic of the events of a node that recorded itself, if a row's instant depends on them.
    pub events: Option<usize>,
    /// The topics of chunks of actions, if the configuration makes commands of them.
    pub chunks: Vec<usize>,
    /// The topic of the events of a node that recorded its commands.
    pub facts: Option<usize>,
    /// The topics of the configuration that are not in the bag. Their inputs get no message.
    pub missing: Vec<String>,
    /// The topics whose type the bag does not say. The configuration's is believed.
    pub untyped: Vec<String>,
}

impl Wiring {
    /// Finds the topics of a configuration in a bag.
    ///
    /// # Errors
    /// [`ReplayError::Wiring`] if a topic has messages of another type or format, if the bag has none of the
    /// topics, or not what the source of time needs.
    pub fn new(
        bag: &Bag,
        config: &Config,
        remaps: &[Remap],
        time: &AskedClock,
    ) -> Result<Self, ReplayError> {
        let named = |topic: &str| {
            let topic = absolute(topic);
            remaps.iter().find(|remap| remap.from == topic).map_or(topic, |remap| remap.to.clone())
        };
        let mut wiring = Wiring {
            feeds: vec![Vec::new(); bag.topics.len()],
            latched: Vec::new(),
            is_of_node: bag.topics.iter().any(|topic| topic.ros_type == EVENT_TYPE),
            clock: ClockSource::Recorder,
            events: None,
            chunks: Vec::new(),
            facts: None,
            missing: Vec::new(),
            untyped: Vec::new(),
        };
        let mut problems = Vec::new();
        for id in config.input_ids() {
            let spec = config.input(id);
            let name = named(&spec.topic);
            let Some(at) = bag.topic(&name) else {
                if !wiring.missing.contains(&name) {
                    wiring.missing.push(name);
                }
                continue;
            };
            let topic = &bag.topics[at];
            if topic.ros_type.is_empty() && !wiring.untyped.contains(&name) {
                wiring.untyped.push(name.clone());
            }
            match mismatch(spec, topic) {
                Some(what) => problems.push(format!("{}: {what}", bag.path.display())),
                None => {
                    wiring.feeds[at].push(id);
                    if spec.qos.durability != Durability::Volatile && topic.is_latched() {
                        wiring.latched.push(id);
                    }
                }
            }
        }
        if !problems.is_empty() {
            return Err(ReplayError::Wiring(problems.join("\n")));
        }
        // Frames and cameras alone make no row.
        let makes_rows = |id: &InputId| config.input(*id).stream.is_some();
        if !wiring.feeds.iter().flatten().any(makes_rows) {
            return Err(no_row(
                bag,
                "a topic of a stream",
                &expected(config, |spec| format!("{} ({})", named(&spec.topic), spec.ros_type)),
            ));
        }
        wiring.clock = wiring.clock(bag, config, time, &named)?;
        if config.commands.is_some() {
            let of_type = |wanted: &'static str| {
                let topics = bag.topics.iter().enumerate();
                topics.filter(move |(_, topic)| topic.ros_type == wanted).map(|(at, _)| at)
            };
            wiring.chunks = of_type(CHUNK_TYPE).collect();
            wiring.facts = of_type(EVENT_TYPE).next();
        }
        let by_receive_stamp =
            config.inputs.iter().any(|input| input.timeline == Timeline::Receive);
        if by_receive_stamp && !wiring.clock.is_simulated() {
            wiring.events = bag.topics.iter().position(|topic| topic.ros_type == EVENT_TYPE);
        }
        Ok(wiring)
    }

    /// Source of the clock. `named` is a topic's name in the bag.
    fn clock(
        &self,
        bag: &Bag,
        config: &Config,
        time: &AskedClock,
        named: &dyn Fn(&str) -> String,
    ) -> Result<ClockSource, ReplayError> {
        let wrong = |expected: String, found: &str| {
            let path = bag.path.display();
            ReplayError::Wiring(format!("{path}: --time: expected {expected}, found {found}"))
        };
        match time {
            AskedClock::Receive => Ok(ClockSource::Recorder),
            AskedClock::Auto | AskedClock::Clock => {
                let topic = named(CLOCK_TOPIC);
                let is_clock = |at: &usize| bag.topics[*at].ros_type == CLOCK_TYPE;
                match (bag.topic(&topic).filter(is_clock), time) {
                    // A topic that was declared and never spoke sets no clock.
                    (Some(clock), _) if has_messages(bag, clock)? => Ok(ClockSource::Clock(clock)),
                    (_, AskedClock::Clock) => {
                        Err(wrong(format!("messages of {CLOCK_TYPE} on {topic}"), "none"))
                    }
                    _ => Ok(ClockSource::Recorder),
                }
            }
            AskedClock::Header => {
                let sets = |id: &InputId| config.input(*id).has_stamps_of_header();
                let topics: Vec<bool> = self.feeds.iter().map(|ids| ids.iter().any(sets)).collect();
                match topics.contains(&true) {
                    true => Ok(ClockSource::Headers(topics)),
                    false => {
                        Err(wrong("a stream of the bag that has `timeline: header`".into(), "none"))
                    }
                }
            }
            AskedClock::HeaderOf(topic) => {
                let topic = named(topic);
                let Some(at) = bag.topic(&topic) else {
                    return Err(wrong(format!("the topic {topic} in the bag"), &names(bag)));
                };
                let format = &bag.topics[at].format;
                if !bag.topics[at].is_read() {
                    return Err(wrong(format!("messages in {CDR} on {topic}"), format));
                }
                let mut ros_type = bag.topics[at].ros_type.as_str();
                if let ("", Some(id)) = (ros_type, self.feeds[at].first()) {
                    ros_type = &config.input(*id).ros_type;
                }
                match has_header(ros_type, &BagDefinitions::new(bag)?) {
                    true => {
                        Ok(ClockSource::Headers((0..bag.topics.len()).map(|of| of == at).collect()))
                    }
                    false => Err(wrong(format!("messages with a header on {topic}"), ros_type)),
                }
            }
        }
    }

    /// The topics that are read, by their positions in the bag.
    pub fn wanted(&self) -> Vec<bool> {
        let wanted = |(at, feeds): (usize, &Vec<_>)| {
            !feeds.is_empty() || self.clock.reads(at) || self.events == Some(at)
        };
        self.feeds.iter().enumerate().map(wanted).collect()
    }
}

/// True if a topic has a message.
fn has_messages(bag: &Bag, topic: usize) -> Result<bool, ReplayError> {
    if let Some(messages) = bag.topics[topic].messages {
        return Ok(messages > 0);
    }
    let wanted: Vec<bool> = (0..bag.topics.len()).map(|at| at == topic).collect();
    Ok(bag.messages(&wanted)?.next().is_some())
}

/// Why an input cannot read a topic; `None` if it can.
fn mismatch(spec: &InputSpec, topic: &Topic) -> Option<String> {
    let InputSpec { name, ros_type, .. } = spec;
    if topic.ros_type != *ros_type && !topic.ros_type.is_empty() {
        return Some(format!(
            "stream '{name}': expected messages of {ros_type} on {}, found {} in the bag",
            topic.name, topic.ros_type
        ));
    }
    let format = &topic.format;
    (!topic.is_read())
        .then(|| format!("{}: expected messages in {CDR}, found {format}", topic.name))
}

/// The topics of a bag with their types.
pub fn names(bag: &Bag) -> String {
    let name = |topic: &Topic| format!("{} ({})", topic.name, topic.ros_type);
    let names: Vec<String> = bag.topics.iter().map(name).collect();
    if names.is_empty() { "no topic".to_owned() } else { names.join(", ") }
}

/// Names of the inputs of streams, each once. `name` gives the name of an input.
fn expected(config: &Config, name: impl Fn(&InputSpec) -> String) -> String {
    let mut names: Vec<String> = Vec::new();
    for spec in config.inputs.iter().filter(|spec| spec.stream.is_some()) {
        let name = name(spec);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.join(", ")
}

/// The error if no stream has a row: the bag lacks `what`, which the configuration reads.
pub(super) fn no_row(bag: &Bag, what: &str, reads: &str) -> ReplayError {
    ReplayError::Wiring(format!(
        "{}: expected {what}, found none; the configuration reads {reads}; the bag has {}",
        bag.path.display(),
        names(bag)
    ))
}

/// True if the messages of a type begin with a header.
fn has_header(ros_type: &str, definitions: &dyn Definitions) -> bool {
    let is_known = MessageType::find(ros_type).is_some() || ros_type == CAMERA_INFO;
    is_known || schema::resolve(ros_type, definitions).is_ok_and(|root| root.has_header())
}

/// A topic as a node in the root namespace resolves it.
fn absolute(topic: &str) -> String {
    match topic.strip_prefix('~') {
        Some(own) => format!("{NODE}/{}", own.trim_start_matches('/')),
        None if topic.starts_with('/') => topic.to_owned(),
        None => format!("/{topic}"),
    }
}

#[cfg(test)]
mod tests;
