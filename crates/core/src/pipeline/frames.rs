//! The tree of frames: transforms in, and samples taken to another frame.

use std::sync::{Mutex, MutexGuard};

use super::Pipeline;
use super::arrival::{Arrival, MAX_AHEAD_NS, cleared};
use super::not_taken::NotTaken;
use crate::input::IMU;
use crate::rejected::{DropReason, Rejected};
use crate::sample::{Header, StampError, StampedTransform};
use crate::spec::{InFrame, InputSpec, TfSpec, still_frame};
use crate::tf::shown;
use crate::tf::{
    BadTransform, BadTurn, Buffer, Forgotten, Gyro, Link, LinkError, LookupError, Transform,
};
use crate::tf::{FramedPart, Quantity};
use robocache_ops::sync::lock;
use robocache_ops::time::{Epoch, NANOS_PER_MS, Stamp};

/// The transforms of a pipeline.
pub(super) struct Frames {
    /// A change is one transform, so a panic leaves it whole.
    buffer: Mutex<Buffer>,
    /// Per gyro its topic, the frame that it places, and its state.
    gyros: Vec<(String, String, Mutex<Gyro>)>,
    /// How long a message waits for a transform \[ns\].
    wait_ns: i64,
}

/// A look-up that a message needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ask {
    target: String,
    source: String,
    stamp: Stamp,
}

impl Ask {
    pub(super) fn new(target: &str, source: &str, stamp: Stamp) -> Self {
        Ask { target: target.to_owned(), source: source.to_owned(), stamp }
    }
}

/// The transforms that a message waits for. It has not been counted yet: push it again when
/// [`Pipeline::is_settled`] says so, or drop it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AwaitedTransforms {
    asks: Vec<Ask>,
    epoch: Epoch,
    /// Why the first look-up failed.
    why: LookupError,
    /// Words for the asker, with a colon and a space behind them; empty if it is the message itself.
    of: String,
}

impl AwaitedTransforms {
    /// Adds words for the asker.
    pub(super) fn of(self, what: &str) -> Self {
        AwaitedTransforms { of: format!("{what}: "), ..self }
    }

    /// The drop of a message that waited for too long; `waited_ms` is the limit.
    pub fn given_up(&self, waited_ms: f64) -> Rejected {
        self.drop(format!("{}waited {waited_ms} ms (tf.wait_ms): {}", self.of, self.why))
    }

    /// The drop of a message that made room for a newer one.
    pub fn crowded_out(&self, held: usize) -> Rejected {
        let of = &self.of;
        let why = &self.why;
        self.drop(format!("{of}{held} messages of the input wait already: {why}"))
    }

    fn drop(&self, detail: String) -> Rejected {
        let unknown_frame = match &self.why {
            LookupError::UnknownFrame { frame } => Some(frame.clone()),
            _ => None,
        };
        Rejected { unknown_frame, ..Rejected::new(DropReason::NoTransform, detail) }
    }
}

/// The look-up of this number, of several, failed.
pub(super) struct Missing {
    pub at: usize,
    pub why: NotTaken,
}

impl From<Missing> for NotTaken {
    fn from(missing: Missing) -> Self {
        missing.why
    }
}

impl Frames {
    /// An empty tree; of `inputs`, those of gyros place frames.
    pub(super) fn new(spec: &TfSpec, inputs: &[InputSpec]) -> Self {
        let mut buffer = Buffer::new(spec.limits);
        let is_gyro = |input: &&InputSpec| input.feeds_tree() && input.ros_type == IMU;
        let gyros = inputs.iter().filter(is_gyro).map(|input| {
            let frame = still_frame(&input.topic);
            buffer.add_of_gyro(&frame);
            (input.topic.clone(), frame, Mutex::default())
        });
        let gyros = gyros.collect();
        Frames { buffer: Mutex::new(buffer), gyros, wait_ns: spec.wait_ns }
    }

    /// The transforms of `epoch`, which begins if it is later than theirs.
    fn of(&self, epoch: Epoch) -> MutexGuard<'_, Buffer> {
        let mut buffer = lock(&self.buffer);
        if buffer.epoch().is_before(epoch) {
            buffer.begin(epoch);
        }
        buffer
    }

    /// Begins `epoch` if it is later than that of the transforms.
    pub(super) fn begin(&self, epoch: Epoch) {
        drop(self.of(epoch));
    }

    /// Takes a transform in.
    pub(super) fn insert(
        &self,
        message: &StampedTransform<'_>,
        offset_ns: i64,
        arrival: Arrival,
    ) -> Result<Stamp, Rejected> {
        let StampedTransform { header, child, translation, rotation, fixed } = *message;
        let stamp = stamp_of(&header, fixed, arrival)?.offset(offset_ns);
        let named = |error: BadTransform| {
            let reason = match error {
                BadTransform::NonFinite => DropReason::NonFinite,
                BadTransform::Length(_) => DropReason::OutOfRange,
            };
            let [child, parent] = [child, header.frame_id].map(shown);
            Rejected::new(reason, format!("{parent:?} in {child:?}: {error}"))
        };
        let transform = Transform::new(translation, rotation).map_err(named)?;
        let mut buffer = self.of(arrival.epoch);
        if !fixed && arrival.epoch.is_before(buffer.epoch()) {
            return Err(cleared());
        }
        let parent = header.frame_id;
        let epoch = arrival.epoch;
        let arrival = arrival.stamp;
        let link = Link { stamp, parent, child, transform, fixed, epoch, arrival };
        buffer.insert(link).map_err(|error| {
            let reason = match error {
                LinkError::Name(_) | LinkError::OwnParent(_) => DropReason::Malformed,
                LinkError::TooManyFrames { .. } => DropReason::TooLarge,
                LinkError::Late { .. } => DropReason::Late,
                LinkError::Fixed(_) => DropReason::Unsupported,
            };
            Rejected::new(reason, error.to_string())
        })?;
        Ok(stamp)
    }

    /// Takes in what the gyro of this topic says: where the frame that does not turn is now.
    pub(super) fn turn(
        &self,
        topic: &str,
        header: &Header<'_>,
        rate: [f64; 3],
        arrival: Arrival,
    ) -> Result<Stamp, Rejected> {
        let stamp = stamp_of(header, false, arrival)?;
        let detail = "angular_velocity: expected finite numbers, found NaN or infinity";
        if !rate.iter().all(|value| value.is_finite()) {
            return Err(Rejected::new(DropReason::NonFinite, detail));
        }
        let mut gyros = self.gyros.iter();
        let Some((_, still, gyro)) = gyros.find(|(known, ..)| known == topic) else {
            return Ok(stamp);
        };
        if arrival.epoch.is_before(self.of(arrival.epoch).epoch()) {
            return Err(cleared());
        }
        let turned = lock(gyro).turn(arrival.epoch, stamp, rate);
        let turned = turned.map_err(|error| {
            let reason = match error {
                BadTurn::NotInOrder { .. } => DropReason::Late,
                BadTurn::TooFast { .. } | BadTurn::TooFar { .. } => DropReason::OutOfRange,
            };
            Rejected::new(reason, error.to_string())
        })?;
        for (stamp, Transform { translation, rotation }) in turned.into_iter().flatten() {
            let header = Header { stamp: Ok(stamp), ..*header };
            let child = still.as_str();
            let fixed = false;
            let link = StampedTransform { header, child, translation, rotation, fixed };
            self.insert(&link, 0, arrival)?;
        }
        Ok(stamp)
    }

    /// Looks `t_target_source` up at `stamp` for a message of this arrival. A transform that arrived after the
    /// message's wait does not count, however late the message is looked at.
    pub(super) fn lookup(
        &self,
        arrival: Arrival,
        target: &str,
        source: &str,
        stamp: Stamp,
    ) -> Result<Transform, NotTaken> {
        let epoch = arrival.epoch;
        let never =
            |detail: String| NotTaken::Dropped(Rejected::new(DropReason::NoTransform, detail));
        let found = self.of(epoch).find(target, source, stamp);
        let found = found.map_err(|why| match why.waiting_helps() {
            true => {
                let ask = Ask { target: target.into(), source: source.into(), stamp };
                NotTaken::Waits(Box::new(AwaitedTransforms {
                    asks: vec![ask],
                    epoch,
                    why,
                    of: String::new(),
                }))
            }
            false => never(why.to_string()),
        })?;
        match (found.arrival, arrival.stamp) {
            (Some(came), Some(since)) if came.since(since) > self.wait_ns => {
                let ms = |ns: i64| ns as f64 / NANOS_PER_MS as f64;
                Err(never(format!(
                    "{source:?} in {target:?}: expected a transform within {} ms (tf.wait_ms), found \
                     one {} ms after the message",
                    ms(self.wait_ns),
                    ms(came.since(since))
                )))
            }
            _ => Ok(found.transform),
        }
    }

    /// All of these look-ups. If one may still come, and none never will, the message waits for all.
    pub(super) fn of_all(&self, arrival: Arrival, asks: &[Ask]) -> Result<Vec<Transform>, Missing> {
        let mut found = Vec::with_capacity(asks.len());
        let mut waits = None;
        for (at, Ask { target, source, stamp }) in asks.iter().enumerate() {
            match self.lookup(arrival, target, source, *stamp) {
                Ok(transform) => found.push(transform),
                Err(NotTaken::Waits(need)) => {
                    waits.get_or_insert((at, need));
                }
                Err(why) => return Err(Missing { at, why }),
            }
        }
        match waits {
            None => Ok(found),
            Some((at, need)) => {
                let need = AwaitedTransforms { asks: asks.to_vec(), ..*need };
                Err(Missing { at, why: NotTaken::Waits(Box::new(need)) })
            }
        }
    }

    /// Looks up the transforms of a vector's parts.
    pub(super) fn of_parts(
        &self,
        spec: &InFrame,
        header: &Header<'_>,
        stamp: Stamp,
        arrival: Arrival,
    ) -> Result<PartTransforms, NotTaken> {
        let find = |source| self.lookup(arrival, &spec.frame, source, stamp);
        let needs = |child| spec.parts.iter().any(|part: &FramedPart| part.of_child == child);
        let own = needs(false).then(|| find(header.frame_id)).transpose()?;
        let child = needs(true).then(|| find(header.child_frame_id)).transpose()?;
        Ok(PartTransforms { own, child })
    }
}

/// The transforms that take the parts of a vector to another frame.
pub(super) struct PartTransforms {
    /// From the frame of the message; `None` if no part is in it.
    own: Option<Transform>,
    /// From the child frame.
    child: Option<Transform>,
}

impl PartTransforms {
    /// Takes the parts of a vector to the frame of `spec`.
    pub(super) fn take(&self, spec: &InFrame, values: &mut [f64]) {
        for part in &spec.parts {
            let transform = if part.of_child { &self.child } else { &self.own };
            let range = part.at..part.at + part.quantity.numbers();
            if let (Some(transform), Some(values)) = (transform, values.get_mut(range)) {
                take_part(transform, part.quantity, values);
            }
        }
    }
}

fn take_part(transform: &Transform, quantity: Quantity, values: &mut [f64]) {
    match (quantity, values) {
        (Quantity::Point, [x, y, z]) => [*x, *y, *z] = transform.apply([*x, *y, *z]),
        (Quantity::Direction, [x, y, z]) => [*x, *y, *z] = transform.rotate([*x, *y, *z]),
        (Quantity::Orientation, [x, y, z, w]) => {
            [*x, *y, *z, *w] = transform.turn([*x, *y, *z, *w]);
        }
        _ => {}
    }
}

/// The stamp of a transform. A fixed one may have any: it says only when that was said.
fn stamp_of(header: &Header<'_>, fixed: bool, arrival: Arrival) -> Result<Stamp, Rejected> {
    let stamp = match header.stamp {
        Err(StampError::Sec(_)) if fixed => Stamp::ZERO,
        Err(StampError::Zero) if fixed || arrival.zero_is_an_instant => Stamp::ZERO,
        stamp => stamp?,
    };
    if !fixed {
        arrival.check_ahead(stamp, MAX_AHEAD_NS, None)?;
    }
    Ok(stamp)
}

/// State of the tree of frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    /// Number of frames.
    pub frames: usize,
    /// Transforms that differed from another one of the same link and stamp.
    pub conflicts: u64,
    /// The frames that made room for others.
    pub forgotten: Forgotten,
}

impl Pipeline {
    /// State of the tree of frames; `None` if nothing asks for a frame.
    pub fn tree(&self) -> Option<Tree> {
        let buffer = lock(&self.frames.as_ref()?.buffer);
        Some(Tree {
            frames: buffer.frames(),
            conflicts: buffer.conflicts(),
            forgotten: buffer.forgotten().clone(),
        })
    }

    /// Names of all frames of the tree; none if nothing asks for a frame.
    pub fn frame_names(&self) -> Vec<String> {
        let Some(frames) = &self.frames else { return Vec::new() };
        lock(&frames.buffer).names().into_iter().map(str::to_owned).collect()
    }

    /// True if a message that waits can be pushed again: each of its transforms is there, or is of
    /// those that never come.
    pub fn is_settled(&self, need: &AwaitedTransforms) -> bool {
        let Some(frames) = &self.frames else { return true };
        let buffer = frames.of(need.epoch);
        // In a later epoch the push refuses the message.
        need.epoch.is_before(buffer.epoch())
            || need.asks.iter().all(|Ask { target, source, stamp }| {
                let found = buffer.lookup(target, source, *stamp);
                found.map_or_else(|error| !error.waiting_helps(), |_| true)
            })
    }
}
