//! Which selected numbers mean something in a coordinate frame, by the types that they are part of.
//!
//! Only what the definitions say for certain is taken. A `geometry_msgs/Pose` may be relative to a joint's
//! parent, or to another pose of the message, so the member of a known message decides.

use super::Struct;
use crate::tf::{FramedPart, Quantity};

const QUATERNION: &str = "geometry_msgs/msg/Quaternion";
const VECTOR3: &str = "geometry_msgs/msg/Vector3";
const ODOMETRY: &str = "nav_msgs/msg/Odometry";
const IMU: &str = "sensor_msgs/msg/Imu";

/// The members that are in the frame of their message's header, by its definition. Their vectors are
/// directions, but for the `translation` of a Transform.
const OF_HEADER: &[(&str, &str)] = &[
    ("geometry_msgs/msg/AccelStamped", "accel"),
    ("geometry_msgs/msg/AccelWithCovarianceStamped", "accel"),
    ("geometry_msgs/msg/PointStamped", "point"),
    ("geometry_msgs/msg/PolygonStamped", "polygon"),
    ("geometry_msgs/msg/PoseArray", "poses"),
    ("geometry_msgs/msg/PoseStamped", "pose"),
    ("geometry_msgs/msg/PoseWithCovarianceStamped", "pose"),
    ("geometry_msgs/msg/QuaternionStamped", "quaternion"),
    ("geometry_msgs/msg/TransformStamped", "transform"),
    ("geometry_msgs/msg/TwistStamped", "twist"),
    ("geometry_msgs/msg/TwistWithCovarianceStamped", "twist"),
    ("geometry_msgs/msg/Vector3Stamped", "vector"),
    ("geometry_msgs/msg/WrenchStamped", "wrench"),
    (IMU, "angular_velocity"),
    (IMU, "linear_acceleration"),
    ("sensor_msgs/msg/MagneticField", "magnetic_field"),
    ("sensor_msgs/msg/PointCloud", "points"),
    (ODOMETRY, "pose"),
];

/// A point, a vector or a quaternion of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Spatial {
    /// Its path.
    pub path: String,
    /// True if it is a quaternion.
    pub turns: bool,
    /// Quantity of its numbers, or words for what was expected of them.
    quantity: Result<Quantity, String>,
}

/// Why no frame can be asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unframed {
    /// Number of the path that is wrong.
    pub path: usize,
    /// Words for what was expected in place of the path.
    pub expected: String,
    /// True if any selected number is of a point, a vector or a quaternion.
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
    /// The way on from a value of the type `of` to its member `step`.
    pub(super) fn on(&self, of: &Struct, step: &str) -> Way {
        let foreign = match self.member {
            None => foreign(&of.name, step),
            Some(_) => self.foreign.clone(),
        };
        Way { member: Some([of.name.clone(), step.to_owned()]), foreign }
    }
}

/// Why a member of a message is not in the frame of its header for certain.
fn foreign(message: &str, member: &str) -> Option<String> {
    match (message, member) {
        known if OF_HEADER.contains(&known) => None,
        (ODOMETRY, "twist") => {
            Some("`twist` is in child_frame_id: take it by `fields`, without `select`".to_owned())
        }
        (IMU, "orientation") => {
            Some("the message does not say which frame an orientation is in".to_owned())
        }
        _ => Some(format!(
            "`{member}` of {message} may be relative to something else, so take it in a stream of a \
             stamped type, such as geometry_msgs/PoseStamped"
        )),
    }
}

impl Spatial {
    /// Finds the quantity of a type's numbers, if it is one of those in space; `way` leads to it.
    pub(super) fn of(of: &Struct, path: &str, way: &Way) -> Option<Spatial> {
        let member = way.member.as_ref().map(|[of, name]| (of.as_str(), name.as_str()));
        let quantity = match of.name.as_str() {
            "geometry_msgs/msg/Point" | "geometry_msgs/msg/Point32" => Quantity::Point,
            QUATERNION => Quantity::Orientation,
            VECTOR3 if member == Some(("geometry_msgs/msg/Transform", "translation")) => {
                Quantity::Point
            }
            VECTOR3 => Quantity::Direction,
            _ => return None,
        };
        let quantity = way.foreign.clone().map_or(Ok(quantity), Err);
        Some(Spatial { path: path.to_owned(), turns: of.name == QUATERNION, quantity })
    }

    /// The paths of its numbers.
    pub(super) fn parts(&self) -> Vec<String> {
        let names = if self.turns { &["x", "y", "z", "w"][..] } else { &["x", "y", "z"] };
        names.iter().map(|name| format!("{}.{name}", self.path)).collect()
    }
}

/// Quantities of the selected numbers. `numbers` has per number its path, the number of its entry in the selection, and
/// the point, vector or quaternion that it is part of.
///
/// # Errors
/// [`Unframed`] unless each is part of a whole point, vector or quaternion in the frame of the header.
pub(super) fn framed(
    numbers: &[(&str, usize, Option<&Spatial>)],
) -> Result<Vec<FramedPart>, Unframed> {
    let any = numbers.iter().any(|(_, _, spatial)| spatial.is_some());
    let mut parts = Vec::new();
    let mut at = 0;
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
