use super::*;
use crate::cdr::Writer;
use crate::input::SampleSink;
use crate::sample::{Header, Trajectory};
use robocache_ops::time::Stamp;

/// A scan as a driver sends it: five rays over half a turn.
struct Message {
    /// `angle_min` to `range_max`, in the order of the message.
    numbers: [f32; 7],
    ranges: Vec<f32>,
    intensities: Vec<f32>,
    declared: Option<u32>,
}

impl Default for Message {
    fn default() -> Self {
        let quarter = std::f32::consts::FRAC_PI_4;
        Message {
            numbers: [-2.0 * quarter, 2.0 * quarter, quarter, 0.25, 1.0, 0.1, 30.0],
            ranges: vec![1.0, 2.0, 3.0, 4.0, 5.0],
            intensities: vec![10.0, 20.0, 30.0, 40.0, 50.0],
            declared: None,
        }
    }
}

impl Message {
    fn bytes(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.header(Stamp::from_nanos(7_000_000_001), "scanner");
        self.numbers.iter().for_each(|number| writer.f32(*number));
        match self.declared {
            None => writer.f32_sequence(self.ranges.iter().copied()),
            Some(count) => writer.u32(count),
        }
        writer.f32_sequence(self.intensities.iter().copied());
        writer.finish()
    }
}

/// Keeps the points of the only sample.
#[derive(Default)]
struct Points(Option<Vec<Vec<f32>>>);

impl Sink for Points {
    fn admit(&mut self, header: &Header<'_>) -> Option<&mut dyn SampleSink> {
        assert_eq!(header.frame_id, "scanner");
        assert_eq!(header.stamp, Ok(Stamp::from_nanos(7_000_000_001)));
        Some(self)
    }
}

impl SampleSink for Points {
    fn sample(&mut self, part: usize, sample: Sample<'_>) {
        assert_eq!(part, 0);
        let Sample::Points(view) = sample else { panic!("points are expected") };
        assert_eq!((view.height, view.row_step), (1, view.width * view.point_step));
        assert_eq!(view.data.len(), view.row_step);
        let words = view.data.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
        let words: Vec<_> = words.collect();
        let points = words.chunks_exact(view.fields.len()).map(<[f32]>::to_vec);
        assert!(self.0.replace(points.collect()).is_none(), "one sample");
    }

    fn trajectory(&mut self, _: &Trajectory<'_>) {
        panic!("a trajectory")
    }

    fn incomplete(&mut self, part: usize, _: &str) {
        panic!("part {part} is incomplete")
    }
}

fn input(extra: &[&str]) -> LaserScanInput {
    let extra: Vec<_> = extra.iter().map(ToString::to_string).collect();
    LaserScanInput::new(&extra, None, 5).unwrap()
}

fn read(input: &mut LaserScanInput, message: &Message) -> Result<Vec<Vec<f32>>, Rejected> {
    let mut points = Points::default();
    input.read(&message.bytes(), &mut points).map(|()| points.0.unwrap())
}

/// The angles are multiples of a quarter of pi in f32; numpy gives the same points in float64.
#[test]
fn rays_become_points_in_their_order() {
    let points = read(&mut input(&["t", "intensity"]), &Message::default()).unwrap();
    let half = std::f32::consts::FRAC_1_SQRT_2;
    let expected = [
        [0.0, -1.0, 0.0, 0.0, 10.0],
        [2.0 * half, -2.0 * half, 0.0, 0.25, 20.0],
        [3.0, 0.0, 0.0, 0.5, 30.0],
        [4.0 * half, 4.0 * half, 0.0, 0.75, 40.0],
        [0.0, 5.0, 0.0, 1.0, 50.0],
    ];
    assert_eq!(points.len(), 5);
    for (found, expected) in points.iter().zip(expected) {
        let near = |(a, b): (&f32, f32)| (a - b).abs() < 5e-7;
        assert!(found.iter().zip(expected).all(near), "{found:?} {expected:?}");
    }
}

#[test]
fn rays_without_a_return_are_not_finite_and_keep_their_place() {
    let nan = f32::NAN;
    let inf = f32::INFINITY;
    for bad in [nan, inf, -inf, 0.05, 30.5, -1.0] {
        let message = Message { ranges: vec![1.0, bad, 0.1, 30.0, bad], ..Message::default() };
        let points = read(&mut input(&["t"]), &message).unwrap();
        let returned: Vec<_> = points.iter().map(|point| point[0].is_finite()).collect();
        assert_eq!(returned, [true, false, true, true, false], "{bad}");
        assert_eq!(points[4][3], 1.0);
    }
    // A scanner without a limit.
    let mut message = Message { ranges: vec![1.0, inf, 1e9, 0.0, 2.0], ..Message::default() };
    (message.numbers[5], message.numbers[6]) = (0.0, inf);
    let points = read(&mut input(&[]), &message).unwrap();
    let returned: Vec<_> = points.iter().map(|point| point[1].is_finite()).collect();
    assert_eq!(returned, [true, false, true, true, true]);
}

#[test]
fn scans_may_change_from_message_to_message() {
    let mut used = input(&[]);
    for (count, first, step) in
        [(5, 0.0, 0.1), (2, 0.0, 0.1), (4, 0.0, 0.1), (4, 0.5, 0.1), (0, 0.5, 0.1), (3, 0.5, -0.2)]
    {
        let mut message = Message { ranges: vec![1.0; count], ..Message::default() };
        message.intensities.clear();
        (message.numbers[0], message.numbers[2]) = (first, step);
        let found = read(&mut used, &message).unwrap();
        assert_eq!(found.len(), count);
        assert_eq!(found, read(&mut input(&[]), &message).unwrap());
    }
}

#[test]
fn malformed_scans_are_dropped() {
    use DropReason::{Malformed, MissingField, TooLarge};
    type Change = fn(&mut Message);
    let cases: [(Change, DropReason, &str); 9] = [
        (|m| m.numbers[0] = f32::NAN, Malformed, "angle_min: expected a finite number, found NaN"),
        (
            |m| m.numbers[2] = f32::INFINITY,
            Malformed,
            "angle_increment: expected a finite number, found inf",
        ),
        (
            |m| m.numbers[3] = f32::NEG_INFINITY,
            Malformed,
            "time_increment: expected a finite number, found -inf",
        ),
        (|m| m.numbers[5] = f32::NAN, Malformed, "range_min: expected a distance, found NaN"),
        (|m| m.numbers[6] = f32::NAN, Malformed, "range_max: expected a distance, found NaN"),
        (
            |m| m.intensities.truncate(4),
            Malformed,
            "intensities: expected none or 5, one for each range, found 4",
        ),
        (
            |m| m.intensities.clear(),
            MissingField,
            "expected field intensity, found a scan without intensities",
        ),
        (|m| m.ranges.push(1.0), Malformed, "intensities: expected none or 6"),
        (
            |m| (m.ranges, m.intensities) = (vec![1.0; 6], vec![1.0; 6]),
            TooLarge,
            "ranges: expected at most 5 points, found 6",
        ),
    ];
    for (change, reason, detail) in cases {
        let mut message = Message::default();
        change(&mut message);
        let error = read(&mut input(&["intensity"]), &message).unwrap_err();
        assert_eq!(error.reason, reason, "{error}");
        assert!(error.detail.starts_with(detail), "{error}");
    }
}

#[test]
fn a_scan_cut_short_anywhere_or_of_a_huge_declared_size_is_malformed() {
    let bytes = Message::default().bytes();
    let mut input = input(&["intensity"]);
    for len in 0..bytes.len() {
        let error = input.read(&bytes[..len], &mut Points::default()).unwrap_err();
        assert_eq!(error.reason, DropReason::Malformed, "{len} bytes: {error}");
    }
    for declared in [6, 1 << 20, u32::MAX] {
        let message = Message { declared: Some(declared), ..Message::default() };
        assert_eq!(read(&mut input, &message).unwrap_err().reason, DropReason::Malformed);
    }
    assert!(read(&mut input, &Message::default()).is_ok());
}

#[test]
fn a_scan_has_no_other_fields() {
    assert!(LaserScanInput::new(&["ring".into()], None, 5).is_none());
}
