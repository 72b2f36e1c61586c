//! Parts of a message that a user selects: `pose.pose.position.x`, `values[3]`, `values[0:7]`,
//! `position["elbow"]`, `transforms[child_frame_id="tool0"].transform`.

use std::fmt::{self, Display};

/// A path into a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// At least one; the first is a member.
    pub steps: Vec<Step>,
}

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// `.name`: a member of a type.
    Member(String),
    /// `[3]`: one element.
    Index(usize),
    /// `[2:5]`: the elements 2, 3 and 4.
    Range(usize, usize),
    /// `["elbow"]` or `[name="elbow"]`: the element of this name.
    Key {
        /// The text member of the elements that has the name, if the path says it.
        member: Option<String>,
        /// The name.
        text: String,
    },
}

/// Why a text is no path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected} at character {at}, found `{found}`")]
pub struct PathError {
    expected: &'static str,
    /// Counted from 1.
    at: usize,
    found: String,
}

impl Path {
    /// Reads a path.
    ///
    /// # Errors
    /// [`PathError`]
    pub fn parse(text: &str) -> Result<Path, PathError> {
        let mut rest = Rest { text, at: 0 };
        let mut steps = vec![Step::Member(rest.word("the name of a member")?.to_owned())];
        loop {
            match rest.peek() {
                None => return Ok(Path { steps }),
                Some('.') => {
                    rest.at += 1;
                    steps.push(Step::Member(rest.word("the name of a member")?.to_owned()));
                }
                Some('[') => {
                    rest.at += 1;
                    steps.push(rest.inside_brackets()?);
                    rest.expect(']', "]")?;
                }
                Some(_) => return Err(rest.wrong(". or [")),
            }
        }
    }
}

impl Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.steps.iter().enumerate().try_for_each(|(at, step)| match step {
            Step::Member(name) if at == 0 => f.write_str(name),
            step => write!(f, "{step}"),
        })
    }
}

impl Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Member(name) => write!(f, ".{name}"),
            Step::Index(at) => write!(f, "[{at}]"),
            Step::Range(from, to) => write!(f, "[{from}:{to}]"),
            Step::Key { member, text } => {
                let quote = if text.contains('"') { '\'' } else { '"' };
                let by = member.as_ref().map(|member| format!("{member}="));
                write!(f, "[{}{quote}{text}{quote}]", by.unwrap_or_default())
            }
        }
    }
}

/// Rest of a text.
struct Rest<'a> {
    text: &'a str,
    /// Bytes that have been read.
    at: usize,
}

impl<'a> Rest<'a> {
    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn wrong(&self, expected: &'static str) -> PathError {
        let found = self.peek().map_or_else(|| "the end".to_owned(), String::from);
        PathError { expected, at: self.text[..self.at].chars().count() + 1, found }
    }

    fn expect(&mut self, wanted: char, name: &'static str) -> Result<(), PathError> {
        if self.peek() != Some(wanted) {
            return Err(self.wrong(name));
        }
        self.at += wanted.len_utf8();
        Ok(())
    }

    fn while_(&mut self, fits: impl Fn(char) -> bool) -> &'a str {
        let rest = &self.text[self.at..];
        let end = rest.find(|c| !fits(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn word(&mut self, expected: &'static str) -> Result<&'a str, PathError> {
        match self.peek() {
            Some(c) if c.is_ascii_alphabetic() || c == '_' => {
                Ok(self.while_(|c| c.is_ascii_alphanumeric() || c == '_'))
            }
            _ => Err(self.wrong(expected)),
        }
    }

    fn number(&mut self) -> Result<usize, PathError> {
        let begun = self.at;
        let digits = self.while_(|c| c.is_ascii_digit());
        // A sequence has at most 2^32 elements.
        digits.parse::<u32>().map(|number| number as usize).map_err(|_| {
            let wrong = Rest { text: self.text, at: begun };
            wrong.wrong("an index, a range such as 0:3, or a name in quotes")
        })
    }

    fn inside_brackets(&mut self) -> Result<Step, PathError> {
        match self.peek() {
            Some('"' | '\'') => Ok(Step::Key { member: None, text: self.quoted()? }),
            Some(c) if c.is_ascii_alphabetic() || c == '_' => {
                let member = Some(self.word("a member")?.to_owned());
                self.expect('=', "=")?;
                Ok(Step::Key { member, text: self.quoted()? })
            }
            _ => {
                let from = self.number()?;
                if self.peek() != Some(':') {
                    return Ok(Step::Index(from));
                }
                self.at += 1;
                let begun = self.at;
                let to = self.number()?;
                if to <= from {
                    self.at = begun;
                    return Err(self.wrong("an end after the start"));
                }
                Ok(Step::Range(from, to))
            }
        }
    }

    fn quoted(&mut self) -> Result<String, PathError> {
        let Some(quote @ ('"' | '\'')) = self.peek() else {
            return Err(self.wrong("a name in quotes"));
        };
        self.at += 1;
        let text = self.while_(|c| c != quote).to_owned();
        self.expect(quote, "the closing quote")?;
        Ok(text)
    }
}
