//! The limits that files have.

use proptest::prelude::*;

use super::*;

const ARM: &str = include_str!("../../../../../tests/configs/limits/arm.urdf");
const XACRO_ARM: &str = include_str!("../../../../../tests/configs/limits/arm.urdf.xacro");
const LIMITS: &str = include_str!("../../../../../tests/configs/limits/joint_limits.yaml");

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn known(position: Option<[f64; 2]>, velocity: Option<f64>, acceleration: Option<f64>) -> Known {
    Known { limits: JointLimits { position, velocity, acceleration }, continuous: false }
}

#[test]
fn a_urdf_has_positions_and_velocities() {
    let joints = names(&["shoulder", "wrist", "rail", "free", "elsewhere"]);
    let wrist = Known { continuous: true, ..known(None, Some(3.5), None) };
    let expected = [
        known(Some([-2.5, 2.75]), Some(2.0), None),
        wrist,
        known(Some([0.0, 0.8]), Some(0.0), None),
        Known::default(),
        Known::default(),
    ];
    assert_eq!(urdf(ARM, &joints).unwrap(), expected);
}

#[test]
fn a_urdf_says_which_joint_cannot_be_commanded() {
    for (joint, error) in [
        ("other_finger", "line 21: joint other_finger: it mimics finger, so command that one"),
        (
            "camera",
            "line 23: joint camera: expected the type revolute, prismatic or continuous, found fixed",
        ),
    ] {
        assert_eq!(urdf(ARM, &names(&[joint])).unwrap_err(), error);
    }
    let number = ARM.replace("lower=\"-2.5\"", "lower=\"inf\"");
    let error = urdf(&number, &names(&["shoulder"])).unwrap_err();
    assert_eq!(error, "line 8: joint shoulder: expected a number as lower, found inf");
    let twice = ARM.replace("\"free\"", "\"shoulder\"");
    let error = urdf(&twice, &names(&["shoulder"])).unwrap_err();
    assert_eq!(error, "line 24: joint shoulder: expected each joint once");
    // Joints of others do not matter.
    assert_eq!(urdf(&twice, &names(&["rail"])).unwrap(), urdf(ARM, &names(&["rail"])).unwrap());
}

#[test]
fn another_xml_file_is_no_urdf() {
    let error = |text: &str| urdf(text, &[]).unwrap_err();
    assert_eq!(error("<sdf/>"), "expected <robot>, found <sdf>");
    assert_eq!(error(XACRO_ARM), XACRO);
    assert_eq!(error("<robot><xacro:include filename=\"a\"/></robot>"), XACRO);
    let value = "<robot><joint name=\"${prefix}a\" type=\"revolute\"/></robot>";
    assert_eq!(error(value), XACRO);
    assert!(error("<robot>").contains("never closed"), "{}", error("<robot>"));
    let entities = "<!DOCTYPE robot [<!ENTITY a 'b'>]><robot>&a;</robot>";
    assert!(error(entities).contains("DTD"), "{}", error(entities));
    // Each level takes a few bytes of the file, and none of the stack.
    let deep = format!("<robot>{}{}</robot>", "<a>".repeat(100_000), "</a>".repeat(100_000));
    assert_eq!(urdf(&deep, &[]).unwrap(), []);
    let many = format!("<robot>{}</robot>", "<a/>".repeat(MAX_NODES));
    assert!(error(&many).contains("limit"), "{}", error(&many));
}

#[test]
fn a_file_of_limits_has_what_its_flags_do_not_turn_off() {
    let joints = names(&["shoulder", "wrist", "rail", "elsewhere"]);
    let expected = [
        known(None, Some(1.5), Some(10.0)),
        known(None, None, Some(20.0)),
        known(Some([0.1, 0.7]), Some(0.5), None),
        Known::default(),
    ];
    assert_eq!(joint_limits(LIMITS, "limits.yaml", &joints).unwrap(), expected);
    // Without a flag, a number counts.
    let text = "joint_limits: {a: {max_velocity: 2, min_position: -1, max_position: 1}}";
    let found = joint_limits(text, "limits.yaml", &names(&["a"])).unwrap();
    assert_eq!(found, [known(Some([-1.0, 1.0]), Some(2.0), None)]);
}

#[test]
fn a_file_of_limits_says_what_is_wrong() {
    let error = |text: &str| joint_limits(text, "limits.yaml", &names(&["a"])).unwrap_err();
    for (text, expected) in [
        ("a: 1\n", "limits.yaml:1: expected a mapping with the key `joint_limits`, found {a: 1}"),
        ("[1]", "limits.yaml:1: expected a mapping with the key `joint_limits`, found [1]"),
        (
            "a: 1\na: 2\n",
            "limits.yaml:2: a: expected each key only once (first on line 1), found it again",
        ),
        (
            "joint_limits:\n  a: {max_velocity: fast}",
            "line 2: joint a: expected a number as max_velocity, found fast",
        ),
        (
            "joint_limits:\n  a: {has_position_limits: true, max_position: 1}",
            "line 2: joint a: expected min_position and max_position",
        ),
        (
            "joint_limits:\n  a: {has_acceleration_limits: true}",
            "line 2: joint a: expected max_acceleration",
        ),
        (
            "joint_limits: {a: {max_velocity: .inf}}",
            "line 1: joint a: expected a number as max_velocity, found .inf",
        ),
    ] {
        assert_eq!(error(text), expected, "{text}");
    }
}

proptest! {
    /// A file that was changed anywhere gives limits or an error.
    #[test]
    fn damaged_files_are_harmless(
        at in 0..ARM.len(),
        len in 0..40_usize,
        with in prop_oneof!["[<>/&\"{}$ a-z0-9:.-]{0,12}", any::<String>()],
    ) {
        let joints = names(&["shoulder", "wrist", "rail", "finger"]);
        for text in [ARM, LIMITS, XACRO_ARM] {
            let from = at % text.len();
            let to = (from + len).min(text.len());
            let damaged = format!("{}{with}{}", &text[..from], &text[to..]);
            for known in [urdf(&damaged, &joints), joint_limits(&damaged, "limits.yaml", &joints)] {
                let numbers = known.iter().flatten().filter_map(|known| known.limits.position);
                prop_assert!(numbers.flatten().all(f64::is_finite));
            }
        }
    }
}
