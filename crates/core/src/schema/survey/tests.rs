use super::super::{Definitions, resolve};
use super::*;
use crate::cdr::Writer;

struct Texts;

impl Definitions for Texts {
    fn find(&self, name: &str) -> Result<String, String> {
        let text = match name {
            "a/msg/State" => {
                "std_msgs/Header header\nstring name\ngeometry_msgs/Pose pose\nfloat32[] force\n\
                 bool on\nbuiltin_interfaces/Time at\ngeometry_msgs/Point[] path"
            }
            "std_msgs/msg/Header" => "builtin_interfaces/Time stamp\nstring frame_id",
            "builtin_interfaces/msg/Time" => "int32 sec\nuint32 nanosec",
            "geometry_msgs/msg/Pose" => "Point position\nQuaternion orientation",
            "geometry_msgs/msg/Point" => "float64 x\nfloat64 y\nfloat64 z",
            "geometry_msgs/msg/Quaternion" => "float64 x\nfloat64 y\nfloat64 z\nfloat64 w",
            _ => return Err("unknown".into()),
        };
        Ok(text.to_owned())
    }
}

fn message(force: &[f32]) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.i32(1);
    writer.u32(2);
    writer.string("base");
    writer.string("it");
    (0..7).for_each(|i| writer.f64(f64::from(i)));
    writer.u32(force.len() as u32);
    force.iter().for_each(|value| writer.f32(*value));
    writer.u8(1);
    writer.i32(0);
    writer.u32(0);
    writer.u32(0);
    writer.finish()
}

#[test]
fn paths_are_those_of_a_selection_and_lists_have_their_lengths() {
    let root = resolve("a/msg/State", &Texts).unwrap();
    let mut survey = Survey::new(&root).unwrap();
    survey.take(&message(&[1.0, -4.0])).unwrap();
    survey.take(&message(&[0.5, f32::NAN, 9.0])).unwrap();
    let told: Vec<_> =
        survey.leaves().iter().map(|leaf| (leaf.path.as_str(), leaf.numbers)).collect();
    let expected = [("pose.position", [3, 3]), ("pose.orientation", [4, 4]), ("force", [2, 3])];
    assert_eq!(told, [&expected[..], &[("on", [1, 1])]].concat());
    let force = &survey.leaves()[2];
    assert_eq!((force.non_finite, force.range, force.is_list), (1, Some([-4.0, 9.0]), true));
    assert!(survey.leaves()[1].is_quaternion && survey.leaves()[3].is_whole);
    assert!(survey.has_header() && survey.times() == ["at"] && survey.lists() == ["path"]);
    let cut = message(&[1.0]);
    assert!(survey.take(&cut[..cut.len() - 30]).is_err());
    // A length that the message does not hold ends at the message's end.
    let mut long = message(&[]);
    let at = 4 + 88;
    long[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(survey.take(&long).is_err());
}
