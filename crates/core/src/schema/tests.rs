//! Definitions, paths and plans.

use super::*;
use crate::cdr::{Reader, Writer};
use crate::rejected::DropReason;
use proptest::prelude::*;
use robocache_ops::resample::Lane;
use std::collections::HashMap;

/// Definitions by name.
struct Texts(HashMap<&'static str, &'static str>);

impl Definitions for Texts {
    fn find(&self, name: &str) -> Result<String, String> {
        self.0.get(name).map(ToString::to_string).ok_or_else(|| "not here".to_owned())
    }
}

fn texts() -> Texts {
    Texts(HashMap::from([
        ("std_msgs/msg/Header", "builtin_interfaces/Time stamp\nstring frame_id"),
        ("builtin_interfaces/msg/Time", "int32 sec\nuint32 nanosec # under 1e9"),
        ("geometry_msgs/msg/Quaternion", "float64 x 0\nfloat64 y 0\nfloat64 z 0\nfloat64 w 1"),
        ("a/msg/Value", "string[] interface_names\nfloat64[] values"),
        ("a/msg/Dynamic", "std_msgs/Header header\nstring[] joint_names\nValue[] interface_values"),
        ("a/msg/Part", "string name\nuint8 kind\nfloat32 force\nfloat64[3] at"),
        (
            "a/msg/All",
            "# All kinds.\nuint8 CONST=0x1F # hexadecimal\nstring TEXT=\"# not a comment\"\n\
             bool on\nint8 small -1\nfloat32[3] three\nstring<=8 word \"a b\"\nint16[] shorts\n\
             a/Part[<=4] parts\nuint64 big\ngeometry_msgs/Quaternion turn\nfloat64[] values\n\
             string[] names\nbuiltin_interfaces/Time when",
        ),
        ("a/msg/Sequences", "float64[] values\nfloat32[] others\nuint8 on"),
        ("a/msg/Empty", "# nothing"),
        ("a/msg/Loop", "a/Loop[] again"),
        ("a/msg/Wide", "wstring text\nfloat64 x"),
    ]))
}

fn plan(name: &str, paths: &[&str]) -> FieldReader {
    plan_with(name, paths, None).unwrap()
}

fn plan_with(name: &str, paths: &[&str], stamp: Option<&str>) -> Result<FieldReader, String> {
    let root = resolve(name, &texts()).map_err(|error| error.to_string())?;
    let paths: Result<Vec<_>, _> = paths.iter().map(|path| Path::parse(path)).collect();
    let stamp = stamp.map(Path::parse).transpose().map_err(|error| error.to_string())?;
    let paths = paths.map_err(|error| error.to_string())?;
    FieldReader::new(&root, &paths, stamp.as_ref()).map_err(|error| error.expected)
}

fn read(plan: &FieldReader, message: &[u8]) -> Result<Vec<f64>, (DropReason, String)> {
    let mut values = Vec::new();
    let outcome = plan.read(&mut Reader::new(message).unwrap(), &mut values);
    outcome.map(|()| values).map_err(|rejected| (rejected.reason, rejected.detail))
}

/// An `a/msg/All`.
fn all() -> Vec<u8> {
    let mut writer = Writer::new();
    writer.u8(1);
    writer.u8(0xFE); // -2
    for value in [1.5f32, -2.5, 3.5] {
        writer.u32(value.to_bits());
    }
    writer.string("word");
    writer.u32(3);
    for value in [7i16, -8, 9] {
        writer.u16(value.cast_unsigned());
    }
    writer.u32(2);
    for (name, force) in [("left", 0.25f32), ("right", 0.75)] {
        writer.string(name);
        writer.u8(5);
        writer.u32(force.to_bits());
        for at in 0..3 {
            writer.f64(f64::from(force) * 4.0 + f64::from(at));
        }
    }
    writer.u64(1 << 40);
    for value in [0.0, 0.0, 0.6, 0.8] {
        writer.f64(value);
    }
    writer.u32(2);
    writer.f64(11.0);
    writer.f64(12.0);
    writer.string_sequence(["b", "a"].into_iter());
    writer.u32(3);
    writer.u32(5);
    writer.finish()
}

#[test]
fn every_kind_of_member_is_read_and_skipped() {
    let paths = [
        "big",
        "on",
        "small",
        "three",
        "shorts[1]",
        "shorts[0:2]",
        "parts[1].force",
        "parts[\"left\"].at[1:3]",
        "parts[name='right'].kind",
        "turn",
        "values['a']",
        "values['b']",
    ];
    let plan = plan("a/msg/All", &paths);
    let expected = [
        1_099_511_627_776.0,
        1.0,
        -2.0,
        1.5,
        -2.5,
        3.5,
        -8.0,
        7.0,
        -8.0,
        0.75,
        2.0,
        3.0,
        5.0,
        0.0,
        0.0,
        0.6,
        0.8,
        12.0,
        11.0,
    ];
    assert_eq!(read(&plan, &all()), Ok(expected.to_vec()));
    let names: Vec<&str> = plan.channels().iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names[3..6], ["three[0]", "three[1]", "three[2]"]);
    assert_eq!(
        names[10..13],
        ["parts[\"left\"].at[1]", "parts[\"left\"].at[2]", "parts[name=\"right\"].kind"]
    );
    assert_eq!(names[13..17], ["turn.x", "turn.y", "turn.z", "turn.w"]);
    let lanes: Vec<Lane> = plan.channels().iter().map(|(_, lane)| *lane).collect();
    assert_eq!(lanes[12..14], [Lane::Linear, Lane::Quaternion]);
    assert_eq!((plan.stamp(), plan.has_header()), (StampSource::None, false));
}

#[test]
fn four_numbers_in_order_are_a_quaternion_and_others_are_parts_of_one() {
    let lanes = |paths: &[&str]| {
        let plan = plan("a/msg/All", paths);
        let turn = plan.channels().iter().filter(|(_, lane)| *lane == Lane::Quaternion).count();
        (turn, plan.has_part_of_quaternion())
    };
    assert_eq!(lanes(&["big", "turn", "on"]), (4, false));
    assert_eq!(lanes(&["turn.x", "turn.y", "turn.z", "turn.w"]), (4, false));
    assert_eq!(lanes(&["turn.w", "turn.x", "turn.y", "turn.z"]), (0, true));
    assert_eq!(lanes(&["turn.z"]), (0, true));
    assert_eq!(lanes(&["on"]), (0, false));
}

#[test]
fn a_message_that_is_longer_than_its_definition_is_of_another_version() {
    let plan = plan("a/msg/All", &["on"]);
    let mut longer = all();
    longer.extend([0; 7]);
    assert_eq!(read(&plan, &longer), Ok(vec![1.0]));
    longer.push(0);
    assert_eq!(read(&plan, &longer).unwrap_err().0, DropReason::Malformed);
}

#[test]
fn an_empty_sequence_of_float64_may_leave_eight_bytes_behind_the_message() {
    let plan = plan("a/msg/Sequences", &["on"]);
    let mut writer = Writer::new();
    writer.u32(0);
    writer.u32(0);
    writer.u8(1);
    let mut message = writer.finish();
    message.extend([0; 7 + 8]);
    assert_eq!(read(&plan, &message), Ok(vec![1.0]));
    message.push(0);
    assert_eq!(read(&plan, &message).unwrap_err().0, DropReason::Malformed);
}

#[test]
fn a_path_may_name_the_stamp() {
    let plan = plan_with("a/msg/All", &["on"], Some("when")).unwrap();
    assert_eq!(plan.stamp(), StampSource::Member);
    assert_eq!(read(&plan, &all()), Ok(vec![1.0, 3.0, 5.0]));
    let wrong = plan_with("a/msg/All", &["on"], Some("turn")).unwrap_err();
    assert_eq!(wrong, "the path of a builtin_interfaces/msg/Time");
}

#[test]
fn names_beside_the_values_at_two_levels() {
    let mut writer = Writer::new();
    writer.u32(1);
    writer.u32(2);
    writer.string("frame");
    writer.string_sequence(["elbow", "gripper"].into_iter());
    writer.u32(2);
    for joint in 0..2 {
        writer.string_sequence(["velocity", "position"].into_iter());
        writer.u32(2);
        writer.f64(f64::from(joint) + 0.5);
        writer.f64(f64::from(joint) + 0.25);
    }
    let message = writer.finish();
    let paths = [
        "interface_values[joint_names=\"gripper\"].values[interface_names=\"position\"]",
        "interface_values[joint_names=\"elbow\"].values[interface_names=\"position\"]",
        "interface_values[joint_names=\"elbow\"].values[interface_names=\"velocity\"]",
    ];
    let three = plan("a/msg/Dynamic", &paths);
    assert_eq!(read(&three, &message), Ok(vec![1.25, 0.25, 0.5]));
    assert_eq!((three.stamp(), three.has_header()), (StampSource::Header, true));
    let lacking = plan("a/msg/Dynamic", &["interface_values[joint_names=\"wrist\"].values[0]"]);
    let expected = "joint_names: expected \"wrist\", found elbow, gripper".to_owned();
    assert_eq!(read(&lacking, &message), Err((DropReason::MissingField, expected)));
}

#[test]
fn what_a_message_lacks_is_a_drop_that_says_so() {
    let reasons = [
        ("shorts[3]", DropReason::MissingField, "shorts[3]: expected an element, found 3"),
        (
            "parts[\"top\"].kind",
            DropReason::MissingField,
            "parts: expected \"top\", found left, right",
        ),
        ("values[\"c\"]", DropReason::MissingField, "names: expected \"c\", found b, a"),
    ];
    for (path, reason, detail) in reasons {
        assert_eq!(read(&plan("a/msg/All", &[path]), &all()), Err((reason, detail.to_owned())));
    }
    // Nothing after the last selected number may be missing either: the message was cut.
    let message = all();
    let first = plan("a/msg/All", &["on"]);
    for len in 4..message.len() {
        assert_eq!(read(&first, &message[..len]).unwrap_err().0, DropReason::Malformed, "{len}");
    }
}

#[test]
fn a_name_that_is_there_twice_is_ambiguous() {
    let mut writer = Writer::new();
    writer.string_sequence(["x", "x"].into_iter());
    writer.u32(2);
    writer.f64(1.0);
    writer.f64(2.0);
    let message = writer.finish();
    let plan = plan("a/msg/Value", &["values[interface_names=\"x\"]"]);
    assert_eq!(read(&plan, &message).unwrap_err().0, DropReason::Malformed);
    let mut writer = Writer::new();
    writer.string_sequence(["x", "y"].into_iter());
    writer.u32(1);
    writer.f64(1.0);
    let detail = "values: expected a value for each of 2 in interface_names, found 1".to_owned();
    assert_eq!(read(&plan, &writer.finish()), Err((DropReason::Malformed, detail)));
}

#[test]
fn wrong_paths_are_errors_that_say_what_there_is() {
    let cases = [
        (
            "of",
            "one of on, small, three, word, shorts, parts, big, turn, values, names, when (of a/msg/All)",
        ),
        ("turn.a", "one of x, y, z, w (of geometry_msgs/msg/Quaternion) after `turn`"),
        ("on.x", "nothing after `on`, which is one number"),
        ("word", "a number; `word` is text"),
        ("three[3]", "an index under 3 for `three`"),
        ("turn[0]", "`.` and one of x, y, z, w (of geometry_msgs/msg/Quaternion) after `turn`"),
        (
            "parts[0]",
            "members of `parts[0]`, because not all are numbers: it has string name, uint8 kind, float32 force, float64[3] at",
        ),
    ];
    for (path, expected) in cases {
        assert_eq!(plan_with("a/msg/All", &[path], None).unwrap_err(), expected, "{path}");
    }
    let open = plan_with("a/msg/All", &["values"], None).unwrap_err();
    assert!(open.starts_with("an index, a range or a name after `values`"), "{open}");
    let by = plan_with("a/msg/All", &["parts[kind=\"a\"].force"], None).unwrap_err();
    assert!(by.contains("parts[name=\"...\"]: name"), "{by}");
    // The joints of a trajectory do not name its points.
    let unasked = plan_with("a/msg/Dynamic", &["interface_values[\"a\"].values[0]"], None);
    assert!(unasked.unwrap_err().contains("interface_values[joint_names=\"...\"]: joint_names"));
    let many = plan_with("a/msg/All", &["shorts[0:4000]", "values[0:4000]"], None).unwrap_err();
    assert_eq!(many, "at most 4096 numbers in all");
    let wide = plan_with("a/msg/Wide", &["x"], None).unwrap_err();
    assert!(wide.contains("wstring") && wide.contains("`text`"), "{wide}");
    let lost = plan_with("a/msg/Lost", &["x"], None).unwrap_err();
    assert_eq!(lost, "the definition of a/msg/Lost: not here");
    let again = plan_with("a/msg/Loop", &["again"], None).unwrap_err();
    assert!(again.contains("levels"), "{again}");
    let empty = plan("a/msg/Empty", &["structure_needs_at_least_one_member"]);
    assert_eq!(read(&empty, &[0, 1, 0, 0, 7]), Ok(vec![7.0]));
}

#[test]
fn paths_are_read_and_written() {
    for text in ["a", "a.b_1", "a[3].b", "a[0:3]", "a[\"x y\"].b", "a[name=\"x\"]", "a['\"']"] {
        assert_eq!(Path::parse(text).unwrap().to_string(), text);
    }
    let cases = [
        ("", "expected the name of a member at character 1, found `the end`"),
        ("a.", "expected the name of a member at character 3, found `the end`"),
        (
            "a[",
            "expected an index, a range such as 0:3, or a name in quotes at character 3, found `the end`",
        ),
        ("a[1", "expected ] at character 4, found `the end`"),
        ("a[3:3]", "expected an end after the start at character 5, found `3`"),
        ("a[\"x]", "expected the closing quote at character 6, found `the end`"),
        ("a b", "expected . or [ at character 2, found ` `"),
        ("3", "expected the name of a member at character 1, found `3`"),
        (
            "a[99999999999999999999]",
            "expected an index, a range such as 0:3, or a name in quotes at character 3, found `9`",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(Path::parse(text).unwrap_err().to_string(), expected);
    }
}

#[test]
fn definitions_are_read_line_by_line() {
    let wrong = [
        ("float64", "line 1: expected a type and a name, found `float64`"),
        ("float64 x\nfloat64 x", "line 2: expected each member once, found `x` again"),
        ("float64[0] x", "line 1: expected a length such as [3], [<=3] or [], found `float64[0]`"),
        ("a//b x", "line 1: expected a type such as geometry_msgs/Point, found `a//b`"),
        ("float64 x-y", "line 1: expected the name of a member, found `x-y`"),
    ];
    for (text, expected) in wrong {
        assert_eq!(definition::parse(text, "p").unwrap_err(), expected);
    }
    let members = definition::parse("\r\nint32 A = 1\r\nPoint\tp\r\nstring<=3[<=2]  s\r\n", "p");
    let members = members.unwrap();
    assert_eq!(members.len(), 2);
    assert_eq!(members[0].element, definition::Element::Type("p/msg/Point".into()));
    assert_eq!(members[1].count, Count::Sequence);
}

#[test]
fn prefixes_are_searched_in_order_and_names_stay_inside() {
    let folder = std::env::temp_dir().join(format!("robocache_schema_{}", std::process::id()));
    let msg = |prefix: &str| folder.join(prefix).join("share/p/msg");
    for (prefix, text) in [("one", "int8 a"), ("two", "int16 b")] {
        std::fs::create_dir_all(msg(prefix)).unwrap();
        std::fs::write(msg(prefix).join("T.msg"), text).unwrap();
    }
    let prefixes = Prefixes::new(vec![folder.join("none"), folder.join("one"), folder.join("two")]);
    assert_eq!(prefixes.find("p/msg/T"), Ok("int8 a".to_owned()));
    let lacking = prefixes.find("p/msg/U").unwrap_err();
    assert!(lacking.contains("expected share/p/msg/U.msg in "), "{lacking}");
    assert!(prefixes.find("q/msg/T").unwrap_err().contains("no package q"));
    for outside in ["../p/msg/T", "p/../T", "p/msg/../../T", "/etc/passwd", "T"] {
        assert!(prefixes.find(outside).is_err(), "{outside}");
    }
    assert!(Prefixes::default().find("p/msg/T").unwrap_err().contains("not set"));
    std::fs::remove_dir_all(folder).unwrap();
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let paths = ["shorts[0]", "parts[\"left\"].force", "values[\"a\"]", "turn", "big"];
        let mut message = vec![0, 1, 0, 0];
        message.extend(&bytes);
        let _ = read(&plan("a/msg/All", &paths), &message);
        let _ = read(&plan("a/msg/Dynamic", &["interface_values[0].values[interface_names=\"a\"]"]), &message);
        // A message with a few wrong bytes: counts and lengths that lie.
        let mut message = all();
        for pair in bytes.chunks_exact(2).take(4) {
            let at = 4 + usize::from(pair[0]) % (message.len() - 4);
            message[at] = pair[1];
        }
        let _ = read(&plan("a/msg/All", &paths), &message);
    }

    #[test]
    fn any_text_is_a_path_or_an_error(text in "\\PC{0,40}") {
        if let Ok(path) = Path::parse(&text) {
            prop_assert_eq!(Path::parse(&path.to_string()), Ok(path));
        }
    }
}
