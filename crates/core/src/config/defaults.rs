//! The keys that streams of one kind have in common: `defaults`.
//!
//! A stream without a key has that of `defaults` for its kind. Some mappings are filled in key by
//! key: `keys` says which.

use std::rc::Rc;

use super::document::entries;
use super::error::Problem;
use super::keys::{is_inherited_by_key, of_kind};
use super::node::{Entry, MAX_NODES, Node, Value};
use crate::input::{Content, MessageType};

/// The key of the defaults.
pub(super) const KEY: &str = "defaults";

/// A kind of streams, by what they become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Vector,
    Image,
    Cloud,
}

impl Kind {
    pub(super) const ALL: [Kind; 3] = [Kind::Vector, Kind::Image, Kind::Cloud];

    /// The key in `defaults`.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Kind::Vector => "vector",
            Kind::Image => "image",
            Kind::Cloud => "cloud",
        }
    }

    /// The kind of a stream with this content; `None` for maps, because a robot has one map.
    pub(super) const fn of_content(content: Content) -> Option<Kind> {
        match content {
            Content::Fields(_) | Content::Joints | Content::Trajectory | Content::Selected => {
                Some(Kind::Vector)
            }
            Content::Image => Some(Kind::Image),
            Content::Points => Some(Kind::Cloud),
            Content::Map => None,
        }
    }

    /// The kind of a stream, if it names a type that is known.
    pub(super) fn of(stream: &Node) -> Option<Kind> {
        Kind::of_content(content(stream)?)
    }
}

/// Content of a stream's messages, if its type is known.
pub(super) fn content(stream: &Node) -> Option<Content> {
    let inputs = stream.get("inputs").and_then(|inputs| inputs.items()).unwrap_or_default();
    if stream.get("select").is_some() || inputs.iter().any(|input| input.get("select").is_some()) {
        return Some(Content::Selected);
    }
    let name = stream.get("type")?.scalar()?;
    find_type(name).map(|message| message.content)
}

/// The type of messages of this name. `package/Type` is short for `package/msg/Type`.
pub(super) fn find_type(name: &str) -> Option<&'static MessageType> {
    MessageType::find(&long_name(name))
}

/// The name of a type as `package/msg/Type`.
pub(super) fn long_name(name: &str) -> String {
    match name.split_once('/') {
        Some((package, rest)) if !rest.contains('/') => format!("{package}/msg/{rest}"),
        _ => name.to_owned(),
    }
}

/// The file with what each stream inherits.
///
/// # Errors
/// A problem if that would be far too much.
pub(super) fn fill_in(root: &Rc<Node>, file: &str) -> Result<Rc<Node>, Problem> {
    let (Some(defaults), Some(streams)) = (root.get(KEY), root.get("streams")) else {
        return Ok(Rc::clone(root));
    };
    let of_kind = |kind: Kind| defaults.get(kind.name()).map(|node| allowed(kind, node));
    let defaults = Kind::ALL.map(of_kind);
    let mut nodes = 0usize;
    let mut filled = Vec::with_capacity(entries(streams).len());
    for stream in entries(streams) {
        let common = Kind::of(&stream.node).and_then(|kind| defaults[kind as usize].as_ref());
        let node = match (common, stream.node.entries()) {
            (Some(common), Some(own)) => Rc::new(merged(own, common, stream.node.line)),
            _ => Rc::clone(&stream.node),
        };
        nodes = nodes.saturating_add(node.nodes);
        if nodes > MAX_NODES {
            let expected = format!("at most {MAX_NODES} values, with those of `{KEY}`");
            return Err(Problem::of_file(file, stream.line, expected, "more"));
        }
        filled.push(Entry { node, ..stream.clone() });
    }
    if streams.entries().is_none() {
        return Ok(Rc::clone(root));
    }
    let streams = Rc::new(Node::collection(Value::Mapping(filled), streams.line));
    let with_streams = |entry: &Entry| match entry.key.as_str() {
        "streams" => Entry { node: Rc::clone(&streams), ..entry.clone() },
        _ => entry.clone(),
    };
    let all = entries(root).iter().map(with_streams).collect();
    Ok(Rc::new(Node::collection(Value::Mapping(all), root.line)))
}

/// The entries that streams of a kind may inherit.
fn allowed(kind: Kind, defaults: &Node) -> Vec<Entry> {
    let keys = of_kind(kind);
    entries(defaults).iter().filter(|entry| keys.contains(&entry.key.as_str())).cloned().collect()
}

/// A mapping of its own entries and the common ones that it lacks.
fn merged(own: &[Entry], common: &[Entry], line: usize) -> Node {
    let mut all = own.to_vec();
    for theirs in common {
        match all.iter_mut().find(|entry| entry.key == theirs.key) {
            None => all.push(Entry { inherited: true, ..theirs.clone() }),
            Some(entry) if is_inherited_by_key(&entry.key) => {
                if let (Some(own), Some(common)) = (entry.node.entries(), theirs.node.entries()) {
                    entry.node = Rc::new(merged(own, common, entry.node.line));
                }
            }
            Some(_) => {}
        }
    }
    Node::collection(Value::Mapping(all), line)
}
