//! Time that the node has at its end.

use std::env::VarError;
use std::time::Duration;

use super::error::NodeError;

/// The environment variable with that time \[s\]. It is no parameter: the node may hang before it has read them.
const VARIABLE: &str = "ROBOCACHE_END_S";
/// The usual time.
const USUAL: Duration = Duration::from_secs(4);
/// The longest time \[s\].
const LONGEST_S: f64 = 3600.0;

/// Reads the time that the node may take to start, to change its state or to end after the request to end. After this
/// time, the middleware hangs. The end of a recording has as much time.
///
/// # Errors
/// The variable has an unusable value.
pub(crate) fn limit() -> Result<Duration, NodeError> {
    match std::env::var(VARIABLE) {
        Ok(text) => parse(&text),
        Err(VarError::NotPresent) => Ok(USUAL),
        Err(VarError::NotUnicode(text)) => Err(wrong(text.to_string_lossy().into_owned())),
    }
}

fn parse(text: &str) -> Result<Duration, NodeError> {
    let seconds = text.parse().ok().filter(|seconds| *seconds > 0.0 && *seconds <= LONGEST_S);
    seconds.map(Duration::from_secs_f64).ok_or_else(|| wrong(format!("'{text}'")))
}

fn wrong(found: String) -> NodeError {
    NodeError::Variable { name: VARIABLE, expected: "more than 0 and at most 3600 seconds", found }
}

#[cfg(test)]
mod tests;
