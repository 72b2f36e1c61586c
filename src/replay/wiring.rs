//! Which topic of a bag feeds which input of a configuration.

use super::ReplayError;
use super::bag::{Bag, CDR};
use super::recording::EVENT_TYPE;
use crate::spec::{Config, InputId, Timeline};

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

/// Which clock the ticks are on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeSource {
    /// A simulator's if the bag has messages on `/clock`, else the recorder's.
    #[default]
    Auto,
    /// The recorder's: the receive stamps.
    Receive,
    /// A simulator's, by the messages on `/clock`.
    Clock,
}

/// Which topics are read, and where their messages go.
#[derive(Clone, Debug)]
pub struct Wiring {
    /// The inputs of each of the bag's topics.
    pub feeds: Vec<Vec<InputId>>,
    /// The topic of a simulator's clock, if it sets the clock.
    pub clock: Option<usize>,
    /// The topic of the events of a node that recorded itself, if a row's instant depends on them.
    pub events: Option<usize>,
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
    /// topics, or no `/clock` although that is the source of time.
    pub fn new(
        bag: &Bag,
        config: &Config,
        remaps: &[Remap],
        time: TimeSource,
    ) -> Result<Self, ReplayError> {
        let named = |topic: &str| {
            let topic = absolute(topic);
            remaps.iter().find(|remap| remap.from == topic).map_or(topic, |remap| remap.to.clone())
        };
        let mut wiring = Wiring {
            feeds: vec![Vec::new(); bag.topics.len()],
            clock: None,
            events: None,
            missing: Vec::new(),
            untyped: Vec::new(),
        };
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
            if topic.ros_type != spec.ros_type && !topic.ros_type.is_empty() {
                return Err(ReplayError::Wiring(format!(
                    "{}: stream '{}': expected messages of {} on {name}, found {} in the bag",
                    bag.path.display(),
                    spec.name,
                    spec.ros_type,
                    topic.ros_type
                )));
            }
            if topic.format != CDR {
                return Err(ReplayError::Wiring(format!(
                    "{}: {name}: expected messages in {CDR}, found {}",
                    bag.path.display(),
                    topic.format
                )));
            }
            wiring.feeds[at].push(id);
        }
        if wiring.feeds.iter().all(Vec::is_empty) && !config.inputs.is_empty() {
            let topics: Vec<&str> = bag.topics.iter().map(|topic| topic.name.as_str()).collect();
            return Err(ReplayError::Wiring(format!(
                "{}: expected one of {}, found none; the bag has {}",
                bag.path.display(),
                wiring.missing.join(", "),
                if topics.is_empty() { "no topic".to_owned() } else { topics.join(", ") }
            )));
        }
        let clock = bag
            .topics
            .iter()
            .position(|topic| topic.name == named(CLOCK_TOPIC) && topic.ros_type == CLOCK_TYPE);
        // A topic that was declared and never spoke sets no clock.
        let clock = match clock {
            Some(clock) if has_messages(bag, clock)? => Some(clock),
            _ => None,
        };
        wiring.clock = match (time, clock) {
            (TimeSource::Receive, _) => None,
            (TimeSource::Auto, clock) => clock,
            (TimeSource::Clock, Some(clock)) => Some(clock),
            (TimeSource::Clock, None) => {
                return Err(ReplayError::Wiring(format!(
                    "{}: expected messages of {CLOCK_TYPE} on {}, found none",
                    bag.path.display(),
                    named(CLOCK_TOPIC)
                )));
            }
        };
        let by_receive_stamp =
            config.inputs.iter().any(|input| input.timeline == Timeline::Receive);
        if by_receive_stamp && wiring.clock.is_none() {
            wiring.events = bag.topics.iter().position(|topic| topic.ros_type == EVENT_TYPE);
        }
        Ok(wiring)
    }

    /// The topics that are read, by their positions in the bag.
    pub fn wanted(&self) -> Vec<bool> {
        let wanted = |(at, feeds): (usize, &Vec<_>)| {
            !feeds.is_empty() || [self.clock, self.events].contains(&Some(at))
        };
        self.feeds.iter().enumerate().map(wanted).collect()
    }
}

/// Whether a topic has a message.
fn has_messages(bag: &Bag, topic: usize) -> Result<bool, ReplayError> {
    if let Some(messages) = bag.topics[topic].messages {
        return Ok(messages > 0);
    }
    let wanted: Vec<bool> = (0..bag.topics.len()).map(|at| at == topic).collect();
    Ok(bag.messages(&wanted)?.next().is_some())
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
mod tests {
    use super::*;

    #[test]
    fn topics_are_those_of_a_node_in_the_root_namespace() {
        assert_eq!(["/a/b", "a/b", "~/a"].map(absolute), ["/a/b", "/a/b", "/fusion_node/a"]);
    }

    #[test]
    fn a_remap_is_written_as_ros_writes_it() {
        let remap = |from: &str, to: &str| Remap { from: from.to_owned(), to: to.to_owned() };
        assert_eq!("joints:=/arm/joints".parse(), Ok(remap("/joints", "/arm/joints")));
        assert!("joints=/arm".parse::<Remap>().is_err() && ":=/arm".parse::<Remap>().is_err());
    }
}
