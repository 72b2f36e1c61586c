//! The tree of frames that a bag has.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use robocache_core::cdr::Reader;
use robocache_core::input;
use robocache_core::rejected::Rejected;
use robocache_core::tf::Transform;

/// Most frames that are kept.
const MOST_FRAMES: usize = 1024;

/// Collects transforms.
#[derive(Clone, Debug, Default)]
pub(super) struct Frames {
    links: BTreeMap<String, Link>,
    /// Transforms of frames beyond the first ones.
    beyond: u64,
}

#[derive(Clone, Debug, Default)]
struct Link {
    parents: BTreeMap<String, u64>,
    fixed: u64,
    moving: u64,
    newest: Option<Transform>,
}

/// A link of the tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LinkReport {
    /// The child frame.
    pub child: String,
    /// Its parents. More than one is a mistake.
    pub parents: Vec<String>,
    /// True if the link is latched, and holds at all stamps.
    pub is_fixed: bool,
    /// Transforms.
    pub transforms: u64,
}

/// Report of inspect about the frames.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FramesReport {
    /// By child.
    pub links: Vec<LinkReport>,
    /// Frames without a parent. One tree has one of them.
    pub roots: Vec<String>,
    /// Transforms that were left out, because there are too many frames.
    pub beyond: u64,
}

impl Frames {
    /// Takes a `tf2_msgs/msg/TFMessage`; `header` is called with each header.
    ///
    /// # Errors
    /// The message ends early.
    pub(super) fn take(
        &mut self,
        fixed: bool,
        message: &[u8],
        mut header: impl FnMut(input::Header<'_>),
    ) -> Result<(), Rejected> {
        let mut reader = Reader::new(message)?;
        for _ in 0..reader.u32()? {
            let found = input::header(&mut reader)?;
            let child = String::from_utf8_lossy(reader.string_bytes()?).into_owned();
            let mut numbers = [0.0; 7];
            for number in &mut numbers {
                *number = reader.f64()?;
            }
            let [x, y, z, rotation @ ..] = numbers;
            self.add(fixed, found.frame_id, &child, Transform::new([x, y, z], rotation).ok());
            header(found);
        }
        Ok(())
    }

    fn add(&mut self, fixed: bool, parent: &str, child: &str, transform: Option<Transform>) {
        let [parent, child] = [parent, child].map(|name| name.trim_start_matches('/').to_owned());
        if self.links.len() >= MOST_FRAMES && !self.links.contains_key(&child) {
            self.beyond += 1;
            return;
        }
        let link = self.links.entry(child).or_default();
        if link.parents.len() < MOST_FRAMES {
            *link.parents.entry(parent).or_default() += 1;
        }
        link.newest = transform.or(link.newest);
        *(if fixed { &mut link.fixed } else { &mut link.moving }) += 1;
    }

    /// True if a frame is in the tree.
    pub(super) fn has(&self, frame: &str) -> bool {
        let frame = frame.trim_start_matches('/');
        let is_parent = |link: &Link| link.parents.contains_key(frame);
        self.links.contains_key(frame) || self.links.values().any(is_parent)
    }

    /// The links from a frame up to its root, without end if they form a ring.
    fn up<'a>(&'a self, frame: &'a str) -> impl Iterator<Item = (&'a str, &'a Link)> {
        let mut at = frame.trim_start_matches('/');
        std::iter::from_fn(move || {
            let link = self.links.get(at)?;
            let (parent, _) = link.parents.iter().max_by_key(|(_, count)| **count)?;
            at = parent;
            Some((at, link))
        })
        .take(MOST_FRAMES)
    }

    /// Takes points of `frame` to `base` by the newest transforms; `None` if the tree does not join them. Also
    /// says whether all links between them are fixed.
    pub(super) fn transform(&self, base: &str, frame: &str) -> Option<(Transform, bool)> {
        let [base, frame] = [base, frame].map(|name| name.trim_start_matches('/'));
        let chain = |from: &str| {
            let mut all = vec![(from.to_owned(), Some(Transform::IDENTITY), true)];
            for (parent, link) in self.up(from) {
                let (_, known, fixed) = all.last()?;
                let known = known.zip(link.newest).map(|(known, newest)| newest.after(&known));
                let fixed = *fixed && link.moving == 0;
                all.push((parent.to_owned(), known, fixed));
            }
            Some(all)
        };
        let of_base = chain(base)?;
        let of_frame = chain(frame)?;
        let meet = |(name, by_frame, fixed): &(String, Option<Transform>, bool)| {
            let (_, by_base, also) = of_base.iter().find(|(other, _, _)| other == name)?;
            Some(((*by_base)?.inverse().after(&(*by_frame)?), *fixed && *also))
        };
        of_frame.iter().find_map(meet)
    }

    /// Report about the frames.
    pub(super) fn report(&self) -> FramesReport {
        let parents: BTreeSet<&String> =
            self.links.values().flat_map(|link| link.parents.keys()).collect();
        let is_root = |name: &&&String| !self.links.contains_key(**name);
        let link = |(child, link): (&String, &Link)| LinkReport {
            child: child.clone(),
            parents: link.parents.keys().cloned().collect(),
            is_fixed: link.moving == 0,
            transforms: link.fixed + link.moving,
        };
        FramesReport {
            links: self.links.iter().map(link).collect(),
            roots: parents.iter().filter(is_root).map(|name| (*name).clone()).collect(),
            beyond: self.beyond,
        }
    }
}

#[cfg(test)]
mod tests;
