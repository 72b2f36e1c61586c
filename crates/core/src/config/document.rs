//! A configuration file: its tree with the defaults filled in, and the line and the text of each
//! key.
//!
//! The checks name a value by its key path: `streams.lidar.cloud.shape[2]`. A value that a stream
//! has from `defaults` is reported where it is written, as `defaults.cloud.cloud.shape[2]`.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use super::defaults::{self, Kind};
use super::error::Problem;
use super::node::{self, Entry, Node, Value, join};
use super::presets;

/// A file that has been read.
pub(super) struct Document {
    file: String,
    root: Rc<Node>,
    places: HashMap<String, SourcePlace>,
    problems: Vec<Problem>,
}

/// Place at which a value is written.
struct SourcePlace {
    line: usize,
    text: String,
    /// Its path there, if it is inherited.
    origin: Option<String>,
    /// The preset that it is from.
    preset: Option<&'static str>,
    /// Number of the written value, equal for all its paths.
    id: usize,
}

/// Origin of the values in a collection.
#[derive(Clone, Copy, Default)]
struct From<'a> {
    /// The path in `defaults` from which they are inherited, or could be; and whether they are.
    defaults: Option<(&'a str, bool)>,
    /// The preset that has them.
    preset: Option<&'static str>,
}

impl Document {
    /// Reads the structure of `text`. Problems that do not keep the rest from being read are in
    /// [`Document::problems`].
    ///
    /// # Errors
    /// The problem that does.
    pub(super) fn read(text: &str, file: &str) -> Result<Document, Problem> {
        let mut problems = Vec::new();
        let written = node::read(text, file, &mut problems)?;
        let root = presets::fill_in(&defaults::fill_in(&written, file)?);
        let mut doc = Document { file: file.into(), root, places: HashMap::new(), problems };
        let root = Rc::clone(&doc.root);
        doc.places.insert(String::new(), place(root.line, &root, None, None));
        doc.index("", From::default(), &root);
        Ok(doc)
    }

    /// The name of the file, as it was given.
    pub(super) fn file(&self) -> &str {
        &self.file
    }

    /// The mapping at the top.
    pub(super) fn root(&self) -> Rc<Node> {
        Rc::clone(&self.root)
    }

    /// Takes the problems of the structure.
    pub(super) fn take_problems(&mut self) -> Vec<Problem> {
        std::mem::take(&mut self.problems)
    }

    /// Notes the places of all values in `node`, which is at `path`.
    fn index(&mut self, path: &str, from: From<'_>, node: &Node) {
        match &node.value {
            Value::Scalar { .. } => {}
            Value::List(nodes) => {
                for (at, child) in nodes.iter().enumerate() {
                    let origin =
                        from.defaults.map(|(from, inherited)| (format!("{from}[{at}]"), inherited));
                    self.note(format!("{path}[{at}]"), child.line, origin, from.preset, child);
                }
            }
            Value::Mapping(entries) => {
                for entry in entries {
                    let at = join(path, &entry.key);
                    let origin = match (path, from.defaults) {
                        ("streams", _) => Kind::of(&entry.node)
                            .map(|kind| (join(defaults::KEY, kind.name()), false)),
                        (_, Some((from, inherited))) => {
                            Some((join(from, &entry.key), inherited || entry.inherited))
                        }
                        (_, None) => None,
                    };
                    let preset = entry.preset.or(from.preset);
                    self.note(at, entry.line, origin, preset, &entry.node);
                }
            }
        }
    }

    fn note(
        &mut self,
        path: String,
        line: usize,
        source: Option<(String, bool)>,
        preset: Option<&'static str>,
        node: &Node,
    ) {
        let origin = source.as_ref().filter(|(_, inherited)| *inherited).map(|(from, _)| from);
        let place = place(line, node, origin.cloned(), preset);
        let defaults = source.as_ref().map(|(from, inherited)| (from.as_str(), *inherited));
        self.index(&path, From { defaults, preset }, node);
        self.places.insert(path, place);
    }

    /// The preset that the value at a key path is from.
    pub(super) fn preset_of(&self, key: &str) -> Option<&'static str> {
        self.places.get(key)?.preset
    }

    /// True if the value at a key path is from `defaults`.
    pub(super) fn is_inherited(&self, key: &str) -> bool {
        self.places.get(key).is_some_and(|place| place.origin.is_some())
    }

    /// A number of the value at a key path. It is the same for all paths at which aliases, merge keys
    /// and `defaults` put that value.
    pub(super) fn id(&self, key: &str) -> Option<usize> {
        self.places.get(key).map(|place| place.id)
    }

    /// A problem at a key path. What was found is the file's text there.
    pub(super) fn problem(&self, key: &str, expected: impl Into<String>) -> Problem {
        let found = self.places.get(key).map_or("nothing", |place| &place.text);
        self.problem_found(key, expected, found)
    }

    /// A problem at a key path. The line is that of the key. If the file lacks the key, the line is
    /// that of the closest key around it that is not inherited.
    pub(super) fn problem_found(
        &self,
        key: &str,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Problem {
        let set = self.preset_of(key).map(|preset| format!("the preset {preset} sets it"));
        if let Some(SourcePlace { line, origin: Some(origin), .. }) = self.places.get(key) {
            let user = key.splitn(3, '.').take(2).collect::<Vec<_>>().join(".");
            let hints = [Some(format!("for {user}")), set];
            let hint = hints.into_iter().flatten().collect::<Vec<_>>().join("; ");
            let problem = Problem::of_file(&self.file, *line, expected, found);
            return Problem { key: origin.clone(), hint: Some(hint), ..problem };
        }
        let mut around = key;
        let line = loop {
            match self.places.get(around) {
                Some(SourcePlace { line, origin: None, .. }) => break *line,
                _ if around.is_empty() => break 1,
                _ => around = &around[..around.rfind(['.', '[']).unwrap_or(0)],
            }
        };
        let problem = Problem::of_file(&self.file, line, expected, found);
        Problem { key: key.into(), hint: set, ..problem }
    }
}

fn place(
    line: usize,
    node: &Node,
    origin: Option<String>,
    preset: Option<&'static str>,
) -> SourcePlace {
    let id = std::ptr::from_ref(node) as usize;
    SourcePlace { line, text: node.text.clone(), origin, preset, id }
}

/// Sorts problems in the order of the file. Of the same problem of one value, which several streams
/// may share, the first is kept. With each problem is the value's [`Document::id`], if there is one.
pub(super) fn in_order(problems: Vec<(Option<usize>, Problem)>) -> Vec<Problem> {
    let mut seen = HashSet::new();
    let is_new = |(id, problem): &(Option<usize>, Problem)| {
        let Problem { line, expected, found, .. } = problem;
        id.is_none_or(|id| seen.insert((id, *line, expected.clone(), found.clone())))
    };
    let mut problems: Vec<_> = problems.into_iter().filter(is_new).map(|(_, it)| it).collect();
    problems.sort_by_key(|problem| problem.line);
    problems
}

/// The entries of a mapping, or nothing.
pub(super) fn entries(node: &Node) -> &[Entry] {
    node.entries().unwrap_or_default()
}
