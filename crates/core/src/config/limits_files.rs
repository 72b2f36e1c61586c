//! Files that say what joints may do: URDF, and `joint_limits.yaml` as MoveIt has it.

use roxmltree::{Document, Error, Node as Element, ParsingOptions};

use super::error::Problem;
use super::node::{self, MAX_NODES, Node};
use crate::spec::JointLimits;

/// Explains a file that is no URDF yet.
const XACRO: &str = "it is xacro: run xacro first, and name what that writes";
/// Part of the name of xacro's namespace; its beginning has changed.
const XACRO_NAMESPACE: &str = "ros.org/wiki/xacro";

/// Facts of a file about one joint. Numbers are finite, but otherwise as written.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Known {
    /// The limits that it has.
    pub limits: JointLimits,
    /// True if the joint turns without an end.
    pub continuous: bool,
}

/// Reads what the text of a URDF says of these joints. A joint that it lacks has no limits there.
///
/// # Errors
/// The text is no URDF, or one of these joints cannot be commanded.
pub(super) fn urdf(text: &str, joints: &[String]) -> Result<Vec<Known>, String> {
    let options = ParsingOptions { nodes_limit: MAX_NODES as u32, ..ParsingOptions::default() };
    let document = Document::parse_with_options(text, options).map_err(|error| match error {
        Error::UnknownNamespace(prefix, _) if prefix == "xacro" => XACRO.to_owned(),
        error => error.to_string(),
    })?;
    let of_xacro = |element: Element<'_, '_>| {
        let mut values = element.attributes().map(|attribute| attribute.value());
        element.tag_name().namespace().is_some_and(|name| name.ends_with(XACRO_NAMESPACE))
            || values.any(|value| value.contains("${"))
    };
    if document.descendants().any(of_xacro) {
        return Err(XACRO.to_owned());
    }
    let robot = document.root_element();
    if robot.tag_name().name() != "robot" {
        return Err(format!("expected <robot>, found <{}>", robot.tag_name().name()));
    }
    joints.iter().map(|name| urdf_joint(&document, name)).collect()
}

fn urdf_joint(document: &Document<'_>, name: &str) -> Result<Known, String> {
    let wrong = |element: Element<'_, '_>, why: &str| {
        let line = document.text_pos_at(element.range().start).row;
        format!("line {line}: joint {name}: {why}")
    };
    let is_it =
        |of: &Element<'_, '_>| of.has_tag_name("joint") && of.attribute("name") == Some(name);
    let mut found = document.root_element().children().filter(is_it);
    let Some(joint) = found.next() else { return Ok(Known::default()) };
    if let Some(second) = found.next() {
        return Err(wrong(second, "expected each joint once"));
    }
    let child = |name: &str| joint.children().find(|child| child.has_tag_name(name));
    if let Some(mimic) = child("mimic") {
        let other = mimic.attribute("joint").unwrap_or_default();
        return Err(wrong(mimic, &format!("it mimics {other}, so command that one")));
    }
    let continuous = match joint.attribute("type") {
        Some("continuous") => true,
        Some("revolute" | "prismatic") => false,
        other => {
            let found = other.unwrap_or("no type");
            let why = format!("expected the type revolute, prismatic or continuous, found {found}");
            return Err(wrong(joint, &why));
        }
    };
    let Some(limit) = child("limit") else {
        return Ok(Known { continuous, ..Known::default() });
    };
    let number = |name: &str| match limit.attribute(name).map(str::trim) {
        None => Ok(None),
        Some(text) => match finite(text) {
            Some(number) => Ok(Some(number)),
            None => Err(wrong(limit, &format!("expected a number as {name}, found {text}"))),
        },
    };
    let position = match [number("lower")?, number("upper")?] {
        [None, None] => None,
        // A limit that is missing is zero, says the format.
        [low, high] => Some([low.unwrap_or(0.0), high.unwrap_or(0.0)]),
    };
    let position = position.filter(|_| !continuous);
    let limits = JointLimits { position, velocity: number("velocity")?, acceleration: None };
    Ok(Known { limits, continuous })
}

/// Reads what the text of a `joint_limits.yaml` says of these joints. A joint that it lacks has no limits there, and
/// `has_velocity_limits: false` says nothing of the velocity. Errors call the file `file`.
///
/// # Errors
/// The text has no such limits, or a limit of one of these joints is no number.
pub(super) fn joint_limits(
    text: &str,
    file: &str,
    joints: &[String],
) -> Result<Vec<Known>, String> {
    let mut problems = Vec::new();
    let expected = "a mapping with the key `joint_limits`";
    let root = node::read_as(expected, text, file, &mut problems);
    let root = root.map_err(|problem| problem.to_string())?;
    if let Some(problem) = problems.first() {
        return Err(problem.to_string());
    }
    let Some(all) = root.get("joint_limits").filter(|all| all.entries().is_some()) else {
        return Err(Problem::of_file(file, root.line, expected, &*root.text).to_string());
    };
    let of_joint = |name: &String| {
        let Some(joint) = all.get(name) else { return Ok(Known::default()) };
        let limits = yaml_joint(joint);
        let limits = limits.map_err(|why| format!("line {}: joint {name}: {why}", joint.line))?;
        Ok(Known { limits, continuous: false })
    };
    joints.iter().map(of_joint).collect()
}

fn yaml_joint(joint: &Node) -> Result<JointLimits, String> {
    let number = |name: &str| match joint.get(name) {
        None => Ok(None),
        Some(value) => match value.scalar().and_then(finite) {
            Some(number) => Ok(Some(number)),
            None => Err(format!("expected a number as {name}, found {}", value.text)),
        },
    };
    // The numbers of a limit, unless a flag turns it off. If the flag turns it on, they must be there.
    let has = |flag: &str, names: &[&'static str]| -> Result<Option<Vec<f64>>, String> {
        let on = joint.get(flag).and_then(|flag| flag.scalar());
        if matches!(on, Some("false" | "False" | "FALSE")) {
            return Ok(None);
        }
        let numbers = names.iter().map(|name| number(name)).collect::<Result<Vec<_>, _>>()?;
        if on.is_none() && numbers.iter().all(Option::is_none) {
            return Ok(None);
        }
        let all: Option<Vec<f64>> = numbers.into_iter().collect();
        all.map(Some).ok_or_else(|| format!("expected {}", names.join(" and ")))
    };
    let one = |all: Option<Vec<f64>>| all.and_then(|all| all.first().copied());
    let position = has("has_position_limits", &["min_position", "max_position"])?;
    Ok(JointLimits {
        position: position.and_then(|all| <[f64; 2]>::try_from(all).ok()),
        velocity: one(has("has_velocity_limits", &["max_velocity"])?),
        acceleration: one(has("has_acceleration_limits", &["max_acceleration"])?),
    })
}

fn finite(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

#[cfg(test)]
mod tests;
