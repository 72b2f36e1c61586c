use super::*;
use crate::cdr::Writer;
use crate::input::SampleSink;
use crate::sample::{Header, Trajectory};
use robocache_ops::time::Stamp;

/// A map as a SLAM node sends it: 3 x 2 cells.
struct Message {
    resolution: f32,
    size: [u32; 2],
    position: [f64; 3],
    orientation: [f64; 4],
    data: Vec<u8>,
}

impl Default for Message {
    fn default() -> Self {
        Message {
            resolution: 0.05,
            size: [3, 2],
            position: [-1.5, 2.0, 0.25],
            // A quarter turn about z.
            orientation: [0.0, 0.0, 0.5f64.sqrt(), 0.5f64.sqrt()],
            data: [0i8, 100, -1, 50, 1, 99].map(|cell| cell as u8).to_vec(),
        }
    }
}

impl Message {
    fn bytes(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.header(Stamp::from_nanos(7_000_000_001), "map");
        writer.i32(5);
        writer.u32(9);
        writer.f32(self.resolution);
        self.size.iter().for_each(|side| writer.u32(*side));
        writer.f64_array(&self.position);
        writer.f64_array(&self.orientation);
        writer.bytes(&self.data);
        writer.finish()
    }

    fn read(&self) -> Result<Vec<u8>, Rejected> {
        read(&self.bytes())
    }
}

/// Keeps the cells of the only sample.
#[derive(Default)]
struct Cells(Option<Vec<u8>>);

impl Sink for Cells {
    fn admit(&mut self, header: &Header<'_>) -> Option<&mut dyn SampleSink> {
        assert_eq!(header.frame_id, "map");
        assert_eq!(header.stamp, Ok(Stamp::from_nanos(7_000_000_001)));
        Some(self)
    }
}

impl SampleSink for Cells {
    fn sample(&mut self, part: usize, sample: Sample<'_>) {
        assert_eq!(part, 0);
        let Sample::Map(view) = sample else { panic!("a map is expected") };
        assert_eq!((view.width, view.height), (3, 2));
        assert_eq!(view.resolution_m, f64::from(0.05f32));
        let expected = [[0.0, -1.0, 0.0, -1.5], [1.0, 0.0, 0.0, 2.0], [0.0, 0.0, 1.0, 0.25]];
        for (found, expected) in view.t_frame_map.iter().flatten().zip(expected.iter().flatten()) {
            assert!((found - expected).abs() < 1e-15, "{:?}", view.t_frame_map);
        }
        assert!(self.0.replace(view.data.to_vec()).is_none(), "one sample");
    }

    fn trajectory(&mut self, _: &Trajectory<'_>) {
        panic!("a trajectory")
    }

    fn incomplete(&mut self, _: usize, _: &str) {
        panic!("a part")
    }
}

fn read(message: &[u8]) -> Result<Vec<u8>, Rejected> {
    let selection = Selection::Map { largest_cells: [4, 3] };
    let mut cells = Cells::default();
    (TYPE.open)(&selection).unwrap().read(message, &mut cells)?;
    Ok(cells.0.unwrap())
}

#[test]
fn a_map_has_its_cells_and_its_origin() {
    assert_eq!(Message::default().read().unwrap(), Message::default().data);
}

#[test]
fn a_message_that_ends_early_is_malformed() {
    let message = Message::default().bytes();
    for len in 0..message.len() {
        assert_eq!(read(&message[..len]).unwrap_err().reason, DropReason::Malformed, "{len}");
    }
}

#[test]
fn what_is_wrong_is_named() {
    let usual = Message::default;
    for (message, reason, detail) in [
        (
            Message { size: [3, 3], ..usual() },
            DropReason::Malformed,
            "data: expected 3x3 cells, as info says, found 6",
        ),
        (
            Message { size: [0, 2], data: Vec::new(), ..usual() },
            DropReason::Malformed,
            "info: expected cells, found 0x2",
        ),
        (
            Message { size: [5, 2], ..usual() },
            DropReason::TooLarge,
            "info.width: expected at most 4 cells wide (occupancy.max_width_cells), found 5",
        ),
        (
            Message { size: [3, u32::MAX], ..usual() },
            DropReason::TooLarge,
            "info.height: expected at most 3 cells high (occupancy.max_height_cells), found 4294967295",
        ),
        (
            Message { resolution: 0.0, ..usual() },
            DropReason::OutOfRange,
            "info.resolution: expected a number of metres greater than 0, found 0",
        ),
        (
            Message { resolution: f32::NAN, ..usual() },
            DropReason::NonFinite,
            "info.resolution: expected a number of metres greater than 0, found NaN",
        ),
        (
            Message { position: [0.0, f64::INFINITY, 0.0], ..usual() },
            DropReason::NonFinite,
            "info.origin: expected finite numbers, found NaN or infinity",
        ),
        (
            Message { orientation: [0.0; 4], ..usual() },
            DropReason::OutOfRange,
            "info.origin: rotation: expected a quaternion of length 1, found length 0.0000",
        ),
    ] {
        let found = message.read().unwrap_err();
        assert_eq!((found.reason, found.detail.as_str()), (reason, detail));
    }
}
