//! Which selected numbers mean something in a coordinate frame, by the types that they are part of.
//!
//! Only what the definitions say for certain is taken. `geometry_msgs/Vector3` is a direction by its own
//! comment, but messages also use it for places and sizes, so its place in a known message decides.

use super::{Count, Kind, Struct};
use crate::spec::{FramedPart, Quantity};

const HEADER: &str = "std_msgs/msg/Header";
const QUATERNION: &str = "geometry_msgs/msg/Quaternion";
const VECTOR3: &str = "geometry_msgs/msg/Vector3";
const ODOMETRY: &str = "nav_msgs/msg/Odometry";
const TRANSFORM_STAMPED: &str = "geometry_msgs/msg/TransformStamped";

/// The types whose members are directions, all of them.
const OF_DIRECTIONS: [&str; 6] = [
    "geometry_msgs/msg/Accel",
    "geometry_msgs/msg/Twist",
    "geometry_msgs/msg/Vector3Stamped",
    "geometry_msgs/msg/Wrench",
    "sensor_msgs/msg/Imu",
    "sensor_msgs/msg/MagneticField",
];

/// A point, a vector or a quaternion of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Spatial {
    /// Its path.
    pub path: String,
    /// Whether it is a quaternion.
    pub turns: bool,
    /// What its numbers are, or what was expected of them.
    quantity: Result<Quantity, String>,
}

/// Why no frame can be asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unframed {
    /// Number of the path that is wrong.
    pub path: usize,
    /// What was expected in place of it.
    pub expected: String,
    /// Whether any selected number is of a point, a vector or a quaternion.
    pub any: bool,
}

/// How a walk came to where it is.
#[derive(Clone, Default)]
pub(super) struct Way {
    /// The type of the last member, and its name.
    member: Option<[String; 2]>,
    /// Why the frame is not that of the message's header.
    foreign: Option<String>,
}

impl Way {
    /// The way on from `here`, a value of the type `of`, to its member `step`.
    pub fn on(&self, of: &Struct, step: &str, here: &str) -> Way {
        let foreign = self.foreign.clone().or_else(|| foreign(of, step, here));
        Way { member: Some([of.name.clone(), step.to_owned()]), foreign }
    }
}

/// Why a member is not in the frame of the message's header.
fn foreign(of: &Struct, step: &str, here: &str) -> Option<String> {
    let is_one = |kind: &dyn Fn(&Kind) -> bool, name: Option<&str>| {
        let mut members = of.members.iter().filter(|member| member.count == Count::One);
        members.any(|m| kind(&m.kind) && name.is_none_or(|name| m.name == name))
    };
    let is_header = |kind: &Kind| matches!(kind, Kind::Struct(inner) if inner.name == HEADER);
    if !here.is_empty() && is_one(&is_header, None) {
        return Some(format!("`{here}` has a header of its own"));
    }
    let is_text = |kind: &Kind| matches!(kind, Kind::Text);
    let of_header = matches!((of.name.as_str(), step), (ODOMETRY, "pose") | (TRANSFORM_STAMPED, _));
    if of_header || !is_one(&is_text, Some("child_frame_id")) {
        return None;
    }
    let instead = if of.name == ODOMETRY { ": take it by `fields`, without `select`" } else { "" };
    Some(format!("`{step}` may be in child_frame_id{instead}"))
}

impl Spatial {
    /// What the numbers of a type are, if it is one of those in space; `way` leads to it.
    pub fn of(of: &Struct, path: &str, way: &Way) -> Option<Spatial> {
        let quantity = match of.name.as_str() {
            "geometry_msgs/msg/Point" | "geometry_msgs/msg/Point32" => Ok(Quantity::Point),
            QUATERNION => Ok(Quantity::Orientation),
            VECTOR3 => vector(way),
            _ => return None,
        };
        let parent = way.member.as_ref().map(|[of, name]| (of.as_str(), name.as_str()));
        let quantity = match parent {
            Some(("sensor_msgs/msg/Imu", "orientation")) => {
                Err("the message does not say which frame an orientation is in".to_owned())
            }
            _ => quantity,
        };
        let quantity = way.foreign.clone().map_or(quantity, Err);
        Some(Spatial { path: path.to_owned(), turns: of.name == QUATERNION, quantity })
    }

    /// The paths of its numbers.
    pub fn parts(&self) -> Vec<String> {
        let names = if self.turns { &["x", "y", "z", "w"][..] } else { &["x", "y", "z"] };
        names.iter().map(|name| format!("{}.{name}", self.path)).collect()
    }
}

fn vector(way: &Way) -> Result<Quantity, String> {
    let Some([of, name]) = &way.member else { return Ok(Quantity::Direction) };
    if OF_DIRECTIONS.contains(&of.as_str()) {
        return Ok(Quantity::Direction);
    }
    if (of.as_str(), name.as_str()) == ("geometry_msgs/msg/Transform", "translation") {
        return Ok(Quantity::Point);
    }
    Err(format!("the Vector3 `{name}` of {of} may be a place, a direction or a size"))
}

/// What the selected numbers are: per number its path, the number of its entry in the selection, and
/// what it is part of.
///
/// # Errors
/// [`Unframed`] unless each is part of a whole point, vector or quaternion in the frame of the header.
pub(super) fn framed(
    numbers: &[(&str, usize, Option<&Spatial>)],
) -> Result<Vec<FramedPart>, Unframed> {
    let any = numbers.iter().any(|(_, _, spatial)| spatial.is_some());
    let (mut parts, mut at) = (Vec::new(), 0);
    while let Some((name, path, spatial)) = numbers.get(at) {
        let wrong = |expected: String| Unframed { path: *path, expected, any };
        let Some(spatial) = spatial else {
            return Err(wrong(format!(
                "a point, a vector or a quaternion of geometry_msgs, because of `in_frame`; `{name}` is \
                 part of none, so take it in a stream of its own"
            )));
        };
        let quantity = spatial.quantity.clone().map_err(|why| {
            wrong(format!("numbers in the frame of the header, because of `in_frame`; {why}"))
        })?;
        let names = spatial.parts();
        let found = numbers[at..].iter().map(|(name, _, _)| *name).take(names.len());
        if !found.eq(names.iter().map(String::as_str)) {
            let expected = format!("all of `{}` in its order, because of `in_frame`", spatial.path);
            return Err(wrong(expected));
        }
        parts.push(FramedPart { at, quantity, of_child: false });
        at += names.len();
    }
    Ok(parts)
}
