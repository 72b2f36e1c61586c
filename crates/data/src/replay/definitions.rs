//! The definitions of messages that a bag carries.

use std::collections::HashMap;
use std::path;

use super::ReplayError;
use crate::bag::Bag;
use robocache_core::config::{self, ConfigError};
use robocache_core::schema::{Definitions, Prefixes};
use robocache_core::spec::Config;

/// Separator of two types in the text of a definition. rosbag2 writes 80 of them.
const SEPARATOR: &str = "====";

/// The definitions in a bag; what it lacks is sought in the installed packages. Bags of rosbag2 before
/// Iron have none.
pub struct BagDefinitions {
    texts: HashMap<String, String>,
    installed: Prefixes,
}

impl BagDefinitions {
    /// The definitions of a bag's topics, with those of the types of their members.
    ///
    /// A text is that of the topic's type. Behind a line of `=`, `MSG: package/Type` begins that of another.
    ///
    /// # Errors
    /// [`ReplayError::Wiring`] if the bag has two different definitions of a type.
    pub fn new(bag: &Bag) -> Result<Self, ReplayError> {
        let mut texts: HashMap<String, String> = HashMap::new();
        let mut add = |name: String, text: String| match texts.insert(name.clone(), text.clone()) {
            Some(other) if !same(&other, &text) => Err(ReplayError::Wiring(format!(
                "{}: expected one definition of {name}, found two that differ",
                bag.path.display()
            ))),
            _ => Ok(()),
        };
        for topic in &bag.topics {
            let Some(definition) = &topic.definition else { continue };
            if definition.encoding != "ros2msg" {
                continue;
            }
            let mut name = topic.ros_type.clone();
            let mut text = String::new();
            let mut separated = false;
            for line in definition.text.lines() {
                match line.strip_prefix("MSG:") {
                    Some(next) if separated => {
                        add(name, std::mem::take(&mut text))?;
                        name = full_name(next.trim());
                    }
                    _ if line.starts_with(SEPARATOR) => {}
                    _ => {
                        text.push_str(line);
                        text.push('\n');
                    }
                }
                separated = line.starts_with(SEPARATOR);
            }
            add(name, text)?;
        }
        Ok(BagDefinitions { texts, installed: Prefixes::of_environment() })
    }

    /// Reads the text of a configuration, which is in `file`, with another rate of the ticks if it is given. Errors
    /// name the whole path. What is made of the bag has only the name of the file, so that it does not depend on
    /// the folder.
    ///
    /// # Errors
    /// The configuration is not valid.
    pub fn configuration(
        &self,
        text: &str,
        file: &path::Path,
        rate_hz: Option<f64>,
    ) -> Result<Config, ConfigError> {
        let mut config = config::parse_at_rate(text, &file.display().to_string(), rate_hz, self)?;
        let name = file.file_name().unwrap_or(file.as_os_str());
        config.source.file = name.to_string_lossy().into_owned();
        Ok(config)
    }
}

/// True if two definitions are equal but for comments and spaces.
fn same(one: &str, other: &str) -> bool {
    let words = |text: &str| -> Vec<String> {
        let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
        lines.flat_map(str::split_whitespace).map(str::to_owned).collect()
    };
    words(one) == words(other)
}

/// `package/Type` as `package/msg/Type`.
fn full_name(name: &str) -> String {
    match name.split('/').collect::<Vec<_>>()[..] {
        [package, own] => format!("{package}/msg/{own}"),
        _ => name.to_owned(),
    }
}

impl Definitions for BagDefinitions {
    fn find(&self, name: &str) -> Result<String, String> {
        match self.texts.get(name) {
            Some(text) => Ok(text.clone()),
            None => {
                self.installed.find(name).map_err(|why| format!("not as ros2msg in the bag; {why}"))
            }
        }
    }
}
