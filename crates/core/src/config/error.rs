//! Problems of a configuration.

use std::fmt;

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{file}: expected a readable configuration file, found an error: {source}")]
    Read {
        /// The file as it was named.
        file: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// The file's content is not a valid configuration; displayed as one line per problem.
    #[error("{}", lines(.0))]
    Invalid(Vec<Problem>),
}

/// One thing wrong with a configuration file. Displayed as
/// `robot.yaml:14: streams.lidar.cloud.size_m: expected a number greater than 0, found -0.1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file as it was named.
    pub file: String,
    /// Line where the key is written, or the closest key around it that exists; from 1.
    pub line: usize,
    /// Path of the key; empty if the problem is not at a key.
    pub key: String,
    /// Words for what would have been right there.
    pub expected: String,
    /// Words for what is there.
    pub found: String,
    /// Suggestion of what was probably meant.
    pub hint: Option<String>,
}

impl Problem {
    /// A problem that belongs to a line but to no key.
    pub(super) fn of_file(
        file: &str,
        line: usize,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Problem {
        Problem {
            file: file.into(),
            line,
            key: String::new(),
            expected: expected.into(),
            found: found.into(),
            hint: None,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: ", self.file, self.line)?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        write!(f, "expected {}, found {}", self.expected, self.found)?;
        match &self.hint {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}

fn lines(problems: &[Problem]) -> String {
    problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n")
}
