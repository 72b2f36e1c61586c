//! Coordinate frames: a buffer of transforms, and look-ups along their chain at one stamp.
//!
//! The buffer has no clock and does no I/O. Each frame that has a parent is a *link*. A moving link
//! is a [`Ring`] of stamps, as a stream is, and [`align`] finds the two transforms around a stamp.
//! Two things differ from a stream. The values are `f64` in the buffer's own memory, because no
//! backend reads them. And the weight is computed again in `f64`, because [`align`] gives an `f32`.
//!
//! These rules say which transforms count:
//!
//! - A look-up never extrapolates: a link has no transform before its oldest one or after its newest one.
//! - Of two moving transforms of one link at one stamp, the one with the greater numbers counts, in whichever order
//!   they came.
//! - A link that is fixed once stays fixed: its moving transforms do not count.
//! - Of two fixed transforms of one link, the one that came later counts, as in tf2: a correction of a calibration often
//!   has the stamp of what it corrects, or none. One of an earlier epoch does not come later.
//!
//! If there are too many frames, the buffer forgets those whose links had no new transform for a while. That depends on
//! when transforms arrived.
//!
//! [`align`]: robocache_ops::align::align

mod error;
mod gyro;
mod lookup;
mod quantity;
mod room;
mod transform;

#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::collections::HashMap;

pub use error::LookupError;
pub use gyro::{BadTurn, Gyro, Turned};
pub use quantity::{FramedPart, Quantity};
pub use room::Forgotten;
pub use transform::{BadTransform, Transform};

use crate::ring::{Inserted, Ring};
use robocache_ops::time::{Epoch, Stamp};

/// Longest name of a frame \[bytes\].
pub const MAX_NAME: usize = 256;
/// Most links from a frame to a root.
pub const MAX_DEPTH: usize = 64;

/// A frame of a message, for an error. A message may hold any text. A name that was cut ends with `…`.
pub(crate) fn shown(frame_id: &str) -> String {
    let cut = frame_id.char_indices().nth(MAX_NAME);
    cut.map_or(frame_id.to_owned(), |(end, _)| format!("{}…", &frame_id[..end]))
}

/// How much a buffer keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most frames. Beyond that, frames that have no transform make room.
    pub frames: usize,
    /// Most transforms of a moving link. The oldest goes first.
    pub rows: usize,
    /// The greatest distance of two transforms that are interpolated \[ns\].
    pub max_gap_ns: i64,
}

/// One transform, as a message has it.
#[derive(Clone, Copy, Debug)]
pub struct Link<'a> {
    /// When it was so. For a fixed link: when that was said.
    pub stamp: Stamp,
    /// The frame that points are taken to.
    pub parent: &'a str,
    /// The frame that they are of.
    pub child: &'a str,
    /// `t_parent_child`.
    pub transform: Transform,
    /// True if the link is so at all stamps.
    pub fixed: bool,
    /// The epoch in which a fixed link was said. A moving one must be of the buffer's epoch.
    pub epoch: Epoch,
    /// When it arrived; `None` if there was no clock yet.
    pub arrival: Option<Stamp>,
}

/// Why a transform was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// A frame without a name, or with one that is too long.
    #[error("frame: expected a name of 1 to {MAX_NAME} bytes, found {0} bytes")]
    Name(usize),
    /// A frame that is its own parent.
    #[error("frame {0:?}: expected another frame as its parent, found itself")]
    OwnParent(String),
    /// There are too many frames.
    #[error("expected at most {most} frames (tf.max_frames), found another one: {frame:?}")]
    TooManyFrames {
        /// The most.
        most: usize,
        /// The frame that is one too many.
        frame: String,
    },
    /// The link is full of newer transforms.
    #[error("{child:?}: stamp {stamp} is older than all of its {rows} transforms (tf.max_rows)")]
    Late {
        /// The frame that the link moves.
        child: String,
        /// Its stamp.
        stamp: Stamp,
        /// How many there are.
        rows: usize,
    },
    /// The link is fixed.
    #[error("{0:?}: expected no moving transform of a frame that a fixed one places")]
    Fixed(String),
}

/// Position of a frame in [`Buffer::frames`].
type FrameId = u32;

/// A transform to a parent.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Row {
    parent: FrameId,
    transform: Transform,
    /// When it arrived in this epoch; `None` if before all messages of the epoch.
    arrival: Option<Stamp>,
}

/// Result of a look-up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Found {
    /// It takes points of the source to the target.
    pub transform: Transform,
    /// When the last of its transforms arrived; `None` if all came before the epoch.
    pub arrival: Option<Stamp>,
}

/// A link that moves: the ring says which row is at which stamp.
#[derive(Debug)]
struct Moving {
    ring: Ring,
    /// By slot of the ring.
    rows: Vec<Row>,
    /// When its newest message arrived; `None` if there was no clock yet.
    heard: Option<Stamp>,
}

#[derive(Debug)]
struct Frame {
    name: Box<str>,
    /// The greatest distance of two transforms that are interpolated \[ns\].
    max_gap_ns: i64,
    /// True if a gyro places the frame.
    of_gyro: bool,
    fixed: Option<(Epoch, Stamp, Row)>,
    moving: Option<Box<Moving>>,
}

/// Transforms of all frames; see [the module](self).
#[derive(Debug)]
pub struct Buffer {
    limits: Limits,
    ids: HashMap<Box<str>, FrameId>,
    frames: Vec<Frame>,
    /// Positions in `frames` that no frame uses.
    spare: Vec<FrameId>,
    epoch: Epoch,
    conflicts: u64,
    forgotten: Forgotten,
    /// When room was last looked for in this epoch.
    looked: Option<Stamp>,
}

impl Buffer {
    /// An empty buffer.
    pub fn new(limits: Limits) -> Self {
        Buffer {
            limits,
            ids: HashMap::new(),
            frames: Vec::new(),
            spare: Vec::new(),
            epoch: Epoch::default(),
            conflicts: 0,
            forgotten: Forgotten::default(),
            looked: None,
        }
    }

    /// Adds a frame that a gyro will place: what is interpolated of it has shorter gaps.
    pub fn add_of_gyro(&mut self, name: &str) {
        let frame = self.id(name) as usize;
        let frame = &mut self.frames[frame];
        frame.max_gap_ns = self.limits.max_gap_ns.min(gyro::MAX_GAP_NS);
        frame.of_gyro = true;
    }

    /// Begins an epoch: forgets the moving transforms. The fixed ones stay, because they are latched: no publisher
    /// sends them again.
    pub fn begin(&mut self, epoch: Epoch) {
        (self.epoch, self.looked) = (epoch, None);
        for moving in self.frames.iter_mut().filter_map(|frame| frame.moving.as_mut()) {
            moving.ring.begin(epoch);
            moving.heard = None;
        }
    }

    /// The epoch of the moving transforms.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Number of frames.
    pub fn frames(&self) -> usize {
        self.ids.len()
    }

    /// The frames that made room for others.
    pub fn forgotten(&self) -> &Forgotten {
        &self.forgotten
    }

    /// Transforms that differed from another one of the same link and stamp.
    pub fn conflicts(&self) -> u64 {
        self.conflicts
    }

    /// Takes a transform in.
    ///
    /// # Errors
    /// [`LinkError`] says why it was not taken.
    pub fn insert(&mut self, link: Link<'_>) -> Result<(), LinkError> {
        let Link { stamp, transform, fixed, epoch, arrival, .. } = link;
        let parent = plain(link.parent)?;
        let child = plain(link.child)?;
        if parent == child {
            return Err(LinkError::OwnParent(child.to_owned()));
        }
        // Both before either is added.
        if self.lack_room([parent, child]) {
            self.make_room(arrival, fixed);
        }
        if self.lack_room([parent, child]) {
            let frame = if self.ids.contains_key(child) { parent } else { child };
            let most = self.limits.frames;
            let frame = frame.to_owned();
            return Err(LinkError::TooManyFrames { most, frame });
        }
        let parent = self.id(parent);
        let child = self.id(child);
        let row = Row { parent, transform, arrival };
        match fixed {
            true => self.fix(child, epoch, stamp, row),
            false => self.move_to(child, stamp, row)?,
        }
        Ok(())
    }

    /// True if there are too many frames if these are added.
    fn lack_room(&self, names: [&str; 2]) -> bool {
        let new = names.iter().filter(|name| !self.ids.contains_key(**name)).count();
        new > 0 && self.ids.len() + new > self.limits.frames
    }

    fn fix(&mut self, child: FrameId, epoch: Epoch, stamp: Stamp, row: Row) {
        let mut row = row;
        if let Some((known_epoch, known_stamp, known)) = self.frames[child as usize].fixed {
            let differs = self.compare(&row, &known).is_ne();
            self.conflicts += u64::from((epoch, stamp) == (known_epoch, known_stamp) && differs);
            if epoch.is_before(known_epoch) {
                return;
            }
            // Said again, it is as old as it was.
            if !differs {
                row.arrival =
                    if known_epoch == epoch { row.arrival.min(known.arrival) } else { None };
            }
        }
        let frame = &mut self.frames[child as usize];
        frame.fixed = Some((epoch, stamp, row));
        frame.moving = None;
    }

    fn move_to(&mut self, child: FrameId, stamp: Stamp, mut row: Row) -> Result<(), LinkError> {
        let rows = self.limits.rows;
        let epoch = self.epoch;
        let frame = &mut self.frames[child as usize];
        if frame.fixed.is_some() {
            return Err(LinkError::Fixed(frame.name.to_string()));
        }
        let moving = frame.moving.get_or_insert_with(|| Moving::new(rows, epoch));
        moving.heard = moving.heard.max(row.arrival);
        if let Some(known) = moving.at(stamp) {
            let order = self.compare(&row, &known);
            self.conflicts += u64::from(order != Ordering::Equal);
            if order != Ordering::Greater {
                return Ok(());
            }
            row.arrival = row.arrival.min(known.arrival);
        }
        let frame = &mut self.frames[child as usize];
        match frame.moving.as_mut().map(|moving| moving.insert(stamp, row)) {
            Some(Inserted::Late) => {
                let child = frame.name.to_string();
                Err(LinkError::Late { child, stamp, rows })
            }
            _ => Ok(()),
        }
    }

    /// An order of transforms that does not depend on which came first.
    fn compare(&self, a: &Row, b: &Row) -> Ordering {
        let name = |row: &Row| &self.frames[row.parent as usize].name;
        let numbers = |row: &Row| {
            let Transform { translation: [x, y, z], rotation: [i, j, k, w] } = row.transform;
            [x, y, z, i, j, k, w]
        };
        let mut pairs = numbers(a).into_iter().zip(numbers(b));
        let differ = pairs.find_map(|(a, b)| Some(a.total_cmp(&b)).filter(|order| order.is_ne()));
        name(a).cmp(name(b)).then(differ.unwrap_or(Ordering::Equal))
    }

    fn id(&mut self, name: &str) -> FrameId {
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        let key = name.into();
        let max_gap_ns = self.limits.max_gap_ns;
        let name = name.into();
        let frame = Frame { name, max_gap_ns, of_gyro: false, fixed: None, moving: None };
        let id = match self.spare.pop() {
            Some(id) => {
                self.frames[id as usize] = frame;
                id
            }
            None => {
                self.frames.push(frame);
                (self.frames.len() - 1) as FrameId
            }
        };
        self.ids.insert(key, id);
        id
    }
}

impl Moving {
    fn new(rows: usize, epoch: Epoch) -> Box<Self> {
        let mut ring = Ring::new(rows);
        ring.begin(epoch);
        Box::new(Moving { ring, rows: Vec::new(), heard: None })
    }

    /// The row at exactly this stamp.
    fn at(&self, stamp: Stamp) -> Option<Row> {
        let newest = self.ring.entries().rev();
        let found = newest.take_while(|entry| entry.stamp >= stamp).last()?;
        (found.stamp == stamp).then(|| self.rows[found.slot.index()])
    }

    fn insert(&mut self, stamp: Stamp, row: Row) -> Inserted {
        // The ring has one slot more than rows, and each lease ends before the next begins.
        let Some(lease) = self.ring.lease() else { return Inserted::Late };
        let slot = lease.slot().index();
        if slot >= self.rows.len() {
            self.rows.resize(slot + 1, row);
        }
        self.rows[slot] = row;
        self.ring.insert(stamp, 0, lease)
    }
}

/// A name as tf2 takes it: without a leading slash.
fn trimmed(name: &str) -> &str {
    name.strip_prefix('/').unwrap_or(name)
}

fn plain(name: &str) -> Result<&str, LinkError> {
    let name = trimmed(name);
    match name.len() {
        1..=MAX_NAME => Ok(name),
        len => Err(LinkError::Name(len)),
    }
}
