//! Checks of single values. Each returns the value in its final unit. If the value is wrong, it
//! reports a problem and returns `None`, so that one run finds all problems of a file.

use std::collections::HashSet;
use std::path::Path;
use std::rc::Rc;

use super::document::{Document, in_order};
use super::error::Problem;
use super::node::Node;
use crate::schema::Definitions;
use crate::tf::MAX_NAME;
use robocache_ops::time::NANOS_PER_MS;

/// Longest time a configuration can name \[ms\], 11.5 days. The longest sum of times, a lag and
/// 1,023 history steps of this length, stays within an `i64` of nanoseconds.
const MAX_MS: f64 = 1e9;
/// Farthest coordinate a configuration can name \[m\].
const MAX_M: f64 = 1e6;
/// `RMW_TOPIC_MAX_NAME_LENGTH` of rmw/validate_full_topic_name.h.
const MAX_TOPIC_LEN: usize = 247;

/// The numbers that a key takes.
#[derive(Clone, Copy)]
pub(super) struct Range {
    low: f64,
    /// True if `low` itself is outside.
    above_low: bool,
    high: f64,
}

impl Range {
    pub(super) const NON_NEGATIVE_MS: Range = Range::from(0.0, MAX_MS);
    pub(super) const POSITIVE_MS: Range = Range::above(0.0, MAX_MS);
    pub(super) const ANY_MS: Range = Range::from(-MAX_MS, MAX_MS);
    pub(super) const POSITIVE_M: Range = Range::above(0.0, MAX_M);
    pub(super) const ANY_M: Range = Range::from(-MAX_M, MAX_M);

    /// `low..=high`
    pub(super) const fn from(low: f64, high: f64) -> Range {
        Range { low, above_low: false, high }
    }

    /// Greater than `low`, up to `high`.
    pub(super) const fn above(low: f64, high: f64) -> Range {
        Range { low, above_low: true, high }
    }

    /// Words for what is expected instead of `value`, if it is outside.
    fn violation(self, value: f64) -> Option<String> {
        if value <= self.low && self.above_low {
            Some(format!("a number greater than {}", self.low))
        } else if value < self.low {
            Some(format!("a number of at least {}", self.low))
        } else if value > self.high || value.is_nan() {
            Some(format!("a number of at most {}", self.high))
        } else {
            None
        }
    }
}

/// Collects the problems of a file.
pub(super) struct Check<'a> {
    doc: &'a Document,
    definitions: &'a dyn Definitions,
    /// With the number of the value, if it is one.
    problems: Vec<(Option<usize>, Problem)>,
    /// Keys whose values could not be read, which has been reported.
    unread: HashSet<String>,
    /// True if the last problem was not reported again.
    silent: bool,
    /// Statements of the file without any effect.
    without_effect: Vec<String>,
    /// Advice about the file: what is possible in it, and probably not meant.
    advice: Vec<String>,
    /// See [`Source::files`](crate::spec::Source::files).
    files: Vec<(String, String)>,
}

impl<'a> Check<'a> {
    /// Begins with these problems.
    pub(super) fn new(
        doc: &'a Document,
        definitions: &'a dyn Definitions,
        problems: Vec<Problem>,
    ) -> Check<'a> {
        let problems = problems.into_iter().map(|problem| (None, problem)).collect();
        Check {
            doc,
            definitions,
            problems,
            unread: HashSet::new(),
            silent: false,
            without_effect: Vec::new(),
            advice: Vec::new(),
            files: Vec::new(),
        }
    }

    /// Source of the definitions of messages.
    pub(super) fn definitions(&self) -> &'a dyn Definitions {
        self.definitions
    }

    /// Returns the value or, if problems were reported, the problems in the order of the file.
    pub(super) fn finish<T>(self, value: Option<T>) -> Result<T, Vec<Problem>> {
        match value {
            Some(value) if self.problems.is_empty() => Ok(value),
            _ => Err(in_order(self.problems)),
        }
    }

    /// Notes that the value of a key could not be read. No other problem is reported there.
    pub(super) fn set_unread(&mut self, key: String) {
        self.unread.insert(key);
    }

    /// True if the value of a key, or a part of it, could not be read.
    pub(super) fn is_unread(&self, key: &str) -> bool {
        self.unread.contains(key)
    }

    /// A stream as the file has it, with what it inherits.
    pub(super) fn stream(&self, name: &str) -> Option<Rc<Node>> {
        self.doc.root().get("streams")?.get(name).map(Rc::clone)
    }

    /// True if the value of a key is from `defaults`.
    pub(super) fn is_inherited(&self, key: &str) -> bool {
        self.doc.is_inherited(key)
    }

    /// The preset that the value of a key is from.
    pub(super) fn preset_of(&self, key: &str) -> Option<&'static str> {
        self.doc.preset_of(key)
    }

    /// Notes that the value of a key is right but has no effect, and why.
    pub(super) fn no_effect(&mut self, key: &str, why: &str) {
        self.without_effect.push(format!("{key} has no effect: {why}"));
    }

    /// Notes that the value of a key is possible but probably not meant, with its file and line.
    pub(super) fn advise(
        &mut self,
        key: &str,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) {
        self.advice.push(self.doc.problem_found(key, expected, found).to_string());
    }

    /// Takes the advice about the file.
    pub(super) fn take_advice(&mut self) -> Vec<String> {
        std::mem::take(&mut self.advice)
    }

    /// The files that were read.
    pub(super) fn take_files(&mut self) -> Vec<(String, String)> {
        std::mem::take(&mut self.files)
    }

    /// Reads the text of a file that the configuration names, relative to its own file. Notes it for recordings.
    pub(super) fn read_file(&mut self, name: &str) -> Result<&str, String> {
        let path = Path::new(self.doc.file()).parent().unwrap_or(Path::new("")).join(name);
        let file = path.display().to_string();
        if let Some(known) = self.files.iter().position(|(known, _)| *known == file) {
            return Ok(&self.files[known].1);
        }
        let text = self.definitions.file(&path)?;
        self.files.push((file, text));
        Ok(self.files.last().map_or("", |(_, text)| text))
    }

    /// Takes the statements of the file without any effect.
    pub(super) fn take_without_effect(&mut self) -> Vec<String> {
        std::mem::take(&mut self.without_effect)
    }

    /// Reports a problem at a key. What was found is the file's text there.
    pub(super) fn fail(&mut self, key: &str, expected: impl Into<String>) {
        self.report(key, self.doc.problem(key, expected));
    }

    /// Reports a problem at a key, and says what was `found` in other words than the file's text.
    pub(super) fn fail_found(
        &mut self,
        key: &str,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) {
        self.report(key, self.doc.problem_found(key, expected, found));
    }

    fn report(&mut self, key: &str, problem: Problem) {
        let problem = (self.doc.id(key), problem);
        // What several inputs have from their stream is checked for each of them.
        self.silent = self.is_unread(key) || self.problems.contains(&problem);
        if !self.silent {
            self.problems.push(problem);
        }
    }

    /// Adds to the last problem what was probably meant.
    pub(super) fn hint(&mut self, hint: String) {
        if let Some((_, problem)) = self.problems.last_mut().filter(|_| !self.silent) {
            problem.hint = Some(hint);
        }
    }

    pub(super) fn required<T>(&mut self, key: &str, value: Option<T>, expected: &str) -> Option<T> {
        if value.is_none() {
            self.fail(key, expected);
        }
        value
    }

    pub(super) fn number(&mut self, key: &str, value: f64, range: Range) -> Option<f64> {
        match range.violation(value) {
            None => Some(value),
            Some(expected) => {
                self.fail(key, expected);
                None
            }
        }
    }

    /// Milliseconds to whole nanoseconds. A value other than 0 must not round to 0.
    pub(super) fn nanos(&mut self, key: &str, ms: f64, range: Range) -> Option<i64> {
        let ms = self.number(key, ms, range)?;
        let nanos = (ms * NANOS_PER_MS as f64).round() as i64;
        if nanos == 0 && ms != 0.0 {
            self.fail(key, "a whole nanosecond (0.000001) or more");
            return None;
        }
        Some(nanos)
    }

    pub(super) fn integer(
        &mut self,
        key: &str,
        value: i64,
        low: usize,
        high: usize,
    ) -> Option<usize> {
        match usize::try_from(value) {
            Ok(value) if (low..=high).contains(&value) => Some(value),
            _ => {
                self.fail(key, format!("a whole number from {low} to {high}"));
                None
            }
        }
    }

    /// A list of `N` numbers, each within the range.
    pub(super) fn numbers<const N: usize>(
        &mut self,
        key: &str,
        values: &[f64],
        range: Range,
    ) -> Option<[f64; N]> {
        let Ok(values) = <[f64; N]>::try_from(values) else {
            let plural = if N == 1 { "" } else { "s" };
            self.fail(key, format!("a list of {N} number{plural}"));
            return None;
        };
        let mut all = true;
        for (i, value) in values.iter().enumerate() {
            all &= self.number(&format!("{key}[{i}]"), *value, range).is_some();
        }
        all.then_some(values)
    }

    /// A list of names: it is not empty, and no name is there twice.
    pub(super) fn names(&mut self, key: &str, names: &[String], what: &str) -> Option<()> {
        if names.is_empty() {
            self.fail(key, format!("at least one {what}"));
            return None;
        }
        let mut all = true;
        for (i, name) in names.iter().enumerate() {
            let key = format!("{key}[{i}]");
            if !is_printable(name) {
                self.fail(&key, format!("the name of a {what}"));
                all = false;
            } else if let Some(first) = names[..i].iter().position(|other| other == name) {
                self.fail(&key, format!("each {what} only once (first at [{first}])"));
                all = false;
            }
        }
        all.then_some(())
    }

    /// A topic name by the rules of rcl/validate_topic_name.h, without substitutions in braces.
    pub(super) fn topic(&mut self, key: &str, topic: String) -> Option<String> {
        match topic_violation(&topic) {
            None => Some(topic),
            Some(why) => {
                self.fail(key, format!("a ROS topic name such as /joint_states ({why})"));
                None
            }
        }
    }

    /// The name of a stream or a group, at its key.
    pub(super) fn short_name(&mut self, key: &str, name: String, what: &str) -> Option<String> {
        let rest = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(rest) {
            return Some(name);
        }
        let expected = format!("a {what} name of lower-case letters, digits and _, a letter first");
        self.fail_found(key, expected, format!("`{name}`"));
        None
    }

    /// A coordinate frame as tf2 names them.
    pub(super) fn frame_id(&mut self, key: &str, frame: String) -> Option<String> {
        if is_frame(&frame) && !frame.starts_with('/') {
            return Some(frame);
        }
        self.fail(key, format!("the name of a frame, 1 to {MAX_NAME} bytes without a leading /"));
        None
    }
}

/// True if the tree of frames can have a frame of this name.
pub(super) fn is_frame(name: &str) -> bool {
    is_printable(name) && name.len() <= MAX_NAME
}

/// True if a name has characters, and no control characters. (A NUL cannot even be sent.)
pub(super) fn is_printable(name: &str) -> bool {
    !name.is_empty() && !name.chars().any(char::is_control)
}

fn topic_violation(topic: &str) -> Option<&'static str> {
    let relative = match topic.strip_prefix('~') {
        Some(private) if !private.starts_with('/') => return Some("~ is followed by /"),
        Some(private) => private,
        None => topic,
    };
    let mut tokens = relative.strip_prefix('/').unwrap_or(relative).split('/');
    if topic.is_empty() {
        return Some("it is not empty");
    }
    if topic.len() > MAX_TOPIC_LEN {
        return Some("at most 247 characters");
    }
    if tokens.any(|token| {
        !token.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            || !token.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
    }) {
        return Some("between slashes: letters, digits and _, no digit first");
    }
    None
}

#[cfg(test)]
mod tests;
