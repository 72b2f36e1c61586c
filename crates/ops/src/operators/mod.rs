//! Operators: what is made of the channels of a vector at each target time.
//!
//! An operator acts on the value at a target, in the order of the configuration. Where the result is
//! the same, it acts on the row when that is encoded, so that a tick has nothing to do: a straight
//! line between two rows stays one under [`Operator::Affine`]. The others act after the
//! interpolation, on the host for every backend. Both compute in `f64` and round to `f32` once.

mod vector;

use crate::resample::Lane;
pub use vector::{Channel, Group, VectorSpec};

/// Half a turn as the interpolation of angles has it \[rad\].
const HALF_TURN: f64 = std::f32::consts::PI as f64;

/// One operator of a channel.
#[derive(Clone, Copy, Debug, PartialEq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Operator {
    /// `(x - shift) * scale + offset`
    Affine {
        /// Subtracted first.
        shift: f64,
        /// The factor.
        scale: f64,
        /// Added last.
        offset: f64,
    },
    /// The nearest value from `low` to `high`.
    Clamp {
        /// The least value.
        low: f64,
        /// The greatest value.
        high: f64,
    },
    /// An angle \[rad\] without jumps from step to step: see [`unwrap`]. It comes first.
    Unwrap,
}

impl Operator {
    /// The operator's value. Of one step alone, `Unwrap` changes nothing.
    pub fn apply(self, x: f64) -> f64 {
        match self {
            Operator::Affine { shift, scale, offset } => (x - shift) * scale + offset,
            // Written out, so that every processor gives a zero the same sign.
            Operator::Clamp { low, high } => {
                let x = if x > low { x } else { low };
                if x < high { x } else { high }
            }
            Operator::Unwrap => x,
        }
    }
}

/// The value of which these operators made `y`. A clamped value is itself, and an angle has no turns to take back.
pub fn taken_back(operators: &[Operator], y: f64) -> f64 {
    operators.iter().rev().fold(y, |y, operator| match *operator {
        Operator::Affine { shift, scale, offset } => (y - offset) / scale + shift,
        Operator::Clamp { .. } | Operator::Unwrap => y,
    })
}

/// Applies operators one after the other.
fn apply_all(operators: &[Operator], x: f64) -> f64 {
    operators.iter().fold(x, |x, operator| operator.apply(x))
}

/// Source of an element of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// A channel of the samples.
    Channel(usize),
    /// An entry of the rotation matrix of the unit quaternion (x, y, z, w) that begins at a channel.
    Rotation {
        /// The channel of x.
        quaternion: usize,
        /// The entry's row.
        row: usize,
        /// The entry's column.
        column: usize,
    },
}

impl Source {
    /// The channel that it is, or that its quaternion begins with.
    pub fn channel(self) -> usize {
        match self {
            Source::Channel(channel) => channel,
            Source::Rotation { quaternion, .. } => quaternion,
        }
    }
}

/// One element of a step of a vector with operators.
#[derive(Clone, Debug, PartialEq, serde::Deserialize, serde::Serialize)]
pub struct OutputChannel {
    /// Its name: that of its channel, or `orientation.r01` for an entry of a rotation matrix.
    pub name: String,
    /// Its unit: `rad`, `deg`, or nothing if unknown.
    #[serde(skip_deserializing)]
    pub unit: &'static str,
    /// Source of the channel.
    pub source: Source,
    /// Operators on the channel, in order.
    pub operators: Vec<Operator>,
}

/// An entry of the rotation matrix of a quaternion (x, y, z, w), also if it is not quite of unit norm.
pub fn rotation_entry([x, y, z, w]: [f64; 4], row: usize, column: usize) -> f64 {
    let two = 2.0 / (((x * x + y * y) + z * z) + w * w);
    match (row, column) {
        (0, 0) => 1.0 - two * (y * y + z * z),
        (0, 1) => two * (x * y - z * w),
        (0, 2) => two * (x * z + y * w),
        (1, 0) => two * (x * y + z * w),
        (1, 1) => 1.0 - two * (x * x + z * z),
        (1, 2) => two * (y * z - x * w),
        (2, 0) => two * (x * z - y * w),
        (2, 1) => two * (y * z + x * w),
        _ => 1.0 - two * (x * x + y * y),
    }
}

/// Moves angles \[rad\] by whole turns, so that each is at most half a turn from its neighbour towards
/// the step `anchor`, which stays. `None` is a step without a value: it is passed over. If the anchor
/// is one, the nearest step before it stays, or else the nearest after it.
///
/// It depends on the values of the steps alone, and not on what was served before.
pub fn unwrap(steps: &mut [Option<f64>], anchor: usize) {
    const TURN: f64 = std::f64::consts::TAU;
    let up_to = (anchor + 1).min(steps.len());
    let Some(anchor) = steps[..up_to]
        .iter()
        .rposition(Option::is_some)
        .or_else(|| steps.iter().position(Option::is_some))
    else {
        return;
    };
    let follow = |reference: &mut Option<f64>, step: &mut Option<f64>| {
        if let (Some(before), Some(angle)) = (*reference, step.as_mut()) {
            *angle += ((before - *angle) / TURN).round_ties_even() * TURN;
            *reference = Some(*angle);
        }
    };
    let mut reference = steps[anchor];
    steps[..anchor].iter_mut().rev().for_each(|step| follow(&mut reference, step));
    let mut reference = steps[anchor];
    steps[anchor + 1..].iter_mut().for_each(|step| follow(&mut reference, step));
}

/// The operators of one group of a vector, by where they act.
#[derive(Clone, Debug, Default)]
pub struct Stages {
    /// Per element of the sample, on the row when it is encoded. Empty if there is nothing to do.
    pub encode: Vec<Vec<Operator>>,
    /// After the interpolation; `None` if there is nothing to do.
    pub output: Option<OutputStage>,
}

impl Stages {
    /// The stages of a group. `interpolates` says whether the strategy does.
    pub fn new(spec: &VectorSpec, group: usize, interpolates: bool) -> Self {
        let channels = &spec.groups[group].channels;
        let mut encode = vec![Vec::new(); channels.len()];
        let mut elements = Vec::new();
        let outputs = spec.outputs_of_channels();
        for (at, channel) in channels.iter().enumerate() {
            for output in outputs[*channel].iter().map(|output| &spec.outputs[*output]) {
                let from = match output.source {
                    Source::Channel(_) => From::Element(at),
                    Source::Rotation { row, column, .. } => From::Rotation { at, row, column },
                };
                let lane = spec.channels[*channel].lane;
                let (rows, operators) = match from {
                    From::Element(_) => by_stage(&output.operators, lane, interpolates),
                    From::Rotation { .. } => (Vec::new(), output.operators.clone()),
                };
                encode[at].extend(rows);
                let reach = Reach::of(from, lane, interpolates);
                elements.push(Element { from, operators, reach });
            }
        }
        let plain = |element: &Element| {
            matches!(element.from, From::Element(_)) && element.operators.is_empty()
        };
        let output = (!elements.iter().all(plain)).then_some(OutputStage { elements });
        if encode.iter().all(Vec::is_empty) {
            encode.clear();
        }
        Stages { encode, output }
    }
}

/// Which operators of a channel act on rows, and which on the value at a target, so that it is the
/// same as if all acted on it. Angles and quaternions are interpolated as what they are.
///
/// All [`Operator::Affine`] of numbers act on rows. A limit before one of them becomes the limit that
/// this one makes of it.
fn by_stage(
    operators: &[Operator],
    lane: Lane,
    interpolates: bool,
) -> (Vec<Operator>, Vec<Operator>) {
    if operators.contains(&Operator::Unwrap) {
        return (Vec::new(), operators.to_vec());
    }
    match (interpolates, lane) {
        (false, _) | (true, Lane::Held) => (operators.to_vec(), Vec::new()),
        (true, Lane::Linear) => {
            let mut rows = Vec::new();
            let mut rest = Vec::new();
            for operator in operators {
                match operator {
                    Operator::Affine { .. } => {
                        rows.push(*operator);
                        rest.iter_mut().for_each(|limit| *limit = behind(*limit, *operator));
                    }
                    _ => rest.push(*operator),
                }
            }
            (rows, rest)
        }
        (true, Lane::Angular | Lane::Quaternion) => (Vec::new(), operators.to_vec()),
    }
}

/// The limit that acts after `affine` as this one acts before it.
fn behind(limit: Operator, affine: Operator) -> Operator {
    let Operator::Clamp { low, high } = limit else { return limit };
    let one = affine.apply(low);
    let other = affine.apply(high);
    Operator::Clamp { low: one.min(other), high: one.max(other) }
}

/// Applies the operators of one element of a sample, when it is encoded.
pub fn encode(operators: &[Operator], value: f64) -> f64 {
    apply_all(operators, value)
}

/// Operators on the interpolated rows of one group.
#[derive(Clone, Debug)]
pub struct OutputStage {
    elements: Vec<Element>,
}

#[derive(Clone, Debug)]
struct Element {
    from: From,
    operators: Vec<Operator>,
    reach: Reach,
}

/// How large a value may be at a target, before its operators, of those that a row has a part in.
/// Every value at a target is within the reach of at least one of its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// Between the values of two rows.
    Rows,
    /// An angle that is interpolated: see [`crate::resample::cpu::angular`].
    Angle,
    /// An entry of a quaternion or of a rotation matrix.
    Unit,
}

impl Reach {
    fn of(from: From, lane: Lane, interpolates: bool) -> Self {
        match (from, lane) {
            _ if !interpolates => Reach::Rows,
            (From::Rotation { .. }, _) | (_, Lane::Quaternion) => Reach::Unit,
            (_, Lane::Angular) => Reach::Angle,
            (_, Lane::Linear | Lane::Held) => Reach::Rows,
        }
    }

    /// The ends of the reach of a row's value.
    fn ends(self, value: f64) -> [f64; 2] {
        let most = match self {
            Reach::Rows => return [value; 2],
            // Rounded to `f32`, the norm of a quaternion may be a little more.
            Reach::Unit => 1.0 + 1e-6,
            // Half a turn in `f32`, where an angle in it stays; otherwise the shorter arc is added.
            Reach::Angle if value.abs() <= HALF_TURN => HALF_TURN,
            Reach::Angle => value.abs() + HALF_TURN,
        };
        [-most, most]
    }
}

/// Source of an element, in the group's row.
#[derive(Clone, Copy, Debug)]
enum From {
    Element(usize),
    Rotation { at: usize, row: usize, column: usize },
}

impl From {
    fn value(self, row: &[f64]) -> f64 {
        match self {
            From::Element(at) => row[at],
            From::Rotation { at, row: r, column } => {
                rotation_entry([row[at], row[at + 1], row[at + 2], row[at + 3]], r, column)
            }
        }
    }
}

/// An element of a stage: where it comes from in the group's row, and its operators.
#[derive(Clone, Copy, Debug)]
pub struct StageElement<'a> {
    /// The element of the row, or the first of the quaternion.
    pub at: usize,
    /// The row and the column of the entry of the rotation matrix, if it is one.
    pub rotation: Option<(usize, usize)>,
    /// Operators on the element, in order.
    pub operators: &'a [Operator],
}

impl OutputStage {
    /// Its elements.
    pub fn elements(&self) -> impl Iterator<Item = StageElement<'_>> {
        self.elements.iter().map(|Element { from, operators, .. }| match *from {
            From::Element(at) => StageElement { at, rotation: None, operators },
            From::Rotation { at, row, column } => {
                StageElement { at, rotation: Some((row, column)), operators }
            }
        })
    }

    /// Number of elements that it gives.
    pub fn len(&self) -> usize {
        self.elements.len()
    }

    /// True if the stage gives no elements.
    pub fn is_empty(&self) -> bool {
        self.elements.is_empty()
    }

    /// True if a step depends on the other steps.
    pub fn unwraps(&self) -> bool {
        self.unwrapped().next().is_some()
    }

    /// The elements of the row that are unwrapped.
    pub fn unwrapped(&self) -> impl Iterator<Item = usize> + '_ {
        self.elements.iter().filter_map(|element| match element.from {
            From::Element(at) if element.operators.contains(&Operator::Unwrap) => Some(at),
            _ => None,
        })
    }

    /// Hands the elements of a step, made of a row, to `put` with their positions.
    pub fn apply(&self, row: &[f64], mut put: impl FnMut(usize, f64)) {
        for (i, element) in self.elements.iter().enumerate() {
            put(i, apply_all(&element.operators, element.from.value(row)));
        }
    }

    /// Hands the least and the greatest value that a step may get of this row to `put`, if its window
    /// has `steps` steps. All operators are monotonic.
    pub fn reach(&self, row: &[f64], steps: usize, mut put: impl FnMut(f64)) {
        for element in &self.elements {
            let mut ends = element.reach.ends(element.from.value(row));
            if element.operators.contains(&Operator::Unwrap) {
                // Each step is at most half a turn from its neighbour.
                let turns = std::f64::consts::TAU * steps as f64;
                ends = [ends[0] - turns, ends[1] + turns];
            }
            ends.into_iter().for_each(|end| put(apply_all(&element.operators, end)));
        }
    }
}

#[cfg(test)]
mod tests;
