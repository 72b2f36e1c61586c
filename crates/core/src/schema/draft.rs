//! The tree of what is selected, and the nodes of a plan that it becomes.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::compile::{Found, Wrong};
use super::field_reader::{ByMember, Elements, FieldPart, Named, Node, StructNode};
use super::shape::Shape;
use super::{Count, Kind, Member, Number, Struct};

/// A plan in the making: the selected parts as a tree.
pub(super) enum Draft {
    Number(Number, Vec<usize>),
    Struct(Arc<Struct>, BTreeMap<usize, Draft>),
    Many(Member, Many),
    /// Nothing of it can be read.
    Text,
}

/// The selected elements of a member.
#[derive(Default)]
pub(super) struct Many {
    at: BTreeMap<usize, Draft>,
    /// By the position of the text in the element.
    inside: BTreeMap<usize, Vec<(String, Draft)>>,
    /// By the position of the names in the surrounding type.
    beside: BTreeMap<usize, Vec<(String, Draft)>>,
}

impl Draft {
    fn of(member: &Member) -> Draft {
        match member.count {
            Count::One => Draft::of_element(&member.kind),
            _ => Draft::Many(member.clone(), Many::default()),
        }
    }

    fn of_element(kind: &Kind) -> Draft {
        match kind {
            Kind::Number(number) => Draft::Number(*number, Vec::new()),
            Kind::Struct(inner) => Draft::Struct(Arc::clone(inner), BTreeMap::new()),
            Kind::Text | Kind::WideText => Draft::Text,
        }
    }

    /// Adds a number that these steps lead to.
    pub(super) fn insert(&mut self, steps: &[Found], slot: usize) {
        match (self, steps) {
            (Draft::Number(_, slots), _) => slots.push(slot),
            (Draft::Struct(of, parts), [Found::Member(at), rest @ ..]) => {
                let part = parts.entry(*at).or_insert_with(|| Draft::of(&of.members[*at]));
                part.insert(rest, slot);
            }
            (Draft::Many(member, many), [step, rest @ ..]) => {
                let new = || Draft::of_element(&member.kind);
                let (lists, by, text) = match step {
                    Found::Index(at) => {
                        return many.at.entry(*at).or_insert_with(new).insert(rest, slot);
                    }
                    Found::Inside(by, text) => (&mut many.inside, by, text),
                    Found::Beside(by, text) => (&mut many.beside, by, text),
                    Found::Member(_) => unreachable!("a member of several elements"),
                };
                let list = lists.entry(*by).or_default();
                let at = list.iter().position(|(known, _)| known == text).unwrap_or_else(|| {
                    list.push((text.clone(), new()));
                    list.len() - 1
                });
                list[at].1.insert(rest, slot);
            }
            _ => unreachable!("the walk ends at numbers"),
        }
    }

    /// Makes the node. `name` is the path so far, for errors.
    pub(super) fn finish(self, name: &str) -> Result<Node, Wrong> {
        match self {
            Draft::Number(number, slots) => Ok(Node::Number(number, slots)),
            Draft::Struct(of, parts) => Ok(Node::Struct(finish_struct(&of, parts, name)?)),
            Draft::Many(..) | Draft::Text => unreachable!("finished by the type around it"),
        }
    }
}

fn wide(inner: &str) -> Wrong {
    Wrong::new(format!(
        "a type without wstring, whose encoding differs between middlewares (`{inner}` is one)"
    ))
}

fn finish_struct(
    of: &Struct,
    mut drafts: BTreeMap<usize, Draft>,
    name: &str,
) -> Result<StructNode, Wrong> {
    let mut parts = Vec::new();
    let mut named = Vec::new();
    let label = |member: &Member| match name {
        "" => member.name.clone(),
        name => format!("{name}.{}", member.name),
    };
    for (at, member) in of.members.iter().enumerate() {
        let skip = || Shape::of(member).map(FieldPart::Skip).map_err(|inner| wide(&inner));
        let part = match drafts.remove(&at) {
            None => skip()?,
            Some(Draft::Many(_, Many { at: indices, inside, beside })) => {
                let element = Shape::of_element(member).map_err(|inner| wide(&inner))?;
                for (names, wanted) in beside {
                    named.push(Named {
                        labels: [label(member), label(&of.members[names])],
                        members: [at, names],
                        counts: [member.count, of.members[names].count],
                        element: element.clone(),
                        wanted: finish_all(wanted, &label(member))?,
                    });
                }
                if indices.is_empty() && inside.is_empty() {
                    skip()?
                } else {
                    let inner = match &member.kind {
                        Kind::Struct(inner) => Some(inner),
                        _ => None,
                    };
                    let by_member = inside.into_iter().map(|(key, wanted)| {
                        let inner = inner.ok_or_else(|| Wrong::new("a type with names"))?;
                        let mut before = Shape::of_members(inner).map_err(|inner| wide(&inner))?;
                        before.truncate(key);
                        Ok(ByMember { before, wanted: finish_all(wanted, &label(member))? })
                    });
                    let by_member = by_member.collect::<Result<_, Wrong>>()?;
                    let finish = |(at, draft): (usize, Draft)| {
                        Ok((at, draft.finish(&format!("{}[{at}]", label(member)))?))
                    };
                    let at = indices.into_iter().map(finish).collect::<Result<_, Wrong>>()?;
                    let name = label(member);
                    let count = member.count;
                    let elements = Elements { name, count, element, at, by_member };
                    FieldPart::Read(Node::Elements(Box::new(elements)))
                }
            }
            Some(draft) => FieldPart::Read(draft.finish(&label(member))?),
        };
        parts.push(part);
    }
    Ok(StructNode { parts, named })
}

fn finish_all(wanted: Vec<(String, Draft)>, name: &str) -> Result<Vec<(String, Node)>, Wrong> {
    let finish = |(text, draft): (String, Draft)| {
        let node = draft.finish(&format!("{name}[\"{text}\"]"))?;
        Ok((text, node))
    };
    let mut all = wanted.into_iter().map(finish).collect::<Result<Vec<_>, Wrong>>()?;
    // By name: a plan searches there for each name of a message.
    all.sort_by(|a, b| a.0.as_bytes().cmp(b.0.as_bytes()));
    Ok(all)
}
