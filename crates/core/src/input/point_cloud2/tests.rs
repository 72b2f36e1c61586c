//! Declarations of clouds, right and wrong.

use super::*;
use crate::cdr::Writer;
use crate::sample::StampError;
use robocache_ops::time::Stamp;

/// Makes something in a message wrong.
type Change = fn(&mut Message);

/// Declarations of a message; 2 x 2 points of x, y, z and intensity unless changed.
struct Message {
    stamp: (i32, u32),
    frame_id: &'static [u8],
    size: (u32, u32),
    fields: Vec<(&'static str, u32, u8, u32)>,
    big_endian: u8,
    steps: (u32, u32),
    data: usize,
}

impl Default for Message {
    fn default() -> Self {
        let fields = ["intensity", "x", "y", "z"].into_iter().zip(0..);
        Message {
            stamp: (5, 6),
            frame_id: b"lidar",
            size: (2, 2),
            fields: fields.map(|(name, i)| (name, 4 * i, 7, 1)).collect(),
            big_endian: 0,
            steps: (16, 40),
            data: 72,
        }
    }
}

impl Message {
    fn bytes(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.i32(self.stamp.0);
        writer.u32(self.stamp.1);
        writer.bytes(self.frame_id);
        writer.u32(self.size.0);
        writer.u32(self.size.1);
        writer.u32(self.fields.len() as u32);
        for (name, offset, datatype, count) in &self.fields {
            writer.string(name);
            writer.u32(*offset);
            writer.u8(*datatype);
            writer.u32(*count);
        }
        writer.u8(self.big_endian);
        writer.u32(self.steps.0);
        writer.u32(self.steps.1);
        writer.bytes(&vec![0; self.data]);
        writer.u8(1);
        writer.finish()
    }
}

fn extra() -> Vec<String> {
    vec!["intensity".into()]
}

fn error(change: impl FnOnce(&mut Message)) -> (DropReason, String) {
    let mut message = Message::default();
    change(&mut message);
    let error = decode(&message.bytes(), &extra(), &mut Vec::new()).unwrap_err();
    (error.reason, error.detail)
}

#[test]
fn a_view_names_the_fields_of_the_configuration_in_its_order() {
    let bytes = Message::default().bytes();
    let mut scratch = Vec::new();
    let (header, view) = decode(&bytes, &extra(), &mut scratch).unwrap();
    let stamp = Ok(Stamp::from_nanos(5_000_000_006));
    assert_eq!(header, Header { stamp, frame_id: "lidar", child_frame_id: "" });
    assert_eq!((view.height, view.width, view.point_step, view.row_step), (2, 2, 16, 40));
    assert_eq!((view.big_endian, view.data.len()), (false, 72));
    assert_eq!(view.fields.iter().map(|field| field.offset).collect::<Vec<_>>(), [4, 8, 12, 0]);
    let big_endian = Message { big_endian: 1, ..Message::default() }.bytes();
    assert!(decode(&big_endian, &extra(), &mut scratch).unwrap().1.big_endian);
}

#[test]
fn headers() {
    let zero = Message { stamp: (0, 0), ..Message::default() }.bytes();
    let stamp = decode(&zero, &extra(), &mut Vec::new()).unwrap().0.stamp;
    assert_eq!(stamp, Err(StampError::Zero));
    let bad = Message { stamp: (1, 1_000_000_000), ..Message::default() }.bytes();
    let stamp = decode(&bad, &extra(), &mut Vec::new()).unwrap().0.stamp.unwrap_err();
    let error_of_stamp = Rejected::from(stamp);
    assert_eq!(error_of_stamp.reason, DropReason::BadStamp);
    let expected = "header.stamp.nanosec: expected under 1000000000, found 1000000000";
    assert_eq!(error_of_stamp.detail, expected);
    let past = Message { stamp: (-1, 5), ..Message::default() }.bytes();
    let stamp = decode(&past, &extra(), &mut Vec::new()).unwrap().0.stamp.unwrap_err();
    let error_of_stamp = Rejected::from(stamp);
    assert_eq!(error_of_stamp.reason, DropReason::BadStamp);
    assert_eq!(error_of_stamp.detail, "header.stamp.sec: expected 0 or more, found -1");
    let (reason, detail) = error(|m| m.frame_id = b"\xFF");
    assert_eq!(reason, DropReason::Malformed);
    assert!(detail.starts_with("header.frame_id: expected UTF-8"), "{detail}");
}

#[test]
fn a_field_that_is_not_there_is_reported_with_those_that_are() {
    let found = error(|m| m.fields[0].0 = "reflectivity");
    let detail = "expected field intensity, found [reflectivity, x, y, z]".to_string();
    assert_eq!(found, (DropReason::MissingField, detail));
    let found = error(|m| m.fields.truncate(3));
    let detail = "expected field z, found [intensity, x, y]".to_string();
    assert_eq!(found, (DropReason::MissingField, detail));
    let (_, detail) = error(|m| m.fields = vec![("a", 0, 7, 1); 500]);
    assert!(detail.ends_with("a, a, ...]") && detail.len() < 200, "{detail}");
}

#[test]
fn fields_of_unsupported_kinds() {
    use DropReason::Unsupported;
    let cases: [(Change, &str); 4] = [
        (|m| m.fields[0].2 = 0, "field intensity: expected datatype 1 to 8, found 0"),
        (|m| m.fields[0].2 = 9, "field intensity: expected datatype 1 to 8, found 9"),
        (|m| m.fields[0].3 = 3, "field intensity: expected count 1, found 3"),
        (|m| m.fields[2].2 = 10, "field y: expected datatype 1 to 8, found 10"),
    ];
    for (change, detail) in cases {
        assert_eq!(error(change), (Unsupported, detail.to_string()));
    }
}

#[test]
fn layouts_that_do_not_fit() {
    let cases: [(Change, &str); 7] = [
        (|m| m.steps.1 = 31, "row_step: expected at least 32 (2 points of 16 bytes), found 31"),
        (|m| m.data = 71, "data: expected at least 72 bytes for 2x2 points, found 71"),
        (
            |m| (m.size, m.steps.1) = ((u32::MAX, 2), u32::MAX),
            "data: expected at least 18446744060824649762 bytes for 2x4294967295 points, found 72",
        ),
        (
            |m| m.fields[3].1 = 13,
            "field z: expected 4 bytes at offset 13 inside point_step, found point_step 16",
        ),
        (
            |m| m.fields[3].1 = u32::MAX,
            "field z: expected 4 bytes at offset 4294967295 inside point_step, \
             found point_step 16",
        ),
        (|m| m.fields.push(("x", 0, 7, 1)), "field x: expected one, found several"),
        (|m| m.big_endian = 2, "is_bigendian: expected 0 or 1, found 2"),
    ];
    for (change, detail) in cases {
        assert_eq!(error(change), (DropReason::Malformed, detail.to_string()));
    }
    let empty = Message { size: (9, 0), steps: (16, 0), data: 0, ..Message::default() };
    assert!(decode(&empty.bytes(), &extra(), &mut Vec::new()).is_ok());
}

#[test]
fn points_are_packed_if_only_that_fits_the_data() {
    // 3 x 2 points of 16 bytes.
    let found = |row_step: u32, data: usize| {
        let message = Message { size: (2, 3), steps: (16, row_step), data, ..Message::default() };
        let bytes = message.bytes();
        let mut scratch = Vec::new();
        let view = decode(&bytes, &extra(), &mut scratch).map(|(_, view)| view.row_step);
        view.map_err(|rejected| rejected.reason)
    };
    for row_step in [0, 1, 16, 47, 49, 96, 100, u32::MAX] {
        assert_eq!(found(row_step, 96), Ok(48), "{row_step}");
        for data in [0, 47, 95, 97] {
            // A row of 49 bytes fits 97 bytes of data.
            let expected = match (row_step, data) {
                (49, 97) => Ok(49),
                _ => Err(DropReason::Malformed),
            };
            assert_eq!(found(row_step, data), expected, "{row_step} {data}");
        }
    }
    assert_eq!(found(48, 96), Ok(48));
    // What fits is read as it is declared, also with bytes at the end.
    assert_eq!((found(48, 200), found(60, 200)), (Ok(48), Ok(60)));
    // A cloud without rows has no data.
    let empty = Message { size: (0, 9), steps: (16, 0), data: 0, ..Message::default() };
    assert!(decode(&empty.bytes(), &extra(), &mut Vec::new()).is_ok());
    // A product that has more than 64 bits is no length.
    let huge = Message { size: (u32::MAX, u32::MAX), steps: (u32::MAX, 0), ..Message::default() };
    let refused = decode(&huge.bytes(), &extra(), &mut Vec::new()).unwrap_err();
    assert_eq!(refused.reason, DropReason::Malformed);
}
