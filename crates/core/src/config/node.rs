//! The values of a YAML file as a tree, each with the line where it is written.
//!
//! The events of yaml-rust2 become nodes. An alias is the node that it names, so that a problem in
//! it has the line of the original. Merge keys (`<<`) are applied: a key of the mapping itself wins,
//! then the first of several merged mappings. An alias may name anything that is complete before it.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use yaml_rust2::parser::{Event, Parser, Tag};
use yaml_rust2::scanner::TScalarStyle;

use super::error::Problem;

/// Deepest nesting that is read, aliases included. No key of the format is deeper than 7 levels; the
/// bound keeps hostile files harmless.
const MAX_DEPTH: usize = 24;
/// Most values that are read, those that aliases and merge keys repeat included.
pub(crate) const MAX_NODES: usize = 1 << 18;
/// Longest excerpt of a file in a message \[characters\].
const MAX_TEXT: usize = 60;

/// A value.
#[derive(Debug)]
pub struct Node {
    /// Its content.
    pub value: Value,
    /// An excerpt of it, for messages.
    pub text: String,
    /// Line where it begins.
    pub line: usize,
    /// Nodes in it, itself included. What aliases repeat counts each time.
    pub nodes: usize,
    /// Levels of lists and mappings; 0 for a scalar.
    depth: usize,
}

/// The content of a node.
#[derive(Debug)]
pub enum Value {
    /// A scalar.
    Scalar {
        /// Its text.
        text: String,
        /// True if the text has no quotes.
        plain: bool,
    },
    /// A list.
    List(Vec<Rc<Node>>),
    /// A mapping, in the order of the file.
    Mapping(Vec<Entry>),
}

/// A key of a mapping with its value.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Line of the key, where a person looks for the value.
    pub line: usize,
    /// True if the entry is from `defaults`, and not the stream's own.
    pub inherited: bool,
    /// The preset of images that it is from.
    pub preset: Option<&'static str>,
    /// Its value.
    pub node: Rc<Node>,
}

impl Node {
    /// The entries of a mapping.
    pub fn entries(&self) -> Option<&[Entry]> {
        match &self.value {
            Value::Mapping(entries) => Some(entries),
            Value::Scalar { .. } | Value::List(_) => None,
        }
    }

    /// Copies the value as that of a preset, which is named at a line.
    pub fn of_preset(&self, preset: &'static str, line: usize) -> Node {
        let value = match &self.value {
            Value::Scalar { text, plain } => Value::Scalar { text: text.clone(), plain: *plain },
            Value::List(nodes) => Value::List(
                nodes.iter().map(|node| Rc::new(node.of_preset(preset, line))).collect(),
            ),
            Value::Mapping(entries) => {
                let moved = |entry: &Entry| {
                    let node = Rc::new(entry.node.of_preset(preset, line));
                    Entry { line, node, preset: Some(preset), ..entry.clone() }
                };
                Value::Mapping(entries.iter().map(moved).collect())
            }
        };
        Node { value, text: self.text.clone(), line, ..*self }
    }

    /// The values of a list.
    pub fn items(&self) -> Option<&[Rc<Node>]> {
        match &self.value {
            Value::List(nodes) => Some(nodes),
            Value::Scalar { .. } | Value::Mapping(_) => None,
        }
    }

    /// The value of a key, if this is a mapping that has it.
    pub fn get(&self, key: &str) -> Option<&Rc<Node>> {
        self.entries()?.iter().find(|entry| entry.key == key).map(|entry| &entry.node)
    }

    /// The text of a scalar.
    pub fn scalar(&self) -> Option<&str> {
        match &self.value {
            Value::Scalar { text, .. } => Some(text),
            Value::List(_) | Value::Mapping(_) => None,
        }
    }

    /// A list or a mapping.
    pub fn collection(value: Value, line: usize) -> Node {
        let text = match &value {
            Value::List(nodes) => excerpt(['[', ']'], nodes.iter().map(|node| node.text.clone())),
            Value::Mapping(entries) => excerpt(
                ['{', '}'],
                entries.iter().map(|entry| format!("{}: {}", entry.key, entry.node.text)),
            ),
            Value::Scalar { text, .. } => text.clone(),
        };
        let mut nodes = 1usize;
        let mut depth = 0;
        let mut add = |child: &Node| {
            nodes = nodes.saturating_add(child.nodes);
            depth = depth.max(child.depth);
        };
        match &value {
            Value::List(all) => all.iter().for_each(|node| add(node)),
            Value::Mapping(all) => all.iter().for_each(|entry| add(&entry.node)),
            Value::Scalar { .. } => {}
        }
        Node { value, text, line, nodes, depth: depth + 1 }
    }
}

/// Joins texts, but no more of them than are shown.
fn excerpt([open, close]: [char; 2], parts: impl Iterator<Item = String>) -> String {
    let mut text = String::from(open);
    for (at, part) in parts.enumerate() {
        if at > 0 {
            text.push_str(", ");
        }
        text.push_str(&part);
        if text.len() > 4 * MAX_TEXT {
            break;
        }
    }
    text.push(close);
    shorten(text)
}

fn shorten(text: String) -> String {
    match text.char_indices().nth(MAX_TEXT) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

/// Path of a key in the mapping at `path`.
pub(crate) fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.into() } else { format!("{path}.{key}") }
}

/// Reads the tree of a file. The mapping at its top is the root. Adds to `problems` what does not
/// keep the rest from being read.
///
/// # Errors
/// The problem that does.
pub fn read(text: &str, file: &str, problems: &mut Vec<Problem>) -> Result<Rc<Node>, Problem> {
    read_as("a mapping with the keys `rate_hz` and `streams`", text, file, problems)
}

/// As [`read`], of a file that is expected to be another mapping.
pub(super) fn read_as(
    expected: &str,
    text: &str,
    file: &str,
    problems: &mut Vec<Problem>,
) -> Result<Rc<Node>, Problem> {
    let mut reader = Reader {
        file,
        open: Vec::new(),
        anchors: HashMap::new(),
        root: None,
        documents: 0,
        nodes: 0,
        problems,
    };
    let mut parser = Parser::new_from_str(text);
    loop {
        match parser.next_token() {
            Ok((Event::StreamEnd, _)) => break,
            Ok((event, mark)) => reader.event(event, mark.line())?,
            Err(error) => {
                let line = error.marker().line();
                let found = format!("an error: {}", error.info());
                let mut problem = Problem::of_file(file, line, "valid YAML", found);
                let written = text.lines().nth(line.saturating_sub(1)).unwrap_or_default();
                if written.trim_start().starts_with("select:") {
                    let hint = "in a list in brackets, a path that has brackets is in quotes: \
                                select: ['values[3]']; or each path is on a line of its own";
                    problem.hint = Some(hint.into());
                }
                return Err(problem);
            }
        }
    }
    let root = reader.root.ok_or_else(|| Problem::of_file(file, 1, expected, "nothing"))?;
    match root.value {
        Value::Mapping(_) => Ok(root),
        _ => Err(Problem::of_file(file, root.line, expected, &*root.text)),
    }
}

/// A list or mapping whose end has not come yet.
struct Open {
    path: String,
    line: usize,
    anchor: usize,
    within: Within,
}

enum Within {
    List(Vec<Rc<Node>>),
    Mapping(Pending),
}

/// A mapping so far.
#[derive(Default)]
struct Pending {
    entries: Vec<Entry>,
    /// Position in `entries` of each of its own keys.
    own: HashMap<String, usize>,
    /// The mapping that it merges, and before which position of `entries`.
    merged: Option<(usize, Rc<Node>, usize)>,
    /// The key whose value comes next.
    key: Option<Key>,
}

struct Key {
    name: String,
    line: usize,
    /// True if the key is `<<`.
    merges: bool,
    /// True if the mapping has the key already.
    again: bool,
}

/// Folds events into a tree.
struct Reader<'a> {
    file: &'a str,
    open: Vec<Open>,
    /// The nodes that aliases may name.
    anchors: HashMap<usize, Rc<Node>>,
    root: Option<Rc<Node>>,
    documents: usize,
    /// Nodes so far, and those that aliases and merges repeated.
    nodes: usize,
    problems: &'a mut Vec<Problem>,
}

impl Reader<'_> {
    fn event(&mut self, event: Event, line: usize) -> Result<(), Problem> {
        match event {
            Event::DocumentStart => {
                self.documents += 1;
                match self.documents {
                    1 => Ok(()),
                    _ => Err(self.problem(line, "one YAML document", "a second one")),
                }
            }
            Event::Scalar(text, style, anchor, tag) => {
                let plain = style == TScalarStyle::Plain && !self.is_text(tag.as_ref(), line);
                if self.awaits_key() {
                    self.key(text, plain, line);
                    return Ok(());
                }
                let shown = shorten(if plain { text.clone() } else { format!("{text:?}") });
                let value = Value::Scalar { text, plain };
                self.add(Node { value, text: shown, line, nodes: 1, depth: 0 }, anchor)
            }
            Event::Alias(anchor) => self.alias(anchor, line),
            Event::SequenceStart(anchor, tag) => {
                self.is_text(tag.as_ref(), line);
                self.start("a list", Within::List(Vec::new()), anchor, line)
            }
            Event::MappingStart(anchor, tag) => {
                self.is_text(tag.as_ref(), line);
                self.start("a mapping", Within::Mapping(Pending::default()), anchor, line)
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(),
            _ => Ok(()),
        }
    }

    fn problem(&self, line: usize, expected: &str, found: &str) -> Problem {
        Problem::of_file(self.file, line, expected, found)
    }

    /// True if a tag says that a scalar is text. Other tags are problems: no value here needs one.
    fn is_text(&mut self, tag: Option<&Tag>, line: usize) -> bool {
        let Some(Tag { handle, suffix }) = tag else { return false };
        // The full form of `!!`.
        let handle = if handle == "tag:yaml.org,2002:" { "!!" } else { handle };
        if (handle, suffix.as_str()) == ("!!", "str") {
            return true;
        }
        let found = shorten(format!("{handle}{suffix}"));
        let expected = "a value without a tag (or with `!!str`)";
        self.problems.push(Problem::of_file(self.file, line, expected, found));
        false
    }

    fn start(
        &mut self,
        what: &str,
        within: Within,
        anchor: usize,
        line: usize,
    ) -> Result<(), Problem> {
        self.no_key_here(what, line)?;
        if self.open.len() == MAX_DEPTH {
            return Err(self.too_deep(line));
        }
        self.open.push(Open { path: self.place(), line, anchor, within });
        Ok(())
    }

    fn too_deep(&self, line: usize) -> Problem {
        self.problem(line, &format!("at most {MAX_DEPTH} levels"), "more")
    }

    /// Refuses a key that is not text, which YAML allows.
    fn no_key_here(&self, found: &str, line: usize) -> Result<(), Problem> {
        if self.awaits_key() { Err(self.problem(line, "a key", found)) } else { Ok(()) }
    }

    fn awaits_key(&self) -> bool {
        let pending = self.open.last().map(|open| &open.within);
        matches!(pending, Some(Within::Mapping(Pending { key: None, .. })))
    }

    /// Takes the key whose value comes next.
    fn key(&mut self, name: String, plain: bool, line: usize) {
        let Some(Open { path, within: Within::Mapping(pending), .. }) = self.open.last_mut() else {
            return;
        };
        let merges = plain && name == "<<";
        let first = match merges {
            true => pending.merged.as_ref().map(|(_, _, line)| *line),
            false => pending.own.get(&name).map(|at| pending.entries[*at].line),
        };
        if let Some(first) = first {
            let expected = format!("each key only once (first on line {first})");
            let twice = Problem::of_file(self.file, line, expected, "it again");
            self.problems.push(Problem { key: join(path, &name), ..twice });
        }
        pending.key = Some(Key { name, line, merges, again: first.is_some() });
    }

    /// Path of the value that comes next.
    fn place(&self) -> String {
        match self.open.last() {
            None => String::new(),
            Some(Open { path, within: Within::List(nodes), .. }) => {
                format!("{path}[{}]", nodes.len())
            }
            Some(Open { path, within: Within::Mapping(pending), .. }) => {
                join(path, pending.key.as_ref().map_or("", |key| &key.name))
            }
        }
    }

    fn alias(&mut self, anchor: usize, line: usize) -> Result<(), Problem> {
        self.no_key_here("an alias", line)?;
        let Some(node) = self.anchors.get(&anchor).map(Rc::clone) else {
            let expected = "an alias of a value that is complete before it";
            return Err(self.problem(line, expected, "one of a value around it"));
        };
        if self.open.len() + node.depth > MAX_DEPTH {
            return Err(self.too_deep(line));
        }
        self.count(node.nodes, line)?;
        self.put(node, line);
        Ok(())
    }

    /// Counts nodes, so that aliases of aliases do not take all memory.
    fn count(&mut self, nodes: usize, line: usize) -> Result<(), Problem> {
        self.nodes = self.nodes.saturating_add(nodes);
        if self.nodes > MAX_NODES {
            let expected = format!("at most {MAX_NODES} values, with what aliases repeat");
            return Err(self.problem(line, &expected, "more"));
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), Problem> {
        let Some(Open { path, line, anchor, within }) = self.open.pop() else { return Ok(()) };
        let value = match within {
            Within::List(nodes) => Value::List(nodes),
            Within::Mapping(pending) => Value::Mapping(self.merge(&path, pending)?),
        };
        self.add(Node::collection(value, line), anchor)
    }

    /// The entries of a mapping: its own, and the merged ones that it lacks in the place of `<<`.
    fn merge(&mut self, path: &str, pending: Pending) -> Result<Vec<Entry>, Problem> {
        let Pending { mut entries, own, merged, .. } = pending;
        let Some((at, from, line)) = merged else { return Ok(entries) };
        let sources: Vec<&Node> = match &from.value {
            Value::List(nodes) => nodes.iter().map(|node| &**node).collect(),
            Value::Scalar { .. } | Value::Mapping(_) => vec![&from],
        };
        let mut added = Vec::new();
        let mut names = HashSet::new();
        for source in sources {
            let Some(entries) = source.entries() else {
                let expected = "a mapping to merge, or a list of mappings";
                let problem = Problem::of_file(self.file, line, expected, source.text.clone());
                self.problems.push(Problem { key: join(path, "<<"), ..problem });
                continue;
            };
            for entry in entries {
                if !own.contains_key(&entry.key) && names.insert(entry.key.as_str()) {
                    self.count(entry.node.nodes, line)?;
                    added.push(entry.clone());
                }
            }
        }
        entries.splice(at..at, added);
        Ok(entries)
    }

    /// Adds a new node to the list or mapping around it.
    fn add(&mut self, node: Node, anchor: usize) -> Result<(), Problem> {
        let line = node.line;
        self.count(1, line)?;
        let node = Rc::new(node);
        if anchor > 0 {
            self.anchors.insert(anchor, Rc::clone(&node));
        }
        self.put(node, line);
        Ok(())
    }

    fn put(&mut self, node: Rc<Node>, line: usize) {
        match self.open.last_mut().map(|open| &mut open.within) {
            None => self.root = Some(node),
            Some(Within::List(nodes)) => nodes.push(node),
            Some(Within::Mapping(pending)) => match pending.key.take() {
                None | Some(Key { again: true, .. }) => {}
                Some(Key { merges: true, .. }) => {
                    pending.merged = Some((pending.entries.len(), node, line));
                }
                Some(Key { name, line, .. }) => {
                    pending.own.insert(name.clone(), pending.entries.len());
                    pending.entries.push(Entry {
                        key: name,
                        line,
                        inherited: false,
                        preset: None,
                        node,
                    });
                }
            },
        }
    }
}
