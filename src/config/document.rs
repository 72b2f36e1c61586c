//! The line and the text of each key of a YAML file.
//!
//! If a value parses but makes no sense, serde_yaml does not tell its position. So the events of a
//! second parser become a map from key path to line and text. Key paths are spelled as serde_yaml
//! spells them: `streams.lidar.cloud.shape[2]`. The same pass finds what is wrong in any
//! configuration: keys given twice, keys without a value, infinities.

use std::collections::HashMap;

use yaml_rust2::parser::{Event, Parser};
use yaml_rust2::scanner::TScalarStyle;

use super::error::Problem;

/// Deepest nesting that is read. No key of the format is deeper than 7 levels; the bound keeps
/// hostile files harmless.
const MAX_DEPTH: usize = 24;
/// Longest excerpt of a file in a message \[characters\].
const MAX_TEXT: usize = 60;

/// The key paths of a file.
pub(super) struct Document {
    file: String,
    nodes: HashMap<String, Node>,
}

struct Node {
    line: usize,
    text: String,
}

impl Document {
    /// Reads the structure of `text`, or returns the problems that any YAML mapping could have.
    pub fn read(text: &str, file: &str) -> Result<Document, Vec<Problem>> {
        let mut reader = Reader::new(file);
        let mut parser = Parser::new_from_str(text);
        loop {
            match parser.next_token() {
                Ok((Event::StreamEnd, _)) => break,
                Ok((event, mark)) => match reader.event(event, mark.line()) {
                    Ok(()) => {}
                    Err(problem) => return Err(vec![problem]),
                },
                Err(error) => {
                    let (line, found) =
                        (error.marker().line(), format!("an error: {}", error.info()));
                    return Err(vec![Problem::of_file(file, line, "valid YAML", found)]);
                }
            }
        }
        if reader.documents == 0 {
            return Err(vec![not_a_mapping(file, 1, "nothing")]);
        }
        if reader.problems.is_empty() { Ok(reader.doc) } else { Err(reader.problems) }
    }

    /// A problem at a key path. What was found is the file's text there.
    pub fn problem(&self, key: &str, expected: impl Into<String>) -> Problem {
        let found = self.nodes.get(key).map_or("nothing", |node| &node.text);
        self.problem_found(key, expected, found)
    }

    /// A problem at a key path. The line is that of the key. If the file lacks the key, the line is
    /// that of the closest key around it.
    pub fn problem_found(
        &self,
        key: &str,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Problem {
        let mut around = key;
        let line = loop {
            if let Some(node) = self.nodes.get(around) {
                break node.line;
            }
            match around.rfind(['.', '[']) {
                Some(end) => around = &around[..end],
                None => break self.nodes.get("").map_or(1, |root| root.line),
            }
        };
        Problem { key: key.into(), ..Problem::of_file(&self.file, line, expected, found) }
    }
}

fn not_a_mapping(file: &str, line: usize, found: &str) -> Problem {
    Problem::of_file(file, line, "a mapping with the keys `rate_hz` and `streams`", found)
}

/// A list or mapping whose end has not come yet.
struct Open {
    path: String,
    line: usize,
    anchor: usize,
    /// Texts of the children so far.
    parts: Vec<String>,
    within: Within,
}

enum Within {
    List,
    /// The key whose value comes next, with its line.
    Mapping(Option<(String, usize)>),
}

/// Folds events into a [`Document`].
struct Reader {
    doc: Document,
    open: Vec<Open>,
    /// The text of each anchor, for the aliases that repeat it.
    anchors: HashMap<usize, String>,
    documents: usize,
    problems: Vec<Problem>,
}

impl Reader {
    fn new(file: &str) -> Reader {
        Reader {
            doc: Document { file: file.into(), nodes: HashMap::new() },
            open: Vec::new(),
            anchors: HashMap::new(),
            documents: 0,
            problems: Vec::new(),
        }
    }

    fn event(&mut self, event: Event, line: usize) -> Result<(), Problem> {
        match event {
            Event::DocumentStart => {
                self.documents += 1;
                if self.documents > 1 {
                    let file = &self.doc.file;
                    return Err(Problem::of_file(file, line, "one YAML document", "a second one"));
                }
            }
            Event::Scalar(text, style, anchor, _) => {
                let plain = style == TScalarStyle::Plain;
                if self.awaits_key() {
                    return self.key(text, line);
                }
                let (path, line) = self.place(line);
                if plain {
                    self.check_plain(&path, line, &text);
                }
                let shown = if plain { text } else { format!("{text:?}") };
                self.add(path, line, anchor, shown)?;
            }
            Event::Alias(anchor) => {
                self.no_key_here("an alias", line)?;
                let (path, line) = self.place(line);
                let text = self.anchors.get(&anchor).cloned().unwrap_or_default();
                self.add(path, line, 0, text)?;
            }
            Event::SequenceStart(anchor, _) => self.start("a list", Within::List, anchor, line)?,
            Event::MappingStart(anchor, _) => {
                self.start("a mapping", Within::Mapping(None), anchor, line)?;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                if let Some(Open { path, line, anchor, parts, within }) = self.open.pop() {
                    let inside = parts.join(", ");
                    let text = match within {
                        Within::List => format!("[{inside}]"),
                        Within::Mapping(_) => format!("{{{inside}}}"),
                    };
                    self.add(path, line, anchor, text)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn start(
        &mut self,
        what: &str,
        within: Within,
        anchor: usize,
        line: usize,
    ) -> Result<(), Problem> {
        self.no_key_here(what, line)?;
        let (path, line) = self.place(line);
        if self.open.len() == MAX_DEPTH {
            let expected = format!("at most {MAX_DEPTH} levels");
            return Err(Problem::of_file(&self.doc.file, line, expected, "more"));
        }
        self.open.push(Open { path, line, anchor, parts: Vec::new(), within });
        Ok(())
    }

    fn awaits_key(&self) -> bool {
        matches!(self.open.last(), Some(Open { within: Within::Mapping(None), .. }))
    }

    /// Takes the key whose value comes next.
    fn key(&mut self, text: String, line: usize) -> Result<(), Problem> {
        if let Some(Open { within: Within::Mapping(key), .. }) = self.open.last_mut() {
            *key = Some((text, line));
        }
        let (path, line) = self.place(line);
        match self.doc.nodes.get(&path) {
            None => Ok(()),
            Some(first) => {
                let expected = format!("each key only once (first on line {})", first.line);
                let twice = Problem::of_file(&self.doc.file, line, expected, "it again");
                Err(Problem { key: path, ..twice })
            }
        }
    }

    /// Refuses a key that is not text, which YAML allows.
    fn no_key_here(&self, found: &str, line: usize) -> Result<(), Problem> {
        match self.awaits_key() {
            true => Err(Problem::of_file(&self.doc.file, line, "a key", found)),
            false => Ok(()),
        }
    }

    /// Path and line of the value that comes next. A value's line is that of its key, where a
    /// person looks for it.
    fn place(&self, line: usize) -> (String, usize) {
        match self.open.last() {
            None => (String::new(), line),
            Some(Open { path, parts, within: Within::List, .. }) => {
                (format!("{path}[{}]", parts.len()), line)
            }
            Some(Open { path, within: Within::Mapping(key), .. }) => {
                let (key, line) = key.clone().unwrap_or_default();
                (if path.is_empty() { key } else { format!("{path}.{key}") }, line)
            }
        }
    }

    /// Adds a finished value to the list or mapping around it.
    fn add(
        &mut self,
        path: String,
        line: usize,
        anchor: usize,
        text: String,
    ) -> Result<(), Problem> {
        let text = shorten(text);
        if anchor > 0 {
            self.anchors.insert(anchor, text.clone());
        }
        match self.open.last_mut() {
            None if !text.starts_with('{') => {
                return Err(not_a_mapping(&self.doc.file, line, &text));
            }
            None => {}
            Some(Open { parts, within: Within::List, .. }) => parts.push(text.clone()),
            Some(Open { parts, within: Within::Mapping(key), .. }) => {
                let (key, _) = key.take().unwrap_or_default();
                parts.push(format!("{key}: {text}"));
            }
        }
        self.doc.nodes.insert(path, Node { line, text });
        Ok(())
    }

    fn check_plain(&mut self, key: &str, line: usize, text: &str) {
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let (expected, found) = match unsigned {
            "" | "~" | "null" | "Null" | "NULL" => ("a value", "nothing"),
            ".inf" | ".Inf" | ".INF" | ".nan" | ".NaN" | ".NAN" => ("a finite number", text),
            _ => return,
        };
        let problem = Problem::of_file(&self.doc.file, line, expected, found);
        self.problems.push(Problem { key: key.into(), ..problem });
    }
}

fn shorten(text: String) -> String {
    match text.char_indices().nth(MAX_TEXT) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}
