use super::cpu::OccupancyEncoder;
use super::*;
use crate::dtype::DType;
use crate::map::MapView;
use crate::random::Random;

const IDENTITY: [[f64; 4]; 3] = crate::voxelize::IDENTITY;

fn spec(width: usize, height: usize, resolution_m: f64) -> OccupancySpec {
    OccupancySpec {
        width,
        height,
        resolution_m,
        free: 0.0,
        occupied: 1.0,
        unknown: 0.5,
        free_max: 25,
        occupied_min: 65,
        between: Between::Probability,
    }
}

fn encoded(spec: &OccupancySpec, view: &MapView<'_>) -> Vec<f32> {
    let mut row = vec![7; 4 * spec.width * spec.height];
    assert!(OccupancyEncoder::new(spec, DType::F32).encode_unless(None, view, &mut row));
    row.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

fn bytes(cells: &[i8]) -> Vec<u8> {
    cells.iter().map(|cell| *cell as u8).collect()
}

#[test]
fn numbers_are_free_occupied_unknown_or_between() {
    let spec = OccupancySpec { free: -1.0, occupied: 3.0, unknown: 9.0, ..spec(1, 1, 1.0) };
    let value = |number| spec.value(number);
    assert_eq!([0, 25, 50, 65, 100].map(value), [-1.0, -1.0, 1.0, 3.0, 3.0]);
    assert_eq!([-1, -128, 101, 127].map(value), [9.0; 4]);
    let spec = OccupancySpec { between: Between::Unknown, ..spec };
    assert_eq!([25, 26, 64, 65].map(|number| spec.value(number)), [-1.0, 9.0, 9.0, 3.0]);
}

#[test]
fn row_0_is_at_the_least_y_and_what_is_outside_of_the_map_is_unknown() {
    // A map of 3 x 2 cells whose lower corner is at (-1.5, -1): the crop has a cell more on each side.
    let data = bytes(&[0, 100, -1, 100, 100, 0]);
    let mut t_frame_map = IDENTITY;
    (t_frame_map[0][3], t_frame_map[1][3]) = (-1.5, -1.0);
    let view = MapView {
        width: 3,
        height: 2,
        resolution_m: 1.0,
        t_frame_map,
        t_crop_frame: IDENTITY,
        data: &data,
    };
    let expected = [
        [0.5, 0.5, 0.5, 0.5, 0.5],
        [0.5, 0.0, 1.0, 0.5, 0.5],
        [0.5, 1.0, 1.0, 0.0, 0.5],
        [0.5, 0.5, 0.5, 0.5, 0.5],
    ];
    assert_eq!(encoded(&spec(5, 4, 1.0), &view), expected.concat());
}

#[test]
fn a_robot_that_faces_y_sees_the_map_turned() {
    // The robot is at the centre of 2 x 2 cells, and its x is the map's y.
    let data = bytes(&[0, 100, -1, 50]);
    let t_crop_frame = [[0.0, 1.0, 0.0, -1.0], [-1.0, 0.0, 0.0, 1.0], [0.0, 0.0, 1.0, 0.0]];
    let view = MapView {
        width: 2,
        height: 2,
        resolution_m: 1.0,
        t_frame_map: IDENTITY,
        t_crop_frame,
        data: &data,
    };
    // Behind and to the right of the robot is the map's (1, 0).
    assert_eq!(encoded(&spec(2, 2, 1.0), &view), [1.0, 0.5, 0.0, 0.5]);
}

#[test]
fn other_types_are_rounded_once_and_an_overtaken_row_ends() {
    let data = bytes(&[0, 100, -1, 40]);
    let view = MapView {
        width: 4,
        height: 1,
        resolution_m: 1.0,
        t_frame_map: IDENTITY,
        t_crop_frame: [[1.0, 0.0, 0.0, -2.0], [0.0, 1.0, 0.0, -0.5], [0.0, 0.0, 1.0, 0.0]],
        data: &data,
    };
    let spec = OccupancySpec { occupied: 100.0, unknown: 255.0, ..spec(4, 1, 1.0) };
    let mut row = [0; 4];
    let mut encoder = OccupancyEncoder::new(&spec, DType::U8);
    assert!(encoder.encode_unless(None, &view, &mut row));
    assert_eq!(row, [0, 100, 255, 40]);
    assert!(!encoder.encode_unless(Some(&true.into()), &view, &mut row));
}

/// A rotation about an axis, by Rodrigues' formula, and a translation.
fn transform(random: &mut Random, tilt: f64) -> [[f64; 4]; 3] {
    let mut number = |low: f64, high: f64| random.between(low, high);
    let axis = [number(-tilt, tilt), number(-tilt, tilt), 1.0];
    let length = axis.iter().map(|a| a * a).sum::<f64>().sqrt();
    let [x, y, z] = axis.map(|a| a / length);
    let (sin, cos) = number(-3.2, 3.2).sin_cos();
    let rest = 1.0 - cos;
    let t = [number(-4.0, 4.0), number(-4.0, 4.0), number(-1.0, 1.0)];
    [
        [cos + x * x * rest, x * y * rest - z * sin, x * z * rest + y * sin, t[0]],
        [y * x * rest + z * sin, cos + y * y * rest, y * z * rest - x * sin, t[1]],
        [z * x * rest - y * sin, z * y * rest + x * sin, cos + z * z * rest, t[2]],
    ]
}

/// Solves `m p = q` for a rigid transform by Cramer's rule: unlike the encoder, it knows nothing of rotations.
fn solve(m: &[[f64; 4]; 3], q: [f64; 3]) -> [f64; 3] {
    let det = |a: [[f64; 3]; 3]| {
        a[0][0] * (a[1][1] * a[2][2] - a[1][2] * a[2][1])
            - a[0][1] * (a[1][0] * a[2][2] - a[1][2] * a[2][0])
            + a[0][2] * (a[1][0] * a[2][1] - a[1][1] * a[2][0])
    };
    let a: [[f64; 3]; 3] = std::array::from_fn(|i| std::array::from_fn(|j| m[i][j]));
    let b: [f64; 3] = std::array::from_fn(|i| q[i] - m[i][3]);
    std::array::from_fn(|column| {
        let mut with = a;
        (0..3).for_each(|i| with[i][column] = b[i]);
        det(with) / det(a)
    })
}

#[test]
fn random_crops_equal_a_slow_model() {
    let mut random = Random::new(3);
    let mut inside = 0;
    let mut outside = 0;
    for case in 0..200 {
        let side = |random: &mut Random| 1 + (random.unit() * 30.0) as usize;
        let width = side(&mut random);
        let height = side(&mut random);
        let data: Vec<u8> = (0..width * height).map(|_| (random.unit() * 256.0) as u8).collect();
        let tilt = if case % 2 == 0 { 0.0 } else { 0.3 };
        let view = MapView {
            width,
            height,
            resolution_m: f64::from(0.05f32) + random.unit() * 0.4,
            t_frame_map: transform(&mut random, tilt),
            t_crop_frame: transform(&mut random, tilt),
            data: &data,
        };
        let spec = spec(side(&mut random), side(&mut random), 0.1 + 0.3 * random.unit());
        let row = encoded(&spec, &view);
        for (at, found) in row.iter().enumerate() {
            let i = (at % spec.width) as f64;
            let j = (at / spec.width) as f64;
            let x = i * spec.resolution_m + (0.5 - spec.width as f64 / 2.0) * spec.resolution_m;
            let y = j * spec.resolution_m + (0.5 - spec.height as f64 / 2.0) * spec.resolution_m;
            let [u, v, _] = solve(&view.t_frame_map, solve(&view.t_crop_frame, [x, y, 0.0]));
            let u = u / view.resolution_m;
            let v = v / view.resolution_m;
            // The two ways round differently: on an edge between two cells either may be right.
            if (u - u.round()).abs() < 1e-9 || (v - v.round()).abs() < 1e-9 {
                continue;
            }
            let in_map = u >= 0.0 && v >= 0.0 && u < width as f64 && v < height as f64;
            let expected = match in_map {
                true => {
                    inside += 1;
                    spec.value(data[v as usize * width + u as usize] as i8)
                }
                false => {
                    outside += 1;
                    spec.unknown
                }
            };
            assert_eq!(*found, expected, "case {case}, cell {at}");
        }
    }
    assert!(inside > 1000 && outside > 1000, "{inside} and {outside}");
}
