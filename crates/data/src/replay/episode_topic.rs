//! Episodes by the edges of a topic, for example of the button that an operator holds while recording.

use std::fmt;
use std::str::FromStr;

use super::{BagDefinitions, ReplayError};
use crate::bag::Bag;
use robocache_core::cdr::Reader;
use robocache_core::schema::{Definitions, FieldReader, Path, resolve};
use robocache_ops::time::Stamp;

/// A number of a topic's messages. An episode begins with the message in which it is no longer zero, and
/// ends with the one in which it is zero again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EpisodeTopic {
    topic: String,
    /// The number, as `select` names it.
    path: String,
}

impl FromStr for EpisodeTopic {
    type Err = String;

    /// Reads `TOPIC` or `TOPIC:PATH`. Without a path it is `data`, as in `std_msgs`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (topic, path) = text.split_once(':').unwrap_or((text, "data"));
        Path::parse(path).map_err(|error| error.to_string())?;
        match topic.starts_with('/') {
            true => Ok(EpisodeTopic { topic: topic.to_owned(), path: path.to_owned() }),
            false => Err(format!("expected /TOPIC or /TOPIC:PATH, found '{text}'")),
        }
    }
}

impl fmt::Display for EpisodeTopic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.topic, self.path)
    }
}

/// Reads the number of a topic's messages.
pub struct EpisodeNumber {
    plan: FieldReader,
    values: Vec<f64>,
}

impl EpisodeNumber {
    /// True if the number of a message is not zero.
    ///
    /// # Errors
    /// The message cannot be read.
    pub fn is_set(&mut self, message: &[u8]) -> Result<bool, String> {
        let mut reader = Reader::new(message).map_err(|error| error.to_string())?;
        let read = self.plan.read(&mut reader, &mut self.values);
        read.map_err(|rejected| rejected.to_string())?;
        Ok(self.values.first().is_some_and(|value| *value != 0.0))
    }
}

impl EpisodeTopic {
    /// The topic.
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// Reader of the number in messages of a type.
    ///
    /// # Errors
    /// The definition of the type is unknown, or has no such number.
    pub fn number(
        &self,
        ros_type: &str,
        definitions: &dyn Definitions,
    ) -> Result<EpisodeNumber, String> {
        let ros_type = resolve(ros_type, definitions).map_err(|error| error.to_string())?;
        let path = Path::parse(&self.path).map_err(|error| error.to_string())?;
        let plan = FieldReader::new(&ros_type, &[path], None)
            .map_err(|error| format!("expected {}", error.expected))?;
        match plan.channels().len() {
            1 => Ok(EpisodeNumber { plan, values: Vec::new() }),
            found => Err(format!("expected one number, found {found}")),
        }
    }

    /// The first and the last instant of each episode of a bag. One that has not ended ends with the bag.
    ///
    /// # Errors
    /// If the bag lacks the topic, its definition or the number; if a message cannot be read, as it may be an
    /// edge; or if there is no episode.
    pub fn episodes(&self, bag: &Bag) -> Result<Vec<(Stamp, Stamp)>, ReplayError> {
        let wrong =
            |what: String| ReplayError::Wiring(format!("{}: {self}: {what}", bag.path.display()));
        let Some(topic) = bag.topic(&self.topic) else {
            let topics: Vec<&str> = bag.topics.iter().map(|topic| topic.name.as_str()).collect();
            let found = if topics.is_empty() { "none".to_owned() } else { topics.join(", ") };
            return Err(wrong(format!("expected this topic in the bag, found {found}")));
        };
        let definitions = BagDefinitions::new(bag)?;
        let mut number = self.number(&bag.topics[topic].ros_type, &definitions).map_err(wrong)?;
        let mut wanted = vec![false; bag.topics.len()];
        wanted[topic] = true;
        let mut messages = bag.messages(&wanted)?;
        let mut episodes = Vec::new();
        let mut began = None;
        for message in messages.by_ref() {
            let read = number.is_set(&message.bytes);
            let read =
                read.map_err(|why| wrong(format!("the message of {}: {why}", message.received)))?;
            match (read, began) {
                (true, None) => began = Some(message.received),
                (false, Some(start)) => {
                    episodes.push((start, message.received));
                    began = None;
                }
                _ => {}
            }
        }
        if let Some(problem) = bag.problems.iter().chain(&messages.problems.first).next() {
            return Err(wrong(format!("an edge may be lost: {problem}")));
        }
        if let (Some(start), Some((_, last))) = (began, bag.span()) {
            episodes.push((start, last));
        }
        match episodes.is_empty() {
            true => Err(wrong("expected a message in which it is not zero, found none".into())),
            false => Ok(episodes),
        }
    }
}

#[cfg(test)]
mod tests;
