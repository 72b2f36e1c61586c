//! Finds the selected paths in a type. `draft` then makes the plan that reads them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::draft::Draft;
use super::field_reader::{Node, StampSource, StructNode};
use super::path::{Path, Step};
use super::spatial::{Spatial, Unframed, Way, framed};
use super::{Count, Kind, Member, Struct};
use crate::tf::FramedPart;
use robocache_ops::resample::Lane;

/// Most numbers of a selection.
const MOST_CHANNELS: usize = 4096;
pub(super) const HEADER: &str = "std_msgs/msg/Header";
pub(super) const TIME: &str = "builtin_interfaces/msg/Time";

/// Which path is wrong, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectError {
    /// Number of the path; `None` for that of the stamp.
    pub path: Option<usize>,
    /// Words for what was expected in place of the path.
    pub expected: String,
    /// A name that is wrong in it, and the names that would be right.
    pub unknown: Option<(String, Vec<String>)>,
}

/// The parts of a plan.
pub(super) struct Compiled {
    pub root: StructNode,
    pub channels: Vec<(String, Lane)>,
    pub stamp: StampSource,
    pub has_header: bool,
    pub has_part_of_quaternion: bool,
    pub framed: Result<Vec<FramedPart>, Unframed>,
}

/// A step that was found in the type.
#[derive(Clone, Debug)]
pub(super) enum Found {
    /// A member, by its position.
    Member(usize),
    /// An element.
    Index(usize),
    /// The element with this text in its own member at this position.
    Inside(usize, String),
    /// The element whose name is in the member at this position of the surrounding type.
    Beside(usize, String),
}

/// A number that is selected.
struct Leaf {
    name: String,
    lane: Lane,
    steps: Vec<Found>,
    /// Number of its path in the selection.
    path: usize,
    /// The point, vector or quaternion that it is a part of.
    spatial: Option<Spatial>,
}

pub(super) fn compile(
    root: &Arc<Struct>,
    paths: &[Path],
    stamp: Option<&Path>,
) -> Result<Compiled, SelectError> {
    let mut leaves = Vec::new();
    for (at, path) in paths.iter().enumerate() {
        let of_path = |wrong: Wrong| wrong.of(Some(at));
        let from = leaves.len();
        let mut walk = Walk { root, leaves: &mut leaves };
        walk.path(path).map_err(of_path)?;
        leaves[from..].iter_mut().for_each(|leaf| leaf.path = at);
    }
    let numbers: Vec<_> = leaves
        .iter()
        .map(|leaf: &Leaf| (leaf.name.as_str(), leaf.path, leaf.spatial.as_ref()))
        .collect();
    let framed = framed(&numbers);
    let has_part_of_quaternion = turn_together(&mut leaves);
    let channels: Vec<_> = leaves.iter().map(|leaf| (leaf.name.clone(), leaf.lane)).collect();
    let mut draft = Draft::Struct(Arc::clone(root), BTreeMap::new());
    for (slot, leaf) in leaves.iter().enumerate() {
        draft.insert(&leaf.steps, slot);
    }
    let has_header = root.has_header();
    let source = match stamp {
        Some(path) => {
            for (slot, steps) in stamp_leaves(root, path)?.iter().enumerate() {
                draft.insert(steps, channels.len() + slot);
            }
            StampSource::Member
        }
        None if has_header => StampSource::Header,
        None => StampSource::None,
    };
    let Node::Struct(root) = draft.finish("").map_err(|wrong| wrong.of(Some(0)))? else {
        unreachable!("the draft began with a struct");
    };
    let stamp = source;
    Ok(Compiled { root, channels, stamp, has_header, has_part_of_quaternion, framed })
}

/// Lets the four numbers of each quaternion turn together. Returns whether one lacks some of them, or
/// has them in another order: such numbers must not be interpolated.
fn turn_together(leaves: &mut [Leaf]) -> bool {
    let mut parts = false;
    let mut at = 0;
    while at < leaves.len() {
        let Some(quaternion) = leaves[at].spatial.as_ref().filter(|spatial| spatial.turns) else {
            at += 1;
            continue;
        };
        let names = quaternion.parts();
        let whole = leaves[at..].iter().map(|leaf| &leaf.name).take(4).eq(&names);
        if whole {
            leaves[at..at + 4].iter_mut().for_each(|leaf| leaf.lane = Lane::Quaternion);
        }
        parts |= !whole;
        at += if whole { 4 } else { 1 };
    }
    parts
}

pub(super) fn is_one(member: &Member, name: &str) -> bool {
    member.count == Count::One && matches!(&member.kind, Kind::Struct(inner) if inner.name == name)
}

/// Seconds and nanoseconds of the stamp at a path.
fn stamp_leaves(root: &Arc<Struct>, path: &Path) -> Result<[Vec<Found>; 2], SelectError> {
    let mut leaves = Vec::new();
    let mut walk = Walk { root, leaves: &mut leaves };
    let kind = walk.path(path).map_err(|wrong| wrong.of(None))?;
    let is_time = matches!(&kind, Some(Kind::Struct(inner)) if inner.name == TIME);
    let steps: Vec<_> = leaves.into_iter().map(|leaf| leaf.steps).collect();
    match (<[_; 2]>::try_from(steps), is_time) {
        (Ok(steps), true) => Ok(steps),
        _ => Err(Wrong::new(format!("the path of a {TIME}")).of(None)),
    }
}

/// A fault in a path.
pub(super) struct Wrong {
    expected: String,
    unknown: Option<(String, Vec<String>)>,
}

impl Wrong {
    pub(super) fn new(expected: impl Into<String>) -> Wrong {
        Wrong { expected: expected.into(), unknown: None }
    }

    fn of(self, path: Option<usize>) -> SelectError {
        SelectError { path, expected: self.expected, unknown: self.unknown }
    }
}

/// The walk along one path.
struct Walk<'a> {
    root: &'a Arc<Struct>,
    leaves: &'a mut Vec<Leaf>,
}

/// Place of the walk.
#[derive(Clone)]
struct Here {
    /// The path so far, as channels are called.
    name: String,
    steps: Vec<Found>,
    way: Way,
}

impl Here {
    fn then(&self, step: Found, name: &str) -> Here {
        let mut steps = self.steps.clone();
        steps.push(step);
        Here { name: format!("{}{name}", self.name), steps, way: self.way.clone() }
    }
}

impl Walk<'_> {
    /// Follows a path; returns what it leads to, if that is one thing.
    fn path(&mut self, path: &Path) -> Result<Option<Kind>, Wrong> {
        let root = Arc::clone(self.root);
        let here = Here { name: String::new(), steps: Vec::new(), way: Way::default() };
        self.inside(&root, &path.steps, &here)
    }

    /// In a type: the next step must be a member.
    fn inside(&mut self, of: &Struct, steps: &[Step], here: &Here) -> Result<Option<Kind>, Wrong> {
        let [Step::Member(step), rest @ ..] = steps else {
            let name = &of.name;
            return Err(Wrong::new(format!("`.` and {} after `{here}`", members(of, name))));
        };
        let Some(at) = of.members.iter().position(|member| member.name == *step) else {
            let after =
                if here.name.is_empty() { String::new() } else { format!(" after `{here}`") };
            return Err(Wrong {
                expected: format!("{}{after}", members(of, &of.name)),
                unknown: Some((step.clone(), of.names().iter().map(ToString::to_string).collect())),
            });
        };
        let dot = if here.name.is_empty() { "" } else { "." };
        let mut next = here.then(Found::Member(at), &format!("{dot}{step}"));
        next.way = here.way.on(of, step);
        let from = self.leaves.len();
        let found = match of.members[at].count {
            Count::One => self.element(&of.members[at].kind, rest, &next),
            _ => self.many(of, at, rest, &next),
        };
        if let Some(spatial) = Spatial::of(of, &here.name, &here.way) {
            let parts = self.leaves[from..].iter_mut();
            parts.for_each(|leaf| leaf.spatial = Some(spatial.clone()));
        }
        found
    }

    /// At several elements: the next step chooses among them.
    fn many(
        &mut self,
        of: &Struct,
        at: usize,
        steps: &[Step],
        here: &Here,
    ) -> Result<Option<Kind>, Wrong> {
        let member = &of.members[at];
        let fixed = match member.count {
            Count::Fixed(len) => Some(len),
            _ => None,
        };
        let range = match (steps, fixed) {
            ([], Some(len)) => Some((0, len)),
            ([Step::Range(from, to), ..], _) => Some((*from, *to)),
            ([Step::Index(index), ..], _) => Some((*index, index + 1)),
            _ => None,
        };
        if let Some((from, to)) = range {
            if let Some(len) = fixed.filter(|len| to > *len) {
                return Err(Wrong::new(format!("an index under {len} for `{here}`")));
            }
            if to - from > MOST_CHANNELS {
                return Err(Wrong::new(format!("at most {MOST_CHANNELS} elements")));
            }
            let rest = steps.get(1..).unwrap_or_default();
            let mut found = None;
            for index in from..to {
                let next = here.then(Found::Index(index), &format!("[{index}]"));
                found = self.element(&member.kind, rest, &next)?;
            }
            return Ok(found.filter(|_| to - from == 1));
        }
        let [Step::Key { member: by, text }, rest @ ..] = steps else {
            let expected = format!(
                "an index, a range or a name after `{here}`, which has as many elements as each \
                 message says: {here}[0], {here}[0:3] or {here}[\"...\"]"
            );
            return Err(Wrong::new(expected));
        };
        let step = key(of, at, by.as_deref(), here)?(text.clone());
        let next = here.then(step, &steps[0].to_string());
        self.element(&member.kind, rest, &next)
    }

    /// At one thing.
    fn element(&mut self, kind: &Kind, steps: &[Step], here: &Here) -> Result<Option<Kind>, Wrong> {
        match (kind, steps) {
            (Kind::Struct(inner), []) => {
                for member in &inner.members {
                    let step = [Step::Member(member.name.clone())];
                    self.inside(inner, &step, here).map_err(|_| {
                        let kinds: Vec<_> = inner.members.iter().map(ToString::to_string).collect();
                        Wrong::new(format!(
                            "members of `{here}`, because not all are numbers: it has {}",
                            kinds.join(", ")
                        ))
                    })?;
                }
            }
            (Kind::Struct(inner), _) => return self.inside(inner, steps, here),
            (Kind::Number(_), []) => {
                let Here { name, steps, .. } = here.clone();
                if self.leaves.len() == MOST_CHANNELS {
                    return Err(Wrong::new(format!("at most {MOST_CHANNELS} numbers in all")));
                }
                let lane = Lane::Linear;
                self.leaves.push(Leaf { name, lane, steps, path: 0, spatial: None });
            }
            (Kind::Number(_), _) => {
                return Err(Wrong::new(format!("nothing after `{here}`, which is one number")));
            }
            (Kind::Text | Kind::WideText, _) => {
                return Err(Wrong::new(format!("a number; `{here}` is text")));
            }
        }
        Ok(Some(kind.clone()))
    }
}

impl std::fmt::Display for Here {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

fn members(of: &Struct, name: &str) -> String {
    let names = of.names();
    match names.as_slice() {
        [only] => format!("{only}, the member of {name}"),
        _ => format!("one of {} (of {name})", names.join(", ")),
    }
}

/// Finds the names of a member's elements: in the elements, or in the member beside it that is a list of texts.
fn key(
    of: &Struct,
    at: usize,
    by: Option<&str>,
    here: &Here,
) -> Result<Box<dyn Fn(String) -> Found>, Wrong> {
    let is_text = |member: &&Member| matches!(member.kind, Kind::Text);
    let position = |of: &Struct, name: &str| of.members.iter().position(|m| m.name == name);
    let mut candidates = Vec::new();
    if let Kind::Struct(inner) = &of.members[at].kind {
        let texts: Vec<&Member> =
            inner.members.iter().filter(is_text).filter(|m| m.count == Count::One).collect();
        let chosen = match by {
            Some(name) => texts.iter().find(|member| member.name == name),
            None => match texts.as_slice() {
                [only] => Some(only),
                _ => texts.iter().find(|member| member.name == "name"),
            },
        };
        if let Some(member) = chosen {
            let inside = position(inner, &member.name).unwrap_or_default();
            return Ok(Box::new(move |text| Found::Inside(inside, text)));
        }
        candidates.extend(texts.iter().map(|member| member.name.clone()));
    }
    let lists: Vec<&Member> =
        of.members.iter().filter(is_text).filter(|m| m.count != Count::One).collect();
    // A list with another name may name something else: the `joint_names` of a trajectory do not
    // name its points.
    let usual = |member: &&&Member| matches!(member.name.as_str(), "name" | "names");
    let chosen = match by {
        Some(name) => lists.iter().find(|member| member.name == name),
        None => lists.iter().find(usual),
    };
    let Some(member) = chosen else {
        candidates.extend(lists.iter().map(|member| member.name.clone()));
        let expected = match candidates.as_slice() {
            [] => format!("an index for `{here}`: nothing in {} names its elements", of.name),
            [first, ..] => format!(
                "the list or the text that names the elements of `{here}`, such as \
                 {here}[{first}=\"...\"]: {}",
                candidates.join(", ")
            ),
        };
        return Err(Wrong::new(expected));
    };
    let beside = position(of, &member.name).unwrap_or_default();
    Ok(Box::new(move |text| Found::Beside(beside, text)))
}
