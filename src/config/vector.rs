//! Messages that become a vector: which fields, which joints, and how each lane is interpolated.

use super::check::Check;
use super::raw::{nearest, one_of};
use super::spec::{Lane, VectorField, VectorMessage, VectorSpec};

/// Most joints of a stream.
const MAX_JOINTS: usize = 4096;

/// Validates the keys `fields`, `joints` and `angular` of the stream at `key`.
pub(super) fn vector(
    check: &mut Check<'_>,
    key: &str,
    message: VectorMessage,
    fields: Option<Vec<String>>,
    joints: Option<Vec<String>>,
    angular: Option<Vec<String>>,
) -> Option<VectorSpec> {
    let fields = match fields {
        Some(names) => chosen_fields(check, &format!("{key}.fields"), message, &names),
        None if message == VectorMessage::JointState => Some(vec![VectorField::Position]),
        None => Some(message.fields().to_vec()),
    };
    let joints = match message {
        VectorMessage::JointState => joint_names(check, &format!("{key}.joints"), joints),
        _ => Some(Vec::new()),
    };
    let (fields, joints) = (fields?, joints?);
    let angular = angular.map(|names| (format!("{key}.angular"), names));
    if let Some((key, names)) = &angular {
        angular_joints(check, key, names, &joints, &fields)?;
    }
    let angular = angular.map(|(_, names)| names).unwrap_or_default();
    let lanes = lanes(message, &fields, &joints, &angular);
    Some(VectorSpec { message, fields, joints, lanes })
}

/// Whether a row of these fields (of all, where none are chosen) has a quaternion in it.
pub(super) fn has_orientation(message: VectorMessage, fields: Option<&[String]>) -> bool {
    let orientation = VectorField::Orientation;
    message.fields().contains(&orientation)
        && fields.is_none_or(|names| names.iter().any(|name| name == orientation.name()))
}

fn chosen_fields(
    check: &mut Check<'_>,
    key: &str,
    message: VectorMessage,
    names: &[String],
) -> Option<Vec<VectorField>> {
    check.names(key, names, "field")?;
    let known: Vec<_> = message.fields().iter().map(|field| field.name()).collect();
    let mut fields = Vec::with_capacity(names.len());
    for (i, name) in names.iter().enumerate() {
        match known.iter().position(|known| known == name) {
            Some(at) => fields.push(message.fields()[at]),
            None => {
                let expected = format!("{} (of {})", one_of(&known), message.ros_type());
                check.fail(&format!("{key}[{i}]"), expected);
                if let Some(near) = nearest(name, &known) {
                    check.hint(format!("did you mean `{near}`?"));
                }
            }
        }
    }
    (fields.len() == names.len()).then_some(fields)
}

fn joint_names(
    check: &mut Check<'_>,
    key: &str,
    joints: Option<Vec<String>>,
) -> Option<Vec<String>> {
    let joints = check.required(key, joints, "the list of the joints, in row order")?;
    check.names(key, &joints, "joint")?;
    if joints.len() > MAX_JOINTS {
        let expected = format!("at most {MAX_JOINTS} joints");
        check.fail_found(key, expected, joints.len().to_string());
        return None;
    }
    Some(joints)
}

fn angular_joints(
    check: &mut Check<'_>,
    key: &str,
    angular: &[String],
    joints: &[String],
    fields: &[VectorField],
) -> Option<()> {
    check.names(key, angular, "joint")?;
    if !fields.contains(&VectorField::Position) {
        check.fail(key, "no such key unless `fields` has position");
        return None;
    }
    let mut all = true;
    for (i, name) in angular.iter().enumerate().filter(|(_, name)| !joints.contains(name)) {
        check.fail(&format!("{key}[{i}]"), "one of this stream's `joints`");
        let known: Vec<_> = joints.iter().map(String::as_str).collect();
        if let Some(near) = nearest(name, &known) {
            check.hint(format!("did you mean `{near}`?"));
        }
        all = false;
    }
    all.then_some(())
}

fn lanes(
    message: VectorMessage,
    fields: &[VectorField],
    joints: &[String],
    angular: &[String],
) -> Vec<Lane> {
    let mut lanes = Vec::new();
    for field in fields {
        match (message, field) {
            (VectorMessage::JointState, VectorField::Position) => {
                lanes.extend(joints.iter().map(|joint| match angular.contains(joint) {
                    true => Lane::Angular,
                    false => Lane::Linear,
                }));
            }
            (VectorMessage::JointState, _) => lanes.extend(joints.iter().map(|_| Lane::Linear)),
            (_, VectorField::Orientation) => lanes.extend([Lane::Quaternion; 4]),
            (_, _) => lanes.extend([Lane::Linear; 3]),
        }
    }
    lanes
}
